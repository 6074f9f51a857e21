"""Whether the guarantee of a site stands on a day, for the evidence: green, amber or red.

Red means that nothing may be relied on: there is no certificate of the mapping that runs, it has
ended or was withdrawn, or nobody has looked for longer than a re-check may be old.
"""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

from discreet.auditing.audit_file import AuditSummary, load_audit
from discreet.auditing.recheck import BROKEN, DUE, DUE_DAYS, Recheck, load_state
from discreet.errors import InputError
from discreet.network.dashboard.guarantee import assess
from discreet.network.evidence_pack.content import State, as_level
from discreet.network.health import BAD
from discreet.network.site.settings import Site, SiteFiles


def state_of(folder: Path, site: Site, mapping_id: str, today: date) -> State:
    """Return the state of a site; files that cannot be read make it red."""
    files, problem = SiteFiles(folder), ""
    audit: AuditSummary | None = None
    recheck: Recheck | None = None
    try:
        audit = load_audit(files.audit)
        recheck = load_state(files.recheck) if files.recheck.exists() else None
    except (InputError, OSError) as error:
        problem = str(error).replace(f"{folder}/", "")  # where the site lies is of no interest
    return judge(audit, recheck, mapping_id, site.expires, today, problem)


def judge(
    audit: AuditSummary | None,
    recheck: Recheck | None,
    mapping_id: str,
    expires: date | None,
    today: date,
    problem: str = "",
) -> State:
    """Return the state that follows from certificate and re-check on a day."""
    found = assess(audit, recheck, mapping_id, expires, today, problem)
    own = audit is not None and audit.mapping_id == mapping_id
    certified = audit.date if audit is not None and own else None
    until = _until(certified, recheck, mapping_id, expires)
    ended = until is not None and today > until
    gone = certified is None or found.standing.state == BROKEN or ended or bool(problem)
    level = BAD if gone or found.certificate.level == BAD else found.level
    headline = found.certificate.short
    if ended and found.certificate.level != BAD:
        headline = "The re-check has expired"
    words = [found.certificate.words, found.recheck.words, problem]
    if ended:
        words.append(f"What is certified counted until {until}.")
    return State(
        level=as_level(level),
        headline=headline,
        words=tuple(dict.fromkeys(each for each in words if each)),
        certified=certified,
        expires=expires,
        valid_until=None if gone and not ended else until,
        recheck=DUE if ended and found.standing.state != BROKEN else found.standing.state,
        recheck_words=found.standing.words,
        recheck_rows=recheck.rows if recheck is not None else 0,
        recheck_supported=recheck.supported if recheck is not None else None,
    )


def _until(
    certified: date | None, recheck: Recheck | None, mapping_id: str, expires: date | None
) -> date | None:
    """Return the last day that counts: of the certificate, and of what was last looked at."""
    if certified is None:
        return None
    looked = certified
    if recheck is not None and recheck.mapping_id == mapping_id and recheck.supported is not None:
        looked = max(looked, recheck.supported)
    due = looked + timedelta(days=DUE_DAYS)
    return due if expires is None else min(due, expires)
