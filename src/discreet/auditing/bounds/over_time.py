"""What the tables alone promise, and what many reports add up to.

However readings depend on one another, only the structural epsilon adds up: a hundred noisy
looks at one fact average the noise out, and a secret that lies in the changes ("does the device
switch every minute?") may show in no single report. If readings of different releases are
independent given the private class, which the caller has to declare, the log-ratios of outputs
add up as well, and so do, at most, the distances between the classes: the overlap of products
is at least the product of the overlaps. A bound for a group drawn at random adds up in neither
way: the reports of one home share that home.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from discreet.arrays import Floats
from discreet.auditing.audit_file import INDEPENDENT_RELEASES as INDEPENDENT_RELEASES
from discreet.auditing.bounds.certificates import (
    ONE_RELEASE,
    SHIPPED,
    Certificate,
    NotCertifiable,
    percent,
)
from discreet.errors import InputError
from discreet.leakage.exact import ROUND_UP, advantage_at, structural_epsilons
from discreet.quoting import at_most, up

_NO_BETTER = 0.99  # of certainty, from which on a bound is none
_TOO_MANY = NotCertifiable("so many reports may tell all that the tables let through")


# --- One release, from the tables alone -------------------------------------------------------


@dataclass(frozen=True)
class Structural:
    """The bound that needs no rows, for every sensor and for all of them."""

    sensors: tuple[Certificate, ...]
    total: Certificate


def certify_structure(tables: Sequence[Floats], names: Sequence[str] = ()) -> Structural:
    """Bound every log-ratio by the tables alone.

    For any two rows of codes the probabilities of an output differ by a factor of at most
    exp(sum of the sensors' bounds). Averages over rows keep that, so it holds for every
    distribution of readings, every private fact and every class, and adds up over
    repeated releases. Confidence 1; nothing is spent.
    """
    names = list(names) or [f"{t}" for t in range(len(tables))]
    epsilons = structural_epsilons(tables)
    sensors = tuple(
        _structural(
            f"structural epsilon of {name!r}",
            float(epsilon),
            _one_sided(name),
            f"Whatever sensor {name!r} reads, no symbol is more than exp(epsilon) times as likely "
            "for one reading as for another.",
        )
        for name, epsilon in zip(names, epsilons, strict=True)
    )
    open_names = [name for name, e in zip(names, epsilons, strict=True) if not np.isfinite(e)]
    total = _structural(
        "structural epsilon",
        float(epsilons.sum()) * ROUND_UP,
        "; ".join(map(_one_sided, open_names)),
        "Whatever the sensors read and whatever is private, no output is more than exp(epsilon) "
        "times as likely for one truth as for another.",
    )
    if isinstance(total.value, NotCertifiable):
        words = f"Nothing is promised for every conceivable world: {total.value.reason}."
        total = replace(total, words=words)
    return Structural(sensors, total)


def _structural(name: str, epsilon: float, reason: str, words: str) -> Certificate:
    """Make the certificate, or say why there is none if epsilon is infinite."""
    value: float | NotCertifiable = epsilon
    if not np.isfinite(epsilon):
        value = NotCertifiable(reason)
        words = value.words
    return Certificate(name, value, 1.0, (), (SHIPPED, ONE_RELEASE), words)


def _one_sided(name: str) -> str:
    return f"the table of sensor {name!r} sends some symbol only for some codes"


# --- Several releases ------------------------------------------------------------------------


@dataclass(frozen=True)
class OverTime:
    """What many releases add up to.

    ``independent``, ``independent_advantage``: for readings that are independent from release to
    release, given the private class. ``any_readings``, ``any_advantage``: for readings that depend
    on one another in any way. ``memoised``: for sensors that repeat one symbol for a whole period.
    """

    independent: Certificate
    any_readings: Certificate
    memoised: Certificate
    independent_advantage: Certificate
    any_advantage: Certificate

    def certificate(self, kind: str, independent: bool) -> Certificate:
        """Return the bound on "epsilon" or an advantage that a limit may rest on.

        The structural bound holds for every secret, so also within each public class.
        """
        if kind == "epsilon":
            return self.independent if independent else self.any_readings
        apart = independent and kind == "advantage"
        return self.independent_advantage if apart else self.any_advantage


def compose(
    pairwise: Certificate,
    variation: Certificate,
    structural: Certificate,
    releases: int,
    *,
    n_classes: int = 2,
    unit: str | None = None,
    periods: int = 1,
) -> OverTime:
    """Add up bounds of one release over several.

    Memoised sensors draw one symbol per period and repeat it, so only ``periods`` draws
    count. This needs a symbol that stays for the whole period: a sensor that draws again when
    its code changes shows by a changed symbol that the code did change, and no bound covers that.

    ``pairwise``, ``variation``: bounds on the log-ratios and on the total variation of one release,
    from rows. ``unit``: what a group is called, if the bounds from rows are about one drawn at
    random.
    """
    if releases < 1:
        raise InputError(f"releases must be at least 1, got {releases}.")
    if not 1 <= periods <= releases:
        raise InputError(f"periods must be between 1 and the {releases} releases, got {periods}.")
    if unit is not None:
        reason = f"the reports of one {unit} share that {unit}, so they are not independent"
        pairwise, variation = (
            replace(each, value=NotCertifiable(reason)) for each in (pairwise, variation)
        )
    held = "every sensor draws one symbol per period and repeats it (declared)"
    apart, anyhow = f"epsilon of {releases} independent releases", structural.bound
    return OverTime(
        _times(pairwise, releases, apart, INDEPENDENT_RELEASES),
        _times(structural, releases, f"epsilon of {releases} releases", ""),
        _times(structural, periods, f"epsilon of {periods} memoised periods", held),
        _gain(
            _gain_apart(variation.bound, releases, n_classes),
            variation,
            f"advantage of {releases} independent releases",
            INDEPENDENT_RELEASES,
            n_classes,
        ),
        _gain(
            None if anyhow is None else advantage_at(releases * anyhow, n_classes),
            structural,
            f"advantage of {releases} releases",
            "",
            n_classes,
        ),
    )


def _gain_apart(bound: float | None, count: int, m: int) -> float | None:
    """Add up the classes' distances; against any one class, each other gains at most its own."""
    return None if bound is None else (m - 1) / m * (1.0 - (1.0 - min(bound, 1.0)) ** count)


def _several(
    one: Certificate, bound: float | None, name: str, assumption: str, words: str
) -> Certificate:
    """Make the certificate of several draws from that of one; ``words`` are for a bound."""
    assumptions = tuple(a for a in one.assumptions if a != ONE_RELEASE)
    assumptions += (assumption,) if assumption else ()
    value: float | NotCertifiable
    if bound is None:
        value = one.value if isinstance(one.value, NotCertifiable) else _TOO_MANY
        words = value.words
    else:
        value = bound * ROUND_UP
        given = (
            f" if {assumption}" if assumption else ", however the readings depend on one another"
        )
        words = f"{words}{given}."
    return Certificate(name, value, one.confidence, one.rows, assumptions, words)


def _times(one: Certificate, count: int, name: str, assumption: str) -> Certificate:
    bound = None if one.bound is None else count * one.bound
    words = (
        f"Over {count} draws, at confidence {percent(one.confidence)}, no sequence of outputs is "
        f"more than exp({up(bound or 0.0):.3f}) times as likely for one private class as for "
        "another"
    )
    return _several(one, bound, name, assumption, words)


def _gain(bound: float | None, one: Certificate, name: str, assumption: str, m: int) -> Certificate:
    """Make the certificate of an advantage, if it is below that of whoever is always right."""
    if bound is not None and bound >= _NO_BETTER * (1.0 - 1.0 / m):
        bound = None
    words = (
        f"For the {name}, at confidence {percent(one.confidence)}: no attacker beats guessing by "
        f"more than {at_most((bound or 0.0) * ROUND_UP)}"
    )
    return _several(one, bound, name, assumption, words)
