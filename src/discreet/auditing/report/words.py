"""What the report says: numbers for readers, the verdict, definitions, and tables row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discreet.auditing.attackers.scores import AttackResult
from discreet.auditing.bounds.beyond_answer import BEYOND
from discreet.auditing.bounds.certificates import Certificate, NotCertifiable
from discreet.auditing.bounds.pointwise import BEYOND_MASS
from discreet.auditing.findings import Contribution
from discreet.auditing.results import Attacks, Audit, FactAudit

# --- Numbers ---------------------------------------------------------------------------------


def percent(share: float) -> str:
    """Write a share as a percentage."""
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def confidence(share: float) -> str:
    """Write a confidence, with as many digits as it has."""
    return f"{100 * share:.6g}\N{NO-BREAK SPACE}%"


def factor(epsilon: float) -> str:
    """Say what an epsilon means for odds and ratios."""
    return "too large to help" if epsilon > 7 else f"a factor of {math.exp(epsilon):.3g}"


def points(share: float) -> str:
    """Write a gain over guessing in percentage points."""
    return f"{gain(share)}\N{NO-BREAK SPACE}points"


def gain(share: float) -> str:
    """Write a gain over guessing, the unit following later."""
    value = round(100 * share, 1) + 0.0  # no minus in front of a zero
    return f"{value:.1f}".replace("-", "−")


def sentence(text: str) -> str:
    """Begin with a capital letter and end with a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "…")) else ".")


def number(value: float | None) -> str:
    """Write an epsilon, a distance or an information; what is infinite is unbounded."""
    if value is None or math.isnan(value):
        return "not known"
    if math.isinf(value):
        return "unbounded"
    return f"{value:.3f}".replace("-", "−")


def probability(value: float) -> str:
    """Write a cell of a table; what is possible never reads as impossible, nor as certain."""
    if value in (0.0, 1.0):
        return f"{value:.0f}"
    if value < 0.0005:
        return "< 0.001"
    return "> 0.999" if value > 0.9995 else f"{value:.3f}"


def count(value: int) -> str:
    """Write a number of rows or outputs."""
    return (
        f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}") if value < 10**12 else f"{value:.1e}"
    )


# --- The verdict -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """The banner: its kind decides the colour, icon and words say the same."""

    kind: str
    icon: str
    headline: str
    sentence: str


_PREFIXES = ("WITHIN LIMITS ON CONDITION: ", "WITHIN LIMITS: ", "NO LIMIT STATED: ",
             "NOT SHOWN: ", "LEAKS: ")  # fmt: skip


def one_line(audit: Audit) -> str:
    """Return the verdict's line without the word that the headline says already."""
    line = audit.verdict
    for prefix in _PREFIXES:
        line = line.removeprefix(prefix)
    return sentence(line)


def verdict(audit: Audit) -> Verdict:
    """Return what the banner says: good only if private enough, useful and on no condition."""
    states = {check.state for check in audit.limits}
    if "broken" in states:
        return Verdict(
            "bad", "✗", "It leaks",
            "A real attacker goes beyond a stated limit. Do not deploy this mapping as it is.",
        )  # fmt: skip
    if "not shown" in states:
        return Verdict(
            "warn", "!", "Not shown",
            "No attack broke the limits, but these rows do not certify them either. "
            "What is not shown does not count as private.",
        )  # fmt: skip
    if states:
        return _within(audit)
    bounds = [fact.certificate("advantage").bound for fact in audit.private]
    if None in bounds:
        return Verdict(
            "warn", "!", "No promise, and no limit stated",
            "These rows certify no bound on an attacker’s gain for at least one private fact.",
        )  # fmt: skip
    return Verdict(
        "warn", "!", "No limit was stated",
        "So nothing passes or fails. The figures say how much leaks at most and at least.",
    )  # fmt: skip


def _within(audit: Audit) -> Verdict:
    certified = "Every stated limit is certified, whatever method an attacker uses"
    if not audit.public.useful:
        return Verdict(
            "warn", "!", "Private enough, but not useful",
            f"{certified}. But the answers are not shown to be better than guessing, so that "
            "there is no reason to deploy this mapping.",
        )  # fmt: skip
    if audit.conditions:
        return Verdict(
            "warn", "!", "Private enough and useful, on condition",
            f"{certified}, if what was declared and could not be checked is true: it stands in the "
            "line below.",
        )  # fmt: skip
    return Verdict(
        "good", "✓", "Private enough, and useful",
        f"{certified}, under the assumptions below, and the answers are better than guessing.",
    )  # fmt: skip


def validity(audit: Audit) -> str:
    """Return for what world, and from when, the certificates hold."""
    return (
        f"Issued on {audit.date} for the world that the {count(audit.rows)} audited rows come "
        "from. It expires when that world changes: other people, habits, seasons, rooms, sensors "
        "or firmware."
    )


# --- Definitions -----------------------------------------------------------------------------

ATTACKERS = {
    "halves": "chooses outputs on one half of the rows and averages the tables over the other",
    "knows-all": "knows the tables and the codes of the rows it learns from",
    "table": "counts every output",
    "telltale": "looks for the outputs that tell most",
    "naive-bayes": "adds up what each sensor says",
    "logistic": "weighs the sensors",
    "logistic-pairs": "weighs pairs of sensors",
    "boosting": "many small trees, one after the other",
    "forest": "many trees, side by side",
    "neighbours": "asks the most similar rows",
    "svm": "support vectors",
}
"""What an attacker does, by name."""

CERTIFICATES = {
    "advantage": ("Gain over guessing", "advantage of the best possible attacker"),
    "total variation": ("How far two classes differ", "total variation; 0 alike, 1 distinguished"),
    "accuracy": ("How often an attacker is right", "with the classes as frequent as they are"),
    "information epsilon": ("What one output can change, ε", "max |log p(g|z)/p(g)|"),
    "pairwise epsilon": ("What sets two classes apart, ε", "max log p(z|a)/p(z|b)"),
    "structural epsilon": ("Whatever the world is like, ε", "structural, from the tables alone"),
    "advantage beyond the answer": (
        "Gain beyond the answer", "for an attacker who knows the public fact"
    ),
    "advantage of the public fact by itself": (
        "Gain from the answer alone", "the public fact, true and undisturbed, and no symbols"
    ),
}  # fmt: skip
"""A certificate's name in plain words, and in the words of the field."""

OVER_TIME = (
    ("Any readings, ε", "however they depend on one another"),
    ("Any readings, gain over guessing", "however they depend on one another"),
    ("Independent readings, ε", "if given the private class no reading depends on an earlier one"),
    ("Independent readings, gain over guessing", "if no reading depends on an earlier one"),
    ("One symbol, repeated, ε", "if every sensor draws once and repeats it (memoised)"),
)
"""What reports over time may assume, in the order of the table."""


Table = dict[str, Any]
"""What the template reads, by name."""

# --- Bounds ----------------------------------------------------------------------------------


def bound_table(audit: Audit, fact: FactAudit) -> Table:
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


def over_time_table(fact: FactAudit) -> Table:
    """Return what several releases add up to."""
    over = fact.over_time
    every = [over.any_readings, over.any_advantage, over.independent, over.independent_advantage]
    found = _table([*every, over.memoised], {})
    named = zip(found["rows"], OVER_TIME, strict=True)
    rows = [row | {"title": title, "term": term} for row, (title, term) in named]
    return found | {"rows": rows}


def _table(certificates: Sequence[Certificate], estimates: dict[str, str]) -> Table:
    """List certificates; those without a bound have the number of the reason below the table."""
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
        rows.append({
            "title": title, "term": term, "bound": bound, "meaning": meaning, "reason": place,
            "estimate": estimates.get(each.name, ""),
        })  # fmt: skip
    return {"rows": rows, "reasons": reasons}


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


def attack_table(attacks: Attacks, n_classes: int) -> Table:
    """Return what every attacker reached, symbols beside readings."""
    raw = {each.name: each for each in attacks.readings}
    return {
        "rows": [_attack_row(each, raw.get(each.name)) for each in attacks.symbols],
        "guessing": percent(1.0 / n_classes),
        "best": _strongest(attacks.symbols),
        "best_on_readings": _strongest(attacks.readings),
    }


def _strongest(results: Sequence[AttackResult]) -> str:
    ran = [(each.balanced_accuracy, each.name) for each in results if each.balanced_accuracy]
    found, name = max(ran, key=lambda item: item[0].estimate)
    return f"{percent(found.estimate)} ({name})"


def _attack_row(each: AttackResult, beside: AttackResult | None) -> dict[str, str]:
    notes = [note for note in (each.skipped, each.note) if note]
    if beside is not None and beside.skipped:
        notes.append(f"on readings: {beside.skipped}")
    symbols, symbols_range = _score(each)
    readings, readings_range = ("", "") if beside is None else _score(beside)
    return {
        "name": each.name, "symbols": symbols, "symbols_range": symbols_range,
        "readings": readings, "readings_range": readings_range,
        "auc": "" if each.auc is None else f"{each.auc.estimate:.3f}", "note": "; ".join(notes),
    }  # fmt: skip


def _score(result: AttackResult) -> tuple[str, str]:
    found = result.balanced_accuracy
    if found is None:
        return "did not run", ""
    return percent(found.estimate), f"{100 * found.low:.1f} to {100 * found.high:.1f}"


# --- Sensors ---------------------------------------------------------------------------------


def contribution_table(audit: Audit, limit: int) -> Table:
    """Return which sensors carry the leak and which the use, the most telling first."""
    facts = [*(fact.contributions for fact in audit.private), audit.public.contributions]
    joint = all(each.lost is not None for found in facts for each in found)
    # One scale for all, so that a long bar means much wherever it stands.
    longest = max([_size(each) for found in facts for each in found] + [1e-3])
    rows = []
    for each in zip(*facts, strict=True):
        *leaks, use = (_share(part, longest) for part in each)
        rows.append({"sensor": each[0].sensor, "leaks": leaks, "use": use})
    weights = sensor_weights([fact.contributions for fact in audit.private])
    rows.sort(key=lambda row: -weights[row["sensor"]])
    return {"rows": rows[:limit], "left_out": max(0, len(rows) - limit), "joint": joint}


def sensor_weights(parts: Sequence[Sequence[Contribution]]) -> dict[str, float]:
    """Return the most that each sensor adds to any of several facts."""
    found: dict[str, float] = {}
    for each in (each for part in parts for each in part):
        found[each.sensor] = max(found.get(each.sensor, 0.0), each.alone, each.lost or 0.0)
    return found


def _size(part: Contribution) -> float:
    return max(part.alone if part.lost is None else part.lost, 0.0)


def _share(part: Contribution, longest: float) -> dict[str, Any]:
    """Return what one sensor adds to one fact: the bar, out of 100, and its words."""
    bar = round(100 * _size(part) / longest, 1)
    if part.lost is None:
        return {"bar": bar, "value": points(part.alone), "beside": ""}
    return {"bar": bar, "value": points(part.lost), "beside": f"alone {100 * part.alone:.1f}"}
