"""The paper's estimate of epsilon, and what chance alone would make of it.

epsilon^ = max |log p^(g,z) / (p^(g) p^(z))| over the outputs seen is a plug-in and no
bound: an output seen once has ratio 1/p^(g) whatever the mapping does. So it is never
shown without its null floor, the range it would have on the same rows if the outputs had
nothing to do with the fact: the labels are shuffled among the rows and it is computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SHUFFLES = 200
_FEWER_SHUFFLES = 50  # for long tables, where the range is narrow anyway
_LONG = 20_000


@dataclass(frozen=True)
class PlugInEpsilon:
    """The estimate, and the 5th to 95th percentile of it under shuffled labels."""

    value: float
    null_low: float
    null_high: float
    outputs_seen: int

    @property
    def beyond_chance(self) -> bool:
        return self.value > self.null_high

    def words(self) -> str:
        """Return what may be said of the estimate."""
        seen = "more than chance" if self.beyond_chance else "no more than chance"
        return (
            f"plug-in estimate {self.value:.2f}; a mapping that leaks nothing would show "
            f"{self.null_low:.2f} to {self.null_high:.2f} on these rows, so it shows {seen}. "
            "It is no bound"
        )


def plug_in_epsilon(
    symbols: Ints,
    sizes: Sequence[int],
    index: Ints,
    n_classes: int,
    rng: np.random.Generator,
    groups: Ints | None = None,
) -> PlugInEpsilon:
    """Estimate epsilon from drawn symbols, with its null floor.

    Rows of one group resemble each other, so groups are shuffled and not rows: each keeps its
    own run of labels.
    """
    outputs = _output_numbers(symbols, sizes)
    n_outputs = int(outputs.max()) + 1
    shuffles = _SHUFFLES if len(index) <= _LONG else _FEWER_SHUFFLES
    null = [
        _largest_ratio(outputs, n_outputs, _shuffled(index, groups, rng), n_classes)
        for _ in range(shuffles)
    ]
    low, high = np.quantile(null, [0.05, 0.95])
    value = _largest_ratio(outputs, n_outputs, index, n_classes)
    return PlugInEpsilon(value, float(low), float(high), n_outputs)


def _shuffled(index: Ints, groups: Ints | None, rng: np.random.Generator) -> Ints:
    if groups is None:
        return rng.permutation(index)
    rows = np.argsort(groups, kind="stable")
    turn = rng.permutation(int(groups.max()) + 1)[groups]
    shuffled = np.empty_like(index)
    shuffled[rows] = index[np.argsort(turn, kind="stable")]
    return shuffled


def _output_numbers(symbols: Ints, sizes: Sequence[int]) -> Ints:
    """Give the outputs that were seen numbers from 0, however many sensors there are."""
    numbers = np.zeros(len(symbols), dtype=np.int64)
    for t, size in enumerate(sizes):
        # Renumbered at every sensor, so that the product of the sizes may be huge.
        numbers = np.unique(numbers * size + symbols[:, t], return_inverse=True)[1]
    return numbers.astype(np.int64)


def _largest_ratio(outputs: Ints, n_outputs: int, index: Ints, n_classes: int) -> float:
    counts = np.bincount(index * n_outputs + outputs, minlength=n_classes * n_outputs)
    joint = counts.reshape(n_classes, n_outputs) / len(index)
    independent = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    # A class never seen with an output has log-ratio minus infinity; the paper leaves it out.
    seen = joint > 0
    ratios = joint[seen] / independent[seen]
    return float(max(np.log(ratios.max()), -np.log(ratios.min())))
