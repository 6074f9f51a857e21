"""The rows that a design learns from: dealt out to folds, and collapsed to the heads of its risks.

Equal rows of codes are collapsed first. A head is then two weight vectors over the
distinct rows, one for each sign (``solvers``), so that every risk in the design,
public or private, normalised or not, has the same form and differs in weights only.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
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
LEAST_IN_FOLD = 5
"""Rows of a kind that tell their spread; kinds of which a fold has fewer are rare."""


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

    Rows are dealt so that each combination of labels is spread evenly, but for rare ones, which are
    dealt at random: whoever looks at few rows of a kind could not tell their spread from that of
    their shares (``class_distances``). Whole groups are dealt at random, as many rows to each fold
    as can be. If a class would be absent from some side, fewer folds are tried.
    """
    facts = sample.facts
    for count in range(n_folds, 1, -1):
        if groups is None:
            dealt = _deal_rows(facts, count, rng)
        else:
            dealt = _deal_groups(facts, groups, count, rng)
        if dealt is not None:
            return [(np.flatnonzero(dealt != k), np.flatnonzero(dealt == k)) for k in range(count)]
    raise _too_few(facts, groups)


def _deal_rows(facts: Sequence[Labels], count: int, rng: np.random.Generator) -> Ints | None:
    """Return the fold of every row, None if chance leaves a class out."""
    cells = label_cells(facts)
    rare = np.bincount(cells)[cells] < LEAST_IN_FOLD * count
    by_rarity = sorted(facts, key=lambda fact: int(np.bincount(fact.index).min()))
    for rest in [np.zeros_like(cells), *(fact.index for fact in by_rarity), cells]:
        kinds = np.where(rare, rest, rest.max() + 1 + cells)
        for _ in range(_ATTEMPTS):
            dealt = _deal_evenly(kinds, count, rng)
            if _is_whole(facts, dealt, count):
                return dealt
    return None


def _deal_evenly(kinds: Ints, count: int, rng: np.random.Generator) -> Ints:
    order = np.empty(len(kinds), dtype=np.int64)
    order[rng.permutation(len(kinds))] = np.arange(len(kinds))
    order = order[np.argsort(kinds[order], kind="stable")]
    fold = np.empty(len(kinds), dtype=np.int64)
    fold[order] = np.arange(len(kinds)) % count
    return fold


def _deal_groups(
    facts: Sequence[Labels], groups: Ints, count: int, rng: np.random.Generator
) -> Ints | None:
    """Return the fold of every row, whole groups at random; None if a class is left out.

    Of several deals one is taken in which each fold has each class in two groups, which show how
    groups differ, and of those the one with most rows in its smallest fold.
    """
    units, place, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(units) < count:
        return None
    members = [_present_in(place, fact) for fact in facts]
    best, found = (0, 0), None
    for _ in range(_ATTEMPTS):
        dealt = rng.permutation(len(units)) % count
        fewest = min(_fewest_groups(dealt, *each, count) for each in members)
        merit = min(fewest, 2), int(np.bincount(dealt, sizes, minlength=count).min())
        if fewest and merit > best:
            best, found = merit, dealt[place]
    return found if found is not None else _deal_groups_evenly(facts, groups, count, rng)


def _present_in(place: Ints, fact: Labels) -> tuple[Ints, Ints]:
    """Return each class of each group, once: groups and classes."""
    group, kind = np.divmod(np.unique(place * fact.n_classes + fact.index), fact.n_classes)
    return group, kind


def _fewest_groups(dealt: Ints, group: Ints, kind: Ints, count: int) -> int:
    """Return how many groups with a class the fold has that has fewest."""
    n_classes = int(kind.max()) + 1
    held = np.bincount(dealt[group] * n_classes + kind, minlength=count * n_classes)
    return int(held.min())


def _deal_groups_evenly(
    facts: Sequence[Labels], groups: Ints, count: int, rng: np.random.Generator
) -> Ints | None:
    """Deal so that combinations of labels are spread evenly, which helps where many are rare."""
    cells = label_cells(facts)
    # Cells too rare for every fold are no matter here: single classes are checked afterwards.
    common = np.where(np.bincount(cells)[cells] >= count, cells, cells.max() + 1)
    fold = np.zeros(len(cells), dtype=np.int64)
    for _ in range(_ATTEMPTS):
        dealer = StratifiedGroupKFold(count, shuffle=True, random_state=int(rng.integers(2**31)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            for k, (_, held) in enumerate(dealer.split(cells, common, groups)):
                fold[held] = k
        if _is_whole(facts, fold, count):
            return fold
    return None


def label_cells(facts: Sequence[Labels]) -> Ints:
    """Return the number of each row's combination of classes, of those that occur."""
    cells = np.zeros(len(facts[0].index), dtype=np.int64)
    for fact in facts:
        cells = pd.factorize(cells * fact.n_classes + fact.index, sort=True)[0].astype(np.int64)
    return cells


def _is_whole(facts: Sequence[Labels], dealt: Ints, count: int) -> bool:
    """Tell whether each fold, and what it leaves, has every class."""
    held = [
        np.bincount(dealt * fact.n_classes + fact.index, minlength=count * fact.n_classes)
        for fact in facts
    ]
    return all(each.all() for each in held)


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
