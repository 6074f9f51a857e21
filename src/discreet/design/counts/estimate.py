"""The distribution behind counts: sensors, or blocks of them, independent given the cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Floats, Ints
from discreet.design.counts.blocks import dependence, find_blocks
from discreet.design.counts.counting import FOLDS, Counts, cell_index, count_pairs
from discreet.design.counts.smoothing import (
    Alphabets,
    Smoothing,
    choose_smoothing,
    estimate_sensors,
)
from discreet.design.training_rows import Sample

_PAIRED_ROWS = 20_000  # that pairs are counted in: dependence that matters shows in these
_BLOCK_ROWS = 100_000  # that the joint codes of a block are counted in
_ALIKE = 3.0  # nats by which sensors have to differ, or they share what is known of them


@dataclass(frozen=True)
class Structure:
    """What is chosen once, from all rows: how to smooth, and which sensors form blocks."""

    smoothing: list[Smoothing]
    blocks: list[tuple[int, ...]]


@dataclass(frozen=True)
class Block:
    """Sensors that depend: their distinct joint codes, and p(joint code|cell)."""

    sensors: tuple[int, ...]
    codes: Ints
    given: Floats


@dataclass(frozen=True)
class CountModel:
    """An estimated distribution; cells without a row are left out.

    Attributes
    ----------
    facts : int array, cells by facts
        The public class of each cell, then the private ones.
    prior : array of shape (n_cells,)
    given : list of arrays, cells by codes
        p(code|cell) of every sensor.
    blocks : list of Block
    rows : array of shape (n_sensors, n_cells), optional
        How many rows each p(code|cell) is as good as; exact without.
    """

    facts: Ints
    prior: Floats
    given: list[Floats]
    blocks: list[Block] = field(default_factory=list)
    rows: Floats | None = None

    def class_rows(self, fact: int, within: NDArray[np.bool_] | None = None) -> Floats:
        """Return p(cell|class) for each class of a fact that occurs, classes by cells."""
        weights = self.prior if within is None else self.prior * within
        classes = self.facts[:, fact]
        rows = np.stack([weights * (classes == k) for k in np.unique(classes[weights > 0])])
        return np.asarray(rows / rows.sum(axis=1, keepdims=True))

    def public_shares(self) -> Floats:
        """Return the probability of each public class."""
        return np.bincount(self.facts[:, 0], self.prior).astype(np.float64)


def find_structure(
    sample: Sample, counts: Counts, n_symbols: Sequence[int], rng: np.random.Generator
) -> Structure:
    """Choose the smoothing by the likelihood of folds left out, and find the blocks."""
    kept = counts.cells > 0
    folds = [[table[k][kept].astype(np.float64) for table in counts.by_code] for k in range(FOLDS)]
    smoothing = choose_smoothing(Alphabets(sample.sizes, sample.ordered), folds, _ALIKE)
    some = _some(len(sample.codes), _PAIRED_ROWS, rng)
    cell = cell_index(sample.facts)[some]
    pairs = count_pairs(sample.codes[some], sample.sizes, cell, counts.n_cells)
    return Structure(smoothing, find_blocks(dependence(pairs, sample.sizes), n_symbols))


def estimate_counts(
    sample: Sample, counts: Counts, structure: Structure, rng: np.random.Generator
) -> CountModel:
    """Return what the counts say, with joint codes of blocks from the sample's rows."""
    kept = counts.cells > 0
    totals = [table.sum(axis=0)[kept].astype(np.float64) for table in counts.by_code]
    alphabets = Alphabets(sample.sizes, sample.ordered)
    given = estimate_sensors(alphabets, totals, structure.smoothing)
    rows = _rows_behind(alphabets, counts.cells[kept], structure.smoothing)
    prior = counts.cells[kept] / counts.cells.sum()
    some = _some(len(sample.codes), _BLOCK_ROWS, rng)
    cell = (np.cumsum(kept) - 1)[cell_index(sample.facts)[some]]
    blocks = [
        _count_block(sensors, sample.codes[some], cell, given) for sensors in structure.blocks
    ]
    return CountModel(counts.facts[kept], prior, given, blocks, rows)


def _rows_behind(alphabets: Alphabets, rows: Ints, smoothing: Sequence[Smoothing]) -> Floats:
    """Return how many rows of its own each estimate is as good as, sensors by cells.

    Sensors that share statistics lend each other rows, as many as the weight they have there.
    """
    found = np.empty((len(alphabets.sizes), len(rows)))
    for kind in alphabets.kinds():
        lent = smoothing[kind[0]].shared if len(kind) > 1 else 0.0
        each = lent / (rows + lent) / len(kind)  # weight of every sensor in what is shared
        own = rows / (rows + lent) + each
        found[kind] = rows / (own**2 + (len(kind) - 1) * each**2)
    return found


def _count_block(sensors: tuple[int, ...], codes: Ints, cell: Ints, given: list[Floats]) -> Block:
    distinct, row = np.unique(codes[:, sensors], axis=0, return_inverse=True)
    joint = np.zeros((len(given[0]), len(distinct)))
    np.add.at(joint, (cell, row.ravel()), 1.0)
    # Few rows of a cell would make joint codes certain that are not: one row more for each
    # sensor, as independent sensors would share it out among the joint codes that occur.
    alone = np.prod([given[t][:, distinct[:, k]] for k, t in enumerate(sensors)], axis=0)
    alone /= alone.sum(axis=1, keepdims=True)
    joint += len(sensors) * alone
    return Block(sensors, distinct, joint / joint.sum(axis=1, keepdims=True))


def _some(n_rows: int, most: int, rng: np.random.Generator) -> Ints | slice:
    return slice(None) if n_rows <= most else np.sort(rng.choice(n_rows, most, replace=False))
