"""What an audit found, in one object: figures, certificates, attacks and the verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from discreet.auditing.attackers import AttackResult, BestAttack
from discreet.auditing.certificates import Certificate, OverTime, Structural
from discreet.auditing.contributions import Contribution
from discreet.auditing.plug_in import PlugInEpsilon
from discreet.paper_budgets import Budget

FEW_ROWS = 200
"""Below this many rows no method certifies a useful epsilon, and every account says so."""


@dataclass(frozen=True)
class Figures:
    """Exact quantities of the audited rows' own distribution, p^(z|class): estimates.

    For a distribution that is known these are the truth; here they describe the rows and
    err upwards, the more so the fewer rows there are for each output.
    """

    bayes_error: float
    risk: float
    total_variation: float
    advantage: float
    epsilon: float
    epsilon_beyond: dict[str, float]
    pairwise_epsilon: float
    mutual_information: float
    maximal_leakage: float
    extreme_probability: float
    budgets: tuple[Budget, ...]


@dataclass(frozen=True)
class Attacks:
    """The same attackers on what is sent and on the readings themselves."""

    symbols: tuple[AttackResult, ...]
    readings: tuple[AttackResult, ...]
    best: BestAttack
    best_on_readings: BestAttack


@dataclass(frozen=True)
class FactAudit:
    """What was found out about one private fact.

    Attributes
    ----------
    figures : Figures or None
        None where the outputs are too many to list.
    certificates : tuple of Certificate
        Upper bounds, each with its confidence, assumptions and words.
    findings : tuple of str
        Leaks that were found, named.
    """

    name: str
    classes: tuple[str, ...]
    rows: tuple[int, ...]
    figures: Figures | None
    plug_in: PlugInEpsilon
    certificates: tuple[Certificate, ...]
    over_time: OverTime
    attacks: Attacks
    contributions: tuple[Contribution, ...]
    findings: tuple[str, ...]

    def certificate(self, name: str) -> Certificate:
        """Return the certificate of that name."""
        return next(each for each in self.certificates if each.name == name)


@dataclass(frozen=True)
class PublicAudit:
    """What the fusion centre makes of the symbols.

    Attributes
    ----------
    error, error_low, error_high : float
        Share of wrong answers of the mapping's own fusion rule.
    guessing_error : float
        That of always naming the most frequent class.
    """

    name: str
    classes: tuple[str, ...]
    rows: tuple[int, ...]
    error: float
    error_low: float
    error_high: float
    guessing_error: float
    attacks: Attacks
    contributions: tuple[Contribution, ...]


@dataclass(frozen=True)
class LimitCheck:
    """Whether a stated limit is met, for the private fact that is worst.

    Attributes
    ----------
    state : str
        "met": certified. "broken": a real attacker goes beyond it. "not shown": neither.
    """

    name: str
    limit: float
    fact: str
    upper: float | None
    lower: float | None
    state: str
    words: str

    @property
    def met(self) -> bool:
        return self.state == "met"


@dataclass(frozen=True)
class Audit:
    """The whole audit.

    Attributes
    ----------
    rows_from : str
        Where the rows come from, in words.
    confidence : float
        Of every kind of certificate, over all private facts together, and of all limits.
    structural : Structural
        The bound that needs no rows, C1.
    remarks : tuple of str
        What a reader has to know about the rows: unknown readings, groups, few rows.
    program : str
        What made the audit, with its version; ``to_dict`` has the version of the format besides.
    """

    mapping_id: str
    method: str
    created: str
    rows: int
    rows_from: str
    confidence: float
    seed: int
    releases: int
    outputs: int
    structural: Structural
    public: PublicAudit
    private: tuple[FactAudit, ...]
    limits: tuple[LimitCheck, ...]
    remarks: tuple[str, ...]
    verdict: str
    date: str
    program: str

    @property
    def ok(self) -> bool:
        """Whether every stated limit is met; true if none was stated."""
        return all(check.met for check in self.limits)

    def to_dict(self) -> dict[str, Any]:
        """Return the audit for JSON: no infinity, no NaN; a missing bound has a reason."""
        found: dict[str, Any] = _for_json(self)
        return {"format": "discreet-audit", "version": 1, "ok": self.ok, **found}


def _for_json(value: Any) -> Any:
    if isinstance(value, Certificate):
        return value.as_dict()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, tuple | list):
        return [_for_json(each) for each in value]
    if isinstance(value, dict):
        return {key: _for_json(each) for key, each in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return {name: _for_json(getattr(value, name)) for name in value.__dataclass_fields__}
    return value
