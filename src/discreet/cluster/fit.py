"""The pass over a table on a Dask cluster: workers read, code and count parts of it.

What a worker sends back are integers, which are added up here in whatever order they come. So the
mapping is that of one machine, bit for bit, and if a worker is lost, another does its part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from numpy.typing import ArrayLike

from discreet.cluster.connect import run_tasks
from discreet.data.tables import FilePart, Frame, Stream, Table
from discreet.design.counts.one_pass import Part, Passed, Plan, Run, pass_over
from discreet.mappers.base import PrivacyMapper

_SENT_ROWS = 1 << 16  # of a table in memory, at once

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
    """Do what ``mapper.fit`` does, with the pass over the rows on a Dask cluster.

    The mapping is the one that ``mapper.fit`` learns, for any number of workers. The rows are sent
    to them: for rows in files, ``discreet.learning`` has workers read what they count.

    Parameters
    ----------
    mapper : Mapper or another
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
        For what ``mapper.fit`` refuses.
    ClusterError
        If all workers are lost.

    Examples
    --------
    >>> from distributed import Client  # doctest: +SKIP
    >>> client = Client("tcp://10.0.0.5:8786", direct_to_workers=True)  # doctest: +SKIP
    >>> fit(Mapper(), client, X, y, private=g)  # doctest: +SKIP
    """
    return mapper.fit_reporting(X, y, private, groups=groups, run=run_on(client))


def run_on(client: Any) -> Run:
    """Return what goes over parts of a table on the workers of a cluster."""

    def run(plan: Plan, parts: Iterable[Part]) -> Iterator[Passed]:
        work = ((plan, piece) for part in parts for piece in _pieces(part))
        # The plan goes with each part: sent once, it could be lost with all workers.
        return run_tasks(client, pass_over, work, shared=())

    return run


def _pieces(part: Part) -> Iterator[Part]:
    """Cut rows that have to be sent into pieces."""
    if isinstance(part.rows, FilePart):
        yield part
        return
    number = part.number
    for begin in range(0, len(part.rows), _SENT_ROWS):
        here = slice(begin, begin + _SENT_ROWS)
        kept, labels = part.kept[here], tuple(index[here] for index in part.labels)
        yield Part(part.rows[here], part.begin + begin, kept, number, labels)
        number += int(kept.sum())


def file_parts(
    client: Any, table: Table, columns: Sequence[str]
) -> Iterable[pd.DataFrame | FilePart]:
    """Return the rows of a table, or where to read them if all workers can."""
    if isinstance(table, Frame) or table.held is not None:
        return table.batches(columns)
    if not _all_see(client, table):
        return table.batches(columns)
    return (replace(part, file=part.file.resolve()) for part in table.parts(columns))


def _all_see(client: Any, table: Stream) -> bool:
    seen = client.run(_sees, [str(file.resolve()) for file in table.files])
    wanted = [stamp[1] for stamp in table.stamps]
    return all(sizes == wanted for sizes in seen.values())


def _sees(files: Sequence[str]) -> list[int]:
    """Return how long the files are here; -1 for one that is not there."""
    return [Path(file).stat().st_size if Path(file).is_file() else -1 for file in files]
