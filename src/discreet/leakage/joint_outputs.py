"""Products over sensors: Q(z|x) for every row and output, its gradient, and its sums over rows.

Outputs are numbered with the first sensor slowest, as ``numpy.ravel`` would.

Q factorises over sensors, so a sum over rows is a product of thin matrices, one for each part of
the sensors, and ``average_outputs`` never builds the matrix of all rows by all outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from discreet.arrays import Floats, Ints, distinct_rows

_ROWS_AT_ONCE = 20_000
_COLLAPSED_AT_ONCE = 2**19


class Products:
    """Q(z|x_i) of every row and output, kept for the way back to the tables.

    Outputs run along the last axis but one and rows along the last one, so that every
    operation sweeps over contiguous rows: with a handful of symbols the other
    order would be all overhead. Tables may have axes before: several sets of them at once.
    """

    def __init__(self, tables: Sequence[Floats], codes: Ints) -> None:
        self._codes, self._sizes = codes.T, [table.shape[-2] for table in tables]
        pairs = zip(tables, self._codes, strict=True)
        self._factors = [table.swapaxes(-1, -2).take(c, axis=-1) for table, c in pairs]
        kind = np.result_type(*tables)  # of single precision if all tables are
        before = tables[0].shape[:-2]
        # Products over the first t sensors.
        self._prefixes = [np.ones((*before, 1, len(codes)), kind)]
        for factor in self._factors:
            wider = self._prefixes[-1][..., :, None, :] * factor[..., None, :, :]
            self._prefixes.append(wider.reshape(*before, -1, len(codes)))

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
            shape = (*factor.shape[:-2], before.shape[-2], *factor.shape[-2:])
            block = slope.reshape(shape)
            own = np.einsum("...an,...azn->...zn", before, block)
            gradients[t] = scatter_rows(own.swapaxes(-1, -2), self._codes[t], self._sizes[t])
            if t:
                slope = np.einsum("...azn,...zn->...an", block, factor)
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
    """Add up rows of ``values``, the last axis but one, that share an index."""
    *before, _, width = values.shape
    sets = np.arange(math.prod(before))[:, None, None] * (size * width)
    cells = sets + (index[:, None] * width + np.arange(width))
    length = math.prod(before) * size * width
    sums = np.bincount(cells.ravel(), values.ravel(), length).astype(np.float64, copy=False)
    return sums.reshape(*before, size, width)


# --- Sums over rows, and what the tables alone say -------------------------------------------

BLOCK_NUMBERS = 2**19  # entries of the thin matrices made at once, which stay in the cache
_HEAD_OVERHEAD = 2**15  # multiplications that take the time of calling for one more product


def count_outputs(tables: Sequence[Floats]) -> int:
    """Return the number of outputs, the product of the numbers of symbols."""
    return math.prod(table.shape[1] for table in tables)


def smallest_and_largest(tables: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return min and max of Q(z|x) over all rows of codes x, for every output z."""
    smallest = largest = np.ones(1)
    for table in tables:
        smallest = np.multiply.outer(smallest, table.min(axis=0)).ravel()
        largest = np.multiply.outer(largest, table.max(axis=0)).ravel()
    return smallest, largest


def dobrushin_coefficients(tables: Sequence[Floats]) -> Floats:
    """Return each sensor's largest total variation between the symbols of two codes."""
    return np.array([_widest_pair(table) for table in tables])


def dobrushin(tables: Sequence[Floats]) -> float:
    """Bound the total variation between the outputs of any two rows of codes.

    Sensors draw independently, so couplings multiply: eta <= 1 - prod (1 - eta_t).
    """
    return float(1.0 - np.prod(1.0 - dobrushin_coefficients(tables)))


def _widest_pair(table: Floats) -> float:
    if table.shape[1] == 2:
        return float(np.ptp(table[:, 0]))
    distances = (0.5 * np.abs(table - row).sum(axis=1).max() for row in table)
    return min(1.0, float(max(distances)))


def average_outputs(tables: Sequence[Floats], codes: Ints, weights: Floats) -> Floats:
    """Return sum_i weights[g, i] prod_t tables[t][x_i^t, z^t] for every g and z.

    Equal rows are collapsed, among so many at a time. For every class one matrix product runs over
    the rows with the same head, and another over the heads.
    """
    if len(codes) > _COLLAPSED_AT_ONCE:
        starts = range(0, len(codes), _COLLAPSED_AT_ONCE)
        some = (slice(start, start + _COLLAPSED_AT_ONCE) for start in starts)
        return reduce(
            np.add, (average_outputs(tables, codes[own], weights[:, own]) for own in some)
        )
    unique = distinct_rows(codes)
    distinct, inverse = unique.rows, unique.inverse
    parts = _Parts(tables, len(distinct))
    sums = np.zeros((len(weights), parts.shape[0], parts.shape[1] * parts.shape[2]))
    with _one_thread_if(len(distinct) * sum(parts.shape) > BLOCK_NUMBERS):
        for own, total in zip(weights, sums, strict=True):
            merged = np.bincount(inverse, own, minlength=len(distinct))
            for block in parts.blocks(distinct, np.flatnonzero(merged)):
                middle = block.middle * merged[block.rows, None]
                for heads, runs in block.heads():
                    within = np.stack([middle[run].T @ block.right[run] for run in runs])
                    total += heads.T @ within.reshape(len(runs), -1)
    return sums.reshape(len(weights), -1)


def set_probabilities(tables: Sequence[Floats], codes: Ints, inside: NDArray[np.bool_]) -> Floats:
    """Return Q(A|x_i) of every row for one set A of outputs, ``inside`` by output.

    The sum over A is a product of the heads with the indicator of A, of the middle part with
    the result, and with the right half row by row.
    """
    unique = distinct_rows(codes)
    distinct, inverse = unique.rows, unique.inverse
    parts = _Parts(tables, len(distinct))
    indicator = inside.reshape(parts.shape[0], -1).astype(np.float64)
    found = np.empty(len(distinct))
    with _one_thread_if(len(distinct) * sum(parts.shape) > BLOCK_NUMBERS):
        for block in parts.blocks(distinct, np.arange(len(distinct))):
            for heads, runs in block.heads():
                sets = (heads @ indicator).reshape(len(runs), *parts.shape[1:])
                for run, own in zip(runs, sets, strict=True):
                    sums = block.middle[run] @ own
                    found[block.rows[run]] = np.einsum("ij,ij->i", sums, block.right[run])
    return found[inverse]


class _Parts:
    """The sensors in three parts, whose products over rows are thin matrices.

    Distinct rows are in order, so that those with the same codes at the first sensors, their
    head, stand together: what the head contributes is multiplied once for all of them.
    """

    def __init__(self, tables: Sequence[Floats], n_rows: int) -> None:
        cut = _balanced_cut([table.shape[1] for table in tables])
        self.depth = min(range(cut + 1), key=lambda depth: _work(tables, depth, n_rows))
        self.cut = cut
        self.tables = tables[: self.depth], tables[self.depth : cut], tables[cut:]
        self.shape = tuple(count_outputs(each) for each in self.tables)

    def blocks(self, distinct: Ints, rows: Ints) -> Iterator[_Block]:
        """Cut rows into blocks whose thin matrices fit the memory meant for them."""
        size = max(1, BLOCK_NUMBERS // sum(self.shape))
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            yield _Block(self, some, distinct[some])


class _Block:
    """Some of the rows, in order, with the products of their middle parts and right halves."""

    def __init__(self, parts: _Parts, rows: Ints, codes: Ints) -> None:
        self.parts, self.rows, self.codes = parts, rows, codes
        self.middle = row_products(parts.tables[1], codes[:, parts.depth : parts.cut])
        self.right = row_products(parts.tables[2], codes[:, parts.cut :])

    def heads(self) -> Iterator[tuple[Floats, list[slice]]]:
        """Yield products of heads that differ, and the rows of each, a few heads at a time."""
        codes = self.codes[:, : self.parts.depth]
        changes = np.flatnonzero((codes[1:] != codes[:-1]).any(axis=1)) + 1
        begins, ends = [0, *changes.tolist()], [*changes.tolist(), len(codes)]
        step = max(1, BLOCK_NUMBERS // (self.parts.shape[1] * self.parts.shape[2]))
        for first in range(0, len(begins), step):
            some = slice(first, first + step)
            runs = [slice(*each) for each in zip(begins[some], ends[some], strict=True)]
            yield row_products(self.parts.tables[0], codes[begins[some]]), runs


def _work(tables: Sequence[Floats], depth: int, n_rows: int) -> float:
    """Return about the multiplications for heads of this many sensors."""
    total, own = count_outputs(tables), count_outputs(tables[:depth])
    heads = min(n_rows, math.prod(len(table) for table in tables[:depth]))
    return n_rows * (total / own) + heads * (total + _HEAD_OVERHEAD)


def _one_thread_if(large: bool) -> AbstractContextManager[object]:
    """Blocks are small and a second thread costs more than it brings.

    So does asking for one thread where there is next to nothing to do.
    """
    return threadpool_limits(1) if large else nullcontext()


def row_products(tables: Sequence[Floats], codes: Ints) -> Floats:
    """Return the products of the rows' table entries, rows by outputs.

    By halves of halves: all but the last multiplication are of next to nothing.
    """
    if len(tables) < 2:
        return tables[0].take(codes[:, 0], axis=0) if len(tables) else np.ones((len(codes), 1))
    half = len(tables) // 2
    first = row_products(tables[:half], codes[:, :half])
    second = row_products(tables[half:], codes[:, half:])
    return (first[:, :, None] * second[:, None, :]).reshape(len(codes), -1)


def _balanced_cut(symbols: Sequence[int]) -> int:
    """Return where to cut the sensors so that the larger half has fewest outputs."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(symbols))])
    return int(np.argmin(np.maximum(logs, logs[-1] - logs)))
