"""What a day costs under each policy of repeating, and which policy costs least.

The names are those of ``--repeat``: "never" draws in every round, "code" keeps the symbol of a code
for a period, "period" sends one symbol for all of a period; "every k" sends in each k-th round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet.arrays import Floats
from discreet.leakage.belief_grid import figures_between
from discreet.leakage.chains import Chain, epsilon_over_rounds, split_rounds
from discreet.leakage.exact import advantage_at, squared_information
from discreet.leakage.round_law import RoundLaw, drawn_law, remembered_laws
from discreet.leakage.sequences import ALPHA, PeriodLaws, mean_between, sequence_figures

_DRAWS = 400  # of symbols for all codes, where ways to draw them are too many to list
AT_MOST, NO_BOUND = "at most", "no bound"
NO_BETTER = 0.99  # of certainty, from which on a bound is none
SAMPLED = f"simulated, {100 * (1 - ALPHA):.0f} %"


@dataclass(frozen=True)
class Range:
    """A figure from below and above, and how it was found."""

    low: float
    high: float
    how: str


@dataclass(frozen=True)
class PolicyLeak:
    """What all rounds tell about the fact of the middle one, under one policy.

    Attributes
    ----------
    policy : str
        "never", "code", "period" or "every k".
    releases : int
        Rounds with a symbol that may be a fresh draw.
    advantage, information : Range
        Of the best attacker over guessing; in nats.
    epsilon : float
        Largest log-ratio of all symbols between two classes; infinite if there is no bound.
    closed_form : float or None
        A simple upper bound on the advantage, for two classes and fresh draws.
    any_epsilon, any_advantage : float
        Bounds without any assumption: C1 times the number of fresh draws.
    """

    policy: str
    releases: int
    advantage: Range
    information: Range
    epsilon: float
    closed_form: float | None
    any_epsilon: float
    any_advantage: float


@dataclass(frozen=True)
class PolicyChoice:
    """The policy that tells least of those that answer in every round.

    ``clear``: whether the other ones tell more for certain, not just as far as is known.
    """

    policy: str
    clear: bool
    leaks: tuple[PolicyLeak, ...]


def choose_policy(leaks: Sequence[PolicyLeak]) -> PolicyChoice:
    """Choose between fresh draws and remembered symbols, whose answers are equally good.

    Fewer releases always tell less and answer less, so they are no choice for equal use. Where
    nothing is bounded, fresh draws: what they tell at least adds up in a known way.
    """
    same_use = [leak for leak in leaks if leak.policy in ("never", "code")]
    best = min(same_use, key=lambda leak: (leak.advantage.high, leak.policy == "code"))
    others = [leak for leak in same_use if leak is not best]
    clear = all(leak.advantage.low > best.advantage.high for leak in others)
    return PolicyChoice(best.policy, clear, tuple(leaks))


def leaks_of_policies(
    law: RoundLaw, chain: Chain | None, rounds: int, period: int, every: Sequence[int], seed: int
) -> tuple[PolicyLeak, ...]:
    """Return what each policy tells over so many rounds; without a chain nothing is assumed."""
    spans = {"never": 1, "code": 1, "period": period, **{f"every {k}": k for k in every}}
    return tuple(
        _leak(law, chain, policy, span, rounds, period, seed) for policy, span in spans.items()
    )


def _leak(
    law: RoundLaw, chain: Chain | None, policy: str, span: int, rounds: int, period: int, seed: int
) -> PolicyLeak:
    releases, remembers = -(-rounds // span), policy == "code"
    # Remembered symbols show for certain which readings differ.
    without = math.inf if remembers and law.structural else releases * law.structural
    worst = advantage_at(without, law.n_classes)
    if chain is None:
        gain, information = _from_epsilon(without, law.shares)
        return PolicyLeak(policy, releases, gain, information, without, None, without, worst)
    slower, closed = chain.every(span), None
    epsilon = without if remembers else epsilon_over_rounds(slower, law.epsilon, releases)
    if remembers:
        gain, information = _remembered(law, chain, rounds, period, seed)
    else:
        gain, information = _fresh(law, slower, releases, epsilon, seed)
        if law.given is not None and law.n_classes == 2:
            closed = closed_form(law.given, slower, releases)
    return PolicyLeak(policy, releases, gain, information, epsilon, closed, without, worst)


def _fresh(
    law: RoundLaw, chain: Chain, releases: int, epsilon: float, seed: int
) -> tuple[Range, Range]:
    if law.given is None:
        return _from_epsilon(epsilon, chain.prior)
    if law.n_classes > 2:
        return _from_sequences(PeriodLaws.fresh(law.given), chain, releases, seed)
    ((low, high),) = figures_between(law.given, chain, [releases])
    if law.worst:
        return _at_most(high.advantage, high.information, chain.prior)
    return (
        Range(low.advantage, high.advantage, "grid"),
        Range(low.information, high.information, "grid"),
    )


def _remembered(
    law: RoundLaw, chain: Chain, rounds: int, period: int, seed: int
) -> tuple[Range, Range]:
    laws = remembered_laws(law, period)
    if laws is not None:
        return _from_sequences(laws, chain, rounds, seed)
    if law.codes is None or law.n_classes > 2:
        return _from_epsilon(math.inf if law.structural else 0.0, chain.prior)
    # An attacker who is shown the drawn symbols of all codes knows no less, and the mean of roots
    # is at most the root of the mean, however many periods there are.
    rng = np.random.default_rng(seed)
    drawn = np.array([squared_information(drawn_law(law, rng)) for _ in range(_DRAWS)])
    most = _bound(mean_between(drawn, 1.0, ALPHA)[1], False, chain, rounds)
    return _at_most(most, math.inf, chain.prior, f"{AT_MOST}, {100 * (1 - ALPHA):.0f} %")


def _from_sequences(laws: PeriodLaws, chain: Chain, rounds: int, seed: int) -> tuple[Range, Range]:
    found = sequence_figures(laws, chain, rounds, seed)
    how = "listed" if found.exact else SAMPLED
    return Range(*found.advantage, how), Range(*found.information, how)


def _from_epsilon(epsilon: float, prior: Floats) -> tuple[Range, Range]:
    return _at_most(advantage_at(epsilon, len(prior)), epsilon, prior)


def _at_most(
    gain: float, information: float, prior: Floats, how: str = AT_MOST
) -> tuple[Range, Range]:
    """Return upper bounds on advantage and information, which are none where they say nothing."""
    most, everything = 1.0 - 1.0 / len(prior), entropy(prior)
    bounded = gain < NO_BETTER * most, information < NO_BETTER * everything
    return (
        Range(0.0, min(gain, most), how if bounded[0] else NO_BOUND),
        Range(0.0, min(information, everything), AT_MOST if bounded[1] else NO_BOUND),
    )


def entropy(prior: Floats) -> float:
    """Return the entropy of a law, in nats."""
    known = prior[prior > 0]
    return float(-(known @ np.log(known)))


# --- The closed form -----------------------------------------------------------------------


def closed_form(given: Floats, chain: Chain, rounds: int) -> float:
    """Bound the advantage by x = E M^2, M the posterior mean of a fact of -1 or 1, priors equal.

    Independent evidence adds up at most: x + y. It is x + y - xy at most if either M has a
    symmetric law: 1 - E M^2 of both is E[(1-u^2)(1-v^2)/(1+uv)] >= (1-x)(1-y) - E u^3 E v^3.
    A step of the chain leaves at most the share ``chain.kept``. The advantage is at most sqrt(x)/2.
    """
    return _bound(squared_information(given), _is_even(given), chain, rounds)


def _bound(x: float, even: bool, chain: Chain, rounds: int) -> float:
    if chain.is_constant:
        total = 1 - (1 - x) ** rounds if even else rounds * x
    else:
        past, future = (_one_side(x, even, chain.kept, k) for k in split_rounds(rounds))
        total = _both(_both(past, x, even), future, even and chain.is_symmetric)
    return 0.5 * math.sqrt(min(total, 1.0))


def _one_side(x: float, even: bool, kept: float, rounds: int) -> float:
    found = 0.0
    for _ in range(rounds):
        found = kept * _both(found, x, even)
    return found


def _both(x: float, y: float, even: bool) -> float:
    return x + y - x * y if even else min(x + y, 1.0)


def _is_even(given: Floats) -> bool:
    """Whether the two classes swap when outputs are renamed."""
    rounded = given.round(9)
    one, other = (each[:, np.lexsort(each)] for each in (rounded, rounded[::-1]))
    return bool(np.array_equal(one, other))
