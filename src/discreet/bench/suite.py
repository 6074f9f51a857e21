"""All benchmarks, and one run of them."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

import discreet
from discreet.bench import large_design, logistic, one_pass, small_cases
from discreet.bench.measure import Setup, run_contest
from discreet.bench.results import Contest, Machine, Run
from discreet.bench.size import Size
from discreet.design.sweep import default_threads

BENCHMARKS: Mapping[str, Callable[[Size], Setup]] = {
    "one-pass": one_pass.prepare,
    "logistic": logistic.prepare,
    "design": large_design.prepare,
    "small": small_cases.prepare,
}
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "lightgbm")


def run_suite(
    names: Sequence[str],
    size: Size,
    *,
    begun: Callable[[Setup], Callable[[int], None]],
    done: Callable[[Contest], None],
) -> Run:
    """Run benchmarks one after the other.

    Parameters
    ----------
    names : sequence of str
        Keys of ``BENCHMARKS``.
    size : Size
    begun : callable
        Told of each before its first round; returns what is told the rounds that are done.
    done : callable
        Told what each found.
    """
    contests = []
    for name in names:
        setup = BENCHMARKS[name](size)
        contests.append(run_contest(setup, begun(setup)))
        del setup  # its tables make room for the next one's
        done(contests[-1])
    return Run(
        discreet=discreet.__version__,
        quick=size.quick,
        machine=_machine(),
        contests=tuple(contests),
    )


def _machine() -> Machine:
    return Machine(
        cores=default_threads(),
        python=platform.python_version(),
        versions={name: _version(name) for name in _LIBRARIES},
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
