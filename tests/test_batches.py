from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import home, refused

from discreet import batches
from discreet.batches import can_stream, find_files, memory_needed, open_stream, read_tables


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
    refused("no file is called like this", find_files, [days[0].parent / "*.csv"])


def test_files_of_one_table_are_read_one_below_the_other(days, tmp_path):
    pd.testing.assert_frame_equal(read_tables(days), home(90))
    odd = write(tmp_path, "x.csv", home(30).rename(columns={"hall": "hal"}))
    refused("x.csv: has no column 'hall', which .*day-0.parquet has", read_tables, [days[0], odd])
    odd = write(tmp_path, "x.csv", home(30).assign(more=1))
    refused("x.csv: has a column 'more'", read_tables, [days[0], odd])


# --- Streams ---------------------------------------------------------------------------------


def test_a_stream_gives_the_rows_in_order_some_at_a_time(days, monkeypatch):
    monkeypatch.setattr(batches, "BATCH_ROWS", 7)
    stream = open_stream(days)
    assert stream.rows == 90
    assert stream.kinds == {
        "hall": "number", "door": "text", "fall": "boolean", "who": "text", "day": "number",
    }  # fmt: skip
    parts = list(stream.batches(["who", "hall"]))
    assert max(map(len, parts)) == 7
    found = pd.concat(parts, ignore_index=True)
    pd.testing.assert_frame_equal(found, home(90)[["who", "hall"]])


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
    refused(
        "t.parquet: not a readable Parquet file", lambda: list(open_stream([path]).batches("x"))
    )


def test_folders_and_absent_files_are_refused(tmp_path):
    refused("is a directory", open_stream, [tmp_path])
    refused("no such file", open_stream, [tmp_path / "t.parquet"])


# --- How much memory -------------------------------------------------------------------------


def test_the_memory_that_a_table_takes_is_told_before_it_is_read(days, tmp_path):
    assert memory_needed(days) == 90 * 5 * batches.CELL_BYTES
    text = write(tmp_path, "t.csv", home(90))
    assert memory_needed([text]) == pytest.approx(90 * 5 * batches.CELL_BYTES, rel=1.0)
    assert can_stream(days) and not can_stream([text]) and not can_stream([*days, Path("t.tsv")])
