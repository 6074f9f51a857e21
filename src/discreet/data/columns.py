"""Columns of a table: what each value stands for, the classes of facts, and what is refused.

A table holds NumPy scalars, Python objects and gaps; a mapping file holds JSON. Here the two
meet, so that every stage tells values apart in the same way. An error names the column, what was
found in it and what to do next.
"""

from __future__ import annotations

import math
import numbers
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.arrays import Ints
from discreet.errors import InputError, UnfitSensorError, shown, suggest
from discreet_sensor.words import MISSING, OFF, ON

_FEW_INTEGERS = 1024
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
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iub":
        return np.zeros(len(column), dtype=bool)  # pandas would make floats of them, to ask
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
        return column.astype(object).mask(_missing_words(column), None)
    return column


def _missing_words(column: Column) -> NDArray[np.bool_]:
    return np.array([is_missing_word(value) for value in column], dtype=bool)


def words_mean_missing(values: Iterable[object]) -> bool:
    """Whether there are words for a missing one, and others that tell that they mean it.

    They do if all others are numbers, or words for on and off.
    """
    return {word_kind(value) for value in values} in ({"missing", "number"}, {"missing", "switch"})


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


def count_integers(values: NDArray[Any]) -> tuple[NDArray[Any], Ints] | None:
    """Return which whole numbers there are, in order, and how often; None unless few can be."""
    if values.dtype.kind not in "iu" or values.ndim != 1 or not len(values):
        return None
    least, most = int(values.min()), int(values.max())
    if most - least >= _FEW_INTEGERS or most > np.iinfo(np.int64).max:
        return None
    whole = values.astype(np.int64, copy=False)  # older NumPy counts no uint64
    counts = np.bincount(whole - least if least else whole)
    there = np.flatnonzero(counts)
    return (there + least).astype(values.dtype), counts[there]


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
        words = f"sensor {sensor!r} holds {found[0]}, which have no code. {found[1]}"
        raise UnfitSensorError(sensor, words)


def is_nested(column: Column) -> bool:
    """Whether a column holds lists, structs or maps, which cannot be told apart by hashing."""
    return column.dtype == object and not all(map(_can_be_hashed, column))


def _can_be_hashed(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


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


# --- Facts and groups -----------------------------------------------------------------------

MAX_CLASSES = 50
"""Most classes a label may have; more is nearly always a measurement or an identifier."""

_COUNTED = 1 << 20  # rows at a time


@dataclass(frozen=True)
class Labels:
    """A fact, or what rows are grouped by: its classes and the class of every row.

    ``index`` of shape (n_rows,): the number of each row's class.
    """

    name: str
    index: NDArray[Any]
    classes: Sequence[Any] | NDArray[Any]

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many rows have each class."""
        return tuple(count_classes(self.index, self.n_classes).tolist())

    @property
    def values(self) -> NDArray[Any]:
        """The class of every row itself."""
        found: NDArray[Any] = np.asarray(self.classes)[self.index]
        return found

    def take(self, rows: NDArray[Any] | slice) -> Labels:
        """Return the labels of some rows."""
        return Labels(self.name, self.index[rows].astype(np.int64), self.classes)


def count_classes(index: NDArray[Any], n_classes: int) -> Ints:
    """Return how many rows have each class; a part at a time, since counting takes wide numbers."""
    counts = np.zeros(n_classes, dtype=np.int64)
    for begin in range(0, len(index), _COUNTED):
        counts += np.bincount(index[begin : begin + _COUNTED], minlength=n_classes)
    return counts


def count_together(one: Labels, other: Labels) -> Ints:
    """Return how many rows have each class of one fact with each of another; rows are the one's."""
    counts = np.zeros(one.n_classes * other.n_classes, dtype=np.int64)
    for begin in range(0, len(one.index), _COUNTED):
        part = slice(begin, begin + _COUNTED)
        places = one.index[part].astype(np.int64) * other.n_classes
        places += other.index[part]
        counts += np.bincount(places, minlength=len(counts))
    return counts.reshape(one.n_classes, -1)


def label_column(name: str, values: Any, role: str = "fact", *, single: bool = True) -> Labels:
    """Index the classes of one label column.

    ``single``: whether a class may have a single row, which cannot be both learned from and held
    out. Raises InputError: if the labels are missing, continuous or mixed, or their classes too few
    or many.
    """
    values = np.asarray(values)
    if values.dtype == object:  # where booleans and integers also come as objects
        values = pd.Series(values, dtype=object).infer_objects().to_numpy()
    if (few := count_integers(values)) is not None:
        # Two rows of each class, where there are as many, tell all that the checks ask.
        check_labels(pd.Series(np.repeat(few[0], np.minimum(few[1], 2))), role, name, single=single)
        return Labels(name, _index_integers(values, few[0]), few[0])
    check_labels(pd.Series(values), role, name, single=single)
    kinds = {_kind(each) for each in set(map(type, values))} if values.dtype == object else set()
    if len(kinds) > 1:
        raise InputError(
            f"{role} {name!r} mixes {' and '.join(sorted(kinds))}. Write its classes in one way."
        )
    index, classes = pd.factorize(values, sort=True)
    return Labels(name, index.astype(np.int64), np.asarray(classes))


def _index_integers(values: NDArray[Any], distinct: NDArray[Any]) -> Ints:
    """Return the place of each whole number among those that there are."""
    least, most = int(distinct[0]), int(distinct[-1])
    places = np.searchsorted(distinct, np.arange(least, most + 1))
    return places.take(values if least == 0 else values.astype(np.int64) - least)


def _kind(cls: type) -> str:
    if issubclass(cls, str):
        return "text"
    return "true and false" if issubclass(cls, bool | np.bool_) else "numbers"


def written_labels(name: str, column: Column) -> Labels:
    """Return labels whose classes are texts, in order: how the values are written."""
    texts = np.asarray(written_column(column), dtype=object)
    index, classes = pd.factorize(texts, sort=True)
    return Labels(name, index.astype(np.int64), classes.tolist())


class LabelTally:
    """The classes of one fact, gathered batch by batch.

    ``role``: "public fact" or "private fact", for the messages.
    """

    def __init__(self, name: str, role: str) -> None:
        self.name, self.role = name, role
        self._counts: Counter[str] = Counter()
        self._values: dict[str, Plain] = {}
        self._parts: list[NDArray[np.uint8]] = []

    def add(self, column: Column) -> None:
        """Add the labels of the next rows.

        Raises InputError: if a label is missing or continuous, or there are too many classes.
        """
        check_label_values(column, f"{self.role} {self.name!r}")
        found = written_labels(self.name, column)
        first = np.unique(found.index, return_index=True)[1]
        for text, count, row in zip(found.classes, found.counts, first, strict=True):
            self._counts[text] += count
            value = plain(column.iloc[row])
            self._values.setdefault(text, text if value is None else value)
        if len(self._counts) > 255:
            self.finish()
        numbers = {text: k for k, text in enumerate(self._counts)}
        places = np.array([numbers[text] for text in found.classes], dtype=np.uint8)
        self._parts.append(places[found.index])

    def finish(self) -> Labels:
        """Return the labels of all rows, one byte for each, once the classes passed all checks."""
        self._check_words()
        # Two rows of each class, where there are as many, tell all that the checks ask.
        few = [text for text, count in self._counts.items() for _ in range(min(count, 2))]
        values = pd.Series([self._values[text] for text in few]).to_numpy()
        found = label_column(self.name, values, self.role, single=False)
        place = dict(zip(few, found.index.tolist(), strict=True))
        places = np.array([place[text] for text in self._counts], dtype=np.uint8)
        self._parts = [places[part] for part in self._parts]  # batch by batch, in little memory
        return Labels(self.name, np.concatenate(self._parts), found.classes)

    def _check_words(self) -> None:
        """Refuse words for a missing label, as only the classes of all rows tell that they are."""
        if words_mean_missing(self._values.values()):
            words = [k for k, text in enumerate(self._counts) if is_missing_word(text)]
            gone = np.isin(np.concatenate(self._parts), words)
            raise _missing_labels(f"{self.role} {self.name!r}", np.flatnonzero(gone), len(gone))


# --- Checks ----------------------------------------------------------------------------------


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
    if not is_numeric(labels) and words_mean_missing(distinct_values(labels)):
        raise _missing_labels(label, labels.index[_missing_words(labels)], len(labels))
    _check_class_counts(labels, label, single)


def check_label_values(labels: Column, label: str) -> None:
    """Refuse labels that are missing, continuous or of a kind that has no classes.

    ``labels``: numbered from 0, or a part of such a column; messages count rows from 1. ``label``:
    what they are, for the message.
    """
    if (odd := unusable_kind(labels)) is not None:
        raise InputError(f"{label} holds {odd[0]}. Use text, whole numbers, true or false.")
    gone = labels.index[is_missing(labels)]
    if len(gone):
        raise _missing_labels(label, gone, len(labels))
    _check_not_continuous(labels, label)


def _missing_labels(
    label: str, gone: Sequence[int] | Ints | pd.Index[Any], rows: int
) -> InputError:
    first = ", ".join(str(row + 1) for row in gone[:5]) + (", ..." if len(gone) > 5 else "")
    return InputError(
        f"{label} is missing in {len(gone)} of {rows} rows (rows {first}; empty, NA and None count "
        "as missing, as do words like unavailable beside numbers or on and off). Label these rows "
        "or drop them."
    )


def _check_not_continuous(labels: Column, label: str) -> None:
    if not is_numeric(labels):
        return
    if isinstance(labels.dtype, np.dtype) and labels.dtype.kind in "iu":
        return
    values = labels.to_numpy(dtype=np.float64)
    odd = values[~(np.isfinite(values) & (np.floor(values) == values))]
    if len(odd):
        raise InputError(
            f"{label} looks continuous: it holds {shown(float(odd[0]))}. "
            "Bin it into a few classes first."
        )


def _check_class_counts(labels: Column, label: str, single: bool) -> None:
    counts = _count_written(labels)
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


def _count_written(labels: Column) -> dict[str, int]:
    """Return how often each class occurs, by how it is written."""
    if labels.dtype == object:  # hashing an object column would merge True with 1
        return Counter(written_column(labels))
    places, distinct = pd.factorize(labels)
    return dict(zip(written_column(pd.Series(distinct)), np.bincount(places).tolist(), strict=True))
