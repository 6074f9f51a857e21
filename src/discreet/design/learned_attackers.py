"""What attackers learn from known rows: how likely symbols are for each class.

Trees and mixtures of states find what nobody named; a mixture of the kinds of rows (combinations of
all facts) is what designs are made by. Whoever looks at rows left out scores them by this
(``attacker_views``), or raw codes likewise (``raw_answers``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import softmax

from discreet.arrays import Floats, Ints, distinct_rows
from discreet.leakage.joint_outputs import output_probabilities

LEAST_KNOWN = 500
"""Rows of each class that are learned from, if there are so many."""
_TREES, _LEAF = 120, 50  # of all classes together, and their rows in a leaf
# States of each class, steps that they are learned in, and about how many symbols.
_STATES, _STEPS, _MOST_SYMBOLS = 6, 30, 1_000_000
_FEW_SYMBOLS = 16  # of a sensor, on average: of more, most of what is not sent takes no memory
_PRIOR_ROWS = 4.0  # that all rows count for in each kind
_MOST_CHANCES = 2**18  # of outputs given codes, that are held at once
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
        return np.stack([np.logaddexp.reduce(each, axis=1) for each in scores], axis=1)

    return chances


class LearnedKinds:
    """For every class the mixture of its kinds, given which blocks are independent.

    It is what designs are made by: it sees what all sensors tell together, also where the private
    class moves them to either side, by the public one. What codes are expected to send is known, so
    that nothing is drawn. Called with symbols, it returns ``Chances``.
    """

    def __init__(
        self,
        tables: Sequence[Floats],
        codes: Ints,
        index: Ints,
        kinds: Ints,
        blocks: Sequence[tuple[int, ...]] = (),
    ) -> None:
        self._sizes, self._parts = [table.shape[1] for table in tables], _parts(len(tables), blocks)
        n_kinds = kinds.max(initial=0) + 1
        pairs, kind, rows = np.unique(
            index * n_kinds + kinds, return_inverse=True, return_counts=True
        )
        parts = [
            _expect([tables[t] for t in part], codes[:, part], kind, rows) for part in self._parts
        ]
        self._widths = np.array([share.shape[1] for share, _ in parts])
        chance = _by_symbol([np.log(share) for share, _ in parts])
        unsure = _by_symbol([spread / (rows[:, None] * share**2) for share, spread in parts])
        # By class: how likely its kinds are, and each symbol of them, and how unsure that is.
        self._classes = []
        for k in np.unique(pairs // n_kinds):
            own = np.flatnonzero(pairs // n_kinds == k)
            prior = np.log(rows[own] / rows[own].sum())
            self._classes.append((prior, chance.of(own), unsure.of(own)))

    def __call__(self, symbols: Ints) -> Floats:
        sent = self._sent(symbols)
        kinds = [prior + chance.along(sent) for prior, chance, _ in self._classes]
        return np.stack([np.logaddexp.reduce(each, axis=1) for each in kinds], axis=1)

    def unsure(self, symbols: Ints) -> Floats:
        """Return for every class the variance of its scores that comes from the lessons.

        Errors of kinds that are about as likely average out.
        """
        sent, found = self._sent(symbols), []
        for prior, chance, unsure in self._classes:
            likely = softmax(prior + chance.along(sent), axis=1)
            found.append(np.mean(np.sum(likely**2 * unsure.along(sent), axis=1)))
        return np.array(found)

    def _sent(self, symbols: Ints) -> Any:
        return _sent(_by_part(symbols, self._sizes, self._parts), self._widths)


@dataclass(frozen=True)
class _BySymbol:
    """Sums over parts of what belongs to the output that each sends; rows are kinds.

    ``first``: where all send their first output. ``more``: what each other one adds.
    """

    first: Floats
    more: Floats

    def of(self, kinds: Ints) -> _BySymbol:
        return _BySymbol(self.first[kinds], self.more[kinds])

    def along(self, sent: Any) -> Floats:
        """Return the sums for what was sent, rows by kinds."""
        return np.asarray(self.first + sent @ self.more.T)


def _by_symbol(parts: Sequence[Floats]) -> _BySymbol:
    first = np.sum([part[:, 0] for part in parts], axis=0)
    return _BySymbol(first, np.concatenate([part[:, 1:] - part[:, :1] for part in parts], axis=1))


def _parts(n_sensors: int, blocks: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """Return the single sensors, one by one, then the blocks."""
    several = [list(block) for block in blocks if len(block) > 1]
    blocked = {t for block in several for t in block}
    return [[t] for t in range(n_sensors) if t not in blocked] + several


def _expect(tables: Sequence[Floats], codes: Ints, kind: Ints, rows: Ints) -> tuple[Floats, Floats]:
    """Return how likely each output is for each kind, and the variance of that for each row.

    ``rows``: how many there are of each kind.
    """
    place, distinct = codes[:, 0], np.arange(len(tables[0]))[:, None]
    if len(tables) > 1:
        found = distinct_rows(codes)
        place, distinct = found.inverse, found.rows
    n_outputs = math.prod([table.shape[1] for table in tables])
    total, squares = np.zeros((2, len(rows), n_outputs))
    at_once = max(_MOST_CHANCES // max(n_outputs, len(rows)), 1)
    for begin in range(0, len(distinct), at_once):
        some = distinct[begin : begin + at_once]
        own = (
            (place >= begin) & (place < begin + at_once) if at_once < len(distinct) else slice(None)
        )
        counts = np.bincount(
            kind[own] * len(some) + place[own] - begin, minlength=len(rows) * len(some)
        ).reshape(len(rows), -1)
        sent = output_probabilities(tables, some)
        total += counts @ sent
        squares += counts @ sent**2
    n = rows[:, None]
    share = (total + _PRIOR_ROWS * total.sum(axis=0) / rows.sum()) / (n + _PRIOR_ROWS)
    share = np.asarray(share.clip(_TINY, 1.0))
    # Of one row any spread may be true.
    spread = np.where(n > 1, (squares - total**2 / n) / np.maximum(n - 1, 1), share * (1.0 - share))
    return share, np.asarray(np.maximum(spread, 0.0))


def _by_part(symbols: Ints, sizes: Sequence[int], parts: Sequence[Sequence[int]]) -> Ints:
    """Return what each part sends, as the number of its output."""
    if len(parts) == len(sizes):
        return symbols
    outputs = [
        np.ravel_multi_index(tuple(symbols[:, t] for t in part), [sizes[t] for t in part])
        for part in parts
    ]
    return np.stack(outputs, axis=1)


def _sent(symbols: Ints, n_symbols: Ints) -> Any:
    """Return ones where a sensor sends a symbol, for all but each sensor's first.

    A sparse matrix where symbols are many, as codes of raw readings may be.
    """
    values = np.concatenate([np.arange(1, n) for n in n_symbols])
    if len(values) == len(n_symbols):
        return np.equal(symbols, values, order="C").astype(np.float64)
    if len(values) <= _FEW_SYMBOLS * len(n_symbols):
        return (np.repeat(symbols, n_symbols - 1, axis=1) == values).astype(np.float64)
    rows, sensors = np.nonzero(symbols)
    columns = np.cumsum([0, *(n_symbols[:-1] - 1)])[sensors] + symbols[rows, sensors] - 1
    shape = len(symbols), len(values)
    return csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)


def _find_states(sent: Any, n_symbols: Ints, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return log p(state, only first symbols), and what each other symbol adds to it.

    By expectation and maximisation, from random shares of the rows; each symbol counts as sent once
    more than it was.
    """
    edges = np.cumsum([0, *(n_symbols[:-1] - 1)])
    shares = rng.dirichlet(np.full(_STATES, 0.3), size=sent.shape[0])
    for _ in range(_STEPS):
        total, counts = shares.sum(axis=0)[:, None], shares.T @ sent
        first = np.log(total - np.add.reduceat(counts, edges, axis=1) + 1.0)
        weights = (np.log(counts + 1.0) - np.repeat(first, n_symbols - 1, axis=1)).T
        prior = np.log((total[:, 0] + 1.0) / (sent.shape[0] + _STATES))
        constant = prior + (first - np.log(total + n_symbols)).sum(axis=1)
        shares = softmax(constant + sent @ weights, axis=1)
    return constant, weights


def some_rows(values: NDArray[_Number], most: int) -> NDArray[_Number]:
    """Return so many rows at most, at random: their order may mean something."""
    rows = np.random.default_rng(0).choice(len(values), min(most, len(values)), replace=False)
    return values[rows]
