"""Where to cut numbers into bins.

Numbers are counted value by value. Once a batch has shown too many different ones and another
batch follows, they go into a t-digest, whose quantiles are near the true ones: the one sketch of
Apache DataSketches that throws no dice, so that the same files give the same edges.
"""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from discreet.arrays import Floats
from discreet.errors import InputError

EXACT_VALUES = 4096
"""Most distinct numbers of a column that are counted one by one from batch to batch."""
SKETCH_SIZE = 2000
"""The t-digest's k; the larger, the nearer to the true quantiles."""
_AT_ONCE = 1 << 16  # values handed to the sketch


class Numbers:
    """Numbers, counted one by one while their values are few, sketched beyond."""

    def __init__(self, sensor: str) -> None:
        self.sensor = sensor
        self.least, self.most = np.inf, 0.0
        self._values, self._counts = np.empty(0), np.empty(0, dtype=np.int64)
        self._sketch: Any = None

    @property
    def n_distinct(self) -> int:
        """Number of different values; of the many, at least ``EXACT_VALUES``."""
        return len(self._values)

    def add(self, readings: Floats) -> None:
        finite = readings[np.isfinite(readings)] + 0.0  # -0.0 becomes 0.0
        if not len(finite):
            return
        most = float(finite.max())
        self.most = most if self.least == np.inf else max(self.most, most)
        self.least = min(self.least, float(finite.min()))
        if self._sketch is None and len(self._values) > EXACT_VALUES:
            self._sketch = self._begin_sketch()
        if self._sketch is not None:
            self._sketch.update(finite)
            return
        places, values = pd.factorize(finite)
        values, back = np.unique(np.concatenate([self._values, values]), return_inverse=True)
        counts = np.zeros(len(values), dtype=np.int64)
        np.add.at(counts, back[: len(self._values)], self._counts)
        np.add.at(counts, back[len(self._values) :], np.bincount(places))
        self._values, self._counts = values, counts

    def _begin_sketch(self) -> Any:
        try:
            from datasketches import tdigest_double
        except ImportError:
            raise InputError(
                f"sensor {self.sensor!r} has more than {EXACT_VALUES} different readings, which "
                'takes a sketch of them. Run: pip install "discreet[large]"'
            ) from None
        sketch = tdigest_double(SKETCH_SIZE)
        totals = np.cumsum(self._counts)
        for begin in range(0, int(totals[-1]), _AT_ONCE):
            places = np.arange(begin, min(begin + _AT_ONCE, int(totals[-1])))
            sketch.update(self._values[np.searchsorted(totals, places, side="right")])
        return sketch

    def edges(self, strategy: str, n_bins: int) -> Floats:
        """Return where to cut the numbers into bins."""
        if self._sketch is None:
            return plain_edges(self._values, self._counts, strategy, n_bins)
        if strategy == "uniform":
            ends = np.array([self.least, self.most])
            return plain_edges(ends, np.ones(2, dtype=np.int64), strategy, n_bins, few=False)
        ranks = np.arange(1, n_bins) / n_bins
        cuts = np.unique([self._sketch.get_quantile(rank) for rank in ranks])
        return cuts[(cuts >= self.least) & (cuts < self.most)]


def plain_edges(
    distinct: Floats,
    counts: NDArray[np.int64],
    strategy: str,
    n_bins: int,
    *,
    few: bool = True,
) -> Floats:
    """Return edges between numbers, from their distinct values in order and the count of each.

    Where they are fewer than the bins each value gets its own, unless ``few`` is false.
    """
    if few and len(distinct) <= n_bins:
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
