"""What the report says: numbers for readers, the verdict, definitions, and tables row by row.

*What a report says to a privacy officer: purpose, people, attacker, limit, other secrets.* What
was measured is stated; what only a person can know is left to fill in. The same names serve the
evidence of a running site.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from discreet import rounding
from discreet.auditing.attackers.attack import AttackResult
from discreet.auditing.audit_file import BEYOND
from discreet.auditing.bounds.certificates import Certificate, NotCertifiable
from discreet.auditing.bounds.epsilon import BEYOND_MASS
from discreet.auditing.findings import Contribution
from discreet.auditing.other_secrets import OtherSecret, OtherSecrets
from discreet.auditing.results import Attacks, Audit, FactAudit
from discreet.rounding import bounded, gains, measured, percents
from discreet.rounding import gain as gain
from discreet.rounding import number as number

_RELAXED = "information epsilon"  # by the bounds beyond rare outputs
_USELESS_EPSILON = 7.0  # odds may change by a factor of a thousand

# --- Numbers ---------------------------------------------------------------------------------


def _whole(text: str) -> str:
    """Keep a figure and its unit on one line."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def _glued(write: Callable[..., str]) -> Callable[..., str]:
    """Return a way to write a figure that keeps it and its unit on one line."""
    return lambda *given: _whole(write(*given))


percent, points = _glued(rounding.percent), _glued(rounding.points)
plain_points = _glued(rounding.plain_points)
at_most, at_least = _glued(rounding.at_most), _glued(rounding.at_least)


def confidence(share: float) -> str:
    """Write a confidence."""
    return f"{rounding.confidence(share)}\N{NO-BREAK SPACE}%"


def factor(epsilon: float) -> str:
    """Say what an epsilon means for odds and ratios."""
    return f"a factor of {rounding.factor(epsilon)}"


def sentence(text: str) -> str:
    """Begin with a capital letter and end with a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "…")) else ".")


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
    "epsilon of any readings": ("Any readings, ε", "however they depend on one another"),
    "advantage from any readings": (
        "Any readings, gain over guessing", "however they depend on one another"
    ),
    "epsilon of independent readings": (
        "Independent readings, ε", "if given the private class none depends on an earlier one"
    ),
    "advantage from independent readings": (
        "Independent readings, gain over guessing", "if no reading depends on an earlier one"
    ),
    "epsilon of one symbol, repeated": (
        "One symbol, repeated, ε", "if every sensor draws once and repeats it (memoised)"
    ),
}  # fmt: skip
"""A certificate's name in plain words, and in the words of the field; those over time last."""

Table = dict[str, Any]
"""What the template reads, by name."""

# --- Bounds ----------------------------------------------------------------------------------


def bound_table(audit: Audit, fact: FactAudit) -> Table:
    """Return the bounds on one private fact beside what was found on the rows."""
    # Stable: the bounds beyond rare outputs go below the one that they relax.
    places = list(CERTIFICATES)

    def place(each: Certificate) -> int:
        kinds = (k for k, kind in enumerate(places) if each.name.startswith(kind))
        return next(kinds, places.index("structural epsilon"))

    ordered = sorted(fact.certificates, key=place)
    beyond = fact.beyond_answer
    return _table(
        [*ordered, audit.structural.total, beyond.total, beyond.answer],
        {name: _whole(measured(name, value)) for name, value in fact.estimates.items()},
    )


def over_time_table(fact: FactAudit) -> Table:
    """Return what several releases add up to."""
    over = fact.over_time
    every = [over.any_readings, over.any_advantage, over.independent, over.independent_advantage]
    named = zip([*every, over.memoised], list(CERTIFICATES)[-5:], strict=True)
    return _table([replace(each, name=name) for each, name in named], {})


def _table(certificates: Sequence[Certificate], estimates: dict[str, str]) -> Table:
    """List the certificates that say something, and name the others by why they do not."""
    rows = []
    silent: dict[str, list[str]] = {}
    for each in certificates:
        title, term = _titled(each.name)
        why = _says_nothing(each) or _says_no_more(each, certificates)
        if why:
            silent.setdefault(why, []).append(title)
            continue
        assert each.bound is not None
        meaning = [factor(each.bound)] if "epsilon" in each.name else []
        meaning += ["from the tables alone"] * each.of_tables
        rows.append({
            "title": title, "term": term, "bound": _whole(bounded(each.name, each.bound)),
            "meaning": "; ".join(meaning), "estimate": estimates.get(each.name, ""),
        })  # fmt: skip
    return {
        "rows": rows,
        "silent": [f"{'; '.join(dict.fromkeys(titles))}: {why}" for why, titles in silent.items()],
    }


def _says_nothing(each: Certificate) -> str:
    """Return why a certificate helps nobody, or nothing."""
    if isinstance(each.value, NotCertifiable):
        return f"not certifiable, because {each.value.reason}"
    if "epsilon" in each.name and each.value > _USELESS_EPSILON:
        return f"the bound is above {_USELESS_EPSILON:g}, too large to help"
    return ""


def _says_no_more(each: Certificate, certificates: Sequence[Certificate]) -> str:
    """Return why a bound beyond rare outputs adds nothing to the one it relaxes, or nothing."""
    whole = next((other.bound for other in certificates if other.name == _RELAXED), None)
    if not each.name.startswith(BEYOND_MASS) or each.bound is None or whole is None:
        return ""
    same = bounded(each.name, each.bound) == bounded(_RELAXED, whole)
    return "no smaller than with them" if same else ""


def _titled(name: str) -> tuple[str, str]:
    if name.startswith(BEYOND_MASS):
        share = float(name.removeprefix(BEYOND_MASS))
        aside = f"{100 * share:g}\N{NO-BREAK SPACE}%"
        return f"The same, rare outputs of {aside} aside, ε", f"δ = {share:g}"
    if name.startswith(f"{BEYOND}, "):
        return "Gain beyond the answer, one class", name.removeprefix(f"{BEYOND}, ")
    return CERTIFICATES.get(name, (name[:1].upper() + name[1:], ""))


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
    return percent(found.estimate), percents(found.low, found.high)


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
        return {"bar": bar, "value": gain(part.alone), "beside": ""}
    return {"bar": bar, "value": gain(part.lost), "beside": f"alone {gain(part.alone)}"}


# --- For a privacy officer ------------------------------------------------------------------

NO_ADVICE = (
    "This is no legal advice. It states what was measured; whether that is lawful is for a person "
    "to decide."
)
ATTACKER = (
    "Anybody who gets all symbols of the span above and has the mapping file with its tables: "
    "whoever runs the fusion centre, its broker or its database, whoever breaks in there, and "
    "whoever they hand it to. Time, method and knowledge of the world are unlimited."
)
NO_ATTACKER = (
    "Not covered: whoever sees the readings on the sensor itself, watches for longer, or goes by "
    "when and whether a sensor reports."
)
_NAMED = 12


def officer_words(audit: Audit) -> dict[str, Any]:
    """Return what the officer's part of the report says, by where it stands."""
    return {
        "advice": NO_ADVICE,
        "purpose": _purpose(audit),
        "attacker": (ATTACKER, NO_ATTACKER),
        "limits": [_limit(audit, each.limit, each.fact) for each in audit.limits
                   if each.name == "advantage"],
        "no_limit": _no_limit(audit),
        "others": [_other(each) for each in audit.other_secrets.found],
        "caveat": caveat(audit.other_secrets),
        "independence": audit.independence,
    }  # fmt: skip


def _purpose(audit: Audit) -> str:
    classes = ", ".join(audit.public.classes[:_NAMED])
    sensors = len(audit.mapping.names)
    return f"one of {classes}, from {count(sensors)} sensor{'' if sensors == 1 else 's'}"


def _no_limit(audit: Audit) -> str:
    """Say which limit there is instead of one on the gain over guessing."""
    stated = [each for each in audit.limits if each.name != "advantage"]
    said = [f"The limit on the {each.name} is {each.limit:g}: {each.state}." for each in stated]
    return " ".join(said) or "No limit was stated."


def _limit(audit: Audit, limit: float, name: str) -> dict[str, str]:
    fact = next(each for each in audit.private if each.name == name)
    base, raw = 1.0 / len(fact.classes), fact.strongest_on_readings
    return {
        "fact": name,
        "allowed": percent(min(base + limit, 1.0)),
        "guessing": percent(base),
        "raw": percent(base + raw),
    }


def _other(each: OtherSecret) -> dict[str, str]:
    what = "what the sensor reads" if each.sensor else "undeclared column"
    return {
        "column": each.column,
        "what": f"{what}: {' / '.join(each.classes)}",
        "gain": gain(each.gain.estimate),
        "range": gains(each.gain.low, each.gain.high),
        "answer": gain(each.from_answer),
        "always": gain(1.0 - 1.0 / len(each.classes)),
    }


def caveat(found: OtherSecrets) -> str:
    """Say what the figures on other secrets promise, and what they do not."""
    left = f"; {count(found.left_out)} more have too few rows of a class"
    doubt = f" The intervals promise nothing, since {found.doubt}." if found.doubt else ""
    return (
        f"Compared were {count(found.compared)} columns{left if found.left_out else ''}. The "
        "choice was made on one half of the rows and the figures are from the other, by one "
        "attacker who knows the tables; all intervals hold together at "
        f"{confidence(found.confidence)}, for these columns and this attacker. Another "
        "attacker, or a secret that is no column of the table, may gain more: nothing here is a "
        f"bound. What goes with the answer is told by the answer.{doubt}"
    )
