"""Run an experiment: its draws in several processes, the same answer for any number of them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

import discreet
from discreet.cluster.tasks import run_tasks
from discreet.paper.experiment import Experiment, Measured
from discreet.paper.results import Asked, Result
from discreet.processes import run_each

Report = Callable[[int], None]
_LIBRARIES = ("numpy", "scipy", "scikit-learn")


def ask(experiment: Experiment, draws: int | None, seed: int, data: str | None) -> Asked:
    """Return what is to be computed; ``draws`` are the experiment's own unless given."""
    return Asked(
        draws=experiment.draws if draws is None else draws,
        seed=seed,
        parameters={name: repr(value) for name, value in experiment.parameters.items()},
        data=data,
        discreet=discreet.__version__,
    )


def count_steps(experiment: Experiment, asked: Asked) -> int:
    """Return how many pieces of work there are."""
    return len(experiment.settings) * (asked.draws + 1)


def run_experiment(
    experiment: Experiment,
    asked: Asked,
    *,
    data: Path | None = None,
    jobs: int = 1,
    client: Any = None,
    report: Report = lambda _: None,
) -> Result:
    """Measure every setting on every draw.

    Parameters
    ----------
    experiment : Experiment
    asked : Asked
        As ``ask`` gives it.
    data : Path, optional
        The data set's file, if the experiment needs one.
    jobs : int, default=1
        Processes.
    client : distributed.Client, optional
        Measure on this Dask cluster instead, one task for each setting and draw.
    report : callable, optional
        Told how many pieces of work are done.
    """
    # All settings of a draw before the next draw, so that the time left is soon known; what
    # depends on no draw, which takes less, at the end.
    seeds: list[int | None] = [*range(asked.seed, asked.seed + asked.draws), None]
    work = [
        (experiment, label, value, seed, data)
        for seed in seeds
        for label, value in experiment.settings.items()
    ]
    found: dict[tuple[str, int | None], Measured] = {}
    seconds = 0.0
    done = run_each(_measure, work, jobs) if client is None else run_tasks(client, _measure, work)
    for label, seed, measured, spent in done:
        found[label, seed] = measured
        seconds += spent
        report(len(found))
    by_setting = {label: [found[label, seed] for seed in seeds] for label in experiment.settings}
    return _result(experiment, asked, by_setting, seconds, None)


def not_run(experiment: Experiment, asked: Asked, reason: str) -> Result:
    """Return a result that has the printed figures only, and says why."""
    return _result(experiment, asked, {}, 0.0, reason)


def with_todays_words(experiment: Experiment, result: Result) -> Result:
    """Return an earlier result with the words that the experiment has now."""
    words = {
        "title": experiment.title,
        "choices": tuple(experiment.choices),
        "findings": tuple(experiment.findings(result)),
    }
    return result.model_copy(update=words)


def _measure(
    experiment: Experiment, label: str, value: Any, seed: int | None, data: Path | None
) -> tuple[str, int | None, Measured, float]:
    begin = time.process_time()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # a mapping that says nothing shows in its figures
        if seed is None:
            measured = experiment.known(value)
        else:
            measured = experiment.measure(value, seed, data)
    return label, seed, measured, time.process_time() - begin


def _result(
    experiment: Experiment,
    asked: Asked,
    found: Mapping[str, list[Measured]],
    seconds: float,
    reason: str | None,
) -> Result:
    result = Result(
        name=experiment.name,
        title=experiment.title,
        asked=asked,
        versions=", ".join(f"{name} {version(name)}" for name in _LIBRARIES),
        seconds=seconds,
        columns=tuple(experiment.columns),
        rows=tuple(experiment.rows(found)),
        choices=tuple(experiment.choices),
        not_run=reason,
    )
    if reason is not None:
        return result
    return with_todays_words(experiment, result)
