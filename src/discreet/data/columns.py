"""Columns of a table: what each value stands for, how it is written, and what is refused.

A table holds NumPy scalars, Python objects and gaps; a mapping file holds JSON. Here the two
meet, so that every stage tells values apart in the same way. An error names the column, what was
found in it and what to do next.
"""

import math
import numbers
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.errors import InputError, shown, suggest
from discreet_sensor.words import MISSING, OFF, ON

Plain: TypeAlias = bool | int | float | str
Column: TypeAlias = "pd.Series[Any]"
Values: TypeAlias = "pd.Series[Any] | NDArray[Any]"


def plain(value: object) -> Plain | None:
    """Return a value as the JSON scalar it stands for, or None when it is none.

    NumPy scalars become Python ones, other real numbers become floats.
    """
    if isinstance(value, np.datetime64 | np.timedelta64):
        return None  # NumPy would hand out a count of nanoseconds
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    # The numbers module does not count Decimal among the real numbers.
    if isinstance(value, numbers.Real) or type(value).__name__ == "Decimal":
        return float(value)  # type: ignore[arg-type]
    return None


def written(value: Plain) -> str:
    """Return how a value is written, which is what categories and classes are distinguished by.

    ``1`` and ``1.0`` are written the same, since one missing cell turns a column of
    integers into floats; ``True`` and ``1`` are not, although Python calls them equal.
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def is_missing(column: Column) -> NDArray[np.bool_]:
    """Return where the column has no value: None, NaN, NaT or NA."""
    return np.asarray(pd.isna(column), dtype=bool)


def is_numeric(column: Column) -> bool:
    """Whether the column holds numbers; booleans and categoricals do not count."""
    dtype, types = column.dtype, pd.api.types
    if isinstance(dtype, pd.CategoricalDtype):
        return False
    if not types.is_object_dtype(dtype):
        return types.is_numeric_dtype(dtype) and not types.is_bool_dtype(dtype)
    kinds = {type(plain(value)) for value in column[~is_missing(column)]}
    return bool(kinds) and kinds <= {int, float}


def is_missing_word(value: object) -> bool:
    """Whether a value is a text such as ``unavailable``, which stands for no reading."""
    return isinstance(value, str) and value.strip().lower() in MISSING


def understood(column: Column) -> Column:
    """Return readings without the words for a missing one, where the others tell that they are.

    They do if all others are numbers, which are then returned as such, or words for on and off.
    """
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column
    kinds = {word_kind(value) for value in distinct_values(column[~is_missing(column)])}
    if kinds == {"missing", "number"}:
        return pd.Series(as_floats(column), index=column.index, name=column.name)
    if kinds == {"missing", "switch"}:
        gone = np.array([is_missing_word(value) for value in column], dtype=bool)
        return column.astype(object).mask(gone, None)
    return column


def word_kind(value: object) -> str:
    """Return what a reading may stand for: "missing", "number", "switch" or something "other"."""
    if isinstance(value, bool | np.bool_):
        return "switch"
    if not isinstance(value, str):
        return "other" if plain(value) is None else "number"
    word = value.strip().lower()
    if word in MISSING:
        return "missing"
    if word in ON or word in OFF:
        return "switch"
    try:
        return "number" if math.isfinite(float(word)) else "other"
    except ValueError:
        return "other"


def distinct_values(column: Column) -> Iterable[object]:
    """Return the values of a column without gaps, each once where that is safe."""
    # Hashing an object column would merge True with 1, and cannot take lists.
    found: Iterable[object] = column if column.dtype == object else column.unique()
    return found


def written_column(column: Column) -> list[str]:
    """Return each value as it is written; missing and odd values by what Python prints."""
    if column.dtype == object:  # hashing an object column would merge True with 1
        return [_written_any(value) for value in column]
    places, distinct = pd.factorize(column, use_na_sentinel=False)
    texts = [_written_any(value) for value in distinct]
    return [texts[place] for place in places]


def _written_any(value: object) -> str:
    found = plain(value)
    return str(value) if found is None else written(found)


class NotNumberError(Exception):
    """A value that no number can be made of."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value


def as_series(values: Values) -> Column:
    """Return the values as a column whose rows are numbered from 0."""
    if isinstance(values, pd.Series):
        return values.set_axis(pd.RangeIndex(len(values)))
    return pd.Series(np.asarray(values).ravel())


def as_floats(series: Column) -> NDArray[np.float64]:
    """Return the column as floats, NaN where missing; booleans count as 0 and 1."""
    dtype = series.dtype
    types = pd.api.types
    if types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype):
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    gone = is_missing(series)
    found = np.full(len(series), np.nan)
    found[~gone] = map_distinct(series[~gone], _as_float)
    return found


def _as_float(value: object) -> float:
    if is_missing_word(value):
        return math.nan
    number = plain(value)
    if number is None:
        raise NotNumberError(value)
    try:
        return float(number)
    except OverflowError:
        return math.inf if isinstance(number, int) and number > 0 else -math.inf
    except ValueError:
        raise NotNumberError(value) from None


def map_distinct(series: Column, function: Callable[[object], float]) -> NDArray[Any]:
    """Apply a function to each value, once per distinct value where that is safe."""
    if series.dtype == object:
        # Hashing an object column would merge True with 1, and cannot take lists.
        return np.asarray([function(value) for value in series], dtype=np.float64)
    places, distinct = pd.factorize(series)
    return np.asarray([function(value) for value in distinct], dtype=np.float64)[places]


# --- Checks ----------------------------------------------------------------------------------


def check_names(names: Sequence[str], where: str) -> None:
    """Refuse column names that are empty or doubled.

    Raises InputError: naming the columns.
    """
    for i, name in enumerate(names, start=1):
        if not name.strip():
            raise InputError(
                f"{where}: column {i} has no name. Name it, or remove it if it holds row numbers."
            )
    doubled = sorted(name for name, count in Counter(names).items() if count > 1)
    if doubled:
        raise InputError(
            f"{where}: more than one column is called {' and '.join(map(repr, doubled[:5]))}. "
            "Rename all but one."
        )


def check_column(columns: Iterable[str], name: str, role: str) -> None:
    """Refuse a column name that a table does not have.

    ``columns``: those that it has. ``role``: what the column is for, as the message should call it:
    "public label". Raises InputError: with the close matches and the columns that there are.
    """
    names = [str(each) for each in columns]
    if name not in names:
        raise InputError(f"no column {name!r} for the {role}. {suggest(name, names)}")


def choose_sensors(
    columns: Sequence[str], sensors: Sequence[str] | None, exclude: Sequence[str]
) -> list[str]:
    """Return the names of the sensor columns.

    ``columns``: those of the table. ``sensors``: the columns wanted; None takes every column that
    is not excluded. ``exclude``: columns that are no sensors: the labels, and what the user leaves
    out. Raises InputError: if a name is unknown, doubled or excluded, or no sensor is left.
    """
    for name in exclude:
        check_column(columns, name, "columns to leave out")
    if sensors is None:
        chosen = [column for column in columns if column not in set(exclude)]
    else:
        chosen = list(sensors)
    for name in chosen:
        check_column(columns, name, "sensors")
        if name in exclude:
            raise InputError(
                f"{name!r} is a fact, the group or left out, so it cannot be a sensor as well. "
                "Take it out of one of the two."
            )
        if chosen.count(name) > 1:
            raise InputError(f"sensor {name!r} is named twice. Name each sensor once.")
    if not chosen:
        raise InputError("no sensor columns are left. Name at least one, or exclude fewer.")
    return chosen


def check_kind(column: Column, sensor: str) -> None:
    """Refuse a column whose values are neither numbers, text nor booleans.

    Raises InputError: naming the sensor, what it holds and what to do.
    """
    found = unusable_kind(column)
    if found is not None:
        raise InputError(f"sensor {sensor!r} holds {found[0]}, which have no code. {found[1]}")


def unusable_kind(column: Column) -> tuple[str, str] | None:
    """Return what a column holds that no code stands for, and what to do; None if it is usable."""
    dates = "Turn them into numbers or categories first, such as the hour, or leave it out."
    dtype, types = column.dtype, pd.api.types
    if types.is_datetime64_any_dtype(dtype) or isinstance(dtype, pd.PeriodDtype):
        return "dates", dates
    if types.is_timedelta64_dtype(dtype):
        return "durations", "Turn them into seconds first, or leave it out."
    if types.is_complex_dtype(dtype):
        return "complex numbers", "Give size and angle as two columns, or leave it out."
    if isinstance(dtype, pd.CategoricalDtype):
        return unusable_kind(pd.Series(dtype.categories))
    if types.is_numeric_dtype(dtype) or isinstance(dtype, pd.StringDtype):
        return None
    odd = next((value for value in column[~is_missing(column)] if plain(value) is None), None)
    if odd is None:
        return None
    if hasattr(odd, "year") or hasattr(odd, "hour"):
        return f"dates or times like {shown(odd)}", dates
    advice = "Turn them into text or numbers first, or leave it out."
    return f"values like {shown(odd)} ({type(odd).__name__})", advice
