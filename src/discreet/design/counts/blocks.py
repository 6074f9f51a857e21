"""Which sensors depend on one another given the cell, found from counts of pairs.

Copies, chains and exclusive-ors all show in pairs. Sensors that depend form a block, whose joint
outputs are listed; so a block has only as many sensors as that allows, the closest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy
from scipy.stats import poisson

from discreet.arrays import Floats
from discreet.design.counts.counting import cell_index, count_pairs
from discreet.design.training_rows import Sample

MAX_BLOCK_OUTPUTS = 32
PAIRED_ROWS = 20_000
"""Most rows that pairs are counted in: dependence that matters shows in these."""
_PAIRED_SENSORS = 256  # that are paired with one another
_SURE = 8.0  # standard deviations above the mean: with few rows in a cell, 5 are met by chance
_LEAST_DEPENDENCE = 0.02  # of the statistic above its mean, for each row: less is no matter


class SensorDependence:
    """How much each two sensors depend given the cell.

    ``pairs``: for each cell, counts of pairs of codes (``count_pairs``), gone over once.
    """

    def __init__(self, pairs: Iterable[Floats], sizes: Sequence[int]) -> None:
        self.n_rows = 0.0
        self._single, self._together = _Deviance(sizes), _Pearson(sizes)
        for table in pairs:
            total = float(np.trace(table[: sizes[0], : sizes[0]]))
            self.n_rows += total
            self._single.add(table, total)
            self._together.add(table, total)

    @cached_property
    def strength(self) -> Floats:
        """How much each two depend, sensors by sensors; 0 where that is not sure."""
        return self._single.strength()

    def beyond(self, blocks: Sequence[tuple[int, ...]] = ()) -> bool:
        """Tell whether sensors surely depend that are in no block together: two, or all of them.

        What each two of many show may be too little to be sure of, or to matter, and adds up: a
        weak state that all follow tells as much as all pairs together.
        """
        apart = np.triu(np.ones(self.strength.shape, dtype=bool), 1)
        for block in blocks:
            apart[np.ix_(block, block)] = False
        excess, variance = self.together(apart)
        together = excess > max(_SURE * np.sqrt(variance), _LEAST_DEPENDENCE * self.n_rows)
        return bool(together) or bool(self.strength[apart].any())

    def together(self, apart: NDArray[np.bool_]) -> tuple[float, float]:
        """Return by how much statistics of some pairs of sensors exceed their mean, in all.

        And the variance of that, without dependence.
        """
        found = self._together
        return float(found.excess[apart].sum()), float(found.variance[apart].sum())


class _Deviance:
    """Twice the information that one sensor has about another, less that of independent ones.

    For counts of about one that is more than the degrees of freedom, and for smaller ones less, so
    that mean and variance are those of Poisson counts.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        owner, self.n_sensors = np.repeat(np.arange(len(sizes)), sizes), len(sizes)
        # Each pair of codes of two sensors once: of a pair of sensors, the first one's in rows.
        self.rows, self.columns = np.nonzero(owner[:, None] < owner)
        self.pair = owner[self.rows] * len(sizes) + owner[self.columns]
        self.excess, self.variance = np.zeros((2, len(sizes) ** 2))
        self.n_rows = 0.0

    def add(self, table: Floats, total: float) -> None:
        """Add the counts of so many rows of a cell."""
        if total < 2:
            return
        rows, columns = self.rows, self.columns
        self.n_rows += total
        share, seen = np.diag(table) / total, table[rows, columns]
        alone = total * share[rows] * share[columns]
        free = (1.0 - share)[rows] * (1.0 - share)[columns]  # sums to the freedom
        mean, spread = _poisson_deviance(alone)
        shown = 2.0 * xlogy(seen, seen / np.maximum(alone, 1e-300))
        self.excess += np.bincount(self.pair, shown - free * mean, len(self.excess))
        self.variance += np.bincount(self.pair, free * spread, len(self.excess))

    def strength(self) -> Floats:
        """Return how much each two sensors depend for each row, 0 where that is not sure."""
        sure = self.excess > _SURE * np.sqrt(self.variance)
        sure &= self.excess > _LEAST_DEPENDENCE * self.n_rows
        found = np.where(sure, self.excess / max(self.n_rows, 1.0), 0.0)
        found = found.reshape(self.n_sensors, -1)
        return np.asarray(found + found.T)


class _Pearson:
    """Pearson's statistic of each two sensors, less its mean, and its variance.

    Both moments are those of codes shuffled within the cell, exact for any counts (Dawson 1954), as
    they have to be where hundreds of pairs are added up. Of shuffled sensors the statistics of any
    two pairs are uncorrelated.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.edges = np.cumsum([0, *sizes[:-1]])
        self.excess, self.variance = np.zeros((2, len(sizes), len(sizes)))

    def add(self, table: Floats, total: float) -> None:
        """Add the counts of so many rows of a cell."""
        if total < 4:  # rows, for a variance
            return
        edges, single = self.edges, np.diag(table)
        inverse = np.divide(1.0, single, out=np.zeros_like(single), where=single > 0)
        squares = total * inverse[:, None] * table**2 * inverse
        by_pair = np.add.reduceat(np.add.reduceat(squares, edges, axis=0), edges, axis=1) - total
        n_codes = np.add.reduceat(single > 0, edges).astype(np.float64)  # that occur
        free = n_codes - 1.0
        self.excess += by_pair - np.outer(free, free) * total / (total - 1.0)
        uneven = (total * np.add.reduceat(inverse, edges) - n_codes**2) / (total - 2.0)
        even = free * (total - n_codes) / (total - 1.0) - uneven
        self.variance += np.outer(even, even) * 2.0 * total / (total - 3.0)
        self.variance += np.outer(uneven, uneven) * total**2 / (total - 1.0)


def _poisson_deviance(expected: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of 2 (N log(N/m) - N + m) for a Poisson count N of mean m."""
    grid, mean, variance = _deviance_grid()
    place = np.log(np.maximum(expected, grid[0]))
    known = expected > 0
    return (
        np.where(known, np.interp(place, np.log(grid), mean), 0.0),
        np.where(known, np.interp(place, np.log(grid), variance), 0.0),
    )


@cache
def _deviance_grid() -> tuple[Floats, Floats, Floats]:
    grid, counts = np.geomspace(1e-5, 100.0, 300), np.arange(300)
    chance = poisson.pmf(counts, grid[:, None])
    deviance = 2.0 * (xlogy(counts, counts / grid[:, None]) - counts + grid[:, None])
    mean = np.sum(chance * deviance, axis=1)
    return grid, mean, np.sum(chance * deviance**2, axis=1) - mean**2


def find_blocks(strength: Floats, n_symbols: Sequence[int]) -> list[tuple[int, ...]]:
    """Join sensors that depend, the closest first, while a block's outputs can be listed.

    Returns the blocks of two sensors and more.
    """
    block: dict[int, tuple[int, ...]] = {t: (t,) for t in range(len(n_symbols))}
    order = np.argsort(-strength, axis=None, kind="stable")
    for place in order[: int((strength > 0).sum())]:
        t, u = divmod(int(place), len(n_symbols))
        joint = tuple(sorted({*block[t], *block[u]}))
        if block[t] != block[u] and np.prod([n_symbols[k] for k in joint]) <= MAX_BLOCK_OUTPUTS:
            block |= dict.fromkeys(joint, joint)
    return sorted({joint for joint in block.values() if len(joint) > 1})


def sensors_depend(sample: Sample) -> bool:
    """Tell whether sensors surely depend given the classes."""
    some = sample.take(slice(None, None, -(-len(sample.codes) // PAIRED_ROWS)))
    return any(dependence.beyond() for _, dependence in find_dependence(some))


def find_dependence(sample: Sample) -> Iterator[tuple[int, SensorDependence]]:
    """Count the pairs of codes of a sample: yield how much sensors depend, and the first of them.

    What all pairs take grows with the square of the sensors: of more than 256, each is looked at
    beside those that stand near it in the table.
    """
    cell = cell_index(sample.facts)
    for first in range(0, len(sample.sizes), _PAIRED_SENSORS):
        own = slice(first, first + _PAIRED_SENSORS)
        sizes = sample.sizes[own]
        yield first, SensorDependence(count_pairs(sample.codes[:, own], sizes, cell), sizes)
