"""About how many rows a certificate needs: before any are collected, and after an audit.

What an audit certifies is what the rows show plus a deviation. Both are foreseen here:

* **What the rows show.** Without a leak the listed total variation is
  (1/2) sum_z |p^(z|a) - p^(z|b)|, and each difference is nearly normal with the variance of
  Q(z|X) times 1/n_a + 1/n_b. Sensors are imagined independent, with all codes equally
  frequent, so that the variance is a product of second moments less one of means. A leak is
  imagined in proportion to p(z).
* **The deviation** is the formula of ``deviations``, with the expected spread of pairs of rows.
* **Too many outputs to list**: the bound of ``kernel_total_variation``, whose distance has the
  square T^2 + (trace of the covariance) (1 - 1/m) sum_g 1/n_g on average. It compares so many
  rows and no more, so that there may be no number that does.
* **Groups** are observations, and each class gets its share of alpha. Readings of one group
  are imagined to have half of their variance in common.

After an audit, its own rows take the place of the imagined world. What more rows would certify is
extrapolated from those at hand, so it is an estimate and promises nothing. Their plug-in advantage
is corrected for its bias and taken to be the leak; bias and deviation shrink like one over the
root of the number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import trapezoid
from scipy.optimize import brentq
from scipy.special import erf
from scipy.stats import norm

from discreet.arrays import Floats
from discreet.auditing.bounds.certificates import Certificate
from discreet.auditing.bounds.deviations import (
    VARIANCE_SHARE,
    apart_deviation,
    deviation,
    joint_deviation,
    kernel_parts,
    stray,
)
from discreet.auditing.bounds.intervals import kl_upper
from discreet.auditing.bounds.kernel_rows import (
    MAX_ROWS,
    PILOT_SHARE,
    KernelRows,
    ProductKernel,
    allowance,
    mixed_law,
)
from discreet.auditing.bounds.outputs_given import MAX_AUDIT_OUTPUTS, AuditRows
from discreet.auditing.bounds.over_time import WindowBound, largest_mean, solve_bound
from discreet.errors import InputError
from discreet.leakage.chains import add_up
from discreet.leakage.exact import pairwise_epsilon, squared_information
from discreet.leakage.joint_outputs import count_outputs, dobrushin
from discreet.rounding import plain_points

# --- Before rows are collected --------------------------------------------------------------

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
        """Twice the largest variance of a set of outputs over eta^2, as ``deviations`` has it."""
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
    if expected_advantage(plan, MOST_ROWS) > limit:
        return None
    least = _least(lambda n: expected_advantage(plan, n) <= limit, MOST_ROWS, close=1e-4)
    return int(np.ceil(least))


def _least(enough: Callable[[float], bool], most: float, close: float = 0.0) -> float:
    """Return the least number that is enough, up to ``most``, by halving its logarithm."""
    few, many = 0.0, float(np.log(most))
    for _ in range(HALVINGS):
        middle = 0.5 * (few + many)
        few, many = (few, middle) if enough(float(np.exp(middle))) else (middle, many)
        if many - few < close:
            break
    return float(np.exp(many))


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
    """Return what ``deviations.deviation`` says for classes with so many observations.

    ``spreads`` are twice the variances over eta^2, as observations show them; all factors are one.
    """
    level = np.log(2 * len(counts) / (VARIANCE_SHARE * alpha)) / np.maximum(counts // 2, 1)
    variances = np.minimum(0.25, 0.5 * kl_upper(np.minimum(spreads, 1.0), level)) * eta**2
    return stray(eta, variances, counts, np.ones(len(counts)), alpha)


# --- After an audit -------------------------------------------------------------------------

_ENOUGH = 10.0  # observations of the rarest output, from which on its ratios are bounded
_MOST = 10**9


def say_needed(rows: AuditRows, limit: float, alpha: float) -> str:
    """Say about how many more observations would certify an advantage within the limit."""
    return _sentence(
        rows, rows_needed(rows, limit, alpha), f"an advantage of {plain_points(limit)}"
    )


def say_needed_within(parts: list[AuditRows], limit: float, alpha: float) -> str:
    """Say the same of rows within each public class: the class that needs most decides."""
    total = sum(part.n_groups for part in parts)
    needed = [(part, rows_needed(part, limit, alpha)) for part in parts]
    worst = max(needed, key=lambda each: np.inf if each[1] is None else each[1] / each[0].n_groups)
    count = None if worst[1] is None else int(np.ceil(worst[1] * total / worst[0].n_groups))
    return _sentence(worst[0], count, f"an advantage of {plain_points(limit)} beyond the answer")


def say_needed_for_epsilon(rows: AuditRows, found: Certificate, limit: float) -> str:
    """Say about how many more observations would certify an epsilon within the limit."""
    if not rows.listable or 0 in rows.counts:
        return ""
    return _sentence(rows, _for_epsilon(rows, found, limit), f"an epsilon of {limit:g}")


def _for_epsilon(rows: AuditRows, found: Certificate, limit: float) -> int | None:
    shown = pairwise_epsilon(rows.average)
    if not shown < limit:
        return None
    if found.bound is None:  # some output is too rare
        rarest = float(rows.average[rows.average > 0].min())
        needed = _ENOUGH / rarest / max(min(rows.observations), 1)
    else:
        needed = ((found.bound - shown) / (limit - shown)) ** 2
    return int(np.ceil(rows.n_groups * max(needed - 1.0, 0.0))) if needed < _MOST else None


# --- Many rounds -----------------------------------------------------------------------------


def say_needed_for_rounds(parts: Sequence[AuditRows], bound: WindowBound, limit: float) -> str:
    """Say about how many more rows would certify a limit on many rounds, the chain as bounded.

    ``parts``: the rows of every public class, where it counts, or all rows.
    """
    if not all(part.listable and all(part.observations) for part in parts):
        return ""
    total, times = sum(part.n_groups for part in parts), times_needed(parts, bound, limit)
    count = None if times is None else int(np.ceil(total * (times - 1.0)))
    what = f"an advantage of {plain_points(limit)} over {bound.rounds} rounds"
    return _sentence(parts[0], count, what)


def times_needed(parts: Sequence[AuditRows], bound: WindowBound, limit: float) -> float | None:
    """Return how many times as many rows would certify it, or None if no number would."""
    most = (limit / (1.0 - 1.0 / bound.n_classes)) ** 2 / add_up(bound.kept, bound.rounds)
    found = []
    for part in parts:
        noise = _Noise.of(part.tables, bound.alpha)
        for pair in combinations(range(bound.n_classes), 2):
            shown = squared_information(part.average[list(pair)])
            counts = [part.observations[each] for each in pair]
            stays = max(shown - noise.chance(counts), 0.0)
            found.append(noise.times(counts, most, stays, shown - stays))
    return max(found) if max(found) < math.inf else None


def rows_for_rounds(
    tables: Sequence[Floats], counts: Sequence[Sequence[int]], added: float, limit: float
) -> int | None:
    """Return about how many rows certify a limit on rounds, if the tables tell half as much.

    ``counts``: rows of each private class, in every public class if that counts, as they are mixed.
    ``added``: how many times the x of a round all of them tell.
    """
    noise = _Noise.of(tables, 0.05 / len(counts))
    most = (limit / (1.0 - 1.0 / len(counts[0]))) ** 2 / added
    # Few enough to certify nothing, so that their number has to be multiplied.
    scale = 1.0 / max(max(each) for each in counts)
    pairs = [pair for each in counts for pair in combinations(each, 2)]
    if not all(min(pair) for pair in pairs):
        return None
    found = [noise.times([scale * n for n in pair], most, most / 4.0) for pair in pairs]
    count = max(found) * scale * sum(map(sum, counts))
    return int(np.ceil(count)) if count < math.inf else None


@dataclass(frozen=True)
class _Noise:
    """What rows show by chance through tables: at most ``eta``, with ``degrees`` free outputs."""

    eta: float
    degrees: int
    largest: float
    log: float

    @classmethod
    def of(cls, tables: Sequence[Floats], alpha: float) -> _Noise:
        degrees = count_outputs(tables) - 1
        return cls(dobrushin(tables), degrees, largest_mean(tables), float(np.log(1.0 / alpha)))

    def chance(self, counts: Sequence[float]) -> float:
        """Return the x that rows of two classes show by chance alone, or more than that."""
        # Of k outputs it is like chi-square with k - 1 degrees.
        return self.eta * self.degrees * sum(1.0 / n for n in counts) / 4.0

    def times(
        self, counts: Sequence[float], most: float, stays: float, passes: float | None = None
    ) -> float:
        """Return how many times as many rows of two classes bound their x by so much; inf if none.

        ``stays``: the x that any number shows; ``passes``: what these show besides.
        """
        besides = self.chance(counts) if passes is None else passes

        def excess(step: float) -> float:
            times = float(np.exp(step))
            foreseen = stays + besides / times
            more = [times * n for n in counts]
            return solve_bound(foreseen, more, self.eta, self.largest, self.log) - most

        farthest = float(np.log(_MOST * 1000.0))
        if excess(0.0) <= 0.0:
            return 1.0
        return math.inf if excess(farthest) > 0.0 else float(np.exp(brentq(excess, 0.0, farthest)))


# --- In words --------------------------------------------------------------------------------


def _sentence(rows: AuditRows, count: int | None, what: str) -> str:
    unit = "row" if rows.groups is None else rows.unit
    if count is None:
        return (
            f"More {unit}s are not expected to certify {what}: as far as these tell, more leaks "
            "or their number is out of reach."
        )
    more = "One more" if count <= 1 else f"About {rounded(count)} more"
    return f"{more} {unit}{'' if count <= 1 else 's'} like these would certify {what}."


def rounded(count: int) -> str:
    """Write a count with two digits that mean something, rounded up: it is an estimate."""
    step = int(10 ** max(0, len(str(count)) - 2))
    return f"{-(-count // step) * step:,}"


# --- Rows needed -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """What an audit's rows showed of one claim, all in units of the advantage.

    ``plug_in``: what the rows show, which is too much on average. ``noise``: what they would show
    if nothing leaked. ``deviation``: what the certificate adds. ``alpha``: at which error.
    """

    plug_in: float
    noise: float
    deviation: float
    alpha: float

    @property
    def leak(self) -> float:
        """What the rows show without its bias: leak, noise and chance add up as squares do.

        A deviation is about sqrt(2 ln(1/alpha)) standard errors.
        """
        chance = self.deviation**2 / (2.0 * float(np.log(1.0 / self.alpha)))
        return float(np.sqrt(max(0.0, self.plug_in**2 - self.noise**2 - chance)))

    def bound(self, times: float) -> float:
        """Return about what so many times the rows would certify."""
        more = self.noise / float(np.sqrt(times))
        return float(np.hypot(self.leak, more)) + self.deviation / float(np.sqrt(times))


def rows_needed(rows: AuditRows, limit: float, alpha: float) -> int | None:
    """Return about how many more rows, or groups, certify that the advantage is within a limit.

    None if no number does, as far as these rows can tell: what leaks is above the limit, or a
    class has no two observations. 0 if these rows suffice already.
    """
    if min(rows.observations) < 2:
        return None
    shown = _listed_claims(rows, alpha) if rows.listable else _kernel_claims(rows, alpha)
    most = float(MOST_ROWS)
    if not rows.listable:  # no more rows than these are compared
        most = max(1.0, MAX_ROWS / (rows.n_classes * min(rows.observations)))
    times = [_times_needed(each, limit, most) for each in shown]
    needed = max((each for each in times if each is not None), default=1.0)
    return None if None in times else int(np.ceil(rows.n_groups * (needed - 1.0)))


def _times_needed(shown: Shown, limit: float, most: float) -> float | None:
    if shown.bound(1.0) <= limit:
        return 1.0
    if shown.leak >= limit or shown.bound(most) > limit:
        return None
    return _least(lambda times: shown.bound(times) <= limit, most)


def _listed_claims(rows: AuditRows, alpha: float) -> list[Shown]:
    moments, m = rows.moments, rows.n_classes
    spread = np.maximum(moments.square - moments.mean**2, 0.0)
    errors = spread / np.maximum(moments.size, 1.0)[:, None]
    found = []
    for a, b in combinations(range(m), 2):
        factors = np.zeros(m)
        factors[[a, b]] = 0.5
        noise = float(np.sqrt((errors[a] + errors[b]) * 2.0 / np.pi).sum()) / 4.0
        plug_in = 0.25 * float(np.abs(moments.mean[a] - moments.mean[b]).sum())
        found.append(Shown(plug_in, noise, deviation(rows, alpha, factors), alpha))
    if m > 2:
        noise = expected_largest(m) * float(np.sqrt(errors.mean(axis=0)).sum()) / m
        plug_in = (float(moments.mean.max(axis=0).sum()) - 1.0) / m
        found.append(Shown(plug_in, noise, deviation(rows, alpha, np.full(m, 1.0 / m)), alpha))
    return found


def _kernel_claims(rows: AuditRows, alpha: float) -> list[Shown]:
    compared = KernelRows.of(rows)
    if not compared.comparable:
        return [Shown(1.0, 0.0, 0.0, alpha)]
    every = tuple(range(rows.n_classes))
    claims: Sequence[tuple[int, ...]] = list(combinations(every, 2))
    found = [_kernel_claim(compared, pair, alpha, 0.5 / np.sqrt(2.0)) for pair in claims]
    if rows.n_classes > 2:
        factor = np.sqrt((rows.n_classes - 1) / rows.n_classes) / rows.n_classes
        found.append(_kernel_claim(compared, every, alpha, factor))
    return found


def _kernel_claim(rows: KernelRows, classes: tuple[int, ...], alpha: float, factor: float) -> Shown:
    shown, strayed = kernel_parts(rows, classes, alpha)
    chosen = list(classes)
    each = rows.totals[chosen] / np.array(rows.sizes)[chosen]
    noise = float(np.sqrt((1.0 - 1.0 / len(chosen)) * each.sum()))
    return Shown(factor * shown, factor * noise, factor * strayed, alpha)
