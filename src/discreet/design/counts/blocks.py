"""Which sensors depend on one another given the cell, found from counts of pairs.

Copies, chains and exclusive-ors all show in pairs. Sensors that depend form a block, whose joint
outputs are listed; so a block has only as many sensors as that allows, the closest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from heapq import heapify, heappop, heappush
from math import isqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy
from scipy.stats import poisson

from discreet.arrays import Floats, Ints
from discreet.design.counts.counting import PairCounts, cell_index, sample_index
from discreet.design.training_rows import Sample

MAX_BLOCK_OUTPUTS = 32
PAIRED_ROWS = 20_000
"""Most rows that pairs are counted in: dependence that matters shows in these."""
MOST_PAIRS = 2**24
"""Most pairs of codes, in all cells, that are looked at of sensors that are paired."""
_MOST_CODES = 2**11  # of all sensors that are paired: a few of so many pairs are held at once
_LEAST_CODES = 3  # of a sensor, however many pairs that makes
_PAIRED_SENSORS = 256  # that are paired with one another
_AT_ONCE = 2**18  # pairs of codes that are held at once, or those of one sensor
_SURE = 8.0  # standard deviations above the mean: with few rows in a cell, 5 are met by chance
_LEAST_DEPENDENCE = 0.02  # of the statistic above its mean, for each row: less is no matter

Stop = Callable[[float], bool]
"""Called with the share that is done; returns True to stop."""


class SensorDependence:
    """How much each two sensors depend given the cell.

    ``complete``: whether all pairs were looked at; False if it was stopped before.
    """

    def __init__(
        self, codes: Ints, sizes: Sequence[int], cell: Ints, stop: Stop | None = None
    ) -> None:
        self.n_rows = float(len(codes))
        pairs = PairCounts(codes, sizes, cell)
        self._single, self._together = _Deviance(pairs), _Pearson(pairs)
        self.complete = self._go_over(pairs, stop)

    def _go_over(self, pairs: PairCounts, stop: Stop | None) -> bool:
        """Add up all cells; return whether nothing stopped it."""
        known = np.flatnonzero(pairs.totals > 1).tolist()  # one row tells nothing of two sensors
        strips = _strips(pairs.edges)
        done, all_pairs = 0, sum(_n_pairs(pairs, some) for some in strips)
        for some in strips:
            self._single.begin(some)
            for n, k in enumerate(known):
                own = _n_pairs(pairs, some)
                if stop is not None and stop((done + own * n / len(known)) / all_pairs):
                    return False
                table = pairs.count(k, some)
                self._single.add(k, table)
                self._together.add(k, table, some)
            done += own
        return True

    @cached_property
    def strength(self) -> Floats:
        """How much each two depend, sensors by sensors; 0 where that is not sure."""
        return self._single.strength()

    def beyond(self, blocks: Sequence[tuple[int, ...]] = ()) -> bool:
        """Tell whether sensors surely depend that are in no block together: two, or all of them.

        What each two of many show may be too little to be sure of, or to matter, and adds up: a
        weak state that all follow tells as much as all pairs together. Where not all pairs were
        looked at, those that were not may depend: nothing is sure then, and the answer is yes.
        """
        apart = np.triu(np.ones(self.strength.shape, dtype=bool), 1)
        for block in blocks:
            apart[np.ix_(block, block)] = False
        excess, variance = self.together(apart)
        together = excess > max(_SURE * np.sqrt(variance), _LEAST_DEPENDENCE * self.n_rows)
        return not self.complete or bool(together) or bool(self.strength[apart].any())

    def together(self, apart: NDArray[np.bool_]) -> tuple[float, float]:
        """Return by how much statistics of some pairs of sensors exceed their mean, in all.

        And the variance of that, without dependence. ``apart``: the pairs, each once, the sensor
        that comes first in rows.
        """
        found = self._together
        return float(found.excess[apart].sum()), float(found.variance[apart].sum())


def _strips(edges: Ints) -> list[range]:
    """Cut sensors into runs whose codes make few pairs with their own and all later ones."""
    found = [range(0, 1)]
    for t in range(1, len(edges) - 1):
        begin = found[-1].start
        if (edges[t + 1] - edges[begin]) * (edges[-1] - edges[begin]) > _AT_ONCE:
            found.append(range(t, t))
        found[-1] = range(found[-1].start, t + 1)
    return found


def _n_pairs(pairs: PairCounts, some: range) -> int:
    edges = pairs.edges
    return int((edges[some.stop] - edges[some.start]) * (edges[-1] - edges[some.start]))


class _Deviance:
    """Twice the information that one sensor has about another, less that of independent ones.

    For counts of about one that is more than the degrees of freedom, and for smaller ones less, so
    that mean and variance are those of Poisson counts.
    """

    def __init__(self, pairs: PairCounts) -> None:
        self.pairs, self.n_sensors = pairs, len(pairs.edges) - 1
        self.owner = np.repeat(np.arange(self.n_sensors), np.diff(pairs.edges))
        self.excess, self.variance = np.zeros((2, self.n_sensors**2))
        self.n_rows = float(pairs.totals[pairs.totals > 1].sum())

    def begin(self, some: range) -> None:
        """Get ready for the pairs of codes of some sensors with all later ones."""
        edges = self.pairs.edges
        self.first = edges[some.start]
        own, later = self.owner[self.first : edges[some.stop]], self.owner[self.first :]
        # Each pair of codes of two sensors once: of a pair of sensors, the first one's in rows.
        self.rows, self.columns = np.nonzero(own[:, None] < later)
        self.pair = own[self.rows] * self.n_sensors + later[self.columns]

    def add(self, k: int, table: Floats) -> None:
        """Add the counts of these pairs in a cell."""
        rows, columns, total = self.rows, self.columns, float(self.pairs.totals[k])
        share, seen = self.pairs.single[k, self.first :] / total, table[rows, columns]
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

    def __init__(self, pairs: PairCounts) -> None:
        self.pairs, self.n_sensors = pairs, len(pairs.edges) - 1
        self.excess, self.variance = np.zeros((2, self.n_sensors, self.n_sensors))

    def add(self, k: int, table: Floats, some: range) -> None:
        """Add the counts of the pairs of some sensors with all later ones in a cell."""
        total = float(self.pairs.totals[k])
        if total < 4:  # rows, for a variance
            return
        first = self.pairs.edges[some.start]
        own, later = slice(some.start, some.stop), slice(some.start, None)
        edges = self.pairs.edges[some.start : -1] - first
        single = self.pairs.single[k, first:].astype(np.float64)
        inverse = np.divide(1.0, single, out=np.zeros_like(single), where=single > 0)
        squares = total * inverse[: len(table), None] * table**2 * inverse
        by_sensor = np.add.reduceat(squares, edges[: len(some)], axis=0)
        by_pair = np.add.reduceat(by_sensor, edges, axis=1) - total
        n_codes = np.add.reduceat(single > 0, edges).astype(np.float64)  # that occur
        free = n_codes - 1.0
        few = len(some)
        self.excess[own, later] += by_pair - np.outer(free[:few], free) * total / (total - 1.0)
        uneven = (total * np.add.reduceat(inverse, edges) - n_codes**2) / (total - 2.0)
        even = free * (total - n_codes) / (total - 1.0) - uneven
        variance = np.outer(even[:few], even) * 2.0 * total / (total - 3.0)
        self.variance[own, later] += variance
        self.variance[own, later] += np.outer(uneven[:few], uneven) * total**2 / (total - 1.0)


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
    some = sample.take(sample_index(len(sample.codes), PAIRED_ROWS))  # tables may be periodic
    return any(dependence.beyond() for _, dependence in find_dependence(some))


def find_dependence(
    sample: Sample, stop: Stop | None = None
) -> Iterator[tuple[int, SensorDependence]]:
    """Count the pairs of codes of a sample: yield how much sensors depend, and the first of them.

    What all pairs take grows with the square of the sensors: of more than 256, each is looked at
    beside those that stand near it in the table. It grows with the square of their codes, too,
    which are joined where they are many. Ends with what is not complete if it is stopped.
    """
    cell = cell_index(sample.facts)
    begins = range(0, len(sample.sizes), _PAIRED_SENSORS)
    for k, first in enumerate(begins):

        def ask(done: float, k: int = k) -> bool:
            return stop is not None and stop((k + done) / len(begins))

        codes, sizes = join_codes(sample, slice(first, first + _PAIRED_SENSORS), cell)
        found = SensorDependence(codes, sizes, cell, ask)
        yield first, found
        if not found.complete:
            return


# --- Codes that are joined ------------------------------------------------------------------


def join_codes(sample: Sample, some: slice, cell: Ints) -> tuple[Ints, list[int]]:
    """Return the codes of some sensors, and how many there are, joined where pairs are too many.

    Dependence that shows between joined codes only is not seen.
    """
    codes, sizes = sample.codes[:, some], list(sample.sizes[some])
    ordered = (sample.ordered or (0,) * len(sample.sizes))[some]
    together = min(_MOST_CODES, isqrt(MOST_PAIRS // len(np.unique(cell))))
    if sum(sizes) <= together:
        return codes, sizes
    most = max(share_out(sizes, together), _LEAST_CODES)
    joined = np.empty_like(codes)
    for t, size in enumerate(sizes):
        counts = np.bincount(codes[:, t], minlength=size)
        new = join_alphabet(counts, ordered[t], most) if size > most else np.arange(size)
        joined[:, t], sizes[t] = new[codes[:, t]], int(new.max()) + 1
    return joined, sizes


def share_out(sizes: Sequence[int], most: int) -> int:
    """Return how many each may have at most, so that all together have so many."""
    left = most
    for k, size in enumerate(sorted(sizes)):
        each = left // (len(sizes) - k)
        if size > each:
            return each
        left -= size
    return max(sizes)


def join_alphabet(counts: Ints, ordered: int, most: int) -> Ints:
    """Return a number for each code, below ``most``: neighbours share one, or rare ones do.

    ``ordered``: how many codes, from the first, lie on a line.
    """
    rest = min(len(counts) - ordered, most // 2 if ordered else most)
    found = np.empty(len(counts), dtype=np.int64)
    found[:ordered] = _join_neighbours(counts[:ordered], most - rest)
    begin = int(found[:ordered].max()) + 1 if ordered else 0
    found[ordered:] = begin + _join_rarest(counts[ordered:], rest)
    return found


def _join_neighbours(counts: Ints, most: int) -> Ints:
    """Join codes on a line to about equally frequent ones."""
    if len(counts) <= most:
        return np.arange(len(counts))
    middle = np.cumsum(counts) - counts / 2.0
    place = np.minimum(middle * most / max(counts.sum(), 1), most - 1).astype(np.int64)
    return np.asarray(np.unique(place, return_inverse=True)[1], dtype=np.int64)


def _join_rarest(counts: Ints, most: int) -> Ints:
    """Join the two rarest codes, again and again, until they are few enough."""
    heap = [(int(count), [code]) for code, count in enumerate(counts)]
    heapify(heap)
    while len(heap) > most:
        rare, codes = heappop(heap)
        count, more = heappop(heap)
        heappush(heap, (rare + count, codes + more))
    found = np.empty(len(counts), dtype=np.int64)
    for k, (_, codes) in enumerate(heap):
        found[codes] = k
    return found
