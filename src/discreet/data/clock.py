"""The hour of the day and the weekday of a column of times, as columns of their own.

``date:hour`` is 0 to 23 and ``date:weekday`` 0 (Monday) to 6, as written in the column ``date``,
without regard to a time zone beside it. A column that is called like the whole text wins. The time
itself is no reading: hardly two rows have the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from discreet.data.columns import Column, as_series, is_missing, is_numeric
from discreet.data.groups import read_hours
from discreet.errors import InputError, shown

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
    since = hours.astype(np.int64)
    # The first of January 1970 was a Thursday.
    found[~gone] = since % 24 if part == "hour" else (since // 24 + 3) % 7
    return pd.Series(found, index=column.index)


def holds_times(column: Column) -> bool:
    """Whether a column that holds no numbers holds times, by its first values."""
    some = as_series(column[~is_missing(column)].iloc[:_PREVIEW])
    if not len(some) or is_numeric(some) or pd.api.types.is_bool_dtype(some.dtype):
        return False
    return not np.isnat(read_hours(some, with_hour=False)).any()
