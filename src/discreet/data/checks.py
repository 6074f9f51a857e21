"""Checks of columns and labels, for somebody who typed a command.

Each error names the column, what was found in it and what to do next. Row numbers count from 1
and leave the header out.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from discreet.data.columns import Column, is_missing, is_numeric, plain, written_column
from discreet.errors import InputError, shown, suggest

MIN_ROWS = 20
"""Fewest rows worth learning from."""
MAX_CLASSES = 50
"""Most classes a label may have; more is nearly always a measurement or an identifier."""


# --- Columns -------------------------------------------------------------------------------


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
    found = _unusable_kind(column)
    if found is not None:
        raise InputError(f"sensor {sensor!r} holds {found[0]}, which have no code. {found[1]}")


def _unusable_kind(column: Column) -> tuple[str, str] | None:
    dates = "Turn them into numbers or categories first, such as the hour, or leave it out."
    dtype, types = column.dtype, pd.api.types
    if types.is_datetime64_any_dtype(dtype) or isinstance(dtype, pd.PeriodDtype):
        return "dates", dates
    if types.is_timedelta64_dtype(dtype):
        return "durations", "Turn them into seconds first, or leave it out."
    if types.is_complex_dtype(dtype):
        return "complex numbers", "Give size and angle as two columns, or leave it out."
    if isinstance(dtype, pd.CategoricalDtype):
        return _unusable_kind(pd.Series(dtype.categories))
    if types.is_numeric_dtype(dtype) or isinstance(dtype, pd.StringDtype):
        return None
    odd = next((value for value in column[~is_missing(column)] if plain(value) is None), None)
    if odd is None:
        return None
    if hasattr(odd, "year") or hasattr(odd, "hour"):
        return f"dates or times like {shown(odd)}", dates
    advice = "Turn them into text or numbers first, or leave it out."
    return f"values like {shown(odd)} ({type(odd).__name__})", advice


# --- Labels --------------------------------------------------------------------------------


def check_labels(labels: Column, role: str, name: str, *, single: bool = False) -> None:
    """Refuse labels that a classifier could not learn from.

    ``role``: "public label" or "private label", for the message. ``name``: the column. ``single``:
    whether a class may have a single row, which cannot be both learned from and held out. Raises
    InputError: if labels are missing, continuous, of one class only, of too many classes, or a
    class has a single row.
    """
    label = f"{role} {name!r}"
    if len(labels) == 0:
        raise InputError(f"{label} has no rows. Give a table with rows.")
    check_label_values(labels, label)
    _check_class_counts(labels, label, single)


def check_label_values(labels: Column, label: str) -> None:
    """Refuse labels that are missing, continuous or of a kind that has no classes.

    ``labels``: numbered from 0, or a part of such a column. ``label``: what they are, for the
    message.
    """
    if (odd := _unusable_kind(labels)) is not None:
        raise InputError(f"{label} holds {odd[0]}. Use text, whole numbers, true or false.")
    gone = labels.index[is_missing(labels)]
    if len(gone):
        first = ", ".join(str(row + 1) for row in gone[:5]) + (", ..." if len(gone) > 5 else "")
        raise InputError(
            f"{label} is missing in {len(gone)} of {len(labels)} rows (rows {first}; empty, NA and "
            "None count as missing). Label these rows or drop them."
        )
    _check_not_continuous(labels, label)


def _check_not_continuous(labels: Column, label: str) -> None:
    if not is_numeric(labels):
        return
    values = labels.to_numpy(dtype=np.float64)
    odd = values[~(np.isfinite(values) & (np.floor(values) == values))]
    if len(odd):
        raise InputError(
            f"{label} looks continuous: it holds {shown(float(odd[0]))}. "
            "Bin it into a few classes first."
        )


def _check_class_counts(labels: Column, label: str, single: bool) -> None:
    counts = Counter(written_column(labels))
    if len(counts) == 1:
        raise InputError(
            f"{label} has one class only, {shown(labels.iloc[0])}. "
            "Choose another column, or add rows of another class."
        )
    if len(counts) > MAX_CLASSES:
        raise InputError(
            f"{label} has {len(counts)} classes; at most {MAX_CLASSES} are allowed. "
            "Choose another column, or group or bin its values first."
        )
    rare = next((value for value, count in counts.items() if count < 2), None)
    if rare is not None and not single:
        raise InputError(
            f"{label} has one row only of class {shown(rare)}; two are the least. "
            "Add rows of that class, merge it with another, or drop it."
        )
