"""The verdict in one line, in two halves: private enough, and useful.

What it rests on stands in it: whatever was declared instead of checked, and whatever could not
be checked. A verdict with such conditions is never plain.
"""

from __future__ import annotations

from collections.abc import Sequence

from discreet.auditing.certificates import percent
from discreet.auditing.results import FactAudit, LimitCheck, PublicAudit
from discreet.values import shown


def give_verdict(
    limits: Sequence[LimitCheck],
    facts: Sequence[FactAudit],
    public: PublicAudit,
    confidence: float,
    conditions: Sequence[str] = (),
    drawn: str = "a row drawn at random",
) -> str:
    """Return the verdict in one line.

    Parameters
    ----------
    conditions : sequence of str
        What was declared or could not be checked.
    drawn : str
        What the bounds speak of.
    """
    sure = f"at {percent(confidence)} confidence, for {drawn}"
    use = ("AND USEFUL" if public.useful else "BUT NOT USEFUL") + f": {say_use(public)}"
    failed = [check for check in limits if not check.met]
    broken = next((check for check in failed if check.state == "broken"), None)
    if broken is not None:
        return f"LEAKS: {broken.words} ({sure}).{_provided(conditions)}"
    if failed:
        more = f" {failed[0].needed}" if failed[0].needed else ""
        return f"NOT SHOWN: {failed[0].words} ({sure}).{more}{_provided(conditions)}"
    if limits:
        kept = "; ".join(check.words for check in limits)
        state = "WITHIN LIMITS ON CONDITION" if conditions else "WITHIN LIMITS"
        return f"{state}: {kept} ({sure}); {use}.{_provided(conditions)}"
    between = "; ".join(_between(fact) for fact in facts)
    return f"NO LIMIT STATED: {between} ({sure}); {use}.{_provided(conditions)}"


def say_use(public: PublicAudit) -> str:
    """Return what the answers are worth, beside guessing and raw readings."""
    what = shown(public.name)
    beside = (
        f"guessing {public.guessing_balanced:.3f}, raw readings about {public.raw_balanced:.3f}"
    )
    if public.constant:
        return f"the answer to {what} is the same whatever the sensors send"
    span = f"{public.balanced.low:.3f} to {public.balanced.high:.3f}"
    return (
        f"answers {what} with balanced accuracy {public.balanced.estimate:.3f} ({span}; {beside}), "
        f"error {public.error:.3f} (guessing {public.guessing_error:.3f}, raw readings about "
        f"{public.raw_error:.3f})"
    )


def _provided(conditions: Sequence[str]) -> str:
    if not conditions:
        return ""
    return f" This rests on what was declared or could not be checked: {'; '.join(conditions)}."


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
