"""Text that is streamed is what it is when it is read whole."""

import gzip

import numpy as np
import pandas as pd
import pytest
from support.helpers import home, refused
from support.searches import rows

from discreet.data import opening, text_files
from discreet.data.fit_encoders import fit_encoders
from discreet.data.opening import stream_text
from discreet.data.split import table_digest
from discreet.data.tables import read_table, read_tables
from discreet.design.left_out import leave_out

pytest.importorskip("pyarrow")

COLUMNS = {
    "whole": "1 2 3 4 5 6 7",
    "gaps": "1 2 NA 4 5 6 7",
    "floats": "1 2 3 4 0.1 1e300 7",
    "late text": "1 2.50 3 4 5 6 x",
    "late number": "x y 3 4 5 6 7",
    "booleans": "True False True False True False True",
    "written booleans": "TRUE false True False TRUE NA true",
    "booleans, then numbers": "True False True False 1 2 3",
    "gaps first": "NA NA NA NA 1.5 2 3",
    "gaps only": "NA NA NA NA NA NA NA",
    "words": "1.5 unavailable 3 4 5 unknown 7",
    "times": "2024-01-01 2024-01-02 2024-01-03 2024-01-04 2024-01-05 2024-01-06 2024-01-07",
}


@pytest.fixture
def few_rows(monkeypatch):
    def batches(file, dtypes=None):
        return text_files.read_text_batches(file, dtypes, rows=3)

    monkeypatch.setattr(opening, "read_text_batches", batches)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_of_the_kind_that_all_its_rows_tell(tmp_path, few_rows, name):
    file = tmp_path / "t.csv"
    file.write_text("\n".join(["a", *COLUMNS[name].split()]) + "\n")
    whole = read_table(file)
    stream = stream_text([file], tmp_path)
    found = pd.concat(stream.batches(["a"]))
    assert table_digest(found) == table_digest(whole)
    assert fit_encoders(found) == fit_encoders(whole)
    assert list(tmp_path.iterdir()) == [file]


def test_several_files_are_one_table(tmp_path, few_rows):
    table, files = home(90), []
    for k, name in enumerate(["a.csv", "b.tsv", "c.csv.gz"]):
        part = table[30 * k : 30 * (k + 1)]
        columns = list(table)[::-1] if k else list(table)
        part[columns].to_csv(tmp_path / name, index=False, sep="\t" if "tsv" in name else ",")
        files.append(tmp_path / name)
    stream = stream_text(files, tmp_path)
    found = pd.concat(stream.batches(stream.columns))
    assert table_digest(found) == table_digest(read_tables(files))


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"a,b\n1,2\n1\n", "line 3 has 1 values"),
        (b'a,b\n"1\n",2\n1,2,3\n', "line 4 has 3 values"),
        (b"a,b\n1,\x81\n", "is not UTF-8"),
        (b"a,b\n", "header and no rows"),
    ],
)
def test_what_is_no_table_is_refused_as_when_it_is_read_whole(tmp_path, data, match):
    file = tmp_path / "t.csv"
    file.write_bytes(data)
    assert refused(match, stream_text, [file], tmp_path) == refused(match, read_table, file)
    zipped = tmp_path / "t.csv.gz"
    zipped.write_bytes(gzip.compress(data)[:-12])
    refused("damaged gzip", stream_text, [zipped], tmp_path)


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    file = tmp_path / "t.csv"
    home(30).to_csv(file, index=False)
    refused("--work-dir .*nowhere: cannot hold a copy", stream_text, [file], tmp_path / "nowhere")


def test_quoted_lines_are_counted_as_csv_counts_them(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text('a,b\n1,2\n"x, y",2\n"two\nlines",3\n\n4,5\n')
    table = read_table(file)
    assert table["a"].tolist() == ["1", "x, y", "two\nlines", "4"]
    np.testing.assert_array_equal(table["b"], [2, 2, 3, 5])


@pytest.mark.parametrize("n_rows", [30_000, 60_000, 100_000])
def test_memory_is_counted_for_all_rows_that_are_left_out_to_list_their_outputs(n_rows, rng):
    """Without a holdout a third of them is: 60,000 rows of ten sensors took 627 MiB of 573."""
    left_out = leave_out(rows(n_rows, rng), None, rng, n_folds=5).left_out
    taken = len(left_out) * opening._LOOKED_AT_BYTES - opening._LOOKED_AT_ANYWAY
    assert opening._looked_at(n_rows) >= taken
