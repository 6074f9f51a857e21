"""Measure how fast it is beside other libraries: tables, JSON and a picture out.

    python -m research.bench --out today.json --plot today.svg
    python -m research.bench --compare before.json today.json

Progress goes to stderr, the tables to stdout.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console

import discreet
from discreet.cli.progress import ProgressReport
from discreet.cli.terminal import check_out, plain_print
from discreet.errors import InputError, suggest
from discreet.plots import check_suffix
from research.bench import large_cases, small_cases
from research.bench.measure import Setup, run_contest
from research.bench.report import change_lines, contest_lines, run_line, save_picture
from research.bench.results import Contest, Machine, Run
from research.bench.tables import Size
from research.command import Parser, run_command, whole

BENCHMARKS: Mapping[str, Callable[[Size], Setup]] = {
    "one-pass": large_cases.prepare_pass,
    "fit": large_cases.prepare_fit,
    "small": small_cases.prepare,
}
_LIBRARIES = ("numpy", "pandas", "scipy", "scikit-learn")


@dataclass(frozen=True)
class BenchJob:
    """What to measure and where it goes.

    ``names``: benchmarks; empty for all. ``out``, ``plot``: the JSON file and the picture.
    """

    names: Sequence[str]
    size: Size
    out: Path | None = None
    plot: Path | None = None
    quiet: bool = False


def main() -> None:
    """Run the command."""
    run_command(_parser(), _work)


def _parser() -> Parser:
    parser = Parser(
        prog="python -m research.bench",
        description="Measure how fast it is, beside other libraries in the same run. All take "
        "turns, round by round. What is not installed is listed.",
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)} (default: all)")
    add("--quick", action="store_true", help="small tables and few rounds, to see that it works")
    add("--rounds", type=whole(1, 1_000), help="rounds (default: 3 to 11)")
    add("--rows", type=whole(1_000, 100_000_000), help="of the large table (default: 1000000)")
    add("--sensors", type=whole(1, 1_000), help="of the large table (default: 32)")
    add("--out", type=Path, help="JSON file for the times, to compare later")
    add("--plot", type=Path, help="picture to draw, an .svg or .png file")
    add("--compare", nargs=2, type=Path, metavar=("OLD", "NEW"), help="compare two earlier runs")
    add("--quiet", action="store_true", help="print warnings and errors only")
    return parser


def _work(given: argparse.Namespace) -> None:
    if given.compare is None:
        size = Size.of(given.quick, given.rows, given.sensors, given.rounds)
        run_bench(BenchJob(given.names, size, given.out, given.plot, given.quiet))
        return
    for name in ("names", "quick", "rounds", "rows", "sensors", "out", "plot"):
        if getattr(given, name):
            option = "a name" if name == "names" else f"--{name}"
            raise InputError(f"--compare measures nothing; leave {option} out.")
    run_comparison(*given.compare)


def run_bench(job: BenchJob) -> Run:
    """Run the benchmarks, write what was asked for, and print it.

    Raises InputError: before the work where possible, with what to do.
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

    Raises InputError: if one of the files is no run, or they have nothing in common.
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


def run_suite(
    names: Sequence[str],
    size: Size,
    *,
    begun: Callable[[Setup], Callable[[int], None]],
    done: Callable[[Contest], None],
) -> Run:
    """Run benchmarks one after the other.

    ``names``: keys of ``BENCHMARKS``. ``begun``: told of each before its first round; returns what
    is told the rounds that are done. ``done``: told what each found.
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
        cores=os.cpu_count() or 1,
        python=platform.python_version(),
        versions={name: _version(name) for name in _LIBRARIES},
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _show(contest: Contest, progress: _Progress, quiet: bool) -> None:
    progress.close()
    if not quiet:
        for line in (*contest_lines(contest), ""):
            plain_print(line)


class _Progress:
    """Shows the rounds of the benchmark that is running."""

    def __init__(self, console: Console, quiet: bool) -> None:
        self._console, self._quiet = console, quiet
        self._shown: ProgressReport | None = None

    def begin(self, setup: Setup) -> Callable[[int], None]:
        if self._quiet:
            return lambda _: None
        self._shown = ProgressReport(self._console)
        return self._shown.count(f"rounds of {setup.name}", setup.rounds + 1)

    def close(self) -> None:
        if self._shown is not None:
            self._shown.close()
            self._shown = None


if __name__ == "__main__":
    main()
