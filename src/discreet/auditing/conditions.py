"""What the bounds rest on: which assumptions were checked, declared, or contradicted by the rows.

A certificate whose assumption the rows contradict is withheld. One whose assumption was declared
says so, and so does the verdict.
"""

from __future__ import annotations

from dataclasses import replace

from discreet.auditing.attackers import BestAttack
from discreet.auditing.beyond_answer import BeyondAnswer
from discreet.auditing.certificates import (
    GROUPS_APART,
    HELD_OUT,
    PRIOR_GIVEN,
    SAME_WORLD,
    SHARES,
    Certificate,
    NotCertifiable,
)
from discreet.auditing.over_time import INDEPENDENT_RELEASES
from discreet.auditing.subjects import Subject

_SHARES = SHARES.partition("{")[0]


def find_conditions(
    subject: Subject, releases: int, independent_releases: bool, *, prior_given: bool
) -> tuple[str, ...]:
    """Return what the verdict rests on that was declared, or that nobody could check."""
    found = []
    if not subject.held_out:
        found.append("no row was learned from (declared: where the rows come from cannot be "
                     "checked)")  # fmt: skip
    if subject.audited_before:
        found.append(subject.audited_before)
    if subject.mapping.design.parameters.get("stopped"):
        found.append("learning was stopped early")
    if subject.assumed_independent:
        found.append(_assumed(subject))
    elif subject.dependence is not None and not subject.dependence.checked:
        found.append(subject.dependence.words)
    if releases > 1 and independent_releases:
        found.append(INDEPENDENT_RELEASES)
    if prior_given:
        found.append(f"{PRIOR_GIVEN} (declared)")
    return tuple(found)


def _assumed(subject: Subject) -> str:
    contradicted = _contradiction(subject)
    although = f", although {contradicted}" if contradicted else ""
    return f"rows are independent draws (declared){although}"


def _contradiction(subject: Subject) -> str:
    """Return what the rows show against their independence, or nothing."""
    found = subject.dependence
    if found is not None and found.found:
        return found.words
    return subject.learned_groups


def withheld(subject: Subject) -> str:
    """Return why no bound from these rows holds, or nothing."""
    return "" if subject.assumed_independent else _contradiction(subject)


def qualify(subject: Subject, found: Certificate, prior_given: bool = True) -> Certificate:
    """Say of each assumption whether it was checked; withhold a bound that the rows contradict."""
    reason = withheld(subject)
    if not reason and not prior_given and _needs_shares(found) and _in_runs(subject):
        reason = (
            "the private classes do not come in random order, so that their frequencies cannot be "
            "estimated from the rows"
        )
    stated = tuple(_with_basis(subject, each) for each in found.assumptions)
    if not reason:
        return replace(found, assumptions=stated)
    return replace(
        found,
        assumptions=stated,
        value=NotCertifiable(reason),
        words=f"Nothing is promised: {reason}.",
    )


def qualify_beyond(subject: Subject, found: BeyondAnswer) -> BeyondAnswer:
    """Do the same for every certificate beyond the answer."""
    return replace(
        found,
        total=qualify(subject, found.total),
        by_class=tuple(qualify(subject, each) for each in found.by_class),
        answer=qualify(subject, found.answer),
        lower=None if withheld(subject) else found.lower,
    )


def qualify_attack(subject: Subject, best: BestAttack) -> BestAttack:
    """Claim nothing for certain from rows that depend on one another: intervals do not hold."""
    return replace(best, lower=0.0) if withheld(subject) else best


def _needs_shares(found: Certificate) -> bool:
    return any(each.startswith(_SHARES) for each in found.assumptions)


def _in_runs(subject: Subject) -> bool:
    found = subject.dependence
    known = found is not None and found.classes_in_runs and not subject.assumed_independent
    return known and subject.groups is None


def _with_basis(subject: Subject, assumption: str) -> str:
    if assumption == HELD_OUT:
        return f"{assumption} ({'checked' if subject.held_out else 'declared'})"
    if assumption in (SAME_WORLD, GROUPS_APART.format(unit=subject.unit)):
        return f"{assumption} ({_order_basis(subject)})"
    if assumption == PRIOR_GIVEN:
        return f"{assumption} (declared)"
    if assumption.startswith(_SHARES):
        return f"{assumption} (for accuracy and information epsilon; cannot be checked)"
    return assumption


def _order_basis(subject: Subject) -> str:
    found = subject.dependence
    if subject.assumed_independent:
        return "declared"
    if found is None or not found.checked:
        return f"declared: {'their order was not' if found is None else 'too few to be'} checked"
    return f"checked as far as order tells: {found.words}"
