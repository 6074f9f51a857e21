"""About how many more rows or groups would certify what these do not.

Extrapolated from the rows at hand, so it is an estimate and promises nothing. Their plug-in
advantage is corrected for its bias and taken to be the leak; bias and deviation shrink like one
over the root of the number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.optimize import brentq

from discreet.arrays import Floats
from discreet.auditing.bounds.certificates import Certificate
from discreet.auditing.bounds.kernel_bound import kernel_parts
from discreet.auditing.bounds.kernel_rows import MAX_ROWS, KernelRows
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.auditing.bounds.planning import HALVINGS, MOST_ROWS, expected_largest
from discreet.auditing.bounds.spread import deviation
from discreet.auditing.bounds.window import WindowBound, largest_mean, solve_bound
from discreet.leakage.chains import add_up
from discreet.leakage.exact import pairwise_epsilon, squared_information
from discreet.leakage.joint_outputs import count_outputs, dobrushin
from discreet.quoting import plain_points

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
    few, many = 0.0, float(np.log(most))
    for _ in range(HALVINGS):
        middle = 0.5 * (few + many)
        within = shown.bound(float(np.exp(middle))) <= limit
        few, many = (few, middle) if within else (middle, many)
    return float(np.exp(many))


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
