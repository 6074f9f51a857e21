"""What an experiment consists of, and how it is run: its draws in several processes.

The answer is the same for any number of them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_limits

import discreet
from discreet.cluster import run_tasks
from discreet.frontiers.frontier import run_each
from research.paper.results import Asked, Column, Figure, Result, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

Measured = Mapping[str, Mapping[str, float]]
"""Figures by method and column."""
Measure = Callable[[Any, int, Path | None], Measured]
"""Learns from one draw and measures: the setting, the seed, the data file."""
_ROUNDING = 1e-9


def _nothing(_: Any) -> Measured:
    return {}


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    ``name``: as the command line calls it. ``title``, ``origin``: what it shows, and where in the
    paper it stands. ``methods``: names of the methods and how they are shown, in the order of the
    table. ``settings``: by how they are shown; each is measured by itself. ``measure``: what
    depends on the draw. ``picture``: draws a result with Matplotlib. ``choices``: what the paper
    leaves open, and what is done here. ``known``: what depends on the setting only, once and not
    for every draw. ``findings``: says in words what a result shows. ``parameters``: choices that a
    result depends on; with others it is computed again. ``draws``: how many unless asked otherwise.
    ``data_file``: the data set's file, if it needs one.
    """

    name: str
    title: str
    origin: str
    columns: Sequence[Column]
    methods: Mapping[str, str]
    settings: Mapping[str, Any]
    measure: Measure
    picture: Callable[[Result], Picture]
    choices: Sequence[str]
    known: Callable[[Any], Measured] = _nothing
    printed: Mapping[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)
    findings: Callable[[Result], list[str]] = lambda _: []
    parameters: Mapping[str, Any] = field(default_factory=dict)
    draws: int = 10
    data_file: str | None = None

    def rows(self, found: Mapping[str, Sequence[Measured]]) -> list[Row]:
        """Return the rows of the table.

        ``found``: by setting: what each draw gave, in their order.
        """
        rows = []
        for setting in self.settings:
            for method, label in self.methods.items():
                ours = [each[method] for each in found.get(setting, ()) if method in each]
                printed = self.printed.get((setting, method), {})
                if ours or printed:
                    figures = {
                        column.key: Figure(
                            values=tuple(each[column.key] for each in ours if column.key in each),
                            printed=printed.get(column.key),
                        )
                        for column in self.columns
                    }
                    rows.append(Row(setting=setting, method=method, label=label, figures=figures))
        return rows


def in_words(parameters: Mapping[str, Any]) -> str:
    """Return a mapper's parameters for a sentence, such as "max_advantage 0.05"."""
    return ", ".join(f"{name} {value}" for name, value in parameters.items())


def compare(result: Result, setting: str, ours: str, printed: tuple[str, str]) -> str:
    """Say where a method of ours is no worse than a printed row, setting and method.

    Returns one sentence with every figure that both have.
    """
    parts, good = [], True
    label = next(row.label for row in result.rows if row.method == ours)
    other = next(row.label for row in result.rows if row.method == printed[1])
    for column in result.columns:
        mean = result.figure(setting, ours, column.key).mean
        theirs = result.figure(*printed, column.key).printed
        if mean is not None and theirs is not None:
            gain = theirs - mean if column.better == "low" else mean - theirs
            good &= gain >= -_ROUNDING
            against = f"{column.show(mean)} against {column.show_printed(theirs)}"
            parts.append(f"{column.title} {against}")
    verdict = "no worse in any column" if good else "not better in every column"
    return f"{setting}, {label} beside the printed {other}: {verdict} ({'; '.join(parts)})."


# --- Running -----------------------------------------------------------------------------

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

    ``asked``: as ``ask`` gives it. ``data``: the data set's file, if the experiment needs one.
    ``jobs``: processes. ``client``: measure on this Dask cluster instead, one task for each setting
    and draw. ``report``: told how many pieces of work are done.
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
    """Return an earlier result with the texts that the experiment has now."""
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
