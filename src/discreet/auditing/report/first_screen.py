"""The first screen of the report: two verdicts, two scales, what is covered and a place to sign.

Everything is in points of balanced accuracy: an attacker's from guessing to always right, and the
answer's likewise. What is promised is rounded up and what was reached is rounded down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, timedelta

from discreet.auditing.bounds.beyond_answer import BEYOND
from discreet.auditing.bounds.certificates import Certificate
from discreet.auditing.bounds.over_time import INDEPENDENT_RELEASES
from discreet.auditing.recheck import DUE_DAYS
from discreet.auditing.report import words
from discreet.auditing.results import Audit, FactAudit, LimitCheck
from discreet.auditing.verdict import limiting_certificate
from discreet.quoting import percents, say_span

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
    knows = "who knows the answer " if stated is not None and stated.name == BEYOND else ""
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
    always = words.plain_points(1.0 - 1.0 / len(fact.classes))
    return " ".join(said) or f"Always right would be {always}."


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
    raw, reached = fact.attacks.best_on_readings, fact.attacks.best
    one = ", one report" if _span(audit) != "one report per sensor" else ""
    keys = [Key("open", "nothing is certified")]
    if bound is not None:
        keys = [Key("bar", f"certified: at most {words.at_most(bound, _limit(stated))}")]
    if stated is not None:
        keys.append(Key("limit", f"your limit: {words.plain_points(stated.limit)}"))
    if reached.lower > 0:
        keys.append(Key("", f"real attackers{one}: at least {words.at_least(reached.lower)}"))
    keys.append(Key("raw", f"raw readings{one}: at least {words.at_least(max(raw.lower, 0.0))}"))
    return Scale(
        name=fact.name,
        what="how far an attacker beats guessing",
        ends=("0 = guessing", f"{words.plain_points(always)} = always right"),
        keys=tuple(keys),
        bar=100.0 if bound is None else _place(bound / always),
        sure=bound is not None,
        limit=None if stated is None else _place(stated.limit / always),
        raw=_place(raw.lower / always),
    )


def _answer(audit: Audit) -> Scale:
    public = audit.public
    guessing, found = public.guessing_balanced, public.balanced

    def place(share: float) -> float:
        return _place((share - guessing) / (1.0 - guessing))

    span = "" if public.doubt else f" ({percents(found.low, found.high)})"
    return Scale(
        name=public.name,
        what="how often the answer is right, every class counting the same",
        ends=(f"{words.percent(guessing)} = guessing", "100\N{NO-BREAK SPACE}% = always right"),
        keys=(Key("bar", f"as sent: {words.percent(found.estimate)}{span}"),
              Key("raw", f"raw readings: about {words.percent(public.raw_balanced)}")),
        bar=place(found.estimate),
        raw=place(public.raw_balanced),
        interval=None if public.doubt else (place(found.low), place(found.high)),
    )  # fmt: skip


def _place(share: float) -> float:
    return round(100.0 * min(max(share, 0.0), 1.0), 2)
