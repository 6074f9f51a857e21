"""Measure contestants in turn, so that a slow moment of the machine touches all alike."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from threadpoolctl import threadpool_limits

from research.bench.results import Check, Contest, Timed

Report = Callable[[int], None]


@dataclass(frozen=True)
class Setup:
    """A benchmark that is ready to run.

    ``name``, ``title``, ``size``, ``unit``, ``factor``, ``ours``, ``yardstick``, ``missing``: as in
    ``Contest``. ``contestants``: each does its work once; it is told the number of the round.
    ``warm``: do the work once more before each time that counts, so that each finds its own data in
    the caches, as in a fit. ``notes``: says what the contestants ended at, after the last round.
    """

    name: str
    title: str
    size: str
    contestants: Mapping[str, Callable[[int], object]]
    rounds: int
    ours: str
    yardstick: str
    unit: str = "s"
    factor: float = 1.0
    missing: Sequence[str] = ()
    promised: Sequence[Promise] = ()
    warm: bool = False
    notes: Callable[[], list[str]] = field(default=list)


@dataclass(frozen=True)
class Promise:
    """A figure that is promised.

    ``measure``: returns the figure from the times by name; a contestant that is missing is a
    KeyError.
    """

    words: str
    measure: Callable[[Mapping[str, Timed]], float]
    limit: float
    at_most: bool


def run_contest(setup: Setup, report: Report = lambda _: None) -> Contest:
    """Run all rounds; the first one, which loads and compiles, does not count.

    ``report``: told how many rounds are done.
    """
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in setup.contestants}
    with one_thread():
        for round_ in range(setup.rounds + 1):
            for name, work in setup.contestants.items():
                if setup.warm:
                    work(round_)
                seconds = _time(work, round_)
                if round_:
                    taken[name].append(seconds)
            report(round_ + 1)
    times = [
        Timed(name=name, clock=tuple(c for c, _ in found), processor=tuple(p for _, p in found))
        for name, found in taken.items()
    ]
    return Contest(
        name=setup.name,
        title=setup.title,
        size=setup.size,
        unit=setup.unit,
        factor=setup.factor,
        ours=setup.ours,
        yardstick=setup.yardstick,
        times=tuple(times),
        missing=tuple(setup.missing),
        notes=tuple(setup.notes()),
        checks=tuple(_checks(setup.promised, {each.name: each for each in times})),
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """Give every library one thread: idle ones of BLAS spin and spoil their neighbours' times."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        del os.environ["OMP_NUM_THREADS"]
        if before is not None:
            os.environ["OMP_NUM_THREADS"] = before


def _time(work: Callable[[int], object], round_: int) -> tuple[float, float]:
    clock, processor = time.perf_counter(), time.process_time()
    work(round_)
    return time.perf_counter() - clock, time.process_time() - processor


def _checks(promised: Sequence[Promise], times: Mapping[str, Timed]) -> list[Check]:
    found = []
    for each in promised:
        try:
            value = each.measure(times)
        except KeyError:  # a peer that is not installed has nothing to be compared with
            continue
        found.append(Check(words=each.words, value=value, limit=each.limit, at_most=each.at_most))
    return found
