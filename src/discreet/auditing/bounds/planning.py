"""About how many rows a certificate needs, before they are collected.

What an audit certifies is what the rows show plus a deviation. Both are foreseen here:

* **What the rows show.** Without a leak the listed total variation is
  (1/2) sum_z |p^(z|a) - p^(z|b)|, and each difference is nearly normal with the variance of
  Q(z|X) times 1/n_a + 1/n_b. Sensors are imagined independent, with all codes equally
  frequent, so that the variance is a product of second moments less one of means. A leak is
  imagined in proportion to p(z).
* **The deviation** is the formula of ``spread``, with the expected spread of pairs of rows.
* **Too many outputs to list**: the bound of ``kernel_bound``, whose distance has the square
  T^2 + (trace of the covariance) (1 - 1/m) sum_g 1/n_g on average. It compares so many rows and
  no more, so that there may be no number that does.
* **Groups** are observations, and each class gets its share of alpha. Readings of one group
  are imagined to have half of their variance in common.

After an audit, ``needed`` puts its own rows in the place of the imagined world.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import trapezoid
from scipy.special import erf
from scipy.stats import norm

from discreet.arrays import Floats
from discreet.auditing.bounds.intervals import kl_upper
from discreet.auditing.bounds.kernel_bound import apart_deviation, joint_deviation
from discreet.auditing.bounds.kernel_rows import (
    MAX_ROWS,
    PILOT_SHARE,
    KernelRows,
    allowance,
)
from discreet.auditing.bounds.outputs_given import MAX_AUDIT_OUTPUTS, AuditRows
from discreet.auditing.bounds.product_kernel import ProductKernel, mixed_law
from discreet.auditing.bounds.spread import VARIANCE_SHARE, stray
from discreet.errors import InputError
from discreet.leakage.joint_outputs import count_outputs, dobrushin

MOST_ROWS = 10**12  # beyond this many nobody collects them
IN_COMMON = 0.5  # share of the variance of readings that rows of one group have in common
_IMAGINED = 1_000  # rows that stand for the world where a covariance is needed
HALVINGS = 60  # of an interval of logarithms


def sketch_tables(sensors: int, symbols: int, noise: float) -> tuple[Floats, ...]:
    """Return tables that send the code itself, or another symbol with this probability."""
    table = np.full((symbols, symbols), noise / (symbols - 1))
    np.fill_diagonal(table, 1.0 - noise)
    return (table,) * sensors


@dataclass(frozen=True)
class Plan:
    """An imagined audit.

    ``shares``: how frequent each private class is. ``alpha``: what is left of 1 - confidence for
    one private fact. ``leak``: the true advantage of the best attacker. ``group_size``: rows of a
    group, if groups are the observations.
    """

    tables: tuple[Floats, ...]
    shares: tuple[float, ...]
    alpha: float
    leak: float = 0.0
    group_size: int = 0

    def __post_init__(self) -> None:
        if len(self.shares) < 2 or min(self.shares) <= 0 or abs(sum(self.shares) - 1) > 1e-9:
            raise InputError(
                f"shares must be two or more positive numbers that sum to 1, got {self.shares}."
            )
        if not 0 <= self.leak < 1:
            raise InputError(f"leak must be at least 0 and below 1, got {self.leak}.")

    @property
    def listable(self) -> bool:
        """Whether outputs can be listed; the rule of ``AuditRows``."""
        return count_outputs(self.tables) * len(self.shares) ** 2 <= 4 * MAX_AUDIT_OUTPUTS

    @cached_property
    def eta(self) -> float:
        return dobrushin(self.tables)

    def observations(self, n: float) -> Floats:
        """Return how many observations each class has among n rows, or n groups."""
        shares = np.array(self.shares)
        if not self.group_size:
            return n * shares
        return n * (1.0 - (1.0 - shares) ** self.group_size)

    @cached_property
    def _thinned(self) -> Floats:
        """Variance of an observation by class, in units of that of a row."""
        if not self.group_size:
            return np.ones(len(self.shares))
        held = self.group_size * np.array(self.shares) / self.observations(1.0)
        return IN_COMMON + (1.0 - IN_COMMON) / held

    # --- Listed outputs

    @cached_property
    def _outputs(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of Q(z|X), for every output."""
        mean = square = np.ones(1)
        for table in self.tables:
            mean = np.multiply.outer(mean, table.mean(axis=0)).ravel()
            square = np.multiply.outer(square, (table**2).mean(axis=0)).ravel()
        return mean, np.sqrt(np.maximum(square - mean**2, 0.0))

    @cached_property
    def _spread(self) -> float:
        """Twice the largest variance of a set of outputs over eta^2, as ``spread`` measures it."""
        once = twice = 1.0
        for table in self.tables:
            alike = 1.0 - 0.5 * np.abs(table[:, None] - table[None]).sum(axis=2)
            once, twice = once * float(alike.mean()), twice * float((alike**2).mean())
        if not self.eta:
            return 0.0
        by_pairs = (1.0 - 2.0 * once + twice) / self.eta**2
        return min(1.0, by_pairs, self._kernel[2] / (2.0 * self.eta**2))

    def _listed(self, counts: Floats) -> float:
        rarest = np.argsort(counts)[:2]
        pair = 0.5 * (self._shown_pair(counts[rarest], rarest) + self._strayed(counts, rarest))
        m = len(counts)
        if m == 2:
            return pair
        every = np.arange(m)
        return max(pair, (self._shown_gain(counts) + self._strayed(counts, every)) / m)

    def _shown_pair(self, counts: Floats, classes: NDArray[np.int64]) -> float:
        mean, spread = self._outputs
        scale = float(np.sqrt(np.sum(self._thinned[classes] / counts)))
        return 0.5 * float(folded_mean(4.0 * self.leak * mean, spread * scale).sum())

    def _shown_gain(self, counts: Floats) -> float:
        """Return the expected sum_z max_g p^(z|g), less one."""
        m = len(counts)
        _, spread = self._outputs
        scale = float(np.sqrt(np.mean(self._thinned / counts)))
        noise = expected_largest(m) * scale * float(spread.sum())
        return float(np.hypot(m * self.leak, noise))

    def _strayed(self, counts: Floats, classes: NDArray[np.int64]) -> float:
        spreads, counts = self._spread * self._thinned[classes], counts[classes]
        if not self.group_size:
            return listed_deviation(self.eta, spreads, counts, self.alpha)
        share = self.alpha / len(classes)
        each = zip(spreads[:, None], counts[:, None], strict=True)
        return sum(listed_deviation(self.eta, spread, count, share) for spread, count in each)

    # --- Through the kernel

    @cached_property
    def _kernel(self) -> tuple[float, float, float]:
        """D, the trace of a row's covariance and the largest variance that rows will show."""
        laws = [mixed_law(table, np.ones(len(table))) for table in self.tables]
        kernel = ProductKernel.of(self.tables, laws)
        logs = [
            log[np.ix_(kind, kind)] for kind, log in zip(kernel.kinds, kernel.logs, strict=True)
        ]
        same = sum(float(np.log(np.exp(log).diagonal().mean())) for log in logs)
        other = sum(float(np.log(np.exp(log).mean())) for log in logs)
        if not np.isfinite(kernel.reach):
            return float("inf"), float("inf"), float("inf")
        rng = np.random.default_rng(0)
        codes = np.stack([rng.integers(0, len(table), _IMAGINED) for table in self.tables], axis=1)
        imagined = KernelRows(AuditRows(self.tables, codes, np.zeros(_IMAGINED, np.int64), 2))
        return kernel.reach, float(np.exp(same) - np.exp(other)), float(imagined.variances[0])

    def _unlisted(self, counts: Floats) -> float:
        m = len(counts)
        counts = counts * (1.0 - PILOT_SHARE)
        counts = np.minimum(counts, MAX_ROWS / m if self.group_size else allowance(counts))
        rarest = np.sort(counts)[:2]
        pair = 0.5 * self._distance(rarest, 2.0 * self.leak / np.sqrt(0.5)) / float(np.sqrt(2.0))
        if m == 2:
            return pair
        factor = float(np.sqrt((m - 1) / m)) / m
        return max(pair, factor * self._distance(counts, self.leak / factor))

    def _distance(self, counts: Floats, leak: float) -> float:
        """Return the expected bound on T, for classes whose least possible T is this."""
        reach, trace, top = self._kernel
        if not np.isfinite(reach):
            return float("inf")
        order = np.argsort(self.observations(1.0))[: len(counts)]
        thinned = self._thinned[order]
        # A leak of normal scores, such as many small shifts make, has T larger than the least.
        true = leak * float(np.sqrt(np.pi / 2.0))
        noise = trace * (1.0 - 1.0 / len(counts)) * float(np.sum(thinned / np.sort(counts)))
        strayed = joint_deviation if not self.group_size else apart_deviation
        pairs = np.maximum(1, np.sort(counts) // 2).astype(np.int64)
        return float(np.hypot(true, np.sqrt(noise))) + strayed(
            reach, np.sort(counts), top * thinned, pairs, self.alpha
        )


def expected_advantage(plan: Plan, n: float) -> float:
    """Return about what an audit of n rows (or groups) certifies as advantage."""
    counts = plan.observations(n)
    if counts.min() < 2:
        return 1.0 - 1.0 / len(counts)
    found = plan._listed(counts) if plan.listable else plan._unlisted(counts)
    return min(1.0 - 1.0 / len(counts), found)


def rows_for(plan: Plan, limit: float) -> int | None:
    """Return about how many rows (or groups) certify a limit, or None if no number does."""
    if not 0 < limit < 1:
        raise InputError(f"a limit must be strictly between 0 and 1, got {limit}.")
    few, many = 0.0, float(np.log(MOST_ROWS))
    if expected_advantage(plan, MOST_ROWS) > limit:
        return None
    for _ in range(HALVINGS):
        middle = 0.5 * (few + many)
        if expected_advantage(plan, float(np.exp(middle))) > limit:
            few = middle
        else:
            many = middle
        if many - few < 1e-4:
            break
    return int(np.ceil(np.exp(many)))


@dataclass(frozen=True)
class Planned:
    """How many rows, or groups, a limit needs; None if no number does.

    ``rarest`` is how many of them have the rarest class.
    """

    limit: float
    count: int | None
    rarest: int | None


def planned(plan: Plan, limit: float) -> Planned:
    """Return about how many rows (or groups) certify a limit."""
    count = rows_for(plan, limit)
    rarest = None if count is None else int(np.ceil(plan.observations(count).min()))
    return Planned(limit, count, rarest)


# --- Shared formulas -------------------------------------------------------------------------


def folded_mean(centre: Floats, spread: Floats) -> Floats:
    """Return the mean of |Y| for normal Y."""
    some = spread > 0
    ratio = np.divide(centre, spread, out=np.zeros_like(spread), where=some)
    found = spread * np.sqrt(2 / np.pi) * np.exp(-0.5 * ratio**2) + centre * erf(ratio / np.sqrt(2))
    return np.where(some, found, np.abs(centre))


def expected_largest(m: int) -> float:
    """Return the mean of the largest of m standard normal variables."""
    grid = np.linspace(-8.0, 8.0, 4001)
    density = m * norm.pdf(grid) * norm.cdf(grid) ** (m - 1)
    return float(trapezoid(grid * density, grid))


def listed_deviation(eta: float, spreads: Floats, counts: Floats, alpha: float) -> float:
    """Return what ``spread.deviation`` says for classes with so many observations.

    ``spreads`` are twice the variances over eta^2, as observations show them; all factors are one.
    """
    level = np.log(2 * len(counts) / (VARIANCE_SHARE * alpha)) / np.maximum(counts // 2, 1)
    variances = np.minimum(0.25, 0.5 * kl_upper(np.minimum(spreads, 1.0), level)) * eta**2
    return stray(eta, variances, counts, np.ones(len(counts)), alpha)
