"""Facts that last: chains of their classes, and what rounds tell of a fact together.

The chain is stationary: in every round the fact has the same law. What the past tells about the
fact of a round comes through the reversed chain, what the future tells through the chain itself.

*Exact figures for a private fact of two classes over many rounds, from below and above.* The
belief P(fact is 1 | symbols so far) is carried on a grid. An attacker who remembers only the cell
of a belief learns less (a lower bound); one whose belief is spread to the two nearest points, its
mean kept, has learned more (an upper bound). Bayes' rule and the chain keep that order
(Blackwell). Stationary chains of two classes are reversible: what the future tells has the law of
what the past tells.

*Decisions that remember: how a public fact lasts, and what rounds tell of it together.* The fact
moves from round to round by a chain. If the symbols of a round depend on the past only through the
fact of that round, as freshly drawn symbols of readings that do not resemble one another any
further do, then what is known after a round follows exactly from what was known before: a step of
the chain, times the likelihood of the round's symbols.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import expm, logm
from scipy.special import expit, rel_entr

from discreet.arrays import Floats, Ints
from discreet.data.series import Series, count_steps
from discreet.errors import InputError
from discreet.mapping.parts import PublicChain

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True)
class Chain:
    """How a fact moves: ``moves[i, j]`` is P(next is j | now is i); ``prior`` is its law."""

    moves: Floats
    prior: Floats

    @classmethod
    def constant(cls, prior: ArrayLike) -> Chain:
        """Return a fact that never changes."""
        law = np.asarray(prior, dtype=np.float64)
        return cls(np.eye(len(law)), law)

    @classmethod
    def of_stay(cls, stay: ArrayLike, prior: ArrayLike) -> Chain:
        """Return the chain of a stay probability, of one for each class, or of a whole matrix.

        A fact that leaves its class goes to each other one alike. ``prior`` is the law of a fact
        that stays for certain; every other chain has a law of its own.
        """
        law, given = np.asarray(prior, dtype=np.float64), np.asarray(stay, dtype=np.float64)
        moves = given if given.ndim == 2 else _moves(given, len(law))
        _check_moves(moves, len(law))
        stated = cls(moves, law)
        return stated if stated.is_constant else cls(moves, _stationary(moves))

    @property
    def is_constant(self) -> bool:
        """Whether the fact never changes."""
        return bool(np.array_equal(self.moves, np.eye(len(self.moves))))

    @property
    def is_symmetric(self) -> bool:
        """Whether all classes are alike, for two of them."""
        return bool(np.array_equal(self.moves, self.moves.T))

    @property
    def back(self) -> Floats:
        """P(the round before was j | now is i)."""
        return np.asarray(self.moves.T * self.prior / self.prior[:, None])

    @property
    def kept(self) -> float:
        """At most this share of a round's x is left by a step, into the past or the future.

        x sums (p1 - p0)^2 / (2 (p1 + p0)). A step multiplies the differences of two classes by the
        sum of the stay probabilities less 1, and p1 + p0 by at least 1 less their difference. For
        any number of classes x is jointly convex, so that what two rows have in common leaves none.
        """
        if self.is_constant:
            return 1.0
        if len(self.moves) == 2:
            one, other = np.diag(self.moves)
            moved, apart = abs(one + other - 1.0), abs(one - other)
            return float(min(moved, moved**2 / (1.0 - apart)) if apart < 1.0 else moved)
        return max(_widest_step(self.moves), _widest_step(self.back))

    def every(self, rounds: int) -> Chain:
        """Return the chain that is looked at in every so many rounds only."""
        return Chain(np.linalg.matrix_power(self.moves, rounds), self.prior)


def add_up(kept: float, rounds: int) -> float:
    """Return how many times the x of one round so many rounds tell at most of the middle one."""
    if kept >= 1.0:
        return float(rounds)
    return 1.0 + sum(kept * (1.0 - kept**each) / (1.0 - kept) for each in split_rounds(rounds))


def _widest_step(moves: Floats) -> float:
    """Return the largest total variation between two rows."""
    return max(1.0 - float(np.minimum(one, other).sum()) for one, other in combinations(moves, 2))


def _moves(stay: Floats, n_classes: int) -> Floats:
    if stay.ndim and len(stay) != n_classes:
        raise InputError(
            f"stay has {len(stay)} probabilities; the fact has {n_classes} classes. Give one for "
            "all, or one for each."
        )
    own = np.broadcast_to(stay, n_classes)
    moves = np.repeat(((1.0 - own) / (n_classes - 1))[:, None], n_classes, axis=1)
    np.fill_diagonal(moves, own)
    return moves


def _check_moves(moves: Floats, n_classes: int) -> None:
    if moves.shape != (n_classes, n_classes):
        raise InputError(
            f"stay has shape {moves.shape}; the fact has {n_classes} classes. Give a number, one "
            "for each class, or a square matrix."
        )
    if not (np.all(moves >= 0) and np.allclose(moves.sum(axis=1), 1.0, atol=1e-9)):
        raise InputError(
            f"stay must hold probabilities, and the rows of a matrix must sum to 1, got "
            f"{moves.tolist()}."
        )


def _stationary(moves: Floats) -> Floats:
    """Return the one law that a step leaves as it is; refuse chains that end somewhere."""
    n = len(moves)
    equations = np.vstack([moves.T - np.eye(n), np.ones(n)])
    law = np.linalg.lstsq(equations, np.r_[np.zeros(n), 1.0], rcond=None)[0]
    reached = np.linalg.matrix_power(np.eye(n) + moves, n) > 0
    if not reached.all():
        raise InputError(
            "stay must let the fact reach every class again: below 1 for each class, or 1 for all "
            f"of them (a fact that never changes), got {np.diag(moves).tolist()}."
        )
    return np.asarray(law / law.sum())


# --- Epsilon -------------------------------------------------------------------------------


def epsilon_over_rounds(chain: Chain, one_round: float, rounds: int) -> float:
    """Bound log P(all symbols | fact is a) / P(all symbols | fact is b) for the middle round.

    ``one_round`` bounds it for the symbols of a round. Each recursion (Cao et al., temporal
    privacy leakage) holds the symbols of the round itself, which count once.
    """
    if chain.is_constant or not np.isfinite(one_round):
        return rounds * one_round if one_round else 0.0
    past, future = split_rounds(rounds)
    before = epsilon_recursion(chain.back, one_round, past + 1)[-1]
    return before + epsilon_recursion(chain.moves, one_round, future + 1)[-1] - one_round


def split_rounds(rounds: int) -> tuple[int, int]:
    """Return how many rounds lie before and after the middle one."""
    past = rounds // 2
    return past, rounds - 1 - past


def epsilon_recursion(moves: Floats, one_round: float, rounds: int) -> list[float]:
    """Return what 1, 2, ... rounds on one side tell: L <- one_round + F(L)."""
    found = [one_round]
    for _ in range(rounds - 1):
        found.append(one_round + _information_through(moves, found[-1]))
    return found


def _information_through(moves: Floats, information: float) -> float:
    """Return F(L): the largest log-ratio of two rows of ``moves`` times weights in [1, e^L].

    The best weights are e^L for the classes with the largest ratios of the two rows, so that only
    prefixes of that order are tried.
    """
    rest, best = np.exp(-information), 0.0
    for one, other in permutations(moves, 2):
        with np.errstate(divide="ignore", invalid="ignore"):
            order = np.argsort(-np.nan_to_num(one / other, posinf=np.inf))
        above, below = one[order].cumsum(), other[order].cumsum()
        ratios = (above * (1 - rest) + rest) / (below * (1 - rest) + rest)
        best = max(best, float(np.log(ratios.max())))
    return best


# --- A private fact of two classes, exactly -------------------------------------------------

_POINTS = {True: 8_000, False: 2_000}  # of the grid from above and from below
_ENTRIES = {True: 2**18, False: 2**16}  # most points times outputs
_OUTPUTS = {True: 128, False: 64}  # kinds of outputs that are carried exactly
_INFORMATION_POINTS = 600
_DEVIATIONS = 10.0  # of the summed log-ratios that the fine part of the grid spans


@dataclass(frozen=True)
class Figures:
    """What an attacker who sees all rounds knows of the fact of one."""

    advantage: float
    information: float


def figures_between(
    given: Floats, chain: Chain, rounds: Sequence[int]
) -> list[tuple[Figures, Figures]]:
    """Return lower and upper figures of the middle one of so many rounds, for each number."""
    lower, upper = (list(_figures(given, chain, rounds, up)) for up in (False, True))
    return list(zip(lower, upper, strict=True))


def _figures(given: Floats, chain: Chain, rounds: Sequence[int], up: bool) -> Iterator[Figures]:
    few = _few_outputs(given, up)
    splits = [(n - 1, 0) if chain.is_constant else split_rounds(n) for n in rounds]
    wanted = {each for split in splits for each in split}
    laws = {k: law for k, law in enumerate(_laws(few, chain, max(wanted), up)) if k in wanted}
    for past, future in splits:
        seen, ahead, prior = _seen(laws[past], few), laws[future], chain.prior
        gain = _advantage(seen / prior[:, None], ahead / prior[:, None])
        yield Figures(gain, _information(seen, ahead, prior, up))


def _laws(given: Floats, chain: Chain, rounds: int, up: bool) -> Iterator[Floats]:
    """Yield the joint law of fact and belief before the first round, the second, and so on."""
    points = min(_POINTS[up], _ENTRIES[up] // len(given.T))
    edges = _edges(given, chain, rounds, points)
    law = _shrunk(chain.prior[:, None], edges, up)
    step = _spreading_step(given, chain, edges) if up else None
    for _ in range(rounds):
        yield law
        if step is None:
            law = _shrunk(chain.moves.T @ _seen(law, given), edges, up)
        else:
            law = _at(edges, step @ law.sum(axis=0))
    yield law


def _spreading_step(given: Floats, chain: Chain, edges: Floats) -> csr_array:
    """Return how a round moves mass among points: Bayes' rule, the chain, and the spreading."""
    moved = chain.moves.T @ _seen(_at(edges, np.ones(len(edges))), given)
    target, weights = _spread(moved, edges)
    source = np.tile(np.repeat(np.arange(len(edges)), len(given.T)), 2)
    from scipy.sparse import csr_array  # a fusion centre, which filters rounds, has no use for it

    return csr_array((weights.ravel(), (target.ravel(), source)), (len(edges),) * 2)


def _at(beliefs: Floats, mass: Floats) -> Floats:
    """Return the joint law of fact and belief with so much mass at each belief."""
    return np.stack([mass * (1.0 - beliefs), mass * beliefs])


def _seen(law: Floats, given: Floats) -> Floats:
    """Return the joint law of fact and belief, once the symbols of a round are seen as well."""
    return (law[:, :, None] * given[:, None, :]).reshape(2, -1)


def _belief(law: Floats) -> Floats:
    mass = law.sum(axis=0)
    return np.asarray(np.divide(law[1], mass, out=np.full(len(mass), 0.5), where=mass > 0))


def _cell(law: Floats, edges: Floats) -> Ints:
    found = np.searchsorted(edges, _belief(law), side="right") - 1
    return np.clip(found, 0, len(edges) - 2)


def _spread(law: Floats, edges: Floats) -> tuple[Ints, Floats]:
    """Return the two neighbours of each belief and how much of its mass goes to them."""
    cell = _cell(law, edges)
    share = np.clip((_belief(law) - edges[cell]) / (edges[cell + 1] - edges[cell]), 0.0, 1.0)
    return np.stack([cell, cell + 1]), np.stack([1.0 - share, share]) * law.sum(axis=0)


def _shrunk(law: Floats, edges: Floats, up: bool) -> Floats:
    """Return a joint law with no more beliefs than there are edges."""
    if up:
        target, weights = _spread(law, edges)
        return _at(edges, _sums(target.ravel(), weights.ravel(), len(edges)))
    cell = _cell(law, edges)
    found = np.stack([_sums(cell, row, len(edges) - 1) for row in law])
    return found[:, found.sum(axis=0) > 0]


def _sums(cell: Ints, values: Floats, size: int) -> Floats:
    return np.bincount(cell, values, size).astype(np.float64, copy=False)


def _few_outputs(given: Floats, up: bool) -> Floats:
    """Merge outputs that tell the same; beyond many, those that tell nearly the same."""
    possible = given[:, given.sum(axis=0) > 0]
    kinds, which = np.unique(_belief(possible).round(14), return_inverse=True)
    merged = np.stack([_sums(which, row, len(kinds)) for row in possible])
    if len(kinds) <= _OUTPUTS[up]:
        return merged
    return 2 * _shrunk(merged / 2, np.linspace(kinds[0], kinds[-1], _OUTPUTS[up]), up)


def _edges(given: Floats, chain: Chain, rounds: int, points: int) -> Floats:
    """Return where beliefs are distinguished: finely where they can be, and 0 and 1.

    Even steps of the angle arccos(1 - 2 b) tell equally much. Beliefs lie where the log-ratios of
    all rounds take them, up to rare tails, and where a chain that forgets lets them come.
    """
    spans = np.array([_log_span(given, chain.prior, rounds), _reached(given, chain, rounds)])
    low, high = spans[:, 0].max(), spans[:, 1].min()
    return np.unique(np.r_[0.0, _evenly(low, high, points), 1.0])


def _evenly(low: float, high: float, points: int) -> Floats:
    angles = np.linspace(np.arccos(1.0 - 2.0 * low), np.arccos(1.0 - 2.0 * high), points)
    return np.clip((1.0 - np.cos(angles)) / 2, low, high)


def _log_span(given: Floats, prior: Floats, rounds: int) -> tuple[float, float]:
    if given.min() == 0:  # one output may settle the fact
        return 0.0, 1.0
    ratios = np.log(given[1] / given[0])
    means = given @ ratios
    spread = np.sqrt(np.maximum(given @ ratios**2 - means**2, 0.0))
    reach = _DEVIATIONS * np.sqrt(rounds) * spread + np.abs(ratios).max()
    start = np.log(prior[1] / prior[0])
    low, high = (rounds * means - reach).min(), (rounds * means + reach).max()
    return float(expit(start + low)), float(expit(start + high))


def _reached(given: Floats, chain: Chain, rounds: int) -> tuple[float, float]:
    """Return the least and the largest belief that a chain lets symbols lead to."""
    ends = np.full(2, chain.prior[1])
    for _ in range(rounds):
        seen = chain.moves.T @ _seen(np.stack([1.0 - ends, ends]), given)
        beliefs = _belief(seen[:, seen.sum(axis=0) > 0])
        wider = np.array([min(ends[0], beliefs.min()), max(ends[1], beliefs.max())])
        if np.allclose(wider, ends, rtol=0.0, atol=1e-15):
            break
        ends = wider
    return float(ends[0]), float(ends[1])


def _advantage(one: Floats, other: Floats) -> float:
    """Half the total variation of two beliefs that are independent given the fact.

    The second law is summed up once, sorted by its belief.
    """
    belief = _belief(other)
    order = np.argsort(belief)
    sums = np.concatenate([np.zeros((2, 1)), other[:, order].cumsum(axis=1)], axis=1)
    first = np.searchsorted(belief[order], 1.0 - _belief(one))
    above = one * (sums[:, -1:] - sums[:, first])
    return 0.5 * float(above[1].sum() - above[0].sum())


def _information(past: Floats, future: Floats, prior: Floats, up: bool) -> float:
    few = []
    for law in (past, future):
        beliefs = _belief(law[:, law.sum(axis=0) > 0])
        edges = np.unique(_evenly(beliefs.min(), beliefs.max(), _INFORMATION_POINTS))
        few.append(_shrunk(law, edges, up) if len(edges) > 2 else law)
    joint = (few[0][:, :, None] * few[1][:, None, :]).reshape(2, -1) / prior[:, None]
    return float(rel_entr(joint, prior[:, None] * joint.sum(axis=0)).sum())


# --- Decisions that remember ----------------------------------------------------------------

MIN_STEPS = 30
"""Fewest pairs of successive rows that a chain is estimated from."""
_SMOOTHING = 0.5  # of each move, so that none is impossible for not having been seen
_LEAST = 1e-12  # below it a class is taken to be impossible for rounding only


def filter_rounds(belief: Floats, moves: Floats, evidence: Floats) -> Floats:
    """Return the probabilities of the classes after each of some successive rounds.

    ``belief``: after the round before. ``evidence``: log-likelihoods of each round's symbols, up to
    a constant; all equal where nothing was heard. Rounds come first and classes last; what lies
    between are series of their own.
    """
    found = np.empty_like(evidence)
    likelihoods = np.exp(evidence - evidence.max(axis=-1, keepdims=True))
    for i, likelihood in enumerate(likelihoods):
        joint = np.maximum(belief @ moves, _LEAST) * likelihood
        belief = found[i] = joint / joint.sum(axis=-1, keepdims=True)
    return found


def moves_over(chain: PublicChain, interval: float) -> Floats:
    """Return how the fact moves from round to round if those are so many seconds apart.

    Over a part of its own interval a chain has moves only if it is one in continuous time; of
    another one, rates below 0 are taken to be 0.
    """
    moves, times = np.array(chain.moves), interval / chain.interval
    moves /= moves.sum(axis=1, keepdims=True)
    if times >= 1 and abs(times - round(times)) < 1e-9 * times:
        return np.asarray(np.linalg.matrix_power(moves, round(times)))
    rates = np.maximum(np.real(logm(np.maximum(moves, _LEAST))), 0.0)
    np.fill_diagonal(rates, 0.0)
    np.fill_diagonal(rates, -rates.sum(axis=1))
    return np.asarray(expm(times * rates))


# --- Learning it ---------------------------------------------------------------------------


def estimate_chain(
    classes: NDArray[Any], n_classes: int, series: Series, kept: NDArray[np.bool_]
) -> PublicChain:
    """Estimate how a fact moves from rows that follow one another, if both may be learned from."""
    learned = kept & kept[series.follows]  # of the rows without another one none is counted
    counts = count_steps(classes, np.where(learned, series.follows, -1), n_classes)
    if (steps := int(counts.sum())) < MIN_STEPS:
        raise InputError(
            f"{steps} rows to learn from have another one {series.step:g} s later; at least "
            f"{MIN_STEPS} are needed to see how long the public fact lasts. Give the time between "
            "rounds with --every, hold out whole days with --group, or leave out --time-column."
        )
    moves = (counts + _SMOOTHING) / (counts + _SMOOTHING).sum(axis=1, keepdims=True)
    return PublicChain(moves=moves.tolist(), interval=series.step, steps=steps)
