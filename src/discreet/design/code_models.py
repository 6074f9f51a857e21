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

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array

from discreet.design.losses import Loss
from discreet.design.sweep import Ballots, Swept, code_index, has_numba, row_votes

Floats = NDArray[np.float64]
Features = Any  # a sparse matrix B, one row per code and one column per feature
Factor = tuple[Floats, bool]


@dataclass(frozen=True)
class Fitted:
    """The best heads of one mapping by the models.

    Attributes
    ----------
    values : ndarray of shape (n_heads,)
        Minimal risks, regulariser included.
    w : ndarray of shape (n_heads, n_features)
    scores : ndarray of shape (n_heads, n_codes)
        What each code adds to a head's score, B w.
    sums : ndarray of shape (n_heads, n_codes)
        Minus the slope of the modelled loss in the scores.
    """

    values: Floats
    w: Floats
    scores: Floats
    sums: Floats


class CodeModels:
    """The models of all heads, around the numbers last swept over."""

    def __init__(self, curvatures: Floats, regs: Floats) -> None:
        self.curvatures, self.regs = curvatures, regs
        self._level = np.zeros(len(regs))
        self._slope = np.zeros(curvatures.shape[:2])

    def recentre(self, scores: Floats, swept: Swept) -> None:
        """Make the models exact, with their slopes, where a sweep went."""
        bent = np.stack([c @ v for c, v in zip(self.curvatures, scores, strict=True)])
        self._slope = swept.sums + bent
        self._level = swept.values + (swept.sums * scores).sum(axis=1)
        self._level += 0.5 * (bent * scores).sum(axis=1)

    def systems(self, features: Features) -> list[Factor]:
        """Return the factors of B' H B + reg, one for each head."""
        factors = []
        for curvature, reg in zip(self.curvatures, self.regs, strict=True):
            matrix = features.T @ np.ascontiguousarray((features.T @ curvature).T)
            matrix.flat[:: len(matrix) + 1] += reg
            factors.append(cho_factor(matrix, overwrite_a=True, check_finite=False))
        return factors

    def fit(self, features: Features, systems: list[Factor] | None = None) -> Fitted:
        """Minimise every model over w for the mapping whose B is ``features``."""
        right = self._slope @ features
        w = solve_systems(systems or self.systems(features), right)
        scores = w @ features.T
        bent = np.stack([c @ v for c, v in zip(self.curvatures, scores, strict=True)])
        return Fitted(self._level - 0.5 * (right * w).sum(axis=1), w, scores, self._slope - bent)


def solve_systems(systems: list[Factor], right: Floats) -> Floats:
    """Solve one system for each head."""
    pairs = zip(systems, right, strict=True)
    return np.stack([cho_solve(system, side, check_finite=False) for system, side in pairs])


def stack_features(tables: list[Floats]) -> Features:
    """Return B: one row per code, one column per symbol, the tables on the diagonal."""
    widths = np.repeat([table.shape[1] for table in tables], [len(table) for table in tables])
    firsts = np.cumsum([0] + [table.shape[1] for table in tables])[:-1]
    starts = np.repeat(firsts, [table.size for table in tables])
    columns = starts + np.concatenate([np.arange(t.size) % t.shape[1] for t in tables])
    ends = np.concatenate([[0], np.cumsum(widths)])
    values = np.concatenate([table.ravel() for table in tables])
    return csr_array((values, columns, ends), (len(widths), sum(t.shape[1] for t in tables)))


class Curvatures:
    """Second derivatives of the heads' losses in the codes' numbers, from a sample of rows."""

    def __init__(self, ballots: Ballots, loss: Loss, most: int) -> None:
        self.ballots, self.loss = sample_rows(ballots, most), loss
        self._index = code_index(self.ballots.packed)

    def at(self, scores: Floats) -> Floats:
        """Return one matrix of codes for each head."""
        add = _compiled_pairs if has_numba() else _plain_pairs
        total = np.zeros((len(scores), scores.shape[1], scores.shape[1]))
        for h, table in enumerate(scores):
            weights, signs = row_votes(self.ballots, h)
            bent = weights * self.loss.curvature(signs * table[self._index].sum(axis=1))
            add(self._index, bent, total[h])
        return total


def sample_rows(ballots: Ballots, most: int) -> Ballots:
    """Return some of the rows, always the same ones, with votes that keep the sums' scale."""
    if len(ballots) <= most:
        return ballots
    rng = np.random.default_rng(0)
    index = np.sort(rng.choice(len(ballots), most, replace=False))
    return ballots.take(index, len(ballots) / most)


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
