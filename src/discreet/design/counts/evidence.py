"""What one round adds to what is known of a private fact, beyond the public one.

x = sum (p - p')**2 / (2 (p + p')) of two private classes adds up at most: over units that are
independent given the cell, and over rounds. So what many rounds may tell limits the sum of the x
of all units, and no output is listed. The attacker knows the public fact of every round, which
takes each class as often as it does in the rows.

Rows are few where rounds are many: that two classes look alike in them does not make them so. The
variance of the estimate of p - p' is therefore part of x, as if the truth were drawn around it.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from discreet.arrays import Floats
from discreet.design.counts.units import Units

_TINY = 1e-100


class Evidence:
    """The x of a round as a function of the tables, and its slope."""

    def __init__(self, units: Units) -> None:
        self.units = units
        model = units.model
        self.pairs = [
            self._within_classes(fact, a, b)
            for fact in range(1, model.facts.shape[1])
            for a, b in combinations(np.unique(model.facts[:, fact]), 2)
        ]
        # One over the rows behind each estimate, columns by cells.
        rows = np.full((len(units.sizes), len(model.prior)), np.inf)
        if model.rows is not None:
            rows = model.rows
        own = [rows[t] for t in units.singles]
        own += [rows[list(block.sensors)].min(axis=0) for block in model.blocks]
        self.unsure = np.repeat(1.0 / np.array(own), units.widths, axis=0)

    def _within_classes(self, fact: int, a: int, b: int) -> list[tuple[float, Floats, Floats]]:
        """Return each public class that has both private ones: its share, and p(cell|class)."""
        model, found = self.units.model, []
        for h, share in enumerate(model.public_shares()):
            inside = model.prior * (model.facts[:, 0] == h)
            one, other = (inside * (model.facts[:, fact] == k) for k in (a, b))
            if one.any() and other.any():
                found.append((float(share), one / one.sum(), other / other.sum()))
        return found

    def worst(self, padded: Floats) -> tuple[float, Floats]:
        """Return the x of the two most distinguishable classes, and its slope in the tables."""
        chances, products = self.units.chances(padded)
        squares, squared = self.units.chances(padded**2)
        parts = [self._of_pair(pair, chances, squares) for pair in self.pairs]
        if not parts:
            return 0.0, np.zeros_like(padded)
        x, slope, square_slope = max(parts, key=lambda part: part[0])
        back = self.units.pull_back(square_slope, squared)
        return x, self.units.pull_back(slope, products) + 2.0 * padded * back

    def _of_pair(
        self, pair: list[tuple[float, Floats, Floats]], chances: Floats, squares: Floats
    ) -> tuple[float, Floats, Floats]:
        """Return x, and its slopes in p(output|cell) and in the mean of its square."""
        total, slope, square_slope = 0.0, np.zeros_like(chances), np.zeros_like(chances)
        for share, one, other in pair:
            apart = (chances @ (one - other))[:, None]
            both = np.maximum(chances @ (one + other), _TINY)[:, None]
            weights = self.unsure * (one**2 + other**2)
            spread = np.maximum(squares - chances**2, 0.0)
            top = apart**2 + np.sum(weights * spread, axis=1, keepdims=True)
            total += share * float(np.sum(top / (2.0 * both)))
            slope += share * (
                apart / both * (one - other)
                - top / (2.0 * both**2) * (one + other)
                - weights * chances / both
            )
            square_slope += share * weights / (2.0 * both)
        return total, slope, square_slope
