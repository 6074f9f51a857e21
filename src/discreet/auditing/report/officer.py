"""What a report says to a privacy officer: purpose, people, attacker, limit, other secrets.

What was measured is stated; what only a person can know is left to fill in. The same names serve
the evidence of a running site.
"""

from __future__ import annotations

from typing import Any

from discreet.auditing.other_secrets import OtherSecret, OtherSecrets
from discreet.auditing.report import words
from discreet.auditing.results import Audit

NO_ADVICE = (
    "This is no legal advice. It states what was measured; whether that is lawful is for a person "
    "to decide."
)
ATTACKER = (
    "Anybody who gets all symbols of the span above and has the mapping file with its tables: "
    "whoever runs the fusion centre, its broker or its database, whoever breaks in there, and "
    "whoever they hand it to. Time, method and knowledge of the world are unlimited."
)
NO_ATTACKER = (
    "Not covered: whoever sees the readings on the sensor itself, watches for longer, or goes by "
    "when and whether a sensor reports."
)
_NAMED = 12


def officer_words(audit: Audit) -> dict[str, Any]:
    """Return what the officer's part of the report says, by where it stands."""
    return {
        "advice": NO_ADVICE,
        "purpose": _purpose(audit),
        "attacker": (ATTACKER, NO_ATTACKER),
        "limits": [_limit(audit, each.limit, each.fact) for each in audit.limits
                   if each.name == "advantage"],
        "no_limit": _no_limit(audit),
        "others": [_other(each) for each in audit.other_secrets.found],
        "caveat": caveat(audit.other_secrets),
        "independence": audit.independence,
    }  # fmt: skip


def _purpose(audit: Audit) -> str:
    classes = ", ".join(audit.public.classes[:_NAMED])
    sensors = len(audit.mapping.names)
    return f"one of {classes}, from {words.count(sensors)} sensor{'' if sensors == 1 else 's'}"


def _no_limit(audit: Audit) -> str:
    """Say which limit there is instead of one on the gain over guessing."""
    stated = [each for each in audit.limits if each.name != "advantage"]
    said = [f"The limit on the {each.name} is {each.limit:g}: {each.state}." for each in stated]
    return " ".join(said) or "No limit was stated."


def _limit(audit: Audit, limit: float, name: str) -> dict[str, str]:
    fact = next(each for each in audit.private if each.name == name)
    base, raw = 1.0 / len(fact.classes), fact.attacks.best_on_readings.lower
    return {
        "fact": name,
        "allowed": words.percent(min(base + limit, 1.0)),
        "guessing": words.percent(base),
        "raw": words.percent(base + max(raw, 0.0)),
    }


def _other(each: OtherSecret) -> dict[str, str]:
    what = "what the sensor reads" if each.sensor else "undeclared column"
    return {
        "column": each.column,
        "what": f"{what}: {' / '.join(each.classes)}",
        "gain": words.gain(each.gain.estimate),
        "range": f"{words.gain(each.gain.low)} to {words.gain(each.gain.high)}",
        "answer": words.gain(each.from_answer),
        "always": words.gain(1.0 - 1.0 / len(each.classes)),
    }


def caveat(found: OtherSecrets) -> str:
    """Say what the figures on other secrets promise, and what they do not."""
    left = f"; {words.count(found.left_out)} more have too few rows of a class"
    doubt = f" The intervals promise nothing, since {found.doubt}." if found.doubt else ""
    return (
        f"Compared were {words.count(found.compared)} columns{left if found.left_out else ''}. The "
        "choice was made on one half of the rows and the figures are from the other, by one "
        "attacker who knows the tables; all intervals hold together at "
        f"{words.confidence(found.confidence)}, for these columns and this attacker. Another "
        "attacker, or a secret that is no column of the table, may gain more: nothing here is a "
        f"bound. What goes with the answer is told by the answer.{doubt}"
    )
