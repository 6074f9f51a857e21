"""The job behind ``discreet audit``: files in, an account on the terminal, JSON or a page out.

The verdict comes first. What a script may want to read goes to stdout, progress to stderr.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from discreet.auditing.attackers import AttackResult, BestAttack, Interval
from discreet.auditing.audit import AuditOptions, Report, audit_subject
from discreet.auditing.audit_log import NOT_NOTED, AuditEntry, note_audit, say_before
from discreet.auditing.certificates import Certificate, percent
from discreet.auditing.results import Attacks, Audit, FactAudit, PublicAudit
from discreet.auditing.subjects import Subject, subject_from_table
from discreet.batches import can_stream, find_files, open_stream, read_tables
from discreet.console import check_out, plain_print, time_left
from discreet.mapping import Mapping
from discreet.mapping_file import write_file
from discreet.streaming import held_out_rows
from discreet.values import shown

LIMIT_NOT_MET = 3
_QUIET_SECONDS = 2.0  # shorter work needs no bar
_MEANINGLESS = 10.0


@dataclass(frozen=True)
class AuditTask:
    """What to audit, how, and where the account goes."""

    mapping: Path
    table: Path
    public: str | None = None
    private: Sequence[str] | None = None
    group: str | None = None
    assume_independent: bool = False
    options: AuditOptions = field(default_factory=AuditOptions)
    as_json: bool = False
    html: Path | None = None
    frontier: Path | None = None
    quiet: bool = False
    further: Sequence[Path] = ()

    def files(self) -> list[Path]:
        """Return all files with rows, patterns resolved."""
        return find_files([self.table, *self.further])


def run_audit(task: AuditTask) -> int:
    """Audit, print and write; return the exit code."""
    found = audit_files(task)
    if task.as_json:
        plain_print(json.dumps(found.to_dict(), indent=1, ensure_ascii=False))
    elif not task.quiet:
        for line in describe(found):
            plain_print(line)
        if task.html is not None:
            plain_print(f"wrote {task.html}")
    return 0 if found.ok else LIMIT_NOT_MET


def audit_files(task: AuditTask) -> Audit:
    """Audit a mapping file with a table on disk, and write the report if one is asked for."""
    if task.html is not None:  # before the work, not after it
        for kept in (*task.files(), task.mapping, task.frontier):
            if kept is not None:
                check_out(task.html, kept, "--html")
    mapping = Mapping.load(task.mapping)
    subject = _subject(task, mapping)
    source = mapping.design.source
    if subject.held_out and source is not None:
        entry = AuditEntry.of(mapping, source, task.options.seed)
        before = say_before(entry)
        noted = note_audit(entry)
        subject = replace(subject, audited_before=before or ("" if noted else NOT_NOTED))
    with _progress(task.quiet) as report:
        found = audit_subject(subject, task.options, report=report)
    if task.html is not None:
        _write_report(task, found, subject)
    return found


def _subject(task: AuditTask, mapping: Mapping) -> Subject:
    """Return the rows that may vouch; of a streamed table only those are brought into memory."""
    files, source = task.files(), mapping.design.source
    table, of_rows = None, None
    if source is not None and source.read == "stream" and can_stream(files):
        stream = open_stream(files)
        names = [fact.name for fact in (mapping.public, *mapping.private)]
        columns = [task.public or names[0], *(task.private or names[1:])]
        facts = dict(zip(names, columns, strict=False))
        table = held_out_rows(stream, source, mapping.names, facts, task.group)
        of_rows = stream.rows
    if table is None:
        table, of_rows = read_tables(files), None
    return subject_from_table(
        mapping,
        table,
        public=task.public,
        private=task.private,
        group=task.group,
        assume_independent=task.assume_independent,
        of_rows=of_rows,
    )


def _write_report(task: AuditTask, found: Audit, subject: Subject) -> None:
    from discreet.auditing.report import render_report  # draws pictures: slow to import

    assert task.html is not None
    page = render_report(
        found, subject, command=_command(task), frontier_svg=_frontier_svg(task, found)
    )
    write_file(task.html, page)


def _frontier_svg(task: AuditTask, found: Audit) -> str | None:
    if task.frontier is None:
        return None
    from discreet.tradeoff.frontier import Frontier, frontier_svg

    worst = max(found.private, key=lambda fact: fact.attacks.best.advantage)
    figures = worst.figures
    reached = worst.attacks.best.advantage if figures is None else figures.advantage
    return frontier_svg(Frontier.load(task.frontier), here=(reached, found.public.error))


def _command(task: AuditTask) -> str:
    """Return the command that makes this audit again."""
    tables = [path.name for path in (task.table, *task.further)]
    parts = ["discreet", "audit", task.mapping.name, *tables]
    if task.public is not None:
        parts += ["--public", task.public]
    for name in task.private or ():
        parts += ["--private", name]
    if task.group is not None:
        parts += ["--group", task.group]
    if task.assume_independent:
        parts += ["--assume-independent"]
    parts += _options(task.options)
    if task.frontier is not None:
        parts += ["--frontier", task.frontier.name]
    if task.html is not None:
        parts += ["--html", task.html.name]
    return shlex.join(parts)


def _options(options: AuditOptions) -> list[str]:
    parts = []
    if options.max_advantage is not None:
        parts += ["--max-advantage", f"{options.max_advantage:g}"]
    if options.beyond_answer:
        parts += ["--beyond-answer"]
    if options.epsilon is not None:
        parts += ["--epsilon", f"{options.epsilon:g}"]
    if options.cap is not None:
        parts += ["--cap", str(options.cap)]
    parts += ["--confidence", f"{options.confidence:g}", "--seed", str(options.seed)]
    if options.releases > 1:
        parts += ["--releases", str(options.releases)]
    if options.independent_releases:
        parts += ["--independent-releases"]
    return parts


@contextmanager
def _progress(quiet: bool) -> Iterator[Report | None]:
    """Show a bar on stderr for anything longer than a moment."""
    console = Console(stderr=True)
    if quiet or not console.file.isatty():
        yield None
        return
    began = time.monotonic()
    with Bar(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"),
        console=console, transient=True,
    ) as bar:  # fmt: skip
        line = bar.add_task("audit", total=1.0, left="", visible=False)

        def tell(what: str, done: float) -> None:
            spent = time.monotonic() - began
            bar.update(
                line,
                description=what,
                completed=done,
                left=time_left(spent, done),
                visible=spent > _QUIET_SECONDS,
            )

        yield tell


# --- In words --------------------------------------------------------------------------------


def describe(found: Audit) -> list[str]:
    """Return the account, line by line: verdict, bounds, attackers, what to know."""
    lines = [found.verdict, ""]
    lines.append(f"mapping {found.mapping_id[:19]} ({found.method}); {found.rows_from}")
    for check in found.limits:
        lines.append(f"limit {check.name} <= {check.limit:g}: {check.state}. {check.words}")
        if check.radius is not None:
            lines.append(f"  {check.drift}")
        if check.needed:
            lines.append(f"  {check.needed}")
    for fact in found.private:
        lines += ["", *_describe_fact(fact, found)]
    public = found.public
    lines += [
        "",
        *_describe_public(public),
        *_attack_table(public.attacks),
    ]
    if found.remarks:
        lines += ["", *(f"note: {remark}" for remark in found.remarks)]
    lines += ["", "every bound assumes:"]
    lines += [f"  - {assumption}" for assumption in found.assumptions]
    return lines


def _describe_public(public: PublicAudit) -> list[str]:
    name, balanced = shown(public.name), public.balanced
    lines = [
        f"public fact {name}: error of the fusion rule {public.error:.3f} "
        f"({public.error_low:.3f} to {public.error_high:.3f}); of guessing "
        f"{public.guessing_error:.3f}; from raw readings about {public.raw_error:.3f}",
        f"  balanced accuracy {_interval(balanced)}; of guessing {public.guessing_balanced:.3f}; "
        f"from raw readings about {public.raw_balanced:.3f}",
    ]
    if not public.useful:
        why = "names one class whatever it hears" if public.constant else (
            "is not shown to beat guessing"
        )  # fmt: skip
        lines.append(f"  not useful: the fusion rule {why}")
    return lines


def _describe_fact(fact: FactAudit, found: Audit) -> list[str]:
    rows = ", ".join(f"{name} {count}" for name, count in zip(fact.classes, fact.rows, strict=True))
    lines = [
        f"private fact {shown(fact.name)} ({rows} rows); each bound by itself holds at "
        f"{percent(found.confidence)}, for all private facts together:"
    ]
    estimates = {} if fact.figures is None else _estimates(fact)
    names = [*fact.certificates, found.structural.total]
    names += [fact.beyond_answer.total, *fact.beyond_answer.by_class, fact.beyond_answer.answer]
    if found.releases > 1:
        over = fact.over_time
        names += [over.any_readings, over.any_advantage]
        names += [over.independent, over.independent_advantage]
    width = max(len(each.name) for each in names) + 2
    lines.append(f"  {'':{width}}{'at most':>20}   on these rows")
    for each in names:
        estimate = estimates.get(each.name)
        told = "" if estimate is None else f"   {estimate:.3f}"
        lines.append(f"  {each.name:{width}}{_bound(each):>20}{told}")
    reasons = dict.fromkeys(
        getattr(each.value, "reason", None) for each in names if each.bound is None
    )
    lines += [f"  not certifiable: {reason}" for reason in reasons]
    if fact.telling_groups is not None:
        lines.append(f"  {fact.telling_groups.words}")
    lines.append(f"  epsilon, {fact.plug_in.words()}")
    lines.append(
        f"  real attackers: {_reached(fact.attacks.best)} from the symbols; "
        f"{_reached(fact.attacks.best_on_readings)} from the raw readings"
    )
    lines += _attack_table(fact.attacks)
    lines += [f"  found: {finding}" for finding in fact.findings]
    return lines


def _estimates(fact: FactAudit) -> dict[str, float]:
    figures = fact.figures
    assert figures is not None
    found = {
        "advantage": figures.advantage,
        "total variation": figures.total_variation,
        "accuracy": 1.0 - figures.bayes_error,
        "information epsilon": figures.epsilon,
        "pairwise epsilon": figures.pairwise_epsilon,
    }
    for delta, value in figures.epsilon_beyond.items():
        found[f"information epsilon beyond a mass of {delta}"] = value
    beyond = fact.beyond_answer
    inside = zip(beyond.by_class, beyond.estimates, strict=True)
    found |= {each.name: value for each, value in inside if value is not None}
    if None not in beyond.estimates:
        found[beyond.total.name] = max(value for value in beyond.estimates if value is not None)
    return found | {beyond.answer.name: beyond.answer_estimate}


def _reached(best: BestAttack) -> str:
    if best.lower <= 0:
        return "none was shown to beat guessing"
    return f"shown to have an advantage of at least {best.lower:.3f} ({best.name})"


def _bound(certificate: Certificate) -> str:
    if certificate.bound is None:
        return "not certifiable"
    # exp(10) is a factor of twenty thousand: true, and no comfort to anybody.
    empty = "epsilon" in certificate.name and certificate.bound > _MEANINGLESS
    return f"{certificate.bound:.1f} (says little)" if empty else f"{certificate.bound:.3f}"


def _attack_table(attacks: Attacks) -> list[str]:
    lines = [f"  {'balanced accuracy of':24}{'symbols':>22}{'readings':>22}"]
    raw = {each.name: each for each in attacks.readings}
    for each in attacks.symbols:
        beside = _cell(raw[each.name]) if each.name in raw else ""
        lines.append(f"  {each.name:24}{_cell(each):>22}{beside:>22}")
    return lines


def _cell(result: AttackResult) -> str:
    return "skipped" if result.balanced_accuracy is None else _interval(result.balanced_accuracy)


def _interval(interval: Interval) -> str:
    return f"{interval.estimate:.3f} ({interval.low:.3f}-{interval.high:.3f})"
