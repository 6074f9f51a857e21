"""Rows dealt out to folds, so that what was learned can be tried on what was left out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedGroupKFold

from discreet.arrays import Ints
from discreet.data.labels import Labels
from discreet.design.heads import Rows, collapse
from discreet.errors import InputError, Parameter

Fold = tuple[Ints, Ints]

_GROUP_ATTEMPTS = 20


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
            self.codes[index],
            self.sizes,
            _take(self.public, index),
            tuple(_take(fact, index) for fact in self.private),
            self.ordered,
        )

    def rows(self) -> Rows:
        """Return the distinct rows."""
        return collapse(self.codes, self.sizes)


def split_folds(
    sample: Sample, n_folds: int, groups: Ints | None, rng: np.random.Generator
) -> list[Fold]:
    """Return (rest, fold) for folds that each hold every class.

    Rows, or whole groups, are dealt so that each combination of labels is spread evenly.
    If a class would be absent from some side, fewer folds are tried.
    """
    facts = (sample.public, *sample.private)
    cells = _label_cells(facts)
    for count in range(n_folds, 1, -1):
        for dealt in _deals(cells, groups, count, rng):
            splits = [
                (np.flatnonzero(dealt != k), np.flatnonzero(dealt == k)) for k in range(count)
            ]
            if all(_has_all_classes(facts, side) for split in splits for side in split):
                return splits
    raise _too_few(facts, groups)


def _deals(cells: Ints, groups: Ints | None, count: int, rng: np.random.Generator) -> list[Ints]:
    if groups is None:
        return [_deal_rows(cells, count, rng)]
    if len(np.unique(groups)) < count:
        return []
    return [_deal_groups(cells, groups, count, rng) for _ in range(_GROUP_ATTEMPTS)]


def _deal_rows(cells: Ints, count: int, rng: np.random.Generator) -> Ints:
    order = np.argsort(rng.permutation(len(cells)))
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


def _take(labels: Labels, index: Ints | slice) -> Labels:
    return labels.take(index)
