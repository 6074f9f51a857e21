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
from discreet.data.time_order import clock_parts, find_clocks, in_time, parts_in_order

TIMES = pd.date_range("2024-01-28", periods=900, freq="7h")
CLOCKS = {
    "epoch": (TIMES - pd.Timestamp("1970-01-01")) // pd.Timedelta("1s"),
    "times": TIMES[:450].repeat(2),  # two rows at a time
    "written": TIMES.strftime("%Y-%m-%d %H:%M"),
    "dates": TIMES.strftime("%d/%m/%Y %H:%M"),
    "days first": TIMES.strftime("%d.%m.%Y %H:%M"),
    "counter": np.arange(900),
}


@pytest.fixture
def few_looked_at(monkeypatch):
    """Of tables of hundreds of rows, stretches are looked at."""
    for module in (dependence, time_order):
        monkeypatch.setattr(module, "MOST_ROWS", 120)
    monkeypatch.setattr(dependence, "_MOST_COMPARED", 240)


def next_clock(rows, used):
    return next(find_clocks(rows, used), None)


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
    found = next_clock(rows, ["s", "h", "g"])
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
    found = next_clock(table, ["s", "h", "g"])
    np.testing.assert_array_equal(np.argsort(found.moments), np.argsort(series("epoch")["when"]))


@pytest.mark.usefixtures("few_looked_at")
def test_rows_whose_time_is_not_known_are_left_out_of_the_order(rng):
    table = series("epoch").astype({"when": object})
    rows = read_stretches(Frame(table))
    unknown = np.setdiff1d(np.arange(900), rows.index)[:200]
    table.loc[unknown[::2], "when"], table.loc[unknown[1::2], "when"] = None, "unavailable"
    clock = next_clock(rows, ["s", "h", "g"])
    found = in_time(clock, rows, Frame(table), ["s"])
    assert not set(found.index) & set(unknown) and len(found) > 100
    in_chunks = in_time(clock, rows, Chunks(table, [300, 301, 800]), ["s"])
    pd.testing.assert_frame_equal(in_chunks, found)


def shuffled_series(rng, n_rows=3000):
    """A series in which readings follow one another, and its times, in random order."""
    noise, level = rng.normal(size=n_rows), np.zeros(n_rows)
    for k in range(1, n_rows):
        level[k] = 0.95 * level[k - 1] + noise[k]
    table = pd.DataFrame({"a": level, "pub": rng.integers(2, size=n_rows)})
    table["prv"] = rng.integers(2, size=n_rows)
    table["when"] = pd.date_range("2026-01-01", periods=n_rows, freq="min").astype(str)
    return table.iloc[rng.permutation(n_rows)].reset_index(drop=True)


@pytest.mark.parametrize(
    "column", [None, "drawn", "counter of something else", "times of something else"]
)
def test_every_column_of_times_is_looked_at(rng, column):
    table = shuffled_series(rng)
    other = {
        "drawn": rng.permutation(10**6)[:3000],
        "counter of something else": rng.permutation(3000),
        "times of something else": 1_700_000_000 + rng.permutation(10**6)[:3000],
    }
    if column is not None:
        table.insert(0, column, other[column])
    found = check_both_orders(table, ["a"], "pub", ["prv"])
    assert found.found and found.in_order_of == "when"
    assert found.words.startswith("in the order of 'when', rows that follow one another resemble")


@pytest.mark.parametrize(
    "write",
    [
        lambda level, _: (30_000 + 9_000 * level).astype(int),
        lambda level, _: np.array(["1st", "2nd", "3rd"])[np.digitize(level, [-0.5, 0.5])],
        lambda level, _: np.array(["1-2", "3-4", "5-6"])[np.digitize(level, [-0.5, 0.5])],
        lambda level, _: np.array(["Jan", "Apr"])[(level > 0).astype(int)],
        lambda level, _: [f"{int(8 + each)}:05" for each in level],
        lambda level, _: np.array(["1.5.0", "1.6.0", "1.15.2"])[np.digitize(level, [-0.5, 0.5])],
        lambda level, _: np.array(["10s", "30s", "T1", "11,5"])[np.digitize(level, [-1, 0, 1])],
        lambda _, rng: rng.integers(10**6, 10**7, 2000),
    ],
    ids=["salary", "floor", "household", "month", "hour", "version", "mixture", "number"],
)
def test_attributes_of_independent_rows_are_no_clock(rng, write):
    level = rng.normal(size=2000)
    table = pd.DataFrame({"x": write(level, rng), "a": level + 0.1 * rng.normal(size=2000)})
    table["pub"], table["prv"] = rng.integers(2, size=(2, 2000))
    assert not check_both_orders(table, ["a"], "pub", ["prv"]).found
    assert next_clock(table, ["a", "pub", "prv"]) is None


@pytest.mark.parametrize(
    "form",
    ["%d.%m.%y", "%m/%d/%Y", "%b %d, %Y", "%d %b %y", "%Y%m%d", "%d-%m-%y %H:%M", "%a %b %d %Y"],
)
def test_dates_with_a_year_are_a_clock(rng, form):
    days = pd.date_range("2019-01-05", periods=400).strftime(form)
    table = pd.DataFrame({"when": days[rng.permutation(400)], "a": rng.normal(size=400)})
    assert next_clock(table, ["a"]).column == "when"


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


@pytest.mark.parametrize("names", [["when", "day"], ["day", "when"]])
def test_the_weekday_of_two_columns_of_times_raises_no_alarm(rng, names):
    """Of rows in the order of one of them the weekday follows, whichever it was taken from."""
    table = at_random_times(rng, 1500).drop(columns=["since", *PARTS])
    table["day"] = table["when"].str[:10]
    sensors = ["hall", "bed", "when:hour", "day:weekday"]
    rows = with_clock(table[[*names, "hall", "bed", "h", "g"]], sensors[2:])
    assert {name: set(own) for name, own in clock_parts(rows, sensors).items()} == {
        "when:hour": {"when"},
        "day:weekday": {"when", "day"},
    }
    assert not check_both_orders(rows, sensors, "h", ["g"]).found


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
    assert clock_parts(table, sensors) == {"hour": ["when"], "when:weekday": ["when"]}
    assert parts_in_order(table, sensors) == []
    assert parts_in_order(table.sort_values("when"), sensors) == ["hour", "when:weekday"]
    by_hour = table.sort_values("hour", ignore_index=True)
    assert check_both_orders(by_hour, sensors, "h", ["g"]).found
    table.loc[3, "hour"] += 1
    assert clock_parts(table, sensors) == {"when:weekday": ["when"]}


def test_copies_are_blamed_only_if_no_order_is_left_without_them(rng):
    table = at_random_times(rng).sort_values("since", ignore_index=True).drop(columns="since")
    table["hall"] = np.repeat(rng.integers(4, size=60), 10)  # alike in time, and often the same
    table["bed"] %= 2
    rows = table.sample(frac=1, random_state=0, ignore_index=True)
    found = check_both_orders(rows, ["hall", "bed"], "h", ["g"])
    assert found.found
    said = describe_order(found, rows, ["hall", "bed", "when:hour"], "h", ["g"], None)
    assert "It is gone" not in said
