"""What ``discreet learn`` prints in words: what will be learned, and the summary at its end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.cli.learn_json import Outcome, is_default, with_limit
from discreet.rounding import gain, percent, percents, plain_points, points, with_error

if TYPE_CHECKING:
    from discreet.design.expected import Expected
    from discreet.learning import Prepared
    from discreet.learning_for_rounds import RoundsFigure
    from discreet.mappers.base import PrivacyMapper
    from discreet.mapping.parts import Fact, PublicChain

_LISTED_SENSORS = 8
_LISTED_CLASSES = 4


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
            f"{raw_gain(expected)}); {unmet}"
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
        f"{_shown_advantage(expected)} (raw readings: {raw_gain(expected)}{asked})"
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


def raw_gain(expected: Expected) -> str:
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
