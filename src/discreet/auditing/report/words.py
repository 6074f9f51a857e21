"""The words of the report: numbers for readers, the verdict, the limits, definitions."""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.auditing.results import Audit

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
    "total variation": ("How far two classes differ", "total variation; 0 alike, 1 told apart"),
    "accuracy": ("How often an attacker is right", "with the classes as frequent as they are"),
    "information epsilon": ("What one output can change, ε", "max |log p(g|z)/p(g)|"),
    "pairwise epsilon": ("What sets two classes apart, ε", "max log p(z|a)/p(z|b)"),
    "structural epsilon": ("Whatever the world is like, ε", "structural, from the tables alone"),
    "advantage beyond the answer": (
        "Gain beyond the answer", "for an attacker who is told the public fact"
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
