"""A private fact that lasts: a Markov chain of its classes, and epsilon over its rounds.

The chain is stationary: in every round the fact has the same law. What the past tells about the
fact of a round comes through the reversed chain, what the future tells through the chain itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import Floats
from discreet.errors import InputError


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
        if np.array_equal(moves, np.eye(len(law))):
            return cls(moves, law)
        return cls(moves, _stationary(moves))

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
        found: Floats = self.moves.T * self.prior / self.prior[:, None]
        return found

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
    law: Floats = np.linalg.lstsq(equations, np.r_[np.zeros(n), 1.0], rcond=None)[0]
    reached = np.linalg.matrix_power(np.eye(n) + moves, n) > 0
    if not reached.all():
        raise InputError(
            "stay must let the fact reach every class again: below 1 for each class, or 1 for all "
            f"of them (a fact that never changes), got {np.diag(moves).tolist()}."
        )
    found: Floats = law / law.sum()
    return found


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
