"""A fit whose passes over the rows run on a cluster.

The rows are dealt to workers once. A ``Holder`` on a worker (a Dask actor) keeps some of them,
packed, and each pass is one small message to it, the tables, and one back, the sums. A worker that
is lost is noticed when its connection breaks or when the scheduler no longer knows it; its rows are
then sent to another one, which is asked in its place. Sums come in the order of the segments, so
the answer is that of one machine, bit for bit.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from distributed import Client, get_worker
from numpy.typing import ArrayLike
from threadpoolctl import ThreadpoolController

from discreet.arrays import Floats
from discreet.choices import LOSSES
from discreet.cluster.connect import living_workers, other_workers
from discreet.design.coded import coded_file
from discreet.design.inputs import check_kernel
from discreet.design.kernels import CountKernel
from discreet.design.losses import Loss
from discreet.design.packed_file import PackedFile
from discreet.design.packing import Layout
from discreet.design.problem import MANY_ROWS, Place, design_sample
from discreet.design.sweep import (
    RowSource,
    StoredRows,
    Swept,
    SweptParts,
    WeightedRows,
    has_numba,
    pays,
    segments,
    sweep_parts,
)
from discreet.errors import ClusterError, InputError, LostWorkerWarning
from discreet.mappers.base import PrivacyMapper


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


_Mapper = TypeVar("_Mapper", bound=PrivacyMapper)


def fit(
    mapper: _Mapper,
    client: Any,
    X: pd.DataFrame | ArrayLike,
    y: ArrayLike,
    *,
    private: pd.Series[Any] | pd.DataFrame | ArrayLike,
    groups: ArrayLike | None = None,
) -> _Mapper:
    """Do what ``mapper.fit`` does, with the passes over many rows on a Dask cluster.

    The mapping is the one that ``mapper.fit`` learns, for any number of workers.

    Parameters
    ----------
    mapper : NPOMapper, BayesErrorMapper or NDDMapper
        With ``kernel="count"``.
    client : distributed.Client
        Of a cluster whose workers have the same version of discreet.
    X, y, private, groups
        As in ``mapper.fit``.

    Returns
    -------
    mapper
        Fitted.

    Raises
    ------
    InputError
        For what ``mapper.fit`` refuses, and for mappers and kernels that no cluster runs.
    ClusterError
        If all workers are lost.

    Examples
    --------
    >>> from distributed import Client  # doctest: +SKIP
    >>> client = Client("tcp://10.0.0.5:8786", direct_to_workers=True)  # doctest: +SKIP
    >>> fit(NPOMapper(kernel="count"), client, X, y, private=g)  # doctest: +SKIP
    """
    check_mapper(mapper)
    return mapper.fit_reporting(X, y, private, groups=groups, place=place_on(client))


def fit_packed(mapper: _Mapper, client: Any, path: str | PathLike[str]) -> _Mapper:
    """Do what ``mapper.fit_packed`` does, with the passes over the rows on a Dask cluster.

    The workers hold all rows in their memory together; here they stay in their file.

    ``mapper``, ``client``: as in ``fit``. ``path``: what ``discreet.learning.pack_tables`` wrote.
    Returns fitted. Raises InputError, ClusterError: as in ``fit``, and if the file is damaged.
    """
    check_mapper(mapper)
    with PackedFile.open(path) as file:
        return mapper.fit_coded(coded_file(file, None), place=place_on(client))


def check_mapper(mapper: PrivacyMapper) -> None:
    """Refuse a mapper whose work is not passes over packed rows."""
    kernel = check_kernel(mapper.kernel)
    if mapper._method == "auto" or mapper._designer is not design_sample:
        raise InputError(
            f"method {mapper._method!r} does not go over the rows again and again, so that a "
            "cluster is of no use to it. Learn without one."
        )
    if not isinstance(kernel, CountKernel):
        raise InputError(
            f"a cluster runs the 'count' kernel, got {kernel.name!r}. Choose 'count', or learn "
            "without a cluster."
        )


def place_on(client: Any) -> Place:
    """Return what puts many rows on the cluster and leaves few where they are."""
    from discreet.cluster.fit import ClusterRows

    def place(weighted_rows: StoredRows) -> RowSource:
        return (
            weighted_rows if len(weighted_rows) <= MANY_ROWS else ClusterRows(client, weighted_rows)
        )

    return place
