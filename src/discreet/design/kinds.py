"""Kinds of rows, which are combinations of all facts: how often each occurs, and where.

How often is known from all rows, whoever learned from them; what each kind shows is looked at on
rows left out (``class_distances``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from discreet.arrays import Floats, Ints
from discreet.data.columns import Labels
from discreet.design.training_rows import LEAST_IN_FOLD, Sample, label_cells

_MOST_KINDS = 64  # that attackers tell apart at most


@dataclass(frozen=True)
class Strata:
    """Unseen rows of a class, kind by kind.

    ``begins``: the first row of each kind. ``shares``: of each kind among all rows of the class,
    known and unseen, of which there are ``total``.
    """

    rows: Ints
    begins: Ints
    shares: Floats
    total: int

    @property
    def counts(self) -> Ints:
        return np.diff(self.begins, append=len(self.rows))

    def means(self, values: Floats) -> Floats:
        """Return the mean of each kind; ``values``: of the rows, in their order."""
        return np.asarray(np.add.reduceat(values, self.begins) / self.counts[:, None])


class Kinds:
    """Which kind a row is of: its combination of all facts."""

    def __init__(self, known: Sample, unseen: Sample) -> None:
        self.public = known.public
        both = zip(known.facts, unseen.facts, strict=True)
        cells = label_cells([replace(a, index=np.append(a.index, b.index)) for a, b in both])
        self.known, self.unseen = np.split(cells, [len(known.codes)])

    def taught(self, inside: Ints | slice, fact: Labels) -> Ints:
        """Return the kinds of some known rows; many kinds are told apart by two facts only."""
        if self.known.max(initial=0) < _MOST_KINDS:
            return self.known[inside]
        return label_cells([self.public, fact])[inside]

    def strata(
        self, inside: Ints | slice, taught: Ints, rows: Ints | slice, index: Ints, *, whole: bool
    ) -> dict[int, Strata]:
        """Return the unseen rows of every class; rare kinds count as one.

        ``inside``, ``rows``: the known and unseen rows that are looked at, and their classes.
        ``whole``: whether all kinds count as one.
        """
        known, unseen = self.known[inside], self.unseen[rows]
        if whole:
            known, unseen = np.zeros_like(known), np.zeros_like(unseen)
        return {
            int(k): _stratify(np.flatnonzero(index == k), unseen[index == k], known[taught == k])
            for k in np.unique(index)
        }


def _stratify(rows: Ints, unseen: Ints, known: Ints) -> Strata:
    n_kinds = 1 + max(int(part.max(initial=0)) for part in (unseen, known))
    seen = np.bincount(unseen, minlength=n_kinds)
    every = seen + np.bincount(known, minlength=n_kinds)
    rare = (every > 0) & (seen < LEAST_IN_FOLD)
    for kind in np.argsort(seen, kind="stable"):  # two rows, at least, tell a spread
        if not rare.any() or seen[rare].sum() >= 2:
            break
        rare[kind] |= every[kind] > 0
    place = np.where(rare, n_kinds, np.arange(n_kinds))[unseen]
    order = np.argsort(place, kind="stable")
    _, begins = np.unique(place[order], return_index=True)
    common = np.flatnonzero((every > 0) & ~rare)
    shares = np.append(every[common], every[rare].sum() if rare.any() else []) / every.sum()
    return Strata(rows[order], begins, shares, int(every.sum()))
