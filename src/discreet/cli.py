"""The command line: parse, call, print.

The numerical libraries are imported by the commands that need them, not here, so that
``discreet --help`` answers at once. Every mistake is one message on stderr and exit code 2.
The options themselves are in ``options``.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from discreet import __version__
from discreet.errors import DiscreetError, InputError, StoppedError
from discreet.network_cli import app as network_app
from discreet.options import (
    DEMO_SECONDS,
    EXPERIMENTS,
    METHODS,
    MOST_SYMBOLS,
    OPTION_NAMES,
    AdvantageLimit,
    AllExperiments,
    AssumeIndependent,
    AuditGroup,
    AuditSeed,
    AuditTables,
    Benchmarks,
    BenchOut,
    BenchRows,
    BenchSensors,
    BeyondAnswer,
    Binning,
    Bins,
    Budget,
    Cap,
    Classes,
    ClassShare,
    Compared,
    Confidence,
    Dask,
    DataPath,
    Decide,
    DemoKeep,
    DemoSeconds,
    DemoSeed,
    Draws,
    DrawSeed,
    Epsilon,
    EpsilonLimit,
    Exclude,
    Experiments,
    ExportedMapping,
    ExportOut,
    Facts,
    Fresh,
    FrontierFile,
    FrontierOut,
    Group,
    GroupSize,
    Holdout,
    Html,
    IndependentReleases,
    Jobs,
    Json,
    KernelName,
    KeyFile,
    LdpEpsilon,
    Leak,
    LossName,
    MappingFile,
    MaxAdvantage,
    Memory,
    Method,
    Methods,
    Noise,
    Out,
    Period,
    PlannedLimit,
    PlannedMapping,
    PlannedSensors,
    PlannedSymbols,
    Plot,
    PointConfidence,
    Private,
    PrivateColumns,
    Public,
    PublicColumn,
    Quick,
    Quiet,
    Ratio,
    Ratios,
    Releases,
    Repeat,
    ResultsFolder,
    Rounds,
    Seed,
    Sensors,
    SymbolCounts,
    Symbols,
    Table,
    Tables,
    Target,
    WorkDir,
    byte_count,
    check_either,
    check_wishes,
    choices_by_column,
    decision_rule,
    list_of,
    name_among,
    name_list,
    share_of_risk,
    whole_number,
)
from discreet.stopping import interruptible

BAD_INPUT = 2
INTERRUPTED = 130
UNREAD = 1

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


# --- Running -------------------------------------------------------------------------------


def main() -> None:
    """Run the command line; every foreseen mistake ends in one message."""
    if not sys.warnoptions:  # libraries speak to programmers; what users need is said in words
        warnings.simplefilter("ignore")
    if hasattr(sys.stdout, "reconfigure"):  # a name that the terminal cannot write is no reason
        sys.stdout.reconfigure(errors="backslashreplace")  # to lose the result
    try:
        code = app(prog_name="discreet", standalone_mode=False)
    except StoppedError as error:
        _fail(str(error), INTERRUPTED)
    except DiscreetError as error:
        _fail(in_option_terms(str(error)), BAD_INPUT)
    except BrokenPipeError:  # whoever read the output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(UNREAD)
    except OSError as error:  # a full disk, say
        _fail(f"the output cannot be written ({error.strerror or error}).", BAD_INPUT)
    except Exception as error:
        # Typer's own errors derive from Click's or, in newer versions, from a copy of them.
        if not hasattr(error, "format_message"):
            raise
        _fail(_usage_message(error, sys.argv[1:]), BAD_INPUT)
    sys.exit(code if isinstance(code, int) else 0)


def in_option_terms(message: str) -> str:
    """Return a message with Python's parameters called what the command line calls them.

    Quoted words are left alone: they are names from the table.
    """
    names = "|".join(OPTION_NAMES)
    return re.sub(
        rf"(?<!['\"\w-])({names})(?!['\"\w])", lambda found: OPTION_NAMES[found[1]], message
    )


def _usage_message(error: Any, arguments: Sequence[str]) -> str:
    command = error.ctx.command_path if getattr(error, "ctx", None) is not None else "discreet"
    text = " ".join(error.format_message().split())
    seen = _value_of(getattr(error, "param", None), arguments)
    if seen is not None and repr(seen) not in text:
        text = f"{text.rstrip('.')}, got {seen!r}"
    return f"{text}{'' if text.endswith(('.', '?')) else '.'} See: {command} --help"


def _value_of(param: Any, arguments: Sequence[str]) -> str | None:
    """Return what was typed for an option, which Typer does not always repeat."""
    for option in getattr(param, "opts", ()):
        for argument, following in zip(arguments, [*arguments[1:], None], strict=True):
            if argument == option:
                return following
            if argument.startswith(f"{option}="):
                return argument.removeprefix(f"{option}=")
    return None


def _fail(message: str, code: int) -> NoReturn:
    print(f"discreet: {message}".replace("\n", " "), file=sys.stderr)
    sys.exit(code)


# --- Commands ------------------------------------------------------------------------------


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"discreet {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Sensors that answer one question and keep quiet about the rest.

    Example:

        discreet demo
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def learn(
    tables: Tables,
    public: Public,
    private: Private,
    out: Out,
    method: Method = "npo",
    sensors: Sensors = None,
    exclude: Exclude = None,
    symbols: Symbols = None,
    kernel: KernelName = "product",
    loss: LossName = "logistic",
    ratio: Ratio = None,
    max_advantage: MaxAdvantage = None,
    epsilon: Epsilon = None,
    ldp_epsilon: LdpEpsilon = None,
    decide: Decide = "balanced",
    binning: Binning = None,
    bins: Bins = None,
    holdout: Holdout = 0.3,
    group: Group = None,
    seed: Seed = 0,
    memory: Memory = None,
    work_dir: WorkDir = None,
    dask: Dask = None,
    quiet: Quiet = False,
) -> None:
    """Learn a private mapping from a table and write it to a file.

    Part of the table is set aside and not looked at, so that an audit can use it.
    Ctrl-C stops early and keeps the best mapping so far; twice, and nothing is kept.

    Example:

        discreet learn home.csv --public fall --private who --out home.json

    A time series, no day of which is both learned from and held out:

        discreet learn t.csv --public use --private me --group date:day --out m

    Three symbols for the sensor in the hall, two for the others:

        discreet learn t.csv --public use --private me --symbols hall=3 --out m

    Falls are rare, and missing one is ten times as bad as a false alarm:

        discreet learn t --public s --private p --decide cost=fall:10 --out m

    A table larger than memory, in many files:

        discreet learn 'day-*.parquet' --public use --private me --out m.json
    """
    wishes = {
        "privacy_ratio": ratio,
        "max_advantage": max_advantage,
        "epsilon": epsilon,
        "ldp_epsilon": ldp_epsilon,
    }
    check_wishes(method, wishes)
    rule = decision_rule(decide)
    choices = choices_by_column(symbols, binning, bins)
    sensor_names = None if sensors is None else name_list("--sensors", sensors)
    left_out = name_list("--exclude", exclude)
    most = byte_count(memory)
    with interruptible():
        from discreet.learning import ByColumn, Task, make_split
        from discreet.stream_console import run_learn_files

        options = {name: ByColumn(*choice) for name, choice in choices.items()}
        task = Task(
            table=tables[0],
            further=tables[1:],
            public=public,
            private=private,
            sensors=sensor_names,
            exclude=left_out,
            method=method,
            split=make_split(holdout, seed, group),
            options={
                "kernel": kernel,
                "loss": loss,
                "decide": rule,
                "random_state": seed,
                **wishes,
                **options,
            },
        )
        run_learn_files(task, out, memory=most, work_dir=work_dir, dask=dask, quiet=quiet)


@app.command()
def audit(
    mapping: MappingFile,
    tables: AuditTables,
    public: PublicColumn = None,
    private: PrivateColumns = None,
    group: AuditGroup = None,
    assume_independent: AssumeIndependent = False,
    cap: Cap = None,
    max_advantage: AdvantageLimit = None,
    beyond_answer: BeyondAnswer = False,
    epsilon: EpsilonLimit = None,
    confidence: Confidence = 0.95,
    releases: Releases = 1,
    independent_releases: IndependentReleases = False,
    json: Json = False,
    html: Html = None,
    frontier: FrontierFile = None,
    seed: AuditSeed = 0,
    quiet: Quiet = False,
) -> int:
    """Measure what a mapping still leaks, with bounds that hold for any attacker.

    Of the table that was learned from, only the held-out rows are used. Exit code 3 if
    a stated limit is not met; a limit is met only if it is certified.

    Example:

        discreet audit home.json home.csv --max-advantage 0.1 --html report.html
    """
    if frontier is not None and html is None:
        raise InputError("--frontier is for the report. Give --html as well.")
    with interruptible("stopped. Nothing was written."):
        from discreet.audit_console import AuditTask, run_audit
        from discreet.auditing.audit import AuditOptions

        return run_audit(
            AuditTask(
                mapping=mapping,
                table=tables[0],
                further=tables[1:],
                public=public,
                private=private,
                group=group,
                assume_independent=assume_independent,
                options=AuditOptions(
                    max_advantage=max_advantage,
                    beyond_answer=beyond_answer,
                    epsilon=epsilon,
                    confidence=confidence,
                    releases=releases,
                    independent_releases=independent_releases,
                    cap=cap,
                    seed=seed,
                ),
                as_json=json,
                html=html,
                frontier=frontier,
                quiet=quiet,
            )
        )


@app.command()
def plan(
    max_advantage: PlannedLimit,
    mapping: PlannedMapping = None,
    sensors: PlannedSensors = None,
    symbols: PlannedSymbols = None,
    noise: Noise = None,
    classes: Classes = None,
    facts: Facts = None,
    share: ClassShare = None,
    leak: Leak = 0.0,
    group_size: GroupSize = None,
    confidence: PointConfidence = 0.95,
    json: Json = False,
) -> None:
    """Say about how many rows an audit needs to certify a limit, before they are collected.

    Sensors are imagined independent, with readings that are equally frequent. After an
    audit, what it says of its own rows is better.

    Example:

        discreet plan home.json --max-advantage 0.05

    Before there is a mapping, for five sensors that send the wrong bit once in ten times:

        discreet plan --sensors 5 --noise 0.1 --max-advantage 0.05

    In days of 1,440 rows, one row in ten of the rarer class:

        discreet plan m.json --max-advantage 0.1 --group-size 1440 --share 0.1
    """
    with interruptible("stopped."):
        from discreet.plan_console import PlanTask, run_plan

        run_plan(
            PlanTask(
                limit=max_advantage,
                mapping=mapping,
                sensors=sensors,
                symbols=symbols,
                noise=noise,
                classes=classes,
                facts=facts,
                share=share,
                leak=leak,
                group_size=group_size or 0,
                confidence=confidence,
                as_json=json,
            )
        )


@app.command()
def frontier(
    table: Table,
    public: Public,
    private: Private,
    out: FrontierOut,
    plot: Plot = None,
    methods: Methods = "npo,ndd",
    ratios: Ratios = "0.9,0.95,0.98,0.99,0.995,0.998,0.999",
    symbols: SymbolCounts = "2",
    sensors: Sensors = None,
    exclude: Exclude = None,
    kernel: KernelName = "product",
    loss: LossName = "logistic",
    binning: Binning = None,
    bins: Bins = None,
    holdout: Holdout = 0.3,
    group: Group = None,
    confidence: PointConfidence = 0.95,
    jobs: Jobs = None,
    dask: Dask = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Show what privacy costs: public error against leak, over ratios and methods.

    Each point is a mapping of its own, measured on rows that none has learned from.
    Ctrl-C keeps the points that are done; the same command computes the rest.

    Example:

        discreet frontier t.csv --public fall --private who --out f.json

    With a picture:

        discreet frontier t.csv --public use --private me --out f --plot f.svg

    With two and with three symbols for each sensor:

        discreet frontier t.csv --public use --private me --symbols 2,3 --out f
    """
    check_either(jobs, dask)
    wanted = (
        list_of("--methods", methods, name_among(METHODS)),
        list_of("--ratios", ratios, share_of_risk),
        list_of("--symbols", symbols, whole_number(2, MOST_SYMBOLS)),
    )
    choices = choices_by_column(None, binning, bins)
    del choices["n_symbols"]
    sensor_names = None if sensors is None else name_list("--sensors", sensors)
    left_out = name_list("--exclude", exclude)
    with interruptible("stopped. No points were kept."):
        from discreet.frontier_console import Job, run_frontier
        from discreet.learning import ByColumn, Task, make_split
        from discreet.tradeoff.study import plan

        specs = plan(*wanted)
        options = {name: ByColumn(*choice) for name, choice in choices.items()}
        task = Task(
            table=table,
            public=public,
            private=private,
            sensors=sensor_names,
            exclude=left_out,
            method=specs[0].method,
            split=make_split(holdout, seed, group),
            options={"kernel": kernel, "loss": loss, "random_state": seed, **options},
        )
        run_frontier(Job(task, specs, out, plot, confidence, jobs or -1, dask, quiet))


@app.command()
def reproduce(
    names: Experiments = None,
    every: AllExperiments = False,
    draws: Draws = None,
    out: ResultsFolder = Path("discreet-reproduction"),
    data: DataPath = None,
    jobs: Jobs = None,
    dask: Dask = None,
    seed: DrawSeed = 0,
    fresh: Fresh = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Rerun the paper's tables and figures, beside the printed ones.

    Each draw learns from fresh rows; synthetic figures are exact sums. What is
    finished is not computed again, so that Ctrl-C loses one experiment at most.

    Example:

        discreet reproduce skewed-prior

    Everything, with one page to read:

        discreet reproduce --all --out results
    """
    if not names and not every:
        raise InputError(f"name an experiment ({', '.join(EXPERIMENTS)}), or give --all.")
    if names and every:
        raise InputError(f"--all was given together with {names[0]!r}. Give one or the other.")
    check_either(jobs, dask)
    with interruptible("stopped. No experiment was finished."):
        from discreet.reproduce_console import ReproduceJob, run_reproduce

        run_reproduce(
            ReproduceJob(
                names=names or (),
                out=out,
                draws=draws,
                seed=seed,
                data=data,
                jobs=jobs or -1,
                dask=dask,
                fresh=fresh,
                as_json=json,
                quiet=quiet,
            )
        )


@app.command()
def export(
    mapping: ExportedMapping,
    to: Target,
    out: ExportOut,
    key: KeyFile = None,
    budget: Budget = None,
    period: Period = 86_400,
    repeat: Repeat = "code",
    quiet: Quiet = False,
) -> None:
    """Write one bundle per sensor, with its own table only, for the device that reads it.

    Bundles for Python are signed; the public key is printed, and each device must have
    it by another way than the bundle.

    Example:

        discreet export home.json --to python --out bundles

    For a microcontroller that may release 20 nats in its life:

        discreet export home.json --to c --out firmware --budget 20
    """
    with interruptible("stopped. Nothing was written."):
        from discreet.export.exporting import ExportTask
        from discreet.export.neutral import Policy
        from discreet.export_console import run_export

        policy = Policy(budget=budget, period=period, repeat=repeat)
        run_export(ExportTask(mapping, to, out, key, policy), quiet=quiet)


@app.command()
def bench(
    names: Benchmarks = None,
    quick: Quick = False,
    rounds: Rounds = None,
    rows: BenchRows = None,
    sensors: BenchSensors = None,
    out: BenchOut = None,
    plot: Plot = None,
    compare: Compared = None,
    quiet: Quiet = False,
) -> None:
    """Measure how fast it is, beside other libraries in the same run.

    Everybody takes turns, round by round. With numba, and LightGBM to compare with, from
    the extra `bench`; what is not installed is said.

    Example:

        discreet bench --out today.json --plot today.svg

    What changed since another version:

        discreet bench --compare before.json today.json
    """
    if compare is not None:
        asked: dict[str, object] = {"a name": names, "--quick": quick, "--rounds": rounds}
        asked |= {"--rows": rows, "--sensors": sensors, "--out": out, "--plot": plot}
        for option, value in asked.items():
            if value:
                raise InputError(f"--compare measures nothing; leave {option} out.")
    with interruptible("stopped. Nothing was written."):
        from discreet.bench.size import Size
        from discreet.bench_console import BenchJob, run_bench, run_comparison

        if compare is not None:
            run_comparison(*compare)
            return
        run_bench(BenchJob(names or (), Size.of(quick, rows, sensors, rounds), out, plot, quiet))


@app.command()
def demo(
    folder: Annotated[
        Path,
        typer.Option("--out", metavar="FOLDER", help="Where everything goes that the demo makes."),
    ] = Path("discreet-demo"),
    seed: DemoSeed = 0,
    seconds: DemoSeconds = None,
    keep: DemoKeep = False,
) -> None:
    """Learn from a made-up home, audit it, and run it as a network.

    No hardware and no data are needed; it takes less than a minute. The network has a
    broker, four sensors, the fusion centre and a dashboard to look at.

    Example:

        discreet demo --out my-home

    To look around, until Ctrl-C:

        discreet demo --keep
    """
    if keep and seconds is not None:
        raise InputError(f"--keep was given together with --for {seconds:g}. Give one of them.")
    with interruptible("stopped."):
        from discreet.demo import run_demo

        run_demo(folder, seed, None if keep else DEMO_SECONDS if seconds is None else seconds)


app.add_typer(network_app)  # without a name: its commands stand beside the others


if __name__ == "__main__":
    main()
