"""An audit as a file has it: what ``discreet audit --json`` prints, as far as others use it.

It may come from anybody, so that every part used is checked; the rest is not looked at.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from discreet.auditing.names import BEYOND, INDEPENDENT_RELEASES
from discreet.data.strict_model import MAX_TEXT
from discreet.mapping.file_format import load_result
from discreet.quoting import say_span

_MOST_BYTES = 64 * 2**20
_REMEDY = "Write it again with `discreet audit --json`."
Share = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, Field(max_length=MAX_TEXT)]
Words = Annotated[str, Field(max_length=10_000)]
Classes = Annotated[tuple[Text, ...], Field(max_length=10_000)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Certificate(_Part):
    name: Text
    certifiable: bool
    value: float | None = None
    confidence: Share | None = None


class _Best(_Part):
    name: Text
    advantage: float
    lower: float


class _Balanced(_Part):
    estimate: Share
    low: Share | None = None
    high: Share | None = None


class _Attacker(_Part):
    balanced_accuracy: _Balanced | None = None


Attackers = Annotated[tuple[_Attacker, ...], Field(max_length=100)]


class _Attacks(_Part):
    best: _Best
    best_on_readings: _Best | None = None
    symbols: Attackers = ()
    readings: Attackers = ()


class _Figures(_Part):
    advantage: float


class _Rounds(_Part):
    rounds: Annotated[int, Field(ge=1)]
    seconds: float | None = None
    beyond_answer: bool = False
    certificate: _Certificate


class _BeyondAnswer(_Part):
    total: _Certificate


class _OverTime(_Part):
    any_advantage: _Certificate
    independent_advantage: _Certificate


class PrivateFact(_Part):
    """One private fact: what no attacker exceeds, and what one has reached."""

    name: Text
    classes: Classes = ()
    certificates: Annotated[tuple[_Certificate, ...], Field(max_length=100)]
    attacks: _Attacks
    figures: _Figures | None = None
    rounds: _Rounds | None = None
    over_time: _OverTime | None = None
    beyond_answer: _BeyondAnswer | None = None

    @property
    def always(self) -> float:
        """What whoever is always right gains over guessing."""
        return 1.0 - 1.0 / (len(self.classes) or 2)

    @property
    def bound(self) -> float | None:
        """The certified bound on any attacker's advantage, or None if there is none."""
        return self._value("advantage")

    @property
    def epsilon(self) -> float | None:
        """The certified epsilon, or None if there is none."""
        return self._value("information epsilon")

    @property
    def reached(self) -> float:
        """What the strongest attacker reached for certain."""
        return self.attacks.best.lower

    @property
    def strongest(self) -> float:
        """The largest gain of a real attacker, on what is sent: an estimate, as the report's."""
        return self._gain(self.attacks.symbols, self.attacks.best)

    @property
    def strongest_on_readings(self) -> float | None:
        """The same on the raw readings, if they were attacked."""
        best = self.attacks.best_on_readings
        return None if best is None else self._gain(self.attacks.readings, best)

    def _gain(self, attackers: tuple[_Attacker, ...], best: _Best) -> float:
        ran = [each.balanced_accuracy for each in attackers if each.balanced_accuracy]
        found = max((each.estimate for each in ran), default=None)
        return max(best.advantage if found is None else found - (1.0 - self.always), 0.0)

    @property
    def estimate(self) -> float:
        """The advantage on the rows themselves, which promises nothing."""
        found = self.attacks.best.advantage if self.figures is None else self.figures.advantage
        return min(max(found, 0.0), 1.0)

    def _value(self, name: str) -> float | None:
        values = [each.value for each in self.certificates if each.name == name]
        return values[0] if values else None


class _Gain(_Part):
    estimate: float
    low: float
    high: float


class _OtherSecret(_Part):
    column: Text
    gain: _Gain
    from_answer: float


class _OtherSecrets(_Part):
    found: Annotated[tuple[_OtherSecret, ...], Field(max_length=100)]
    compared: Annotated[int, Field(ge=0)]
    doubt: Words = ""


class PublicFact(_Part):
    """How often the answer is wrong."""

    name: Text
    classes: Classes = ()
    error: Share
    error_low: Share
    error_high: Share
    balanced: _Balanced | None = None
    raw_balanced: Share | None = None
    useful: bool = True


class _Limit(_Part):
    name: Text
    limit: float
    state: Literal["met", "broken", "not shown"]
    words: Words
    radius: float | None = None


class SensorExample(_Part):
    """What one sensor may read, the row of its table for it, and a symbol drawn from that."""

    sensor: Text
    reading: Words
    row: Annotated[tuple[Share, ...], Field(min_length=1, max_length=10_000)]
    symbol: Annotated[int, Field(ge=0)]


class AuditSummary(_Part):
    """An audit, as far as others than the auditor use it."""

    format: Literal["discreet-audit"] = "discreet-audit"
    mapping_id: Text
    rows: Annotated[int, Field(ge=0)]
    confidence: Share
    releases: Annotated[int, Field(ge=1)] = 1
    date: date
    verdict: Words
    public: PublicFact
    private: Annotated[tuple[PrivateFact, ...], Field(max_length=1_000)]
    limits: Annotated[tuple[_Limit, ...], Field(max_length=1_000)]
    conditions: Annotated[tuple[Words, ...], Field(max_length=100)] = ()
    example: Annotated[tuple[SensorExample, ...], Field(max_length=10)] = ()
    sensors: Annotated[int, Field(ge=0)] = 0
    other_secrets: _OtherSecrets | None = None

    @property
    def radius(self) -> float | None:
        """How far readings may drift, in total variation, while every limit that is met stays."""
        met = [each.radius for each in self.limits if each.state == "met"]
        known = [radius for radius in met if radius is not None]
        return min(known) if known and len(known) == len(met) else None

    @property
    def stated(self) -> _Limit | None:
        """The limit on an advantage that was stated, whatever came of it."""
        return next((each for each in self.limits if each.name != "epsilon"), None)

    @property
    def span(self) -> str:
        """What the promise covers, in a few words."""
        rounds = next((fact.rounds for fact in self.private if fact.rounds), None)
        if rounds is not None:
            return say_span(rounds.rounds, rounds.seconds)
        return "one report" if self.releases == 1 else f"{self.releases:,} reports"

    def promised(self, fact: PrivateFact) -> float | None:
        """Return the bound that the limit is held against, or would be, over the whole span."""
        beyond = self.stated is not None and self.stated.name == BEYOND
        if fact.rounds is not None:
            return fact.rounds.certificate.value if fact.rounds.beyond_answer == beyond else None
        if self.releases > 1:
            apart = INDEPENDENT_RELEASES in self.conditions and not beyond
            over = fact.over_time
            if over is None:
                return None
            return (over.independent_advantage if apart else over.any_advantage).value
        if beyond:
            return None if fact.beyond_answer is None else fact.beyond_answer.total.value
        return fact.bound

    @property
    def limit(self) -> float | None:
        """The limit on the advantage of one report that was stated and met, if there was one."""
        found = [each.limit for each in self.limits if each.name == "advantage"]
        met = all(each.state == "met" for each in self.limits)
        one = self.releases == 1 and all(fact.rounds is None for fact in self.private)
        return found[0] if found and met and one else None


def load_audit(path: Path) -> AuditSummary | None:
    """Return an audit, or None if there is no such file.

    Raises InputError: if the file is not an audit.
    """
    if not path.exists():
        return None
    return load_result(
        AuditSummary, path, command="discreet audit --json", most=_MOST_BYTES, remedy=_REMEDY
    )
