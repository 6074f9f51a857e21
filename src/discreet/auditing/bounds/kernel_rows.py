"""Rows compared with one another through a product kernel, without listing outputs.

``deviations`` says what the means of phi in the classes tell about any attacker, and
``set_variance`` what their covariances tell about any set.

**The law** of the kernel is chosen by a twentieth of the rows (or groups), which serve for nothing
else. Codes of unequal frequency make it worth far more than these rows.

**Observations** of a class are its rows, or the means of phi over the rows of one group. Without
a cap all observations weigh the same; with one, a group of N rows of the class weighs
min(N, cap), as in ``AuditRows``.

**Cost.** Pairs of rows are compared, so at most ``MAX_ROWS`` rows take part; which ones is
decided by a seed and by counts, never by readings. What was left out is reported.

*A product kernel of rows of codes, whose values need no list of outputs.* Let w be a product law
on the outputs and phi_x(z) = Q(z|x)/sqrt(w(z)). Then

    k(x, x') = <phi_x, phi_x'> = prod_t sum_z Q_t(z|x) Q_t(z|x') / w_t(z)

needs one small table per sensor. The law is half of the one that suits the tables best, whatever
the sensors read, and half of what they send for some rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, eigh
from scipy.sparse import csr_array
from scipy.sparse.linalg import ArpackError, eigsh
from threadpoolctl import threadpool_limits

from discreet.arrays import Floats, Ints, distinct_rows
from discreet.auditing.bounds.intervals import kl_upper
from discreet.auditing.bounds.outputs_given import AuditRows

# --- The kernel -----------------------------------------------------------------------------

_BLOCK_NUMBERS = 2**21  # entries of the kernel matrix made at once, which bounds memory
_FEW_KINDS = 16  # of codes; a sensor with more is looked up, entry by entry
_LAW_STEPS = 200
_LAW_GAP = 1e-6  # from the optimum, relative
_TOO_LARGE = 600.0  # logarithm of a kernel value from which on nothing can be promised
_LOG_ZERO = -2_000.0  # exp of this is 0, also after adding _TOO_LARGE


def minimax_law(table: Floats) -> Floats:
    """Return the law w on symbols with the smallest max_x sum_z Q(z|x)^2 / w(z), nearly.

    For a mixture pi of the codes the best law is proportional to the root of
    sum_x pi_x Q(z|x)^2; the mixture moves towards the codes that have the largest sums. Every
    law that reaches all symbols in use is valid, so nothing hangs on convergence.
    """
    squares = table**2
    mixture = np.full(len(table), 1.0 / len(table))
    for _ in range(_LAW_STEPS):
        root = np.sqrt(mixture @ squares)
        sums = squares @ np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
        average = float(mixture @ sums)
        if sums.max() < (1.0 + _LAW_GAP) * average:
            break
        mixture *= sums / average
    law = np.sqrt(mixture @ squares) + 1e-9 * (squares.max(axis=0) > 0)
    return np.asarray(law / law.sum())


def mixed_law(table: Floats, counts: NDArray[Any]) -> Floats:
    """Return half of ``minimax_law``, half of what is sent for codes with these counts."""
    law = minimax_law(table)
    if not counts.sum():
        return law
    sent = counts @ table / counts.sum()
    return np.asarray(0.5 * (law + sent / sent.sum()))


@dataclass(frozen=True)
class ProductKernel:
    """The kernel of all sensors together, as far as it depends on the tables alone.

    ``kinds``: for every sensor, which of its codes have the same row of the table. ``logs``:
    logarithms of the sensors' kernel tables, one row per kind of code.
    """

    kinds: tuple[Ints, ...]
    logs: tuple[Floats, ...]

    @classmethod
    def of(cls, tables: Sequence[Floats], laws: Sequence[Floats]) -> ProductKernel:
        kinds, logs = [], []
        for table, law in zip(tables, laws, strict=True):
            rows, kind = np.unique(table[:, law > 0], axis=0, return_inverse=True)
            values = (rows / law[law > 0]) @ rows.T
            kinds.append(kind.ravel())
            logs.append(np.log(values, out=np.full(values.shape, _LOG_ZERO), where=values > 0))
        return cls(tuple(kinds), tuple(logs))

    @property
    def n_rows(self) -> float:
        """How many different rows of kinds there can be."""
        return float(np.exp(min(700.0, sum(np.log(len(log)) for log in self.logs))))

    @property
    def reach(self) -> float:
        """Return D: the largest distance between phi_x and phi_x', from above.

        D^2 <= 2 (max k(x, x) - min k(x, x')), and both extremes are products over sensors.
        """
        largest = sum(float(log.diagonal().max()) for log in self.logs)
        if largest > _TOO_LARGE:
            return float("inf")
        smallest = sum(float(log.min()) for log in self.logs)
        return float(np.sqrt(2.0 * max(0.0, np.exp(largest) - np.exp(smallest))))

    def kinds_of(self, codes: Ints) -> Ints:
        """Return the kinds of the codes, for sensors that have several."""
        columns = [
            kind.astype(np.min_scalar_type(len(log)))[codes[:, t]]
            for t, (kind, log) in enumerate(zip(self.kinds, self.logs, strict=True))
            if len(log) > 1
        ]
        return np.stack(columns, axis=1) if columns else np.zeros((len(codes), 0), np.int64)

    def blocks(self, kinds: Ints, upper: bool = False) -> Iterator[tuple[int, Floats]]:
        """Yield rows of the matrix k(x_i, x_j), with the number of the first.

        ``upper`` leaves out the columns before the first row's own.
        """
        # Sensors with one kind send the same whatever they read, and their factor is one.
        sensors = list(zip(kinds.T, (log for log in self.logs if len(log) > 1), strict=True))
        alone, picked, values = _factors([s for s in sensors if len(s[1]) <= _FEW_KINDS], kinds)
        looked_up = [s for s in sensors if len(s[1]) > _FEW_KINDS]
        step = max(1, _BLOCK_NUMBERS // max(1, len(kinds)))
        for start in range(0, len(kinds), step):
            rows, columns = slice(start, start + step), slice(start if upper else 0, None)
            block = picked[rows] @ values[columns].T
            block += alone[rows, None]
            block += alone[columns]
            for own, log in looked_up:
                block += log[own[rows]].take(own[columns], axis=1)
            yield start, np.exp(block, out=block)


def _factors(sensors: Sequence[tuple[Ints, Floats]], kinds: Ints) -> tuple[Floats, Floats, Floats]:
    """Return a, B and C with log k(x_i, x_j) = a_i + a_j + B_i . C_j for some sensors.

    Relative to the first kind of every sensor, so that it needs no column.
    """
    alone = np.zeros(len(kinds))
    picked, values = [np.zeros((len(kinds), 0))], [np.zeros((len(kinds), 0))]
    for own, log in sensors:
        alone += log[own, 0] - 0.5 * log[0, 0]
        rest = log - log[:, :1] - log[:1] + log[0, 0]
        picked.append(np.eye(len(log))[own, 1:])
        values.append(rest[own, 1:])
    return alone, np.concatenate(picked, axis=1), np.concatenate(values, axis=1)


# --- Rows compared --------------------------------------------------------------------------

MAX_ROWS = 12_000  # all of them are compared with one another
PILOT_SHARE = 0.05  # of the rows, for the law
_MOST_PILOT = 1_000
_MOST_FOR_VARIANCE = 1_200  # observations of a class whose covariance is looked at
_WORTH_LANCZOS = 200  # observations
_EIGEN_GAP = 1e-4  # of the largest eigenvalue, relative


@dataclass(frozen=True)
class KernelRows:
    """Rows that are compared with one another through the kernel.

    ``audited``: with groups, an observation is a group's rows of one class. ``seed``: chooses the
    pilot rows and, if there are too many, the rows that take part.
    """

    audited: AuditRows
    seed: int = 0

    @classmethod
    def of(cls, rows: AuditRows, seed: int = 0) -> KernelRows:
        """Return the rows of an audit, to be compared; the same ones for every caller."""
        if seed not in rows.compared:  # a copy of the object, not of the rows: no circle of the two
            rows.compared[seed] = cls(replace(rows), seed)
        found: KernelRows = rows.compared[seed]
        return found

    @cached_property
    def pilot(self) -> NDArray[np.bool_]:
        """Which rows choose the law, and do nothing else: whole groups, if there are any."""
        order = np.random.default_rng(self.seed).permutation(self.audited.n_groups)
        return (order < min(_MOST_PILOT, round(PILOT_SHARE * len(order))))[self.audited.group]

    @cached_property
    def kernel(self) -> ProductKernel:
        """The kernel of the law that the pilot rows have chosen."""
        tables, codes = self.audited.tables, self.audited.codes[self.pilot].T
        counts = (np.bincount(c, minlength=len(t)) for t, c in zip(tables, codes, strict=True))
        return ProductKernel.of(tables, list(map(mixed_law, tables, counts)))

    @cached_property
    def used(self) -> Ints:
        """Which rows are compared."""
        rng, every = np.random.default_rng(self.seed + 1), self.audited
        rest = np.flatnonzero(~self.pilot)
        groups = None if every.groups is None else every.groups[rest]
        kept = _chosen(every.index[rest], every.n_classes, groups, self.kernel.n_rows, rng)
        return rest[kept]

    @property
    def left_out(self) -> str:
        """Words about how many rows were compared, if some are missing beside the pilot."""
        rest = len(self.audited.index) - int(self.pilot.sum())
        if len(self.used) == rest:
            return ""
        return f"{len(self.used):,} of the {rest:,} rows, drawn at random"

    @cached_property
    def reach(self) -> float:
        """D: the largest distance between the embeddings of two rows."""
        return self.kernel.reach

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Observations of each class that take part: rows, or groups that have the class."""
        return tuple(len(held) for held in self.held)

    @cached_property
    def held(self) -> list[Floats]:
        """Rows that every observation counts for, by class: at most ``cap``, if there is one.

        All rows of a group count, also those that are not compared.
        """
        if self.audited.groups is None:
            return [np.ones(int(own.sum())) for own in self._own]
        groups = (np.unique(self.audited.group[self.used[own]]) for own in self._own)
        return [held[chosen] for held, chosen in zip(self.audited.held, groups, strict=True)]

    @cached_property
    def comparable(self) -> bool:
        """Whether every class has observations and the kernel has values that can be added."""
        return 0 not in self.sizes and bool(np.isfinite(self.reach))

    @cached_property
    def inner(self) -> Floats:
        """Inner products of the classes' mean embeddings."""
        weights = np.zeros((self.audited.n_classes, len(self.used)))
        for weight, own, held in zip(weights, self._own, self.held, strict=True):
            _, cell, compared = np.unique(self._cells[own], return_inverse=True, return_counts=True)
            share = (
                np.ones(len(held)) / len(held) if self.audited.cap is None else held / held.sum()
            )
            weight[own] = (share / compared)[cell]
        with threadpool_limits(1):
            return _inner_products(self.kernel, self._kinds, weights)

    @cached_property
    def variances(self) -> Floats:
        """The largest empirical variance of a function of norm one, for each class."""
        return np.array([top for top, _, _ in self._spreads])

    @cached_property
    def totals(self) -> Floats:
        """The empirical variances of all directions together, for each class."""
        return np.array([total for _, total, _ in self._spreads])

    @cached_property
    def pairs(self) -> Ints:
        """Pairs of observations behind each of the variances."""
        return np.array([many // 2 for _, _, many in self._spreads])

    @cached_property
    def _kinds(self) -> Ints:
        return self.kernel.kinds_of(self.audited.codes[self.used])

    @cached_property
    def _own(self) -> list[NDArray[np.bool_]]:
        return [self.audited.index[self.used] == k for k in range(self.audited.n_classes)]

    @cached_property
    def _cells(self) -> Ints:
        """The observation that each compared row belongs to."""
        if self.audited.groups is None:
            return np.arange(len(self.used))
        return _cells(self.audited.index[self.used], self.audited.group[self.used])

    @cached_property
    def _spreads(self) -> list[tuple[float, float, int]]:
        rng = np.random.default_rng(self.seed)
        single = self.audited.groups is None
        with threadpool_limits(1):
            return [
                _covariance(self.kernel, self._kinds[own], self._cells[own], single, rng)
                for own in self._own
            ]


def _chosen(
    index: Ints, n_classes: int, groups: Ints | None, possible: float, rng: np.random.Generator
) -> Ints:
    """Return which rows take part, by counts and chance alone.

    Groups: how many rows a group has may depend on what it reads, so the same number of rows
    of each class and group is allowed whatever the groups hold.
    """
    order = rng.permutation(len(index))
    if groups is None:
        if min(len(index), possible) <= MAX_ROWS:
            return np.arange(len(index))
        allowed, shuffled = allowance(np.bincount(index, minlength=n_classes)), index[order]
        each = [order[np.flatnonzero(shuffled == k)[:allowed]] for k in range(n_classes)]
        return np.sort(np.concatenate(each))
    names, group = np.unique(groups, return_inverse=True)
    kept = rng.permutation(len(names)) < max(1, MAX_ROWS // n_classes)
    order = order[kept[group[order]]]
    allowed = max(1, MAX_ROWS // (n_classes * max(1, int(kept.sum()))))
    return np.sort(order[_rank(_cells(index[order], groups[order])) < allowed])


def allowance(counts: NDArray[Any]) -> int:
    """Return how many rows of each class may stay so that ``MAX_ROWS`` are not exceeded."""
    left, allowed = MAX_ROWS, 0
    for k, count in enumerate(np.sort(counts)):
        allowed = left // (len(counts) - k)
        left -= min(int(count), allowed)
    return allowed


def _rank(labels: Ints) -> Ints:
    """Return how many earlier entries have the same label."""
    order = np.argsort(labels, kind="stable")
    _, first, counts = np.unique(labels[order], return_index=True, return_counts=True)
    ranks = np.empty(len(labels), dtype=np.int64)
    ranks[order] = np.arange(len(labels)) - np.repeat(first, counts)
    return ranks


def _cells(classes: Ints, groups: Ints) -> Ints:
    """Return a number for each pair of class and group that there is."""
    _, group = np.unique(groups, return_inverse=True)
    wide = int(group.max(initial=0)) + 1
    place = np.unique(classes * wide + group.ravel(), return_inverse=True)[1]
    return np.asarray(place.ravel())


def _inner_products(kernel: ProductKernel, kinds: Ints, weights: Floats) -> Floats:
    """Return sum_ij w_gi w_hj k(x_i, x_j) for every two classes g and h."""
    found = distinct_rows(kinds)
    distinct, which = found.rows, found.inverse
    merged = np.stack([np.bincount(which, own, minlength=len(distinct)) for own in weights])
    total = np.zeros((len(weights), len(weights)))
    for start, block in kernel.blocks(distinct, upper=True):
        rows, rest = merged[:, start : start + len(block)], merged[:, start + len(block) :]
        total += rows @ block[:, : len(block)] @ rows.T
        beside = rows @ (block[:, len(block) :] @ rest.T)
        total += beside + beside.T
    return total


def _covariance(
    kernel: ProductKernel, kinds: Ints, cells: Ints, single: bool, rng: np.random.Generator
) -> tuple[float, float, int]:
    """Return the largest eigenvalue of a class's covariance, its trace, and from how many."""
    names, cell = np.unique(cells, return_inverse=True)
    many = len(names)
    if many > _MOST_FOR_VARIANCE and not (single and kernel.n_rows <= _MOST_FOR_VARIANCE):
        stays = rng.permutation(many) < _MOST_FOR_VARIANCE
        kinds, cell = kinds[stays[cell]], (np.cumsum(stays) - 1)[cell[stays[cell]]]
        many = _MOST_FOR_VARIANCE
    if many < 2:
        return float("nan"), float("nan"), many
    found = distinct_rows(kinds)
    distinct, which = found.rows, found.inverse
    if single:  # rows that are alike are one point that weighs more
        points = np.concatenate([block for _, block in kernel.blocks(distinct)])
        weights = np.bincount(which) / many
    else:
        points, weights = _between_groups(kernel, distinct, which, cell), np.full(many, 1 / many)
    mean = points @ weights
    points -= mean
    points -= (mean - weights @ mean)[:, None]
    root = np.sqrt(weights * (many / (many - 1)))
    points *= root
    points *= root[:, None]
    return _largest_eigenvalue(points), float(np.trace(points)), many


def _largest_eigenvalue(matrix: Floats) -> float:
    """Return the largest eigenvalue of a positive semidefinite matrix, or a little more.

    Lanczos' method is several times faster than a decomposition but could miss the largest;
    a Cholesky factor proves that none is larger, and without one the decomposition decides.
    """
    if len(matrix) >= _WORTH_LANCZOS:
        start = np.random.default_rng(0).standard_normal(len(matrix))
        try:
            found = eigsh(matrix, k=1, v0=start, tol=_EIGEN_GAP, return_eigenvectors=False)
            top = (1.0 + 2.0 * _EIGEN_GAP) * float(found[0]) + float(np.finfo(float).tiny)
            above = -matrix
            np.fill_diagonal(above, above.diagonal() + top)
            cholesky(above, overwrite_a=True, check_finite=False)
            return top
        except (ArpackError, LinAlgError):
            pass
    last = len(matrix) - 1
    found = eigh(matrix, eigvals_only=True, subset_by_index=[last, last])
    return max(0.0, float(found[0]))


def _between_groups(kernel: ProductKernel, distinct: Ints, which: Ints, cell: Ints) -> Floats:
    """Return the inner products of the groups' mean embeddings."""
    share = 1.0 / np.bincount(cell)[cell]
    means = csr_array((share, (cell, which)), shape=(int(cell.max()) + 1, len(distinct)))
    across = np.concatenate([k @ means.T for _, k in kernel.blocks(distinct)])
    return np.asarray(means @ across)


# --- Sets of outputs -------------------------------------------------------------------------


def set_variance(rows: KernelRows, k: int, eta: float, alpha: float) -> float:
    """Bound the variance of Q(A|X) in class k for one fixed unknown set of outputs A.

    X is an observation: a row, or the rows of one group, over which Q(A|x) is averaged.
    Q(A|x) - 1/2 is <f, phi_x> with f = sqrt(w) (1_A - 1/2), whose norm is 1/2: what the rows
    show is at most a quarter of their largest eigenvalue. Chernoff's bound over pairs does
    the rest, with the range eta of Q(A|x) in place of D. Where outputs are listed this makes
    the bound for any attacker at least as sharp as the kernel's, since the listed total
    variation is at most half the distance of the embeddings.
    """
    most = 0.25 * eta**2
    if not most or not rows.comparable or rows.pairs[k] < 1:
        return most
    shown = min(1.0, 0.25 * float(rows.variances[k]) / (2.0 * most))
    level = np.log(1.0 / alpha) / int(rows.pairs[k])
    return min(most, 2.0 * most * float(kl_upper(shown, level)))
