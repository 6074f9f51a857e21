"""What ``evidence.json`` holds, strictly: for programs, and read back when it is verified.

Its annex has clauses of data-protection law and standards, each with what was measured about it.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from discreet.auditing.audit_file import AuditSummary
from discreet.auditing.report import words
from discreet.auditing.report.words import ATTACKER, NO_ATTACKER
from discreet.data.strict_model import Items, Model
from discreet.errors import InputError, shown
from discreet.network.site.settings import first_problem, read_bytes
from discreet.rounding import gains, percents

Level = Literal["good", "warn", "bad"]
Status = Literal["measured", "by design", "stated", "to fill in", "not measured", "not covered"]
Day = Annotated[date, Field(strict=False)]
Text = Annotated[str, Field(max_length=20_000)]
FILE_NAME = r"^[a-z0-9][a-z0-9.-]{0,63}$"


def as_level(level: str) -> Level:
    """Return a level of health; one that is not known needs attention."""
    known: dict[str, Level] = {"good": "good", "bad": "bad"}
    return known.get(level, "warn")


class Link(Model):
    """Where a line comes from: a file of the pack and a place in it.

    ``place``: a JSON pointer, or the id of an element of a page.
    """

    file: Annotated[str, Field(pattern=FILE_NAME)]
    place: Text = ""


class Line(Model):
    """One clause, what is known about it, and where that was measured.

    ``status``: "measured" has links. "by design" is what the software does, not measured here; its
    links are to what this site has to do with it. "stated" is assumed, or written by the owner of
    the site. The others say why there is no more.
    """

    id: Text
    clause: Text
    title: Text
    status: Status
    words: Text
    links: Items[Link] = ()


class Section(Model):
    """A law or a standard, clause by clause."""

    id: Text
    title: Text
    about: Text
    lines: Items[Line]


class State(Model):
    """What the guarantee is worth on the day of the pack, and until when the pack says so.

    ``audited``: when the running mapping was audited. ``certified``: the same, where that shows
    what was promised and still counts; else None. ``bounds_count``: whether bounds of the audit
    still count, be they within a limit or not.
    """

    level: Level
    headline: Text
    words: Items[Text]
    audited: Day | None
    certified: Day | None
    bounds_count: bool
    expires: Day | None
    valid_until: Day | None
    recheck: Text
    recheck_words: Text
    recheck_rows: int = 0
    recheck_supported: Day | None = None


class Noted(Model):
    """One finding about the site's health."""

    level: Level
    short: Text
    words: Text


class Health(Model):
    """How the site is, as ``discreet fleet`` judges it."""

    level: Level
    findings: Items[Noted]


class Measured(Model):
    """Facts of the site that lines link to."""

    sensors: int
    symbols: int
    interval_seconds: float
    keep_days: float | None
    devices: int
    revoked: int
    budget: float | None
    client_certificates_required: bool | None
    only_owner_reads: bool | None
    dashboard_users: int
    first_certificate_ends: Day | None


class Evidence(Model):
    """The whole: state first, then what was measured, then the annex."""

    format: Literal["discreet-evidence"] = "discreet-evidence"
    version: Literal[1] = 1
    schema_file: Literal["evidence.schema.json"] = "evidence.schema.json"
    made: Text
    program: Text
    site: Text
    mapping_id: Text
    advice: Text
    state: State
    health: Health
    measured: Measured
    sections: Items[Section]


# --- What only a person can state -----------------------------------------------------------

_Text = Annotated[str, Field(max_length=5_000)]


class Statements(Model):
    """Each is text or, where it is left out, a line to fill in."""

    purpose: _Text = ""
    people: _Text = ""
    legal_basis: _Text = ""
    why_limit: _Text = ""
    severity: _Text = ""
    officer_advice: _Text = ""
    views: _Text = ""
    transfers: _Text = ""
    updates: _Text = ""
    notification: _Text = ""


def load_statements(path: Path | None) -> Statements:
    """Return what a file states; nothing if there is none."""
    if path is None:
        return Statements()
    try:
        return Statements.model_validate(tomllib.loads(read_bytes(path, 2**20).decode()))
    except ValidationError as error:
        known = ", ".join(Statements.model_fields)
        raise InputError(
            f"--statements {path}: {first_problem(error)}. Known are {known}; each is text."
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"--statements {path}: is no TOML ({error}). Fix it.") from None


# --- The annex ------------------------------------------------------------------------------

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
    """Return laws and standards, clause by clause: what ``annex.toml`` says, filled in.

    A clause that nothing here speaks to is listed as such. A line is "measured" only if every place
    that it links to is in the pack; else it says that nothing was measured.
    """
    text = (
        files("discreet.network.evidence_pack").joinpath("templates/annex.toml").read_text("utf-8")
    )
    values = _values(known)
    return tuple(
        Section(**each | {"lines": tuple(line for about in each["lines"]
                                         for line in _lines(known, values, about))})
        for each in tomllib.loads(text)["sections"]
    )  # fmt: skip


def _values(known: Known) -> dict[str, Any]:
    """Return what belongs to the site, by the name that it has in ``annex.toml``."""
    site = known.measured
    ends, kept = site.first_certificate_ends, site.keep_days
    return site.model_dump() | {
        "kept": "without an end" if kept is None else f"for {kept:g} days",
        "audited": "no audit is" if known.audit is None else "the audit is",
        "deleted": "never deleted by itself." if kept is None else
        f"deleted after {kept:g} days; discreet forget deletes what one device sent.",
        "readers": _yes_no(site.only_owner_reads, "Only the owner can read the files of the site.",
                           "Others on the machine can read files of the site."),
        "first_end": "" if ends is None else f" The first certificate ends on {ends}.",
    }  # fmt: skip


def _lines(known: Known, values: dict[str, Any], about: dict[str, Any]) -> Iterable[Line]:
    """Return the lines that an entry of ``annex.toml`` stands for."""
    place: dict[str, Any] = {k: about[k] for k in ("id", "clause", "title") if k in about}
    said = about.get("words", "").format(**values)
    if "known" in about:
        return _KNOWN[about["known"]](known, place)
    if "stated" in about:
        given = getattr(known.statements, about["stated"])
        status: Status = "stated" if given else "to fill in"
        words = f"{given} {said}".strip() or "For the reader to fill in."
        return [Line(**place, status=status, words=words)]
    measured = [
        {"file": EVIDENCE, "place": f"/measured/{each}"} for each in about.get("measured", ())
    ]
    links = tuple(Link(**each) for each in (*measured, *about.get("links", ())))
    if not links:
        words = "Not covered by discreet: for the maker of the product."
        return [Line(**place, status="not covered", words=words)]
    return [Line(**place, status=about.get("status", "measured"), words=said, links=links)]


def _transport(known: Known, place: dict[str, Any]) -> Iterator[Line]:
    said = _yes_no(known.measured.client_certificates_required,
                   "The broker asks every client for a certificate of the site, over "
                   "TLS; rights are by topic, and a device can be revoked.",
                   "The broker's configuration does not ask for certificates.")  # fmt: skip
    names = ("client_certificates_required", "revoked")
    links = tuple(Link(file=EVIDENCE, place=f"/measured/{name}") for name in names)
    yield Line(**place, status="measured", words=said, links=links)


def _state(known: Known, place: dict[str, Any]) -> Iterator[Line]:
    state = known.state
    until = "" if state.valid_until is None else f" It counts until {state.valid_until}."
    said = f"{state.headline}. {' '.join(state.words)}{until}"
    links = (Link(file=EVIDENCE, place="/state"),)
    yield Line(**place, status="measured", words=said, links=links)


def _necessity(known: Known, _: object) -> Iterator[Line]:
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


def _risks(known: Known, _: object) -> Iterator[Line]:
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


def _minimal(known: Known, _: object) -> Iterator[Line]:
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


_KNOWN = {
    "necessity": _necessity,
    "risks": _risks,
    "minimal": _minimal,
    "transport": _transport,
    "state": _state,
}
"""Lines that follow from the audit, or that several clauses share, by their name in annex.toml."""


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
