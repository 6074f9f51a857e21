"""The health of the guarantee: whether a certificate is there, fits what runs, and for how long.

A guarantee belongs to a distribution. That the distribution still holds can only be seen on rows
whose private fact is known: a canary. A certificate therefore has a date and runs out.

``audit.json`` and ``canary.json`` of a site are what ``discreet audit --json`` prints. They may
come from anybody, so that every part used is checked; the rest is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from discreet.data.strict_model import MAX_TEXT
from discreet.network.site.files import read_model

GOOD, WARN, BAD = "good", "warn", "bad"
_ORDER = (GOOD, WARN, BAD)


@dataclass(frozen=True)
class Finding:
    """A state as a label and as a sentence, and the view that shows more."""

    level: str
    short: str
    words: str
    view: str = "guarantee"


def worst(levels: Iterable[str]) -> str:
    """Return the worst of some levels; good if there are none."""
    return max(levels, key=_ORDER.index, default=GOOD)


# --- Audits as files have them -------------------------------------------------------------


_REMEDY = "Write it again with `discreet audit --json`."
Share = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, Field(max_length=MAX_TEXT)]
Words = Annotated[str, Field(max_length=10_000)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Certificate(_Part):
    name: Text
    certifiable: bool
    value: float | None = None


class _Best(_Part):
    name: Text
    advantage: float
    lower: float


class _Attacks(_Part):
    best: _Best


class _Figures(_Part):
    advantage: float


class PrivateFact(_Part):
    """One private fact: what no attacker exceeds, and what one has reached."""

    name: Text
    certificates: Annotated[tuple[_Certificate, ...], Field(max_length=100)]
    attacks: _Attacks
    figures: _Figures | None = None

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
    def estimate(self) -> float:
        """The advantage on the rows themselves, which promises nothing."""
        found = self.attacks.best.advantage if self.figures is None else self.figures.advantage
        return min(max(found, 0.0), 1.0)

    def _value(self, name: str) -> float | None:
        values = [each.value for each in self.certificates if each.name == name]
        return values[0] if values else None


class _Balanced(_Part):
    estimate: Share


class PublicFact(_Part):
    """How often the answer is wrong."""

    name: Text
    error: Share
    error_low: Share
    error_high: Share
    balanced: _Balanced | None = None
    useful: bool = True


class _Limit(_Part):
    name: Text
    limit: float
    state: Literal["met", "broken", "not shown"]
    words: Words


class AuditSummary(_Part):
    """An audit, as far as the dashboard shows it."""

    format: Literal["discreet-audit"]
    mapping_id: Text
    rows: Annotated[int, Field(ge=0)]
    confidence: Share
    date: date
    verdict: Words
    public: PublicFact
    private: Annotated[tuple[PrivateFact, ...], Field(max_length=1_000)]
    limits: Annotated[tuple[_Limit, ...], Field(max_length=1_000)]
    conditions: Annotated[tuple[Words, ...], Field(max_length=100)] = ()


def load_audit(path: Path) -> AuditSummary | None:
    """Return an audit, or None if there is no such file.

    Raises InputError: if the file is not an audit.
    """
    return read_model(path, AuditSummary, _REMEDY) if path.exists() else None


# --- What they are worth today -------------------------------------------------------------


SOON_DAYS = 14
CANARY_DAYS = 30
CANARY_ROWS = 200


@dataclass(frozen=True)
class FactBound:
    """What is promised about one private fact, and what the canary shows of it now."""

    name: str
    bound: float | None
    epsilon: float | None
    reached: float
    canary: float | None

    @property
    def is_broken(self) -> bool:
        return self.bound is not None and self.canary is not None and self.canary > self.bound


@dataclass(frozen=True)
class Guarantee:
    """What the site promises today.

    ``days_left``: negative once it has expired.
    """

    issued: date | None
    expires: date | None
    days_left: int | None
    certificate: Finding
    canary: Finding
    facts: tuple[FactBound, ...]
    audit: AuditSummary | None

    @property
    def level(self) -> str:
        return worst((self.certificate.level, self.canary.level))


def assess(
    audit: AuditSummary | None,
    canary: AuditSummary | None,
    mapping_id: str,
    expires: date | None,
    today: date,
) -> Guarantee:
    """Return the health of the guarantee on a day."""
    return Guarantee(
        issued=audit.date if audit else None,
        expires=expires,
        days_left=(expires - today).days if expires else None,
        certificate=_certificate(audit, mapping_id, expires, today),
        canary=_canary(audit, canary, mapping_id, today),
        facts=_facts(audit, canary if canary and canary.mapping_id == mapping_id else None),
        audit=audit,
    )


def _certificate(
    audit: AuditSummary | None, mapping_id: str, expires: date | None, today: date
) -> Finding:
    if audit is None:
        return Finding(WARN, "No certificate", "This site has no audit.json: nothing is promised.")
    if audit.mapping_id != mapping_id:
        words = (
            "The audit is of another mapping than the one that runs. It certifies nothing about it."
        )
        return Finding(BAD, "No certificate for this mapping", words)
    if expires is not None and today > expires:
        words = (
            f"It ran out on {expires}. What it promised was for the world of {audit.date}; audit "
            "again on fresh labelled rows."
        )
        return Finding(BAD, "Certificate expired", words)
    if any(each.state == "broken" for each in audit.limits):
        return Finding(BAD, "A limit is broken", audit.verdict)
    if any(each.state != "met" for each in audit.limits):
        return Finding(WARN, "A limit is not shown", audit.verdict)
    if any(fact.bound is None for fact in audit.private):
        words = "For at least one private fact the rows certify no bound on what an attacker gains."
        return Finding(WARN, "Not everything is certified", words)
    if not audit.public.useful:
        words = "The limits hold, but the answers are not shown to be better than guessing."
        return Finding(WARN, "Certified, but not useful", words)
    if audit.conditions:
        words = f"It rests on what was declared or could not be checked: {audit.conditions[0]}."
        return Finding(WARN, "Certified on condition", words)
    if expires is None:
        words = (
            "It has no end. The world changes: give the site a date with `expires` in site.json."
        )
        return Finding(WARN, "Certified, without an end", words)
    if (expires - today).days <= SOON_DAYS:
        return Finding(WARN, "Certificate runs out soon", f"It ends on {expires}. Audit again.")
    return Finding(GOOD, "Certified", f"Issued on {audit.date}, good until {expires}.")


def _canary(
    audit: AuditSummary | None, canary: AuditSummary | None, mapping_id: str, today: date
) -> Finding:
    if canary is None:
        words = (
            f"Nothing has checked whether the guarantee still holds. About {CANARY_ROWS} fresh "
            "labelled rows show it."
        )
        return Finding(WARN, "No canary", words)
    if canary.mapping_id != mapping_id:
        return Finding(WARN, "The canary is of another mapping", "Audit the rows again.")
    broken = next((fact for fact in _facts(audit, canary) if fact.is_broken), None)
    if broken is not None:
        words = (
            f"On {canary.date} a real attacker gained at least {broken.canary:.3f} on "
            f"“{broken.name}”; the certificate allows at most {broken.bound:.3f}. The world has "
            "changed: learn and audit again."
        )
        return Finding(BAD, "The guarantee no longer fits", words)
    age = (today - canary.date).days
    if age > CANARY_DAYS:
        words = f"It is from {canary.date}, {age} days ago. Fresh labelled rows are due."
        return Finding(WARN, "The canary is old", words)
    if canary.rows < CANARY_ROWS:
        words = f"It has {canary.rows} rows; fewer than {CANARY_ROWS} see little."
        return Finding(WARN, "The canary is small", words)
    words = f"{canary.rows} labelled rows of {canary.date} show no more leak than is certified."
    return Finding(GOOD, "The canary is quiet", words)


def _facts(audit: AuditSummary | None, canary: AuditSummary | None) -> tuple[FactBound, ...]:
    seen = {fact.name: fact.reached for fact in canary.private} if canary else {}
    return tuple(
        FactBound(fact.name, fact.bound, fact.epsilon, fact.reached, seen.get(fact.name))
        for fact in (audit.private if audit else ())
    )
