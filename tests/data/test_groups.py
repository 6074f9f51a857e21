"""Groups by a column, by units of time and by the order of rows."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.helpers import home, refused

from discreet.data.groups import (
    Grouping,
    GroupTally,
    as_noun,
    can_group,
    group_columns,
    group_values,
    parse_group,
)
from discreet.data.split import Split, split_rows

TIMES = ["2015-02-04 17:51:00", "2015-02-04 18:02", "2015-02-08 00:00", "2015-02-09 23:59"]
DAYS = ["2015-02-04", "2015-02-04", "2015-02-08", "2015-02-09"]


def groups(values, unit="day"):
    return group_values(pd.DataFrame({"date": values}), f"date:{unit}").tolist()


# --- What a text names ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "columns", "wanted"),
    [
        ("home", ["home"], Grouping(column="home")),
        ("date:day", ["date"], Grouping(column="date", unit="day")),
        ("date:day", ["date", "date:day"], Grouping(column="date:day")),
        ("a:b:week", ["a:b"], Grouping(column="a:b", unit="week")),
        ("rows:60", ["date"], Grouping(rows=60)),
        ("rows:60", ["rows"], Grouping(rows=60)),
        ("rows:day", ["rows"], Grouping(column="rows", unit="day")),
        ("rows:60", ["rows:60"], Grouping(column="rows:60")),
    ],
)
def test_a_text_names_a_column_a_unit_or_rows(spec, columns, wanted):
    assert parse_group(spec, columns) == wanted
    assert group_columns(spec, columns) == ([] if wanted.column is None else [wanted.column])
    assert can_group(spec, columns)


@pytest.mark.parametrize(
    ("name", "noun"),
    [
        ("home", "home"),
        ("Home ID", "'Home ID' group"),
        ("home_id", "'home_id' group"),
        ("a\nb\u202e", r"'a\nb\u202e' group"),
        (" ", "group"),
        (None, "group"),
        (3, "group"),
    ],
)
def test_a_group_is_called_by_its_column(name, noun):
    assert as_noun(name) == noun
    assert len(as_noun("x" * 1000)) < 40


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("dat:day", "no column 'dat' for the groups. Did you mean 'date'"),
        ("date:dya", "the unit 'dya' of column 'date'. Did you mean 'day'"),
        ("date:", "the unit '' of column 'date'. There are: 'day', 'hour', 'week'"),
        ("date:minute", "the unit 'minute' of column 'date'"),
        ("rows:1", "'rows:1' must name how many successive rows make a group, from 2"),
        ("rows:-3", "'rows:-3' must name how many"),
        ("rows:" + "9" * 5000, "must name how many"),
        ("rows:\N{SUPERSCRIPT TWO}", "must name how many"),
        (":day", "no column '' for the groups"),
        ("", "no column '' for the groups"),
    ],
)
def test_a_text_that_names_nothing_is_refused(spec, said):
    refused(said, parse_group, spec, ["date", "hall"])
    assert not can_group(spec, ["date", "hall"])


def test_no_group_needs_no_column():
    assert group_columns(None, ["date"]) == []


# --- Times ---------------------------------------------------------------------------------


def test_times_are_grouped_by_the_day_hour_and_week_they_are_written_with():
    assert groups(TIMES) == DAYS
    assert groups(TIMES, "hour") == ["2015-02-04T17", "2015-02-04T18", "2015-02-08T00",
                                     "2015-02-09T23"]  # fmt: skip
    assert groups(TIMES, "week") == ["week of 2015-02-02"] * 3 + ["week of 2015-02-09"]


@given(st.lists(st.datetimes(dt.datetime(1973, 4, 1), dt.datetime(2099, 1, 1)), min_size=1))
@pytest.mark.slow
def test_every_way_to_write_a_time_gives_the_same_groups(times):
    whole = [time.replace(microsecond=0) for time in times]
    since = [(time - dt.datetime(1970, 1, 1)).total_seconds() for time in whole]
    later = pd.Series(pd.to_datetime(whole)).dt.tz_localize("UTC").dt.tz_convert(None)
    for unit in ("day", "hour", "week"):
        # The obvious twin: Python's own calendar.
        wanted = {
            "day": [time.strftime("%Y-%m-%d") for time in whole],
            "hour": [time.strftime("%Y-%m-%dT%H") for time in whole],
            "week": [f"week of {time.date() - dt.timedelta(time.weekday())}" for time in whole],
        }[unit]
        for values in (
            [time.isoformat() for time in whole],
            [time.isoformat(" ") + "+05:30" for time in whole],
            [time.strftime("%Y-%m-%dT%H:%MZ") for time in whole],
            pd.Series(whole, dtype=object),
            later,
            since,
        ):
            assert groups(values, unit) == wanted


def test_german_dates_are_times():
    german = ["04.02.2015 17:51:00", "04.02.2015, 18:02", " 08.02.2015", "09.02.2015 23:59"]
    assert groups(german) == DAYS
    assert groups(german[:2], "hour") == ["2015-02-04T17", "2015-02-04T18"]
    refused("holds '31.02.2015' in row 1, which is no date", groups, ["31.02.2015"])


def test_a_day_is_a_day_where_the_row_was_written():
    late = ["2015-02-04T23:30:00-05:00", "2015-02-05T04:30:00Z"]  # one moment
    assert groups(late) == ["2015-02-04", "2015-02-05"]
    tokyo = pd.Series(pd.to_datetime(["2015-02-04 23:30"])).dt.tz_localize("Asia/Tokyo")
    assert groups(tokyo) == ["2015-02-04"]


@pytest.mark.parametrize("scale", [1, 1_000, 1_000_000, 1_000_000_000])
def test_numbers_are_seconds_since_1970_or_finer(scale):
    assert groups([1423072260 * scale], "hour") == ["2015-02-04T17"]


def test_dates_periods_and_other_columns():
    assert groups([dt.date(2015, 2, 4)]) == ["2015-02-04"]
    assert groups(pd.Series(pd.period_range("2015-02-04", periods=2, freq="D"))) == [
        "2015-02-04", "2015-02-05",
    ]  # fmt: skip
    assert groups(pd.Series(TIMES, dtype="category")) == DAYS
    table = pd.DataFrame({"home": [1.0, 2.0, 1.0]})
    assert group_values(table, "home").tolist() == ["1", "2", "1"]


@pytest.mark.parametrize(
    ("values", "unit", "said"),
    [
        (["2015-02-04", "04/02/2015", "x"], "day", "'date' holds '04/02/2015' in row 2, which is "
         "no .*; 1 of 2 other rows have none either. Write times like 2015-02-04 17:51"),
        (["2015-02-30"], "day", "'2015-02-30' in row 1"),
        (["2015-02-04T25:00"], "day", "'2015-02-04T25:00'"),
        (["2015-02-04 17:99"], "day", "'2015-02-04 17:99'"),
        (["2015-02-04"], "hour", "no time with an hour"),
        (["2015-02-04" + "0" * 10**6], "day", "no date or time"),
        (["\N{ARABIC-INDIC DIGIT TWO}015-02-04"], "day", "no date or time"),
        ([20150204], "day", "holds 20150204 in row 1"),
        ([201502041751], "day", "holds 201502041751"),
        ([1e300], "day", "no date or time"),
        ([-5.0], "day", "no date or time"),
        ([np.inf], "day", "no date or time"),
        ([True], "day", "no date or time"),
        (["2015-02-04", None], "day", "'date' is missing in 1 of 2 rows, first in row 2"),
    ],
)  # fmt: skip
def test_what_is_no_time_is_refused_with_its_row(values, unit, said):
    refused(said, groups, values, unit)


# --- Rows ----------------------------------------------------------------------------------


def test_successive_rows_are_grouped_by_their_place_in_the_whole_table():
    table = home(10)
    assert group_values(table, "rows:4").tolist() == ["0"] * 4 + ["1"] * 4 + ["2"] * 2
    part = group_values(table[:3], "rows:4", positions=np.array([3, 4, 100]))
    assert part.tolist() == ["0", "1", "25"]
    shuffled = table.set_index(np.arange(10)[::-1])
    assert group_values(shuffled, "rows:4").tolist() == group_values(table, "rows:4").tolist()


@pytest.mark.parametrize("spec", ["rows:6", "date:day", "date:hour", "day"])
def test_a_split_keeps_groups_whole(spec):
    times = pd.date_range("2015-02-04", periods=120, freq="2h")
    table = home(120).assign(date=times.astype(str))
    split = Split(holdout=0.4, seed=3, group=spec)
    train, audit = split_rows(table, split, ["fall"])
    texts = group_values(table, spec)
    assert len(audit) and not set(texts[train]) & set(texts[audit])
    typed = table.assign(date=times)
    np.testing.assert_array_equal(split_rows(typed, split, ["fall"])[1], audit)


@pytest.mark.parametrize("spec", ["rows:7", "date:day"])
@pytest.mark.parametrize("size", [1, 10, 1000])
def test_a_streamed_split_does_not_depend_on_the_batches(spec, size):
    table = home(120).assign(date=pd.date_range("2015-02-04", periods=120, freq="2h"))
    tally = GroupTally(spec, 120)
    for begin in range(0, 120, size):
        tally.add(table[begin : begin + size])
    texts = group_values(table, spec)
    assert tally.finish().values.tolist() == texts.tolist()
    assert tally.finish().classes == sorted(set(texts.tolist()))
