"""The last lines of ``discreet learn``: whether it is useful, whether it is private, what next."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.cli.learn_json import Outcome, is_default
from discreet.cli.learn_text import raw_gain
from discreet.errors import as_argument
from discreet.rounding import percent, points

if TYPE_CHECKING:
    from discreet.data.table_warnings import Doubt
    from discreet.design.expected import Expected
    from discreet.learning_for_rounds import RoundsFigure
    from discreet.mappers.base import PrivacyMapper
    from discreet.task import Task


def verdict(outcome: Outcome, audit: str) -> list[tuple[str, str]]:
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
        f"(raw readings: {raw_gain(expected)})"
    )
    if expected.asked is not None:
        aim = f"{100 * expected.asked:.4g}"
        line += f"; no limit was stated, {aim} is the default" if is_default(mapper) else (
            f"; {aim} were allowed"
        )  # fmt: skip
    if expected.met:
        return f"private enough, as far as the rows show: {line}", "32"
    return f"NOT shown to be private{_doubted(doubt)}: {line}", "31"


def audit_command(task: Task, out: Path, rounds: int | None, stay: float | None) -> str:
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
