"""The job behind ``discreet bench``: benchmarks in; a table, JSON and a picture out.

Progress goes to stderr, the tables to stdout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from discreet.bench.compare import change_lines
from discreet.bench.measure import Setup
from discreet.bench.picture import save_picture
from discreet.bench.results import Contest, Run
from discreet.bench.size import Size
from discreet.bench.suite import BENCHMARKS, run_suite
from discreet.bench.text import contest_lines, run_line
from discreet.console import check_out, plain_print
from discreet.drawing import check_suffix
from discreet.errors import InputError
from discreet.steps_console import StepsReport
from discreet.values import suggest


@dataclass(frozen=True)
class BenchJob:
    """What to measure and where it goes.

    Attributes
    ----------
    names : sequence of str
        Benchmarks; empty for all.
    out, plot : Path or None
        The JSON file and the picture.
    """

    names: Sequence[str]
    size: Size
    out: Path | None = None
    plot: Path | None = None
    quiet: bool = False


def run_bench(job: BenchJob) -> Run:
    """Run the benchmarks, write what was asked for, and print it.

    Raises
    ------
    InputError
        Before the work where possible, with what to do.
    """
    console = Console(stderr=True, soft_wrap=True, markup=False, emoji=False, highlight=False)
    _check(job)
    progress = _Progress(console, job.quiet)
    try:
        run = run_suite(
            list(dict.fromkeys(job.names)) or list(BENCHMARKS),
            job.size,
            begun=progress.begin,
            done=lambda contest: _show(contest, progress, job.quiet),
        )
    finally:
        progress.close()
    if job.out is not None:
        run.save(job.out)
    if job.plot is not None:
        save_picture(run, job.plot)
    if not job.quiet:
        plain_print(run_line(run))
        files = [str(each) for each in (job.out, job.plot) if each is not None]
        if files:
            plain_print(f"wrote {' and '.join(files)}")
    return run


def run_comparison(old: Path, new: Path) -> None:
    """Print what changed between two runs.

    Raises
    ------
    InputError
        If one of the files is no run, or they have nothing in common.
    """
    for line in change_lines(Run.load(old), Run.load(new)):
        plain_print(line)


def _check(job: BenchJob) -> None:
    """Find out before the work what is wrong with the names and files."""
    for name in job.names:
        if name not in BENCHMARKS:
            raise InputError(f"there is no benchmark {name!r}. {suggest(name, BENCHMARKS)}")
    if job.out is not None:
        check_out(job.out, None)
        if job.out.exists():
            Run.load(job.out)  # what is no run is not written over
    if job.plot is not None:
        check_suffix(job.plot)
        check_out(job.plot, None, "--plot")
        if job.out is not None and job.out.resolve() == job.plot.resolve():
            raise InputError(f"--plot {job.plot} is --out as well. Name another file.")


def _show(contest: Contest, progress: _Progress, quiet: bool) -> None:
    progress.close()
    if not quiet:
        for line in (*contest_lines(contest), ""):
            plain_print(line)


class _Progress:
    """Shows the rounds of the benchmark that is running."""

    def __init__(self, console: Console, quiet: bool) -> None:
        self._console, self._quiet = console, quiet
        self._steps: StepsReport | None = None

    def begin(self, setup: Setup) -> Callable[[int], None]:
        if self._quiet:
            return lambda _: None
        self._steps = StepsReport(self._console, f"rounds of {setup.name}", 0, setup.rounds + 1)
        return self._steps

    def close(self) -> None:
        if self._steps is not None:
            self._steps.close()
            self._steps = None
