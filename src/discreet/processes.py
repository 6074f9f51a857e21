"""Many independent pieces of work, in this process or in several, given back as they are done."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from discreet.errors import InputError

_T = TypeVar("_T")


def count_jobs(n_jobs: int | None) -> int:
    """Return how many processes a number asks for; -1 asks for one for each core."""
    if n_jobs is not None and (
        isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer)
    ):
        raise InputError(f"n_jobs must be None or an integer, got {n_jobs!r}.")
    if n_jobs == 0:
        raise InputError("n_jobs must not be 0. Give 1, or -1 for all cores.")
    return int(effective_n_jobs(n_jobs))


def run_each(
    function: Callable[..., _T], work: Sequence[tuple[Any, ...]], jobs: int
) -> Iterator[_T]:
    """Call the function with each of the argument lists; results come in any order.

    Raises BrokenProcessPool: if a process was ended from outside.
    """
    if jobs == 1 or len(work) < 2:
        yield from (function(*each) for each in work)
        return
    # Only this process hears Ctrl-C; it then ends the others, who need not say so.
    pool = Parallel(
        n_jobs=jobs,
        backend="loky",
        return_as="generator_unordered",
        inner_max_num_threads=1,
        initializer=_ignore_interrupts,
    )
    yield from pool(delayed(function)(*each) for each in work)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
