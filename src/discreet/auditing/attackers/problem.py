"""What all attackers are given: checked rows, equal rows merged, dealt into folds.

Attackers see classes as equally likely, because an advantage is measured in balanced accuracy.

**Folds.** Fold k is attacked by attackers that learned from the folds before it. The first fold
only teaches; every other row is attacked once. Ordinary cross-validation lets rows teach each
other's attackers; their hits are then correlated, and where nothing leaks a 97.5 % lower bound on
accuracy failed in 4 to 8 % of simulations (500 rows, 2 to 32 outputs, a table), against 2 % here.
Each row is guessed given the past, so the count of hits behaves like a binomial count with at
most the best attacker's accuracy. With two folds every interval is exact for the attacker as it
learned. With more, it holds for the average over folds, and assumes that a class's accuracy does
not depend on which rows fell into earlier folds.

Slow attackers get fewer rows. Every class must have rows, numbered from 0.

**Readings.** Attackers that see readings instead of symbols get finer codes than the mapping's own,
chosen without a look at any label: up to 64 values or equal shares of a numeric column, every
category of another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import ArrayLike
from sklearn.model_selection import StratifiedGroupKFold

from discreet.arrays import Floats, Ints, distinct_rows
from discreet.data.columns import (
    Column,
    as_floats,
    is_missing,
    is_numeric,
    understood,
    written_column,
)
from discreet.errors import InputError


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
        found = np.asarray(groups)
        if found.shape != (len(checked),):
            raise InputError(f"groups have shape {found.shape}; there are {len(checked)} rows.")
        together = np.unique(found, return_inverse=True)[1].astype(np.int64)
        fold = deal_groups(labels, together, n_folds, rng)
    unique = distinct_rows(checked)
    return Problem(
        symbols=unique.rows,
        place=unique.inverse,
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


# --- Folds -----------------------------------------------------------------------------------


def deal_rows(fact: Ints, n_folds: int, rng: np.random.Generator) -> Ints:
    """Deal each class evenly; what is left over joins the first fold, which only teaches.

    Every tested fold then has the same number of each class, and the pooled balanced
    accuracy is the plain average of that of the folds.
    """
    n_folds = min(n_folds, int(np.bincount(fact).min()))
    fold = np.zeros(len(fact), dtype=np.int64)
    for k in range(int(fact.max()) + 1):
        rows = rng.permutation(np.flatnonzero(fact == k))
        each = len(rows) // n_folds
        dealt = np.repeat(np.arange(1, n_folds), each)
        fold[rows[: len(dealt)]] = dealt
    return fold


def deal_groups(fact: Ints, groups: Ints, n_folds: int, rng: np.random.Generator) -> Ints:
    """Deal whole groups, in as many folds as let every fold hold every class."""
    n_classes = int(fact.max()) + 1
    most = min(n_folds, int(groups.max()) + 1, int(np.bincount(fact).min()))
    for count in range(most, 1, -1):
        dealer = StratifiedGroupKFold(count, shuffle=True, random_state=int(rng.integers(2**31)))
        fold = np.empty(len(fact), dtype=np.int64)
        for k, (_, rows) in enumerate(dealer.split(fact[:, None], fact, groups)):
            fold[rows] = k
        seen = np.bincount(fold * n_classes + fact, minlength=count * n_classes)
        if seen.min() > 0:
            return fold
    raise InputError(
        "the groups cannot be dealt into two folds that each hold every class. Add groups with "
        "rows of the rare classes, or choose smaller groups."
    )


def thin(rows: Ints, fact: Ints, cap: float, rng: np.random.Generator) -> Ints:
    """Keep as many rows as the cap allows, the rarest classes first."""
    if len(rows) <= cap:
        return rows
    n_classes, each, left = int(fact.max()) + 1, 1, int(cap)
    for done, count in enumerate(np.sort(np.bincount(fact[rows]))):
        each = max(1, left // (n_classes - done))
        if count >= each:
            break
        left -= int(count)  # what a rare class does not use, the others share
    mixed = rng.permutation(rows)
    kept = [mixed[fact[mixed] == k][:each] for k in range(n_classes)]
    return np.sort(np.concatenate(kept))


def tested_rows(fold: Ints, fact: Ints, cap: float, rng: np.random.Generator) -> Ints:
    """Return the rows to test: all, or the same share of every class in every fold."""
    rows = np.flatnonzero(fold > 0)
    if len(rows) <= cap:
        return rows
    mixed = rng.permutation(rows)
    cell = fold[mixed] * (int(fact.max()) + 1) + fact[mixed]
    kept = []
    for each in np.unique(cell):
        own = mixed[cell == each]
        kept.append(own[: max(1, int(len(own) * cap / len(rows)))])
    return np.sort(np.concatenate(kept))


# --- Rows as arrays --------------------------------------------------------------------------


def count_rows(place: Ints, fact: Ints, n_classes: int) -> tuple[Ints, Floats]:
    """Return the distinct places and how many rows of each class they hold."""
    rows, own = np.unique(place, return_inverse=True)
    counts = np.bincount(own * n_classes + fact, minlength=len(rows) * n_classes)
    return rows, counts.reshape(-1, n_classes).astype(np.float64)


def one_hot(values: Ints, sizes: Sequence[int]) -> scipy.sparse.csr_array:
    """Return one column per sensor and symbol."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    columns = (values + starts[:-1]).ravel()
    pointers = np.arange(0, len(columns) + 1, len(sizes))
    return scipy.sparse.csr_array(
        (np.ones(len(columns)), columns, pointers), shape=(len(values), int(starts[-1]))
    )


# --- Readings --------------------------------------------------------------------------------

LEVELS = 64


def discretise_readings(readings: pd.DataFrame) -> tuple[Ints, list[int]]:
    """Return the codes of all columns and how many each column has."""
    columns = [_code(readings.iloc[:, t]) for t in range(readings.shape[1])]
    sizes = [max(int(column.max()) + 1, 2) for column in columns]
    return np.stack(columns, axis=1), sizes


def _code(column: Column) -> Ints:
    column = understood(column)
    gone = is_missing(column)
    present = column[~gone]
    found = np.zeros(len(column), dtype=np.int64)  # 0 is for what is missing
    if len(present):
        levels = _levels(as_floats(present)) if is_numeric(column) else _categories(present)
        found[~gone] = levels + 1
    return found


def _levels(values: Floats) -> Ints:
    finite = np.nan_to_num(values)  # infinities become the largest floats
    distinct = np.unique(finite)
    if len(distinct) <= LEVELS:
        return np.searchsorted(distinct, finite).astype(np.int64)
    cuts = np.quantile(finite, np.linspace(0, 1, LEVELS + 1)[1:-1], method="lower")
    return np.searchsorted(np.unique(cuts), finite, side="right").astype(np.int64)


def _categories(column: Column) -> Ints:
    """Give categories numbers, the most frequent first; those beyond the last share one."""
    texts, place = np.unique(np.array(written_column(column), dtype=str), return_inverse=True)
    rank = np.empty(len(texts), dtype=np.int64)
    rank[np.argsort(-np.bincount(place), kind="stable")] = np.arange(len(texts))
    return np.minimum(rank[place], LEVELS - 1)
