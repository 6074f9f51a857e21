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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.design.losses import Loss
from discreet.design.packing import Layout, Packed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

COMPILED_LOSSES = ("logistic", "exponential", "square")
"""The losses that the compiled sweep knows: the smooth ones."""

# Loading the compiled code costs about what two hundred plain sweeps over so many codes do.
_WORTH_COMPILING = 500_000
_BLOCK = 1 << 15  # rows looked at together: they fit in the second cache, even unpacked
# Segments depend on the number of rows and on nothing else; threads share them out. So the
# sums come in one order, whatever the number of threads.
_SEGMENT_ROWS, _MOST_SEGMENTS = 1 << 16, 32


@dataclass(frozen=True)
class Ballots:
    """Packed rows, and how much each of them counts for each head.

    Attributes
    ----------
    packed : Packed
    kinds : ndarray of unsigned integers, shape (n_rows,)
        The combination of labels that a row has.
    counts : ndarray of float64, shape (n_rows,) or (0,)
        How often the row occurs; empty if once.
    votes : ndarray of shape (n_heads, n_kinds)
        Signed weights: a head asks a row of kind k for a score of the vote's sign, and
        counts its loss with the vote's size.
    """

    packed: Packed
    kinds: NDArray[Any]
    counts: Floats
    votes: Floats

    def __len__(self) -> int:
        return len(self.packed)

    @property
    def layout(self) -> Layout:
        return self.packed.layout

    def totals(self) -> Floats:
        """Return how many of the rows have each code."""
        return self.packed.totals()

    def sample(self, most: int) -> Ballots:
        """Return some of the rows, always the same ones, with votes that keep the sums' scale."""
        if len(self) <= most:
            return self
        return self.take(sample_index(len(self), most), len(self) / most)

    def sweep(self, tables: Floats, loss: Loss, threads: int | None = None) -> Swept:
        """Do what ``sweep`` does."""
        return sweep(self, tables, loss, threads)

    def take(self, index: Ints | slice, scale: float = 1.0) -> Ballots:
        """Return some of the rows, with all votes multiplied by ``scale``."""
        counts = self.counts[index] if len(self.counts) else self.counts
        votes = self.votes if scale == 1.0 else scale * self.votes
        return Ballots(self.packed.take(index), self.kinds[index], counts, votes)


@dataclass(frozen=True)
class Swept:
    """What one sweep finds for every head.

    Attributes
    ----------
    values : ndarray of shape (n_heads,)
        The weighted losses, without regularisers.
    sums : ndarray of shape (n_heads, n_codes)
        b = -d loss / d score of the rows, added up by code.
    """

    values: Floats
    sums: Floats


class BallotBox(Protocol):
    """What a solver asks of ballots, wherever they are: here, on a disk or on a cluster."""

    @property
    def layout(self) -> Layout:
        """Say which sensors share a cell, and how many codes they have."""
        ...

    def __len__(self) -> int: ...

    def totals(self) -> Floats:
        """Return how many of the rows have each code, one sensor's codes after the other's."""
        ...

    def sample(self, most: int) -> Ballots:
        """Bring some of the rows here, always the same ones; all, if there are no more."""
        ...

    def sweep(self, tables: Floats, loss: Loss, threads: int | None = None) -> Swept:
        """Go over all rows once."""
        ...


class Stored(Protocol):
    """Ballots that a sweep can go over: some of them at a time can be had in memory."""

    @property
    def layout(self) -> Layout: ...

    def __len__(self) -> int: ...

    def take(self, index: slice) -> Ballots: ...


class StoredBox(BallotBox, Stored, Protocol):
    """Ballots of this machine, in memory or on its disk: what may be put elsewhere."""


@dataclass(frozen=True)
class SweptParts:
    """What a sweep finds in each part of the rows: as in ``Swept``, with an axis for the parts."""

    values: Floats
    sums: Floats

    def total(self) -> Swept:
        """Add the parts up, in their order: who swept which of them makes no difference."""
        return Swept(self.values.sum(axis=0), self.sums.sum(axis=0))


def sweep(ballots: Stored, tables: Floats, loss: Loss, threads: int | None = None) -> Swept:
    """Return losses and sums of residuals for scores that ``tables`` give the codes.

    Parameters
    ----------
    tables : ndarray of shape (n_heads, n_codes)
        What each code adds to each head's score.
    threads : int, optional
        Threads that share the work, by default ``default_threads()``. The result is the
        same, bit for bit, whatever their number.
    """
    compiled = pays(len(ballots), len(ballots.layout.sizes), loss)
    cuts = segments(len(ballots))
    return sweep_parts(ballots, tables, loss, cuts, compiled=compiled, threads=threads).total()


def sample_index(n_rows: int, most: int) -> Ints:
    """Return which rows make a sample: always the same ones, in their order."""
    return np.sort(np.random.default_rng(0).choice(n_rows, most, replace=False))


def sweep_parts(
    ballots: Stored,
    tables: Floats,
    loss: Loss,
    cuts: Sequence[slice],
    *,
    compiled: bool,
    threads: int | None = None,
) -> SweptParts:
    """Do the same for each of the ``cuts``, compiled or not."""
    if compiled:
        return _compiled_parts(ballots, tables, loss, cuts, threads or default_threads())
    return _plain_parts(ballots, tables, loss, cuts)


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


def plain_sweep(ballots: Stored, tables: Floats, loss: Loss) -> Swept:
    """Do the same as ``sweep``, with NumPy alone."""
    return _plain_parts(ballots, tables, loss, segments(len(ballots))).total()


def _plain_parts(ballots: Stored, tables: Floats, loss: Loss, cuts: Sequence[slice]) -> SweptParts:
    n_codes = ballots.layout.n_codes
    values, sums = np.zeros((len(cuts), len(tables))), np.zeros((len(cuts), len(tables), n_codes))
    for k, cut in enumerate(cuts):
        for block in blocks(ballots, cut):
            index = code_index(block.packed)
            for h, table in enumerate(tables):
                scores = table[index].sum(axis=1)
                weights, signs = row_votes(block, h)
                values[k, h] += float(weights @ loss.value(signs * scores))
                residual = -weights * signs * loss.gradient(signs * scores)
                repeated = np.repeat(residual, index.shape[1])
                sums[k, h] += np.bincount(index.ravel(), repeated, minlength=n_codes)
    return SweptParts(values, sums)


def blocks(ballots: Stored, part: slice) -> Iterator[Ballots]:
    """Cut a part of the rows into blocks that fit in memory unpacked."""
    for begin in range(part.start, part.stop, _BLOCK):
        yield ballots.take(slice(begin, min(begin + _BLOCK, part.stop)))


def code_index(packed: Packed) -> Ints:
    """Return where each code of each row stands in a vector over all codes."""
    return packed.unpack() + packed.layout.offsets


def row_votes(ballots: Ballots, h: int) -> tuple[Floats, Floats]:
    """Return weight and sign of every row for one head."""
    votes = ballots.votes[h][ballots.kinds]
    weights = np.abs(votes) * ballots.counts if len(ballots.counts) else np.abs(votes)
    return weights, np.where(votes >= 0.0, 1.0, -1.0)


# --- Compiled ------------------------------------------------------------------------------


def compiled_sweep(ballots: Stored, tables: Floats, loss: Loss, threads: int) -> Swept:
    """Do the same as ``sweep``, compiled whatever the number of rows."""
    return _compiled_parts(ballots, tables, loss, segments(len(ballots)), threads).total()


def _compiled_parts(
    ballots: Stored, tables: Floats, loss: Loss, cuts: Sequence[slice], threads: int
) -> SweptParts:
    layout = ballots.layout
    narrow_tables, wide_tables = layout.spread(tables)
    values = np.zeros((len(cuts), len(tables)))
    narrow_sums = np.zeros((len(cuts), *narrow_tables.shape))
    wide_sums = np.zeros((len(cuts), *wide_tables.shape))

    def work(k: int) -> None:
        sums, room = (narrow_sums[k], wide_sums[k]), np.empty((3, _BLOCK))
        for block in blocks(ballots, cuts[k]):
            _sweep_block(block, (narrow_tables, wide_tables), loss, values[k], sums, room)

    share_out(work, len(cuts), threads)
    each = len(cuts) * len(tables)
    sums = layout.fold(narrow_sums.reshape(each, -1), wide_sums.reshape(each, -1))
    return SweptParts(values, sums.reshape(*values.shape, layout.n_codes))


def _sweep_block(
    ballots: Ballots,
    tables: tuple[Floats, Floats],
    loss: Loss,
    values: Floats,
    sums: tuple[Floats, Floats],
    room: Floats,
) -> None:
    """Add a block's losses to ``values`` and its residuals to ``sums``, for every head."""
    from discreet.design.compiled import LOSSES, add_up, look_up, vote

    scores, votes, residuals = room[:, : len(ballots)]
    kinds, counts = ballots.kinds, ballots.counts
    tiles, wide = ballots.packed.narrow, ballots.packed.wide
    for h, weights in enumerate(ballots.votes):
        scores[:] = 0.0
        for tile, table in zip(tiles, tables[0][h], strict=True):
            look_up(tile, table, scores)
        if wide.shape[1]:
            look_up(wide, tables[1][h], scores)
        vote(kinds, counts, weights, votes)
        values[h] += LOSSES[loss.name](scores, votes, residuals)
        for tile, total in zip(tiles, sums[0][h], strict=True):
            add_up(tile, residuals, total)
        if wide.shape[1]:
            add_up(wide, residuals, sums[1][h])


def segments(n_rows: int) -> list[slice]:
    """Cut the rows into parts that depend on their number alone."""
    count = min(max(n_rows // _SEGMENT_ROWS, 1), _MOST_SEGMENTS)
    edges = np.linspace(0, n_rows, count + 1).astype(int).tolist()
    return [slice(begin, end) for begin, end in pairwise(edges)]


def share_out(work: Any, count: int, threads: int) -> None:
    """Do every piece of work; the caller's thread takes its share too."""
    threads = min(threads, count)

    def some(first: int) -> None:
        for k in range(first, count, threads):
            work(k)

    if threads > 1:
        others = [_pool(threads).submit(partial(some, first)) for first in range(1, threads)]
        some(0)
        for other in others:
            other.result()
    else:
        some(0)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads - 1, thread_name_prefix="discreet-sweep")
