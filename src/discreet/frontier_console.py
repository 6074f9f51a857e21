"""The job behind ``discreet frontier``: a table on disk in, a table, JSON and a picture out.

Progress, warnings and what was found on disk go to stderr, the frontier to stdout.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from discreet.cluster.connect import connected
from discreet.console import announce, check_out, plain_print
from discreet.drawing import check_suffix
from discreet.errors import DiscreetWarning, InputError
from discreet.learning import Task, prepare
from discreet.steps_console import StepsReport
from discreet.tradeoff.frontier import Standing, compute
from discreet.tradeoff.plot import save_plot
from discreet.tradeoff.results import Frontier
from discreet.tradeoff.study import Spec, check_parameters, study_table


@dataclass(frozen=True)
class Job:
    """What to compute and where it goes.

    Attributes
    ----------
    out : Path
        The JSON file, which is also what an interrupted run goes on from.
    plot : Path or None
        The picture.
    dask : str or None
        The cluster that computes; None for processes of this machine.
    """

    task: Task
    specs: Sequence[Spec]
    out: Path
    plot: Path | None = None
    confidence: float = 0.95
    jobs: int = -1
    dask: str | None = None
    quiet: bool = False


def run_frontier(job: Job) -> Frontier:
    """Compute the frontier, write it, and say what it shows.

    Raises
    ------
    InputError
        Before the work where possible, with what to do.
    KeyboardInterrupt
        With how many points were kept.
    """
    console = Console(stderr=True, soft_wrap=True, markup=False, emoji=False, highlight=False)
    _check_files(job)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = _compute(job, console)
    for message in dict.fromkeys(
        str(each.message) for each in caught if issubclass(each.category, DiscreetWarning)
    ):
        console.print(f"warning: {message}", style="yellow")
    found.save(job.out)
    if job.plot is not None:
        save_plot(found, job.plot)
    for line in () if job.quiet else summarise(job, found):
        plain_print(line)
    return found


def _check_files(job: Job) -> None:
    """Find out before the work that the results have nowhere to go."""
    check_out(job.out, job.task.table)
    if job.plot is not None:
        _check_plot(job.plot, job)
    if job.out.exists():
        Frontier.load(job.out)  # what is no frontier is not written over


def _check_plot(plot: Path, job: Job) -> None:
    check_suffix(plot)
    if plot.resolve() == job.out.resolve():
        raise InputError(f"--plot {plot} is --out as well. Name another file.")
    try:
        check_out(plot, job.task.table)
    except InputError as error:
        raise InputError(str(error).replace("--out", "--plot", 1)) from None


def _compute(job: Job, console: Console) -> Frontier:
    task = job.task
    prepared = prepare(task)
    parameters = {k: v for k, v in prepared.options.items() if k != "random_state"}
    check_parameters(job.specs, parameters)
    study = study_table(task, prepared)
    if not job.quiet:
        console.print(
            announce(prepared.sensors, len(prepared.train), len(prepared.audit), task.split)
        )
    with connected(job.dask) as client, _progress(console, job) as report:
        return compute(
            study,
            job.specs,
            parameters,
            confidence=job.confidence,
            n_jobs=job.jobs,
            client=client,
            seed=task.split.seed,
            resume=job.out,
            report=report,
        )


def summarise(job: Job, found: Frontier) -> list[str]:
    """Return the table, what it means, how to have the knee, and what was written."""
    lines = found.table().split("\n")
    if (knee := found.knee) is not None:
        ratio = "" if knee.ratio is None else f" --ratio {knee.ratio:g}"
        lines.append(
            "To have it: discreet learn with the same options and "
            f"--method {knee.method}{ratio} --symbols {knee.n_symbols}"
        )
    files = [str(job.out)] + ([] if job.plot is None else [str(job.plot)])
    return [*lines, f"wrote {' and '.join(files)}"]


# --- Progress ------------------------------------------------------------------------------


class PointsReport:
    """Says which points a file has, and then how many are done."""

    def __init__(self, console: Console, out: Path) -> None:
        self.console, self.out = console, out
        self._steps: StepsReport | None = None

    def __call__(self, standing: Standing) -> None:
        if self._steps is None:
            self._say_found(standing)
            self._steps = StepsReport(self.console, "points", standing.found, standing.planned)
        else:
            self._steps(standing.done)

    def close(self) -> None:
        """Take the bar off the screen."""
        if self._steps is not None:
            self._steps.close()

    def _say_found(self, standing: Standing) -> None:
        if standing.anew:
            self.console.print(
                f"{self.out} holds points of another table or other options; beginning anew"
            )
        elif standing.found:
            self.console.print(f"{standing.found} of {standing.planned} points from {self.out}")


@contextmanager
def _progress(console: Console, job: Job) -> Iterator[PointsReport | None]:
    if job.quiet:
        yield None
        return
    report = PointsReport(console, job.out)
    try:
        yield report
    finally:
        report.close()
