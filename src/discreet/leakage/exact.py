"""What a fusion centre can learn from outputs whose distribution is known.

Every function takes ``given``, one row per class: p(z|class) over all outputs z, and
where it matters the ``prior`` of the classes. No sampling and no estimation here;
where the numbers come from decides what they mean.

*The privacy budgets of the paper's proposition and theorems (Sun, Tay and He).* They turn a risk
into an epsilon through c, the probability of the outputs with the most extreme likelihood ratios.
For two classes -1 and 1, the rows 0 and 1 of ``given``:

    proposition   epsilon = log c / (c + 2 theta - 1)_+         if min R >= theta
    theorem       epsilon = log c / (c - 2 a (phi(0) - theta + delta)^(1/r))_+

For m > 2 classes, class 0 is compared with each other one and both budgets double. The
paper prints half the logarithm in its last theorem; the result it rests on has twice.

The theorems hold for sample sizes beyond some n_0 that nobody knows, and their delta is
both a mass of outputs and a chance over the training rows. They are theory to compare
with and no certificate: ``asymptotic`` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import rel_entr

from discreet.arrays import Floats

ROUND_UP = 1 + 1e-12  # outweighs rounding errors in sums and logarithms


def bayes_error(given: Floats, prior: Floats) -> float:
    """Return the least probability of error of any rule that guesses the class."""
    return 1.0 - float(np.max(prior[:, None] * given, axis=0).sum())


def balanced_accuracy(given: Floats) -> float:
    """Return the best accuracy of any rule, averaged over the classes."""
    return float(np.max(given, axis=0).sum()) / len(given)


def pair_risk(given: Floats) -> float:
    """Return min R, the least average error over the worst pair of classes.

    1/2 means that no pair can be distinguished, 0 that one can be for certain.
    """
    pairs = combinations(range(len(given)), 2)
    return min(0.5 * float(np.minimum(given[a], given[b]).sum()) for a, b in pairs)


def advantage(given: Floats) -> float:
    """Return how far the best attacker beats guessing.

    Balanced accuracy minus 1/m, or 1/2 - R of the worst pair of classes where that is
    more. For two classes the two agree.
    """
    over_all = balanced_accuracy(given) - 1.0 / len(given)
    return max(over_all, 0.5 - pair_risk(given))


def information_epsilon(given: Floats, prior: Floats) -> float:
    """Return max |log p(class|z) / p(class)| over classes and outputs that can occur."""
    return float(np.max(_log_changes(given, prior), initial=0.0))


def total_variation(given: Floats) -> float:
    """Return the largest total variation between the outputs of two classes: 1 - 2 R."""
    pairs = combinations(given, 2)
    return max((0.5 * float(np.abs(a - b).sum()) for a, b in pairs), default=0.0)


def squared_information(given: Floats) -> float:
    """Return x of two laws, the sum over outputs of (p1 - p0)^2 / (2 (p1 + p0))."""
    total = given.sum(axis=0)
    sent = total > 0
    return float((np.diff(given[:, sent], axis=0) ** 2 / (2.0 * total[sent])).sum())


def pairwise_epsilon(given: Floats) -> float:
    """Return max log p(z|class)/p(z|other class), which needs no prior.

    It adds up over releases that are independent given the class, and it bounds
    ``information_epsilon`` for every prior.
    """
    possible = given[:, given.max(axis=0) > 0]
    with np.errstate(divide="ignore"):
        ratios = np.log(possible.max(axis=0)) - np.log(possible.min(axis=0))
    return float(np.max(ratios, initial=0.0))


def epsilon_beyond(given: Floats, prior: Floats, delta: float) -> float:
    """Return the smallest epsilon beyond which outputs have a probability of at most ``delta``.

    An output is beyond it if |log p(class|z)/p(class)| > epsilon for any class, so this is no
    less than in the paper's definition, which looks at the true class only. A ``delta`` of 0 gives
    ``information_epsilon``.
    """
    changes, overall = _log_changes(given, prior), prior @ given
    order = np.argsort(-changes)
    beyond = np.cumsum(overall[order])
    kept = order[beyond > delta * (1 + 1e-12)]
    return float(np.max(changes[kept], initial=0.0))


def mutual_information(given: Floats, prior: Floats) -> float:
    """Return the mutual information of class and output, in nats."""
    joint, overall = prior[:, None] * given, prior @ given
    return float(rel_entr(joint, prior[:, None] * overall).sum())


def maximal_leakage(given: Floats) -> float:
    """Return log sum_z max p(z|class), in nats.

    No guess at anything that depends on the class gets more likely to be right by a
    larger factor, whatever the prior.
    """
    return float(np.log(np.max(given, axis=0).sum()))


def structural_epsilons(tables: Sequence[Floats]) -> Floats:
    """Return log max_z max_x Q(z|x) / min_x Q(z|x) of every sensor; infinite if some min is 0."""
    return np.array([pairwise_epsilon(table) * ROUND_UP for table in tables])


def advantage_at(epsilon: float, n_classes: int) -> float:
    """Return the largest advantage that pairwise log-ratios of at most epsilon allow."""
    return 1.0 / (1.0 + (n_classes - 1) * float(np.exp(-epsilon))) - 1.0 / n_classes


def _log_changes(given: Floats, prior: Floats) -> Floats:
    """Return max over classes of |log p(class|z)/p(class)|; 0 for impossible outputs."""
    overall = prior @ given
    possible = overall > 0
    changes = np.zeros(len(overall))
    with np.errstate(divide="ignore"):
        ratios = np.log(given[:, possible]) - np.log(overall[possible])
    changes[possible] = np.max(np.abs(ratios), axis=0)
    return changes


# --- The paper's budgets --------------------------------------------------------------------

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
