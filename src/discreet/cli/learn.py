"""``discreet learn``: what is asked, what will be learned, the closing summary.

Progress, warnings and errors go to stderr; what a script may want to read, to stdout.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.choices import METHODS
from discreet.cli.learn_json import Outcome, is_default, result, with_limit
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
    option_name,
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
from discreet.errors import InputError, as_argument
from discreet.rounding import gain, percent, percents, plain_points, points, with_error
from discreet.stopping import has_result, undisturbed

if TYPE_CHECKING:
    from discreet.data.table_warnings import Doubt
    from discreet.design.expected import Expected
    from discreet.learning import Prepared
    from discreet.learning_for_rounds import RoundsFigure
    from discreet.mappers.base import PrivacyMapper
    from discreet.mapping.parts import Fact, PublicChain
    from discreet.task import Task

_LISTED_SENSORS = 8
LIMIT_NOT_MET = 3
_LISTED_CLASSES = 4


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
    if (stay is not None) and rounds is None:
        raise InputError("--stay was given without --rounds, which it is for. Give both.")
    if rounds is not None and max_advantage is None:
        raise InputError(
            f"--rounds {rounds} needs to know what they may tell together. Give --max-advantage."
        )
    wishes = {
        "privacy_ratio": ratio,
        "max_advantage": max_advantage,
        "epsilon": epsilon,
        "ldp_epsilon": ldp_epsilon,
    }
    _check_wishes(method, wishes, beyond_answer)
    if loss is not None and method == "auto":
        raise InputError(
            f"--loss {loss} was given, but --method auto minimises no loss. Leave it out, or use "
            "--method npo."
        )
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
    # Loaded while a stop ends the process at once: of an interrupt, libraries make other errors.
    import_module("discreet.learning")
    import_module("discreet.cli.progress")
    if dask is not None:
        from discreet.cluster import check_address

        check_address(dask)
        import_module("distributed")
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
            following = _audit_command(task, out, rounds, stay)
            print_json(result(outcome, out, met, following, again))
    return _exit_code(outcome.learned.mapper, outcome.figure)


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


def _check_wishes(method: str, wishes: dict[str, float | None], beyond_answer: bool) -> None:
    """Refuse wishes for privacy that contradict each other or the method."""
    given = [option_name(name) for name in wishes if wishes[name] is not None]
    if method == "ndd" and given:
        raise InputError(
            f"{given[0]} was given, but --method ndd protects nothing. Leave {given[0]} out, or "
            "use --method npo."
        )
    deaf = [name for name in given if name != "--ldp-epsilon"]
    if method == "randomized-response" and deaf:
        raise InputError(
            f"{deaf[0]} was given, but --method randomized-response does not look at the private "
            "fact. Give --ldp-epsilon, the budget of every sensor, or use --method npo."
        )
    searched = [name for name in given if name in ("--max-advantage", "--epsilon")]
    if "--ratio" in given and searched:
        raise InputError(
            f"--ratio was given together with {searched[0]}, which searches for the ratio itself. "
            "Give one or the other."
        )
    if beyond_answer and method != "auto":
        raise InputError(
            f"--beyond-answer was given, but --method {method} does not tell its attackers the "
            "public fact. Use --method auto."
        )


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

    if work_dir is not None and not work_dir.is_dir():
        raise InputError(f"--work-dir {work_dir}: there is no such directory. Make it first.")
    for file in task.files():
        check_out(out, file)
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
    _tell(outcome, out, quiet, _audit_command(task, out, rounds, stay), again)
    return outcome


def say_rounds(figure: RoundsFigure) -> str:
    """Return what all rounds tell together, beside what was asked."""
    from discreet.auditing.bounds.rows_needed import rounded

    line = (
        f"{figure.rounds} rounds together: an attacker's advantage of about "
        f"{points(figure.reached)} on {figure.fact!r}"
        f"{' beyond the public fact' if figure.beyond_answer else ''} (by rows left out, with one "
        "standard error: an estimate and no certificate, if that fact is all that links rounds); "
        f"asked: {plain_points(figure.asked)}"
    )
    if figure.met:
        return line
    if figure.within:
        return (
            f"{line}. NOT SHOWN to be met: that takes rows as independent, which they may not be."
        )
    why = "do not support it"
    if figure.designed:
        why = "do not show it, although the tables keep it under the model of these rows"
    more = "no number to learn from could, as learn judges by a part of many rows"
    if figure.rows_needed is not None:
        more = f"about {rounded(figure.rows_needed)} to learn from could"
    elif figure.audit_rows is not None:
        more += (
            f", but audit --rounds takes about {rounded(figure.audit_rows)} held-out rows to "
            "certify it, if the tables tell half of that"
        )
    return f"{line}. NOT MET: {figure.rows:,} rows {why}; {more}."


def _tell(outcome: Outcome, out: Path, quiet: bool, audit: str, again: Sequence[str]) -> None:
    """Say what was done; ``audit``: the command that checks the mapping."""
    figure = outcome.figure
    if not quiet:
        print_lines(summarise(outcome, out, again))
    if figure is not None and not figure.met:
        warn(say_rounds(figure))
    if not quiet:
        for line, colour in _closing(outcome, audit):
            print_verdict(line, colour)


def announce(prepared: Prepared) -> str:
    """Return what will be learned from how many rows, in one line."""
    sensors, split = prepared.sensors, prepared.task.split
    names = ", ".join(sensors[:_LISTED_SENSORS])
    more = ", ..." if len(sensors) > _LISTED_SENSORS else ""
    held_out = int(prepared.held_out.sum())
    line = (
        f"{len(sensors)} sensor{'s'[: len(sensors) > 1]} ({names}{more}); "
        f"{prepared.table.rows - held_out} rows to learn from, "
    )
    if held_out:
        by = f" by {split.group!r}" if split.group else ""
        line += f"{held_out} held out{by} for the audit"
    else:
        line += "none held out: this table cannot audit the mapping"
    from discreet.data.tables import Stream

    streamed = isinstance(prepared.table, Stream)
    return line + ("; streamed, since there are too many for memory" if streamed else "")


def summarise(outcome: Outcome, out: Path, again: Sequence[str]) -> list[str]:
    """Return the closing lines: what was written and what may be said of it.

    ``again``: the command that was given, without its limits.
    """
    from discreet.design.expected import NOT_MEASURED

    mapper, figure = outcome.learned.mapper, outcome.figure
    lines = [f"wrote {out}, id {mapper.mapping_.id[:19]}"]
    if mapper.stopped_:
        lines.append("stopped early: this is the best mapping found until then")
    expected = mapper.expected_
    if expected is not None:
        beyond = bool(getattr(mapper, "beyond_answer", False))
        lines += [
            _privacy_line(expected, beyond, is_default(mapper), outcome.ended),
            *_answer_lines(expected, mapper.mapping_.public.name, outcome.ended),
        ]
        if expected.by_folds:
            lines.append(NOT_MEASURED)
    elif mapper.privacy_ratio_ is not None:
        lines.append(
            f"private risk {mapper.private_risk_:.4f} on the training rows, "
            f"floor {mapper.threshold_:.4f}"
        )
    lines += _alternative_lines(mapper, again)
    if mapper.mapping_.chain is not None:
        lines.append(_chain_line(mapper.mapping_.chain, mapper.mapping_.public))
    bound = mapper.structural_epsilon_
    lines.append(
        f"structural bound C1, any fact and distribution, one release: epsilon <= {bound:.2f}"
        if bound < float("inf")
        else "structural bound C1, one release: none, some symbols are certain for some codes"
    )
    if figure is None:
        lines.append(
            "all of this is about one report; discreet budget computes what a day of them tells"
        )
    elif figure.met:
        lines.append(say_rounds(figure))
    return lines


def _closing(outcome: Outcome, audit: str) -> list[tuple[str, str]]:
    """Return the last three lines, each with its colour: useful or not, private or not, what next.

    Everything is in points of balanced accuracy, as in the report.
    """
    from discreet.data.table_warnings import under_another_name

    learned, figure = outcome.learned, outcome.figure
    mapper, doubt = learned.mapper, learned.prepared.doubt
    expected, public = mapper.expected_, mapper.mapping_.public.name
    facts, worth = learned.prepared.facts, ""
    if expected is not None:
        by = " by designs without a fold" if expected.by_folds else ""
        worth = (
            f": {public!r} is answered right{by} in {percent(expected.balanced_accuracy)}, by "
            f"guessing in {percent(expected.guessing_balanced_accuracy)}"
        ) + _kept_line(expected)
    little = expected is not None and expected.keeps_little
    if same := [each.name for each in under_another_name(facts[0], facts[1:])]:
        worth += f"; {same[0]!r} is the same fact, and so much of it is revealed"
    useful = (
        (f"useful{worth}", "33" if little or same else "32")
        if mapper.useful_
        else (f"useless{worth}: no better than guessing, as far as the rows show", "33")
    )
    if expected is not None and expected.silent and (figure or expected.met is not None):
        private = _noise_line(expected, outcome.ended, figure is None and is_default(mapper))
    elif figure is None:
        private = _private_line(mapper, doubt)
    else:
        private = _private_rounds_line(figure, doubt)
    return [useful, private, (f"next: {audit}", "1")]


def _kept_line(expected: Expected) -> str:
    """Say it where little is kept of what raw readings gain."""
    share = expected.share_of_raw_gain
    if share is None or not (expected.useful and expected.keeps_little):
        return ""
    return (
        f", from raw readings in {percent(expected.raw_balanced_accuracy)}: only "
        f"{percent(share)} of that gain is kept"
    )


def _noise_line(expected: Expected, ended: str, by_default: bool) -> tuple[str, str]:
    met = "not met: the default" if by_default else "NOT met: what was asked for"
    why = f"was kept by nothing before {ended}" if expected.noise_cut else "leaves nothing to say"
    return f"{met} {why}; the symbols are noise", "31"


def _private_rounds_line(figure: RoundsFigure, doubt: Doubt | None) -> tuple[str, str]:
    told = "knows the public fact and " if figure.beyond_answer else ""
    line = (
        f"an attacker who {told}sees {figure.rounds:,} rounds beats guessing {figure.fact!r} by "
        f"about {points(figure.reached)}; {100 * figure.asked:.4g} were allowed"
    )
    span = f"over {figure.rounds:,} rounds"
    if figure.met:
        return f"private enough {span}, as far as the rows show: {line}", "32"
    return f"NOT shown to be private {span}{_doubted(doubt)}: {line}", "31"


def _doubted(doubt: Doubt | None) -> str:
    """Return why rows show no limit to be kept, what to do, and what the figure to follow takes."""
    if doubt is None:
        return ""
    return f", since {doubt.cause}. {doubt.advice} If rows were independent"


def _private_line(mapper: PrivacyMapper, doubt: Doubt | None) -> tuple[str, str]:
    expected, epsilon = mapper.expected_, mapper.epsilon
    if expected is None or expected.met is None:
        if epsilon is not None and mapper.structural_epsilon_ <= epsilon:
            return f"private enough: epsilon {epsilon:g} holds by construction, for any fact", "32"
        return "private or not: no limit was asked for, and the audit measures it", "33"
    secrets = " or ".join(repr(fact.name) for fact in mapper.mapping_.private)
    told = ", who knows the public fact," if getattr(mapper, "beyond_answer", False) else ""
    tried = ", tried on designs without a fold," if expected.by_folds else ""
    tried = ", under the model of the rows learned from," if expected.more_by_model else tried
    line = (
        f"an attacker{told}{tried} beats guessing {secrets} by about "
        f"{points(expected.likely_advantage)} "
        f"(raw readings: {_raw_gain(expected)})"
    )
    if expected.asked is not None:
        aim = f"{100 * expected.asked:.4g}"
        line += f"; no limit was stated, {aim} is the default" if is_default(mapper) else (
            f"; {aim} were allowed"
        )  # fmt: skip
    if expected.met:
        return f"private enough, as far as the rows show: {line}", "32"
    return f"NOT shown to be private{_doubted(doubt)}: {line}", "31"


def _audit_command(task: Task, out: Path, rounds: int | None, stay: float | None) -> str:
    """Return what to run next."""
    limit = task.options.get("max_advantage")
    given = [] if limit is None else ["--max-advantage", f"{limit:.12g}"]
    if limit is not None and task.options.get("beyond_answer"):
        given.append("--beyond-answer")
    if (epsilon := task.options.get("epsilon")) is not None:
        given += ["--epsilon", f"{epsilon:.12g}"]
    if rounds is not None:
        given += ["--rounds", str(rounds)]
        given += ["--time-column", str(task.time_column)] if stay is None else ["--stay", str(stay)]
    if not task.split.holdout:
        command = shlex.join(["discreet", "audit", as_argument(out), "TABLE", *given])
        return f"{command}, with rows that it was not taught"
    files = [as_argument(each) for each in (out, task.table, *task.further)]
    command = shlex.join(["discreet", "audit", *files, *given, "--html", "report.html"])
    usual = rounds is not None and stay is None and task.every is not None
    return command + "  # where a round is the usual step between rows" * usual


def _chain_line(chain: PublicChain, public: Fact) -> str:
    from discreet.data.columns import written

    stays = [f"{chain.moves[k][k]:.4f} ({written(each)})" for k, each in enumerate(public.classes)]
    more = ", ..." if len(stays) > _LISTED_CLASSES else ""
    return (
        f"remembers: {chain.interval:g} s later {public.name!r} is the same with probability "
        f"{', '.join(stays[:_LISTED_CLASSES])}{more}, from {chain.steps} pairs of rows"
    )


def _privacy_line(expected: Expected, beyond: bool, by_default: bool, ended: str) -> str:
    """Say what an attacker is expected to gain.

    ``by_default``: no limit was stated. ``ended``: why what took longer was left out.
    """
    unmet = "the default is not met" if by_default else "NOT MET"
    if expected.doubted and expected.shortfall is None:
        unmet = f"{'the default is ' * by_default}NOT SHOWN to be met, as rows may depend"
    if expected.silent:
        noise = "even with 80 % of its symbols replaced by random ones"
        if expected.noise_cut:
            noise = f"and {ended} before symbols replaced by random ones were tried"
        return (
            "the symbols are pure noise: no design that was tried is likely to stay within "
            f"{plain_points(expected.asked or 0.0)}, {noise} (raw readings: "
            f"{_raw_gain(expected)}); {unmet}"
        )
    met = "the default is met" if by_default else "what was asked for is met"
    if expected.shortfall is not None:
        unmet += f": {expected.shortfall.words}"
    verdict = {None: "", True: f"; {met}", False: f"; {unmet}"}[expected.met]
    asked = (
        ""
        if expected.asked is None
        else (f"; {'default' if by_default else 'asked'}: {100 * expected.asked:.4g}")
    )
    return (
        f"expected of one report (of {expected.of}: an estimate and no certificate): "
        f"attacker's advantage {'beyond the public fact ' * beyond}"
        f"{_shown_advantage(expected)} (raw readings: {_raw_gain(expected)}{asked})"
        + ("" if expected.epsilon is None else f", epsilon {expected.epsilon:.2f}")
        + verdict
    )


def _shown_advantage(expected: Expected) -> str:
    """Say what leaks, on rows left out or under the model: first whichever is more."""
    shown = with_error(expected.advantage, expected.advantage_error)
    if not expected.more_by_model:
        return shown
    return (
        f"{points(expected.model_advantage)} under the model, of which attackers that were tried "
        f"show {shown}"
    )


def _raw_gain(expected: Expected) -> str:
    """Return what raw readings tell an attacker, by few rows if the search was cut short."""
    return gain(expected.raw_advantage) + ", roughly" * expected.hurried


def _alternative_lines(mapper: PrivacyMapper, again: Sequence[str]) -> list[str]:
    """Say what more leak would buy, if the answers are worth little."""
    expected, others = mapper.expected_, getattr(mapper, "alternatives_", None)
    searched = mapper.privacy_ratio is None and getattr(mapper, "rounds", 1) == 1
    if expected is None or others is None or not searched or expected.doubted:
        return []
    if others:
        return [_alternative_line(each, mapper.epsilon, again) for each in others]
    poor = not expected.useful or expected.keeps_little
    return ["no limit that leaves something of use was found in the time allowed"] if poor else []


def _alternative_line(expected: Expected, epsilon: float | None, again: Sequence[str]) -> str:
    """Say what more leak would buy, and how to ask for it; ``epsilon``: asked for instead."""
    limit = expected.asked or 0.0
    instead = "" if epsilon is None else f" instead of epsilon {epsilon:g}"
    return (
        f"a limit of {plain_points(limit)}{instead} would leave something of use (attacker's "
        f"advantage {_shown_advantage(expected)}), error about "
        f"{percent(expected.public_error)}, balanced accuracy "
        f"{percent(expected.balanced_accuracy)}: "
        f"{with_limit(again, limit)}"
    )


def _answer_lines(expected: Expected, public: str, ended: str) -> list[str]:
    """Say what the answers are worth, and what guessing and raw readings are worth beside them."""
    return [
        f"answers {public!r} with error {percent(expected.public_error)} and balanced accuracy "
        f"{percent(expected.balanced_accuracy)} "
        f"({percents(expected.balanced_low, expected.balanced_high)})",
        f"beside it, guessing: {percent(expected.guessing_error)} and "
        f"{percent(expected.guessing_balanced_accuracy)}; raw readings: "
        f"{percent(expected.raw_error)} and {percent(expected.raw_balanced_accuracy)}"
        + f" (roughly, {ended})"
        * expected.hurried,
    ]
