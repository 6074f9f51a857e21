"""Attackers who watch many rounds: what they reach against the length of what they see.

Two attackers learn from some days (or other groups) of a series and guess the fact of every round
of the others. One knows the tables and the codes of the rounds it learns from, takes the fact for
a chain and weighs all rounds of a window around the one in question (forward and backward). The
other learns, with boosted trees, from how often each symbol was sent in windows of several lengths
and from which rounds were silent; it assumes nothing. What either reaches any attacker can reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from discreet.arrays import Floats, Ints

WINDOWS = (1, 4, 16, 60, 250, 1_000)
_MOST_TAUGHT = 20_000  # rounds that the trees learn from


@dataclass(frozen=True)
class Rounds:
    """The rounds of a series in order: what was sent, the fact, and where a stretch begins.

    ``symbols`` of shape (n_rounds, n_sensors), -1 where a sensor was silent. ``given`` of shape
    (n_rounds, n_classes): the likelihood of a round's symbols. ``stretch``: number of the unbroken
    stretch of a round; ``group``: the day, say, whose rounds are learned from or guessed together.
    """

    symbols: Ints
    given: Floats
    fact: Ints
    stretch: Ints
    group: Ints


@dataclass(frozen=True)
class WindowAttack:
    """How much better than guessing an attacker was, balanced, and the standard error by group."""

    name: str
    window: int
    advantage: float
    error: float


def attack_windows(
    rounds: Rounds, taught: Ints, moves: Floats, windows: Sequence[int] = WINDOWS, seed: int = 0
) -> list[WindowAttack]:
    """Attack the rounds of groups that are not ``taught``, in windows of each length."""
    learned_from = np.isin(rounds.group, taught)
    found = []
    for window in windows:
        weighed = watch(rounds, moves, window)
        found.append(_judged("forward-backward", window, weighed, rounds, ~learned_from))
        stood = window_statistics(rounds, window)
        scores = _boosted(stood, rounds.fact, learned_from, len(moves), seed)
        found.append(_judged("boosted trees", window, scores, rounds, ~learned_from))
    return found


def watch(rounds: Rounds, moves: Floats, window: int) -> Floats:
    """Return the likelihood of a window's symbols for every class of the round in its middle."""
    before, after = (window - 1) // 2, window // 2
    past = _carried(rounds.given, rounds.stretch, _reversed_chain(moves), before)
    future = _carried(rounds.given[::-1], rounds.stretch[::-1], moves, after)[::-1]
    return _scaled(rounds.given * past * future)


def _carried(given: Floats, stretch: Ints, step: Floats, length: int) -> Floats:
    """Return what ``length`` rounds before each one say of its class; 1 where there are none.

    ``step[g, h]``: P(the class one round earlier in this direction is h | this one's is g).
    """
    belief = np.ones_like(given)
    for back in range(length, 0, -1):  # the farthest round comes first
        earlier = np.arange(len(given)) - back
        there = earlier >= 0
        there[there] = stretch[earlier[there]] == stretch[there]
        seen = np.ones_like(given)
        seen[there] = given[earlier[there]]
        belief = _scaled((belief * seen) @ step.T)
    return belief


def _scaled(likelihoods: Floats) -> Floats:
    largest = likelihoods.max(axis=1, keepdims=True)
    scaled: Floats = likelihoods / np.where(largest > 0, largest, 1.0)
    return scaled


def _reversed_chain(moves: Floats) -> Floats:
    values, vectors = np.linalg.eig(moves.T)
    law = np.abs(np.real(vectors[:, np.argmin(np.abs(values - 1.0))]))
    back: Floats = moves.T * law / np.maximum(law, 1e-300)[:, None]
    back /= back.sum(axis=1, keepdims=True)
    return back


def window_statistics(rounds: Rounds, window: int) -> Floats:
    """Return how often each symbol was sent around a round, in windows up to the one given.

    Of the symbols of a sensor that are not silence, the first follows from the others.
    """
    sent = [
        rounds.symbols[:, t] == z
        for t in range(rounds.symbols.shape[1])
        for z in np.unique(rounds.symbols[:, t])
        if z != 0
    ]
    here = np.array([*sent, np.ones(len(rounds.fact), dtype=bool)], dtype=np.float64).T
    return np.hstack([_window_sums(here, rounds.stretch, each) for each in _lengths(window)])


def _lengths(window: int) -> list[int]:
    return sorted({1, *(each for each in (3, 9, 31, 101, 301) if each < window), window})


def _window_sums(values: Floats, stretch: Ints, window: int) -> Floats:
    sums = np.vstack([np.zeros(values.shape[1]), values.cumsum(axis=0)])
    place = np.arange(len(values))
    first = np.searchsorted(stretch, stretch)
    last = np.searchsorted(stretch, stretch, side="right")
    begin = np.maximum(place - (window - 1) // 2, first)
    end = np.minimum(place + window // 2 + 1, last)
    found: Floats = sums[end] - sums[begin]
    return found


def _boosted(features: Floats, fact: Ints, taught: np.ndarray, n_classes: int, seed: int) -> Floats:
    rows = np.flatnonzero(taught)[:_MOST_TAUGHT]
    scores = np.ones((len(fact), n_classes))
    if len(np.unique(fact[rows])) < 2:
        return scores
    # One thread: trees this small spend most of the time waiting for one another on a busy machine.
    with threadpool_limits(limits=1):
        model = HistGradientBoostingClassifier(
            max_iter=60, max_depth=4, class_weight="balanced", random_state=seed
        ).fit(features[rows], fact[rows])
        scores[:, model.classes_] += model.predict_proba(features)
    return scores


def _judged(
    name: str, window: int, scores: Floats, rounds: Rounds, judged: np.ndarray
) -> WindowAttack:
    """Return balanced accuracy over guessing; ties are shared among the classes that tie."""
    fact, m = rounds.fact[judged], scores.shape[1]
    best = scores[judged] >= scores[judged].max(axis=1, keepdims=True) * (1 - 1e-12)
    right = best[np.arange(len(fact)), fact] / best.sum(axis=1)
    shares = np.bincount(fact, minlength=m)
    there = shares > 0
    weight = 1.0 / (shares[fact] * there.sum())
    gain = float(right @ weight) - 1.0 / int(there.sum())
    days = np.unique(rounds.group[judged], return_inverse=True)[1]
    parts = np.bincount(days, weights=(right - float(right @ weight)) * weight)
    return WindowAttack(name, window, gain, float(np.sqrt((parts**2).sum())))
