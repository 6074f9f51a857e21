"""Whole fits spread over a cluster, one task each: what ``processes`` does on one machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from discreet.errors import ClusterError

_T = TypeVar("_T")

# A fit sets the filters for warnings and the threads of BLAS for its whole process.
_ONE_AT_A_TIME = threading.Lock()


def run_tasks(
    client: Any, function: Callable[..., _T], work: Sequence[tuple[Any, ...]]
) -> Iterator[_T]:
    """Call the function with each of the argument lists; results come in any order.

    What all lists share is sent to every worker once. A task whose worker is lost is done by
    another one.

    Raises
    ------
    ClusterError
        If workers are lost time and again.
    """
    from distributed import as_completed
    from distributed.client import FutureCancelledError
    from distributed.scheduler import KilledWorker

    if not work:
        return
    shared = [k for k, first in enumerate(work[0]) if all(each[k] is first for each in work)]
    sent = {k: client.scatter(_Box(work[0][k]), broadcast=True, hash=False) for k in shared}
    futures = [
        client.submit(
            _run, function, *(sent.get(k, part) for k, part in enumerate(each)), pure=False
        )
        for each in work
    ]
    try:
        for future in as_completed(futures):
            yield future.result()
    except (KilledWorker, FutureCancelledError):
        raise ClusterError(
            "workers of the cluster were lost again and again, perhaps for want of memory. Start "
            "fewer on each machine."
        ) from None
    finally:
        client.cancel(futures)


class _Box:
    """Keeps Dask from looking into what is sent."""

    def __init__(self, content: Any) -> None:
        self.content = content


def _run(function: Callable[..., _T], *arguments: Any) -> _T:
    with _ONE_AT_A_TIME:
        return function(*(each.content if isinstance(each, _Box) else each for each in arguments))
