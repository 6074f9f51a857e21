import gzip
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.helpers import Chunks, home, refused

from discreet.data import dependence, tables, text_files
from discreet.data.opening import CELL_BYTES, memory_needed
from discreet.data.split import table_digest
from discreet.data.tables import (
    Frame,
    Stretches,
    can_stream,
    find_files,
    first_rows,
    open_stream,
    read_stretches,
    read_table,
    read_tables,
)
from discreet.errors import InputError


def write(folder, name, table):
    path = folder / name
    table.to_csv(path, index=False) if name.endswith(".csv") else table.to_parquet(path)
    return path


@pytest.fixture
def days(tmp_path):
    table = home(90)
    return [write(tmp_path, f"day-{k}.parquet", table[30 * k : 30 * (k + 1)]) for k in range(3)]


# --- Files -----------------------------------------------------------------------------------


def test_patterns_and_lists_name_the_same_files_in_one_order(days):
    folder = days[0].parent
    assert find_files([folder / "day-*.parquet"]) == days
    assert find_files(days[::-1]) == days
    assert find_files([days[1], folder / "day-[02].parquet"]) == days


def test_a_file_whose_name_looks_like_a_pattern_is_itself(tmp_path):
    odd = write(tmp_path, "day[1].parquet", home(30))
    assert find_files([odd]) == [odd]


def test_files_named_twice_and_patterns_without_files_are_refused(days):
    refused("named twice", find_files, [days[0], days[0].parent / "." / days[0].name])
    refused("named twice", find_files, [days[0], days[0].parent / "*.parquet"])
    refused("no file matches this pattern", find_files, [days[0].parent / "*.csv"])


def test_files_of_one_table_are_read_one_below_the_other(days, tmp_path):
    pd.testing.assert_frame_equal(read_tables(days), home(90))
    odd = write(tmp_path, "x.csv", home(30).rename(columns={"hall": "hal"}))
    refused("x.csv: has no column 'hall', which .*day-0.parquet has", read_tables, [days[0], odd])
    odd = write(tmp_path, "x.csv", home(30).assign(more=1))
    refused("x.csv: has a column 'more'", read_tables, [days[0], odd])


# --- Whole files -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv", "t.CSV", "t.csv.gz", "t.tsv", "t.tsv.gz", "t.parquet"])
def test_a_saved_table_reads_back_the_same(tmp_path, name):
    table, file = home(), tmp_path / name
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
        table.to_parquet(file)
    else:
        table.to_csv(file, index=False, sep="\t" if ".tsv" in name else ",")
    pd.testing.assert_frame_equal(read_table(file), table)
    assert table_digest(read_table(file)) == table_digest(table)


def test_floats_survive_text_to_the_last_bit(tmp_path):
    values = np.random.default_rng(1).normal(size=500) * 10.0 ** np.arange(-250, 250)
    pd.DataFrame({"a": values}).to_csv(tmp_path / "t.csv", index=False)
    np.testing.assert_array_equal(read_table(tmp_path / "t.csv")["a"], values)


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfa,b\n1,2\n")
    assert list(read_table(tmp_path / "t.csv").columns) == ["a", "b"]


HALF_GZIP = gzip.compress(b"a,b\n" + b"1,2\n" * 5000, mtime=0)[:40]


@pytest.mark.parametrize(
    ("name", "data", "match"),
    [
        ("t.csv", b"", "is empty"),
        ("t.csv", b"\n\n\n", "is empty"),
        ("t.csv", b"a,b\n", "header and no rows"),
        ("t.xlsx", b"a,b\n1,2\n", "not a readable Excel file"),
        ("t.ods", b"a,b\n1,2\n", "cannot tell the format from '.ods'"),
        ("table", b"a,b\n1,2\n", "cannot tell the format from 'no suffix'"),
        ("t.csv", b"a,b\n1,\x81\n", "byte 0x81 is not UTF-8"),
        ("t.csv", b"a,b\n1,2\n1,2,3\n", "line 3 has 3 values; the header has 2 columns"),
        ("t.csv", b"a,b\n1,2,3\n4,5,6\n", "line 2 has 3 values"),
        ("t.csv", b"a,b,c\n1,2,3\n1,2\n", "line 3 has 2 values"),
        ("t.csv", b"a,b,a\n1,2,3\n", "more than one column is called 'a'"),
        ("t.csv", b",a\n0,1\n", "column 1 has no name"),
        ("t.csv", b'a,b\n1,"2\n', "not a readable table"),
        ("t.csv", b"a,b\n1," + b"x" * 200_000 + b"\n", "not a readable table"),
        ("t.csv.gz", b"a,b\n1,2\n", "damaged gzip"),
        ("t.csv.gz", HALF_GZIP, "damaged gzip"),
        ("t.parquet", b"PAR1 nonsense", "not a readable Parquet file"),
    ],
)
def test_a_file_that_is_no_table_is_refused_in_one_line(tmp_path, name, data, match):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(data)
    assert name in refused(match, read_table, tmp_path / name)


def test_gzip_that_expands_beyond_measure_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "ALWAYS_EXPANDED", 1 << 16)
    file = tmp_path / "t.csv.gz"
    file.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 100_000))
    assert file.stat().st_size * text_files.MOST_EXPANDED < 400_000
    refused("t.csv.gz: expands to more than 0 MiB, 100 times its size", read_table, file)
    (tmp_path / "t.csv").write_bytes(gzip.decompress(file.read_bytes()))
    assert len(read_table(tmp_path / "t.csv")) == 100_000


def test_a_line_without_an_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "MAX_LINE", 1 << 10)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n" + b"1" * 5000))
    refused("line 3 has more than 1024 characters", read_table, tmp_path / "t.csv.gz")


def test_a_missing_file_and_a_directory_are_refused(tmp_path):
    refused("no such file", read_table, tmp_path / "t.csv")
    (tmp_path / "d.csv").mkdir()
    refused("is a directory", read_table, tmp_path / "d.csv")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    refused(r'pip install "discreet\[parquet\]"', read_table, tmp_path / "t.parquet")


@given(st.binary(max_size=60), st.sampled_from(["t.csv", "t.tsv", "t.csv.gz", "t.parquet"]))
def test_no_bytes_make_reading_fail_in_another_way(tmp_path_factory, data, name):
    file = tmp_path_factory.mktemp("any") / name
    file.write_bytes(data)
    try:
        table = read_table(file)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert len(table) and table.columns.is_unique


# --- Streams ---------------------------------------------------------------------------------


def test_a_stream_gives_the_rows_in_order_some_at_a_time(days, monkeypatch):
    monkeypatch.setattr(tables, "BATCH_ROWS", 7)
    stream = open_stream(days)
    assert stream.rows == 90
    assert stream.kinds == {
        "hall": "number", "door": "text", "fall": "boolean", "who": "text", "day": "number",
    }  # fmt: skip
    parts = list(stream.batches(["who", "hall"]))
    assert max(map(len, parts)) == 7
    found = pd.concat(parts, ignore_index=True)
    pd.testing.assert_frame_equal(found, home(90)[["who", "hall"]])


@pytest.mark.parametrize("name", [None, "day"])
def test_an_index_that_pandas_stored_is_a_column_if_it_has_a_name(tmp_path, name):
    table = home(90)
    indexed = table.set_index("day").rename_axis(name)
    file = write(tmp_path, "t.parquet", indexed)
    wanted = indexed.reset_index(drop=name is None)
    found = read_table(file)
    pd.testing.assert_frame_equal(found[list(wanted)], wanted)
    stream = open_stream([file])
    assert stream.columns == list(found) and len(list(found)) == len(list(wanted))
    pd.testing.assert_frame_equal(pd.concat(stream.batches(stream.columns)), found)


def test_numbers_of_two_bytes_are_read_with_four(tmp_path):
    """pandas has no index, and so no order, of such numbers."""
    narrow = home(90)[["hall", "who"]].astype({"hall": "float16"})
    file = write(tmp_path, "t.parquet", narrow)
    found, stream = read_table(file), open_stream([file])
    assert found["hall"].dtype == np.float32 and stream.holds_numbers("hall")
    pd.testing.assert_frame_equal(found, narrow.astype({"hall": "float32"}))
    pd.testing.assert_frame_equal(pd.concat(stream.batches(stream.columns)), found)


def test_columns_may_come_in_any_order_and_width_of_number(days, tmp_path):
    other = home(30)[["day", "who", "fall", "door", "hall"]].astype({"hall": "float32"})
    stream = open_stream([*days, write(tmp_path, "z.parquet", other.astype({"door": "category"}))])
    assert stream.rows == 120
    assert len(pd.concat(list(stream.batches(["hall", "door"])))) == 120


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.drop(columns="door"), "has no column 'door', which .*day-0.parquet has"),
        (lambda t: t.assign(more=1), "has a column 'more', which .*day-0.parquet has not"),
        (lambda t: t.assign(hall="a"), "column 'hall' holds text; in .*day-0.parquet it holds num"),
        (
            lambda t: t.assign(day=pd.Timestamp("2020-01-01")),
            "column 'day' holds timestamp.*; in .*day-0.parquet it holds number",
        ),
    ],
)
def test_files_that_differ_in_their_columns_are_refused(days, tmp_path, change, words):
    odd = write(tmp_path, "odd.parquet", change(home(30)))
    refused(f"odd.parquet: {words}", open_stream, [*days, odd])


def test_a_file_cut_short_is_named(days):
    data = days[1].read_bytes()
    for length in (3, len(data) // 2, len(data) - 1):
        days[1].write_bytes(data[:length])
        refused("day-1.parquet: not a readable Parquet file", open_stream, days)


def test_a_file_damaged_in_the_middle_is_named_when_its_rows_are_read(tmp_path):
    table = pd.DataFrame({"x": np.random.default_rng(0).normal(size=50_000)})
    path = tmp_path / "t.parquet"
    table.to_parquet(path, compression="zstd")
    data = bytearray(path.read_bytes())
    data[len(data) // 4 : len(data) // 2] = b"\xff" * (len(data) // 2 - len(data) // 4)
    path.write_bytes(data)
    said = refused(
        "t.parquet: not a readable Parquet file", lambda: list(open_stream([path]).batches("x"))
    )
    assert said.endswith("Copy or write it again.")


def test_folders_and_absent_files_are_refused(tmp_path):
    refused("is a directory", open_stream, [tmp_path])
    refused("no such file", open_stream, [tmp_path / "t.parquet"])


# --- How much memory -------------------------------------------------------------------------


def test_the_memory_that_a_table_takes_is_told_before_it_is_read(days, tmp_path):
    assert memory_needed(days) == 90 * 5 * CELL_BYTES
    text = write(tmp_path, "t.csv", home(90))
    assert memory_needed([text]) == pytest.approx(90 * 5 * CELL_BYTES, rel=1.0)
    assert can_stream(days) and not can_stream([text]) and not can_stream([*days, Path("t.tsv")])


def test_a_parquet_file_that_memory_cannot_hold_is_one_message(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    pd.DataFrame({"a": range(100)}).to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(tables, "_memory", lambda: 500)
    with pytest.raises(InputError, match="too large to be held in memory"):
        read_table(tmp_path / "t.parquet")


# --- Rows whose order is looked at -----------------------------------------------------------


@pytest.fixture
def few_looked_at(monkeypatch):
    """Of tables of hundreds of rows, stretches are looked at."""
    monkeypatch.setattr(dependence, "MOST_ROWS", 60)
    monkeypatch.setattr(dependence, "_MOST_COMPARED", 150)


def looked_at_slowly(table):
    """The slow twin, for a table in memory: twelve times so many rows, counted one by one."""
    n_rows, length = len(table), 150 // 12
    if n_rows <= 150:
        return list(range(n_rows))
    return [k * n_rows // 12 + j for k in range(12) for j in range(length)]


@pytest.mark.usefixtures("few_looked_at")
@given(st.integers(1, 900), st.lists(st.integers(0, 900), max_size=30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_same_rows_are_looked_at_whatever_the_batches(n_rows, cuts):
    table = home(n_rows)
    wanted = table.iloc[looked_at_slowly(table)]
    pd.testing.assert_frame_equal(read_stretches(Frame(table)), wanted)
    seen, chunks = Stretches(chunked := Chunks(table, cuts)), []
    for batch in seen.passed(chunked.batches(["who", "fall", "door", "hall", "day"])):
        chunks.append(batch)
    pd.testing.assert_frame_equal(seen.finish(), wanted)
    assert sum(map(len, chunks)) == n_rows  # all were passed on


@pytest.mark.usefixtures("few_looked_at")
def test_the_same_rows_are_looked_at_in_files(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "BATCH_ROWS", 33)
    table = home(700)
    wanted = table.iloc[looked_at_slowly(table)]
    files = []
    for k, (begin, end) in enumerate([(0, 1), (1, 340), (340, 700)]):
        files.append(tmp_path / f"{k}.parquet")
        table[begin:end].to_parquet(files[-1], row_group_size=70)
    pd.testing.assert_frame_equal(read_stretches(open_stream(files)), wanted)


def test_the_first_rows_are_as_many_as_are_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "BATCH_ROWS", 7)
    home(40).to_parquet(tmp_path / "t.parquet")
    for table in (Frame(home(40)), open_stream([tmp_path / "t.parquet"])):
        for count in (5, 7, 20, 99):
            pd.testing.assert_frame_equal(first_rows(table, count), home(40)[:count])
