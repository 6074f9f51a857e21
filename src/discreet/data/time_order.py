"""Rows in the order of a column of times, where they come in another one.

A series that was shuffled is still a series. Which column is a clock is judged by the rows whose
order is looked at. If a table has more rows than these, few of them follow one another in time, so
that the table is gone over once more: for stretches of time, each with the rows that follow the
moment at which it begins. They are the same whatever the batches are.

The hour and the weekday of a clock follow the order of time by themselves, so that in this order
they show nothing of rows that depend on one another.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.arrays import Floats, Ints
from discreet.data.columns import (
    Column,
    as_floats,
    as_series,
    is_missing,
    is_nested,
    is_numeric,
    written_column,
)
from discreet.data.dependence import MOST_ROWS, STRETCHES, stretches
from discreet.data.groups import (
    PARTS,
    Hours,
    epoch_seconds,
    group_values,
    part_of_hours,
    read_hours,
    years_first,
)
from discreet.data.tables import Table
from discreet.errors import InputError

Moments = NDArray[Any]  # numbers, texts in bytes or dates

_PREVIEW = 50  # rows that tell a column without times from one with them
_CLOCK = 0.95  # share of different values among times in whole numbers
_COUNTER = 7.0  # pairs of equal numbers that a counter would have if it were drawn at random
_FIRST_YEAR = 1900


@dataclass(frozen=True)
class Clock:
    """A column of times that rows are not in the order of.

    ``read``: what sorts its values, any of them. ``moments``: of the rows that were looked at.
    """

    column: str
    read: Callable[[Column], Moments]
    moments: Moments


def find_clocks(rows: pd.DataFrame, used: Collection[str]) -> Iterator[Clock]:
    """Yield columns of times, or counters, that are not used and that rows are not in order of."""
    for name in map(str, rows.columns):
        read = None if name in used else _reader(rows[name])
        if read is None:
            continue
        clock = Clock(name, read, read(rows[name]))
        if np.any(np.diff(_order(clock.moments)) < 0):
            yield clock


def in_time(clock: Clock, rows: pd.DataFrame, table: Table | None, used: list[str]) -> pd.DataFrame:
    """Return rows in the order of a clock, each with its place in the table for an index.

    ``rows``: those that were looked at, all there are if there is no ``table``. ``used``: the
    columns that are needed.
    """
    if table is None or table.rows == len(rows):
        return rows.iloc[_order(clock.moments)]
    ordered = np.sort(clock.moments, kind="stable")
    found = [_Stretch(begin) for begin in ordered[stretches(len(ordered), STRETCHES)]]
    for batch in table.batches([*used, clock.column]):
        places = np.flatnonzero(~is_missing(batch[clock.column]))
        moments = clock.read(batch[clock.column].iloc[places])
        order = _order(moments)
        order = order[~pd.isna(moments[order])]
        for each in found:
            each.add(batch[used], places[order], moments[order])
    # Where few rows have many moments, one stretch reaches into the next.
    joined = pd.concat([each.rows for each in found if each.rows is not None])
    return joined[~joined.index.duplicated()]


class _Stretch:
    """The first rows, by time and place, from a moment on."""

    def __init__(self, begin: Any) -> None:
        self._begin, self._most = begin, MOST_ROWS // STRETCHES
        self._moments: Moments = np.array([])
        self.rows: pd.DataFrame | None = None

    def add(self, batch: pd.DataFrame, places: Ints, moments: Moments) -> None:
        """Take what belongs here of later rows, given by places in the order of their moments."""
        first = int(np.searchsorted(moments, self._begin))
        here = slice(first, first + self._most)
        if len(self._moments) == self._most:  # of equal moments, earlier rows are first
            here = slice(first, min(here.stop, int(np.searchsorted(moments, self._moments[-1]))))
        new = batch.iloc[places[here]]
        if self.rows is None:
            self._moments, self.rows = moments[here], new
        elif len(new):
            both = np.concatenate([self._moments, moments[here]])
            chosen = _order(both)[: self._most]
            self._moments, self.rows = both[chosen], pd.concat([self.rows, new]).iloc[chosen]


def _order(moments: Moments) -> Ints:
    return np.argsort(moments, kind="stable").astype(np.int64)


# --- Which columns tell times ----------------------------------------------------------------


def has_times(column: Column) -> bool:
    """Whether a column holds times; numbers must not fall, as those of a clock do not."""
    if is_numeric(column) and not column.is_monotonic_increasing:
        return False
    try:
        group_values(pd.DataFrame({"time": column.iloc[:_PREVIEW]}), "time:day")
    except InputError:
        return False
    return True


def _reader(column: Column) -> Callable[[Column], Moments] | None:
    """Return what turns the values of a clock into what sorts them; None if this is no clock."""
    if is_missing(column).any() or is_nested(column):
        return None
    if is_numeric(column):
        return _numbers if _counts_on(_numbers(column)) else None
    return _written if has_times(column) else _date_reader(column)


def _counts_on(values: Floats) -> bool:
    """Tell whether whole numbers are times, or those of a counter: a salary is neither.

    A counter has no number twice, where as many drawn from its range would have.
    """
    if not len(values) or np.any(values % 1):
        return False
    different, span = len(np.unique(values)), float(np.ptp(values)) + 1.0
    if not np.isnan(epoch_seconds(pd.Series(values))).any():
        return different >= _CLOCK * len(values)
    return different == len(values) and different**2 / (2.0 * span) >= _COUNTER


def _numbers(column: Column) -> Moments:
    """Return numbers; other rows than those that were looked at may hold something else."""
    numbers = pd.to_numeric(column, errors="coerce")
    return np.asarray(numbers.to_numpy(dtype=np.float64, na_value=np.nan))


def _written(column: Column) -> Moments:
    texts = years_first(pd.Series(written_column(column), dtype=object))
    # As bytes, which are in the same order and take a quarter of the memory.
    return np.array([text.encode("utf-8", "surrogatepass") for text in texts])


def _date_reader(column: Column) -> Callable[[Column], Moments] | None:
    """Return what reads dates as people write them, the day before the month; None if none are."""
    first = str(column.iloc[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of dates with the month before the day
        guessed = pd.tseries.api.guess_datetime_format(first, dayfirst=True)
        # Of one form for all rows, so that it does not matter in which batch a row is.
        for form in dict.fromkeys([guessed or "mixed", "mixed"]):  # "May 2" may have any of two
            read = partial(_read_dates, form)
            if _name_years(column.iloc[:_PREVIEW], read) and not np.isnat(read(column)).any():
                return read
    return None


def _read_dates(form: str, column: Column) -> Moments:
    dates = pd.to_datetime(
        column.astype(str), format=form, errors="coerce", dayfirst=True, utc=True
    )
    return np.asarray(dates.dt.tz_localize(None).to_numpy())


def _name_years(column: Column, read: Callable[[Column], Moments]) -> bool:
    """Tell whether texts are dates with a year; "3rd", "1-2" and "8:05" are read as dates, too."""
    dates = pd.DatetimeIndex(read(column))
    return all(
        date.year >= _FIRST_YEAR and f"{date.year % 100:02}" in text
        for date, text in zip(dates, column.astype(str), strict=True)
    )


# --- Readings that are parts of a clock ------------------------------------------------------


def clock_parts(rows: pd.DataFrame, sensors: Sequence[str]) -> dict[str, list[str]]:
    """Return the sensors that are the hour or the weekday of columns of times, and these columns.

    They are found by their values, so that a column that was worked out before counts, too.
    """
    clocks = [name for name in map(str, rows.columns) if name not in sensors]
    likely = _equal_parts(rows.iloc[:_PREVIEW], sensors, clocks)  # nearly always none
    return _equal_parts(rows, list(likely), list(dict.fromkeys(chain(*likely.values()))))


def _equal_parts(
    rows: pd.DataFrame, sensors: Sequence[str], clocks: Sequence[str]
) -> dict[str, list[str]]:
    small = [name for name in sensors if _may_be_part(rows[name])]
    hours = {name: _hours(rows[name]) for name in clocks if small}
    known = {clock: each for clock, each in hours.items() if each is not None}
    found = {
        name: [clock for clock, each in known.items() if _is_part(rows[name], each)]
        for name in small
    }
    return {name: own for name, own in found.items() if own}


def parts_in_order(rows: pd.DataFrame, sensors: Sequence[str]) -> list[str]:
    """Return the sensors that are parts of a clock whose order, or its reverse, rows come in."""
    found = clock_parts(rows, sensors)
    every = dict.fromkeys(chain(*found.values()))
    in_order = {clock for clock in every if _is_in_order(_hours(rows[clock]))}
    return [name for name, clocks in found.items() if in_order.intersection(clocks)]


def _may_be_part(column: Column) -> bool:
    return is_numeric(column) and bool(column.between(0, 23).all())


def _is_part(column: Column, hours: Hours) -> bool:
    return any(np.array_equal(as_floats(column), part_of_hours(hours, part)) for part in PARTS)


def _hours(column: Column) -> Hours | None:
    """Return times as hours; None if the column holds something else, or has gaps."""
    if is_missing(column).any() or is_nested(column):
        return None
    hours = read_hours(as_series(column), with_hour=False)
    return None if np.isnat(hours).any() else hours


def _is_in_order(hours: Hours | None) -> bool:
    steps = np.zeros(0, dtype=np.int64) if hours is None else np.diff(hours).astype(np.int64)
    return bool(np.all(steps >= 0) or np.all(steps <= 0))
