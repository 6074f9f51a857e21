"""Bins of numbers: where they are cut, and which neighbours are merged.

A design can hide a private fact only as far as codes tell its classes apart, and can answer only
as far as they tell the public ones apart: what is to be kept is what codes say of both together.
Merged bins are taken only if they tell more than quantiles of rows that did not choose them: one
half of the rows, as they come, judges what the other would merge.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from discreet.arrays import Floats, Ints
from discreet.data.labels import Labels

FINER = 4
"""How many bins to begin with for each that is to be left; quantiles are among their edges."""
MOST_MERGED = 64
"""More bins than this are fine enough."""


# --- Edges ----------------------------------------------------------------------------------


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


# --- Merging neighbours ---------------------------------------------------------------------


def count_cells(bins: Ints, n_bins: int, facts: Sequence[Labels]) -> list[Ints]:
    """Count the rows of every bin that have which classes, in the two halves of a table.

    For each private fact with the public one; if there is none, for the public one alone.
    """
    public, *private = facts
    cells = [(fact.n_classes, fact.index) for fact in private] or [(1, np.zeros_like(bins))]
    half, found = np.arange(len(bins)) >= len(bins) // 2, []
    for n_classes, index in cells:
        shape = 2, n_bins, public.n_classes * n_classes
        place = (half * n_bins + bins) * shape[2] + public.index * n_classes + index
        found.append(np.bincount(place, minlength=int(np.prod(shape))).reshape(shape))
    return found


def choose_bins(counts: Sequence[Ints], plain: Ints, n_bins: int) -> Ints:
    """Return which bins remain the last of theirs: merged by the counts, or plainly.

    ``counts``: for each private fact, halves by bins by cells. ``plain``: what to keep unless
    merging to ``n_bins`` tells more of the other half.
    """
    gain = 0.0
    for half in (0, 1):
        merged = merge_bins([table[half] for table in counts], n_bins)
        for table in counts:
            own, other = table[half], table[1 - half]
            gain += _tells(own, other, merged) - _tells(own, other, plain)
    return merge_bins([table.sum(axis=0) for table in counts], n_bins) if gain > 0 else plain


def merge_bins(counts: Sequence[Ints], n_bins: int) -> Ints:
    """Return which bins remain the last of theirs, once neighbours are merged to so many.

    Merged are the two whose rows lose the least likelihood by sharing one distribution over the
    classes, for the private fact that loses the most.

    ``counts``: for each private fact, bins by cells.
    """
    tables = [table.astype(np.float64) for table in counts]
    last = np.arange(len(tables[0]))
    while len(last) > n_bins:
        k = int(np.argmin(np.max([_losses(table) for table in tables], axis=0)))
        for table in tables:
            table[k + 1] += table[k]
        tables = [np.delete(table, k, axis=0) for table in tables]
        last = np.delete(last, k)
    return last


def _tells(own: Ints, other: Ints, last: Ints) -> float:
    """Return the log-likelihood of the classes in one half by the shares in the other one."""
    begins = np.concatenate([[0], last[:-1] + 1])
    known, new = (np.add.reduceat(table, begins, axis=0) for table in (own, other))
    # One row more for each code, shared as in all rows: no class is impossible that has rows.
    shares = (own.sum(axis=0) + 1.0) / (own.sum() + own.shape[1])
    chances = (known + shares) / (known.sum(axis=1, keepdims=True) + 1.0)
    return float(np.sum(new * np.log(chances)))


def _losses(table: Floats) -> Floats:
    """Return what merging each bin with the next one costs in log-likelihood."""
    alone = _likelihood(table)
    return np.asarray(alone[:-1] + alone[1:] - _likelihood(table[:-1] + table[1:]))


def _likelihood(table: Floats) -> Floats:
    total = table.sum(axis=1)
    return np.asarray(_x_log_x(table).sum(axis=1) - _x_log_x(total))


def _x_log_x(values: Floats) -> Floats:
    return np.asarray(values * np.log(np.maximum(values, 1.0)))  # 0 of 0; counts are whole
