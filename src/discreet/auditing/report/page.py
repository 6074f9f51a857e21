"""The report: an audit as one offline page, the verdicts first.

Its readers are a privacy officer, who wants words; an engineer, who wants tables; and a
researcher, who wants assumptions, definitions and seeds, which are folded away. The page loads
nothing, runs nothing and may be read on a phone, on paper and in the dark. Names and values from
the data are hostile until escaped: the template escapes everything but the pictures, which
``pictures`` builds from known parts.

The same audit gives the same bytes.

*The first screen of the report: two verdicts, two scales, what is covered and a place to sign.*
Everything is in points of balanced accuracy: an attacker's from guessing to always right, and the
answer's likewise. What is promised is rounded up and what was reached is rounded down.
"""

from __future__ import annotations

import base64
import hashlib
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from importlib.metadata import version
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from discreet.auditing.audit_file import BEYOND, INDEPENDENT_RELEASES
from discreet.auditing.bounds.certificates import Certificate
from discreet.auditing.recheck import DUE_DAYS
from discreet.auditing.report import words
from discreet.auditing.report.pictures import (
    draw_attacks,
    draw_null,
    draw_rounds,
    draw_sensor,
    sensor_axis,
    tidy,
)
from discreet.auditing.report.words import officer_words
from discreet.auditing.results import FEW_ROWS, Audit, FactAudit, LimitCheck
from discreet.auditing.verdict import limiting_certificate
from discreet.errors import shown
from discreet.mapping.mapping import Mapping
from discreet.plots import embed_svg
from discreet.rounding import percents, say_span

# --- The first screen -----------------------------------------------------------------------

KINDS = ("good", "warn", "bad")
"""States, the worst last."""
_ICONS = {"good": "✓", "warn": "!", "bad": "✗"}
_MOST_SCALES = 4


@dataclass(frozen=True)
class Card:
    """One verdict: ``lead``, the fact's ``name``, ``how`` and ``number`` make a sentence.

    ``yardstick``: what the number is to be held against.
    """

    kind: str
    headline: str
    lead: str
    name: str
    how: str
    number: str
    yardstick: str

    @property
    def icon(self) -> str:
        return _ICONS[self.kind]


@dataclass(frozen=True)
class Key:
    """A line below a scale: which mark of it, and in words what it stands for."""

    mark: str
    words: str


@dataclass(frozen=True)
class Scale:
    """A bar from guessing to always right. Places are in percent of its length, or None."""

    name: str
    what: str
    ends: tuple[str, str]
    keys: tuple[Key, ...]
    bar: float
    sure: bool = True
    limit: float | None = None
    raw: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class FirstScreen:
    """What a reader sees before scrolling; ``kind`` and ``headline`` are of the worse verdict."""

    privacy: Card
    use: Card
    scales: tuple[Scale, ...]
    left_out: int
    span: str
    not_covered: str
    recheck_by: date

    @property
    def kind(self) -> str:
        return max(self.privacy.kind, self.use.kind, key=KINDS.index)

    @property
    def headline(self) -> str:
        both = (self.privacy, self.use)
        said = [each.headline for each in both if each.kind == self.kind]
        return said[0] + "".join(f", {each[0].lower()}{each[1:]}" for each in said[1:])


def first_screen(audit: Audit) -> FirstScreen:
    """Return what the first screen says."""
    several = audit.releases > 1 or any(fact.rounds for fact in audit.private)
    return FirstScreen(
        privacy=_privacy(audit),
        use=_use(audit),
        scales=(*(_leak(audit, fact) for fact in audit.private[:_MOST_SCALES]), _answer(audit)),
        left_out=max(0, len(audit.private) - _MOST_SCALES),
        span=_span(audit),
        not_covered=f"{'more' if several else 'many'} reports, other secrets, when and whether a "
        "sensor reports",
        recheck_by=date.fromisoformat(audit.date) + timedelta(days=DUE_DAYS),
    )


def _span(audit: Audit) -> str:
    rounds = next((fact.rounds for fact in audit.private if fact.rounds), None)
    if rounds is not None:
        return say_span(rounds.rounds, rounds.seconds)
    if audit.releases > 1:
        return f"{words.count(audit.releases)} reports of each sensor together"
    return "one report per sensor"


# --- Verdicts --------------------------------------------------------------------------------


def _privacy(audit: Audit) -> Card:
    states = {check.state for check in audit.limits}
    stated = next((each for each in audit.limits if each.name != "epsilon"), None)
    fact = _worst(audit, stated)
    knows = _knows(stated)
    yardstick = _allowed(audit, fact)
    if "broken" in states and stated is not None and stated.lower is not None:
        return Card("bad", "It leaks", f"A real attacker {knows}beats guessing", fact.name,
                    "by at least", words.at_least(stated.lower, stated.limit),
                    yardstick)  # fmt: skip
    kind, headline = _privacy_state(audit, states)
    bound = _held_against(audit, fact, stated).bound
    if bound is None:
        return Card(kind, headline, f"How far an attacker {knows}may beat guessing", fact.name,
                    "is", "not known", yardstick)  # fmt: skip
    return Card(kind, headline, f"Nobody {knows}beats guessing", fact.name, "by more than",
                words.at_most(bound, _limit(stated)), yardstick)  # fmt: skip


def _privacy_state(audit: Audit, states: set[str]) -> tuple[str, str]:
    if not states:
        return "warn", "No limit was stated"
    if states != {"met"}:
        return "warn", "Not shown to be private"
    return ("warn", "Private on condition") if audit.conditions else ("good", "Private enough")


def _knows(stated: LimitCheck | None) -> str:
    return "who knows the answer " if stated is not None and stated.name == BEYOND else ""


def _limit(stated: LimitCheck | None) -> float:
    return math.inf if stated is None else stated.limit


def _worst(audit: Audit, stated: LimitCheck | None) -> FactAudit:
    """Return the fact that the verdict is about: the one that a limit names, or that leaks most."""

    def bound(fact: FactAudit) -> float:
        found = _held_against(audit, fact, stated).bound
        return math.inf if found is None else found

    named = [fact for fact in audit.private if stated is not None and fact.name == stated.fact]
    return max(named or audit.private, key=bound)


def _held_against(audit: Audit, fact: FactAudit, stated: LimitCheck | None) -> Certificate:
    """Return the bound that a limit on the advantage is held against, or would be."""
    name = "advantage" if stated is None else stated.name
    independent = INDEPENDENT_RELEASES in audit.conditions
    return limiting_certificate(name, fact, audit.releases, independent)


def _allowed(audit: Audit, fact: FactAudit) -> str:
    said = []
    for check in audit.limits:
        if check.name == "epsilon":
            said.append(f"Your limit on ε of {check.limit:g}: {check.state}.")
        else:
            said.insert(0, f"You allowed {words.plain_points(check.limit)}.")
    return " ".join(said) or f"Always right would be {_always(fact)}."


def _always(fact: FactAudit) -> str:
    return f"{100.0 - 100.0 / len(fact.classes):.3g}\N{NO-BREAK SPACE}points"


def _use(audit: Audit) -> Card:
    public = audit.public
    guessing = f"Guessing: {words.percent(public.guessing_balanced)}."
    if public.constant:
        return Card("warn", "Not useful", "", public.name, "gets", "one answer, whatever is sent",
                    guessing)  # fmt: skip
    found = "", public.name, "is answered right in", words.percent(public.balanced.estimate)
    if public.doubt:
        doubt = f"{guessing} How sure this is cannot be said: rows depend on one another."
        return Card("warn", "Not shown to be useful", *found, doubt)
    if not public.useful:
        return Card("warn", "Not shown to be useful", *found, guessing)
    return Card("good", "Useful", *found, guessing)


# --- Scales ----------------------------------------------------------------------------------


def _leak(audit: Audit, fact: FactAudit) -> Scale:
    always = 1.0 - 1.0 / len(fact.classes)
    stated = next((each for each in audit.limits if each.name != "epsilon"), None)
    bound = _held_against(audit, fact, stated).bound
    raw, reached = fact.strongest_on_readings, fact.attacks.best
    one = ", one report" if _span(audit) != "one report per sensor" else ""
    keys = [Key("open", "nothing is certified")]
    if bound is not None:
        keys = [Key("bar", f"certified: at most {words.at_most(bound, _limit(stated))}")]
    if stated is not None:
        keys.append(Key("limit", f"your limit: {words.plain_points(stated.limit)}"))
    if reached.lower > 0:
        keys.append(Key("", f"real attackers{one}: at least {words.at_least(reached.lower)}"))
    on_raw = f"best attacker on raw readings{one}"
    keys.append(Key("raw", f"{on_raw}: about {words.points(raw)}") if raw > 0
                else Key("", f"{on_raw}: no better than guessing"))  # fmt: skip
    return Scale(
        name=fact.name,
        what=f"how far an attacker {_knows(stated)}beats guessing",
        ends=("0 = guessing", f"{_always(fact)} = always right"),
        keys=tuple(keys),
        bar=100.0 if bound is None else _place(bound / always),
        sure=bound is not None,
        limit=None if stated is None else _place(stated.limit / always),
        raw=_place(raw / always) if raw > 0 else None,
    )


def _answer(audit: Audit) -> Scale:
    public = audit.public
    guessing, found = public.guessing_balanced, public.balanced

    def place(share: float) -> float:
        return _place((share - guessing) / (1.0 - guessing))

    raw = words.percent(public.raw_balanced)
    span = "" if public.doubt else f" ({percents(found.low, found.high)})"
    return Scale(
        name=public.name,
        what="how often the answer is right, every class counting the same",
        ends=(f"{words.percent(guessing)} = guessing", "100\N{NO-BREAK SPACE}% = always right"),
        keys=(Key("bar", f"as sent: {words.percent(found.estimate)}{span}"),
              Key("raw", f"best classifier on raw readings: about {raw}")),
        bar=place(found.estimate),
        raw=place(public.raw_balanced),
        interval=None if public.doubt else (place(found.low), place(found.high)),
    )  # fmt: skip


def _place(share: float) -> float:
    return round(100.0 * min(max(share, 0.0), 1.0), 2)


# --- The page -------------------------------------------------------------------------------

_PICTURED = 12  # sensors, of which paper has
_ON_PAPER = 6
_LISTED_SENSORS = 400
_LISTED_LINES = 30
_LISTED_CODES = 40
_LISTED_SYMBOLS = 6
_LONGEST_TEXT = 700
_SILENT = 0.01  # largest difference that any two readings make to a symbol's probability


def render_report(audit: Audit, *, command: str = "", frontier_svg: str | None = None) -> str:
    """Return the whole page. No single reading is shown.

    ``command``: what to type to make this audit again. ``frontier_svg``: the picture of the
    trade-off, with this mapping marked in it.
    """
    style, mapping = _source("report.css"), audit.mapping
    page: str = _environment().get_template("report.html").render(
        audit=audit,
        mapping=mapping,
        command=command,
        style=Markup(style),  # our own file
        # What the security policy calls the one style sheet that may be used.
        style_hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        first=first_screen(audit),
        officer=officer_words(audit),
        few_rows=FEW_ROWS,
        attackers_in_words=words.ATTACKERS,
        frontier=_frontier(frontier_svg),
        frontier_command=_frontier_command(mapping),
        facts=[_fact(audit, fact, k) for k, fact in enumerate(audit.private)],
        public_attacks=words.attack_table(audit.public.attacks, len(audit.public.classes)),
        public_picture=_attack_picture(audit, None, "public"),
        contributions=words.contribution_table(audit, _LISTED_SENSORS),
        sensors=_sensors(audit, mapping),
        on_paper=_ON_PAPER,
        parameters=_parameters(mapping),
        versions=_versions(audit),
        remarks=_cut([
            *(f"the verdict rests on this: {each}" for each in audit.conditions), *audit.remarks
        ]),
    )  # fmt: skip
    return page


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("discreet.auditing.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "confidence": words.confidence,
        "percent": words.percent,
        "percents": lambda found: percents(found.low, found.high),
        "points": words.points,
        "number": words.number,
        "count": words.count,
        "at_most": words.at_most,
        "at_least": words.at_least,
        "sentence": words.sentence,
        "cut": lambda text, limit: tidy(str(text), limit),
        "brief": lambda text: tidy(str(text), _LONGEST_TEXT),
    }
    return environment


def _source(name: str) -> str:
    loader = _environment().loader
    assert loader is not None
    return loader.get_source(_environment(), name)[0]


# --- Sections --------------------------------------------------------------------------------


def _fact(audit: Audit, fact: FactAudit, k: int) -> dict[str, Any]:
    """Return what the page shows of one private fact."""
    return dict(
        fact=fact,
        id=f"fact-{k}",
        bounds=words.bound_table(audit, fact),
        over_time=words.over_time_table(fact) if audit.releases > 1 else None,
        attacks=words.attack_table(fact.attacks, len(fact.classes)),
        picture=_attack_picture(audit, fact, f"attack-{k}"),
        null_picture=Markup(draw_null(fact.plug_in, f"null-{k}")),
        findings=_cut(fact.findings),
        rounds=fact.rounds and Markup(draw_rounds(fact.rounds, f"rounds-{k}")),
    )


def _attack_picture(audit: Audit, fact: FactAudit | None, name: str) -> Markup:
    """Draw the attackers on a private fact, or on the public one."""
    seen = audit.public if fact is None else fact
    upper = None if fact is None else fact.certificate("advantage").bound
    what = tidy(seen.name, 60)
    return Markup(draw_attacks(seen.attacks, len(seen.classes), upper, name, what))


def _frontier_command(mapping: Mapping) -> str:
    private = [part for fact in mapping.private for part in ("--private", fact.name)]
    given = ["--public", mapping.public.name, *private, "--out", "frontier.json"]
    return shlex.join(["discreet", "frontier", "TABLE", *given])


def _frontier(svg: str | None) -> Markup | None:
    title = "The trade-off between error and leak over many mappings."
    return None if svg is None else Markup(embed_svg(svg, name="frontier", title=title))


def _sensors(audit: Audit, mapping: Mapping) -> list[dict[str, Any]]:
    """Draw all sensors, or those that matter most where there are many, most telling first."""
    weight = words.sensor_weights(
        [*(fact.contributions for fact in audit.private), audit.public.contributions]
    )
    ranked = sorted(range(len(mapping.names)), key=lambda t: -weight[mapping.names[t]])
    return [_sensor(mapping, t) for t in ranked[:_PICTURED]]


def _sensor(mapping: Mapping, t: int) -> dict[str, Any]:
    """Return what the page shows of one sensor's table."""
    sensor, table = mapping.sensors[t], mapping.tables[t]
    small = len(table) <= _LISTED_CODES and table.shape[1] <= _LISTED_SYMBOLS
    return dict(
        name=sensor.name,
        id=f"sensor-{t}",
        symbols=sensor.symbols,
        codes=len(table),
        note=_note(mapping, t),
        picture=Markup(draw_sensor(sensor, table, f"sensor-{t}")),
        labels=sensor.encoder.labels() if small else [],
        rows=[[words.probability(p) for p in row] for row in table] if small else None,
    )


def _note(mapping: Mapping, t: int) -> str:
    sensor, table = mapping.sensors[t], mapping.tables[t]
    note = sensor_axis(sensor.encoder, table).note
    if float((table.max(axis=0) - table.min(axis=0)).max()) < _SILENT:
        note += " It says next to nothing: its symbols hardly depend on the reading."
    return note.strip()


def _parameters(mapping: Mapping) -> list[tuple[str, str]]:
    parameters = list(mapping.design.parameters.items())[:_LISTED_LINES]
    return [(name, "not set" if value is None else shown(value, 120)) for name, value in parameters]


def _versions(audit: Audit) -> str:
    others = [f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn")]
    return ", ".join([audit.program, *others])


def _cut(lines: Sequence[str]) -> tuple[str, ...]:
    """Keep a page short: the JSON of the audit has the rest."""
    left = len(lines) - _LISTED_LINES
    more: tuple[Any, ...] = (f"and {left} more, in the JSON of the audit",) if left > 0 else ()
    return (*lines[:_LISTED_LINES], *more)
