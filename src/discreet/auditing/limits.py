"""Limits that were stated, held against what was found.

A limit is met only if it is certified. It is broken if a real attacker goes beyond it
for certain. Everything in between is not shown, which counts as not met.
"""

from __future__ import annotations

from collections.abc import Sequence

from discreet.auditing.beyond_answer import BEYOND
from discreet.auditing.certificates import Certificate, NotCertifiable
from discreet.auditing.results import FactAudit, LimitCheck
from discreet.values import shown


def check_limits(
    stated: dict[str, float],
    facts: Sequence[FactAudit],
    releases: int = 1,
    *,
    independent: bool = False,
    eta: float = 1.0,
) -> tuple[LimitCheck, ...]:
    """Check every stated limit on every private fact; the worst fact speaks for all.

    With several releases the limit is on all of them together, and is held against the
    structural bound: only that adds up whatever readings depend on. ``independent`` is the
    caller's word that readings of different releases are independent given the private class.

    Parameters
    ----------
    stated : dict
        Limits by "advantage", "advantage beyond the answer" or "epsilon".
    eta : float
        The tables' largest total variation between two rows of codes.
    """

    def rank(check: LimitCheck) -> tuple[int, float]:
        upper = float("inf") if check.upper is None else check.upper
        return ("broken", "not shown", "met").index(check.state), -upper

    return tuple(
        min((_check(name, limit, fact, releases, independent, eta) for fact in facts), key=rank)
        for name, limit in stated.items()
    )


def _check(
    name: str, limit: float, fact: FactAudit, releases: int, independent: bool, eta: float
) -> LimitCheck:
    certificate = _certificate(name, fact, releases, independent)
    upper, lower = certificate.bound, _lower(name, fact)
    who = f"{name} of {shown(fact.name)}" + (f" over {releases} reports" if releases > 1 else "")
    if upper is not None and upper <= limit:
        radius = (limit - upper) / eta if eta and releases == 1 and name != "epsilon" else None
        words = f"the {who} is at most {upper:.3f}, within the limit of {limit:g}"
        return LimitCheck(name, limit, fact.name, upper, lower, "met", words, radius)
    if lower is not None and lower > limit:
        words = (
            f"a real attacker ({fact.attacks.best.name}) has an {name} of at least {lower:.3f} on "
            f"{shown(fact.name)}, beyond the limit of {limit:g}"
        )
        return LimitCheck(name, limit, fact.name, upper, lower, "broken", words)
    words = f"the limit of {limit:g} on the {who} is not shown: " + (
        certificate.value.reason
        if isinstance(certificate.value, NotCertifiable)
        else f"the certified bound is {upper:.3f}{_from(certificate)}"
    )
    return LimitCheck(name, limit, fact.name, upper, lower, "not shown", words)


def _from(certificate: Certificate) -> str:
    return f" with {certificate.counted}" if certificate.counted else ""


def _certificate(name: str, fact: FactAudit, releases: int, independent: bool) -> Certificate:
    if releases > 1:
        return fact.over_time.certificate(name, independent)
    if name == BEYOND:
        return fact.beyond_answer.total
    return fact.certificate("information epsilon" if name == "epsilon" else name)


def _lower(name: str, fact: FactAudit) -> float | None:
    """Return what a real attacker gains for certain."""
    if name == BEYOND:
        return fact.beyond_answer.lower
    return None if name == "epsilon" else fact.attacks.best.lower
