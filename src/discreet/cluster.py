"""Tables counted on a Dask cluster, and whole fits spread over one as tasks.

A cluster is somebody else's program that runs what it is sent: Dask's parts exchange pickled
objects. So an address is one that the user trusts, and TLS is set in Dask's own configuration.
"""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import os
import re
import shutil
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, wait
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import islice
from multiprocessing import resource_tracker
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar

import pandas as pd
from numpy.typing import ArrayLike

import discreet
from discreet.data.tables import FilePart, Frame, Stream, Table
from discreet.design.counts.counting import Part, Passed, Plan, Run, pass_over
from discreet.errors import ClusterError, InputError, LostWorkerWarning
from discreet.mappers.base import PrivacyMapper
from discreet.stopping import HANGUP, undisturbed

MOST_LOCAL = 256
_ADDRESS = re.compile(
    r"(?:(?:tcp|tls|ws|wss)://)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}"
)
_LAST_PORT = 65535
_CONNECT_SECONDS = 10
_RETURN_SECONDS = 120.0  # how long to wait for a worker when none is left
_LOOK_SECONDS = 0.2
_END_SECONDS = 10.0  # for what is left of a cluster that is stopped
_KILL_SECONDS = 0.05
_REMOVALS = 20  # times that a folder is tried to be removed
_UNHEARD = set(filter(None, (signal.SIGINT, HANGUP)))
_WORKER = "Dask Worker process (from Nanny)"  # as Dask calls it
_TMPDIR_OF_WORKERS = "distributed.nanny.pre-spawn-environ.TMPDIR"

_T = TypeVar("_T")


def check_address(where: str) -> int | None:
    """Return how many workers ``local:N`` asks for, or None for a scheduler's address.

    Raises InputError: if it is neither, or Dask is not installed.
    """
    if find_spec("distributed") is None:
        raise InputError(
            'Dask is not installed, which a cluster needs. Run: pip install "discreet[dask]"'
        )
    if where.startswith("local:"):
        count = where.removeprefix("local:")
        if not (count.isascii() and count.isdigit() and 1 <= int(count) <= MOST_LOCAL):
            raise InputError(f"--dask local:N takes 1 to {MOST_LOCAL} workers, got {where!r}.")
        return int(count)
    if not _ADDRESS.fullmatch(where) or int(where.rpartition(":")[2]) > _LAST_PORT:
        raise InputError(
            "--dask must be the address of a Dask scheduler, such as tcp://10.0.0.5:8786, or "
            f"local:N for N workers on this machine, got {where!r}."
        )
    return None


@contextmanager
def connected(where: str | None) -> Iterator[Any]:
    """Connect to a scheduler, or start workers on this machine until the end.

    ``where``: the scheduler's address, or "local:N"; None for no cluster. Raises InputError,
    ClusterError: if nobody answers there, or the workers cannot do the work.
    """
    if where is None:
        yield None
        return
    count = check_address(where)
    from distributed import Client

    # What Dask logs of a lost worker is said once, in our words.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with _local(count) if count else nullcontext(where) as scheduler:
        try:
            client = Client(
                scheduler, direct_to_workers=True, timeout=_CONNECT_SECONDS, set_as_default=True
            )
        except (OSError, ValueError) as error:
            raise ClusterError(
                f"no Dask scheduler answers at {where} ({_short(error)}). Check the address, and "
                "that the scheduler runs."
            ) from None
        with client:
            check_workers(client)
            yield client


@contextmanager
def _local(count: int) -> Iterator[Any]:
    from dask import config

    # A folder of our own: Dask leaves its locks behind, and the folders of workers that are killed.
    with (
        _own_folder(config.get("temporary-directory")) as folder,
        config.set({"temporary-directory": folder, _TMPDIR_OF_WORKERS: folder}),
    ):
        # Not in this thread: a signal's exception would leave the middle of Dask's work undone.
        starting = _in_background(partial(_start, count))
        try:
            cluster = _result(starting)
            # A lost process is started again, which may take a while on a busy machine; Dask would
            # give it up after 15 s.
            with config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}):
                yield cluster
            cluster.close()
        except BaseException:
            with undisturbed():
                _end_at_once(starting)
            raise


@contextmanager
def _own_folder(within: str | None) -> Iterator[str]:
    """Make a folder that is removed in the end, also while workers that were killed still die."""
    folder = mkdtemp(prefix="discreet-", dir=within)
    try:
        yield folder
    finally:
        with undisturbed():
            for _ in range(_REMOVALS):
                shutil.rmtree(folder, ignore_errors=True)
                if not Path(folder).exists():
                    break
                time.sleep(_KILL_SECONDS)


def _start(count: int) -> Any:
    from distributed import LocalCluster
    from distributed.security import Security

    _be_deaf()
    # They exchange pickles: without certificates that last for this run and are known to this
    # user only, anybody on the machine could have them run something.
    return LocalCluster(
        n_workers=count,
        threads_per_worker=max(1, (os.cpu_count() or 1) // count),
        host="127.0.0.1",
        protocol="tls://",
        security=Security.temporary(),
        dashboard_address=None,
        silence_logs=logging.CRITICAL,
    )


def _be_deaf() -> None:
    """Keep Ctrl-C from this thread and all that it starts: the process decides what it means.

    Likewise a closed terminal. Dask itself ends workers by SIGTERM.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, _UNHEARD)
    resource_tracker.ensure_running()  # which hears Ctrl-C again where it is started
    signal.pthread_sigmask(signal.SIG_BLOCK, _UNHEARD)


def _in_background(function: Callable[[], _T]) -> Future[_T]:
    """Call a function in a thread for which the process does not wait at its end."""
    future: Future[_T] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def _result(future: Future[_T]) -> _T:
    while not wait([future], _LOOK_SECONDS).done:
        pass  # on Windows, a signal is heard between two waits only
    return future.result()


def _end_at_once(starting: Future[Any]) -> None:
    """End a cluster in whatever state it is, without waiting for its workers."""
    from distributed.deploy.spec import close_clusters

    closing = _in_background(lambda: starting.result().close())
    deadline = time.monotonic() + _END_SECONDS
    while not closing.done() and time.monotonic() < deadline:
        for process in multiprocessing.active_children():
            if process.name == _WORKER:  # Dask starts another one in its place until it is closed
                process.kill()
        wait([closing], _KILL_SECONDS)
    # What did not close in order would be closed again, with tracebacks.
    atexit.unregister(close_clusters)


def check_workers(client: Any) -> None:
    """Refuse a cluster without workers, or whose workers have another version of discreet."""
    try:
        client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
        found = client.run(_version)
    except TimeoutError:
        raise ClusterError(
            "the cluster has no workers. Start some: dask worker ADDRESS --nworkers N"
        ) from None
    except ImportError:
        found = {"the workers": None}
    for worker, version in found.items():
        if version != discreet.__version__:
            has = "no discreet" if version is None else f"discreet {version}"
            raise ClusterError(
                f"{worker} has {has}; here it is {discreet.__version__}. Install the same version "
                "there."
            )


def _version() -> str:
    return discreet.__version__


def living_workers(client: Any) -> list[str]:
    """Return the addresses of the workers that the scheduler knows, in a fixed order.

    Raises ClusterError: if the scheduler does not answer.
    """
    try:
        # Not ``scheduler_info``, which hands out what the client's own looks overwrite.
        return sorted(client.nthreads())
    except (OSError, RuntimeError) as error:
        raise ClusterError(
            f"the cluster's scheduler no longer answers ({_short(error)}). Start it again, and the "
            "command with it."
        ) from None


def _short(error: BaseException) -> str:
    """Return the first line of what a library says."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


# --- Tasks ----------------------------------------------------------------------------------
# Parts of a table to count, or whole fits, spread over a cluster, one task each.


# A fit sets the filters for warnings and the threads of BLAS for its whole process.
_ONE_AT_A_TIME = threading.Lock()
_GATHER_SECONDS = 10.0  # for a result that is done; if its worker is lost, it is computed again
_WAITING = 3  # tasks for each worker that are sent before the first is done


def run_tasks(
    client: Any,
    function: Callable[..., _T],
    work: Iterable[tuple[Any, ...]],
    *,
    shared: Sequence[int] | None = None,
) -> Iterator[_T]:
    """Call the function with each of the argument lists; results come in any order.

    What all lists share is sent to every worker once: the arguments at the places ``shared``, or,
    if the lists are there at once, those that are the same in all. A task whose worker is lost is
    done by another one.

    Raises ClusterError: if workers are lost time and again, or all are gone.
    """
    from distributed.scheduler import KilledWorker

    lists = iter(work)
    if shared is None:
        known = list(work)
        lists, first = iter(known), known[0] if known else ()
        shared = [k for k, part in enumerate(first) if all(each[k] is part for each in known)]
    sent: dict[int, Any] = {}
    waiting: set[Any] = set()
    watch = _Watch(client)
    try:
        while True:
            room = _WAITING * watch.look() - len(waiting)
            for each in islice(lists, max(room, 0)):
                for k in shared:
                    if k not in sent:
                        sent[k] = client.scatter(_Box(each[k]), broadcast=True, hash=False)
                arguments = (sent.get(k, part) for k, part in enumerate(each))
                waiting.add(client.submit(_run, function, *arguments, pure=False))
            if not waiting:
                return
            for future in [each for each in waiting if each.done()] or watch.wait(waiting):
                try:
                    result = future.result(timeout=_GATHER_SECONDS)
                except TimeoutError:  # the worker that held it may be lost: look who is left
                    continue
                waiting.discard(future)
                yield result
    except (KilledWorker, CancelledError):
        raise ClusterError(
            "workers of the cluster were lost again and again, perhaps for want of memory. Start "
            "fewer on each machine."
        ) from None
    finally:
        client.cancel(list(waiting))


class _Watch:
    """Sees whether workers go, and gives up if none is left for long."""

    def __init__(self, client: Any) -> None:
        self._client, self._there = client, set(living_workers(client))
        self._last = time.monotonic()

    def look(self) -> int:
        """Return how many workers there are, at least one; say which were lost.

        Raises ClusterError: if all are gone, and none comes.
        """
        living = set(living_workers(self._client))
        if gone := self._there - living:
            warnings.warn(
                f"lost {'a worker' if len(gone) == 1 else 'workers'} of the cluster "
                f"({', '.join(sorted(gone))}); another one does the work. This costs time and "
                "changes nothing else.",
                LostWorkerWarning,
                stacklevel=4,
            )
        self._there = living
        if living:
            self._last = time.monotonic()
        elif time.monotonic() - self._last > _RETURN_SECONDS:
            raise ClusterError(
                f"all workers of the cluster are gone, and none came within {_RETURN_SECONDS:.0f} "
                "s. Start workers, and the command again."
            )
        return max(len(living), 1)

    def wait(self, futures: Iterable[Any]) -> list[Any]:
        """Return those that are done before it is time for another look."""
        from distributed import wait as wait_for

        try:
            return list(
                wait_for(list(futures), timeout=_LOOK_SECONDS, return_when="FIRST_COMPLETED")[0]
            )
        except TimeoutError:
            return []


class _Box:
    """Keeps Dask from looking into what is sent."""

    def __init__(self, content: Any) -> None:
        self.content = content


def _run(function: Callable[..., _T], *arguments: Any) -> _T:
    with _ONE_AT_A_TIME:
        return function(*(each.content if isinstance(each, _Box) else each for each in arguments))


# --- The pass over a table ------------------------------------------------------------------
# What a worker sends back are integers, which are added up here in whatever order they come. So the
# mapping is that of one machine, bit for bit, and if a worker is lost, another does its part.


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
