"""Parts of a time as readings."""

from datetime import datetime

import numpy as np
import pandas as pd
import pytest
from support.helpers import refused

from discreet.data.encoders import BinsEncoder, encode_table
from discreet.data.groups import clock_columns, holds_times, with_clock
from discreet.data.tables import open_stream

MOMENTS = [
    datetime(2015, 2, 4, 17, 51),
    datetime(2016, 2, 29, 0, 0),
    datetime(2024, 12, 31, 23, 59),
]
NAMES = ["date:hour", "date:weekday"]


def as_columns():
    times = pd.Series(MOMENTS)
    yield times
    yield times.dt.tz_localize("Asia/Tokyo")
    yield times.dt.strftime("%Y-%m-%d %H:%M:%S")
    yield times.dt.strftime("%Y-%m-%dT%H:%M+09:00")
    yield (times - pd.Timestamp(0)).dt.total_seconds()


@pytest.mark.parametrize("column", list(as_columns()), ids=range(5))
def test_parts_are_what_the_calendar_says(column):
    found = with_clock(pd.DataFrame({"date": column}), NAMES)
    assert found["date:hour"].tolist() == [each.hour for each in MOMENTS]
    assert found["date:weekday"].tolist() == [each.weekday() for each in MOMENTS]


def test_a_gap_stays_one_and_what_is_no_time_is_refused_with_its_row():
    table = pd.DataFrame({"date": ["2015-02-04 17:51", None, "2015-02-04 18:00"]})
    np.testing.assert_array_equal(with_clock(table, NAMES)["date:hour"], [17, np.nan, 18])
    table.loc[2, "date"] = "soon"
    refused("'date' holds 'soon' in row 3, which is no time", with_clock, table, NAMES)
    dates = pd.DataFrame({"date": ["2015-02-04"]})
    assert with_clock(dates, NAMES[1:])["date:weekday"].tolist() == [2]
    refused("which is no time", with_clock, dates, NAMES)


def test_a_column_of_that_name_wins_and_other_names_are_left_alone():
    assert clock_columns(["date:hour", "date:day", "x:hour"], ["date"]) == {
        "date:hour": ("date", "hour")
    }
    assert clock_columns(["date:hour"], ["date", "date:hour"]) == {}


def test_encoding_and_streams_know_the_parts(tmp_path):
    table = pd.DataFrame({"date": MOMENTS, "x": [1, 2, 3]})
    sensors = [("date:hour", BinsEncoder(edges=(12.0, 20.0), missing=True))]
    assert encode_table(table, sensors).tolist() == [[1], [0], [2]]
    pytest.importorskip("pyarrow")
    table.to_parquet(tmp_path / "t.parquet")
    (batch,) = open_stream([tmp_path / "t.parquet"]).batches(["x", *NAMES])
    pd.testing.assert_frame_equal(batch, with_clock(table, NAMES)[["x", *NAMES]])


def test_times_are_told_from_other_columns():
    assert all(holds_times(column) for column in list(as_columns())[:4])
    for other in (["a", "b"], [1.0, 2.0], [True, False], ["2015-02-04", "later"], [None]):
        assert not holds_times(pd.Series(other))
