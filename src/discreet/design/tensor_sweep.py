"""One sweep over the rows for heads on tensor features: losses, slopes in W, slopes in Q.

The twin of ``sweep`` for kernels that look at several sensors together. Rows go through in
blocks; blocks belong to segments that depend on the number of rows alone, and segments are
added up in order, so that any number of threads gives the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Floats, Ints
from discreet.design.losses import Loss
from discreet.design.sweep import default_threads, segments, share_out
from discreet.design.tensor_features import Factors, Form

_BLOCK = 1 << 13  # rows: two factors of 64 numbers each fill 4 MB
# Beyond so many rows factors are of single precision: their errors average out over the rows,
# and blocks are added up in double precision.
_SINGLE_ROWS = 1 << 14


@dataclass(frozen=True)
class TensorRows:
    """Coded rows, what each counts for each head, and the form of their features.

    ``kinds``: the combination of labels that a row has. ``counts``: how often the row occurs; empty
    if once. ``signed_weights`` of shape (n_heads, n_kinds): signed weights.
    """

    codes: NDArray[Any]
    kinds: NDArray[Any]
    counts: Floats
    signed_weights: Floats
    form: Form
    scale: float

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, index: Ints) -> TensorRows:
        """Return some of the rows, with signed weights that keep the sums' scale."""
        counts = self.counts[index] if len(self.counts) else self.counts
        signed_weights = self.signed_weights * (len(self) / len(index))
        codes, kinds = self.codes[index], self.kinds[index]
        return TensorRows(codes, kinds, counts, signed_weights, self.form, self.scale)

    def block(self, rows: slice) -> TensorRows:
        """Return rows that follow each other, with the signed weights as they are."""
        counts = self.counts[rows]
        return replace(self, codes=self.codes[rows], kinds=self.kinds[rows], counts=counts)


class AnyTensorRows(Protocol):
    """The same rows wherever they are: some of them at a time can be had in memory."""

    @property
    def form(self) -> Form: ...

    @property
    def scale(self) -> float: ...

    def __len__(self) -> int: ...

    def take(self, index: Ints) -> TensorRows: ...

    def block(self, rows: slice) -> TensorRows: ...


@dataclass(frozen=True)
class TensorSwept:
    """Losses of all heads and minus their slopes in W, with the axes (head, a, b)."""

    values: Floats
    sums: Floats


def tensor_sweep(
    rows: AnyTensorRows,
    vectors: Sequence[Floats],
    w: Floats,
    loss: Loss,
    threads: int | None = None,
) -> TensorSwept:
    """Return losses and slopes of heads ``w``, whose axes are (head, a, b)."""
    cuts, n = segments(len(rows)), len(rows)  # residuals times n are of the size of 1
    values, sums = np.zeros((len(cuts), len(w))), np.zeros((len(cuts), *w.shape))

    vectors, matrices = _precise(rows, vectors), _precise(rows, list(w))

    def work(k: int) -> None:
        for part in map(rows.block, _blocks(cuts[k])):
            factors = rows.form.factors(vectors, part.codes.astype(np.int64))
            for h, matrix in enumerate(matrices):
                scores = _scores(part, factors.a, matrix @ factors.b)
                value, residual = _losses(part, h, scores, loss)
                values[k, h] += value
                small = (rows.scale * n * residual).astype(factors.a.dtype)
                sums[k, h] += (factors.a * small) @ factors.b.T

    share_out(work, len(cuts), threads or default_threads())
    return TensorSwept(values.sum(axis=0), rows.form.mask * sums.sum(axis=0) / n)


def tensor_slopes(
    rows: AnyTensorRows,
    vectors: Sequence[Floats],
    w: Floats,
    loss: Loss,
    weights: Floats,
    threads: int | None = None,
) -> list[Floats]:
    """Return the slopes of ``weights @ losses`` in the vectors of every code."""
    cuts = segments(len(rows))
    totals: list[list[Floats]] = [[] for _ in cuts]
    shapes = [vector.shape for vector in vectors]
    vectors, matrices = _precise(rows, vectors), _precise(rows, list(w))

    def work(k: int) -> None:
        total = [np.zeros(shape) for shape in shapes]
        for part in map(rows.block, _blocks(cuts[k])):
            factors = rows.form.factors(vectors, part.codes.astype(np.int64))
            slopes = _factor_slopes(part, factors, matrices, loss, weights)
            for sums, found in zip(total, factors.pull_back(*slopes), strict=True):
                sums += found
        totals[k] = total

    share_out(work, len(cuts), threads or default_threads())
    return [np.sum(parts, axis=0) for parts in zip(*totals, strict=True)]


def feature_rows(rows: TensorRows, vectors: Sequence[Floats], which: Ints | None = None) -> Floats:
    """Write features of all rows out, one row each; for few rows or few features only.

    ``which`` chooses among the features that the form keeps.
    """
    factors = rows.form.factors(vectors, rows.codes.astype(np.int64))
    kept = np.flatnonzero(rows.form.mask.ravel())
    a, b = np.divmod(kept if which is None else kept[which], rows.form.mask.shape[1])
    return rows.scale * (factors.a[a] * factors.b[b]).T


def row_curvatures(rows: TensorRows, vectors: Sequence[Floats], w: Floats, loss: Loss) -> Floats:
    """Return the weighted second derivative of every row's loss, one row per head."""
    factors = rows.form.factors(vectors, rows.codes.astype(np.int64))
    found = []
    for h, matrix in enumerate(w):
        weights, signs = _signed_weights(rows, h)
        margins = signs * _scores(rows, factors.a, matrix @ factors.b)
        found.append(weights * loss.curvature(margins))
    return np.stack(found)


def _factor_slopes(
    rows: TensorRows,
    factors: Factors,
    matrices: Sequence[Floats],
    loss: Loss,
    weights: Floats,
) -> tuple[Floats, Floats]:
    slope_a, slope_b = np.zeros(factors.a.shape), np.zeros(factors.b.shape)
    for h, (matrix, weight) in enumerate(zip(matrices, weights, strict=True)):
        right = matrix @ factors.b
        scores = _scores(rows, factors.a, right)
        residual = -weight * rows.scale * _losses(rows, h, scores, loss)[1]
        slope_a += right * residual
        slope_b += (matrix.T @ factors.a) * residual
    return slope_a, slope_b


def _scores(rows: TensorRows, a: Floats, right: Floats) -> Floats:
    total: Floats = np.einsum("an,an->n", a, right).astype(np.float64)
    return rows.scale * total


def _precise(rows: AnyTensorRows, arrays: Sequence[Floats]) -> list[Floats]:
    """Return the arrays in the precision that so many rows ask for."""
    kind = np.float32 if len(rows) > _SINGLE_ROWS else np.float64
    return [np.asarray(array, dtype=kind) for array in arrays]


def _losses(rows: TensorRows, h: int, scores: Floats, loss: Loss) -> tuple[float, Floats]:
    """Return the loss of a block and b = -d loss / d score."""
    weights, signs = _signed_weights(rows, h)
    margins = signs * scores
    return float(weights @ loss.value(margins)), -weights * signs * loss.gradient(margins)


def _signed_weights(rows: TensorRows, h: int) -> tuple[Floats, Floats]:
    signed_weights = rows.signed_weights[h][rows.kinds]
    weights = np.abs(signed_weights) * rows.counts if len(rows.counts) else np.abs(signed_weights)
    return weights, np.where(signed_weights >= 0.0, 1.0, -1.0)


def _blocks(part: slice) -> list[slice]:
    edges = range(part.start, part.stop, _BLOCK)
    return [slice(begin, min(begin + _BLOCK, part.stop)) for begin in edges]
