"""The best heads of a mapping on tensor features, from sweeps over all rows.

Features are many (thousands) and most of them tiny: products of several sensors' small
deviations. So steps are those of L-BFGS, begun with the curvature that a sample of the rows
shows: the whole matrix of the largest features, and the diagonal for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from discreet.design.losses import Loss
from discreet.design.metric import Metric
from discreet.design.tensor_sweep import (
    AnyTensorRows,
    feature_rows,
    row_curvatures,
    tensor_sweep,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Rows behind the diagonal of the curvature, and behind the matrix of the largest features.
_DIAGONAL_ROWS, _CORE_ROWS = 1024, 8192
_CORE = 600  # features whose whole matrix is taken
_WORTH_FRESH = 1 << 17  # rows beyond which a pass costs more than a new curvature
_MANY_SHUFFLED = 1 << 24  # rows beyond which their numbers alone would fill memory
_MOST_STEPS = 100
_NOISE = 1e-9  # relative, of a risk added up in single precision
_MANY_STEPS = 8  # a solution that took so many asks for a new curvature


@dataclass(frozen=True)
class TensorSolved:
    """The minimum of every head's risk; ``w`` has the axes (head, a, b)."""

    values: Floats
    w: Floats


class TensorSolver:
    """Solves all heads for one mapping after the other, each from where the last one ended.

    ``passes``: sweeps over the rows so far.
    """

    def __init__(
        self, rows: AnyTensorRows, loss: Loss, regs: Floats, *, tolerance: float = 1e-8
    ) -> None:
        self.rows, self.loss, self.regs = rows, loss, np.asarray(regs, dtype=np.float64)
        self.tolerance, self.passes = tolerance, 0
        self._kept = np.flatnonzero(rows.form.mask.ravel())
        self._w = np.zeros((len(self.regs), len(self._kept)))
        self._first: _SampledCurvature | None = None
        order = _shuffled(len(rows))
        self._samples = [rows.take(np.sort(order[:n])) for n in (_DIAGONAL_ROWS, _CORE_ROWS)]

    def begin_where(self, other: TensorSolver) -> None:
        """Begin the next solution where a solver for other rows ended."""
        self._w = other._w

    def solve(self, vectors: Sequence[Floats]) -> TensorSolved:
        """Minimise every head for the mapping with these vectors of codes."""
        fresh = self._first is None or len(self.rows) > _WORTH_FRESH
        first = self._curvature(vectors, self._w) if fresh else self._first
        assert first is not None
        metric, w, last = Metric(first), self._w, None
        length, before = np.ones(len(w)), self.passes
        for _ in range(_MOST_STEPS):
            values, slopes = self._risk(vectors, w)
            if last is not None:
                worse = values > last[1] + _NOISE * np.abs(values)
                if worse.any():  # overshot: back, and half the way
                    length = np.where(worse, 0.5 * length, length)
                    if length.min() < 1e-6:
                        break
                    w = last[0] - length[:, None] * last[3]
                    continue
                metric.learn(w - last[0], slopes - last[2])
            step = metric.solve(slopes)
            if np.all(0.5 * (slopes * step).sum(axis=1) <= self.tolerance):
                break
            last, length = (w, values, slopes, step), np.ones(len(w))
            w = w - step
        self._w = w
        slow = self.passes - before > _MANY_STEPS
        self._first = self._curvature(vectors, w) if slow else first
        return TensorSolved(values, self._whole(w))

    def _risk(self, vectors: Sequence[Floats], w: Floats) -> tuple[Floats, Floats]:
        self.passes += 1
        swept = tensor_sweep(self.rows, vectors, self._whole(w), self.loss)
        values = swept.values + 0.5 * self.regs * (w * w).sum(axis=1)
        sums = swept.sums.reshape(len(w), -1)[:, self._kept]
        return values, self.regs[:, None] * w - sums

    def _whole(self, w: Floats) -> Floats:
        whole = np.zeros((len(w), self.rows.form.mask.size))
        whole[:, self._kept] = w
        return whole.reshape(len(w), *self.rows.form.mask.shape)

    def _curvature(self, vectors: Sequence[Floats], w: Floats) -> _SampledCurvature:
        some, more = self._samples
        whole = self._whole(w)
        squares = row_curvatures(some, vectors, whole, self.loss) @ feature_rows(some, vectors) ** 2
        core = np.sort(np.argsort(-squares.max(axis=0), kind="stable")[:_CORE])
        weights = row_curvatures(more, vectors, whole, self.loss)
        features = feature_rows(more, vectors, core)
        return _SampledCurvature(squares, core, features, weights, self.regs)


def _shuffled(n_rows: int) -> Ints:
    """Return the first rows of a shuffle that is always the same."""
    rng = np.random.default_rng(0)
    if n_rows <= _MANY_SHUFFLED:
        return rng.permutation(n_rows)
    return rng.choice(n_rows, _CORE_ROWS, replace=False)


class _SampledCurvature:
    """The matrix of the largest features and the diagonal of the rest, for every head."""

    def __init__(
        self, squares: Floats, core: Ints, features: Floats, weights: Floats, regs: Floats
    ) -> None:
        self._core, self._diagonals = core, squares + regs[:, None]
        self._factors = []
        for weight, reg in zip(weights, regs, strict=True):
            matrix = features.T @ (weight[:, None] * features)
            matrix.flat[:: len(matrix) + 1] += reg
            self._factors.append(cho_factor(matrix, overwrite_a=True, check_finite=False))

    def solve(self, right: Floats) -> Floats:
        step = right / self._diagonals
        for h, factor in enumerate(self._factors):
            step[h, self._core] = cho_solve(factor, right[h, self._core], check_finite=False)
        return step
