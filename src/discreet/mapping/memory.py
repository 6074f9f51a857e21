"""Decisions that remember: how a public fact lasts, and what rounds tell of it together.

The fact moves from round to round by a chain. If the symbols of a round depend on the past only
through the fact of that round, as freshly drawn symbols of readings that do not resemble one
another any further do, then what is known after a round follows exactly from what was known before:
a step of the chain, times the likelihood of the round's symbols.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm, logm

from discreet.arrays import Floats
from discreet.data.series import Series, count_steps
from discreet.errors import InputError
from discreet.mapping.parts import PublicChain

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
