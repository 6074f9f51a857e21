"""What ``discreet learn --json`` prints: all that its words say, as figures."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from discreet.design.expected import Expected, Shortfall
    from discreet.learning import Learned, Prepared
    from discreet.learning_for_rounds import RoundsFigure
    from discreet.mappers.base import PrivacyMapper
    from discreet.mapping.parts import PublicChain


class Outcome(NamedTuple):
    """What ``learn`` came to.

    ``figure``: of many rounds. ``warnings``: as they were printed. ``interrupted``: whether it was
    asked to stop.
    """

    learned: Learned
    figure: RoundsFigure | None
    warnings: list[str]
    interrupted: bool

    @property
    def ended(self) -> str:
        """Why what takes long was left out, if it was."""
        return "it was stopped" if self.interrupted else "time was up"


def result(
    outcome: Outcome, out: Path, met: bool | None, following: str, again: Sequence[str]
) -> dict[str, Any]:
    """Return the result for a program; ``following``: the command to run next.

    ``again``: the command that was given, without its limits.
    """
    learned, figure, warned, _ = outcome
    mapper, expected = learned.mapper, learned.mapper.expected_
    doubt = learned.prepared.doubt
    others = [] if doubt is not None else getattr(mapper, "alternatives_", [])
    return {
        "out": str(out),
        "mapping_id": mapper.mapping_.id,
        "useful": mapper.useful_,
        "met": met,
        "not_shown": None if doubt is None else f"{doubt.cause}. {doubt.advice}",
        "stopped": mapper.stopped_,
        "asked": _asked(mapper),
        "expected": None if expected is None else _expected(expected),
        "alternatives": [_alternative(each, again) for each in others],
        "structural_epsilon": _finite(mapper.structural_epsilon_),
        "training": _training(mapper),
        "remembers": _chain(mapper.mapping_.chain),
        "rounds": None if figure is None else figure.as_dict(),
        "rows": _rows(learned.prepared),
        "warnings": warned,
        "next": following,
    }


def with_limit(command: Sequence[str], limit: float | None) -> str:
    """Return a command that names no limit, with one."""
    return shlex.join([*command, "--max-advantage", f"{limit or 0.0:.12g}"])


def is_default(mapper: PrivacyMapper) -> bool:
    """Whether nobody stated a limit, so that the default is aimed at; it is not promised then."""
    return (mapper.max_advantage, mapper.epsilon) == (None, None)


def _finite(value: float | None) -> float | None:
    """Return a number that JSON has."""
    return value if value is not None and math.isfinite(value) else None


def _asked(mapper: PrivacyMapper) -> dict[str, Any]:
    from discreet.design.inputs import epsilon_each

    expected = mapper.expected_
    limit = mapper.max_advantage
    if limit is None and expected is not None:
        limit = expected.asked
    return {
        "max_advantage": limit,
        "epsilon": mapper.epsilon,
        "epsilon_per_sensor": epsilon_each(mapper.mapping_.n_symbols, mapper.epsilon),
        "ldp_epsilon": mapper.ldp_epsilon,
        "default": is_default(mapper),
        "beyond_answer": bool(getattr(mapper, "beyond_answer", False)),
    }


def _expected(expected: Expected) -> dict[str, Any]:
    """Return what the mapping file records, and what else is said of it."""
    return expected.as_dict() | {
        "folds": expected.folds,  # the mapping file holds floats only
        "met": expected.met,
        "of": expected.of,
        "asked": expected.asked,
        "silent": expected.silent,
        "share_of_raw_gain": expected.share_of_raw_gain,
        "raw_roughly": expected.hurried,
        "shortfall": None if expected.shortfall is None else _shortfall(expected.shortfall),
    }


def _shortfall(shortfall: Shortfall) -> dict[str, Any]:
    """Return what every level that was tried lacked."""
    return {
        "advantage_with_errors": _finite(shortfall.advantage),
        "standard_errors": shortfall.to_spare,
        "epsilon": _finite(shortfall.epsilon),
        "share_of_symbols_as_designed": shortfall.kept,
        "words": shortfall.words,
    }


def _alternative(expected: Expected, again: Sequence[str]) -> dict[str, Any]:
    """Return what more leak would buy, and how to ask for it."""
    return {
        "limit": expected.asked,
        "advantage": expected.advantage,
        "advantage_standard_error": expected.advantage_error,
        "model_advantage": expected.model_advantage,
        "public_error": expected.public_error,
        "balanced_accuracy": expected.balanced_accuracy,
        "command": with_limit(again, expected.asked),
    }


def _training(mapper: PrivacyMapper) -> dict[str, Any]:
    """Return what the design kept on the rows that it learned from."""
    return {
        "privacy_ratio": mapper.privacy_ratio_,
        "private_risk": _finite(mapper.private_risk_),
        "floor": _finite(mapper.threshold_),
    }


def _chain(chain: PublicChain | None) -> dict[str, Any] | None:
    if chain is None:
        return None
    stays = [chain.moves[k][k] for k in range(len(chain.moves))]
    return {"seconds": chain.interval, "same": stays, "pairs": chain.steps}


def _rows(prepared: Prepared) -> dict[str, Any]:
    """Return what was learned from."""
    from discreet.data.tables import Stream

    held_out = int(prepared.held_out.sum())
    return {
        "sensors": prepared.sensors,
        "learned_from": prepared.table.rows - held_out,
        "held_out": held_out,
        "group": prepared.task.split.group,
        "streamed": isinstance(prepared.table, Stream),
    }
