"""The privacy budgets of the paper's proposition and theorems (Sun, Tay and He).

They turn a risk into an epsilon through c, the probability of the outputs with the most
extreme likelihood ratios. For two classes -1 and 1, the rows 0 and 1 of ``given``:

    proposition   epsilon = log c / (c + 2 theta - 1)_+         if min R >= theta
    theorem       epsilon = log c / (c - 2 a (phi(0) - theta + delta)^(1/r))_+

For m > 2 classes, class 0 is compared with each other one and both budgets double. The
paper prints half the logarithm in its last theorem; the result it rests on has twice.

The theorems hold for sample sizes beyond some n_0 that nobody knows, and their delta is
both a mass of outputs and a chance over the training rows. They are theory to compare
with and no certificate: ``asymptotic`` says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.arrays import Floats
from discreet.leakage.exact import pair_risk

_TIE = 1e-9  # likelihood ratios this close, relatively, count as equal


@dataclass(frozen=True)
class Budget:
    """An epsilon of the paper.

    ``epsilon``: infinite where the formula says nothing. ``c``: least probability of an extreme
    likelihood ratio. ``theta``: the risk it was computed from. ``asymptotic``: whether it holds
    only beyond an unknown number of rows.
    """

    epsilon: float
    c: float
    theta: float
    asymptotic: bool


def extreme_probability(given: Floats) -> float:
    """Return c: how likely the least and the largest likelihood ratios are.

    The smaller of P(ratio is least | class 0) and P(ratio is largest | class g), over all
    g >= 1. Outputs that no class sends do not count; 0 if supports differ, where the
    paper's assumption fails.
    """
    possible = given[:, given.max(axis=0) > 0]
    if (possible == 0).any():
        return 0.0
    smallest = 1.0
    for row in possible[1:]:
        ratio = row / possible[0]
        least = float(possible[0, ratio <= ratio.min() * (1 + _TIE)].sum())
        largest = float(row[ratio >= ratio.max() * (1 - _TIE)].sum())
        smallest = min(smallest, least, largest)
    return smallest


def proposition_budget(given: Floats, theta: float | None = None) -> Budget:
    """Return the epsilon that min R >= theta implies when the distribution is known.

    ``theta`` is the least R of class 0 against another one unless it is given. With two
    classes this is the paper's Proposition 1, with more its Theorem 2.
    """
    if theta is None:
        theta = min(pair_risk(np.stack([given[0], row])) for row in given[1:])
    c = extreme_probability(given)
    return Budget(_log_share(c, 1.0 - 2.0 * theta, len(given)), c, theta, asymptotic=False)


def theorem_budget(
    given: Floats, theta: float, delta: float, *, at_zero: float, a: float, r: float
) -> Budget:
    """Return the epsilon of the (epsilon, delta) theorems for an empirical risk floor.

    ``given`` of shape (n_classes, n_outputs): for c only. ``theta``: floor of the regularised
    empirical risk. ``at_zero``, ``a``, ``r``: phi(0) and the constants of the loss (paper,
    Assumption 3).
    """
    c = extreme_probability(given)
    distance = 2.0 * a * max(at_zero - theta + delta, 0.0) ** (1.0 / r)
    return Budget(_log_share(c, distance, len(given)), c, theta, asymptotic=True)


def _log_share(c: float, lost: float, n_classes: int) -> float:
    left = c - lost
    if left <= 0:
        return float("inf")
    return (1 if n_classes == 2 else 2) * max(0.0, float(np.log(c / left)))
