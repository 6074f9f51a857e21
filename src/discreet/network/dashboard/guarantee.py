"""The health of the guarantee: whether a certificate is there, fits what runs, and for how long.

A guarantee belongs to a distribution. That the distribution still holds can only be seen on rows
whose private fact is known: a canary. A certificate therefore has a date and runs out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from discreet.network.dashboard.audits import AuditSummary
from discreet.network.dashboard.levels import BAD, GOOD, WARN, Finding, worst

SOON_DAYS = 14
CANARY_DAYS = 30
CANARY_ROWS = 200


@dataclass(frozen=True)
class FactBound:
    """What is promised about one private fact, and what the canary says of it now."""

    name: str
    bound: float | None
    epsilon: float | None
    reached: float
    canary: float | None


@dataclass(frozen=True)
class Guarantee:
    """What the site promises today.

    Attributes
    ----------
    issued, expires : date or None
    days_left : int or None
        Negative once it has expired.
    certificate, canary : Finding
    facts : tuple of FactBound
    """

    issued: date | None
    expires: date | None
    days_left: int | None
    certificate: Finding
    canary: Finding
    canary_date: date | None
    facts: tuple[FactBound, ...]
    audit: AuditSummary | None

    @property
    def level(self) -> str:
        """The worse of certificate and canary."""
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
        canary_date=canary.date if canary else None,
        facts=_facts(audit, canary if canary and canary.mapping_id == mapping_id else None),
        audit=audit,
    )


def _certificate(
    audit: AuditSummary | None, mapping_id: str, expires: date | None, today: date
) -> Finding:
    if audit is None:
        return Finding(WARN, "No certificate", "This site has no audit.json: nothing is promised.")
    if audit.mapping_id != mapping_id:
        words = "The audit is of another mapping than the one that runs. It says nothing about it."
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
            f"Nobody has looked whether the guarantee still fits. About {CANARY_ROWS} fresh "
            "labelled rows show it."
        )
        return Finding(WARN, "No canary", words)
    if canary.mapping_id != mapping_id:
        return Finding(WARN, "The canary is of another mapping", "Audit the rows again.")
    broken = next((fact for fact in _facts(audit, canary) if _beyond(fact)), None)
    if broken is not None:
        words = (
            f"On {canary.date} a real attacker gained at least {broken.canary:.3f} on "
            f"“{broken.name}”; the certificate says at most {broken.bound:.3f}. The world has "
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


def _beyond(fact: FactBound) -> bool:
    return fact.bound is not None and fact.canary is not None and fact.canary > fact.bound
