"""Features of the product and ANOVA kernels for many rows, as two short factors per row.

Each sensor gives a row a short vector p_t(x) = (1, v_t(x)), where v_t is linear in the row
Q^t[x] of its table. A head w is then a matrix W, and a row's score is a' W b with

- ``halves``: a and b the products of p_t over the first and the second half of the sensors.
  All products of all sensors: the product kernel, exactly.
- ``pairs``: a = b = (1, v_1, ..., v_s), with W above the diagonal. All sensors alone and by
  two: ANOVA kernels of degree 1 and 2 exactly, and the first terms of the product kernel.

A row costs |a| + |b| numbers instead of |a| |b|, and a block of rows two matrix products.
The product kernel is k(x, x') = c^2 prod_t (1 + <v_t(x), v_t(x')>), so leaving out products of
three and more sensors loses a part of it that is known exactly (``missing_share``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from discreet.arrays import Floats, Ints
from discreet.design.kernels import AnovaKernel, Kernel, ProductKernel
from discreet.leakage.joint_outputs import Products, scatter_rows

MOST_EXACT = 4096
"""Most outputs for which all products of sensors are taken."""


@dataclass(frozen=True)
class Lifts:
    """How rows of the tables become the vectors v_t: v_t(x) = Q^t[x] @ matrices[t].

    ``scale`` is the factor c that all features share.
    """

    matrices: list[Floats]
    scale: float

    def vectors(self, tables: Sequence[Floats]) -> list[Floats]:
        """Return p_t(x) = (1, v_t(x)) for every code, one array per sensor."""
        pairs = zip(tables, self.matrices, strict=True)
        return [np.column_stack([np.ones(len(q)), q @ matrix]) for q, matrix in pairs]

    def pull(self, slopes: Sequence[Floats]) -> list[Floats]:
        """Turn slopes in p_t into slopes in the tables."""
        pairs = zip(slopes, self.matrices, strict=True)
        return [slope[:, 1:] @ matrix.T for slope, matrix in pairs]


def lifts_of(kernel: Kernel, n_symbols: Sequence[int]) -> Lifts | None:
    """Return how the kernel lifts tables, None if it has no such form."""
    if isinstance(kernel, AnovaKernel) and kernel.degree <= 2:
        return Lifts([np.eye(size) for size in n_symbols], 1.0)
    if not isinstance(kernel, ProductKernel):
        return None
    ((_, symbol_kernels),) = kernel.components(n_symbols)
    matrices, scale = [], 1.0
    for symbol_kernel in symbol_kernels:
        size = len(symbol_kernel)
        similarity = symbol_kernel[0, 1]
        # q' K q' = constant + (1 - similarity) |part of q that sums to zero|^2, if q sums to 1.
        constant = (1.0 - similarity + size * similarity) / size
        matrices.append(_sums_to_zero(size) * np.sqrt((1.0 - similarity) / constant))
        scale *= float(np.sqrt(constant))
    return Lifts(matrices, scale)


def _sums_to_zero(size: int) -> Floats:
    """Return an orthonormal basis, as columns, of the vectors that sum to zero."""
    whole = np.linalg.qr(np.column_stack([np.ones(size), np.eye(size)[:, : size - 1]]))[0]
    return np.asarray(whole[:, 1:])


class Form(Protocol):
    """How vectors of sensors make the two factors of a row."""

    exact: bool
    mask: Floats

    def factors(self, vectors: Sequence[Floats], codes: Ints) -> Factors: ...


class Factors(Protocol):
    """The factors a and b of some rows, one column per row."""

    a: Floats
    b: Floats

    def pull_back(self, slope_a: Floats, slope_b: Floats) -> list[Floats]:
        """Turn slopes in the factors into slopes in the vectors of every code."""
        ...


class Halves:
    """Products over the first half of the sensors, and over the second."""

    exact = True

    def __init__(self, widths: Sequence[int]) -> None:
        total = np.cumsum(np.log(widths))
        self._cut = int(np.argmin(np.abs(total - 0.5 * total[-1]))) + 1
        self.mask = np.ones((_product(widths[: self._cut]), _product(widths[self._cut :])))

    def factors(self, vectors: Sequence[Floats], codes: Ints) -> Factors:
        return _HalfFactors(vectors, codes, self._cut)


class _HalfFactors:
    def __init__(self, vectors: Sequence[Floats], codes: Ints, cut: int) -> None:
        self._first = Products(vectors[:cut], codes[:, :cut])
        self._second = Products(vectors[cut:], codes[:, cut:])
        self.a, self.b = self._first.by_output, self._second.by_output

    def pull_back(self, slope_a: Floats, slope_b: Floats) -> list[Floats]:
        return self._first.pull_back(slope_a) + self._second.pull_back(slope_b)


class Pairs:
    """Each sensor alone, and every two of them."""

    def __init__(self, widths: Sequence[int], *, exact: bool, alone: bool = False) -> None:
        self.exact = exact
        owner = np.concatenate([[-1], np.repeat(np.arange(len(widths)), np.subtract(widths, 1))])
        self.mask = (owner[:, None] < owner).astype(np.float64)
        self.mask[0, 0] = 1.0
        if alone:
            self.mask[1:] = 0.0

    def factors(self, vectors: Sequence[Floats], codes: Ints) -> Factors:
        return _PairFactors(vectors, codes)


class _PairFactors:
    def __init__(self, vectors: Sequence[Floats], codes: Ints) -> None:
        self._codes, self._sizes = codes, [len(vector) for vector in vectors]
        parts = [vector[codes[:, t], 1:].T for t, vector in enumerate(vectors)]
        self._widths = [len(part) for part in parts]
        ones = np.ones((1, len(codes)), dtype=vectors[0].dtype)
        self.a = self.b = np.concatenate([ones, *parts])

    def pull_back(self, slope_a: Floats, slope_b: Floats) -> list[Floats]:
        slope, found, begin = slope_a + slope_b, [], 1
        for t, (size, width) in enumerate(zip(self._sizes, self._widths, strict=True)):
            own = scatter_rows(slope[begin : begin + width].T, self._codes[:, t], size)
            found.append(np.column_stack([np.zeros(size), own]))
            begin += width
        return found


def form_of(kernel: Kernel, lifts: Lifts, n_outputs: int) -> Form:
    """Return the exact form if it is small enough, else the one by pairs."""
    widths = [1 + matrix.shape[1] for matrix in lifts.matrices]
    if isinstance(kernel, AnovaKernel):
        return Pairs(widths, exact=True, alone=kernel.degree == 1)
    if n_outputs <= MOST_EXACT:
        return Halves(widths)
    return Pairs(widths, exact=len(widths) <= 2)


def missing_share(vectors: Sequence[Floats], codes: Ints) -> float:
    """Return the share of the product kernel's trace that pairs of sensors do not reach."""
    squares = np.stack([(v[:, 1:] ** 2).sum(axis=1)[codes[:, t]] for t, v in enumerate(vectors)])
    whole = np.prod(1.0 + squares, axis=0)
    alone = squares.sum(axis=0)
    kept = 1.0 + alone + 0.5 * (alone**2 - (squares**2).sum(axis=0))
    return float(1.0 - kept.mean() / whole.mean())


def _product(widths: Sequence[int]) -> int:
    return int(np.prod(np.asarray(widths, dtype=np.int64), initial=1))
