"""Class-conditional distributions of the outputs, p(z|g), from rows and known tables.

The tables are known, so Q(z|x) is averaged over rows instead of drawing symbols:
p^(z|g) = (1/n_g) sum of Q(z|x_i) over the rows of class g. Q factorises over sensors,
so the sum over rows is a product of two thin matrices, one for each half of the
sensors, and the matrix of all rows by all outputs is never built. The same holds for
the second moments, with squared tables.

Outputs are numbered with the first sensor slowest, as in ``discreet.outputs``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from discreet.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_AUDIT_OUTPUTS = 2**20  # beyond this many nobody lists them; fewer with many classes
_BLOCK_NUMBERS = 2**20  # entries of the thin matrices made at once, which bounds memory


def count_outputs(tables: Sequence[Floats]) -> int:
    """Return the number of outputs, the product of the numbers of symbols."""
    total = 1
    for table in tables:
        total *= table.shape[1]
    return total


def smallest_and_largest(tables: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return min and max of Q(z|x) over all rows of codes x, for every output z."""
    smallest = largest = np.ones(1)
    for table in tables:
        smallest = np.multiply.outer(smallest, table.min(axis=0)).ravel()
        largest = np.multiply.outer(largest, table.max(axis=0)).ravel()
    return smallest, largest


def dobrushin_coefficients(tables: Sequence[Floats]) -> Floats:
    """Return each sensor's largest total variation between the symbols of two codes."""
    return np.array([_widest_pair(table) for table in tables])


def dobrushin(tables: Sequence[Floats]) -> float:
    """Bound the total variation between the outputs of any two rows of codes.

    Sensors draw independently, so couplings multiply: eta <= 1 - prod (1 - eta_t).
    """
    return float(1.0 - np.prod(1.0 - dobrushin_coefficients(tables)))


def _widest_pair(table: Floats) -> float:
    if table.shape[1] == 2:
        return float(np.ptp(table[:, 0]))
    distances = (0.5 * np.abs(table - row).sum(axis=1).max() for row in table)
    return min(1.0, float(max(distances)))


@dataclass(frozen=True)
class AuditRows:
    """The rows of an audit: codes, private classes and the tables they go through.

    Parameters
    ----------
    tables : sequence of arrays, codes by symbols
        The shipped weights over 2**32, so that they are exact.
    codes : int array of shape (n_rows, n_sensors)
    index : int array of shape (n_rows,)
        The class of every row, 0 to n_classes - 1.
    n_classes : int
    groups : int array of shape (n_rows,), optional
        Rows of one group (a day, a home) may depend on one another in any way.
    sensors : tuple of str, optional
        Names for messages.
    """

    tables: tuple[Floats, ...]
    codes: Ints
    index: Ints
    n_classes: int
    groups: Ints | None = None
    sensors: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if not len(self.codes) == len(self.index):
            raise InputError(
                f"{len(self.codes)} rows of codes and {len(self.index)} labels were given. "
                "Give one label per row."
            )
        if self.groups is not None and len(self.groups) != len(self.codes):
            raise InputError(
                f"{len(self.codes)} rows and {len(self.groups)} groups were given. "
                "Give one group per row."
            )
        if self.codes.shape[1:] != (len(self.tables),):
            raise InputError(
                f"codes have shape {self.codes.shape} for {len(self.tables)} tables. "
                "Give one column of codes per sensor."
            )
        if self.n_classes < 2:
            raise InputError(f"a private fact has at least two classes, got {self.n_classes}.")
        if len(self.index) and not 0 <= self.index.min() <= self.index.max() < self.n_classes:
            raise InputError(f"classes must be 0 to {self.n_classes - 1}.")

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Rows per class."""
        return tuple(np.bincount(self.index, minlength=self.n_classes).tolist())

    @cached_property
    def spreads(self) -> dict[int, float]:
        """What ``spread`` has measured, by class; kept here because it is asked for often."""
        return {}

    @cached_property
    def eta(self) -> float:
        """The Dobrushin coefficient of all sensors together."""
        return dobrushin(self.tables)

    @property
    def n_outputs(self) -> int:
        return count_outputs(self.tables)

    @property
    def listable(self) -> bool:
        """Whether the outputs are few enough to be listed, for every pair of classes."""
        return self.n_outputs * self.n_classes**2 <= 4 * MAX_AUDIT_OUTPUTS

    @cached_property
    def shares(self) -> Floats:
        """Share of its class that every (class, group) holds, one row per class.

        Without groups this would be 1/n_g for every row; use ``largest_share`` and
        ``sum_of_squares`` instead, which know both cases.
        """
        if self.groups is None:
            raise ValueError("rows are not grouped")
        _, group = np.unique(self.groups, return_inverse=True)
        n_groups = int(group.max()) + 1 if len(group) else 0
        cells = np.bincount(self.index * n_groups + group, minlength=self.n_classes * n_groups)
        held = cells.reshape(self.n_classes, n_groups)
        shares: Floats = held / np.maximum(held.sum(axis=1, keepdims=True), 1)
        return shares

    @cached_property
    def largest_share(self) -> Floats:
        """max_j w_j of each class: 1/n_g without groups. Infinite for an empty class."""
        with np.errstate(divide="ignore"):
            alone = 1.0 / np.array(self.counts)
        if self.groups is None:
            return alone
        return np.where(np.array(self.counts) > 0, self.shares.max(axis=1, initial=0.0), np.inf)

    @property
    def independent_rows(self) -> float:
        """How many independent observations all rows together count for."""
        if self.groups is None or not len(self.index):
            return float(len(self.index))
        _, sizes = np.unique(self.groups, return_counts=True)
        return len(self.index) / float(sizes.max())

    @property
    def classes_share_groups(self) -> bool:
        """Whether some group holds rows of several classes."""
        return self.groups is not None and bool(((self.shares > 0).sum(axis=0) > 1).any())

    def sum_of_squares(self, factors: Floats) -> float:
        """Return sum over groups of (sum over classes of factor_g w_gj)^2.

        This is what one group can move at most, squared and added up. Without groups
        every row moves its own class alone: sum of factor_g^2 / n_g.
        """
        if self.groups is None:
            used = factors > 0
            return float(np.sum(factors[used] ** 2 * self.largest_share[used]))
        return float(np.sum((factors @ self.shares) ** 2))

    def largest_move(self, factors: Floats) -> float:
        """Return the largest weight of a row, or group, if class g weighs factor_g."""
        if self.groups is None:
            return float(np.max(factors[factors > 0] * self.largest_share[factors > 0]))
        return float(np.max(factors @ self.shares))

    def take(self, chosen: NDArray[np.bool_]) -> AuditRows:
        """Return some of the rows."""
        groups = None if self.groups is None else self.groups[chosen]
        return replace(self, codes=self.codes[chosen], index=self.index[chosen], groups=groups)

    def split(self, share: float, seed: int) -> tuple[AuditRows, AuditRows]:
        """Split rows at random, within each class, or whole groups if there are any.

        The first part holds about this share of the rows. What is learned from it may
        be used on the second as if it had been known beforehand.
        """
        rng = np.random.default_rng(seed)
        first = np.zeros(len(self.index), dtype=bool)
        if self.groups is None:
            for k in range(self.n_classes):
                own = np.flatnonzero(self.index == k)
                first[rng.permutation(own)[: round(share * len(own))]] = True
        else:
            names, group = np.unique(self.groups, return_inverse=True)
            picked = np.zeros(len(names), dtype=bool)
            picked[rng.permutation(len(names))[: round(share * len(names))]] = True
            first = picked[group]
        return self.take(first), self.take(~first)

    @cached_property
    def average(self) -> Floats:
        """p^(z|g), one row per class; an empty class has zeros."""
        return average_outputs(self.tables, self.codes, self._row_weights())

    @cached_property
    def moments(self) -> Moments:
        """What the bounds need to know about the values Q(z|x_i)."""
        some = np.isfinite(self.largest_share)
        size = np.divide(1.0, self.largest_share, out=np.zeros(self.n_classes), where=some)
        squares = [table**2 for table in self.tables]
        square = average_outputs(squares, self.codes, self._row_weights())
        return Moments(size, self.average, square)

    def _row_weights(self) -> Floats:
        """Return weights of rows in the average of their class: 1/n_g."""
        weights = np.zeros((self.n_classes, len(self.index)))
        own = 1.0 / np.maximum(self.counts, 1)[self.index]
        weights[self.index, np.arange(len(self.index))] = own
        return weights


@dataclass(frozen=True)
class Moments:
    """What the rows show of Q(z|x), by class and output.

    Attributes
    ----------
    size : ndarray of shape (n_classes,)
        Independent observations that count: rows, or 1/max w_j for groups with shares
        w_j; 0 for an empty class.
    mean, square : ndarray of shape (n_classes, n_outputs)
        Averages over rows of Q(z|x_i) and of its square.
    """

    size: Floats
    mean: Floats
    square: Floats


def average_outputs(tables: Sequence[Floats], codes: Ints, weights: Floats) -> Floats:
    """Return sum_i weights[g, i] prod_t tables[t][x_i^t, z^t] for every g and z.

    Equal rows are collapsed, the sensors are split into two halves with about as many
    outputs each, and for every class one matrix product runs over blocks of rows.
    """
    distinct, inverse = _distinct_rows(codes, [len(table) for table in tables])
    cut = _balanced_cut([table.shape[1] for table in tables])
    left, right = tables[:cut], tables[cut:]
    shape = (count_outputs(left), count_outputs(right))
    block = max(1, _BLOCK_NUMBERS // sum(shape))
    sums = np.zeros((len(weights), *shape))
    # Blocks are small and a second thread costs more than it brings; so does asking for one
    # thread where there is next to nothing to do.
    large = len(distinct) * sum(shape) > _BLOCK_NUMBERS
    with threadpool_limits(1) if large else nullcontext():
        for own, total in zip(weights, sums, strict=True):
            merged = np.bincount(inverse, own, minlength=len(distinct))
            used = np.flatnonzero(merged)
            for start in range(0, len(used), block):
                rows = used[start : start + block]
                first = _row_products(left, distinct[rows, :cut]) * merged[rows]
                total += first @ _row_products(right, distinct[rows, cut:]).T
    return sums.reshape(len(weights), -1)


def _row_products(tables: Sequence[Floats], codes: Ints) -> Floats:
    """Return the products of the rows' table entries, outputs by rows."""
    products = np.ones((1, len(codes)))
    for t, table in enumerate(tables):
        factor = table.T.take(codes[:, t], axis=1)
        products = (products[:, None, :] * factor).reshape(-1, len(codes))
    return products


def _balanced_cut(symbols: Sequence[int]) -> int:
    """Return where to cut the sensors so that the larger half has fewest outputs."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(symbols))])
    return int(np.argmin(np.maximum(logs, logs[-1] - logs)))


def _distinct_rows(codes: Ints, sizes: Sequence[int]) -> tuple[Ints, Ints]:
    """Return the distinct rows of codes and, for every row, which one it is."""
    label = np.zeros(len(codes), dtype=np.int64)
    spread = 1
    for t, size in enumerate(sizes):
        if spread * size > 2**62:  # renumber what there is before the labels overflow
            seen, label = np.unique(label, return_inverse=True)
            spread = len(seen)
        label = label * size + codes[:, t]
        spread *= size
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    return codes[first], inverse.ravel()
