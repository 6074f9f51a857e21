"""``frontier``: the whole trade-off between public error and leak, point by point.

A point is one mapping, learned from the training rows and measured on held-out rows that
no point's learning ever saw. Points are computed in processes of their own and each is
written to a file as soon as it is done, so that an interrupted run goes on where it was.
"""

from __future__ import annotations

import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as Dict
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from discreet.arrays import Ints
from discreet.cluster import run_tasks
from discreet.design.fusion import aim_for
from discreet.design.inputs import check_count, check_number, group_index, private_facts
from discreet.errors import (
    ClusterError,
    DiscreetError,
    DiscreetWarning,
    InputError,
    UninformativeMappingWarning,
)
from discreet.frontiers.plot import frontier_svg, save_plot
from discreet.frontiers.results import MAX_POINTS, About, Frontier, Leak, Point
from discreet.frontiers.study import (
    Side,
    Spec,
    Study,
    Trial,
    check_parameters,
    describe_study,
    leak,
    plan,
    score_public,
    study_arrays,
    upper_bounds,
)
from discreet.mappers.risk_mappers import PrivacyMapper
from discreet.progress import Progress

__all__ = ["Frontier", "Point", "frontier", "frontier_svg", "save_plot"]


DEFAULT_METHODS = ("auto", "ndd")
DEFAULT_RATIOS = (0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.995)
_MOST_SEED = 2**32 - 1


def frontier(
    X: pd.DataFrame | ArrayLike,
    y: ArrayLike,
    private: pd.Series[Any] | pd.DataFrame | ArrayLike,
    *,
    methods: Sequence[str] = DEFAULT_METHODS,
    ratios: Sequence[float] = DEFAULT_RATIOS,
    n_symbols: Sequence[int] = (2,),
    groups: ArrayLike | None = None,
    assume_independent: bool = False,
    holdout: float = 0.3,
    confidence: float = 0.95,
    n_jobs: int | None = None,
    client: Any = None,
    random_state: int = 0,
    resume: str | PathLike[str] | None = None,
    report: Callable[[Standing], object] | None = None,
    **mapper_parameters: Any,
) -> Frontier:
    """Learn a mapping for every method, ratio and number of symbols, and measure each.

    Parameters
    ----------
    X : DataFrame or array of shape (n_rows, n_sensors)
    y : array of shape (n_rows,)
        The public fact.
    private : Series, DataFrame or array
        The private fact, or one column for each of several; the worst one counts.
    methods : sequence of {"auto", "npo", "bayes-error", "ndd"}
        "ndd" protects nothing and has no ratio: one point for each number of symbols.
    ratios : sequence of float
        Shares of the largest private risk to keep; for "auto" of the largest R, one half, so that
        0.9 is an advantage of 0.05 under its model. "npo" leaks much below 0.9.
    n_symbols : sequence of int
    groups : array of shape (n_rows,), optional
        Rows of one group (a day, a household) stay together, learned from or held out,
        and may depend on one another.
    assume_independent : bool, default=False
        Rows, or groups, are independent although their order does not look like it. Without
        it nothing is certified from such rows.
    holdout : float, default=0.3
        Share of the rows that are measured with and not learned from.
    confidence : float, default=0.95
        Of each bound, for one point by itself. ``Point.bound_if_chosen`` holds for all
        points at once: quote it if the points were looked at before choosing one.
    n_jobs : int, optional
        Processes; -1 takes all cores. The answer does not depend on it.
    client : distributed.Client, optional
        Compute the points on this Dask cluster instead, one task each.
    random_state : int, default=0
        Seeds the split and the learning.
    resume : path, optional
        A file to which every finished point is written at once. Points that it has
        already are not computed again if table and options are the same, and all of
        them are part of the answer; with another table or other options it
        starts over.
    report : callable, optional
        Told a ``Standing`` at the start and after every point.
    **mapper_parameters
        Passed on to the mappers, the same for all points: ``kernel``, ``loss``, ... By
        ``decide``, points are compared by balanced accuracy, error, or the cost of misses.

    Returns
    -------
    Frontier

    Raises
    ------
    InputError
        For readings, labels or parameters that cannot be used, and a damaged file.
    KeyboardInterrupt
        With what was kept.

    Examples
    --------
    >>> import pandas as pd
    >>> from discreet import frontier
    >>> readings = pd.DataFrame({"hall": [0, 1, 2, 3] * 10, "door": [0, 0, 1, 1] * 10})
    >>> fall, who = [0, 0, 1, 1] * 10, ["a", "b"] * 20
    >>> found = frontier(
    ...     readings, fall, private=who, methods=["ndd"], ratios=[0.9], assume_independent=True
    ... )
    >>> found
    <Frontier: 1 points, 'public' against 'private'>
    >>> found.to_frame().loc[0, "method"]
    'ndd'
    """
    points = plan(methods, ratios, n_symbols)
    check_count("random_state", random_state, 0, _MOST_SEED)
    check_parameters(points, mapper_parameters)
    study = study_arrays(X, y, private, groups, holdout, int(random_state), assume_independent)
    return compute(
        study,
        points,
        mapper_parameters,
        confidence=confidence,
        n_jobs=n_jobs,
        client=client,
        seed=int(random_state),
        resume=resume,
        report=report,
    )


@dataclass(frozen=True)
class Standing(Progress):
    """How far the points have come: from the file, with those computed since, and all.

    ``latest``: the one just finished. ``restarted``: whether the file holds points of another
    table or other options, none of which can be used.
    """

    found: int = 0
    finished: int = 0
    planned: int = 0
    latest: Point | None = None
    restarted: bool = False


def _standing(found: int, finished: int, planned: int, **more: Any) -> Standing:
    # Those from the file took no time, which the time left is judged by.
    done = (finished - found) / max(planned - found, 1)
    return Standing("points", done, found=found, finished=finished, planned=planned, **more)


# --- One point -----------------------------------------------------------------------------

Warned = list[tuple[str, type[DiscreetWarning]]]


def compute_point(
    study: Study, spec: Spec, parameters: Dict[str, Any], alpha: float, seed: int
) -> tuple[Point, Warned]:
    """Learn one mapping and measure it; also return the warnings that all points share."""
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(1):
        warnings.simplefilter("always")
        mapper = _learn(study, spec, parameters, seed)
        point = _measure(study, spec, mapper, alpha, seed)
    # That a strict point says next to nothing is what the frontier shows, and no news.
    ours = [
        (str(each.message), each.category)
        for each in caught
        if issubclass(each.category, DiscreetWarning)
        and not issubclass(each.category, UninformativeMappingWarning)
    ]
    return point, ours


def _learn(study: Study, spec: Spec, parameters: Dict[str, Any], seed: int) -> PrivacyMapper:
    rows = study.train
    groups = None if study.groups is None else study.groups.iloc[rows].reset_index(drop=True)
    return spec.mapper(parameters, seed).fit_reporting(
        study.readings.iloc[rows].reset_index(drop=True),
        study.public.iloc[rows].reset_index(drop=True),
        study.private.iloc[rows].reset_index(drop=True),
        groups=groups,
        source=study.source,
    )


def _measure(study: Study, spec: Spec, mapper: PrivacyMapper, alpha: float, seed: int) -> Point:
    mapping = mapper.mapping_
    public = study.labels
    private = private_facts(study.private, len(study.private))
    codes = mapping.encode(study.readings)
    groups = group_index(study.groups, len(codes))

    def side(rows: Ints) -> Side:
        public_part, *parts = (fact.take(rows) for fact in (public, *private))
        return Side(
            codes[rows], public_part, tuple(parts), None if groups is None else groups[rows]
        )

    aim = aim_for(mapper.decide, mapping.public)
    sides = side(study.train), side(study.held_out)
    trial = Trial(mapping, *sides, alpha, seed, study.dependence, aim)
    answered = score_public(trial)
    bounds = upper_bounds(trial)
    found, fact = leak(trial)
    # No higher than its bound: an estimate from drawn symbols may be by luck.
    most = 1.0 if bounds[0].value is None else bounds[0].value
    return Point(
        method=spec.method,
        n_symbols=spec.n_symbols,
        ratio=spec.ratio,
        public_error=answered.error,
        balanced_accuracy=answered.balanced_accuracy,
        cost=answered.cost,
        advantage=Leak(value=min(found.value, most), low=min(found.low, most)),
        fact=fact,
        bounds=bounds,
        exact=answered.exact,
        useful=bool(mapper.useful_),
        mapping=mapping.id,
    )


# --- Processes ----------------------------------------------------------------------------------

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
        initializer=partial(signal.signal, signal.SIGINT, signal.SIG_IGN),
    )
    yield from pool(delayed(function)(*each) for each in work)


# --- All points ----------------------------------------------------------------------------


def compute(
    study: Study,
    specs: Sequence[Spec],
    parameters: Dict[str, Any],
    *,
    confidence: float,
    n_jobs: int | None,
    seed: int,
    client: Any = None,
    resume: str | PathLike[str] | None = None,
    report: Callable[[Standing], object] | None = None,
) -> Frontier:
    """Compute the points that the file does not have, keep each at once, and return all."""
    check_number("confidence", confidence, 0.0, 1.0, "strictly between 0 and 1")
    jobs = count_jobs(n_jobs)
    about = describe_study(study, specs[0].mapper(parameters, seed), confidence)
    points, restarted = _points_of(resume, about)
    missing = [spec for spec in specs if spec.key not in {point.key for point in points}]
    kept = found = len(points)
    if (planned := found + len(missing)) > MAX_POINTS:
        raise InputError(
            f"{planned} points would be in {resume}, with those it has; at most {MAX_POINTS} are. "
            "Name another file."
        )
    tell = report or (lambda _: None)
    tell(_standing(found, found, planned, restarted=restarted))
    work = [(study, spec, parameters, 1.0 - confidence, seed) for spec in missing]
    shared: Warned = []
    try:
        for point, warned in _run(work, min(jobs, max(len(missing), 1)), client):
            points.append(point)
            shared += warned
            if resume is not None:
                Frontier.of(about, points, planned).save(resume)
                kept = len(points)
            tell(_standing(found, len(points), planned, latest=point))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_kept(kept, planned, resume)) from None
    except BrokenProcessPool:
        raise DiscreetError(
            "a process was ended from outside, perhaps for want of memory. Use fewer jobs. "
            + _kept(kept, planned, resume)
        ) from None
    except ClusterError as error:
        raise ClusterError(f"{error} {_kept(kept, planned, resume)}") from None
    for message, category in dict.fromkeys(shared):
        warnings.warn(message, category, stacklevel=3)
    return Frontier.of(about, points, planned)


def _kept(kept: int, planned: int, resume: str | PathLike[str] | None) -> str:
    if resume is None or not kept:
        return "stopped. No points were kept."
    return (
        f"stopped. {kept} of {planned} points are in {resume}; the same command goes on from there."
    )


def _run(work: Sequence[tuple[Any, ...]], jobs: int, client: Any) -> Iterator[tuple[Point, Warned]]:
    """Give points as they are done, in any order."""
    if client is None:
        yield from run_each(compute_point, work, jobs)
    else:
        yield from run_tasks(client, compute_point, work)


def _points_of(resume: str | PathLike[str] | None, about: About) -> tuple[list[Point], bool]:
    """Return the points that may be used again, and whether the file is about something else."""
    if resume is None:
        return [], False
    if not Path(resume).resolve().parent.is_dir():
        raise InputError(f"resume={str(resume)!r}: there is no such directory. Make it first.")
    if not Path(resume).exists():
        return [], False
    kept = Frontier.load(resume)
    return (list(kept.points), False) if kept.about == about else ([], True)
