"""The accountant: what a private fact loses over many rounds, under each policy of repeating.

Advantage is balanced accuracy above guessing, about the fact of the middle round, for an attacker
who sees all rounds before and after it. Bounds by C1 assume nothing; every other figure assumes
that the symbols of a round depend on the past only through the fact of that round.

*What a day costs under each policy of repeating, and which policy costs least.* The names are
those of ``--repeat``: "never" draws in every round, "code" keeps the symbol of a code for a
period, "period" sends one symbol for all of a period; "every k" sends in each k-th round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from discreet.arrays import Floats, Ints
from discreet.data.columns import check_column
from discreet.errors import InputError, shown
from discreet.leakage.chains import Chain, epsilon_over_rounds, figures_between, split_rounds
from discreet.leakage.exact import advantage_at, squared_information
from discreet.leakage.sequences import (
    ALPHA,
    PeriodLaws,
    RoundLaw,
    drawn_law,
    mean_between,
    remembered_laws,
    sequence_figures,
)
from discreet.mapping.mapping import Mapping
from discreet.mapping.parts import Fact

# --- Policies -------------------------------------------------------------------------------

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

    ``policy``: "never", "code", "period" or "every k". ``releases``: rounds with a symbol that may
    be a fresh draw. ``advantage``, ``information``: of the best attacker over guessing; in nats.
    ``epsilon``: largest log-ratio of all symbols between two classes; infinite if there is no
    bound. ``closed_form``: a simple upper bound on the advantage, for two classes and fresh draws.
    ``any_epsilon``, ``any_advantage``: bounds without any assumption: C1 times the number of fresh
    draws.
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
    most = best.advantage.high
    clear = all(leak.advantage.low > most for leak in same_use if leak is not best)
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
    gain = Range(low.advantage, high.advantage, "grid")
    return gain, Range(low.information, high.information, "grid")


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


# --- The accountant -------------------------------------------------------------------------

MOST_ROUNDS = 100_000
_HIDDEN = (
    "if the symbols of a round (with code: its codes) depend on the past only through the fact of "
    "that round"
)
_NOTHING = "nothing is assumed: only C1 times the number of fresh draws is a bound"
_FEW_POINTS = 8  # of a curve whose points are simulated


@dataclass(frozen=True)
class LeakOverTime:
    """What all rounds tell about a private fact.

    ``source``: where the law of a round comes from. ``one_round``: advantage and information (nats)
    of one round. ``leaks``: one for each policy: "never", "code", "period", "every k".
    ``assumptions``: what the figures rest on. ``law``, ``chain``: what they were computed from;
    ``chain`` is None if nothing is assumed.
    """

    fact: str
    rounds: int
    period_rounds: int
    source: str
    one_round: tuple[float, float] | None
    one_round_epsilon: float
    leaks: tuple[PolicyLeak, ...]
    assumptions: tuple[str, ...]
    law: RoundLaw
    chain: Chain | None

    @property
    def choice(self) -> PolicyChoice:
        """The policy that tells least of those that answer in every round."""
        return choose_policy(self.leaks)

    def curve(self) -> list[tuple[int, Range, float | None]]:
        """Return the advantage of fresh draws after more and more rounds, with its closed form.

        Empty if nothing is assumed, or if the law of a round is not known.
        """
        if self.chain is None or self.law.given is None:
            return []
        given, chain = self.law.given, self.chain
        points = 24 if self.law.n_classes == 2 else _FEW_POINTS
        counts = np.unique(np.geomspace(1, self.rounds, points).round().astype(int)).tolist()
        if self.law.n_classes > 2:
            found = (sequence_figures(PeriodLaws.fresh(given), chain, n) for n in counts)
            ends = [each.advantage for each in found]
            return [(n, Range(*each, SAMPLED), None) for n, each in zip(counts, ends, strict=True)]
        sides = figures_between(given, chain, counts)
        return [
            (n, Range(low.advantage, high.advantage, "grid"), closed_form(given, chain, n))
            for n, (low, high) in zip(counts, sides, strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the law, for JSON; None stands for no bound."""
        gain, information = (None, None) if self.one_round is None else self.one_round
        epsilon = _finite(self.one_round_epsilon)
        return {
            "fact": self.fact,
            "rounds": self.rounds,
            "period_rounds": self.period_rounds,
            "source": self.source,
            "one_round": {"advantage": gain, "information": information, "epsilon": epsilon},
            "policies": [{k: _finite(v) for k, v in asdict(leak).items()} for leak in self.leaks],
            "least": {"policy": self.choice.policy, "clear": self.choice.clear},
            "assumptions": list(self.assumptions),
        }


def over_time(
    mapping: Mapping,
    rows: pd.DataFrame | None = None,
    *,
    rounds: int = 1440,
    stay: ArrayLike | None = None,
    fact: str | None = None,
    period_rounds: int | None = None,
    every: Sequence[int] = (4, 16),
    beyond_answer: bool = False,
    random_state: int = 0,
) -> LeakOverTime:
    """Compute what many rounds tell about a private fact, under each policy of repeating.

    Parameters
    ----------
    mapping : Mapping
    rows : DataFrame, optional
        Labelled rows: the sensors' readings and the private fact. They give an estimate of what
        one round tells, and no certificate; take rows that the mapping was not learned from.
        Without rows, or with too many joint outputs to list, the worst that the tables allow.
    rounds : int, default=1440
        Reports of each sensor, such as those of a day.
    stay : float, sequence of float or 2-D array, optional
        Probability that the fact is the same in the next round: one, one for each class, or the
        whole matrix of P(next | now). 1 is a fact that never changes. Without it nothing is
        assumed about the fact or the readings, and only structural bounds are given.
    fact : str, optional
        The private fact, if the mapping guards several.
    period_rounds : int, optional
        Rounds of a period of the policies "code" and "period". By default all.
    every : sequence of int, default=(4, 16)
        Also look at sensors that report in every k-th round only.
    beyond_answer : bool, default=False
        For an attacker who knows the public fact, which stays at the class that gives away most.
    random_state : int, default=0
        Seed of what is simulated.

    Returns
    -------
    LeakOverTime

    Raises
    ------
    InputError
        If parameters, columns or classes do not fit.

    Examples
    --------
    >>> import pandas as pd
    >>> from discreet import RandomizedResponseMapper, over_time
    >>> readings = pd.DataFrame({"hall": [0, 1, 2, 3] * 10, "door": [0, 0, 1, 1] * 10})
    >>> fall, who = [0, 0, 1, 1] * 10, ["a", "b"] * 20
    >>> mapper = RandomizedResponseMapper(ldp_epsilon=0.1).fit(readings, fall, private=who)
    >>> rows = readings.assign(private=who)
    >>> found = over_time(mapper.mapping_, rows, rounds=60, stay=0.9)
    >>> 0.0 <= found.leaks[0].advantage.low <= found.leaks[0].advantage.high < 0.5
    True
    """
    period = rounds if period_rounds is None else period_rounds
    _check_counts(rounds, period, every)
    own = _fact(mapping, fact)
    law = _law(mapping, rows, own, beyond_answer)
    chain = None if stay is None else Chain.of_stay(stay, law.shares)
    return LeakOverTime(
        fact=own.name,
        rounds=rounds,
        period_rounds=period,
        source=law.source,
        one_round=law.figures,
        one_round_epsilon=law.epsilon,
        leaks=leaks_of_policies(law, chain, rounds, period, every, random_state),
        assumptions=_assumptions(law, chain, rounds),
        law=law,
        chain=chain,
    )


def advantage_of_rounds(
    mapping: Mapping, rows: pd.DataFrame, *, rounds: int, stay: ArrayLike, fact: str | None = None
) -> float:
    """Estimate the advantage after so many rounds of fresh draws, the upper end of a range."""
    own = _fact(mapping, fact)
    law = _law(mapping, rows, own, False)
    chain = Chain.of_stay(stay, law.shares)
    if law.given is None:
        return 1.0 - 1.0 / law.n_classes  # outputs are too many to list: nothing is known
    if law.n_classes > 2:
        return sequence_figures(PeriodLaws.fresh(law.given), chain, rounds).advantage[1]
    ((_, high),) = figures_between(law.given, chain, [rounds])
    return high.advantage


def _check_counts(rounds: int, period: int, every: Sequence[int]) -> None:
    if not 1 <= rounds <= MOST_ROUNDS:
        raise InputError(f"rounds must be from 1 to {MOST_ROUNDS}, got {rounds}.")
    if not 1 <= period <= rounds:
        raise InputError(f"period_rounds must be from 1 to the {rounds} rounds, got {period}.")
    if min(every, default=1) < 1:
        raise InputError(f"every must hold numbers of at least 1, got {min(every)}.")


def _fact(mapping: Mapping, name: str | None) -> Fact:
    names = [fact.name for fact in mapping.private]
    if name is None and len(names) == 1:
        return mapping.private[0]
    if name not in names:
        listed = ", ".join(map(repr, names)) or "none"
        raise InputError(f"fact must be one that the mapping guards ({listed}), got {name!r}.")
    return mapping.private[names.index(name)]


# --- The law of a round --------------------------------------------------------------------


def _law(mapping: Mapping, rows: pd.DataFrame | None, fact: Fact, beyond_answer: bool) -> RoundLaw:
    if rows is None:
        why = "whatever the sensors read"
        return RoundLaw.of_tables(mapping.tables, len(fact.classes), why)
    for name in (*mapping.names, fact.name, *([mapping.public.name] * beyond_answer)):
        check_column(rows.columns, name, "readings or labels")
    codes, index = mapping.encode(rows), fact.places(rows[fact.name])
    if not beyond_answer:
        return _estimate(mapping, codes, index, fact)
    public = mapping.public.places(rows[mapping.public.name])
    own = (public == h for h in range(len(mapping.public.classes)))
    laws = [_estimate(mapping, codes[each], index[each], fact) for each in own]
    return max(laws, key=lambda law: math.inf if law.figures is None else law.figures[0])


def _estimate(mapping: Mapping, codes: Ints, index: Ints, fact: Fact) -> RoundLaw:
    counts = np.bincount(index, minlength=len(fact.classes))
    if counts.min() == 0:
        missing = shown(fact.classes[int(counts.argmin())])
        raise InputError(
            f"no row has the class {missing} of {fact.name!r} (in each public class, beyond the "
            "answer), so that nothing is known of it. Add rows, or leave the rows out."
        )
    return RoundLaw.of_rows(mapping.tables, codes, index, len(fact.classes))


def _assumptions(law: RoundLaw, chain: Chain | None, rounds: int) -> tuple[str, ...]:
    if chain is None:
        return (_NOTHING,)
    shares = ", ".join(f"{share:.3g}" for share in chain.prior)
    if not law.worst:
        shares += "; in the rows " + ", ".join(f"{share:.3g}" for share in law.shares)
    if chain.is_constant:
        lasts = f"if the fact does not change in the {rounds:,} rounds"
    else:
        stays = ", ".join(f"{stay:.6g}" for stay in np.diag(chain.moves))
        lasts = f"if the fact stays with probability {stays} from round to round (shares {shares})"
    return (_HIDDEN, lasts, law.source)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
