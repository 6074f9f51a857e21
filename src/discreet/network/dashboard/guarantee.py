"""The health of the guarantee: whether a certificate is there, fits what runs, and still stands.

A guarantee belongs to a distribution. That the distribution still holds can only be seen on rows
whose private fact is known: those of the re-check. Its one state overrides whatever else is said of
the certificate and of its days.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path

from discreet.auditing.audit_file import AuditSummary, PrivateFact, load_audit
from discreet.auditing.recheck import (
    BROKEN,
    DUE,
    DUE_DAYS,
    NONE,
    VALID,
    DriftWatch,
    Recheck,
    Standing,
    claims_of,
    counted,
    load_state,
    standing,
)
from discreet.errors import InputError, shown
from discreet.mapping.mapping import Mapping
from discreet.network.fusion.watching import ALARM, LEARNING, QUIET, UNSEEN, describe
from discreet.network.health import BAD, GOOD, WARN, Finding, worst
from discreet.network.site.settings import SiteFiles

SOON_DAYS = 14
_DRIFT = {
    LEARNING: ("", "Days are being learned"),
    QUIET: (GOOD, "Days are alike"),
    ALARM: (WARN, "Symbols have changed"),
}


@dataclass(frozen=True)
class FactBound:
    """What is promised about one private fact; nothing once the certificate is withdrawn.

    ``bound``: over the whole span of the audit. ``raw``: what the best attacker gains from the raw
    readings of one report, an estimate; None if it is not known, or nothing. ``within``: whether
    the limit, if any, is kept for this fact.
    """

    name: str
    bound: float | None
    epsilon: float | None
    reached: float
    always: float = 0.5
    raw: float | None = None
    within: bool = True

    @property
    def share(self) -> float:
        """The bound in percent of what being always right gains; all of it if there is none."""
        return 100.0 if self.bound is None else self.share_of(self.bound)

    def share_of(self, advantage: float) -> float:
        """Return an advantage in percent of what being always right gains."""
        return round(100.0 * min(max(advantage / self.always, 0.0), 1.0), 2)


@dataclass(frozen=True)
class Guarantee:
    """What the site promises today.

    ``standing``: the one state, which ``certificate`` and ``recheck`` put into words for people.
    ``looked``: the re-check, if it is one of this certificate. ``days_left``: negative once it has
    expired; None unless the state is valid. ``facts``: nothing once it is over. An audit of another
    mapping, or of some of its private facts, is none: it has no date, no end and no facts.
    """

    issued: date | None
    expires: date | None
    days_left: int | None
    standing: Standing
    certificate: Finding
    recheck: Finding
    facts: tuple[FactBound, ...]
    audit: AuditSummary | None
    looked: Recheck | None = None

    @property
    def kept(self) -> bool:
        """Whether the audit shows every limit to be kept, and bounds every private fact."""
        if self.audit is None or any(each.state != "met" for each in self.audit.limits):
            return False
        bounds = [self.audit.promised(fact) for fact in self.audit.private]
        return bool(bounds) and None not in bounds

    @property
    def findings(self) -> list[Finding]:
        """What is wrong: once, where certificate and re-check are wrong for the same reason."""
        expired = self.days_left is not None and self.days_left < 0
        same = self.issued is None or self.recheck.words == self.certificate.words
        return [self.certificate] if same or expired else [self.certificate, self.recheck]

    @property
    def level(self) -> str:
        return worst((self.certificate.level, self.recheck.level))


def assess(
    audit: AuditSummary | None,
    recheck: Recheck | None,
    mapping: Mapping,
    expires: date | None,
    today: date,
    problem: str = "",
) -> Guarantee:
    """Return the health of the guarantee on a day.

    ``problem``: why audit or re-check cannot be read, if so; it may have ended the guarantee.
    """
    fits = audit and audit.mapping_id == mapping.id and not audit.misfit(mapping.private)
    own = audit if fits and not problem else None
    claims = claims_of(own)[0] if own else []
    found = standing(recheck, mapping.id, own.date if own else None, expires, today, claims)
    certificate = _certificate(audit, mapping, expires, today)
    if problem:
        found = Standing(DUE, problem, over=True)
        certificate = Finding(BAD, "Certificate cannot be checked", problem)
    elif found.state == BROKEN:
        certificate = Finding(BAD, "Certificate withdrawn", found.words)
    elif found.over and certificate.level != BAD:
        lapsed = f"Not re-checked for {DUE_DAYS} days"
        short = "A date is yet to come" if found.until is None else lapsed
        certificate = Finding(BAD, short, found.words)
    elif found.state != VALID and certificate.level == GOOD:
        certificate = Finding(WARN, _OVERRIDES[found.state], found.words)
    expired = own is not None and expires is not None and today > expires
    counts = found.state == VALID or (expired and found.state == DUE)
    level, short = _RECHECK[found.state]
    return Guarantee(
        issued=own.date if own else None,
        expires=expires if own else None,
        days_left=(expires - today).days if expires and counts else None,
        standing=found,
        certificate=certificate,
        recheck=Finding(BAD if found.over else level, short, found.words),
        facts=tuple(_bound_of(own, fact) for fact in own.private) if own and not found.over else (),
        audit=own,
        looked=counted(recheck, mapping.id, own.date, claims) if own else None,
    )


def _not_shown(audit: AuditSummary) -> str:
    """Name the facts of which a limit is not shown, where the verdict names one of several."""
    names = [shown(fact.name) for fact in audit.private if audit.state_of(fact) != "met"]
    if len(names) < 2:
        return ""
    return f" It is not shown for {', '.join(names[:-1])} and {names[-1]}."


def _bound_of(audit: AuditSummary, fact: PrivateFact) -> FactBound:
    raw, within = fact.strongest_on_readings or None, audit.state_of(fact) == "met"
    bound = audit.promised(fact)
    return FactBound(fact.name, bound, fact.epsilon, fact.reached, fact.always, raw, within)


def _certificate(
    audit: AuditSummary | None, mapping: Mapping, expires: date | None, today: date
) -> Finding:
    if audit is None:
        return Finding(WARN, "No certificate", "This site has no audit.json: it was not audited.")
    if audit.mapping_id != mapping.id:
        words = (
            "The audit is of another mapping than the one that runs. It certifies nothing about it."
        )
        return Finding(BAD, "No certificate for this mapping", words)
    if misfit := audit.misfit(mapping.private):
        words = f"The audit {misfit}. Audit all that the mapping guards."
        return Finding(BAD, "Not every private fact is audited", words)
    if expires is not None and today > expires:
        words = (
            f"It ran out on {expires}. What it promised was for the world of {audit.date}; audit "
            "again on fresh labelled rows."
        )
        return Finding(BAD, "Certificate expired", words)
    if any(each.state == "broken" for each in audit.limits):
        return Finding(BAD, "A limit is broken", audit.verdict)
    if any(each.state != "met" for each in audit.limits):
        return Finding(WARN, "A limit is not shown", audit.verdict + _not_shown(audit))
    if any(audit.promised(fact) is None for fact in audit.private):
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


_RECHECK = {
    NONE: (WARN, "Never re-checked"),
    VALID: (GOOD, "The re-check agrees"),
    DUE: (WARN, "A re-check is due"),
    BROKEN: (BAD, "The guarantee no longer holds"),
}


_OVERRIDES = {NONE: "Certified, never re-checked", DUE: "Certified, a re-check is due"}


def guarantee_of(
    folder: Path, expires: date | None, mapping: Mapping, today: date, *, hide: bool = False
) -> Guarantee:
    """Return the guarantee of a site; files that cannot be read make its state due.

    ``hide``: leave out where the site lies.
    """
    files = SiteFiles(folder)
    try:
        audit = load_audit(files.audit)
        recheck = load_state(files.recheck) if files.recheck.exists() else None
    except (InputError, OSError) as error:
        problem = str(error).replace(f"{folder}/", "") if hide else str(error)
        return assess(None, None, mapping, expires, today, problem)
    return assess(audit, recheck, mapping, expires, today)


def assess_drift(watch: DriftWatch | None, recheck: Recheck | None, mapping_id: str) -> Finding:
    """Return what days of symbols show without labels; a later re-check settles an alarm."""
    if watch is None or watch.mapping_id != mapping_id:
        words = f"The fusion centre has seen no whole day. {UNSEEN}"
        return Finding("", "Days not watched yet", words)
    state, words = describe(watch)
    supported = recheck and recheck.supported
    if watch.alarmed and supported and supported > watch.alarmed:
        return Finding(GOOD, "Symbols have changed, and a re-check agreed since", words)
    level, short = _DRIFT[state]
    return Finding(level, short, words)
