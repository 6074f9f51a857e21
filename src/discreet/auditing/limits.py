"""Limits that were stated, held against what was found; and the verdict in one line.

A limit is met only if it is certified. It is broken if a real attacker goes beyond it
for certain. Everything in between is not shown, which counts as not met.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from discreet.auditing.certificates import Certificate, NotCertifiable, percent
from discreet.auditing.results import FactAudit, LimitCheck, PublicAudit
from discreet.values import shown

_CERTIFICATES = {"advantage": "advantage", "epsilon": "information epsilon"}


def check_limits(
    stated: dict[str, float], facts: Sequence[FactAudit], releases: int = 1
) -> tuple[LimitCheck, ...]:
    """Check every stated limit on every private fact; the worst fact speaks for all.

    With several releases the limit is on all of them together. Pairwise log-ratios add up,
    and bound what is said of epsilon; an advantage does not, so that no limit on it is met.
    """

    def rank(check: LimitCheck) -> tuple[int, float]:
        upper = float("inf") if check.upper is None else check.upper
        return ("broken", "not shown", "met").index(check.state), -upper

    return tuple(
        min((_check(name, limit, fact, releases) for fact in facts), key=rank)
        for name, limit in stated.items()
    )


def _check(name: str, limit: float, fact: FactAudit, releases: int) -> LimitCheck:
    certificate = _certificate(name, fact, releases)
    upper = certificate.bound
    lower = fact.attacks.best.lower if name == "advantage" else None
    who = shown(fact.name)
    if upper is not None and upper <= limit:
        state = "met"
        words = f"{name} of {who} is at most {upper:.3f}, within the limit of {limit:g}"
    elif lower is not None and lower > limit:
        state = "broken"
        words = (
            f"a real attacker ({fact.attacks.best.name}) has an {name} of at least {lower:.3f} on "
            f"{who}, beyond the limit of {limit:g}"
        )
    else:
        state = "not shown"
        words = f"the limit of {limit:g} on the {name} of {who} is not shown: " + (
            certificate.value.reason
            if isinstance(certificate.value, NotCertifiable)
            else f"the certified bound is {upper:.3f}"
        )
    return LimitCheck(name, limit, fact.name, upper, lower, state, words)


def _certificate(name: str, fact: FactAudit, releases: int) -> Certificate:
    one = fact.certificate(_CERTIFICATES[name])
    if releases == 1:
        return one
    if name == "epsilon":
        return fact.over_time.independent
    reason = f"an advantage over one report says nothing about {releases} of them"
    return replace(one, value=NotCertifiable(reason))


def give_verdict(
    limits: Sequence[LimitCheck],
    facts: Sequence[FactAudit],
    public: PublicAudit,
    confidence: float,
) -> str:
    """Return the verdict in one line."""
    sure = f"at {percent(confidence)} confidence"
    answer = f"answers {shown(public.name)} with error {public.error:.3f}"
    failed = [check for check in limits if not check.met]
    if any(check.state == "broken" for check in failed):
        worst = next(check for check in failed if check.state == "broken")
        return f"LEAKS: {worst.words} ({sure})."
    if failed:
        return f"NOT SHOWN: {failed[0].words} ({sure})."
    if limits:
        return f"WITHIN LIMITS: {'; '.join(check.words for check in limits)} ({sure}); {answer}."
    return f"{'; '.join(_between(fact) for fact in facts)} ({sure}); {answer}."


def _between(fact: FactAudit) -> str:
    upper, lower = fact.certificate("advantage").bound, fact.attacks.best.lower
    who = shown(fact.name)
    reached = (
        f"real attackers were shown to reach {lower:.3f}"
        if lower > 0
        else "no real attacker was shown to beat guessing"
    )
    if upper is None:
        return f"{who}: no bound on the attacker's advantage can be certified, {reached}"
    return f"{who}: no attacker's advantage is above {upper:.3f}, {reached}"
