"""Rerun the paper's tables and figures: text, JSON and pictures out, and for all of them a page.

    python -m research.reproduce skewed-prior
    python -m research.reproduce --all --out results

Progress goes to stderr, the tables to stdout. Every file is written whole or not at all, and
an experiment that is finished with the same settings is not computed again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from discreet.cli.progress import ProgressReport
from discreet.cli.terminal import plain_print
from discreet.cluster import connected
from discreet.errors import ClusterError, DiscreetError, InputError, suggest
from discreet.files import write_whole
from discreet.frontiers.frontier import count_jobs
from research.command import Parser, run_command, whole
from research.paper import adult, m_ary, opportunity, skewed_prior, uniform_prior
from research.paper.experiment import (
    Experiment,
    Report,
    ask,
    count_steps,
    not_run,
    run_experiment,
    with_todays_words,
)
from research.paper.files import find_file
from research.paper.pictures import svg_of
from research.paper.report import render_page, text_table
from research.paper.results import MAX_DRAWS, Asked, Result

_IN_ORDER = (
    uniform_prior.CORRELATION,
    uniform_prior.THRESHOLD_RATIO,
    skewed_prior.EXPERIMENT,
    m_ary.EXPERIMENT,
    adult.EXPERIMENT,
    opportunity.EXPERIMENT,
)
EXPERIMENTS = {each.name: each for each in _IN_ORDER}
"""Every experiment by its name, in the order of the paper."""
PAGE = "index.html"
_MAX_SEED = 2**32 - 1  # what scikit-learn's generator takes
_LOOKED = (
    "It is looked for where --data says or, without it, in the folder that DISCREET_DATA names and "
    "in the cache; then it is downloaded."
)


@dataclass(frozen=True)
class ReproduceJob:
    """What to rerun and where it goes.

    ``names``: experiments; empty for all, with a page. ``out``: a folder, made if it is not there.
    ``draws``: none for each experiment's own number. ``data``: the data set's file, or a folder
    that has it. ``dask``: the cluster that computes; None for processes of this machine. ``fresh``:
    compute again what the folder has.
    """

    names: Sequence[str]
    out: Path
    draws: int | None = None
    seed: int = 0
    data: Path | None = None
    jobs: int | None = None
    dask: str | None = None
    fresh: bool = False
    as_json: bool = False
    quiet: bool = False


@dataclass(frozen=True)
class _Step:
    """One experiment of the job: what is asked, with which file, and what is there already."""

    experiment: Experiment
    asked: Asked
    file: Path | None = None
    missing: str | None = None
    kept: Result | None = None


def main() -> None:
    """Run the command."""
    run_command(_parser(), lambda given: run_reproduce(_job(given)))


def _parser() -> Parser:
    parser = Parser(
        prog="python -m research.reproduce",
        description="Rerun the paper's tables and figures, beside the printed ones. Each draw "
        "learns from fresh rows; synthetic figures are exact sums. What is finished is not "
        "computed again.",
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help=f"of {', '.join(EXPERIMENTS)}")
    add("--all", action="store_true", help="all of them, and one page with everything")
    add("--draws", type=whole(1, MAX_DRAWS), help="draws of rows (default: 10, for adult 20)")
    add("--out", type=Path, default=Path("discreet-reproduction"), help="folder for what is made")
    add("--data", type=Path, help="file of the data set, or a folder that has it")
    add("--jobs", type=whole(1, 1024), help="processes (default: one for each core)")
    add("--dask", metavar="ADDRESS", help="a Dask scheduler, or local:N for N workers here")
    add("--seed", type=whole(0, _MAX_SEED), default=0, help="of the first draw")
    add("--fresh", action="store_true", help="compute again what the folder has already")
    add("--json", action="store_true", dest="as_json", help="print everything as JSON")
    add("--quiet", action="store_true", help="print warnings and errors only")
    return parser


def _job(given: argparse.Namespace) -> ReproduceJob:
    options = vars(given)
    every = options.pop("all")
    if not given.names and not every:
        raise InputError(f"name an experiment ({', '.join(EXPERIMENTS)}), or give --all.")
    if given.names and every:
        raise InputError(
            f"--all was given together with {given.names[0]!r}. Give one or the other."
        )
    return ReproduceJob(**options)


def run_reproduce(job: ReproduceJob) -> list[Result]:
    """Rerun the experiments, write what they give, and print it.

    Raises InputError: before the work where possible, with what to do. Raises KeyboardInterrupt:
    with how many experiments were kept.
    """
    console = Console(stderr=True, soft_wrap=True, markup=False, emoji=False, highlight=False)
    steps = _plan(job)
    _make_folder(job.out)
    done: list[Result] = []
    try:
        with connected(job.dask) as client:
            for step in steps:
                done.append(_run(job, step, client, console))
                if not job.as_json and not job.quiet:
                    _print_result(job, done[-1])
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_kept(job, done, steps)) from None
    except BrokenProcessPool:
        raise DiscreetError(
            "a process was ended from outside, perhaps for want of memory. Use fewer jobs. "
            + _kept(job, done, steps)
        ) from None
    except ClusterError as error:
        raise ClusterError(f"{error} {_kept(job, done, steps)}") from None
    if not job.names:
        _write_page(job, done)
    if job.as_json:
        plain_print(json.dumps([each.model_dump() for each in done], indent=1, ensure_ascii=False))
    elif not job.quiet and not job.names:
        plain_print(f"wrote {job.out / PAGE}")
    return done


# --- Before the work -----------------------------------------------------------------------


def _plan(job: ReproduceJob) -> list[_Step]:
    """Find out what is asked, which files there are and what is done, before any work."""
    for name in job.names:
        if name not in EXPERIMENTS:
            raise InputError(f"there is no experiment {name!r}. {suggest(name, EXPERIMENTS)}")
    if job.jobs is not None and job.dask is not None:
        raise InputError(
            f"--jobs {job.jobs} was given together with --dask {job.dask}, which has workers of "
            "its own. Give one or the other."
        )
    wanted = [EXPERIMENTS[name] for name in dict.fromkeys(job.names or EXPERIMENTS)]
    _check_data(job, wanted)
    return [_look_up(job, experiment) for experiment in wanted]


def _check_data(job: ReproduceJob, wanted: Sequence[Experiment]) -> None:
    if job.data is None:
        return
    if not job.data.exists():
        raise InputError(f"--data {job.data}: no such file or folder. Check the path.")
    needy = [each for each in wanted if each.data_file is not None]
    if not needy:
        raise InputError("--data was given, but none of these experiments reads a file.")
    if len(needy) > 1 and not job.data.is_dir():
        raise InputError(
            f"--data {job.data} is one file, and {len(needy)} experiments read one each. Name the "
            "folder that has them."
        )


def _look_up(job: ReproduceJob, experiment: Experiment) -> _Step:
    file, digest = None, None
    if experiment.data_file is not None:
        try:
            file = find_file(experiment.data_file, job.data)
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
        except InputError as error:
            if job.names:
                raise
            asked = ask(experiment, job.draws, job.seed, None)
            return _Step(experiment, asked, missing=f"{error} {_LOOKED}")
        except OSError as error:
            raise InputError(f"{file}: cannot be read ({error.strerror or error}).") from None
    step = _Step(experiment, ask(experiment, job.draws, job.seed, digest), file)
    there = job.out / f"{experiment.name}.json"
    if not there.exists():
        return step
    kept = Result.load(there)  # what is none of ours is not written over
    same = kept.asked == step.asked and kept.name == experiment.name and kept.not_run is None
    return replace(step, kept=kept) if same and not job.fresh else step


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=out):  # the permissions do not tell all
            pass
    except FileExistsError:
        raise InputError(f"--out {out} is a file. Name a folder.") from None
    except OSError as error:
        raise InputError(
            f"--out {out}: cannot be written there ({error.strerror or error}). Name another place."
        ) from None


# --- The work ------------------------------------------------------------------------------


def _run(job: ReproduceJob, step: _Step, client: Any, console: Console) -> Result:
    name = step.experiment.name
    if step.missing is not None:
        return not_run(step.experiment, step.asked, step.missing)
    if step.kept is not None:
        if not job.quiet:
            console.print(f"{name}: from {job.out / name}.json")
        found = with_todays_words(step.experiment, step.kept)
    else:
        with _progress(job, step, console) as report:
            found = run_experiment(
                step.experiment,
                step.asked,
                data=step.file,
                jobs=count_jobs(job.jobs or -1),
                client=client,
                report=report,
            )
    write_whole(job.out / f"{name}.svg", svg_of(step.experiment.picture, found))
    found.save(job.out / f"{name}.json")  # last, so that what has its JSON has everything
    return found


@contextmanager
def _progress(job: ReproduceJob, step: _Step, console: Console) -> Iterator[Report]:
    if job.quiet:
        yield lambda _: None
        return
    what = f"steps of {step.experiment.name}"
    with closing(ProgressReport(console)) as shown:
        yield shown.count(what, count_steps(step.experiment, step.asked))


def _print_result(job: ReproduceJob, found: Result) -> None:
    for line in text_table(found):
        plain_print(line)
    if found.not_run is None:
        place = job.out / found.name
        plain_print(f"\nwrote {place}.json and {place}.svg")
    plain_print()


def _write_page(job: ReproduceJob, done: Sequence[Result]) -> None:
    origins = {name: experiment.origin for name, experiment in EXPERIMENTS.items()}
    pictures = {
        each.name: svg_of(EXPERIMENTS[each.name].picture, each)
        for each in done
        if each.not_run is None
    }
    write_whole(job.out / PAGE, render_page(done, origins, pictures, _command(job)))


def _command(job: ReproduceJob) -> str:
    draws = "" if job.draws is None else f" --draws {job.draws}"
    return f"python -m research.reproduce --all{draws} --seed {job.seed}"


def _kept(job: ReproduceJob, done: Sequence[Result], steps: Sequence[_Step]) -> str:
    count = sum(each.not_run is None for each in done)
    if not count:
        return "stopped. No experiment was finished."
    return (
        f"stopped. {count} of {len(steps)} experiments are in {job.out}; the same command goes on "
        "from there."
    )


if __name__ == "__main__":
    main()
