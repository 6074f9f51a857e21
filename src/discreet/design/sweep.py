"""One sweep over the rows: the loss of every head, and its slope in every code.

A head scores a row by one number per code, added up over the sensors. So its loss needs one
look-up per code and row, and the slope of the loss in those numbers is a sum of residuals
per code. Whatever the heads are made of, tables of a mapping or weights of a classifier,
their gradients follow from these sums without going over the rows again.

``sweep`` is compiled where that pays. ``plain_sweep`` is its twin in NumPy, for machines
without numba, for few rows, and for the tests to compare with.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Floats, Ints
from discreet.design.losses import Loss
from discreet.design.packing import Layout, Packed

COMPILED_LOSSES = ("logistic", "exponential", "square")
"""The losses that the compiled sweep knows: the smooth ones."""

# Loading the compiled code costs about what two hundred plain sweeps over so many codes do.
_WORTH_COMPILING = 500_000
_BLOCK = 1 << 15  # rows looked at together: they fit in the second cache, even unpacked
# Segments depend on the number of rows and on nothing else; threads share them out. So the
# sums come in one order, whatever the number of threads.
_SEGMENT_ROWS, _MOST_SEGMENTS = 1 << 16, 32


@dataclass(frozen=True)
class WeightedRows:
    """Packed rows, and how much each of them counts for each head.

    ``kinds``: the combination of labels that a row has. ``counts``: how often the row occurs; empty
    if once. ``signed_weights`` of shape (n_heads, n_kinds): signed weights: a head asks a row of
    kind k for a score of the vote's sign, and counts its loss with the vote's size.
    """

    packed: Packed
    kinds: NDArray[Any]
    counts: Floats
    signed_weights: Floats

    def __len__(self) -> int:
        return len(self.packed)

    @property
    def layout(self) -> Layout:
        return self.packed.layout

    def totals(self) -> Floats:
        """Return how many of the rows have each code."""
        return self.packed.totals()

    def sample(self, most: int) -> WeightedRows:
        """Return some of the rows, always the same ones, weighted to keep the sums' scale."""
        if len(self) <= most:
            return self
        return self.take(sample_index(len(self), most), len(self) / most)

    def sweep(self, tables: Floats, loss: Loss, threads: int | None = None) -> Swept:
        """Do what ``sweep`` does."""
        return sweep(self, tables, loss, threads)

    def take(self, index: Ints | slice, scale: float = 1.0) -> WeightedRows:
        """Return some of the rows, with all signed weights multiplied by ``scale``."""
        counts = self.counts[index] if len(self.counts) else self.counts
        signed_weights = self.signed_weights if scale == 1.0 else scale * self.signed_weights
        return WeightedRows(self.packed.take(index), self.kinds[index], counts, signed_weights)


@dataclass(frozen=True)
class Swept:
    """What one sweep finds for every head.

    ``values`` of shape (n_heads,): the weighted losses, without regularisers. ``sums`` of shape
    (n_heads, n_codes): b = -d loss / d score of the rows, added up by code.
    """

    values: Floats
    sums: Floats


class RowSource(Protocol):
    """What a solver asks of weighted rows, wherever they are: here, on a disk or on a cluster."""

    @property
    def layout(self) -> Layout:
        """Say which sensors share a cell, and how many codes they have."""
        ...

    def __len__(self) -> int: ...

    def totals(self) -> Floats:
        """Return how many of the rows have each code, one sensor's codes after the other's."""
        ...

    def sample(self, most: int) -> WeightedRows:
        """Bring some of the rows here, always the same ones; all, if there are no more."""
        ...

    def sweep(self, tables: Floats, loss: Loss, threads: int | None = None) -> Swept:
        """Go over all rows once."""
        ...


class Stored(Protocol):
    """WeightedRows that a sweep can go over: some of them at a time can be had in memory."""

    @property
    def layout(self) -> Layout: ...

    def __len__(self) -> int: ...

    def take(self, index: slice) -> WeightedRows: ...


class StoredRows(RowSource, Stored, Protocol):
    """WeightedRows of this machine, in memory or on its disk: what may be put elsewhere."""


@dataclass(frozen=True)
class SweptParts:
    """What a sweep finds in each part of the rows: as in ``Swept``, with an axis for the parts."""

    values: Floats
    sums: Floats

    def total(self) -> Swept:
        """Add the parts up, in their order: who swept which of them makes no difference."""
        return Swept(self.values.sum(axis=0), self.sums.sum(axis=0))


def sweep(weighted_rows: Stored, tables: Floats, loss: Loss, threads: int | None = None) -> Swept:
    """Return losses and sums of residuals for scores that ``tables`` give the codes.

    ``tables`` of shape (n_heads, n_codes): what each code adds to each head's score. ``threads``:
    threads that share the work, by default ``default_threads()``. The result is the same, bit for
    bit, whatever their number.
    """
    compiled = pays(len(weighted_rows), len(weighted_rows.layout.sizes), loss)
    cuts = segments(len(weighted_rows))
    return sweep_parts(
        weighted_rows, tables, loss, cuts, compiled=compiled, threads=threads
    ).total()


def sample_index(n_rows: int, most: int) -> Ints:
    """Return which rows make a sample: always the same ones, in their order."""
    return np.sort(np.random.default_rng(0).choice(n_rows, most, replace=False))


def sweep_parts(
    weighted_rows: Stored,
    tables: Floats,
    loss: Loss,
    cuts: Sequence[slice],
    *,
    compiled: bool,
    threads: int | None = None,
) -> SweptParts:
    """Do the same for each of the ``cuts``, compiled or not."""
    if compiled:
        return _compiled_parts(weighted_rows, tables, loss, cuts, threads or default_threads())
    return _plain_parts(weighted_rows, tables, loss, cuts)


def pays(n_rows: int, n_sensors: int, loss: Loss) -> bool:
    """Whether the compiled sweep is worth loading, and there."""
    known = loss.name in COMPILED_LOSSES
    return known and n_rows * n_sensors >= _WORTH_COMPILING and has_numba()


@cache
def has_numba() -> bool:
    """Whether the compiled sweep can be loaded at all."""
    return find_spec("numba") is not None


def default_threads() -> int:
    """Return OMP_NUM_THREADS if it is set, else the processors this process may use."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# --- The twin in NumPy ---------------------------------------------------------------------


def plain_sweep(weighted_rows: Stored, tables: Floats, loss: Loss) -> Swept:
    """Do the same as ``sweep``, with NumPy alone."""
    return _plain_parts(weighted_rows, tables, loss, segments(len(weighted_rows))).total()


def _plain_parts(
    weighted_rows: Stored, tables: Floats, loss: Loss, cuts: Sequence[slice]
) -> SweptParts:
    n_codes = weighted_rows.layout.n_codes
    values, sums = np.zeros((len(cuts), len(tables))), np.zeros((len(cuts), len(tables), n_codes))
    for k, cut in enumerate(cuts):
        for block in blocks(weighted_rows, cut):
            index = code_index(block.packed)
            for h, table in enumerate(tables):
                scores = table[index].sum(axis=1)
                weights, signs = signed_row_weights(block, h)
                values[k, h] += float(weights @ loss.value(signs * scores))
                residual = -weights * signs * loss.gradient(signs * scores)
                repeated = np.repeat(residual, index.shape[1])
                sums[k, h] += np.bincount(index.ravel(), repeated, minlength=n_codes)
    return SweptParts(values, sums)


def blocks(weighted_rows: Stored, cut: slice) -> Iterator[WeightedRows]:
    """Cut a part of the rows into blocks that fit in memory unpacked."""
    for begin in range(cut.start, cut.stop, _BLOCK):
        yield weighted_rows.take(slice(begin, min(begin + _BLOCK, cut.stop)))


def code_index(packed: Packed) -> Ints:
    """Return where each code of each row stands in a vector over all codes."""
    return packed.unpack() + packed.layout.offsets


def signed_row_weights(weighted_rows: WeightedRows, h: int) -> tuple[Floats, Floats]:
    """Return weight and sign of every row for one head."""
    signed_weights = weighted_rows.signed_weights[h][weighted_rows.kinds]
    weights = (
        np.abs(signed_weights) * weighted_rows.counts
        if len(weighted_rows.counts)
        else np.abs(signed_weights)
    )
    return weights, np.where(signed_weights >= 0.0, 1.0, -1.0)


# --- Compiled ------------------------------------------------------------------------------


def compiled_sweep(weighted_rows: Stored, tables: Floats, loss: Loss, threads: int) -> Swept:
    """Do the same as ``sweep``, compiled whatever the number of rows."""
    return _compiled_parts(
        weighted_rows, tables, loss, segments(len(weighted_rows)), threads
    ).total()


def _compiled_parts(
    weighted_rows: Stored, tables: Floats, loss: Loss, cuts: Sequence[slice], threads: int
) -> SweptParts:
    layout = weighted_rows.layout
    narrow_tables, wide_tables = layout.spread(tables)
    values = np.zeros((len(cuts), len(tables)))
    narrow_sums = np.zeros((len(cuts), *narrow_tables.shape))
    wide_sums = np.zeros((len(cuts), *wide_tables.shape))

    def work(k: int) -> None:
        sums, room = (narrow_sums[k], wide_sums[k]), np.empty((3, _BLOCK))
        for block in blocks(weighted_rows, cuts[k]):
            _sweep_block(block, (narrow_tables, wide_tables), loss, values[k], sums, room)

    share_out(work, len(cuts), threads)
    each = len(cuts) * len(tables)
    sums = layout.fold(narrow_sums.reshape(each, -1), wide_sums.reshape(each, -1))
    return SweptParts(values, sums.reshape(*values.shape, layout.n_codes))


def _sweep_block(
    weighted_rows: WeightedRows,
    tables: tuple[Floats, Floats],
    loss: Loss,
    values: Floats,
    sums: tuple[Floats, Floats],
    room: Floats,
) -> None:
    """Add a block's losses to ``values`` and its residuals to ``sums``, for every head."""
    from discreet.design.compiled import ADD_WORD, LOOK_UP_WORD, LOSSES, add_up, look_up, vote

    scores, signed_weights, residuals = room[:, : len(weighted_rows)]
    kinds, counts, packed = weighted_rows.kinds, weighted_rows.counts, weighted_rows.packed
    wide = packed.wide
    words = [
        (word, width, slice(first, first + width))
        for word, (first, width) in zip(packed.narrow, packed.layout.words, strict=True)
    ]
    for h, weights in enumerate(weighted_rows.signed_weights):
        scores[:] = 0.0
        for word, width, cells in words:
            LOOK_UP_WORD[width](word, tables[0][h, cells], scores)
        if wide.shape[1]:
            look_up(wide, tables[1][h], scores)
        vote(kinds, counts, weights, signed_weights)
        values[h] += LOSSES[loss.name](scores, signed_weights, residuals)
        for word, width, cells in words:
            ADD_WORD[width](word, residuals, sums[0][h, cells])
        if wide.shape[1]:
            add_up(wide, residuals, sums[1][h])


def segments(n_rows: int) -> list[slice]:
    """Cut the rows into parts that depend on their number alone."""
    count = min(max(n_rows // _SEGMENT_ROWS, 1), _MOST_SEGMENTS)
    edges = np.linspace(0, n_rows, count + 1).astype(int).tolist()
    return [slice(begin, end) for begin, end in pairwise(edges)]


def share_out(work: Any, count: int, threads: int) -> None:
    """Do every piece of work; the caller's thread takes its share too.

    Whoever is free takes the next piece. Each piece keeps its own sums, so that it does not
    matter who did it.
    """
    left = deque(range(count))

    def some() -> None:
        while True:
            try:
                k = left.popleft()
            except IndexError:  # none is left
                return
            work(k)

    threads = min(threads, count)
    others = [_pool(threads).submit(some) for _ in range(1, threads)]
    some()
    for other in others:
        other.result()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads - 1, thread_name_prefix="discreet-sweep")
