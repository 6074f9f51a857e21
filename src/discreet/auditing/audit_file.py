"""An audit as its file has it: what ``discreet audit --json`` prints, read by others, and drawn.

It may come from anybody, so that every part used is checked, also against the others; the rest is
not looked at.

*An audit as one picture: what a report is made of, and what it tells, raw and as sent.* Drawn from
what ``discreet audit --json`` prints, so that any audit can have its own. Matplotlib is imported
on the first call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from discreet.data.columns import written
from discreet.data.strict_model import MAX_TEXT, Items
from discreet.errors import InputError, shown
from discreet.mapping.file_format import load_result
from discreet.mapping.parts import Fact
from discreet.plots import INK, LIMIT, PAPER, matplotlib_settings
from discreet.rounding import at_most, bounded, plain_points, say_span, up

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

BEYOND = "advantage beyond the answer"
INDEPENDENT_RELEASES = (
    "readings of different releases are independent, given the private class (declared)"
)


# --- What is read ---------------------------------------------------------------------------


def _none_or_several(classes: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse a single class, which leaves nothing to guess."""
    if len(classes) == 1:
        raise PydanticCustomError("discreet_classes", "has one class; the least is 2")
    return classes


_MOST_BYTES = 64 * 2**20
_REMEDY = "Write it again with `discreet audit --json`."
_MOST = 10**12  # rows, reports or rounds
Share = Annotated[float, Field(ge=0, le=1)]
Gain = Annotated[float, Field(ge=-1, le=1)]
Bound = Annotated[float, Field(ge=0, le=1e9)]
Many = Annotated[int, Field(ge=0, le=_MOST)]
Seconds = Annotated[float, Field(gt=0, le=1e9)]
Text = Annotated[str, Field(max_length=MAX_TEXT)]
Words = Annotated[str, Field(max_length=10_000)]
Classes = Annotated[Items[Text], Field(max_length=10_000), AfterValidator(_none_or_several)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)


class _Certificate(_Part):
    name: Text
    certifiable: bool
    value: Bound | None = None
    confidence: Share | None = None
    words: Words = ""


class _Best(_Part):
    name: Text
    advantage: Gain
    lower: Gain


class _Balanced(_Part):
    estimate: Share
    low: Share | None = None
    high: Share | None = None


class _Attacker(_Part):
    balanced_accuracy: _Balanced | None = None


Attackers = Annotated[Items[_Attacker], Field(max_length=100)]


class _Attacks(_Part):
    best: _Best
    best_on_readings: _Best | None = None
    symbols: Attackers = ()
    readings: Attackers = ()


class _Figures(_Part):
    advantage: Gain


class _Rounds(_Part):
    rounds: Annotated[int, Field(ge=1, le=_MOST)]
    seconds: Seconds | None = None
    beyond_answer: bool = False
    certificate: _Certificate


class _BeyondAnswer(_Part):
    total: _Certificate
    lower: Gain | None = None


class _OverTime(_Part):
    any_advantage: _Certificate
    independent_advantage: _Certificate
    any_readings: _Certificate | None = None
    independent: _Certificate | None = None


class PrivateFact(_Part):
    """One private fact: what no attacker exceeds, and what one has reached."""

    name: Text
    classes: Classes = ()
    certificates: Annotated[Items[_Certificate], Field(max_length=100)]
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
    estimate: Gain
    low: Gain
    high: Gain


class _OtherSecret(_Part):
    column: Text
    gain: _Gain
    from_answer: Gain


class _OtherSecrets(_Part):
    found: Annotated[Items[_OtherSecret], Field(max_length=100)]
    compared: Many
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
    constant: bool = False
    doubt: Words = ""

    @property
    def right(self) -> float:
        """How often the answer is right, every class counting the same if that is known."""
        return 1.0 - self.error if self.balanced is None else self.balanced.estimate


class _Limit(_Part):
    name: Text
    limit: Bound
    fact: Text = ""
    upper: Bound | None = None
    state: Literal["met", "broken", "not shown"]
    words: Words
    radius: Bound | None = None


class SensorExample(_Part):
    """What one sensor may read, the row of its table for it, and a symbol drawn from that."""

    sensor: Text
    reading: Words
    row: Annotated[Items[Share], Field(min_length=1, max_length=10_000)]
    symbol: Many


class AuditSummary(_Part):
    """An audit, as far as others than the auditor use it."""

    format: Literal["discreet-audit"] = "discreet-audit"
    ok: bool | None = None
    mapping_id: Text
    rows: Annotated[int, Field(ge=1, le=_MOST)]
    confidence: Annotated[float, Field(gt=0, le=1)]
    releases: Annotated[int, Field(ge=1, le=_MOST)] = 1
    date: Annotated[date, Field(strict=False)]  # a text, in JSON
    verdict: Words
    public: PublicFact
    private: Annotated[Items[PrivateFact], Field(min_length=1, max_length=1_000)]
    limits: Annotated[Items[_Limit], Field(max_length=1_000)]
    conditions: Annotated[Items[Words], Field(max_length=100)] = ()
    example: Annotated[Items[SensorExample], Field(max_length=10)] = ()
    sensors: Many = 0
    other_secrets: _OtherSecrets | None = None

    def misfit(self, guarded: Sequence[Fact]) -> str:
        """Return how the private facts differ from those that a mapping guards; "" if they do not.

        An audit of an earlier version names no classes, which is then not compared.
        """
        known = {fact.name: fact.classes for fact in self.private}
        for fact in guarded:
            if fact.name not in known:
                return f"says nothing about the private fact {shown(fact.name)}"
            if known[fact.name] not in ((), tuple(map(written, fact.classes))):
                return f"has other classes of {shown(fact.name)} than the mapping"
        extra = next((name for name in known if name not in {each.name for each in guarded}), None)
        return "" if extra is None else f"is about {shown(extra)}, which the mapping does not guard"

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
        found = self.held_against(fact)[1]
        return None if found is None else found.value

    def held_against(self, fact: PrivateFact) -> tuple[str, _Certificate | None]:
        """Return the same as a certificate, and where it stands in the file of the fact."""
        beyond = self.knows_answer
        if fact.rounds is not None:
            fits = fact.rounds.beyond_answer == beyond
            return "rounds/certificate", fact.rounds.certificate if fits else None
        if self.releases > 1:
            apart = INDEPENDENT_RELEASES in self.conditions and not beyond
            name = "independent_advantage" if apart else "any_advantage"
            return f"over_time/{name}", getattr(fact.over_time, name, None)
        if beyond:
            return "beyond_answer/total", getattr(fact.beyond_answer, "total", None)
        names = [each.name for each in fact.certificates]
        if "advantage" not in names:
            return "certificates", None
        place = names.index("advantage")
        return f"certificates/{place}", fact.certificates[place]

    def epsilon_of(self, fact: PrivateFact) -> float | None:
        """Return the epsilon that a limit on it is held against, over the whole span."""
        if self.releases == 1 and fact.rounds is None:
            return fact.epsilon
        name = "independent" if INDEPENDENT_RELEASES in self.conditions else "any_readings"
        found = getattr(fact.over_time, name, None)
        return None if found is None else found.value

    @property
    def knows_answer(self) -> bool:
        """Whether the limit is on what an attacker gains who knows the answer."""
        return self.stated is not None and self.stated.name == BEYOND

    def state_of(self, fact: PrivateFact) -> str:
        """Return what became of the stated limit on an advantage for one fact: see ``_Limit``."""
        bound, stated = self.promised(fact), self.stated
        if stated is None or (bound is not None and bound <= stated.limit):
            return "met"
        reached: float | None = fact.reached
        if self.knows_answer:
            reached = None if fact.beyond_answer is None else fact.beyond_answer.lower
        return "not shown" if reached is None or reached <= stated.limit else "broken"

    @property
    def limit(self) -> float | None:
        """The limit on the advantage of one report that was stated and met, if there was one."""
        found = [each.limit for each in self.limits if each.name == "advantage"]
        met = all(each.state == "met" for each in self.limits)
        one = self.releases == 1 and all(fact.rounds is None for fact in self.private)
        return found[0] if found and met and one else None


def load_audit(path: Path) -> AuditSummary | None:
    """Return an audit, or None if there is no such file.

    Raises InputError: if the file is not an audit, or contradicts itself.
    """
    if not path.exists():
        return None
    found = load_result(
        AuditSummary, path, command="discreet audit --json", most=_MOST_BYTES, remedy=_REMEDY
    )
    wrong = next(contradictions(found), None)
    if wrong is not None:
        raise InputError(f"{path}: contradicts itself: {wrong}. {_REMEDY}")
    return found


# --- Whether it agrees with itself ----------------------------------------------------------

_TOLERANCE = 1e-9
_WORST = ("broken", "not shown", "met")


def contradictions(found: AuditSummary) -> Iterator[str]:
    """Yield the fields of an audit that do not follow from others, each in a few words.

    What follows is computed again: words and verdict from figures, the states of limits from
    bounds. Whoever makes up all of them alike is not noticed.
    """
    if len({fact.name for fact in found.private}) < len(found.private):
        yield "private: two facts have the same name"
    for k, fact in enumerate(found.private):
        yield from _of_fact(found, fact, f"private/{k}")
    for k, limit in enumerate(found.limits):
        yield from _of_limit(found, limit, f"limits/{k}")
    yield from _of_public(found.public)
    yield from _of_verdict(found)


def _of_fact(audit: AuditSummary, fact: PrivateFact, place: str) -> Iterator[str]:
    where, judged = audit.held_against(fact)
    named = [(f"certificates/{k}", each) for k, each in enumerate(fact.certificates)]
    values = {each.name: each.value for _, each in named}
    if len(values) < len(named):
        yield f"{place}/certificates: two have the same name"
    for at, each in [*named, *([(where, judged)] if judged is not None else ())]:
        if each.certifiable != (each.value is not None):
            yield f"{place}/{at}/certifiable is {str(each.certifiable).lower()}, unlike its value"
        if each.confidence is not None and each.confidence < audit.confidence - _TOLERANCE:
            yield f"{place}/{at}/confidence is below that of the audit"
    gains = [(at, each) for at, each in named if each.name == "advantage"]
    for at, each in dict([*gains, *([(where, judged)] if judged is not None else ())]).items():
        if not _quotes(each, lambda value: f" {at_most(value)}"):
            yield f"{place}/{at}/value is not the one that its words quote"
        if each.value is not None and each.value > fact.always + _TOLERANCE:
            yield f"{place}/{at}/value is beyond what being always right gains"
    for at, each in named:
        said = _quotes(each, lambda epsilon: f"exp({bounded('epsilon', epsilon)})")
        if each.name == "information epsilon" and not said:
            yield f"{place}/{at}/value is not the one that its words quote"
    if fact.bound is not None and fact.reached > fact.bound + _TOLERANCE:
        yield f"{place}/attacks/best/lower is beyond the bound that nobody exceeds"
    pair, gain = values.get("total variation"), values.get("advantage")
    if pair is not None and gain is not None and gain < 0.5 * pair - _TOLERANCE:
        yield f"{place}: the advantage is below half the total variation"


def _quotes(found: _Certificate, write: Callable[[float], str]) -> bool:
    """Whether words have the value, if there is one; a few units in the last place aside."""
    value = found.value
    near = () if value is None else (value, value * (1 - _TOLERANCE))
    return value is None or any(write(each) in found.words for each in near)


def _of_limit(audit: AuditSummary, limit: _Limit, place: str) -> Iterator[str]:
    fact = next((each for each in audit.private if each.name == limit.fact), None)
    if fact is None:
        yield f"{place}/fact is none of the private facts"
        return
    met = limit.upper is not None and limit.upper <= limit.limit
    if met != (limit.state == "met"):
        yield f"{place}/state does not follow from its upper"
    elif not _states(limit.limit, limit.name, limit.words):
        yield f"{place}/words do not quote its limit"
    elif limit.state != "broken" and f" {_say_reports(audit, fact)} is " not in limit.words:
        yield f"{place}/words are not about the reports that the audit is about"
    elif limit.name == "epsilon" and limit.upper != audit.epsilon_of(fact):
        yield f"{place}/upper is not the epsilon of {shown(fact.name)}"
    elif limit.name == "epsilon":
        if limit.upper is not None and bounded("epsilon", limit.upper) not in limit.words:
            yield f"{place}/words do not quote its upper"
    elif limit != audit.stated:
        return
    elif limit.upper != audit.promised(fact):
        yield f"{place}/upper is not the bound on {shown(fact.name)}"
    elif limit.state != min(map(audit.state_of, audit.private), key=_WORST.index):
        yield f"{place}/state does not follow from the bounds"
    elif limit.state == "broken" or limit.upper is None:
        return
    elif at_most(limit.upper, limit.limit) not in limit.words:
        yield f"{place}/words do not quote its upper"


def _states(limit: float, name: str, text: str) -> bool:
    """Whether a sentence names this limit, and not one that only begins with the same digits."""
    said = f"{limit:g}" if name == "epsilon" else plain_points(limit)
    return re.search(rf"limit of {re.escape(said)}(?!\w|\.\d)", text) is not None


def _say_reports(audit: AuditSummary, fact: PrivateFact) -> str:
    """Return the reports that a limit is on, as its words name them."""
    if fact.rounds is not None:
        return f"over {say_span(fact.rounds.rounds, fact.rounds.seconds)}"
    return "in one report" if audit.releases == 1 else f"over {audit.releases} reports"


def _of_public(public: PublicFact) -> Iterator[str]:
    if not public.error_low <= public.error <= public.error_high:
        yield "public/error is outside its interval"
    found = public.balanced
    if found is None or found.low is None or found.high is None:
        return
    if not found.low <= found.estimate <= found.high:
        yield "public/balanced/estimate is outside its interval"
    better = found.low > 1.0 / (len(public.classes) or 2)
    if public.useful != (better and not public.constant and not public.doubt):
        yield "public/useful does not follow from its interval"


def _of_verdict(found: AuditSummary) -> Iterator[str]:
    failed = [each for each in found.limits if each.state != "met"]
    if found.ok is not None and found.ok != (not failed):
        yield "ok does not follow from the limits"
    word, _, rest = found.verdict.partition(":")
    leaks = [each for each in failed if each.state == "broken"]
    wanted = "LEAKS" if leaks else "NOT SHOWN" if failed else "NO LIMIT STATED"
    told = leaks[:1] or failed[:1] or list(found.limits)
    if found.limits and not failed:
        wanted = "WITHIN LIMITS" + (" ON CONDITION" if found.conditions else "")
    if word != wanted or not all(each.words in rest for each in told):
        yield "verdict does not follow from the limits"


# --- One picture of it ----------------------------------------------------------------------

_SENT, _RAW, _TRACK, _MUTED = "#0b6a99", "#a14a00", "#ecf0f3", "#535e69"
_SHADES = ("#cfdfe9", "#0f4461")  # of the first symbol and of the last
_LEFT, _RIGHT, _ROW = 5.0, 6.2, 0.95  # inches
_MOST_SECRETS = 6
_WIDEST = 18  # letters
_LINE = 70  # letters above a bar: a name and what is said of it


def draw_audit(
    found: AuditSummary, title: str = "", names: Mapping[str, str] | None = None
) -> Figure:
    """Return the picture: on the left one report as an example, on the right what it tells.

    The right half has a bar for the answer and one for each private fact, from guessing on.
    Everything is balanced accuracy, in percent. A diamond is the strongest attacker on the raw
    readings, a dot the same on what is sent; the line is what no attacker exceeds, the dashes the
    limit that was stated, whether or not it is kept. ``names``: what to call facts and sensors, by
    their names.
    """
    from matplotlib.figure import Figure

    secrets = found.private[:_MOST_SECRETS]
    height = 1.4 + _ROW * max(1 + len(secrets), 0.7 * len(found.example))
    widths = [_LEFT, _RIGHT] if found.example else [_RIGHT + 1.1]
    with matplotlib_settings("discreet-audit"):
        figure = Figure(figsize=(sum(widths), height), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)  # type: ignore[union-attr, call-arg]
        figure.patch.set_facecolor(PAPER)
        figure.suptitle(title or _title(found), x=0.01, ha="left",
                        fontsize=14, fontweight="bold", color=INK)  # fmt: skip
        halves = figure.subfigures(1, len(widths), width_ratios=widths, squeeze=False)[0]
        _draw_facts(halves[-1], found, names or {})
        if found.example:
            _draw_example(halves[0].subplots(), found, names or {})
        figure.supxlabel(
            f"{found.rows} rows, {100 * found.confidence:g} % confidence, for {found.span}",
            x=0.01, ha="left", fontsize=8, color=_MUTED,
        )  # fmt: skip
    return figure


def _title(found: AuditSummary) -> str:
    """Return what the audit shows, in a line; a claim only where its limits are met."""
    if not (found.public.useful and found.limits and all(e.state == "met" for e in found.limits)):
        return "What the sensors send, and what it tells"
    secrets = " or ".join(_cut(each.name, {}) for each in found.private[:_MOST_SECRETS])
    return f"The sensors tell {_cut(found.public.name, {})}. They hardly tell {secrets}."


def _cut(name: str, names: Mapping[str, str], most: int = _WIDEST) -> str:
    found = names.get(name, name.replace("_", " "))
    return found if len(found) <= most else found[: most - 1] + "…"


# --- What a report is made of ----------------------------------------------------------------


def _draw_example(axes: Axes, found: AuditSummary, names: Mapping[str, str]) -> None:
    """Draw a line for each sensor: its reading, the row it draws from, and what it sends."""
    axes.set(xlim=(0, 100), ylim=(len(found.example) + 0.1, -0.75))
    axes.set_axis_off()
    for x, heading in ((0, "a sensor reads"), (53, "draws from its table"), (94, "sends")):
        axes.text(x, -0.5, heading, fontsize=8.5, color=_MUTED, ha="center" if x > 90 else "left")
    for k, each in enumerate(found.example):
        axes.text(0, k, _cut(each.sensor, names), va="center", fontsize=9, color=INK)
        axes.text(50, k, _brief(each.reading), va="center", ha="right", fontsize=9,
                  fontweight="bold", color=INK)  # fmt: skip
        _draw_row(axes, each, k)
        axes.annotate("", (91, k), (83, k), arrowprops={"arrowstyle": "->", "color": _MUTED})
        box = {"boxstyle": "round,pad=0.45", "facecolor": _shade(each.symbol, each), "linewidth": 0}
        axes.text(95, k, str(each.symbol), ha="center", va="center", fontsize=9.5,
                  fontweight="bold", color=_on(each.symbol, each), bbox=box)  # fmt: skip
    more = found.sensors - len(found.example)
    if more > 0:
        axes.text(0, len(found.example) - 0.25, f"and {more} more", fontsize=8.5, color=_MUTED)


def _brief(reading: str) -> str:
    """Return a reading with few digits."""
    short = re.sub(r"\d+\.\d+", lambda found: f"{float(found[0]):.3g}", reading)
    return _cut(short.replace("<=", "≤"), {}, 13)


def _draw_row(axes: Axes, each: SensorExample, k: int) -> None:
    left, width = 53.0, 28.0
    widest = max(range(len(each.row)), key=each.row.__getitem__)
    for z, share in enumerate(each.row):
        axes.barh([k], [width * share], 0.5, left=left, color=_shade(z, each))
        if z == widest:  # what is only close to certain is not called so
            said = "> 99 %" if 0.995 <= share < 1.0 else f"{100 * share:.0f} %"
            axes.text(left + width * share / 2, k, f"{z}: {said}", ha="center", va="center",
                      fontsize=8, color=_on(z, each))  # fmt: skip
        left += width * share


def _depth(z: int, each: SensorExample) -> float:
    return min(z / max(len(each.row) - 1, 1), 1.0)


def _shade(z: int, each: SensorExample) -> Any:
    from matplotlib.colors import to_rgb

    ends = zip(*map(to_rgb, _SHADES), strict=True)
    return tuple(a + _depth(z, each) * (b - a) for a, b in ends)


def _on(z: int, each: SensorExample) -> str:
    return PAPER if _depth(z, each) > 0.5 else INK


# --- What it tells ---------------------------------------------------------------------------


def _draw_facts(half: SubFigure, found: AuditSummary, names: Mapping[str, str]) -> None:
    secrets = found.private[:_MOST_SECRETS]
    half.patch.set_alpha(0.0)
    axes = half.subplots(1 + len(secrets), 1, squeeze=False)[:, 0]
    _draw_answer(axes[0], found, names)
    for place, fact in zip(axes[1:], secrets, strict=True):
        _draw_secret(place, fact, found, names)
    one = "" if found.span == "one report" else ", one report"
    known = any(found.promised(fact) is not None for fact in secrets)
    certified = "│ nobody beyond, certified" if known else "nothing is certified"
    half.supxlabel(
        f"◇ best attacker on the raw readings{one}   ● the same, on what is sent\n"
        f"{certified}   {_limit_words(found)}   (balanced accuracy)",
        fontsize=8, color=_MUTED if _kept(found) else LIMIT,
    )  # fmt: skip


def _kept(found: AuditSummary) -> bool:
    return all(each.state == "met" for each in found.limits)


def _limit_words(found: AuditSummary) -> str:
    """Say which limit was stated and what came of it."""
    if found.stated is None:
        return "the limit on ε is not drawn" if found.limits else "no limit was stated"
    said = {"met": "kept", "not shown": "NOT SHOWN to be kept", "broken": "BROKEN by an attacker"}
    said["met"] += " on condition" * bool(found.conditions)
    return f"┆ limit {plain_points(found.stated.limit)}, {said[found.stated.state]}"


def _draw_answer(axes: Axes, found: AuditSummary, names: Mapping[str, str]) -> None:
    public = found.public
    sent = 100 * public.right
    name = _cut(public.name, names, 40)
    _begin(axes, name, f"answered right in {sent:.1f} %", len(public.classes) or 2)
    _draw_sent(axes, sent)
    if public.raw_balanced is not None:
        _draw_raw(axes, 100 * public.raw_balanced)


def _draw_secret(
    axes: Axes, fact: PrivateFact, found: AuditSummary, names: Mapping[str, str]
) -> None:
    guessing = 100.0 / (len(fact.classes) or 2)
    reached, bound = guessing + 100 * fact.strongest, found.promised(fact)
    said = f"guessed right in {reached:.1f} %"
    if bound is not None:
        said = _promise(bound, fact, found)
    room = max(_LINE - len(said), 12)
    name = _cut(fact.name, names, min(room, 40))
    _begin(axes, name, said, len(fact.classes) or 2, kept=_kept(found))
    _draw_sent(axes, reached)
    if fact.strongest_on_readings is not None:
        _draw_raw(axes, guessing + 100 * fact.strongest_on_readings)
    if bound is not None:
        axes.plot([guessing + 100 * bound] * 2, [-0.75, 0.75], color=_SENT, linewidth=1.6)
    if found.stated is not None:
        at = guessing + 100 * found.stated.limit
        axes.plot([at] * 2, [-0.75, 0.75], color=LIMIT, linestyle=(0, (3, 2)))


def _promise(bound: float, fact: PrivateFact, found: AuditSummary) -> str:
    """Return what is certified, in a line.

    Of more than two classes the bound is one on pairs as well, so that it is quoted as it is.
    """
    who = "nobody who knows the answer" if found.knows_answer else "nobody"
    if len(fact.classes) > 2:
        return f"{who} beats guessing by more than {at_most(bound)}"
    return f"{who} is right beyond {100 * up(0.5 + bound):.1f} %"


def _begin(axes: Axes, name: str, verdict: str, n_classes: int, *, kept: bool = True) -> None:
    axes.set_title(name, loc="left", fontsize=10, fontweight="bold", color=INK)
    axes.set_title(verdict, loc="right", fontsize=10, fontweight="bold",
                   color=_SENT if kept else LIMIT)  # fmt: skip
    guessing = 100.0 / n_classes
    axes.barh([0], [100.0 - guessing], 0.7, left=guessing, color=_TRACK)
    axes.set(xlim=(guessing - 1.0, 101.0), ylim=(-1.1, 1.1), yticks=[])
    axes.set_xticks([guessing, 100.0], [f"{guessing:.3g} %, guessing", "always right, 100 %"])
    for label, side in zip(axes.get_xticklabels(), ("left", "right"), strict=True):
        label.set_horizontalalignment(side)  # type: ignore[arg-type]
    axes.tick_params(length=0, labelsize=8, labelcolor=_MUTED)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _draw_sent(axes: Axes, at: float) -> None:
    left = axes.get_xlim()[0] + 1.0
    axes.barh([0], [max(at - left, 0.0)], 0.7, left=left, color=_SENT)
    axes.plot([at], [0], "o", **_look(_SENT, _SENT))


def _draw_raw(axes: Axes, at: float) -> None:
    axes.plot([min(at, 100.0)], [0], "D", **_look(PAPER, _RAW))


def _look(face: str, edge: str) -> dict[str, Any]:
    edges = {"markeredgecolor": PAPER if face == edge else edge, "markeredgewidth": 1.6}
    return {"markerfacecolor": face, "markersize": 9, "clip_on": False, **edges}
