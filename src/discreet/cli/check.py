"""``discreet check``: what a table is fit for, before anything is learned."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from discreet.cli.options import (
    Exclude,
    Group,
    Json,
    Sensors,
    argument,
    is_share,
    name_list,
    option,
)
from discreet.cli.terminal import (
    interruptible,
    line_width,
    plain_console,
    print_json,
    print_lines,
)
from discreet.layout import Column, table
from discreet.rounding import percent, plain_points, points

if TYPE_CHECKING:
    from discreet.checking import Checked

REFUSED = 1
_LISTED = 40  # columns
_LISTED_CLASSES = 8


def check(
    tables: Annotated[
        list[Path],
        argument(
            "TABLE...",
            "CSV, TSV, Parquet or Excel file, or - for standard input; several files are one "
            "table.",
        ),
    ],
    public: Annotated[str | None, option("COLUMN", "The public fact. [default: guessed]")] = None,
    private: Annotated[
        list[str] | None,
        option("COLUMN", "A private fact; may be given several times. [default: guessed]"),
    ] = None,
    sensors: Sensors = None,
    exclude: Exclude = None,
    group: Group = None,
    max_advantage: Annotated[
        float, option("A", "Limit that rows are counted for.", is_share)
    ] = 0.05,
    as_json: Json = False,
) -> int:
    """List all problems of a table at once, what it is fit for, and the command to run.

    Nothing is written. Exit code 0 if `discreet learn` would take the table, 1 if it would refuse
    it, 2 if the table cannot be read.

    Example:

        discreet check home.csv --public fall --private who

    Facts and sensors are guessed where none are named:

        discreet check home.csv

    A table that another program writes:

        zcat home.csv.gz | discreet check -
    """
    from discreet.cli.progress import ProgressReport

    with interruptible("stopped."):
        from discreet.checking import check_table
        from discreet.task import Task, make_split

        task = Task(
            table=tables[0],
            further=tables[1:],
            public=public or "",
            private=private or [],
            sensors=None if sensors is None else name_list("--sensors", sensors),
            exclude=name_list("--exclude", exclude),
            split=make_split(0.3, 0, group),
        )
        guess = public is None or not private
        with closing(ProgressReport(plain_console(), quiet=as_json)) as report:
            report.show("read", 0.0)
            found = check_table(task, max_advantage, guess=guess, report=report)
    if as_json:
        print_json(asdict(found))
    else:
        print_lines(describe(found))
    return REFUSED if found.problems else 0


# --- Words -----------------------------------------------------------------------------------


def describe(found: Checked) -> list[str]:
    """Return everything, line by line; the command to run comes last."""
    open_ones = found.problems and not (found.cured or _is_log(found))
    first = "fix this, then " if open_ones else "or leave these out: " if found.cured else ""
    return [
        f"{found.table}: {found.rows} rows, {len(found.roles)} columns{_form(found)}",
        *_columns(found),
        *_facts(found),
        *_order(found),
        *_worth(found),
        *_numbered("problem", found.problems),
        *_numbered("warning", found.warnings),
        f"next: {first}{found.command}",
    ]


def _is_log(found: Checked) -> bool:
    return found.command.startswith("discreet import ")


def _form(found: Checked) -> str:
    if found.form is None:
        return ""
    form, words = found.form, []
    if form.separator != ",":
        words.append(f"separated by {form.separator!r}")
    if form.encoding != "utf-8-sig":
        words.append(f"written in {form.encoding}, not UTF-8")
    if form.decimal == ",":
        words.append("with decimal commas")
    return "".join(f", {each}" for each in words)


def _columns(found: Checked) -> list[str]:
    shown = found.roles[:_LISTED]
    missing = (f"; missing in {each.missing} rows" if each.missing else "" for each in shown)
    rows = [
        (each.column, each.role, each.why + more) for each, more in zip(shown, missing, strict=True)
    ]
    form = Column(gap=0, most=40), Column(least=12), Column()
    lines = table(form, rows, line_width(), indent=2)
    more = len(found.roles) - len(shown)
    return lines + ([f"  ... and {more} more columns"] if more else [])


def _facts(found: Checked) -> list[str]:
    if _is_log(found):
        return []
    if not (found.public and found.private):
        return ["name the facts: --public for what may be known, --private for what may not"]
    lines = ["facts are guessed; name them with --public and --private"] if found.guessed else []
    for name, counts in found.classes.items():
        total = sum(counts.values())
        some = sorted(counts.items(), key=lambda each: -each[1])[:_LISTED_CLASSES]
        listed = ", ".join(f"{label} {count} ({count / total:.1%})" for label, count in some)
        more = ", ..." if len(counts) > len(some) else ""
        role = "public" if name == found.public else "private"
        lines.append(f"{name!r} ({role}): {listed}{more}")
    return lines


def _order(found: Checked) -> list[str]:
    order = [] if found.order is None else [f"order of rows: {found.order}"]
    cure = [] if found.group is None else [f"rows belong together by {found.group!r}"]
    return ["; ".join(order + cure)] if order or cure else []


def _worth(found: Checked) -> list[str]:
    lines = []
    if (raw := found.raw) is not None:
        lines.append(
            f"raw readings answer {found.public!r} with balanced accuracy {percent(raw.public)} "
            f"(guessing has {percent(raw.guessing)}) and tell "
            f"{' and '.join(map(repr, found.private))} "
            f"with an advantage over guessing of {points(raw.private)}; both are estimates"
        )
        if raw.public - raw.guessing < 0.05:
            lines.append(f"these readings hardly answer {found.public!r}: a mapping cannot either")
        if raw.private < 0.05:
            lines.append("these readings hardly tell the private fact, whatever is sent")
    elif found.no_raw is not None:
        lines.append(f"what raw readings are worth cannot be estimated: {found.no_raw}")
    lines += _needed(found)
    if found.seconds is not None:
        lines.append(f"learning takes about {max(found.seconds, 1.0):.0f} s")
    return lines


def _needed(found: Checked) -> list[str]:
    from discreet.auditing.bounds.rows_needed import rounded

    if found.needed is None:
        return []
    unit = "rows" if found.group is None else f"groups by {found.group!r}"
    limit = f"an advantage of at most {plain_points(found.needed.limit)}"
    if found.needed.count is None:
        return [f"no number of {unit} certifies {limit} with so many sensors"]
    return [
        f"about {rounded(found.needed.count)} {unit} certify {limit}, if nothing leaks; an audit "
        f"of this table has {found.held_out}"
    ]


def _numbered(what: str, texts: Any) -> list[str]:
    if not texts:
        return []
    head = f"{len(texts)} {what}{'s'[: len(texts) > 1]}:"
    return [head, *(f"  {number}. {text}" for number, text in enumerate(texts, start=1))]
