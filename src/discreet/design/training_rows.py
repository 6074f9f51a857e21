"""The rows that a design learns from: dealt out to folds, and collapsed to the heads of its risks.

Equal rows of codes are collapsed first. A head is then two weight vectors over the
distinct rows, one for each sign (``solvers``), so that every risk in the design,
public or private, normalised or not, has the same form and differs in weights only.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold

from discreet.arrays import Floats, Ints, distinct_rows
from discreet.data.columns import Labels
from discreet.errors import InputError, Parameter

# --- Heads ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Head:
    """One binary question, as weights on the distinct rows."""

    name: str
    pos: Floats
    neg: Floats


@dataclass(frozen=True)
class Rows:
    """Distinct rows of codes.

    ``codes`` is of shape (n_distinct, n_sensors). ``inverse`` of shape (n_rows,): the distinct row
    of every original row. ``sizes``: number of codes of every sensor, seen or not.
    """

    codes: Ints
    inverse: Ints
    sizes: tuple[int, ...]

    @property
    def n_rows(self) -> int:
        return len(self.inverse)

    def total(self, weights: Floats) -> Floats:
        """Add up weights of the original rows on the distinct ones."""
        return np.bincount(self.inverse, weights, minlength=len(self.codes)).astype(np.float64)

    def class_weights(self, labels: Labels) -> Floats:
        """Return one row per class: its share of each distinct row, summing to 1."""
        parts = [self.total((labels.index == k).astype(float)) for k in range(labels.n_classes)]
        return np.stack([part / part.sum() for part in parts])

    def seen(self) -> list[NDArray[np.bool_]]:
        """Return, for every sensor, which codes occur at all."""
        return [
            np.bincount(c, minlength=k) > 0 for c, k in zip(self.codes.T, self.sizes, strict=True)
        ]


def collapse(codes: Ints, sizes: Sequence[int]) -> Rows:
    """Collapse equal rows of codes."""
    found = distinct_rows(codes)
    return Rows(found.rows, found.inverse, tuple(sizes))


def public_heads(rows: Rows, public: Labels) -> list[Head]:
    """Return the public heads: one for two classes, one against the rest beyond.

    Their weights add up to 1 over all heads, so that F is an average risk.
    """
    if public.n_classes == 2:
        return [_head(rows, f"{public.name}", public.index == 1, public.index == 0)]
    return [
        _head(rows, f"{public.name}={k}", public.index == k, public.index != k, public.n_classes)
        for k in range(public.n_classes)
    ]


def private_heads(
    rows: Rows, private: Labels, *, pairs: str = "all", normalised: bool = True
) -> list[Head]:
    """Return the private heads of one fact: pairs of classes.

    ``pairs``: every pair, or the paper's choice of class 0 against each other one, whose bound on
    the remaining pairs is twice as loose. ``normalised``: weights 1/(2 n_g), so that rare classes
    count as much as frequent ones. False gives the older Bayes-error risk: every row of the pair
    counts the same.
    """
    if pairs not in ("all", "reference"):
        raise InputError(f"pairs must be 'all' or 'reference', got {pairs!r}.")
    chosen = list(combinations(range(private.n_classes), 2))
    if pairs == "reference":
        chosen = [(a, b) for a, b in chosen if a == 0]
    heads = []
    for a, b in chosen:
        minus, plus = private.index == a, private.index == b
        name = f"{private.name}:{a}|{b}"
        if normalised:
            pos, neg = rows.total(plus.astype(float)), rows.total(minus.astype(float))
            heads.append(Head(name, pos / (2.0 * pos.sum()), neg / (2.0 * neg.sum())))
        else:
            heads.append(_head(rows, name, plus, minus))
    return heads


def _head(
    rows: Rows, name: str, plus: NDArray[np.bool_], minus: NDArray[np.bool_], parts: int = 1
) -> Head:
    """Return the head in which every row counts the same."""
    pos, neg = rows.total(plus.astype(float)), rows.total(minus.astype(float))
    each = 1.0 / (float(pos.sum() + neg.sum()) * parts)
    return Head(name, each * pos, each * neg)


# --- Folds ----------------------------------------------------------------------------------

Fold = tuple[Ints, Ints]

_ATTEMPTS = 20


@dataclass(frozen=True)
class Sample:
    """Coded rows with their labels, before equal rows are collapsed.

    ``ordered`` tells how many codes of each sensor lie on a line, from the first; 0 for
    categories, or if nobody asks.
    """

    codes: Ints
    sizes: tuple[int, ...]
    public: Labels
    private: tuple[Labels, ...]
    ordered: tuple[int, ...] = ()

    @property
    def facts(self) -> list[Labels]:
        """The public fact, then the private ones."""
        return [self.public, *self.private]

    def take(self, index: Ints | slice) -> Sample:
        return Sample(
            rows_of(self.codes, index),
            self.sizes,
            self.public.take(index),
            tuple(fact.take(index) for fact in self.private),
            self.ordered,
        )

    def rows(self) -> Rows:
        """Return the distinct rows."""
        return collapse(self.codes, self.sizes)


def rows_of(codes: Ints, index: Ints | slice) -> Ints:
    """Return some rows of a coded table; columns remain contiguous."""
    columns = codes.T
    return (columns[:, index] if isinstance(index, slice) else columns.take(index, axis=1)).T


def split_folds(
    sample: Sample, n_folds: int, groups: Ints | None, rng: np.random.Generator
) -> list[Fold]:
    """Return (rest, fold) for folds that each hold every class.

    Rows, or whole groups, are dealt at random. Were each combination of labels spread evenly, the
    rows left out would have the shares of the others, by luck as far from the truth: tables that
    cancel what one fact tells of another by these shares would seem to leak less than they do. So
    that is done only if classes are too rare for chance to bring each of them to every fold. If a
    class would be absent from some side all the same, fewer folds are tried.
    """
    facts = sample.facts
    for count in range(n_folds, 1, -1):
        for dealt in _deals(facts, groups, count, rng):
            splits = [
                (np.flatnonzero(dealt != k), np.flatnonzero(dealt == k)) for k in range(count)
            ]
            if all(_has_all_classes(facts, side) for split in splits for side in split):
                return splits
    raise _too_few(facts, groups)


def _deals(
    facts: Sequence[Labels], groups: Ints | None, count: int, rng: np.random.Generator
) -> Iterator[Ints]:
    """Yield the fold of every row: at random, then with combinations of labels spread evenly."""
    units, index = np.unique(groups, return_inverse=True) if groups is not None else (None, None)
    n_units = len(facts[0].index) if units is None else len(units)
    if n_units < count:
        return
    for _ in range(_ATTEMPTS):
        dealt = rng.permutation(n_units) % count
        yield dealt if index is None else dealt[index]
    cells = _label_cells(facts)
    if groups is None:
        yield _deal_rows(cells, count, rng)
        return
    for _ in range(_ATTEMPTS):
        yield _deal_groups(cells, groups, count, rng)


def _deal_rows(cells: Ints, count: int, rng: np.random.Generator) -> Ints:
    order = np.empty(len(cells), dtype=np.int64)
    order[rng.permutation(len(cells))] = np.arange(len(cells))
    order = order[np.argsort(cells[order], kind="stable")]
    fold = np.empty(len(cells), dtype=np.int64)
    fold[order] = np.arange(len(cells)) % count
    return fold


def _deal_groups(cells: Ints, groups: Ints, count: int, rng: np.random.Generator) -> Ints:
    dealer = StratifiedGroupKFold(count, shuffle=True, random_state=int(rng.integers(2**31)))
    fold = np.zeros(len(cells), dtype=np.int64)
    # Cells too rare for every fold are no matter here: single classes are checked afterwards.
    common = np.where(np.bincount(cells)[cells] >= count, cells, cells.max() + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for k, (_, held) in enumerate(dealer.split(cells, common, groups)):
            fold[held] = k
    return fold


def _label_cells(facts: Sequence[Labels]) -> Ints:
    """Return the number of each row's combination of classes, of those that occur."""
    cells = np.zeros(len(facts[0].index), dtype=np.int64)
    for fact in facts:
        cells = pd.factorize(cells * fact.n_classes + fact.index, sort=True)[0].astype(np.int64)
    return cells


def _has_all_classes(facts: Sequence[Labels], index: Ints) -> bool:
    return all(np.bincount(fact.index[index], minlength=fact.n_classes).all() for fact in facts)


def _too_few(facts: Sequence[Labels], groups: Ints | None) -> InputError:
    fact = min(facts, key=lambda each: int(np.bincount(each.index).min()))
    least = int(np.bincount(fact.index).min())
    where = ""
    if groups is not None:
        rarest = int(np.argmin(np.bincount(fact.index)))
        held = len(np.unique(groups[fact.index == rarest]))
        where = f" in {held} of {len(np.unique(groups))} groups, which stay whole"
    return InputError(
        f"Two folds cannot both hold every class, as the search for a privacy level needs: the "
        f"rarest class of {fact.name!r} has {least} of {len(fact.index)} rows{where}. Add "
        f"{'rows of' if groups is None else 'groups with'} that class, or ask by ",
        Parameter("privacy_ratio"),
        " instead.",
    )
