"""Which sensors depend on one another given the cell, told from counts of pairs.

Copies, chains and exclusive-ors all show in pairs. Sensors that depend form a block, whose joint
outputs are listed; so a block has only as many sensors as that allows, the closest first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import xlogy

from discreet.arrays import Floats, Ints

MAX_BLOCK_OUTPUTS = 32
_SURE = 5.0  # standard deviations of the statistic above its mean without dependence
_LEAST = 0.02  # of the statistic above its mean, for each row: less is no matter


def dependence(pairs: Ints, sizes: Sequence[int]) -> Floats:
    """Return how much each two sensors depend given the cell; 0 where that is not sure.

    It is twice the information of each row that one sensor has about the other, less what
    independent sensors would show. Where rows are few they show less than is taken off here, and
    only strong dependence is sure; Pearson's statistic would be spoiled by single rare pairs.
    """
    edges = np.cumsum([0, *sizes])
    statistic = np.zeros((len(sizes), len(sizes)))
    freedom, n_rows = np.zeros_like(statistic), 0
    for table in pairs.astype(np.float64):
        single = np.diag(table)
        total = float(single[: edges[1]].sum())
        if total < 2:
            continue
        n_rows += int(total)
        alone = np.maximum(np.outer(single, single) / total, 1e-300)
        statistic += 2.0 * _by_sensors(xlogy(table, table / alone), edges)
        seen = np.add.reduceat(single > 0, edges[:-1]) - 1.0
        freedom += np.outer(seen, seen)
    excess = statistic - freedom
    sure = (excess > _SURE * np.sqrt(2.0 * freedom)) & (excess > _LEAST * n_rows)
    np.fill_diagonal(sure, False)
    return np.where(sure, excess / max(n_rows, 1), 0.0)


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
