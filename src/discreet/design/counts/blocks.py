"""Which sensors depend on one another given the cell, found from counts of pairs.

Copies, chains and exclusive-ors all show in pairs. Sensors that depend form a block, whose joint
outputs are listed; so a block has only as many sensors as that allows, the closest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy.special import xlogy
from scipy.stats import poisson

from discreet.arrays import Floats, Ints

MAX_BLOCK_OUTPUTS = 32
_SURE = 8.0  # standard deviations above the mean: with few rows in a cell, 5 are met by chance
_LEAST = 0.02  # of the statistic above its mean, for each row: less is no matter


def dependence(pairs: Ints, sizes: Sequence[int]) -> Floats:
    """Return how much each two sensors depend given the cell; 0 where that is not sure.

    It is twice the information of each row that one sensor has about the other, less what
    independent sensors would show. For counts of about one that is more than the degrees of
    freedom, and for smaller ones less, so that mean and variance are those of Poisson counts.
    """
    edges = np.cumsum([0, *sizes])
    excess, variance = np.zeros((2, len(sizes), len(sizes)))
    n_rows = 0.0
    for table in pairs.astype(np.float64):
        single = np.diag(table)
        total = float(single[: edges[1]].sum())
        if total < 2:
            continue
        n_rows += total
        alone = np.outer(single, single) / total
        free = np.outer(1.0 - single / total, 1.0 - single / total)  # sums to the freedom
        mean, spread = _poisson_deviance(alone)
        shown = 2.0 * xlogy(table, table / np.maximum(alone, 1e-300))
        excess += _by_sensors(shown - free * mean, edges)
        variance += _by_sensors(free * spread, edges)
    sure = (excess > _SURE * np.sqrt(variance)) & (excess > _LEAST * n_rows)
    np.fill_diagonal(sure, False)
    return np.where(sure, excess / max(n_rows, 1.0), 0.0)


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


def _by_sensors(cells: Floats, edges: Ints) -> Floats:
    found: Floats = np.add.reduceat(np.add.reduceat(cells, edges[:-1], 0), edges[:-1], 1)
    return found


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
