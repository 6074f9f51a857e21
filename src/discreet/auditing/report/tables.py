"""The tables of the report, row by row and ready to print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from discreet.auditing.attackers.scores import AttackResult
from discreet.auditing.bounds.beyond_answer import BEYOND
from discreet.auditing.bounds.certificates import Certificate, NotCertifiable
from discreet.auditing.bounds.intervals import Interval
from discreet.auditing.bounds.pointwise import BEYOND_MASS
from discreet.auditing.findings import Contribution
from discreet.auditing.report.words import CERTIFICATES, OVER_TIME, factor, number, percent, points
from discreet.auditing.results import Attacks, Audit, FactAudit

# --- Bounds ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class BoundRow:
    """One certificate; without a bound, the number of the reason below the table."""

    title: str
    term: str
    bound: str | None
    meaning: str
    reason: int | None
    estimate: str


@dataclass(frozen=True)
class BoundTable:
    """Certificates, and why some of them are none."""

    rows: list[BoundRow]
    reasons: list[str]


def bound_table(audit: Audit, fact: FactAudit) -> BoundTable:
    """Return the bounds on one private fact beside what was found on the rows."""
    # Stable: the bounds beyond rare outputs go below the one that they relax.
    places = list(CERTIFICATES)
    ordered = sorted(fact.certificates, key=lambda each: places.index(_kind(each.name)))
    beyond = fact.beyond_answer
    return _table(
        [*ordered, audit.structural.total, beyond.total, *beyond.by_class, beyond.answer],
        {name: _measured(name, value) for name, value in fact.estimates.items()},
    )


def _kind(name: str) -> str:
    known = (each for each in CERTIFICATES if name.startswith(each))
    return next(known, "structural epsilon")


def over_time_table(fact: FactAudit) -> BoundTable:
    """Return what several releases add up to."""
    over = fact.over_time
    every = [over.any_readings, over.any_advantage, over.independent, over.independent_advantage]
    found = _table([*every, over.memoised], {})
    named = zip(found.rows, OVER_TIME, strict=True)
    return replace(found, rows=[replace(row, title=a, term=b) for row, (a, b) in named])


def _table(certificates: Sequence[Certificate], estimates: dict[str, str]) -> BoundTable:
    reasons: list[str] = []
    rows = []
    for each in certificates:
        place = None
        if isinstance(each.value, NotCertifiable):
            if each.value.reason not in reasons:
                reasons.append(each.value.reason)
            place = reasons.index(each.value.reason) + 1
        title, term = _titled(each.name)
        bound = None if each.bound is None else _measured(each.name, each.bound)
        meaning = factor(each.bound) if each.bound is not None and "epsilon" in each.name else ""
        if each.of_tables:
            meaning = "; ".join(filter(None, (meaning, "from the tables alone")))
        rows.append(BoundRow(title, term, bound, meaning, place, estimates.get(each.name, "")))
    return BoundTable(rows, reasons)


def _titled(name: str) -> tuple[str, str]:
    if name.startswith(BEYOND_MASS):
        share = float(name.removeprefix(BEYOND_MASS))
        aside = f"{100 * share:g}\N{NO-BREAK SPACE}%"
        return f"The same, rare outputs of {aside} aside, ε", f"δ = {share:g}"
    if name.startswith(f"{BEYOND}, "):
        return "Gain beyond the answer, one class", name.removeprefix(f"{BEYOND}, ")
    return CERTIFICATES.get(name, (name[:1].upper() + name[1:], ""))


def _measured(name: str, value: float) -> str:
    if name.startswith("advantage"):
        return points(value)
    return percent(value) if name == "accuracy" else number(value)


# --- Attackers -------------------------------------------------------------------------------


@dataclass(frozen=True)
class AttackTable:
    """All attackers on one fact, and the one that did best from symbols and from readings."""

    rows: list[AttackRow]
    guessing: str
    best: str
    best_on_readings: str


@dataclass(frozen=True)
class AttackRow:
    """One attacker, on symbols and on readings."""

    name: str
    symbols: str
    symbols_range: str
    readings: str
    readings_range: str
    auc: str
    note: str


def attack_table(attacks: Attacks, n_classes: int) -> AttackTable:
    """Return what every attacker reached, symbols beside readings."""
    return AttackTable(
        _attack_rows(attacks),
        percent(1.0 / n_classes),
        _strongest(attacks.symbols),
        _strongest(attacks.readings),
    )


def _strongest(results: Sequence[AttackResult]) -> str:
    ran = [(each.balanced_accuracy, each.name) for each in results if each.balanced_accuracy]
    found, name = max(ran, key=lambda item: item[0].estimate)
    return f"{percent(found.estimate)} ({name})"


def _attack_rows(attacks: Attacks) -> list[AttackRow]:
    raw = {each.name: each for each in attacks.readings}
    rows = []
    for each in attacks.symbols:
        beside = raw.get(each.name)
        notes = [note for note in (each.skipped, each.note) if note]
        if beside is not None and beside.skipped:
            notes.append(f"on readings: {beside.skipped}")
        estimate, span = _score(each)
        raw_estimate, raw_span = ("", "") if beside is None else _score(beside)
        auc = "" if each.auc is None else f"{each.auc.estimate:.3f}"
        rows.append(
            AttackRow(each.name, estimate, span, raw_estimate, raw_span, auc, "; ".join(notes))
        )
    return rows


def _score(result: AttackResult) -> tuple[str, str]:
    found = result.balanced_accuracy
    return ("did not run", "") if found is None else (percent(found.estimate), _span(found))


def _span(interval: Interval) -> str:
    return f"{100 * interval.low:.1f} to {100 * interval.high:.1f}"


# --- Sensors ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Share:
    """What one sensor adds to one fact: the bar, out of 100, and its words."""

    bar: float
    value: str
    beside: str


@dataclass(frozen=True)
class ContributionRow:
    """One sensor: its share of every private fact, then of the public one."""

    sensor: str
    leaks: list[Share]
    use: Share


@dataclass(frozen=True)
class ContributionTable:
    """All sensors, the most telling first."""

    rows: list[ContributionRow]
    left_out: int
    joint: bool


def contribution_table(audit: Audit, limit: int) -> ContributionTable:
    """Return which sensors carry the leak and which the use."""
    facts = [*(fact.contributions for fact in audit.private), audit.public.contributions]
    joint = all(each.lost is not None for found in facts for each in found)
    # One scale for all, so that a long bar means much wherever it stands.
    longest = max([_size(each) for found in facts for each in found] + [1e-3])
    rows = [
        ContributionRow(
            each[0].sensor, [_share(part, longest) for part in each[:-1]], _share(each[-1], longest)
        )
        for each in zip(*facts, strict=True)
    ]
    leaks = sensor_weights([fact.contributions for fact in audit.private])
    rows.sort(key=lambda row: -leaks[row.sensor])
    return ContributionTable(rows[:limit], max(0, len(rows) - limit), joint)


def sensor_weights(parts: Sequence[Sequence[Contribution]]) -> dict[str, float]:
    """Return the most that each sensor adds to any of several facts."""
    found: dict[str, float] = {}
    for each in (each for part in parts for each in part):
        found[each.sensor] = max(found.get(each.sensor, 0.0), each.alone, each.lost or 0.0)
    return found


def _size(part: Contribution) -> float:
    return max(part.alone if part.lost is None else part.lost, 0.0)


def _share(part: Contribution, longest: float) -> Share:
    bar = round(100 * _size(part) / longest, 1)
    if part.lost is None:
        return Share(bar, points(part.alone), "")
    return Share(bar, points(part.lost), f"alone {100 * part.alone:.1f}")
