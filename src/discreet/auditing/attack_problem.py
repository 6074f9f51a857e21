"""What all attackers are given, checked once, and what they give back.

Attackers see classes as equally likely, since balanced accuracy is what an advantage is
measured in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.auditing.attack_folds import deal_groups, deal_rows
from discreet.auditing.symbol_rows import number_rows
from discreet.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Problem:
    """Rows of symbols with their fact, equal rows numbered alike, dealt into folds."""

    symbols: Ints  # distinct rows
    place: Ints  # the distinct row of every row
    sizes: tuple[int, ...]
    fact: Ints
    n_classes: int
    fold: Ints
    groups: Ints
    grouped: bool
    max_rows: int
    tables: list[Floats] | None
    codes: Ints | None

    @property
    def n_folds(self) -> int:
        return int(self.fold.max()) + 1


@dataclass(frozen=True)
class Guesses:
    """Scores of tested rows: proportional to the probability of a class, were all as likely."""

    rows: Ints
    scores: Floats
    learned: int


def normalised(scores: Floats) -> Floats:
    """Make each row add up to 1; a row of zeros says nothing and becomes even."""
    total = scores.sum(axis=1, keepdims=True)
    even = np.full_like(scores, 1.0 / scores.shape[1])
    return np.asarray(np.divide(scores, total, out=even, where=total > 0))


def pose(
    values: ArrayLike,
    sizes: Sequence[int],
    fact: ArrayLike,
    n_classes: int,
    *,
    tables: Sequence[Floats] | None,
    codes: ArrayLike | None,
    groups: ArrayLike | None,
    n_folds: int,
    max_rows: int,
    rng: np.random.Generator,
) -> Problem:
    """Check what is given and deal the rows into folds; the parameters are those of ``attack``."""
    checked = _check_values(values, sizes, "values")
    labels = _check_fact(fact, n_classes, len(checked))
    behind = _check_behind(tables, codes, len(checked), sizes)
    if n_folds < 2 or max_rows < 10:
        raise InputError(
            f"n_folds must be at least 2 and max_rows at least 10, got {n_folds} and {max_rows}."
        )
    if groups is None:
        together = np.arange(len(checked))
        fold = deal_rows(labels, n_folds, rng)
    else:
        together = _check_groups(groups, len(checked))
        fold = deal_groups(labels, together, n_folds, rng)
    symbols, place = number_rows(checked, sizes)
    return Problem(
        symbols=symbols,
        place=place,
        sizes=tuple(int(size) for size in sizes),
        fact=labels,
        n_classes=n_classes,
        fold=fold,
        groups=together,
        grouped=groups is not None,
        max_rows=max_rows,
        tables=None if tables is None else list(tables),
        codes=behind,
    )


def _check_values(values: ArrayLike, sizes: Sequence[int], what: str) -> Ints:
    array = np.asarray(values)
    if array.ndim != 2 or array.shape[1] != len(sizes) or not len(sizes):
        raise InputError(
            f"the {what} have shape {array.shape} and there are {len(sizes)} sizes. Give one row "
            "per moment and one column per sensor."
        )
    if array.dtype.kind not in "iu":
        raise InputError(f"the {what} must be integers; the array is of {array.dtype}.")
    wrong = (array < 0) | (array >= np.asarray(sizes))
    if wrong.any():
        row, t = np.argwhere(wrong)[0]
        raise InputError(
            f"column {t} of the {what} holds {array[row, t]}; its size covers 0..{sizes[t] - 1}."
        )
    return array.astype(np.int64)


def _check_fact(fact: ArrayLike, n_classes: int, n_rows: int) -> Ints:
    labels = np.asarray(fact)
    if labels.shape != (n_rows,) or labels.dtype.kind not in "iub":
        raise InputError(
            f"the fact has shape {labels.shape} and type {labels.dtype}; give one class number "
            f"for each of the {n_rows} rows."
        )
    if n_classes < 2 or (n_rows and not 0 <= labels.min() <= labels.max() < n_classes):
        raise InputError(f"the fact must hold classes 0..{n_classes - 1}, at least two of them.")
    labels = labels.astype(np.int64)
    counts = np.bincount(labels, minlength=n_classes)
    if counts.min() < 2:
        raise InputError(
            f"class {counts.argmin()} has {counts.min()} rows; an attack needs one to learn from "
            "and one to be tested on. Add rows, or leave the class out."
        )
    return labels


def _check_behind(
    tables: Sequence[Floats] | None, codes: ArrayLike | None, n_rows: int, sizes: Sequence[int]
) -> Ints | None:
    if tables is None and codes is None:
        return None
    if tables is None or codes is None:
        raise InputError("tables and codes belong together: give both, or neither.")
    behind = _check_values(codes, [len(table) for table in tables], "codes")
    if len(behind) != n_rows or [table.shape[1] for table in tables] != list(sizes):
        raise InputError(
            "the codes and tables are not those behind the symbols: give one row of codes "
            "per row of symbols, and one table per sensor with a column for each symbol."
        )
    return behind


def _check_groups(groups: ArrayLike, n_rows: int) -> Ints:
    """Return the groups, numbered from 0."""
    found = np.asarray(groups)
    if found.shape != (n_rows,):
        raise InputError(f"groups have shape {found.shape}; there are {n_rows} rows.")
    return np.unique(found, return_inverse=True)[1].astype(np.int64)
