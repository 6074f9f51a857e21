"""What a fusion centre can learn from outputs whose distribution is known.

Every function takes ``given``, one row per class: p(z|class) over all outputs z, and
where it matters the ``prior`` of the classes. No sampling and no estimation here;
where the numbers come from decides what they mean.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def bayes_error(given: Floats, prior: Floats) -> float:
    """Return the least probability of error of any rule that guesses the class."""
    return 1.0 - float(np.max(prior[:, None] * given, axis=0).sum())


def balanced_accuracy(given: Floats) -> float:
    """Return the best accuracy of any rule, averaged over the classes."""
    return float(np.max(given, axis=0).sum()) / len(given)


def pair_risk(given: Floats) -> float:
    """Return min R, the least average error over the worst pair of classes.

    1/2 means that no pair can be told apart, 0 that one can be for certain.
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
    overall = prior @ given
    possible = overall > 0
    with np.errstate(divide="ignore"):
        ratios = np.log(given[:, possible]) - np.log(overall[possible])
    return float(np.max(np.abs(ratios), initial=0.0))
