"""What users hand to the mappers: labels, groups and parameters, checked and put in form."""

from __future__ import annotations

from collections.abc import Mapping as Dict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.design.heads import Labels
from discreet.errors import InputError, MissingPrivateError
from discreet.mapping_parts import Fact
from discreet.values import check_scalar

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class LabelColumn:
    """A label column, its classes and the class of every row."""

    name: str
    classes: NDArray[Any]
    index: Ints

    def labels(self) -> Labels:
        return Labels(self.name, self.index, len(self.classes))

    def describe(self) -> Fact:
        """Return the fact as the mapping file holds it."""
        try:
            return Fact(name=self.name, classes=tuple(check_scalar(c) for c in self.classes))
        except ValueError as error:  # pydantic's kinds of it
            reason = " ".join(str(error).split())
            raise InputError(
                f"{self.name!r}: a mapping file cannot hold these classes ({reason[:200]}). "
                "Rename them."
            ) from None


def private_facts(private: Any, n_rows: int) -> list[LabelColumn]:
    """Return the private facts, one for each column; refuse their absence."""
    if private is None:
        raise MissingPrivateError(
            "fit needs private=, the fact to protect: a Series, or a DataFrame for several. "
            "Without it nothing would be protected."
        )
    if isinstance(private, pd.DataFrame):
        columns = [(str(name), private[name].to_numpy()) for name in private.columns]
    else:
        array = np.asarray(private)
        name = getattr(private, "name", None)
        if array.ndim == 1:
            columns = [("private" if name is None else str(name), array)]
        elif array.ndim == 2:
            columns = [(f"private{k}", column) for k, column in enumerate(array.T)]
        else:
            raise InputError(f"private must have 1 or 2 dimensions, got {array.ndim}.")
    if not columns:
        raise InputError("private has no columns. Give at least one fact to protect.")
    for name, values in columns:
        if len(values) != n_rows:
            raise InputError(f"private fact {name!r} has {len(values)} rows; X has {n_rows}.")
    return [label_column(name, values) for name, values in columns]


def label_column(name: object, values: Any) -> LabelColumn:
    """Index the classes of one label column."""
    values = np.asarray(values)
    if pd.isna(values).any():
        raise InputError(
            f"{name!r} has {int(pd.isna(values).sum())} missing labels. Leave those rows out."
        )
    try:
        classes, index = np.unique(values, return_inverse=True)
    except TypeError:
        raise InputError(f"{name!r} mixes kinds of labels that cannot be ordered.") from None
    if len(classes) < 2:
        raise InputError(
            f"{name!r} has one class only, {classes[0]!r}. A fact needs at least two classes to "
            "be learned or protected."
        )
    return LabelColumn(str(name), classes, index.astype(np.int64))


def group_index(groups: Any, n_rows: int) -> Ints | None:
    """Return the number of each row's group, from 0."""
    if groups is None:
        return None
    values = np.asarray(groups)
    if len(values) != n_rows:
        raise InputError(f"groups has {len(values)} rows; X has {n_rows}.")
    index: Ints = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return index


def symbol_counts(n_symbols: Any, names: list[str]) -> tuple[int, ...]:
    """Return the number of symbols of every sensor."""
    if isinstance(n_symbols, Dict):
        unknown = sorted(set(n_symbols) - set(names))
        if unknown:
            raise InputError(f"n_symbols names {unknown[0]!r}, which is not a sensor of {names}.")
        counts = [n_symbols.get(name, 2) for name in names]
    elif isinstance(n_symbols, Sequence) and not isinstance(n_symbols, str):
        counts = list(n_symbols)
        if len(counts) != len(names):
            raise InputError(
                f"n_symbols has {len(counts)} entries; there are {len(names)} sensors."
            )
    else:
        counts = [n_symbols] * len(names)
    for name, count in zip(names, counts, strict=True):
        check_count(f"n_symbols of {name!r}", count, 2)
    return tuple(int(count) for count in counts)


def array_names(n_columns: int) -> list[str]:
    """Return names for columns that came without."""
    return [f"x{k}" for k in range(n_columns)]


def check_number(name: str, value: Any, low: float, high: float, words: str) -> None:
    """Refuse anything but None or a number strictly between the two."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InputError(f"{name} must be a number {words}, got {value!r}.")
    if not low < value < high:
        raise InputError(f"{name} must be {words}, got {value!r}.")


def check_count(name: str, value: Any, least: int) -> None:
    """Refuse anything but an integer that is large enough."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} must be an integer of at least {least}, got {value!r}.")


def check_choice(name: str, value: Any, choices: Any) -> None:
    """Refuse anything but one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name} must be one of {sorted(choices)}, got {value!r}.")
