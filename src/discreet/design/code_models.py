"""Quadratic models of the heads' losses, in the numbers that a head gives to the codes.

The features of a mapped row are the rows Q^t[x^t] side by side (count kernel), so a head w
scores a row by v = B w, one number per code, where B has the tables on its diagonal. The
loss depends on Q and w through v alone. Around numbers v' that were swept over,

    loss(v) = loss(v') - sums' (v - v') + 1/2 (v - v')' H (v - v') + ...

with the sums of residuals of that sweep. H changes little and needs no great accuracy, so a
sample of the rows does for it. The model serves any mapping: the best w is one small linear
system away, and no rows are touched. With H fixed, steps to the model's minimum and a sweep
there, in turn, are Newton's method.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array

from discreet.arrays import Floats
from discreet.design.losses import Loss
from discreet.design.sweep import RowSource, Swept, code_index, has_numba, signed_row_weights


@dataclass(frozen=True)
class Fitted:
    """The best heads of one mapping by the models.

    ``values`` of shape (n_heads,): minimal risks, regulariser included. ``w`` is of shape (n_heads,
    n_features). ``sums`` of shape (n_heads, n_codes): minus the slope of the modelled loss in the
    scores.
    """

    values: Floats
    w: Floats
    sums: Floats


class Features:
    """B: one row per code, one column per symbol, the tables of a mapping on the diagonal.

    Only the tables are kept: products with B go sensor by sensor.
    """

    def __init__(self, tables: Sequence[Floats]) -> None:
        self.tables = list(tables)
        self.codes = _slices([len(table) for table in tables])
        self.symbols = _slices([table.shape[1] for table in tables])
        self.shape = (self.codes[-1].stop, self.symbols[-1].stop)

    def scores(self, w: Floats) -> Floats:
        """Return w B': what heads w, one row each, give to every code."""
        found = np.empty((len(w), self.shape[0]))
        for table, codes, symbols in self._parts():
            found[:, codes] = w[:, symbols] @ table.T
        return found

    def pull(self, sums: Floats) -> Floats:
        """Return sums B: the slope in w of what has these slopes in the scores."""
        found = np.empty((len(sums), self.shape[1]))
        for table, codes, symbols in self._parts():
            found[:, symbols] = sums[:, codes] @ table
        return found

    def bend(self, curvatures: Floats) -> Floats:
        """Return B' H, its axes (symbol, head, code), for H with the axes (code, head, code)."""
        wide = curvatures.reshape(self.shape[0], -1)
        found = np.empty((self.shape[1], wide.shape[1]))
        for table, codes, symbols in self._parts():
            np.matmul(table.T, wide[codes], out=found[symbols])
        return found.reshape(self.shape[1], *curvatures.shape[1:])

    def bend_twice(self, bent: Floats) -> Floats:
        """Return B' H B, its axes (symbol, head, symbol), from B' H."""
        flat = bent.reshape(-1, self.shape[0])
        return self.pull(flat).reshape(*bent.shape[:2], self.shape[1])

    def _parts(self) -> Iterator[tuple[Floats, slice, slice]]:
        return zip(self.tables, self.codes, self.symbols, strict=True)


def _slices(sizes: Sequence[int]) -> list[slice]:
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


@dataclass(frozen=True)
class Systems:
    """B' H and the factors of B' H B + reg for every head."""

    bent: Floats
    factors: list[tuple[Floats, bool]]

    def solve(self, right: Floats) -> Floats:
        """Solve one system for each head."""
        pairs = zip(self.factors, right, strict=True)
        return np.stack([cho_solve(factor, side, check_finite=False) for factor, side in pairs])


class CodeModels:
    """The models of all heads, around the numbers last swept over.

    ``curvatures`` has the axes (code, head, code).
    """

    def __init__(self, curvatures: Floats, regs: Floats) -> None:
        self.curvatures, self.regs = curvatures, regs
        self._level = np.zeros(len(regs))
        self._slope = np.zeros((len(regs), len(curvatures)))

    def recentre(self, scores: Floats, swept: Swept) -> None:
        """Make the models exact, with their slopes, where a sweep went."""
        bent = np.stack([self.curvatures[:, h] @ scores[h] for h in range(len(scores))])
        self._slope = swept.sums + bent
        self._level = swept.values + (swept.sums * scores).sum(axis=1)
        self._level += 0.5 * (bent * scores).sum(axis=1)

    def systems(self, features: Features) -> Systems:
        """Prepare the linear systems of one mapping."""
        bent = features.bend(self.curvatures)
        matrices = np.ascontiguousarray(features.bend_twice(bent).transpose(1, 0, 2))
        factors = []
        for matrix, reg in zip(matrices, self.regs, strict=True):
            matrix.flat[:: len(matrix) + 1] += reg
            factors.append(cho_factor(matrix, overwrite_a=True, check_finite=False))
        return Systems(bent, factors)

    def fit(self, features: Features, systems: Systems | None = None) -> Fitted:
        """Minimise every model over w for one mapping."""
        systems = systems or self.systems(features)
        right = features.pull(self._slope)
        w = systems.solve(right)
        bent = np.stack([w[h] @ systems.bent[:, h] for h in range(len(w))])
        return Fitted(self._level - 0.5 * (right * w).sum(axis=1), w, self._slope - bent)


class Curvatures:
    """Second derivatives of the heads' losses in the codes' numbers, from a sample of rows."""

    def __init__(self, box: RowSource, loss: Loss, most: int) -> None:
        self.weighted_rows, self.loss = box.sample(most), loss
        self._index = code_index(self.weighted_rows.packed)

    def at(self, scores: Floats) -> Floats:
        """Return the matrices of all heads, with the axes (code, head, code)."""
        add = _compiled_pairs if has_numba() else _plain_pairs
        total = np.zeros((scores.shape[1], len(scores), scores.shape[1]))
        for h, table in enumerate(scores):
            weights, signs = signed_row_weights(self.weighted_rows, h)
            bent = weights * self.loss.curvature(signs * table[self._index].sum(axis=1))
            add(self._index, bent, total[:, h])
        return total


def _plain_pairs(index: NDArray[np.int64], weights: Floats, total: Floats) -> None:
    n_rows, n_sensors = index.shape
    starts = np.arange(0, index.size + 1, n_sensors)
    codes = csr_array((np.ones(index.size), index.ravel(), starts), (n_rows, len(total)))
    weighted = csr_array((np.repeat(weights, n_sensors), index.ravel(), starts), codes.shape)
    total += np.asarray((weighted.T @ codes).toarray(), dtype=np.float64)


def _compiled_pairs(index: NDArray[np.int64], weights: Floats, total: Floats) -> None:
    from discreet.design.compiled import add_pairs

    half = np.zeros_like(total)
    add_pairs(index, weights, half)
    total += half + np.tril(half, -1).T
