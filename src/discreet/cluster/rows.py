"""WeightedRows on a cluster: the rows are dealt to workers once, and each pass asks all of them.

A worker may be lost at any time. It is noticed when its connection breaks or when the scheduler no
longer knows it; its rows are then sent to another one, which is asked in its place. Sums come
in the order of the segments, so the answer is that of one machine, bit for bit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from distributed import Client
from numpy.typing import NDArray

from discreet.cluster.connect import living_workers, other_workers
from discreet.cluster.holders import Answer, Holder, join
from discreet.design.losses import Loss
from discreet.design.packing import Layout
from discreet.design.sweep import StoredRows, Swept, WeightedRows, pays, segments
from discreet.errors import ClusterError, LostWorkerWarning

Floats = NDArray[np.float64]

_LOOK_SECONDS = 2.0  # how often to see whether a worker that has not answered is still there
_MOST_LOSSES = 20  # in one pass: beyond, something other than bad luck ends the workers
_TOO_MANY = (
    f"workers of the cluster were lost {_MOST_LOSSES} times in one pass over the rows. Look at "
    "their logs: they may lack memory."
)


class ClusterRows:
    """WeightedRows whose rows are on the workers of a cluster.

    The packed rows stay here too, in memory or in their file: a sample of them leads the
    search, and what a lost worker held is sent again.

    ``weighted_rows``: the rows, packed. ``seconds``: how long the slowest worker was busy in the
    last pass.
    """

    def __init__(self, client: Client, weighted_rows: StoredRows) -> None:
        self._client, self._weighted_rows = client, weighted_rows
        self.seconds = 0.0
        workers = other_workers(client, set())  # all, once there is one
        self._pieces = [_Piece(part) for part in _deal(segments(len(weighted_rows)), len(workers))]
        self._send(self._pieces, workers)

    @property
    def layout(self) -> Layout:
        return self._weighted_rows.layout

    def __len__(self) -> int:
        return len(self._weighted_rows)

    def totals(self) -> Floats:
        """Return how many of the rows have each code."""
        return self._weighted_rows.totals()

    def sample(self, most: int) -> WeightedRows:
        """Return some of the rows, always the same ones."""
        return self._weighted_rows.sample(most)

    def sweep(self, tables: Floats, loss: Loss, threads: int | None = None) -> Swept:
        """Go over all rows once. Each worker takes the threads that it has.

        Raises ClusterError: if no workers are left.
        """
        compiled = pays(len(self), len(self.layout.sizes), loss)
        answers = self._ask(lambda holder: holder.sweep(tables, loss.name, compiled))
        self.seconds = max(answer.seconds for answer in answers)
        return join(answers).total()

    # -- one pass -----------------------------------------------------------------

    def _ask(self, question: Callable[[Any], Any]) -> list[Answer]:
        """Ask all holders at once, then those that took the place of lost ones."""
        answers: dict[int, Answer] = {}
        for _ in range(_MOST_LOSSES):
            asked = {
                k: _call(piece, question)
                for k, piece in enumerate(self._pieces)
                if k not in answers
            }
            for k, call in asked.items():
                if (answer := self._result(self._pieces[k], call)) is not None:
                    answers[k] = answer
            lost = [piece for k, piece in enumerate(self._pieces) if k not in answers]
            if not lost:
                return [answers[k] for k in range(len(self._pieces))]
            self._replace(lost)
        raise ClusterError(_TOO_MANY)

    def _result(self, piece: _Piece, call: Any | None) -> Any | None:
        """Return what a call gave, or None once its worker is known to be lost."""
        while call is not None:
            try:
                return call.result(timeout=_LOOK_SECONDS)
            except TimeoutError:  # at work, unless the scheduler knows better
                if piece.worker not in living_workers(self._client) or piece.is_lost:
                    return None
            except OSError:  # the connection broke
                return None
        return None

    # -- who holds what -----------------------------------------------------------

    def _replace(self, lost: Sequence[_Piece]) -> None:
        """Send what lost workers held to others."""
        self._send(lost, self._others(lost))

    def _send(self, pieces: Sequence[_Piece], workers: Sequence[str]) -> None:
        """Put every piece on a worker, and on another one if that is lost meanwhile."""
        for _ in range(_MOST_LOSSES):
            for k, piece in enumerate(pieces):
                piece.begin(self._client, workers[k % len(workers)])
            calls = [self._take(piece) for piece in pieces]
            held = [self._result(p, call) for p, call in zip(pieces, calls, strict=True)]
            pieces = [p for p, rows in zip(pieces, held, strict=True) if rows is None]
            if not pieces:
                return
            workers = self._others(pieces)
        raise ClusterError(_TOO_MANY)

    def _others(self, lost: Sequence[_Piece]) -> list[str]:
        """Say which workers were lost, and return those that can take their place."""
        gone = {piece.worker for piece in lost}
        warnings.warn(
            f"lost {'a worker' if len(gone) == 1 else 'workers'} of the cluster "
            f"({', '.join(sorted(gone))}); the rows are sent to another one. This costs time and "
            "changes nothing else.",
            LostWorkerWarning,
            stacklevel=2,
        )
        return other_workers(self._client, gone)

    def _take(self, piece: _Piece) -> Any | None:
        actor = self._result(piece, piece.future)
        if actor is None:
            return None
        piece.actor = actor
        begin, end = piece.edges[0], piece.edges[-1]
        edges = [edge - begin for edge in piece.edges]
        rows = self._weighted_rows.take(slice(begin, end))
        return _call(piece, lambda holder: holder.take(rows, edges))


@dataclass
class _Piece:
    """Neighbouring segments of the rows, and the worker that holds them."""

    edges: list[int]
    worker: str = ""
    future: Any = None
    actor: Any = None

    def begin(self, client: Client, worker: str) -> None:
        """Ask for an empty holder on a worker."""
        self.worker, self.actor = worker, None
        self.future = client.submit(
            Holder, actor=True, workers=[worker], allow_other_workers=False, pure=False
        )

    @property
    def is_lost(self) -> bool:
        """Whether the scheduler has given the holder up, although its worker may be back."""
        return self.future.status in ("error", "lost", "cancelled")


def _call(piece: _Piece, question: Callable[[Any], Any]) -> Any | None:
    """Send a question to a holder; None if it is known to be lost."""
    try:
        return question(piece.actor)
    except RuntimeError:  # what Dask raises where the worker was lost since the last call
        return None


def _deal(parts: Sequence[slice], n_workers: int) -> list[list[int]]:
    """Return the edges of the segments that each worker gets, neighbours together."""
    edges = [part.start for part in parts] + [parts[-1].stop]
    ends = np.linspace(0, len(parts), min(n_workers, len(parts)) + 1).astype(int).tolist()
    return [edges[first : last + 1] for first, last in pairwise(ends)]
