"""Where to cut numbers into bins."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from discreet.arrays import Floats


class Numbers:
    """The different finite numbers of a column, in order, and how often each occurs."""

    def __init__(self, readings: Floats) -> None:
        places, values = pd.factorize(readings[np.isfinite(readings)] + 0.0)  # -0.0 becomes 0.0
        order = np.argsort(values)
        self.values = values[order]
        self.counts = np.bincount(places, minlength=len(values))[order]

    def edges(self, strategy: str, n_bins: int) -> Floats:
        """Return where to cut the numbers into bins."""
        return plain_edges(self.values, self.counts, strategy, n_bins)


def plain_edges(
    distinct: Floats,
    counts: NDArray[np.int64],
    strategy: str,
    n_bins: int,
) -> Floats:
    """Return edges between numbers, from their distinct values in order and the count of each.

    Where they are fewer than the bins each value gets its own.
    """
    if len(distinct) <= n_bins:
        return _midpoints(distinct, np.arange(len(distinct) - 1))
    if strategy == "uniform":
        share = np.arange(1, n_bins) / n_bins
        # Weighted ends instead of a step, since the step between huge readings overflows.
        edges = np.unique(distinct[0] * (1 - share) + distinct[-1] * share)
        kept: Floats = edges[(edges >= distinct[0]) & (edges < distinct[-1])]
        return kept
    # The j-th edge follows the first value that brings the count to j/n_bins of the rows.
    below = np.searchsorted(
        np.cumsum(counts) * n_bins, np.arange(1, n_bins) * counts.sum(), side="left"
    )
    return _midpoints(distinct, np.unique(below[below < len(distinct) - 1]))


def supervised_edges(readings: Floats, public: NDArray[np.int64], n_bins: int) -> Floats:
    """Return edges where a decision tree for the public label would split."""
    finite = np.isfinite(readings)
    distinct, ranks = np.unique(readings[finite], return_inverse=True)
    if len(distinct) < 2 or n_bins < 2:
        return np.empty(0)
    # The tree works in 32-bit floats, which would merge or overflow readings; ranks are safe.
    tree = DecisionTreeClassifier(max_leaf_nodes=int(n_bins), random_state=0)
    tree.fit(ranks.reshape(-1, 1), public[finite])
    splits = tree.tree_.threshold[tree.tree_.feature >= 0]
    return _midpoints(distinct, np.unique(np.floor(splits).astype(np.int64)))


def _midpoints(distinct: Floats, left: NDArray[np.int64]) -> Floats:
    """Return an edge after each of ``distinct[left]`` and before its right neighbour."""
    if len(left) == 0:
        return np.empty(0)
    low, high = distinct[left], distinct[left + 1]
    with np.errstate(over="ignore"):
        middle = low + (high - low) / 2
    middle = np.where(np.isfinite(middle), middle, low / 2 + high / 2)
    # Between neighbouring floats the midpoint rounds to one of them; an edge closes its bin,
    # so the lower one separates the two and the upper one does not.
    return np.where((middle >= low) & (middle < high), middle, low)
