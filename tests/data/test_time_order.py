"""Rows in the order of a column of times, however the table is read."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.helpers import Chunks

from discreet.data import dependence, tables, time_order
from discreet.data.table_warnings import check_both_orders
from discreet.data.tables import Frame, open_stream, read_stretches
from discreet.data.time_order import find_clock, in_time

TIMES = pd.date_range("2024-01-28", periods=900, freq="7h")
CLOCKS = {
    "epoch": (TIMES - pd.Timestamp("1970-01-01")) // pd.Timedelta("1s"),
    "times": TIMES[:450].repeat(2),  # two rows at a time
    "written": TIMES.strftime("%Y-%m-%d %H:%M"),
    "dates": TIMES.strftime("%d/%m/%Y %H:%M"),
    "counter": np.arange(900) * 3,
}


@pytest.fixture
def few_looked_at(monkeypatch):
    """Of tables of hundreds of rows, stretches are looked at."""
    for module in (dependence, time_order):
        monkeypatch.setattr(module, "MOST_ROWS", 120)
    monkeypatch.setattr(dependence, "_MOST_COMPARED", 240)


def series(clock, n_rows=900, seed=0):
    """A shuffled series, of which some times are not known that nobody looks at."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"s": np.repeat(rng.normal(size=180), 5)})
    table["s"] += 0.3 * rng.normal(size=900)
    table["h"], table["g"] = rng.integers(2, size=(2, 900))
    table["when"] = CLOCKS[clock]
    return table.iloc[rng.permutation(900)[:n_rows]].reset_index(drop=True)


def in_time_slowly(table, clock, rows):
    """The slow twin: the whole table is sorted, and stretches are taken by their first moments."""
    every = pd.DataFrame({"moment": clock.read(table[clock.column])}).sort_values(
        "moment", kind="stable"
    )
    begins = np.sort(clock.read(rows[clock.column]))[[k * len(rows) // 12 for k in range(12)]]
    chosen = [row for begin in begins for row in every[every["moment"] >= begin].index[:10]]
    return table.loc[list(dict.fromkeys(chosen)), ["s", "h"]]


@pytest.mark.usefixtures("few_looked_at")
@pytest.mark.parametrize("clock", CLOCKS)
@given(st.integers(241, 900), st.lists(st.integers(0, 900), max_size=20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=8)
def test_the_same_rows_follow_one_another_in_time_whatever_the_batches(clock, n_rows, cuts):
    table = series(clock, n_rows)
    rows = read_stretches(Frame(table))
    found = find_clock(rows, ["s", "h", "g"])
    assert found.column == "when" and len(rows) < n_rows
    wanted = in_time_slowly(table, found, rows)
    for each in (Frame(table), Chunks(table, cuts)):
        pd.testing.assert_frame_equal(in_time(found, rows, each, ["s", "h"]), wanted)


@pytest.mark.usefixtures("few_looked_at")
@pytest.mark.parametrize("clock", CLOCKS)
def test_a_long_shuffled_series_is_found_in_memory_and_streamed(tmp_path, monkeypatch, clock):
    monkeypatch.setattr(tables, "BATCH_ROWS", 100)
    table = series(clock)
    table.to_parquet(tmp_path / "t.parquet")
    found = [
        check_both_orders(read_stretches(each), ["s"], "h", ["g"], each)
        for each in (Frame(table), open_stream([tmp_path / "t.parquet"]))
    ]
    assert found[0] == found[1] and found[0].found and found[0].kind == "next"
    alone = read_stretches(Frame(table))
    assert not check_both_orders(alone.drop(columns="when"), ["s"], "h", ["g"]).found


@pytest.mark.usefixtures("few_looked_at")
def test_rows_whose_time_is_not_known_are_left_out_of_the_order(rng):
    table = series("epoch").astype({"when": object})
    rows = read_stretches(Frame(table))
    unknown = np.setdiff1d(np.arange(900), rows.index)[:200]
    table.loc[unknown[::2], "when"], table.loc[unknown[1::2], "when"] = None, "unavailable"
    clock = find_clock(rows, ["s", "h", "g"])
    found = in_time(clock, rows, Frame(table), ["s"])
    assert not set(found.index) & set(unknown) and len(found) > 100
    in_chunks = in_time(clock, rows, Chunks(table, [300, 301, 800]), ["s"])
    pd.testing.assert_frame_equal(in_chunks, found)
