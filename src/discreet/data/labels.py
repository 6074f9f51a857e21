"""Facts and groups: their classes, and the class of every row; labels that are refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.arrays import Ints
from discreet.data.columns import (
    Column,
    Plain,
    is_missing,
    is_numeric,
    plain,
    unusable_kind,
    written_column,
)
from discreet.errors import InputError, shown

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


def label_column(name: str, values: Any, role: str = "fact", *, single: bool = True) -> Labels:
    """Index the classes of one label column.

    ``single``: whether a class may have a single row, which cannot be both learned from and held
    out. Raises InputError: if the labels are missing, continuous or mixed, or their classes too few
    or many.
    """
    values = np.asarray(values)
    if values.dtype == object:  # where booleans and integers also come as objects
        values = pd.Series(values, dtype=object).infer_objects().to_numpy()
    check_labels(pd.Series(values), role, name, single=single)
    kinds = {_kind(each) for each in set(map(type, values))} if values.dtype == object else set()
    if len(kinds) > 1:
        raise InputError(
            f"{role} {name!r} mixes {' and '.join(sorted(kinds))}. Write its classes in one way."
        )
    index, classes = pd.factorize(values, sort=True)
    return Labels(name, index.astype(np.int64), np.asarray(classes))


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
        # Two rows of each class, where there are as many, tell all that the checks ask.
        few = [text for text, count in self._counts.items() for _ in range(min(count, 2))]
        values = pd.Series([self._values[text] for text in few]).to_numpy()
        found = label_column(self.name, values, self.role, single=False)
        place = dict(zip(few, found.index.tolist(), strict=True))
        places = np.array([place[text] for text in self._counts], dtype=np.uint8)
        self._parts = [places[part] for part in self._parts]  # batch by batch, in little memory
        return Labels(self.name, np.concatenate(self._parts), found.classes)


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
        first = ", ".join(str(row + 1) for row in gone[:5]) + (", ..." if len(gone) > 5 else "")
        raise InputError(
            f"{label} is missing in {len(gone)} of {len(labels)} rows (rows {first}; empty, NA and "
            "None count as missing). Label these rows or drop them."
        )
    _check_not_continuous(labels, label)


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
