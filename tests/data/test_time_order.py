"""Rows in the order of a column of times, however the table is read."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.helpers import Chunks

from discreet.data import dependence, tables, time_order
from discreet.data.columns import Labels
from discreet.data.groups import with_clock
from discreet.data.table_warnings import check_both_orders, check_groups, describe_order
from discreet.data.tables import Frame, add_clock, open_stream, read_stretches
from discreet.data.time_order import clock_parts, find_clock, in_time, parts_in_order

TIMES = pd.date_range("2024-01-28", periods=900, freq="7h")
CLOCKS = {
    "epoch": (TIMES - pd.Timestamp("1970-01-01")) // pd.Timedelta("1s"),
    "times": TIMES[:450].repeat(2),  # two rows at a time
    "written": TIMES.strftime("%Y-%m-%d %H:%M"),
    "dates": TIMES.strftime("%d/%m/%Y %H:%M"),
    "days first": TIMES.strftime("%d.%m.%Y %H:%M"),
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


@pytest.mark.parametrize("clock", ["epoch", "written", "dates", "days first"])
def test_moments_are_in_the_order_of_time(clock):
    table = series(clock)
    found = find_clock(table, ["s", "h", "g"])
    np.testing.assert_array_equal(np.argsort(found.moments), np.argsort(series("epoch")["when"]))


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


# --- Parts of a clock ------------------------------------------------------------------------

PARTS = ["when:hour", "when:weekday"]


def at_random_times(rng, n_rows=600):
    """Independent rows at any minute of a month, in any order."""
    hall, bed, h, g = rng.integers([[4], [8], [2], [2]], size=(4, n_rows))
    table = pd.DataFrame({"hall": hall, "bed": bed, "h": h, "g": g})
    minutes = pd.to_timedelta(rng.integers(0, 60 * 24 * 30, n_rows), unit="min")
    times = pd.Timestamp("2026-01-05") + minutes
    table["when"] = times.strftime("%Y-%m-%dT%H:%M:%S")
    table["since"] = (times - pd.Timestamp(0)) // pd.Timedelta("1s")
    return with_clock(table, PARTS)


@pytest.mark.parametrize("order", ["as they come", "in time", "the newest first"])
@pytest.mark.parametrize("clocks", [["when"], ["when", "since"], ["since", "when"]])
def test_the_hour_and_the_weekday_of_independent_rows_raise_no_alarm(rng, order, clocks):
    table = at_random_times(rng)
    if order != "as they come":
        table = table.sort_values("since", ascending=order == "in time", ignore_index=True)
    rows = table[[*clocks, "hall", "bed", *PARTS, "h", "g"]]
    found = check_both_orders(rows, ["hall", "bed", *PARTS], "h", ["g"])
    assert found.checked and not found.found


@pytest.mark.usefixtures("few_looked_at")
def test_the_hour_raises_no_alarm_in_a_long_table_streamed_or_not(rng, tmp_path):
    table, sensors = at_random_times(rng, 4000).drop(columns="since"), ["hall", "bed", *PARTS]
    table.drop(columns=PARTS).to_parquet(tmp_path / "t.parquet")
    found = [
        check_both_orders(read_stretches(each), sensors, "h", ["g"], each)
        for each in (Frame(table), add_clock(open_stream([tmp_path / "t.parquet"]), PARTS))
    ]
    assert found[0] == found[1] and found[0].checked and not found[0].found


def test_what_depends_is_found_beside_parts_of_a_clock(rng):
    ordered = at_random_times(rng).sort_values("since", ignore_index=True)
    ordered["hall"] = np.repeat(rng.integers(4, size=120), 5)
    for rows in (ordered, ordered.sample(frac=1, random_state=0, ignore_index=True)):
        found = check_both_orders(rows.drop(columns="since"), ["hall", *PARTS], "h", ["g"])
        assert found.found and found.strength > 0.5


def test_days_in_order_are_not_compared_by_their_weekdays(rng):
    table = at_random_times(rng).sort_values("since", ignore_index=True)
    days = labelled(table["when"].str[:10])
    assert not check_groups(days, table, ["bed", *PARTS], "h", ["g"]).found


def labelled(column):
    index, classes = pd.factorize(column)
    return Labels("when:day", index, classes)


def test_parts_are_known_by_their_values_and_count_in_another_order(rng):
    table = at_random_times(rng).rename(columns={"when:hour": "hour"}).drop(columns="since")
    sensors = ["hall", "bed", "hour", "when:weekday"]
    assert clock_parts(table, sensors) == {"hour": "when", "when:weekday": "when"}
    assert parts_in_order(table, sensors) == []
    assert parts_in_order(table.sort_values("when"), sensors) == ["hour", "when:weekday"]
    by_hour = table.sort_values("hour", ignore_index=True)
    assert check_both_orders(by_hour, sensors, "h", ["g"]).found
    table.loc[3, "hour"] += 1
    assert clock_parts(table, sensors) == {"when:weekday": "when"}


def test_copies_are_blamed_only_if_no_order_is_left_without_them(rng):
    table = at_random_times(rng).sort_values("since", ignore_index=True).drop(columns="since")
    table["hall"] = np.repeat(rng.integers(4, size=60), 10)  # alike in time, and often the same
    table["bed"] %= 2
    rows = table.sample(frac=1, random_state=0, ignore_index=True)
    found = check_both_orders(rows, ["hall", "bed"], "h", ["g"])
    assert found.found
    said = describe_order(found, rows, ["hall", "bed", "when:hour"], "h", ["g"], None)
    assert "It is gone" not in said
