"""Inverse curvatures for quasi-Newton steps of several heads at once.

A start that knows something of the curvature (a sample's, say) and what the steps teach since:
L-BFGS, for all heads in the same steps.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Solves(Protocol):
    """A first guess at the inverse curvatures."""

    def solve(self, right: Floats) -> Floats:
        """Return the guess's step, one row per head."""
        ...


class Metric:
    """The inverse curvature of every head."""

    def __init__(self, first: Solves) -> None:
        self.first = first
        self._pairs: list[tuple[Floats, Floats, Floats]] = []

    def learn(self, moved: Floats, bent: Floats) -> None:
        """Note how the slopes changed when the heads moved."""
        product = (moved * bent).sum(axis=1)
        inverse = np.divide(1.0, product, out=np.zeros_like(product), where=product > 1e-300)
        self._pairs.append((moved, bent, inverse))

    def solve(self, slopes: Floats) -> Floats:
        """Return the step that the metric makes of the slopes."""
        shares = []
        rest = slopes.copy()
        for moved, bent, inverse in reversed(self._pairs):
            share = inverse * (moved * rest).sum(axis=1)
            rest -= share[:, None] * bent
            shares.append(share)
        step = self.first.solve(rest)
        for (moved, bent, inverse), share in zip(self._pairs, reversed(shares), strict=True):
            step += (share - inverse * (bent * step).sum(axis=1))[:, None] * moved
        return step
