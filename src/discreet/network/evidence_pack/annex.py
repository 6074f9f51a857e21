"""The annex: clauses of data-protection law and standards, each with what was measured about it.

A clause that nothing here speaks to is listed as such. A line is "measured" only if every place
that it links to is in the pack; else it says that nothing was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from discreet.auditing.audit_file import AuditSummary
from discreet.auditing.report import words
from discreet.auditing.report.words import ATTACKER, NO_ATTACKER
from discreet.errors import shown
from discreet.network.evidence_pack.content import Line, Link, Measured, Section, State, Statements
from discreet.rounding import gains, percents

EVIDENCE, AUDIT, MAPPING, REPORT = "evidence.json", "audit.json", "mapping.json", "report.html"
_NO_AUDIT = "Nothing was measured: the pack has no audit that holds this figure."


@dataclass(frozen=True)
class Known:
    """What lines may link to. ``audit``: the whole JSON, of the mapping that runs; else None.

    ``summary``: the same, as everybody judges it.
    """

    audit: dict[str, Any] | None
    summary: AuditSummary | None
    report: bool
    state: State
    measured: Measured
    statements: Statements

    def at(self, pointer: str) -> Any:
        """Return what the audit has at a place, or None."""
        found: Any = self.audit
        for part in pointer.split("/")[1:]:
            try:
                found = found[int(part)] if isinstance(found, list) else found[part]
            except (LookupError, TypeError, ValueError):
                return None
        return found


def annex(known: Known) -> tuple[Section, ...]:
    """Return all sections."""
    return (
        Section(id="gdpr", title="GDPR, Article 35(7): data-protection impact assessment",
                about="Regulation (EU) 2016/679. What an assessment shall contain at least.",
                lines=tuple(_gdpr(known))),
        Section(id="en-18031-2", title="EN 18031-2: radio equipment that processes data",
                about="Mechanisms of the standard, by their abbreviations. It is about equipment; "
                "discreet is software on it and speaks for its own part only.",
                lines=tuple(_en_18031(known))),
        Section(id="cra", title="Cyber Resilience Act, Annex I",
                about="Regulation (EU) 2024/2847, essential requirements, Part I and Part II.",
                lines=tuple(_cra(known))),
    )  # fmt: skip


# --- GDPR ------------------------------------------------------------------------------------


def _gdpr(known: Known) -> Iterator[Line]:
    site, given = known.measured, known.statements
    kept = "without an end" if site.keep_days is None else f"for {site.keep_days:g} days"
    yield _site("gdpr-a-operations", "35(7)(a)", "Processing operations",
                f"{site.sensors} sensors on {site.devices} devices send one of a few symbols each, "
                f"every {site.interval_seconds:g} s, drawn at random by the tables of the mapping. "
                f"Symbols and decisions are kept {kept}.",
                "sensors", "interval_seconds", "keep_days",
                more=(Link(file=MAPPING, place="/sensors"),))  # fmt: skip
    yield _filled("gdpr-a-purpose", "35(7)(a)", "Purpose", given.purpose)
    yield _filled("gdpr-a-people", "35(7)(a)", "Affected people", given.people)
    yield _filled("gdpr-a-basis", "35(7)(a)", "Legal basis, or legitimate interest",
                  given.legal_basis)  # fmt: skip
    yield from _necessity(known)
    yield from _risks(known)
    yield from _measures(known)
    yield _filled("gdpr-advice", "35(2)", "Advice of the data-protection officer",
                  given.officer_advice)  # fmt: skip
    yield _filled("gdpr-views", "35(9)", "Views of the people affected", given.views)
    yield _state("gdpr-review", "35(11)", "Review when the risk changes", known)


def _necessity(known: Known) -> Iterator[Line]:
    right, raw = known.at("/public/balanced/estimate"), known.at("/public/raw_balanced")
    low, high = known.at("/public/balanced/low"), known.at("/public/balanced/high")
    doubt = known.at("/public/doubt")
    span = "" if doubt or None in (low, high) else f" ({percents(low, high)})"
    useful = "" if None in (right, raw, low, high) else (
        f"{shown(known.at('/public/name'))} is answered right in {words.percent(right)}{span}, "
        f"every class counting the same; from raw readings in about {words.percent(raw)}."
        + (" How sure this is cannot be said: rows depend on one another." if doubt else "")
    )  # fmt: skip
    yield _audited(known, "gdpr-b-necessary", "35(7)(b)", "Is the purpose served?", useful,
                   ["/public/balanced", "/public/raw_balanced"], "answers")  # fmt: skip
    for k, fact in enumerate(known.at("/private") or ()):
        raw = None if known.summary is None else known.summary.private[k].strongest_on_readings
        yield _audited(
            known, f"gdpr-b-minimal-{k}", "35(7)(b)", 
            f"Is less sent than read? {shown(fact['name'])}",
            "" if raw is None else f"The best attacker on raw readings gained about "
            f"{words.points(raw)} over guessing{_one_report(known)}; what is sent{_span(known)} "
            f"allows {_bound(known, k)}.{_less_sent(known, k)}",
            [_readings_place(known, k), f"/private/{k}/attacks/best_on_readings/lower",
             _bound_place(known, k)],
            f"fact-{k}",
        )  # fmt: skip
    yield _filled("gdpr-b-limit", "35(7)(b)", "Why this limit", known.statements.why_limit)


def _readings_place(known: Known, k: int) -> str:
    """Return where the attackers on raw readings are; the best of them, if no others were kept."""
    place = f"/private/{k}/attacks"
    return f"{place}/readings" if known.at(f"{place}/readings") else f"{place}/best_on_readings"


def _less_sent(known: Known, k: int) -> str:
    """Say whether more is certain to be had from readings than from what is sent at most."""
    lower = known.at(f"/private/{k}/attacks/best_on_readings/lower")
    bound = known.at(f"{_bound_place(known, k)}/value")
    if None not in (lower, bound) and lower > bound:
        return f" For certain, raw readings allow at least {words.at_least(lower)}."
    return " These rows do not show for certain that less is sent than read."


def _risks(known: Known) -> Iterator[Line]:
    if known.audit is None:
        yield _audited(known, "gdpr-c-risk", "35(7)(c)", "What can be learned", "", ["/private"])
    for k, fact in enumerate(known.at("/private") or ()):
        reached = known.at(f"/private/{k}/attacks/best/lower")
        yield _audited(
            known, f"gdpr-c-{k}", "35(7)(c)", f"What can be learned about {shown(fact['name'])}",
            f"Of {known.summary.span if known.summary else 'one report'}, {_attacker(known)} gains "
            f"{_bound(known, k)}. {_reached(known, reached)}{_limit(known, k)}",
            [_bound_place(known, k), f"/private/{k}/attacks/best/lower"], f"fact-{k}",
        )  # fmt: skip
    yield from _others(known)
    yield _audited(known, "gdpr-c-conditions", "35(7)(c)", "What the bounds rest on",
                   "; ".join(known.at("/conditions") or ())
                   or "Nothing was declared or left unchecked.",
                   ["/conditions"], "bounds")  # fmt: skip
    yield Line(id="gdpr-c-attacker", clause="35(7)(c)", title="Who the attacker is",
               status="stated", words=f"{ATTACKER} {NO_ATTACKER}")  # fmt: skip
    yield _many_reports(known)
    yield _filled("gdpr-c-severity", "35(7)(c)", "What it would mean for people",
                  known.statements.severity)  # fmt: skip


def _many_reports(known: Known) -> Line:
    """Return what is bounded over the whole span of the audit, if that is more than one report."""
    places = []
    if known.summary is not None and known.summary.span != "one report":
        places = [f"{_bound_place(known, k)}/words" for k in range(len(known.summary.private))]
    said = " ".join(str(known.at(place) or "") for place in places).strip()
    if said and not known.state.bounds_count:
        said = "What the audit found is certified no more."
    return _audited(known, "gdpr-c-time", "35(7)(c)", "Many reports", said, places, "bounds",
                    absent="The audit is about one report. Sensors that report all day "
                    "tell more; audit with --rounds to bound a day.")  # fmt: skip


def _others(known: Known) -> Iterator[Line]:
    found = known.at("/other_secrets/found")
    if not found:
        absent = "No undeclared column was measured: the audit is of an earlier version, or its "
        yield _audited(known, "gdpr-c-other", "35(7)(c)", "Other secrets", "", [],
                       absent=f"{absent}columns have too few rows.")  # fmt: skip
        return
    compared, doubt = known.at("/other_secrets/compared"), known.at("/other_secrets/doubt")
    doubted = f" The interval promises nothing, since {doubt}." if doubt else ""
    for k, each in enumerate(found):
        gain = each["gain"]
        yield _audited(
            known, f"gdpr-c-other-{k}", "35(7)(c)",
            f"Not declared: {shown(each['column'])}",
            f"One attacker gained {words.points(gain['estimate'])} over guessing "
            f"({gains(gain['low'], gain['high'])}) on rows that did not "
            f"choose it among {compared} columns; the true answer alone gives "
            f"{words.points(each['from_answer'])}. No bound: other attackers, and secrets that are "
            f"no column, may gain more.{doubted}",
            [f"/other_secrets/found/{k}/gain"], "other-secrets",
        )  # fmt: skip


def _measures(known: Known) -> Iterator[Line]:
    yield _site("gdpr-d-random", "35(7)(d)", "Randomised tables on the device",
                "Each symbol is drawn at random by integer tables that are part of the mapping; "
                + ("no audit is of these tables." if known.audit is None else
                   "the audit is of these tables."), "symbols",
                more=(Link(file=MAPPING, place="/sensors"),))  # fmt: skip
    yield _state("gdpr-d-recheck", "35(7)(d)", "Re-check on labelled rows, and an end date", known)
    kept = known.measured.keep_days
    yield _site("gdpr-d-deletion", "35(7)(d)", "Deletion",
                "What is stored is never deleted by itself." if kept is None else
                f"What is stored is deleted after {kept:g} days; discreet forget deletes what one "
                "device sent.",
                "keep_days")  # fmt: skip
    yield _transport("gdpr-d-transport", "35(7)(d)", "Transport and access", known)
    yield Line(id="gdpr-d-demonstrate", clause="35(7)(d)", title="Demonstrating compliance",
               status="by design", words="Every file of this pack is in a signed manifest; the "
               "line of every figure links to it.",
               links=(Link(file=EVIDENCE, place="/state"),))  # fmt: skip
    yield _filled("gdpr-d-transfers", "35(7)(d)", "Recipients and transfers",
                  known.statements.transfers)  # fmt: skip


# --- EN 18031-2 ------------------------------------------------------------------------------


def _en_18031(known: Known) -> Iterator[Line]:
    site = known.measured
    yield _transport("en-acm", "ACM", "Access control", known)
    yield _does("en-aum", "AUM", "Authentication",
                "Devices and workers authenticate with certificates of the site's own authority. "
                f"The dashboard has {site.dashboard_users} users; passwords are kept as Argon2id "
                "hashes and logins are rate-limited.",
                "client_certificates_required", "dashboard_users")  # fmt: skip
    yield _filled("en-sum", "SUM", "Secure update of firmware and software",
                  known.statements.updates, "Tables for devices are signed with Ed25519; how "
                  "firmware and this software are updated is for the maker to state.")  # fmt: skip
    yield _site("en-ssm", "SSM", "Secure storage",
                _yes_no(site.only_owner_reads, "Only the owner can read the files of the site.",
                        "Others on the machine can read files of the site.")
                + " They are not encrypted at rest.", "only_owner_reads")  # fmt: skip
    yield _transport("en-scm", "SCM", "Secure communication", known)
    yield _does("en-lgm", "LGM", "Logging",
                "Refused, late and repeated messages, alarms and the state of every part are "
                "stored with their time.",
                more=(Link(file=EVIDENCE, place="/health"),))  # fmt: skip
    yield _does("en-dlm", "DLM", "Deletion",
                "discreet forget deletes what one device sent, and --keep all that is old. "
                "Deletion on the device itself is for its maker.", "keep_days")  # fmt: skip
    yield _filled("en-unm", "UNM", "User notification", known.statements.notification,
                  "The dashboard shows a certificate that has ended or was withdrawn; how people "
                  "are notified of changes is for the owner to state.")  # fmt: skip
    ends = site.first_certificate_ends
    yield _does("en-cck", "CCK", "Confidential cryptographic keys",
                "Keys are made on the site, none is a default, and each device has its own."
                + ("" if ends is None else f" The first certificate ends on {ends}."),
                "first_certificate_ends", "only_owner_reads")  # fmt: skip
    yield _outside("en-gec", "GEC", "General equipment capabilities: known vulnerabilities, "
                   "exposed services, interfaces, sensing capabilities")  # fmt: skip
    yield _does("en-cry", "CRY", "Best-practice cryptography",
                "TLS by the broker, Ed25519 for bundles and this pack, a MAC for every message.",
                "client_certificates_required")  # fmt: skip


# --- Cyber Resilience Act --------------------------------------------------------------------


def _cra(known: Known) -> Iterator[Line]:
    yield _outside("cra-a", "Part I (2)(a)", "No known exploitable vulnerabilities")
    yield _transport("cra-b", "Part I (2)(b)", "Secure by default configuration", known)
    yield _filled("cra-c", "Part I (2)(c)", "Security updates", known.statements.updates)
    yield _transport("cra-d", "Part I (2)(d)", "Protection from unauthorised access", known)
    yield _transport("cra-e", "Part I (2)(e)", "Confidentiality of data", known)
    yield _does("cra-f", "Part I (2)(f)", "Integrity of data and programs",
                "Every message has a MAC under the device's own key, tables are signed, and the "
                "database is checked.", more=(Link(file=EVIDENCE, place="/health"),))  # fmt: skip
    yield from _minimal(known)
    yield _does("cra-h", "Part I (2)(h)", "Availability of essential functions",
                "Devices keep messages until they are acknowledged; decisions go on without silent "
                "sensors. How the site is: see its health.",
                more=(Link(file=EVIDENCE, place="/health"),))  # fmt: skip
    yield _outside("cra-i", "Part I (2)(i)", "Impact on other devices and networks")
    yield _outside("cra-j", "Part I (2)(j)", "Attack surface of the product as a whole")
    yield _does("cra-k", "Part I (2)(k)", "Limited impact of an incident",
                "Readings do not leave the device. Whoever takes the fusion centre has symbols; "
                "what these tell, and whether it is bounded, is in Article 35(7)(c) above.",
                more=(Link(file=MAPPING, place="/sensors"),))  # fmt: skip
    yield _does("cra-l", "Part I (2)(l)", "Recording and monitoring",
                "Refusals, alarms, clones and silence are recorded.",
                more=(Link(file=EVIDENCE, place="/health"),))  # fmt: skip
    yield _does("cra-m", "Part I (2)(m)", "Removal of data",
                "discreet forget, discreet revoke and --keep remove data of the site for good; "
                "backups are for their owner.", "keep_days", "revoked")  # fmt: skip
    yield _outside("cra-part-2", "Part II", "Handling of vulnerabilities, SBOM, disclosure")


def _minimal(known: Known) -> Iterator[Line]:
    """Yield what is said of data that are limited to what is necessary."""
    clause, title = "Part I (2)(g)", "Limited to what is necessary"
    facts = known.at("/private") or ()
    if not facts:
        yield _audited(known, "cra-g", clause, title, "", ["/private"])
    for k, fact in enumerate(facts):
        yield _audited(known, f"cra-g-{k}", clause, f"{title}: {shown(fact['name'])}",
                       f"Symbols that serve the answer let {_attacker(known)} gain"
                       f"{_span(known)} {_bound(known, k)}.",
                       [_bound_place(known, k)], f"fact-{k}")  # fmt: skip


# --- Lines -----------------------------------------------------------------------------------


def _filled(id: str, clause: str, title: str, given: str, besides: str = "") -> Line:
    if given:
        both = f"{given} {besides}".strip()
        return Line(id=id, clause=clause, title=title, status="stated", words=both)
    return Line(id=id, clause=clause, title=title, status="to fill in",
                words=besides or "For the reader to fill in.")  # fmt: skip


def _outside(id: str, clause: str, title: str) -> Line:
    return Line(id=id, clause=clause, title=title, status="not covered",
                words="Not covered by discreet: for the maker of the product.")  # fmt: skip


def _site(
    id: str, clause: str, title: str, said: str, *names: str, more: tuple[Link, ...] = ()
) -> Line:
    links = (*(Link(file=EVIDENCE, place=f"/measured/{name}") for name in names), *more)
    return Line(id=id, clause=clause, title=title, status="measured", words=said, links=links)


def _does(
    id: str, clause: str, title: str, said: str, *names: str, more: tuple[Link, ...] = ()
) -> Line:
    """Return what the software does anywhere, with links to what this site has to do with it."""
    line = _site(id, clause, title, said, *names, more=more)
    return line.model_copy(update={"status": "by design"})


def _transport(id: str, clause: str, title: str, known: Known) -> Line:
    required = known.measured.client_certificates_required
    said = _yes_no(required, "The broker asks every client for a certificate of the site, over "
                   "TLS; rights are by topic, and a device can be revoked.",
                   "The broker's configuration does not ask for certificates.")  # fmt: skip
    return _site(id, clause, title, said, "client_certificates_required", "revoked")


def _state(id: str, clause: str, title: str, known: Known) -> Line:
    state = known.state
    until = "" if state.valid_until is None else f" It counts until {state.valid_until}."
    return Line(id=id, clause=clause, title=title, status="measured",
                words=f"{state.headline}. {' '.join(state.words)}{until}",
                links=(Link(file=EVIDENCE, place="/state"),))  # fmt: skip


def _audited(
    known: Known,
    id: str,
    clause: str,
    title: str,
    said: str,
    places: Sequence[str],
    anchor: str = "",
    absent: str = _NO_AUDIT,
) -> Line:
    """Return a line that rests on the audit, if all of its places are in it."""
    if not said or not places or any(known.at(place) is None for place in places):
        return Line(id=id, clause=clause, title=title, status="not measured", words=absent)
    links = [Link(file=AUDIT, place=place) for place in places]
    if known.report and anchor:
        links.append(Link(file=REPORT, place=anchor))
    return Line(id=id, clause=clause, title=title, status="measured", words=said,
                links=tuple(links))  # fmt: skip


def _bound_place(known: Known, k: int) -> str:
    """Return where the bound is that a limit is held against, or would be."""
    if known.summary is None:
        return f"/private/{k}"
    return f"/private/{k}/{known.summary.held_against(known.summary.private[k])[0]}"


def _bound(known: Known, k: int) -> str:
    """Say what is certified and how surely, unless nothing is any more."""
    found = known.summary
    if found is None or not known.state.bounds_count:
        return "an amount that nothing certifies any more"
    value = found.promised(found.private[k])
    if value is None:
        return "an amount that the rows cannot bound"
    together = ", for all private facts together" if len(found.private) > 1 else ""
    sure = f"{words.confidence(found.confidence)} confidence{together}"
    limit = math.inf if found.stated is None else found.stated.limit
    return f"at most {words.at_most(value, limit)} over guessing, certified at {sure}"


def _attacker(known: Known) -> str:
    knows = known.summary is not None and known.summary.knows_answer
    return "an attacker who knows the answer" if knows else "an attacker"


def _span(known: Known) -> str:
    """Name the reports that a bound is about, if they are several."""
    span = "one report" if known.summary is None else known.summary.span
    return "" if span == "one report" else f" in {span}"


def _one_report(known: Known) -> str:
    """Name what attackers had, if that is less than a bound is about."""
    return " from one report" if _span(known) else ""


def _reached(known: Known, lower: float | None) -> str:
    if lower is None or lower <= 0:
        return f"No real attacker was shown to gain anything{_one_report(known)}. "
    return f"Real attackers gained at least {words.at_least(lower)}{_one_report(known)}. "


def _limit(known: Known, k: int) -> str:
    """Say what became of every limit for a fact; where that is not known, for the worst one."""
    found = known.summary
    if found is None or not found.limits:
        return "No limit was stated."
    fact = found.private[k]
    said = []
    for each in known.at("/limits"):
        state, whose = each["state"], "the worst private fact"
        if len(found.private) == 1 or each.get("fact") == fact.name:
            whose = shown(fact.name)
        elif found.stated is not None and each["name"] == found.stated.name:
            state, whose = found.state_of(fact), shown(fact.name)
        said.append(f"The limit on the {each['name']} is {_amount(each)}: {state} for {whose} at "
                    "the time of the audit.")  # fmt: skip
    return " ".join(said)


def _amount(limit: dict[str, Any]) -> str:
    is_epsilon = limit["name"] == "epsilon"
    return f"{limit['limit']:g}" if is_epsilon else words.plain_points(limit["limit"])


def _yes_no(value: bool | None, yes: str, no: str) -> str:
    return "Not known: the file cannot be read." if value is None else yes if value else no
