"""Which rows belong together: by a column, a time or their order; and the hour of a time.

A group is named by text, as ``--group`` takes it and a mapping file records it:

* ``home``: rows that agree in this column;
* ``date:day`` (or hour, week): rows whose time in this column falls on the same day;
* ``rows:60``: sixty rows that follow one another in the table.

A column with the whole text for its name wins. Times, as 2026-12-31 23:59 or 31.12.2026 23:59, are
grouped by the date and hour as written, without regard to a time zone that stands beside them: a
day is a day where the row was written, and the hour that a clock repeats in autumn is one hour.
Numbers are seconds since 1970 in UTC, or milli-, micro- or nanoseconds by their size. Weeks begin
on Monday.

*The hour of the day and the weekday of a column of times, as columns of their own.* ``date:hour``
is 0 to 23 and ``date:weekday`` 0 (Monday) to 6, as written in the column ``date``, without regard
to a time zone beside it. A column that is called like the whole text wins. The time itself is no
reading: hardly two rows have the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.arrays import Floats, Ints
from discreet.data.columns import (
    Column,
    Labels,
    as_floats,
    as_series,
    check_column,
    is_missing,
    is_numeric,
    written_column,
)
from discreet.errors import InputError, shown, suggest

Texts = NDArray[np.str_]
Hours = NDArray[Any]  # of datetime64[h]

UNITS = ("day", "hour", "week")
MOST_ROWS = 1_000_000_000
_TIME = re.compile(
    r"\s*(?P<day>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?P<hour>\d{2})(?::?[0-5]\d(?::?[0-6]\d(?:[.,]\d{1,9})?)?)?"
    r"\s*(?:Z|[+-]\d{2}(?::?\d{2})?)?)?\s*",
    re.ASCII,
)
_GERMAN = re.compile(r"^\s*(\d{2})\.(\d{2})\.(\d{4}),?(?=\s|$)", re.ASCII)  # 31.12.2026 23:59
_YEAR_FIRST = r"\3-\2-\1"
_NOUN = re.compile(r"[a-z]{2,30}", re.ASCII)
_LONGEST_NAME = 30  # of a column, in the middle of a sentence
# Seconds since 1970 from 1973 on, finer units from 2001 on: what is written as 20150204 or
# 201502041751 is none of them.
_EPOCHS = ((1e8, 4.1e9, 1.0), (1e12, 4.1e12, 1e3), (1e15, 4.1e15, 1e6), (1e18, 4.1e18, 1e9))


@dataclass(frozen=True)
class Grouping:
    """What a text names.

    ``column``: the column to look at; None where the order of the rows decides. ``unit``: of
    ``UNITS``, for a column of times. ``rows``: how many successive rows make a group.
    """

    column: str | None = None
    unit: str | None = None
    rows: int | None = None


def parse_group(spec: str, columns: Iterable[str]) -> Grouping:
    """Return what a text names in a table with these columns.

    Raises InputError: if there is no such column or unit, with those that there are.
    """
    names = [str(name) for name in columns]
    column, colon, unit = spec.rpartition(":")
    if spec in names or not colon:
        check_column(names, spec, "groups")
        return Grouping(column=spec)
    if column == "rows" and ("rows" not in names or unit.isdecimal()):
        return Grouping(rows=_row_count(spec, unit))
    check_column(names, column, "groups")
    if unit not in UNITS:
        raise InputError(
            f"group {spec!r} asks for the unit {shown(unit)} of column {column!r}. "
            f"{suggest(unit, UNITS)}"
        )
    return Grouping(column=column, unit=unit)


def _row_count(spec: str, text: str) -> int:
    count = int(text) if text.isdecimal() and len(text) <= 10 else 0
    if not 2 <= count <= MOST_ROWS:
        raise InputError(
            f"group {spec!r} must name how many successive rows make a group, from 2 to "
            f"{MOST_ROWS}, as in rows:60."
        )
    return count


def group_columns(spec: str | None, columns: Iterable[str]) -> list[str]:
    """Return the columns that grouping looks at: one or none."""
    found = None if spec is None else parse_group(spec, columns).column
    return [] if found is None else [found]


def group_noun(spec: str, columns: Iterable[str]) -> str:
    """Return what a group is called in a sentence: home, day, block."""
    grouping = parse_group(spec, columns)
    return "block" if grouping.rows is not None else grouping.unit or as_noun(grouping.column)


def as_noun(name: Any) -> str:
    """Return a column's name if it reads like a noun, and otherwise a noun that quotes it."""
    if not isinstance(name, str) or not name.strip():
        return "group"
    return name if _NOUN.fullmatch(name) else f"{shown(name, _LONGEST_NAME)} group"


def can_group(spec: str, columns: Iterable[str]) -> bool:
    """Whether a table with these columns has what a text names."""
    try:
        parse_group(spec, columns)
    except InputError:
        return False
    return True


def group_values(table: pd.DataFrame, spec: str, *, positions: Ints | None = None) -> Texts:
    """Return the group of every row, as text.

    ``spec``: a column, ``column:day`` (or hour, week) or ``rows:N``. ``positions``: where the rows
    stand in the whole table, if this is a part of it. Raises InputError: if a group is missing or a
    time cannot be read, with the value, the row and what to do.
    """
    grouping = parse_group(spec, map(str, table.columns))
    places = np.arange(len(table)) if positions is None else positions
    if grouping.rows is not None:
        return (places // grouping.rows).astype(str)
    assert grouping.column is not None
    column = as_series(table[grouping.column])
    if (gone := is_missing(column)).any():
        count = f"{int(gone.sum())} of {len(column)}" if positions is None else "some"
        raise InputError(
            f"group column {grouping.column!r} is missing in {count} rows, first in row "
            f"{places[gone][0] + 1}. Fill it in, or drop those rows."
        )
    if grouping.unit is None:
        return np.asarray(written_column(column), dtype=str)
    return _named(_times(column, grouping, places), grouping.unit)


class GroupTally:
    """The groups of a table's rows, gathered batch by batch.

    ``spec``: as in ``group_values``. ``rows``: how many the whole table has.
    """

    def __init__(self, spec: str, rows: int) -> None:
        self._spec, self._rows = spec, rows
        self._numbers: dict[str, int] = {}
        self._parts: list[NDArray[np.int32]] = []

    def add(self, batch: pd.DataFrame) -> None:
        """Add the next rows, whose index tells where they stand."""
        positions = None if len(batch) == self._rows else batch.index.to_numpy()
        places, texts = pd.factorize(group_values(batch, self._spec, positions=positions))
        numbers = [self._numbers.setdefault(text, len(self._numbers)) for text in texts.tolist()]
        self._parts.append(np.array(numbers, dtype=np.int32)[places])

    def finish(self) -> Labels:
        """Return the group of every row; groups are in the order of their texts."""
        names = sorted(self._numbers)
        places = np.empty(len(names), dtype=np.int32)
        places[[self._numbers[name] for name in names]] = np.arange(len(names))
        return Labels(self._spec, places[np.concatenate(self._parts)], names)


def _named(hours: Hours, unit: str) -> Texts:
    """Return hours by the name of the unit that they fall in."""
    if unit == "hour":
        return hours.astype(str)
    days = hours.astype("datetime64[D]")
    if unit == "day":
        return days.astype(str)
    weekday = (days.astype(np.int64) + 3) % 7  # the first of January 1970 was a Thursday
    return np.char.add("week of ", (days - weekday).astype(str))


# --- Times -----------------------------------------------------------------------------------


def read_hours(column: Column, *, with_hour: bool) -> Hours:
    """Return times without gaps as hours, NaT where they are none, or dates without an hour."""
    if isinstance(column.dtype, pd.PeriodDtype):
        column = pd.Series(column.dt.to_timestamp())
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return column.dt.tz_localize(None).to_numpy().astype("datetime64[h]")
    return _epochs(column) if is_numeric(column) else _texts(column, with_hour)


def _times(column: Column, grouping: Grouping, places: Ints) -> Hours:
    found = read_hours(column, with_hour=grouping.unit == "hour")
    bad = np.flatnonzero(np.isnat(found))
    if len(bad):
        raise _unreadable(column, bad, places, grouping)
    return found


def _unreadable(column: Column, bad: Ints, places: Ints, grouping: Grouping) -> InputError:
    first, name, unit = int(bad[0]), grouping.column, grouping.unit
    what = "time with an hour" if unit == "hour" else "date or time"
    more = f"; {len(bad) - 1} of {len(column) - 1} other rows have none either"
    return InputError(
        f"group column {name!r} holds {shown(column.iloc[first])} in row {places[first] + 1}, "
        f"which is no {what} that can be read{more if len(bad) > 1 else ''}. Write times like "
        "2015-02-04 17:51 or as seconds since 1970, name another column, or group by the values of "
        f"{name!r} without ':{unit}'."
    )


def _epochs(column: Column) -> Hours:
    """Return numbers as hours, NaT where they are no time."""
    seconds = epoch_seconds(column)
    hours = np.full(len(seconds), np.datetime64("NaT"), dtype="datetime64[h]")
    known = ~np.isnan(seconds)
    hours[known] = np.floor(seconds[known] / 3600).astype(np.int64).astype("datetime64[h]")
    return hours


def epoch_seconds(column: Column) -> Floats:
    """Return numbers as seconds since 1970, NaN where they are no time."""
    values = as_floats(column)
    seconds = np.full(len(values), np.nan)
    for low, high, scale in _EPOCHS:
        within = (values >= low) & (values < high)
        seconds[within] = values[within] / scale
    return seconds


def _texts(column: Column, with_hour: bool) -> Hours:
    """Return texts, dates and times as hours, NaT where they are none."""
    known: dict[tuple[str, str | None], Any] = {}
    found = np.full(len(column), np.datetime64("NaT"), dtype="datetime64[h]")
    for i, value in enumerate(column):
        text = (
            value.isoformat()
            if hasattr(value, "isoformat")
            else _GERMAN.sub(_YEAR_FIRST, str(value))
        )
        match = _TIME.fullmatch(text) if len(text) <= 60 else None
        if match is None or (with_hour and match["hour"] is None):
            continue
        key = (match["day"], match["hour"])
        if key not in known:
            known[key] = _hour(*key)
        found[i] = known[key]
    return found


def years_first(texts: Column) -> Column:
    """Return times with dates like 31.12.2026 as 2026-12-31; others as they are."""
    return texts.str.replace(_GERMAN, _YEAR_FIRST, regex=True)


def _hour(day: str, hour: str | None) -> Any:
    try:
        return np.datetime64(f"{day}T{hour or '00'}", "h")
    except ValueError:  # the thirtieth of February
        return np.datetime64("NaT")


# --- Hour and weekday as columns ------------------------------------------------------------

PARTS = ("hour", "weekday")
_PREVIEW = 50  # values that tell a column of times from another


def clock_columns(names: Iterable[str], columns: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return those of the names that are parts of a column of times: its name, and which part."""
    found = {}
    for name in names:
        column, _, part = name.rpartition(":")
        if name not in columns and part in PARTS and column in columns:
            found[name] = column, part
    return found


def with_clock(table: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """Return the table with those of the columns named that are parts of a time.

    Raises InputError: if a value is no time, with the row and what to do.
    """
    wanted = clock_columns(names, [str(name) for name in table.columns])
    parts = {name: _part_of(table[column], column, part) for name, (column, part) in wanted.items()}
    return table.assign(**parts) if parts else table


def _part_of(column: Column, name: str, part: str) -> Column:
    gone = is_missing(column)
    found = np.full(len(column), np.nan)
    hours = read_hours(as_series(column[~gone]), with_hour=part == "hour")
    bad = np.isnat(hours)
    if bad.any():
        row = int(column.index[~gone][bad][0]) + 1
        raise InputError(
            f"column {name!r} holds {shown(column[~gone][bad].iloc[0])} in row {row}, which is no "
            "time that can be read. Write times like 2015-02-04 17:51 or as seconds since 1970, or "
            f"leave '{name}:{part}' out."
        )
    found[~gone] = part_of_hours(hours, part)
    return pd.Series(found, index=column.index)


def part_of_hours(hours: Hours, part: str) -> Ints:
    """Return the hour of the day, or the weekday, of times given as hours."""
    since = hours.astype(np.int64)
    # The first of January 1970 was a Thursday.
    return since % 24 if part == "hour" else (since // 24 + 3) % 7


def holds_times(column: Column) -> bool:
    """Whether a column that holds no numbers holds times, by its first values."""
    some = as_series(column[~is_missing(column)].iloc[:_PREVIEW])
    if not len(some) or is_numeric(some) or pd.api.types.is_bool_dtype(some.dtype):
        return False
    return not np.isnat(read_hours(some, with_hour=False)).any()
