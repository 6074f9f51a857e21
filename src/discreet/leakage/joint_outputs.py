"""Products over sensors: Q(z|x) for every row and every output, and its gradient.

Outputs are numbered with the first sensor slowest, as ``numpy.ravel`` would.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from discreet.arrays import Floats, Ints

_ROWS_AT_ONCE = 20_000


class Products:
    """Q(z|x_i) of every row and output, kept for the way back to the tables.

    Outputs run along the first axis and rows along the last one, so that every
    operation sweeps over contiguous rows: with a handful of symbols the other
    order would be all overhead.
    """

    def __init__(self, tables: Sequence[Floats], codes: Ints) -> None:
        self._codes, self._sizes = codes.T, [len(table) for table in tables]
        self._factors = [table.T.take(c, 1) for table, c in zip(tables, self._codes, strict=True)]
        kind = np.result_type(*tables)  # of single precision if all tables are
        self._prefixes = [np.ones((1, len(codes)), kind)]  # products over the first t sensors
        for factor in self._factors:
            wider = self._prefixes[-1][:, None, :] * factor
            self._prefixes.append(wider.reshape(-1, len(codes)))

    @property
    def by_output(self) -> Floats:
        """Q(z|x_i), one row per output z."""
        return self._prefixes[-1]

    def pull_back(self, slope: Floats) -> list[Floats]:
        """Turn d f / d ``by_output`` into d f / d Q^t, sensor by sensor.

        One backward sweep: the last sensor is peeled off first, so the work shrinks
        geometrically and stays O(rows * outputs).
        """
        gradients: list[Floats] = [np.empty(0)] * len(self._sizes)
        for t in range(len(self._sizes) - 1, -1, -1):
            factor, before = self._factors[t], self._prefixes[t]
            block = slope.reshape(len(before), len(factor), -1)
            own = np.einsum("an,azn->zn", before, block)
            gradients[t] = scatter_rows(own.T, self._codes[t], self._sizes[t])
            if t:
                slope = np.einsum("azn,zn->an", block, factor)
        return gradients


def output_probabilities(tables: Sequence[Floats], codes: Ints) -> Floats:
    """Return Q(z|x_i) for every row i and every output z."""
    return Products(tables, codes).by_output.T


def weighted_outputs(tables: Sequence[Floats], codes: Ints, weights: Floats) -> Floats:
    """Return ``weights @ output_probabilities(tables, codes)``, some rows at a time.

    ``weights`` has one column per row. The rows' outputs are never all held at once.
    """
    if len(codes) <= _ROWS_AT_ONCE:
        return weights @ output_probabilities(tables, codes)
    total = np.zeros((len(weights), math.prod(table.shape[1] for table in tables)))
    for begin in range(0, len(codes), _ROWS_AT_ONCE):
        part = slice(begin, begin + _ROWS_AT_ONCE)
        total += weights[:, part] @ output_probabilities(tables, codes[part])
    return total


def pull_back(tables: Sequence[Floats], codes: Ints, slope: Floats) -> list[Floats]:
    """Turn d f / d Q(z|x_i) into d f / d Q^t, sensor by sensor."""
    return Products(tables, codes).pull_back(np.ascontiguousarray(slope.T))


def scatter_rows(values: Floats, index: Ints, size: int) -> Floats:
    """Add up rows of ``values`` that share an index."""
    width = values.shape[1]
    cells = index[:, None] * width + np.arange(width)
    sums = np.bincount(cells.ravel(), values.ravel(), size * width).astype(np.float64, copy=False)
    return sums.reshape(size, width)
