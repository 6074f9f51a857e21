"""What attackers learn from symbols that known rows sent: how likely symbols are for each class.

Trees and mixtures of states find what nobody named; a mixture of the kinds of rows (combinations of
all facts) is what designs are made by. Whoever looks at rows left out scores them by this
(``leak_estimates``), or raw codes likewise (``expected``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from discreet.arrays import Floats, Ints

LEAST_KNOWN = 500
"""Rows of each class that are learned from, if there are so many."""
_TREES, _LEAF = 120, 50  # of all classes together, and their rows in a leaf
# States of each class, steps that they are learned in, and about how many symbols.
_STATES, _STEPS, _MOST_SYMBOLS = 6, 30, 1_000_000
_PRIOR_ROWS = 4.0  # that all rows count for in each kind
_TINY = 1e-12

_Number = TypeVar("_Number", np.float64, np.int64)

Chances = Callable[[Ints], Floats]
"""Of symbols log p(symbols|class), rows by classes, or as far apart."""


def grow_trees(symbols: Ints, index: Ints) -> Chances:
    """Return trees to which every class counts the same: fewer for each, the more classes."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    steps = int(np.clip(_TREES // len(np.unique(index)), 3, 40))
    trees = HistGradientBoostingClassifier(
        max_iter=steps,
        learning_rate=min(6.0 / steps, 0.3),
        max_leaf_nodes=8,
        min_samples_leaf=min(_LEAF, max(len(index) // _LEAF, 2)),
        early_stopping=False,
        class_weight="balanced",
        random_state=0,
    ).fit(symbols, index)
    return lambda values: np.asarray(np.log(np.maximum(trees.predict_proba(values), _TINY)))


def learn_states(symbols: Ints, index: Ints, n_symbols: Ints) -> Chances:
    """Return a mixture of states for every class, given which sensors are independent."""
    rng, most = np.random.default_rng(2), _MOST_SYMBOLS // len(n_symbols)
    few = max(most // len(np.unique(index)), LEAST_KNOWN)
    own = [some_rows(np.flatnonzero(index == k), few) for k in np.unique(index)]
    found = [_find_states(_sent(symbols[rows], n_symbols), n_symbols, rng) for rows in own]

    def chances(values: Ints) -> Floats:
        sent = _sent(values, n_symbols)
        scores = [constant + sent @ weights for constant, weights in found]
        return np.stack([logsumexp(each, axis=1) for each in scores], axis=1)

    return chances


def learn_kinds(
    symbols: Ints,
    index: Ints,
    kinds: Ints,
    n_symbols: Ints,
    blocks: Sequence[tuple[int, ...]] = (),
) -> Chances:
    """Return for every class the mixture of its kinds, given which blocks are independent.

    It is what designs are made by, but learned from what was sent: it sees what all sensors tell
    together, also where the private class moves them to either side, by the public one.
    """
    joint, widths = _by_block(symbols, n_symbols, blocks)
    sent, edges = _sent(joint, widths), np.cumsum([0, *(widths[:-1] - 1)])
    everywhere = sent.mean(axis=0)
    classes = []
    for k in np.unique(index):
        own, number = np.unique(kinds[index == k], return_inverse=True)
        member = np.equal.outer(np.arange(len(own)), number).astype(np.float64)
        rows = member.sum(axis=1)
        share = (member @ sent[index == k] + _PRIOR_ROWS * everywhere) / (rows + _PRIOR_ROWS)[
            :, None
        ]
        share = share.clip(_TINY, 1.0)
        first = np.log(np.maximum(1.0 - np.add.reduceat(share, edges, axis=1), _TINY))
        weights = np.log(share) - np.repeat(first, widths - 1, axis=1)
        classes.append((np.log(rows / rows.sum()) + first.sum(axis=1), weights.T))

    def chances(values: Ints) -> Floats:
        shown = _sent(_by_block(values, n_symbols, blocks)[0], widths)
        scores = [constant + shown @ weights for constant, weights in classes]
        return np.stack([logsumexp(each, axis=1) for each in scores], axis=1)

    return chances


def _by_block(
    symbols: Ints, n_symbols: Ints, blocks: Sequence[tuple[int, ...]]
) -> tuple[Ints, Ints]:
    """Return what each block sends, and single sensors before them; and of how many outputs."""
    if not blocks:
        return symbols, n_symbols
    blocked = {t for block in blocks for t in block}
    parts = [(t,) for t in range(len(n_symbols)) if t not in blocked] + list(blocks)
    sizes = [[int(n_symbols[t]) for t in part] for part in parts]
    joint = [
        np.ravel_multi_index(tuple(symbols[:, t] for t in part), size)
        for part, size in zip(parts, sizes, strict=True)
    ]
    return np.stack(joint, axis=1), np.array([int(np.prod(size)) for size in sizes])


def _sent(symbols: Ints, n_symbols: Ints) -> Floats:
    """Return ones where a sensor sends a symbol, for all but each sensor's first."""
    values = np.concatenate([np.arange(1, n) for n in n_symbols])
    if len(values) > len(n_symbols):
        symbols = np.repeat(symbols, n_symbols - 1, axis=1)
    return np.equal(symbols, values, order="C").astype(np.float64)


def _find_states(sent: Floats, n_symbols: Ints, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return log p(state, only first symbols), and what each other symbol adds to it.

    By expectation and maximisation, from random shares of the rows; each symbol counts as sent once
    more than it was.
    """
    edges = np.cumsum([0, *(n_symbols[:-1] - 1)])
    shares = rng.dirichlet(np.full(_STATES, 0.3), size=len(sent))
    for _ in range(_STEPS):
        total, counts = shares.sum(axis=0)[:, None], shares.T @ sent
        first = np.log(total - np.add.reduceat(counts, edges, axis=1) + 1.0)
        weights = (np.log(counts + 1.0) - np.repeat(first, n_symbols - 1, axis=1)).T
        prior = np.log((total[:, 0] + 1.0) / (len(sent) + _STATES))
        constant = prior + (first - np.log(total + n_symbols)).sum(axis=1)
        shares = softmax(constant + sent @ weights, axis=1)
    return constant, weights


def some_rows(values: NDArray[_Number], most: int) -> NDArray[_Number]:
    """Return so many rows at most, at random: their order may mean something."""
    rows = np.random.default_rng(0).choice(len(values), min(most, len(values)), replace=False)
    return values[rows]
