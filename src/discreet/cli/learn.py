"""``discreet learn``: its options, what is asked, the run.

Progress, warnings and errors go to stderr; what a script may want to read, to stdout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.choices import METHODS
from discreet.cli.learn_checks import check_loss, check_rounds, check_wishes
from discreet.cli.learn_json import Outcome, is_default, result
from discreet.cli.learn_text import announce, say_rounds, summarise
from discreet.cli.learn_verdict import audit_command, verdict
from discreet.cli.options import (
    MOST_SYMBOLS,
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
    Private,
    Public,
    Quiet,
    Seed,
    Sensors,
    argument,
    by_column,
    bytes_of,
    flag,
    is_count,
    is_method,
    is_positive,
    is_probability,
    is_share,
    mapper_options,
    name_list,
    option,
    read_config,
    same_command,
    seconds_of,
    whole_number,
    write_config,
)
from discreet.cli.terminal import (
    check_out,
    interruptible,
    plain_console,
    print_json,
    print_lines,
    print_on,
    print_verdict,
    told_warnings,
    warn,
)
from discreet.errors import InputError
from discreet.stopping import has_result, undisturbed

if TYPE_CHECKING:
    from discreet.learning_for_rounds import RoundsFigure
    from discreet.mappers.base import PrivacyMapper
    from discreet.task import Task

LIMIT_NOT_MET = 3


def learn(
    context: typer.Context,
    tables: Annotated[
        list[Path],
        argument(
            "TABLE...",
            "CSV, TSV or Parquet file, a row per moment; several files, or a pattern, are one "
            "table.",
        ),
    ],
    public: Public,
    private: Private,
    out: Annotated[Path, option("FILE", "Mapping file to write.")],
    method: Annotated[str, option("NAME", ", ".join(METHODS) + ".", is_method)] = "auto",
    sensors: Sensors = None,
    exclude: Exclude = None,
    symbols: Annotated[
        list[str] | None,
        option(
            "[COLUMN=]N",
            "Symbols that each sensor may send, or that of one column; may be given several "
            "times. [default: 2]",
        ),
    ] = None,
    kernel: KernelName = "product",
    loss: LossName = None,
    ratio: Annotated[
        float | None,
        option("P", "Share of the largest private risk to keep. [npo's default: 0.998]", is_share),
    ] = None,
    max_advantage: Annotated[
        float | None,
        option(
            "A",
            "Ask that no attacker beat guessing by more than this. [auto's default: 0.05]",
            is_share,
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        option(
            "E",
            "Ask that no symbols shift the log-probability of a private class by more; shared out "
            "among the sensors if they have more than 1024 joint outputs.",
            is_positive,
        ),
    ] = None,
    ldp_epsilon: Annotated[
        float | None, option("E", "Local differential privacy of every sensor.", is_positive)
    ] = None,
    beyond_answer: Annotated[
        bool,
        flag(
            "--beyond-answer",
            "Limit attackers who know the public fact: what the answer itself reveals does "
            "not count.",
        ),
    ] = False,
    decide: Decide = "balanced",
    binning: Binning = None,
    bins: Bins = None,
    holdout: Holdout = 0.3,
    group: Group = None,
    time_column: Annotated[
        str | None,
        option(
            "COLUMN",
            "When each row was written: how long the public fact lasts is learned as well, "
            "and the fusion centre remembers. Fits --repeat never.",
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        option(
            "N",
            "--max-advantage limits what N rounds tell together, such as 1440 of a day.",
            is_count,
        ),
    ] = None,
    stay: Annotated[
        float | None,
        option(
            "P",
            "Probability that a private fact is the same in the next round, for --rounds.",
            is_probability,
        ),
    ] = None,
    every: Annotated[
        str | None,
        option(
            "TIME",
            "Time from one round to the next, such as 60s, 5m or 1h. [default: what is usual "
            "between rows]",
        ),
    ] = None,
    seed: Seed = 0,
    time_limit: Annotated[
        str | None,
        option(
            "TIME",
            "When --method auto takes the best mapping so far, such as 60s or 10m. [default: 60s]",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        option(
            "SIZE",
            "Memory that the process stays within, such as 700M or 8G; a table that takes more is "
            "streamed. [default: 4G for the table]",
        ),
    ] = None,
    work_dir: Annotated[
        Path | None,
        option("DIR", "Where a streamed text table is copied to. [default: beside the mapping]"),
    ] = None,
    dask: Dask = None,
    config: Annotated[
        Path | None,
        option(
            "FILE",
            "Options that are not given here, as --write-config wrote them.",
            read_config,
            is_eager=True,
        ),
    ] = None,
    config_out: Annotated[
        Path | None,
        option("FILE", "Write the options given, such as to discreet.toml.", name="--write-config"),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Learn a private mapping from a table and write it to a file.

    Part of the table is set aside and not looked at, so that an audit can use it.
    Ctrl-C, SIGTERM and SIGHUP stop early and keep the best mapping so far; after that, Ctrl-C
    or SIGTERM drops it.
    Exit code 3 if rows left out do not show a stated limit to be kept (the mapping is written
    all the same), 130, 143 or 129 if Ctrl-C, SIGTERM or SIGHUP left nothing.

    Example:

        discreet learn home.csv --public fall --private who --out home.json

    A time series, no day of which is both learned from and held out:

        discreet learn t.csv --public use --private me --group date:day --out m

    Three symbols for the sensor in the hall, two for the others:

        discreet learn t.csv --public use --private me --symbols hall=3 --out m

    Falls are rare, and missing one is ten times as bad as a false alarm:

        discreet learn t --public s --private p --decide cost=fall:10 --out m

    A series, so that decisions remember the rounds before:

        discreet learn t --public s --private p --time-column date --out m

    So that symbols tell little besides the answers that they are for:

        discreet learn t --public s --private p --beyond-answer --out m

    A table larger than memory, in many files:

        discreet learn 'day-*.parquet' --public use --private me --out m.json
    """
    check_rounds(rounds, stay, max_advantage)
    wishes = {
        "privacy_ratio": ratio,
        "max_advantage": max_advantage,
        "epsilon": epsilon,
        "ldp_epsilon": ldp_epsilon,
    }
    check_wishes(method, wishes, beyond_answer)
    check_loss(method, loss)
    options = mapper_options(kernel, loss, decide, seed, binning, bins) | wishes
    if beyond_answer:
        options["beyond_answer"] = True
    options["n_symbols"] = by_column("--symbols", symbols, 2, whole_number(2, MOST_SYMBOLS))
    sensor_names = None if sensors is None else name_list("--sensors", sensors)
    left_out = name_list("--exclude", exclude)
    most, seconds = bytes_of("--memory", memory), seconds_of("--every", every)
    if (limit := seconds_of("--time-limit", time_limit)) is not None:
        if method != "auto":
            raise InputError(f"--time-limit is for --method auto, got --method {method}.")
        options["time_budget"] = limit
    if every is not None and time_column is None:
        raise InputError("--every was given without --time-column, which it is for. Give both.")
    _load_libraries(dask)
    from discreet.task import Task, make_split

    with interruptible(early=True):
        task = Task(
            table=tables[0],
            further=tables[1:],
            public=public,
            private=private,
            sensors=sensor_names,
            exclude=left_out,
            method=method,
            split=make_split(holdout, seed, group),
            options=options,
            time_column=time_column,
            every=seconds,
        )
        if config_out is not None:
            for file in (*task.files(), out):
                check_out(config_out, file, "--write-config")
        again = same_command(context, without=("max_advantage", "epsilon"))
        outcome = run_learn(
            task, out, memory=most, work_dir=work_dir, dask=dask, quiet=quiet or as_json,
            rounds=rounds, stay=stay, again=again,
            finish=partial(_finish, context, config_out),
        )  # fmt: skip
        met = _met(outcome.learned.mapper, outcome.figure)
        if as_json:
            following = audit_command(task, out, rounds, stay)
            print_json(result(outcome, out, met, following, again))
    return _exit_code(outcome.learned.mapper, outcome.figure)


def _load_libraries(dask: str | None) -> None:
    """Load them while a stop ends the process at once.

    Of an interrupt, libraries make other errors.
    """
    import_module("discreet.learning")
    import_module("discreet.cli.progress")
    if dask is not None:
        from discreet.cluster import check_address

        check_address(dask)
        import_module("distributed")


def _finish(
    context: typer.Context,
    config_out: Path | None,
    mapper: PrivacyMapper,
    figure: RoundsFigure | None,
) -> int:
    """Write the options, where that was asked for, and return the exit code."""
    if config_out is not None:
        write_config(context, config_out)
    return _exit_code(mapper, figure)


def _exit_code(mapper: PrivacyMapper, figure: RoundsFigure | None) -> int:
    return LIMIT_NOT_MET if not is_default(mapper) and _met(mapper, figure) is False else 0


def _met(mapper: PrivacyMapper, figure: RoundsFigure | None) -> bool | None:
    """Tell whether rows left out show the limit to be kept; None if there was none."""
    expected = mapper.expected_
    if figure is None or (expected is not None and expected.silent):
        return None if expected is None else expected.met
    return figure.met


def _check_places(task: Task, out: Path, work_dir: Path | None) -> None:
    """Refuse places that cannot take what is to be written."""
    if work_dir is not None and not work_dir.is_dir():
        raise InputError(f"--work-dir {work_dir}: there is no such directory. Make it first.")
    for file in task.files():
        check_out(out, file)


def run_learn(
    task: Task,
    out: Path,
    *,
    memory: int | None = None,
    work_dir: Path | None = None,
    dask: str | None = None,
    quiet: bool = False,
    rounds: int | None = None,
    stay: float | None = None,
    again: Sequence[str] = (),
    finish: Callable[[PrivacyMapper, RoundsFigure | None], int] | None = None,
) -> Outcome:
    """Learn as asked, write the mapping, and say what was done.

    ``out``: where the mapping goes. Nothing is written unless all goes well. ``memory``: bytes that
    learning may take; a table that takes more is streamed. ``work_dir``: where a text table that is
    streamed is copied to; beside the mapping by default. ``dask``: the cluster that goes over the
    rows: a scheduler's address, or "local:N". ``quiet``: print warnings only. ``again``: the
    command that was given, without its limits. ``finish``: does what is left once the mapping is
    written, and returns the exit code of the process; without it, more follows. Raises InputError:
    before the work where possible, with what to do. Raises ClusterError: if the cluster does not
    answer, or has lost all its workers. Raises KeyboardInterrupt: if the user wanted an end and no
    mapping.
    """
    from discreet.cli.progress import LearnReport, stop_on_interrupt
    from discreet.cluster import connected
    from discreet.learning import learn, open_table, prepare

    _check_places(task, out, work_dir)
    console = plain_console()
    report = LearnReport(console, quiet=quiet)
    warned: list[str] = []
    with told_warnings(console, warned):
        report.shown.show("read", 0.0)
        with stop_on_interrupt(report, last=finish is not None), connected(dask) as client:
            folder = work_dir or out.resolve().parent
            table = open_table(task, memory, folder)
            prepared = prepare(task, table, report=report, client=client)
            if not quiet:
                print_on(console, announce(prepared))
            if prepared.warning:
                warned.append(prepared.warning)
                print_on(console, f"warning: {prepared.warning}", "yellow")
            if rounds is None:
                learned, figure = learn(prepared, report=report), None
            else:
                from discreet.learning_for_rounds import learn_for_rounds

                learned, figure = learn_for_rounds(prepared, rounds, stay, report=report)
        with undisturbed():
            learned.mapper.mapping_.save(out)
            code = None if finish is None else finish(learned.mapper, figure)
        if code is not None:  # whatever is printed from here on may find nobody who reads it
            has_result(code)
    if figure is not None and not figure.met:
        warned.append(say_rounds(figure))
    outcome = Outcome(learned, figure, warned, report.stop_asked)
    _tell(outcome, out, quiet, audit_command(task, out, rounds, stay), again)
    return outcome


def _tell(outcome: Outcome, out: Path, quiet: bool, audit: str, again: Sequence[str]) -> None:
    """Say what was done; ``audit``: the command that checks the mapping."""
    figure = outcome.figure
    if not quiet:
        print_lines(summarise(outcome, out, again))
    if figure is not None and not figure.met:
        warn(say_rounds(figure))
    if not quiet:
        for line, colour in verdict(outcome, audit):
            print_verdict(line, colour)
