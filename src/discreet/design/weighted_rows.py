"""Coded and labelled rows to weighted rows: packed codes, and the signed weights of every head.

Rows with the same labels weigh alike, so signed weights belong to combinations of labels
("kinds") and a row only says which one it has. Equal rows are counted instead of kept where that
is shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.arrays import Floats, Ints
from discreet.data.labels import Labels
from discreet.design.heads import Head, Rows
from discreet.design.packing import Packed, pack
from discreet.design.sweep import WeightedRows

# Counting equal rows pays if it leaves fewer than this share: a count takes room too.
_WORTH_COUNTING = 0.7
_SAMPLED_ROWS = 1 << 16
_MIXER = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplying loses nothing


@dataclass(frozen=True)
class KindRows:
    """Kinds in the place of rows, where the rows themselves are too many to hold.

    ``counts``: how many rows each kind stands for.
    """

    counts: Floats

    def total(self, weights: Floats) -> Floats:
        """Add up weights that every row of a kind has."""
        return weights * self.counts


@dataclass(frozen=True)
class LabelledRows:
    """Packed rows and the kind of each, before any head is chosen.

    ``packed``: distinct rows, or all of them. ``kinds``: the kind of each packed row. ``counts``:
    how often each packed row occurs; empty if once. ``by_kind``: the kinds in the place of distinct
    rows, which is what heads are made from.
    """

    packed: Packed
    kinds: NDArray[Any]
    counts: Floats
    by_kind: Rows

    @property
    def n_rows(self) -> int:
        return self.by_kind.n_rows

    def weighted_rows(self, heads: Sequence[Head]) -> WeightedRows:
        """Return the weighted rows of heads on ``by_kind``."""
        rows_of_kind = np.bincount(self.by_kind.inverse, minlength=len(self.by_kind.codes))
        signed_weights = np.stack([(head.pos - head.neg) / rows_of_kind for head in heads])
        return WeightedRows(self.packed, self.kinds, self.counts, signed_weights)


def label_rows(codes: Ints, sizes: Sequence[int], facts: Sequence[Labels]) -> LabelledRows:
    """Pack coded rows and number the combinations of their labels."""
    kind_labels, kind = _combinations(facts)
    packed = pack(codes, sizes)
    kinds = kind.astype(np.min_scalar_type(len(kind_labels) - 1))
    by_kind = Rows(kind_labels, kind, tuple(fact.n_classes for fact in facts))
    if _seem_distinct(packed, kinds):
        return LabelledRows(packed, kinds, np.empty(0), by_kind)
    first, counts = count_equal(packed, kinds)
    if len(first) > _WORTH_COUNTING * len(packed):
        return LabelledRows(packed, kinds, np.empty(0), by_kind)
    return LabelledRows(packed.take(first), kinds[first], counts, by_kind)


def _seem_distinct(packed: Packed, kinds: NDArray[Any]) -> bool:
    """Whether no two of a sample of the rows are equal.

    If counting paid, about 0.3 k^2 / n of the pairs among k of n rows would be equal: a
    thousand for a million rows.
    """
    if len(packed) <= _SAMPLED_ROWS:
        return False
    index = np.sort(np.random.default_rng(0).choice(len(packed), _SAMPLED_ROWS, replace=False))
    return len(count_equal(packed.take(index), kinds[index])[0]) == _SAMPLED_ROWS


def _combinations(facts: Sequence[Labels]) -> tuple[Ints, Ints]:
    """Return the combinations of labels that occur, and the one that each row has."""
    kind = np.zeros(len(facts[0].index), dtype=np.int64)
    labels = np.empty((1, 0), dtype=np.int64)
    for fact in facts:
        # Only what occurs is numbered, so that many facts do not overflow.
        kind = kind * fact.n_classes + fact.index
        there = np.flatnonzero(np.bincount(kind, minlength=len(labels) * fact.n_classes))
        number = np.zeros(len(labels) * fact.n_classes, dtype=np.int64)
        number[there] = np.arange(len(there))
        kind = number[kind]
        labels = np.column_stack([labels[there // fact.n_classes], there % fact.n_classes])
    return labels, kind


def count_equal(packed: Packed, kinds: NDArray[Any]) -> tuple[Ints, Floats]:
    """Return the first of each set of equal rows, in order, and the size of each set.

    Rows are told apart by 64-bit sums that mix all their bytes; the rows that seem equal
    are then compared, so that a coincidence cannot join different ones.
    """
    numbers = _mix(kinds.astype(np.uint64))
    for column in _columns(packed):
        numbers ^= column
        numbers = _mix(numbers)
    group, _ = pd.factorize(numbers)
    first = np.flatnonzero(np.r_[True, group[1:] > np.maximum.accumulate(group)[:-1]])
    same = all(np.array_equal(column, column[first][group]) for column in _columns(packed))
    if not (same and np.array_equal(kinds, kinds[first][group])):
        return np.arange(len(kinds)), np.ones(len(kinds))
    return first, np.bincount(group).astype(np.float64)


def _mix(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed = numbers * _MIXER
    mixed ^= mixed >> np.uint64(29)
    return mixed


def _columns(packed: Packed) -> list[NDArray[Any]]:
    narrow = [packed.byte(g) for g in range(len(packed.layout.narrow))]
    return narrow + list(packed.wide.T)
