"""Rows turned into counts, once: how often each code occurs in each cell.

A cell is a combination of the public class and the private ones. Counts are integers and add up
over batches, files and workers, in any order. Rows themselves are kept of a sample only, the same
ones however the table is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet.arrays import Ints
from discreet.data.labels import Labels
from discreet.design.training_rows import Sample

FOLDS = 5
"""Parts that rows are dealt to by turns, so that smoothing can be chosen from counts alone."""
SAMPLED_ROWS = 100_000
"""Most rows that are looked at as rows: for encoders, dependence, and levels tried."""


def sample_index(n_rows: int, most: int) -> Ints:
    """Return which of so many rows make a sample: always the same ones, in their order."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, most, replace=False))


def cell_index(facts: Sequence[Labels]) -> Ints:
    """Return the cell of every row, numbered the same in every batch."""
    found = np.zeros(len(facts[0].index), dtype=np.int64)
    for fact in facts:
        found *= fact.n_classes
        found += fact.index
    return found


@dataclass(frozen=True)
class Counts:
    """How often each code of each sensor occurs in each fold and cell.

    Attributes
    ----------
    by_code : tuple of int arrays of shape (FOLDS, n_cells, n_codes)
        One for every sensor.
    classes : tuple of int
        Classes of the public fact, then of the private ones.
    """

    by_code: tuple[Ints, ...]
    classes: tuple[int, ...]

    def __add__(self, other: Counts) -> Counts:
        pairs = zip(self.by_code, other.by_code, strict=True)
        return Counts(tuple(a + b for a, b in pairs), self.classes)

    def __sub__(self, other: Counts) -> Counts:
        pairs = zip(self.by_code, other.by_code, strict=True)
        return Counts(tuple(a - b for a, b in pairs), self.classes)

    @property
    def n_cells(self) -> int:
        return int(np.prod(self.classes))

    @property
    def cells(self) -> Ints:
        """Rows of each cell."""
        found: Ints = self.by_code[0].sum(axis=(0, 2))
        return found

    @property
    def facts(self) -> Ints:
        """Classes of each cell, cells by facts."""
        grid = np.unravel_index(np.arange(self.n_cells), self.classes)
        return np.stack(grid, axis=1).astype(np.int64)


def count_codes(
    codes: Ints, sizes: Sequence[int], facts: Sequence[Labels], numbers: Ints | None = None
) -> Counts:
    """Count one batch; ``numbers`` are those of its rows among all, from 0 on if not given."""
    classes = tuple(fact.n_classes for fact in facts)
    n_cells = int(np.prod(classes))
    numbers = np.arange(len(codes)) if numbers is None else numbers
    place = numbers % FOLDS * n_cells + cell_index(facts)
    begins = {size: place * size for size in set(sizes)}
    found = []
    for t, size in enumerate(sizes):
        flat = np.bincount(begins[size] + codes[:, t], minlength=FOLDS * n_cells * size)
        found.append(flat.reshape(FOLDS, n_cells, size))
    return Counts(tuple(found), classes)


@dataclass(frozen=True)
class CountedRows:
    """All rows as counts, and a sample of them as rows.

    ``totals``: how many of all rows have each code, by sensor. ``n_rows``: how many there are.
    ``sample``: all rows, or ``SAMPLED_ROWS`` of them; ``numbers``: theirs among all. ``groups``:
    theirs, if there are any; then ``counts`` are of the sample alone, since groups that are left
    out are left out whole.
    """

    counts: Counts
    totals: list[Ints]
    n_rows: int
    sample: Sample
    numbers: Ints
    groups: Ints | None

    def without(self, left_out: Ints) -> Counts:
        """Return the counts of all rows but some of the sample."""
        return self.counts - count_codes(
            self.sample.codes[left_out],
            self.sample.sizes,
            [fact.take(left_out) for fact in self.sample.facts],
            self.numbers[left_out],
        )


def counted_rows(counts: Counts, sample: Sample, numbers: Ints, groups: Ints | None) -> CountedRows:
    """Return what was counted of all rows beside those that are kept as rows."""
    totals = [table.sum(axis=(0, 1)) for table in counts.by_code]
    n_rows = int(totals[0].sum())
    if groups is not None and len(numbers) < n_rows:
        counts = count_codes(sample.codes, sample.sizes, sample.facts, numbers)
    return CountedRows(counts, totals, n_rows, sample, numbers, groups)


def count_pairs(codes: Ints, sizes: Sequence[int], cell: Ints, n_cells: int) -> Ints:
    """Count the pairs of codes of all sensors in each cell: one square matrix for each.

    Rows and columns are the codes of all sensors, one sensor after the other.
    """
    edges = np.cumsum([0, *sizes])
    found = np.zeros((n_cells, edges[-1], edges[-1]), dtype=np.int64)
    for c in np.unique(cell):
        rows = codes[cell == c] + edges[:-1]
        shown = np.zeros((len(rows), edges[-1]), dtype=np.float32)
        shown[np.arange(len(rows))[:, None], rows] = 1.0
        found[c] = np.rint(shown.T @ shown)  # exact: a batch has fewer than 2**24 rows
    return found
