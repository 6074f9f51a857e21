"""``discreet frontier``: a table on disk in, a table, JSON and a picture out.

Progress, warnings and what was found on disk go to stderr, the frontier to stdout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from discreet.choices import METHODS
from discreet.cli.learn_text import announce
from discreet.cli.options import (
    MOST_SYMBOLS,
    AssumeIndependent,
    Binning,
    Bins,
    Dask,
    Decide,
    Exclude,
    Group,
    Holdout,
    Json,
    KernelName,
    LossName,
    PointConfidence,
    Private,
    Public,
    Quiet,
    Seed,
    Sensors,
    argument,
    from_to,
    mapper_options,
    name_among,
    name_list,
    option,
    refuse_model,
    whole_number,
)
from discreet.cli.terminal import (
    check_out,
    interruptible,
    line_width,
    plain_console,
    print_json,
    print_lines,
    print_on,
    told_warnings,
)
from discreet.errors import InputError
from discreet.plots import check_suffix

if TYPE_CHECKING:
    from rich.console import Console

    from discreet.frontiers.frontier import Standing
    from discreet.frontiers.results import Frontier
    from discreet.frontiers.study import Spec
    from discreet.task import Task


def frontier(
    table: Annotated[Path, argument("TABLE", "CSV, TSV or Parquet file, a row per moment.")],
    public: Public,
    private: Private,
    out: Annotated[
        Path, option("FILE", "JSON file for the points; what it has is not computed again.")
    ],
    plot: Annotated[Path | None, option("FILE", "Picture to draw, an .svg or .png file.")] = None,
    methods: Annotated[
        str, option("NAMES", f"Of {', '.join(METHODS)}; separated by commas.")
    ] = "auto,ndd",
    ratios: Annotated[
        str, option("P,P", "Shares of the largest private risk to keep, separated by commas.")
    ] = "0.6,0.7,0.8,0.9,0.95,0.98,0.995",
    symbols: Annotated[str, option("N,N", "Symbols of each sensor, likewise.")] = "2",
    sensors: Sensors = None,
    exclude: Exclude = None,
    kernel: KernelName = "product",
    loss: LossName = None,
    binning: Binning = None,
    bins: Bins = None,
    decide: Decide = "balanced",
    holdout: Holdout = 0.3,
    group: Group = None,
    assume_independent: AssumeIndependent = False,
    confidence: PointConfidence = 0.95,
    jobs: Annotated[
        int | None, option("N", "Processes. [default: one for each core]", from_to(1, 1024))
    ] = None,
    dask: Dask = None,
    seed: Seed = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what privacy costs: error against leak, over ratios and methods.

    Each point is a mapping of its own, measured on rows that none has learned from. The error
    is the one that --decide keeps small: balanced, plain, or the cost of misses.
    Ctrl-C keeps the points that are done; the same command computes the rest.

    Example:

        discreet frontier t.csv --public fall --private who --out f.json

    With a picture:

        discreet frontier t.csv --public use --private me --out f --plot f.svg

    With two and with three symbols for each sensor:

        discreet frontier t.csv --public use --private me --symbols 2,3 --out f
    """
    if jobs is not None and dask is not None:
        raise InputError(
            f"--jobs {jobs} was given together with --dask {dask}, which has workers of its own. "
            "Give one or the other."
        )
    for name in methods.split(","):
        refuse_model("--methods", name.strip())
    wanted = (
        _list_of("--methods", methods, name_among(METHODS)),
        _list_of("--ratios", ratios, _share_of_risk),
        _list_of("--symbols", symbols, whole_number(2, MOST_SYMBOLS)),
    )
    options = mapper_options(kernel, loss, decide, seed, binning, bins)
    sensor_names = None if sensors is None else name_list("--sensors", sensors)
    left_out = name_list("--exclude", exclude)
    with interruptible("stopped. No points were kept."):
        from discreet.frontiers.study import plan
        from discreet.task import Task, make_split

        specs = plan(*wanted)
        task = Task(
            table=table,
            public=public,
            private=private,
            sensors=sensor_names,
            exclude=left_out,
            method=specs[0].method,
            split=make_split(holdout, seed, group),
            options=options,
        )
        job = Job(task, specs, out, plot, confidence, jobs or -1, dask, quiet, assume_independent)
        found = run_frontier(job)
        if as_json:
            print_json(found.model_dump(mode="json"))
        elif not quiet:
            print_lines(summarise(job, found))


def _list_of(option: str, text: str, read: Callable[[str], Any]) -> list[Any]:
    """Return the values that a list holds, separated by commas."""
    found = []
    for each in name_list(option, text):
        try:
            found.append(read(each))
        except ValueError as error:
            raise InputError(f"{option}: each must be {error}, got {each}.") from None
    if not found:
        raise InputError(f"{option} is empty. Give at least one, or leave it out.")
    return found


def _share_of_risk(text: str) -> float:
    """Read a ratio."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not 0.0 < number < 1.0:
        raise ValueError("a number strictly between 0 and 1")
    return number


@dataclass(frozen=True)
class Job:
    """What to compute and where it goes.

    ``out``: the JSON file, which is also what an interrupted run goes on from. ``plot``: the
    picture. ``dask``: the cluster that computes; None for processes of this machine.
    ``assume_independent``: whether rows, or groups, are independent although they do not look like
    it.
    """

    task: Task
    specs: Sequence[Spec]
    out: Path
    plot: Path | None = None
    confidence: float = 0.95
    jobs: int = -1
    dask: str | None = None
    quiet: bool = False
    assume_independent: bool = False


def run_frontier(job: Job) -> Frontier:
    """Compute the frontier and write it.

    Raises InputError: before the work where possible, with what to do. Raises KeyboardInterrupt:
    with how many points were kept.
    """
    from discreet.frontiers.plot import save_plot

    console = plain_console()
    _check_files(job)
    with told_warnings(console):
        found = _compute(job, console)
    found.save(job.out)
    if job.plot is not None:
        save_plot(found, job.plot)
    return found


def _check_files(job: Job) -> None:
    """Find out before the work that the results have nowhere to go."""
    from discreet.frontiers.results import Frontier

    check_out(job.out, job.task.table)
    if job.plot is not None:
        check_suffix(job.plot)
        if job.plot.resolve() == job.out.resolve():
            raise InputError(f"--plot {job.plot} is --out as well. Name another file.")
        check_out(job.plot, job.task.table, "--plot")
    if job.out.exists():
        Frontier.load(job.out)  # what is no frontier is not written over


def _compute(job: Job, console: Console) -> Frontier:
    from discreet.cluster import connected
    from discreet.data.table_warnings import describe_order
    from discreet.data.tables import read_stretches
    from discreet.frontiers.frontier import compute
    from discreet.frontiers.study import check_parameters, study_table
    from discreet.learning import prepare

    task = job.task
    prepared = prepare(task)
    parameters = {k: v for k, v in prepared.options.items() if k != "random_state"}
    check_parameters(job.specs, parameters)
    study = study_table(task, prepared, assume_independent=job.assume_independent)
    if not job.quiet:
        print_on(console, announce(prepared))
    if study.order is not None and study.dependence:
        order = describe_order(
            study.order,
            read_stretches(prepared.table),
            prepared.sensors,
            task.public,
            task.private,
            task.split.group,
            override="add --assume-independent",
        )
        print_on(console, f"warning: {order}", "yellow")
    points = closing(PointsReport(console, job.out))
    with connected(job.dask) as client, points as report:
        return compute(
            study,
            job.specs,
            parameters,
            confidence=job.confidence,
            n_jobs=job.jobs,
            client=client,
            seed=task.split.seed,
            resume=job.out,
            report=None if job.quiet else report,
        )


def summarise(job: Job, found: Frontier) -> list[str]:
    """Return the table, what it means, how to have the knee, and what was written."""
    lines = found.table(line_width()).split("\n")
    if (knee := found.knee) is not None:
        ratio = "" if knee.ratio is None else f" --ratio {knee.ratio:g}"
        lines.append(
            "To have it, run discreet learn with the same options and "
            f"--method {knee.method}{ratio} --symbols {knee.n_symbols}"
        )
    files = [str(job.out)] + ([] if job.plot is None else [str(job.plot)])
    return [*lines, f"wrote {' and '.join(files)}"]


class PointsReport:
    """Says which points a file has, and then how many are done."""

    def __init__(self, console: Console, out: Path) -> None:
        from discreet.cli.progress import ProgressReport

        self.console, self.out = console, out
        self._shown = ProgressReport(console)

    def __call__(self, standing: Standing) -> None:
        if standing.latest is None:
            self._say_found(standing)
        if standing.finished < standing.planned:
            done = f"{standing.finished} of {standing.planned}"
            self._shown.show(standing.phase, standing.done, done)

    def close(self) -> None:
        """Take the bar off the screen."""
        self._shown.close()

    def _say_found(self, standing: Standing) -> None:
        if standing.restarted:
            print_on(
                self.console,
                f"{self.out} holds points of another table or other options; starting over",
            )
        elif standing.found:
            self.console.print(f"{standing.found} of {standing.planned} points from {self.out}")
