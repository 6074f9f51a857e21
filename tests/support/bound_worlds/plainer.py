"""Plainer ways to bound the largest log-ratio of two classes, to see what the adopted one brings.

* kl: Chernoff for each class and output, with a union over both (the textbook way)
* kl, one: the same without the union over outputs, which the largest ratio does not need
* symbols: Clopper-Pearson on one drawn symbol per row, with the union
"""

import numpy as np

from discreet.auditing.bounds.intervals import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    kl_lower,
    kl_upper,
)
from discreet.leakage.joint_outputs import smallest_and_largest
from support.bound_worlds.rows import pick
from support.bound_worlds.trials import ALPHA

PLAINER = ("kl", "kl, one", "symbols")


def plainer(rows, rng):
    """Return the bounds of these rows, which are independent."""
    cells = rows.n_classes * rows.n_outputs
    return [_by_kl(rows, 2 * cells), _by_kl(rows, 2), _by_symbols(rows, 2 * cells, rng)]


def _by_kl(rows, times):
    low, high = smallest_and_largest(rows.tables)
    width = np.maximum(high - low, 1e-300)
    shown = np.clip((rows.average - low) / width, 0, 1)
    level = np.log(times / ALPHA) / np.array(rows.counts)[:, None]
    upper = np.minimum(low + width * kl_upper(shown, level), high)
    return _widest(low + width * kl_lower(shown, level), upper)


def _by_symbols(rows, times, rng):
    sent = np.zeros(len(rows.index), dtype=int)
    for t, table in enumerate(rows.tables):
        sent = sent * table.shape[1] + pick(table, rows.codes[:, t], rng)
    classes = range(rows.n_classes)
    hits = [np.bincount(sent[rows.index == g], minlength=rows.n_outputs) for g in classes]
    counts, share = np.array(rows.counts)[:, None], ALPHA / times
    lower = clopper_pearson_lower(hits, counts, share)
    return _widest(lower, clopper_pearson_upper(hits, counts, share))


def _widest(lower, upper):
    with np.errstate(divide="ignore"):
        ratios = np.log(upper)[:, None] - np.log(lower)[None]
    ratios[np.arange(len(lower)), np.arange(len(lower))] = 0.0
    return ratios.max()
