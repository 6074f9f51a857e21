"""Kernels on the symbols that a network sends, averaged over the mapping.

With Phi_Q(x) = sum_z Q(z|x) Phi(z), the kernel of two rows is

    kappa_Q(x, x') = sum_z sum_z' Q(z|x) Q(z'|x') kappa(z, z').

The double sum never has to be written out: Q factorises over the sensors, so one
small table ``M_t = Q^t K_t Q^t'`` per sensor is enough, and a kernel only says how
those tables combine (MATH: the paper's O(|Z|^2s) per entry is O(s)). A kernel is a
sum of ``components``; each component has one symbol kernel ``K_t`` per sensor and
is affine in every single ``M_t``, which is what the sensor-by-sensor solver needs.

To add a kernel, write one class and list it in ``discreet.choices``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product as cartesian
from typing import Protocol

import numpy as np
from scipy.special import gamma, roots_genlaguerre

from discreet.arrays import Floats, Ints
from discreet.errors import InputError

Component = tuple[float, list[Floats]]

# Decay of the product kernel over all sensors together: two outputs that differ at
# every sensor have similarity exp(-5.5), whatever the number of sensors.
_TOTAL_DECAY = 5.5
_BLOCK = 2**21  # pairs of rows and sensors whose tables are held at once


class Kernel(Protocol):
    """How symbol kernels of single sensors make the kernel of an output."""

    @property
    def name(self) -> str: ...
    def reach(self, n_sensors: int) -> int:
        """Return how many sensors it looks at together.

        If that is all of them, the Gram matrix over all outputs is positive definite. A
        secret that shows only in larger combinations escapes the kernel.
        """
        ...

    def components(self, sizes: Sequence[int]) -> list[Component]:
        """Return (weight, [K_1, ..., K_s]) for each term of the kernel."""
        ...

    def combine(self, tables: Sequence[Floats]) -> Floats:
        """Combine the sensors' tables, elementwise, into one component's kernel."""
        ...

    def split(self, tables: Sequence[Floats], t: int) -> tuple[Floats, Floats]:
        """Return (rest, slope) with ``combine(tables) == rest + slope * tables[t]``."""
        ...


@dataclass(frozen=True)
class CountKernel:
    """kappa(z, z') = number of sensors that agree. Blind to joint leaks.

    It sees each sensor by itself: a secret that shows only in the combination of
    two sensors (exclusive-or) looks perfectly private to it.
    """

    name = "count"

    def reach(self, n_sensors: int) -> int:
        return 1

    def components(self, sizes: Sequence[int]) -> list[Component]:
        return [(1.0, [np.eye(size) for size in sizes])]

    def combine(self, tables: Sequence[Floats]) -> Floats:
        return np.asarray(np.sum(tables, axis=0))

    def split(self, tables: Sequence[Floats], t: int) -> tuple[Floats, Floats]:
        others = [table for j, table in enumerate(tables) if j != t]
        rest = np.sum(others, axis=0) if others else np.zeros_like(tables[t])
        return rest, np.ones_like(tables[t])


@dataclass(frozen=True)
class ProductKernel:
    """Gaussian kernel on symbols: kappa(z, z') = prod_t k(z^t, z'^t).

    ``off_diagonal``: similarity of two different symbols of one sensor, in (0, 1). By default it
    grows with the number of sensors, exp(-5.5 / s), so that products over many sensors do not
    vanish and turn the Gram matrix into the identity.
    """

    off_diagonal: float | None = None

    name = "product"

    def __post_init__(self) -> None:
        if self.off_diagonal is not None and not 0.0 < self.off_diagonal < 1.0:
            raise InputError(
                f"off_diagonal must lie strictly between 0 and 1, got {self.off_diagonal!r}."
            )

    def reach(self, n_sensors: int) -> int:
        return n_sensors

    def components(self, sizes: Sequence[int]) -> list[Component]:
        similarity = self.off_diagonal
        if similarity is None:
            similarity = float(np.exp(-_TOTAL_DECAY / len(sizes)))
        return [(1.0, [_two_level(size, similarity) for size in sizes])]

    def combine(self, tables: Sequence[Floats]) -> Floats:
        return np.asarray(np.prod(tables, axis=0))

    def split(self, tables: Sequence[Floats], t: int) -> tuple[Floats, Floats]:
        others = [table for j, table in enumerate(tables) if j != t]
        slope = np.prod(others, axis=0) if others else np.ones_like(tables[t])
        return np.zeros_like(tables[t]), slope


@dataclass(frozen=True)
class AnovaKernel:
    """kappa(z, z') = number of sets of at most ``degree`` sensors that agree.

    Between the two others: it sees leaks through the combination of up to
    ``degree`` sensors, and no further.

    ``degree``: largest number of sensors looked at together.
    """

    degree: int = 2

    name = "anova"

    def __post_init__(self) -> None:
        _check_count("degree", self.degree)

    def reach(self, n_sensors: int) -> int:
        return min(self.degree, n_sensors)

    def components(self, sizes: Sequence[int]) -> list[Component]:
        return [(1.0, [np.eye(size) for size in sizes])]

    def combine(self, tables: Sequence[Floats]) -> Floats:
        return np.asarray(np.sum(_elementary(tables, self.degree), axis=0))

    def split(self, tables: Sequence[Floats], t: int) -> tuple[Floats, Floats]:
        others = [table for j, table in enumerate(tables) if j != t]
        if not others:
            return np.ones_like(tables[t]), np.ones_like(tables[t])
        sums = _elementary(others, self.degree)
        return np.sum(sums, axis=0), np.sum(sums[:-1], axis=0)


@dataclass(frozen=True)
class InverseMultiquadricKernel:
    """kappa(z, z') = 1 / sqrt(1 + 4 d(z, z') / s), d = number of sensors that differ.

    A mixture of Gaussians, 1/sqrt(1+r) = E[exp(-T r)] with T ~ Gamma(1/2), taken
    with ``nodes`` points of generalised Gauss-Laguerre quadrature. The quadrature is
    the kernel: positive weights keep it strictly positive definite.

    ``nodes``: number of Gaussians in the mixture.
    """

    nodes: int = 8

    name = "inverse-multiquadric"

    def __post_init__(self) -> None:
        _check_count("nodes", self.nodes)

    def reach(self, n_sensors: int) -> int:
        return n_sensors

    def components(self, sizes: Sequence[int]) -> list[Component]:
        points, weights = roots_genlaguerre(self.nodes, -0.5)
        decays = np.exp(-points * 4.0 / len(sizes))
        return [
            (float(weight / gamma(0.5)), [_two_level(size, float(decay)) for size in sizes])
            for weight, decay in zip(weights, decays, strict=True)
        ]

    combine = ProductKernel.combine
    split = ProductKernel.split


def output_gram(kernel: Kernel, sizes: Sequence[int]) -> Floats:
    """Return the Gram matrix over all outputs, first sensor slowest."""
    symbols = np.array(list(cartesian(*(range(size) for size in sizes))), dtype=np.int64)
    tables = [np.eye(size) for size in sizes]
    return cross_gram(kernel, tables, symbols, tables, symbols)


def cross_gram(
    kernel: Kernel,
    left: Sequence[Floats],
    left_codes: Ints,
    right: Sequence[Floats],
    right_codes: Ints,
) -> Floats:
    """Return kappa between rows mapped by ``left`` and rows mapped by ``right``."""
    total = np.zeros((len(left_codes), len(right_codes)))
    for weight, symbol_kernels in kernel.components([table.shape[1] for table in left]):
        for block in pair_blocks(len(left_codes), right_codes.size):
            tables = pair_tables(symbol_kernels, left, left_codes[block], right, right_codes)
            total[block] += weight * kernel.combine(tables)
    return total


def pair_blocks(n_rows: int, pairs_of_a_row: int) -> Iterator[slice]:
    """Split rows so that the tables of their pairs, one for each sensor, fit in memory."""
    size = max(1, _BLOCK // max(1, pairs_of_a_row))
    return (slice(begin, begin + size) for begin in range(0, n_rows, size))


def pair_tables(
    symbol_kernels: Sequence[Floats],
    left: Sequence[Floats],
    left_codes: Ints,
    right: Sequence[Floats],
    right_codes: Ints,
) -> list[Floats]:
    """Return M_t[x_i^t, x'_j^t] for every sensor t and every pair of rows (i, j)."""
    return [
        (q @ k @ p.T)[np.ix_(left_codes[:, t], right_codes[:, t])]
        for t, (k, q, p) in enumerate(zip(symbol_kernels, left, right, strict=True))
    ]


def _check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} must be an integer of at least 1, got {value!r}.")


def _two_level(size: int, similarity: float) -> Floats:
    """Return ones on the diagonal and ``similarity`` elsewhere."""
    return (1.0 - similarity) * np.eye(size) + similarity * np.ones((size, size))


def _elementary(tables: Sequence[Floats], degree: int) -> list[Floats]:
    """Return the elementary symmetric polynomials of order 0 to ``degree``."""
    sums = [np.ones_like(tables[0])] + [np.zeros_like(tables[0]) for _ in range(degree)]
    for table in tables:
        for order in range(degree, 0, -1):
            sums[order] = sums[order] + table * sums[order - 1]
    return sums
