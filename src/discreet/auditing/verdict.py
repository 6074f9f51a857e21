"""What the audit concludes: the conditions it rests on, the limits, and the verdict in one line.

A certificate whose assumption the rows contradict is withheld. One whose assumption was declared
says so, and so does the verdict: a verdict with such conditions is never plain.

A limit is met only if it is certified. It is broken if a real attacker exceeds it for certain.
Everything in between is not shown, which counts as not met.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from discreet import rounding
from discreet.auditing.attackers.attack import BestAttack
from discreet.auditing.audit_file import BEYOND, INDEPENDENT_RELEASES
from discreet.auditing.bounds.certificates import (
    GROUPS_APART,
    HELD_OUT,
    PRIOR_GIVEN,
    SAME_WORLD,
    SHARES,
    BeyondAnswer,
    Certificate,
    NotCertifiable,
    percent,
)
from discreet.auditing.data import AuditData, AuditOptions
from discreet.auditing.results import FactAudit, LimitCheck, PublicAudit
from discreet.auditing.rounds import hidden_declared
from discreet.errors import shown
from discreet.rounding import at_least, at_most, bounded, percents, plain_points, say_span

# --- Conditions ------------------------------------------------------------------------------

_SHARES = SHARES.partition("{")[0]


def find_conditions(data: AuditData, options: AuditOptions) -> tuple[str, ...]:
    """Return what the verdict rests on that was declared, or that nobody could check."""
    found = []
    if not data.held_out:
        found.append("no row was learned from (declared: where the rows come from cannot be "
                     "checked)")  # fmt: skip
    if data.audited_before:
        found.append(data.audited_before)
    if data.assumed_independent:
        although = f", although {data.contradicted}" if data.contradicted else ""
        found.append(f"rows are independent draws (declared){although}")
    elif data.dependence is not None and not data.dependence.checked:
        found.append(data.dependence.words)
    if data.shared:
        found.append(data.shared)
    if options.rounds is not None and data.series is None:
        hidden = hidden_declared(beyond=options.beyond_answer)
        found.append(f"{hidden}, and the private fact lasts as stated")
    if options.releases > 1 and options.independent_releases:
        found.append(INDEPENDENT_RELEASES)
    if options.prior is not None:
        found.append(f"{PRIOR_GIVEN} (declared)")
    return tuple(found)


def say_independence(data: AuditData) -> tuple[str, ...]:
    """Return what shows that rows were not learned from and are independent, and what does not."""
    taught = "checked by the digests in the mapping" if data.held_out else "declared, not checked"
    unit = "rows" if data.groups is None else f"{data.unit}s"
    found = [
        f"No row was learned from: {taught}",
        f"Whether {unit} are independent draws: {_order_basis(data)}",
    ]
    if data.groups is not None:
        count = int(data.groups.max()) + 1
        found.append(f"Rows of one {data.unit} count as one draw: {count} of them")
    also = (data.learned_groups, data.shared, data.audited_before)
    return (*found, *(each[:1].upper() + each[1:] for each in also if each))


def qualify(data: AuditData, found: Certificate, prior_given: bool = True) -> Certificate:
    """Say of each assumption whether it was checked; withhold a bound that the rows contradict."""
    reason = data.withheld
    needs_shares = any(each.startswith(_SHARES) for each in found.assumptions) and not prior_given
    order, apart = data.dependence, data.groups is not None or data.assumed_independent
    in_runs = order is not None and order.classes_in_runs and not apart
    if not reason and needs_shares and in_runs:
        reason = (
            "the private classes do not come in random order, so that their frequencies cannot be "
            "estimated from the rows"
        )
    found = replace(found, assumptions=tuple(_with_basis(data, each) for each in found.assumptions))
    if reason:
        nothing = NotCertifiable(reason)
        return replace(found, value=nothing, words=nothing.words, of_tables=False)
    if found.of_tables:
        alone = f" The tables alone guarantee this; {found.counted} add nothing to it."
        return replace(found, words=found.words + alone)
    return found


def qualify_beyond(data: AuditData, found: BeyondAnswer) -> BeyondAnswer:
    """Do the same for every certificate beyond the answer."""
    return replace(
        found,
        total=qualify(data, found.total),
        by_class=tuple(qualify(data, each) for each in found.by_class),
        answer=qualify(data, found.answer),
        lower=None if data.withheld else found.lower,
    )


def qualify_attack(data: AuditData, best: BestAttack) -> BestAttack:
    """Claim nothing for certain from rows that depend on one another: intervals do not hold."""
    return replace(best, lower=0.0) if data.withheld else best


def _with_basis(data: AuditData, assumption: str) -> str:
    if assumption == HELD_OUT:
        return f"{assumption} ({'checked' if data.held_out else 'declared'})"
    if assumption in (SAME_WORLD, GROUPS_APART.format(unit=data.unit)):
        return f"{assumption} ({_order_basis(data)})"
    if assumption == PRIOR_GIVEN:
        return f"{assumption} (declared)"
    if assumption.startswith(_SHARES):
        return f"{assumption} (for accuracy and information epsilon; cannot be checked)"
    return assumption


def _order_basis(data: AuditData) -> str:
    found = data.dependence
    if data.assumed_independent:
        return "declared"
    if found is None or not found.checked:
        return f"declared: {'their order was not' if found is None else 'too few to be'} checked"
    return f"checked as far as order tells: {found.words}"


ONE_REPORT = "in one report"
"""What a bound is about that was not made for several reports."""


# --- Limits ----------------------------------------------------------------------------------


def check_limits(
    options: AuditOptions, facts: Sequence[FactAudit], eta: float
) -> tuple[LimitCheck, ...]:
    """Check every stated limit on every private fact; the worst fact speaks for all.

    With several releases the limit is on all of them together, and is held against the
    structural bound: only that adds up whatever readings depend on, unless the caller's word is
    that readings of different releases are independent given the private class.

    ``eta``: the tables' largest total variation between two rows of codes.
    """

    def rank(check: LimitCheck) -> tuple[int, float]:
        upper = float("inf") if check.upper is None else check.upper
        return ("broken", "not shown", "met").index(check.state), -upper

    return tuple(
        min((_check(name, limit, fact, options, eta) for fact in facts), key=rank)
        for name, limit in options.limits.items()
    )


def _check(
    name: str, limit: float, fact: FactAudit, options: AuditOptions, eta: float
) -> LimitCheck:
    releases = options.releases
    certificate = limiting_certificate(name, fact, releases, options.independent_releases)
    # What a real attacker gains for certain.
    reached = {BEYOND: fact.beyond_answer.lower, "advantage": fact.attacks.best.lower}
    upper, lower = certificate.bound, reached.get(name)
    span = ONE_REPORT if releases == 1 else f"over {releases} reports"
    if fact.rounds is not None:
        span = f"over {say_span(fact.rounds.rounds, fact.rounds.seconds)}"
    stated = f"{limit:g}" if name == "epsilon" else plain_points(limit)
    who = f"{name} of {shown(fact.name)} {span}"
    if upper is not None and upper <= limit:
        one = releases == 1 and fact.rounds is None and name != "epsilon"
        radius = (limit - upper) / eta if eta and one else None
        words = f"the {who} is at most {_say(name, upper, limit)}, within the limit of {stated}"
        words += ", by the tables alone" if certificate.of_tables else ""
        if fact.rounds is not None and name != "epsilon":
            words += f", as long as {fact.rounds.condition}"
        return LimitCheck(name, limit, fact.name, upper, lower, "met", words, radius)
    if lower is not None and lower > limit:
        words = (
            f"a real attacker ({fact.attacks.best.name}) has an {name} of at least "
            f"{at_least(lower, limit)} on {shown(fact.name)}, beyond the limit of {stated}"
        )
        return LimitCheck(name, limit, fact.name, upper, lower, "broken", words)
    if isinstance(certificate.value, NotCertifiable):
        why = certificate.value.reason
    else:
        why = f"the certified bound is {_say(name, certificate.value, limit)}"
        if certificate.of_tables:
            why += f", which the tables alone guarantee: {certificate.counted} add nothing"
        elif certificate.counted:
            why += f" with {certificate.counted}"
    words = f"the limit of {stated} on the {who} is not shown: {why}"
    return LimitCheck(name, limit, fact.name, upper, lower, "not shown", words)


def _say(name: str, upper: float, limit: float) -> str:
    return bounded(name, upper) if name == "epsilon" else at_most(upper, limit)


def limiting_certificate(
    name: str, fact: FactAudit, releases: int, independent: bool
) -> Certificate:
    """Return the bound that a limit of this name is held against."""
    if fact.rounds is not None and name != "epsilon":
        return fact.rounds.about(beyond_answer=name == BEYOND)
    if releases > 1 or fact.rounds is not None:
        return fact.over_time.certificate(name, independent)
    if name == BEYOND:
        return fact.beyond_answer.total
    return fact.certificate("information epsilon" if name == "epsilon" else name)


# --- Verdict ---------------------------------------------------------------------------------


def give_verdict(
    limits: Sequence[LimitCheck],
    facts: Sequence[FactAudit],
    public: PublicAudit,
    confidence: float,
    conditions: Sequence[str] = (),
    drawn: str = "a row drawn at random",
) -> str:
    """Return the verdict in one line.

    ``conditions``: what was declared or could not be checked. ``drawn``: what the bounds speak of.
    """
    sure = f"at {percent(confidence)} confidence, for {drawn}"
    useful = "AND USEFUL" if public.useful else "BUT NOT USEFUL"
    if public.doubt and not public.constant:
        useful = "BUT NOT SHOWN TO BE USEFUL"
    use = f"{useful}: {say_use(public)}"
    failed = [check for check in limits if not check.met]
    broken = next((check for check in failed if check.state == "broken"), None)
    if broken is not None:
        return f"LEAKS: {broken.words} ({sure}).{_provided(conditions)}"
    if failed:
        more = f" {failed[0].needed}" if failed[0].needed else ""
        certain = "" if failed[0].upper is None else f" ({sure})"  # of a bound, if there is one
        return f"NOT SHOWN: {failed[0].words}{certain}.{more}{_provided(conditions)}"
    if limits:
        kept = "; ".join(check.words for check in limits)
        state = "WITHIN LIMITS ON CONDITION" if conditions else "WITHIN LIMITS"
        return f"{state}: {kept} ({sure}); {use}.{_provided(conditions)}"
    between = "; ".join(_between(fact) for fact in facts)
    shows = any(
        fact.certificate("advantage").bound is not None or fact.attacks.best.lower > 0
        for fact in facts
    )
    certain = f" ({sure})" if shows else ""
    return f"NO LIMIT STATED: {between}{certain}; {use}.{_provided(conditions)}"


def say_use(public: PublicAudit) -> str:
    """Return what the answers are worth, beside guessing and raw readings."""
    what = shown(public.name)
    right, wrong = (
        f"guessing {rounding.percent(guessed)}, raw readings about {rounding.percent(raw)}"
        for guessed, raw in (
            (public.guessing_balanced, public.raw_balanced),
            (public.guessing_error, public.raw_error),
        )
    )
    if public.constant:
        return f"the answer to {what} is the same whatever the sensors send"
    span = percents(public.balanced.low, public.balanced.high)
    if public.doubt:
        span = "an estimate without an interval, since rows depend on one another"
    return (
        f"answers {what} with balanced accuracy {rounding.percent(public.balanced.estimate)} "
        f"({span}; {right}), error {rounding.percent(public.error)} ({wrong})"
    )


def _provided(conditions: Sequence[str]) -> str:
    if not conditions:
        return ""
    return f" This rests on what was declared or could not be checked: {'; '.join(conditions)}."


def _between(fact: FactAudit) -> str:
    upper, lower = fact.certificate("advantage").bound, fact.attacks.best.lower
    who = shown(fact.name)
    reached = (
        f"real attackers were shown to reach {at_least(lower)}"
        if lower > 0
        else "no real attacker was shown to beat guessing"
    )
    if upper is None:
        return f"{who}: no bound on the attacker's advantage can be certified, {reached}"
    return f"{who}: no attacker's advantage {ONE_REPORT} is above {at_most(upper)}, {reached}"
