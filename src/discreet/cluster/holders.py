"""What a worker of the cluster holds: some of the rows, packed, and how to sweep over them.

A ``Holder`` lives on one worker for as long as somebody asks it (a Dask actor). Each pass is one
small message to it, the tables, and one back, the sums. It never moves: if its worker is lost,
another is made from the same rows (``box``).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from distributed import get_worker
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from discreet.design.losses import LOSSES
from discreet.design.sweep import SweptParts, WeightedRows, has_numba, sweep_parts

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Answer:
    """What one worker found in one pass, and the seconds that it was busy."""

    found: SweptParts
    seconds: float


class Holder:
    """Some of the rows, on one worker; empty until they are given."""

    def __init__(self) -> None:
        self._threads = int(get_worker().state.nthreads)
        self._blas = ThreadpoolController()
        self._weighted_rows: WeightedRows
        self._cuts: list[slice]

    def take(self, weighted_rows: WeightedRows, edges: Sequence[int]) -> int:
        """Hold these rows from now on, and return how many they are.

        ``edges``: where the segments of all rows begin and end among these, so that sums come in
        the same order however many workers there are.
        """
        self._weighted_rows = weighted_rows
        self._cuts = [slice(begin, end) for begin, end in pairwise(edges)]
        return len(weighted_rows)

    def sweep(self, tables: Floats, loss: str, compiled: bool) -> Answer:
        """Sweep over the rows once."""
        begin = time.perf_counter()
        with self._blas.limit(limits=1):  # as in every fit: sums then come in one order
            found = sweep_parts(
                self._weighted_rows,
                tables,
                LOSSES[loss],
                self._cuts,
                compiled=compiled and has_numba(),
                threads=self._threads,
            )
        return Answer(found, time.perf_counter() - begin)


def join(answers: Sequence[Answer]) -> SweptParts:
    """Put what all workers found side by side, in the order of the rows."""
    return SweptParts(
        np.concatenate([answer.found.values for answer in answers]),
        np.concatenate([answer.found.sums for answer in answers]),
    )
