"""``discreet audit``: files in, an account on the terminal, JSON or a page out.

The verdict comes first. What a script may want to read goes to stdout, progress to stderr.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from discreet.cli.options import (
    AssumeIndependent,
    AuditGroup,
    Json,
    Quiet,
    argument,
    bytes_of,
    flag,
    is_confidence,
    is_count,
    is_positive,
    is_probability,
    is_seed,
    is_share,
    option,
)
from discreet.cli.terminal import (
    check_order,
    check_out,
    interruptible,
    line_width,
    plain_console,
    print_json,
    print_lines,
    print_verdict,
)
from discreet.errors import InputError, shown
from discreet.files import write_whole
from discreet.layout import Column, table
from discreet.rounding import (
    at_least,
    at_most,
    bounded,
    gain,
    measured,
    percent,
    percents,
    plain_points,
    up,
)

if TYPE_CHECKING:
    from discreet.auditing.attackers.attack import AttackResult, BestAttack
    from discreet.auditing.bounds.certificates import Certificate
    from discreet.auditing.bounds.intervals import Interval
    from discreet.auditing.data import AuditOptions
    from discreet.auditing.results import Attacks, Audit, FactAudit, PublicAudit
    from discreet.auditing.rounds import RoundsAudit

LIMIT_NOT_MET = 3
_MEANINGLESS = 10.0
_COLOURS = {"WITHIN LIMITS": "32", "LEAKS": "31"}
_TABLES = " (tables)"  # beside a bound that the rows add nothing to


def audit(
    mapping: Annotated[Path, argument("MAPPING", "Mapping file to audit.")],
    tables: Annotated[
        list[Path],
        argument(
            "TABLE...",
            "Rows to audit with. Of the table that was learned from, the held-out part is used.",
        ),
    ],
    public: Annotated[
        str | None, option("COLUMN", "The public fact. [default: as the mapping calls it]")
    ] = None,
    private: Annotated[
        list[str] | None,
        option(
            "COLUMN", "A private fact, in the mapping's order. [default: as the mapping calls them]"
        ),
    ] = None,
    group: AuditGroup = None,
    assume_independent: AssumeIndependent = False,
    cap: Annotated[
        int | None,
        option(
            "N",
            "Certify a row drawn at random, a group counting with at most N rows of a class.",
            is_count,
        ),
    ] = None,
    max_advantage: Annotated[
        float | None, option("A", "Limit on how far any attacker may beat guessing.", is_share)
    ] = None,
    beyond_answer: Annotated[
        bool,
        flag(
            "--beyond-answer",
            "--max-advantage limits what an attacker gains who knows the public fact.",
        ),
    ] = False,
    epsilon: Annotated[
        float | None, option("E", "Limit on the shift of any log-probability.", is_positive)
    ] = None,
    confidence: Annotated[
        float, option("P", "Of each bound, and of all limits.", is_confidence)
    ] = 0.95,
    releases: Annotated[int, option("N", "How many reports to add up.", is_count)] = 1,
    independent_releases: Annotated[
        bool,
        flag(
            "--independent-releases",
            "Declare that readings of different reports are independent given the private fact.",
        ),
    ] = False,
    rounds: Annotated[
        int | None,
        option("N", "Certify what N rounds tell of the fact of any one of them.", is_count),
    ] = None,
    time_column: Annotated[
        str | None, option("COLUMN", "Time of every row, to learn how long a private fact lasts.")
    ] = None,
    stay: Annotated[
        float | None,
        option(
            "P", "Declare how likely a private fact is the same in the next round.", is_probability
        ),
    ] = None,
    as_json: Json = False,
    html: Annotated[Path | None, option("FILE", "Write a report to read, sign and print.")] = None,
    frontier: Annotated[
        Path | None, option("FILE", "What `discreet frontier` wrote, for the report.")
    ] = None,
    seed: Annotated[int, option("N", "Seed of the symbols drawn and of splits.", is_seed)] = 0,
    memory: Annotated[
        str | None,
        option(
            "SIZE",
            "Memory to audit within, such as 700M or 8G; of more rows than fit, some are drawn. "
            "[default: 4G]",
        ),
    ] = None,
    quiet: Quiet = False,
) -> int:
    """Measure what a mapping still leaks, with bounds that hold for any attacker.

    Of the table that was learned from, only the held-out rows are used. Exit code 3 if
    a stated limit is not met; a limit is met only if it is certified. Whether the answers
    are useful is in the verdict and does not change the exit code.

    Example:

        discreet audit home.json home.csv --max-advantage 0.1 --html report.html
    """
    if frontier is not None and html is None:
        raise InputError("--frontier is for the report. Give --html as well.")
    with interruptible("stopped. Nothing was written."):
        import numpy as np

        from discreet.auditing.data import AuditOptions

        options = AuditOptions(
            max_advantage=max_advantage,
            beyond_answer=beyond_answer,
            epsilon=epsilon,
            confidence=confidence,
            releases=releases,
            independent_releases=independent_releases,
            rounds=rounds,
            stay=None if stay is None else np.array([stay]),
            cap=cap,
            seed=seed,
        )
        task = AuditTask(
            mapping, tables, options, public, private, group, assume_independent, html, frontier,
            quiet, time_column, bytes_of("--memory", memory),
        )  # fmt: skip
        found = audit_files(task)
        if as_json:
            print_json(for_json(found, html))
        elif not quiet or not found.ok:  # a limit that is not met is said all the same
            print_verdict(found.verdict, _COLOURS.get(found.verdict.split(":")[0], "33"))
        if not quiet and not as_json:
            print_lines(describe(found) + [f"wrote {html}"] * (html is not None))
        return 0 if found.ok else LIMIT_NOT_MET


def for_json(found: Audit, html: Path | None) -> dict[str, Any]:
    """Return an audit for JSON; if it has a report, no other page passes for it."""
    from discreet.auditing.results import with_report

    return found.to_dict() if html is None else with_report(found.to_dict(), html.read_bytes())


@dataclass(frozen=True)
class AuditTask:
    """What to audit, how, and where the report goes."""

    mapping: Path
    tables: Sequence[Path]
    options: AuditOptions
    public: str | None = None
    private: Sequence[str] | None = None
    group: str | None = None
    assume_independent: bool = False
    html: Path | None = None
    frontier: Path | None = None
    quiet: bool = False
    time_column: str | None = None
    memory: int | None = None


def audit_files(task: AuditTask) -> Audit:
    """Audit a mapping file with a table on disk, and write the report if one is asked for."""
    from discreet.auditing.audit import audit_checked_data
    from discreet.auditing.data import NOT_NOTED, AuditEntry, check_rounds, note_audit, say_before
    from discreet.auditing.table_rows import Sample, audit_data_from_table, open_rows
    from discreet.cli.progress import ProgressReport
    from discreet.data.opening import DEFAULT_MEMORY
    from discreet.data.tables import find_files
    from discreet.mapping.mapping import Mapping

    check_order(task.mapping, task.tables)
    check_rounds(task.options, in_time=task.time_column is not None)
    if task.html is not None:  # before the work, not after it
        for kept in (*find_files(task.tables), task.mapping, task.frontier):
            if kept is not None:
                check_out(task.html, kept, "--html")
    mapping, memory = Mapping.load(task.mapping), task.memory or DEFAULT_MEMORY
    with closing(ProgressReport(plain_console(), quiet=task.quiet)) as report:
        report.show("read", 0.0)
        data = audit_data_from_table(
            mapping,
            open_rows(task.tables, memory),
            public=task.public,
            private=task.private,
            group=task.group,
            assume_independent=task.assume_independent,
            time_column=task.time_column,
            sample=Sample(seed=task.options.seed, memory=memory),
        )
        source = mapping.design.source
        if data.held_out and source is not None:
            entry = AuditEntry.of(mapping, source, task.options.seed)
            before = say_before(entry)
            noted = note_audit(entry)
            data = replace(data, audited_before=before or ("" if noted else NOT_NOTED))
        found = audit_checked_data(data, task.options, report=report)
    if task.html is not None:
        _write_report(task, found)
    return found


def _write_report(task: AuditTask, found: Audit) -> None:
    from discreet.auditing.report.page import render_report  # draws pictures: slow to import

    assert task.html is not None
    svg = _frontier_svg(task, found)
    write_whole(task.html, render_report(found, command=_command(task), frontier_svg=svg))


def _frontier_svg(task: AuditTask, found: Audit) -> str | None:
    if task.frontier is None:
        return None
    from discreet.frontiers.frontier import Frontier, frontier_svg

    worst = max(found.private, key=lambda fact: fact.attacks.best.advantage)
    figures = worst.figures
    reached = worst.attacks.best.advantage if figures is None else figures.advantage
    frontier = Frontier.load(task.frontier)
    public = found.public
    errors = {"balanced": 1.0 - public.balanced.estimate, "likely": public.error}
    error = errors.get(frontier.about.rule)  # an audit knows no costs
    here = None if error is None else (reached, error)
    return frontier_svg(frontier, here=here, limit=task.options.max_advantage)


def _command(task: AuditTask) -> str:
    """Return the command that makes this audit again."""
    options = task.options
    given = [
        ("--public", task.public),
        *(("--private", each) for each in task.private or ()),
        ("--group", task.group),
        ("--assume-independent", task.assume_independent),
        ("--max-advantage", options.max_advantage),
        ("--beyond-answer", options.beyond_answer),
        ("--epsilon", options.epsilon),
        ("--cap", options.cap),
        ("--confidence", options.confidence),
        ("--seed", options.seed),
        ("--releases", options.releases if options.releases > 1 else None),
        ("--independent-releases", options.independent_releases),
        ("--rounds", options.rounds),
        ("--time-column", task.time_column),
        ("--stay", None if options.stay is None else float(options.stay[0])),
        ("--memory", task.memory),
        ("--frontier", task.frontier and task.frontier.name),
        ("--html", task.html and task.html.name),
    ]
    parts = ["discreet", "audit", task.mapping.name, *(path.name for path in task.tables)]
    for name, value in given:
        if value is not None and value is not False:
            text = f"{value:g}" if isinstance(value, float) else str(value)
            parts += [name] if value is True else [name, text]
    return shlex.join(parts)


# --- In words --------------------------------------------------------------------------------


def describe(found: Audit) -> list[str]:
    """Return the account below the verdict, line by line: bounds, attackers, what to know."""
    head = f"mapping {found.mapping_id[:19]} ({found.method}); {found.rows_from}"
    lines = ["", head]
    for check in found.limits:
        limit = f"{check.limit:g}" if check.name == "epsilon" else plain_points(check.limit)
        lines.append(f"limit {check.name} <= {limit}: {check.state}. {check.words}")
        if check.radius is not None:
            lines.append(f"  {check.drift}")
        if check.needed:
            lines.append(f"  {check.needed}")
    for fact in found.private:
        lines += ["", *_describe_fact(fact, found)]
    lines += ["", *_describe_public(found.public), *_attack_table(found.public.attacks)]
    if found.remarks:
        lines += ["", *(f"note: {remark}" for remark in found.remarks)]
    lines += ["", "every bound assumes:"]
    lines += [f"  - {assumption}" for assumption in found.assumptions]
    if found.rounds_assumptions:
        lines += ["a bound over many rounds assumes:"]
        lines += [f"  - {assumption}" for assumption in found.rounds_assumptions]
    return lines


def _describe_public(public: PublicAudit) -> list[str]:
    name, balanced = shown(public.name), public.balanced
    lines = [
        f"public fact {name}: error of the fusion rule {percent(public.error)} "
        f"({percents(public.error_low, public.error_high)}); of guessing "
        f"{percent(public.guessing_error)}; from raw readings about {percent(public.raw_error)}",
        f"  balanced accuracy {_interval(balanced)}; of guessing "
        f"{percent(public.guessing_balanced)}; from raw readings about "
        f"{percent(public.raw_balanced)}",
    ]
    if public.constant:
        lines.append("  not useful: the fusion rule names one class whatever it hears")
    elif not public.useful:
        lines.append("  not useful: the fusion rule is not shown to beat guessing")
    if public.doubt:
        lines.append(f"  intervals hold for independent rows only; here {public.doubt}")
    return lines


def _describe_fact(fact: FactAudit, found: Audit) -> list[str]:
    from discreet.auditing.bounds.certificates import percent as confidence

    rows = ", ".join(f"{name} {count}" for name, count in zip(fact.classes, fact.rows, strict=True))
    lines = [
        f"private fact {shown(fact.name)} ({rows} rows); each bound by itself holds at "
        f"{confidence(found.confidence)}, for all private facts together:"
    ]
    names = [*fact.certificates, found.structural.total]
    names += [fact.beyond_answer.total, *fact.beyond_answer.by_class, fact.beyond_answer.answer]
    if found.releases > 1:
        over = fact.over_time
        names += [over.any_readings, over.any_advantage]
        names += [over.independent, over.independent_advantage]
    if fact.rounds is not None:
        names += [fact.rounds.certificate]
    columns = Column(gap=0), Column("at most", right=True, least=20), Column("on these rows", gap=3)
    estimates = ((each, fact.estimates.get(each.name)) for each in names)
    listed = [
        (each.name, _bound(each), "" if own is None else measured(each.name, own))
        for each, own in estimates
    ]
    lines += table(columns, listed, line_width(), indent=2)
    reasons = (getattr(each.value, "reason", None) for each in names if each.bound is None)
    lines += [f"  not certifiable: {reason}" for reason in dict.fromkeys(reasons)]
    lines += [f"  {_TABLES[1:]}: the tables alone guarantee it, and the rows add nothing"] * any(
        _bound(each).endswith(_TABLES) for each in names
    )
    if fact.telling_groups is not None:
        lines.append(f"  {fact.telling_groups.words}")
    lines.append(f"  epsilon, {fact.plug_in.words()}")
    lines.append(
        f"  real attackers: {_reached(fact.attacks.best)} from the symbols; "
        f"{_reached(fact.attacks.best_on_readings)} from the raw readings"
    )
    lines += _attack_table(fact.attacks)
    if fact.rounds is not None:
        lines += _describe_rounds(fact.rounds)
    lines += [f"  found: {finding}" for finding in fact.findings]
    return lines


def _describe_rounds(found: RoundsAudit) -> list[str]:
    """Say what attackers who watch many rounds reached, beside the bound for as many."""
    if not found.attacks:
        return []
    bounds = {}
    if found.bound is not None:  # none where any attacker is within it, or where it is withheld
        always = 1.0 - 1.0 / found.bound.n_classes
        bounds = {window: at_most(bound) for window, bound in found.by_window if bound < always}
    columns = (
        Column("rounds seen", right=True, least=13, gap=0),
        Column("at most", right=True, least=12),
        Column("reached in points (an estimate, with its standard error)", gap=3),
    )
    rows = []
    for window in dict.fromkeys(each.window for each in found.attacks):
        here = [each for each in found.attacks if each.window == window]
        reached = (f"{each.name} {gain(each.advantage)} ({gain(each.error)})" for each in here)
        rows.append((str(window), bounds.get(window, "none"), ", ".join(reached)))
    return table(columns, rows, line_width(), indent=2)


def _reached(best: BestAttack) -> str:
    if best.lower <= 0:
        return "none was shown to beat guessing"
    return f"shown to have an advantage of at least {at_least(best.lower)} ({best.name})"


def _bound(certificate: Certificate) -> str:
    if certificate.bound is None:
        return "not certifiable"
    # exp(10) is a factor of twenty thousand: true, and no comfort to anybody.
    if "epsilon" in certificate.name and certificate.bound > _MEANINGLESS:
        return f"{up(certificate.bound, 1):.1f} (says little)"
    return bounded(certificate.name, certificate.bound) + _TABLES * certificate.of_tables


def _attack_table(attacks: Attacks) -> list[str]:
    columns = (
        Column("balanced accuracy of", gap=0, least=24),
        Column("symbols", right=True, least=21, gap=1),
        Column("readings", right=True, least=21, gap=1),
    )
    raw = {each.name: _cell(each) for each in attacks.readings}
    rows = [(each.name, _cell(each), raw.get(each.name, "")) for each in attacks.symbols]
    return table(columns, rows, line_width(), indent=2)


def _cell(result: AttackResult) -> str:
    return "skipped" if result.balanced_accuracy is None else _interval(result.balanced_accuracy)


def _interval(interval: Interval) -> str:
    return f"{percent(interval.estimate)} ({percents(interval.low, interval.high)})"
