"""Certificates for epsilon: how much any single output can tell about the private class.

*Upper bounds on p(z|a) / p(z|b) for two classes, output by output.*

Fix an output z and write X for Q(z|x) of a row x; X lies in [low, high], known from the
tables. For rows of class b and rows of class a, a ratio r > 0, a centre t and a bet c

    E(r) = prod_b (1 + c (X_i - t)) * prod_a (1 + k (t - X_i / r)),    N_a k = N_b c.

If p(z|a) >= r p(z|b), put d = p(z|b) - t; then E(r) has mean at most
(1 + c d)^N_b (1 - k d)^N_a <= exp(N_b c d - N_a k d) = 1, whatever p(z|b) is: the unknown
level of the two probabilities drops out. E(r) grows with r, row by row. So if r0 is the
true ratio, the smallest r with E(r) >= 1/alpha is below r0 only if E(r0) >= 1/alpha,
which has probability at most alpha by Markov's inequality. One test for the ratio is
sharper than an upper bound for one class over a lower bound for the other: the two
errors add up like standard deviations and not like widths.

All factors must be positive: c (t - low) < 1, and k (high / r - t) < 1 for every r that
is considered. Both log-products are bounded from below by two moments
(``intervals.two_points``), for X - low and for high - X. An average of E(r) over several
fixed bets has the same properties, and forgives a bet that was chosen badly.

Centre and bets come from a pilot: a random part of the rows that is used for nothing
else. Groups: an observation of a class is the mean of Q(z|x) over a group's rows of that
class. Given which groups have class b the first product over (1 + c (p(z|b) - t))^N_b has mean
one, and so has the second given which groups have class a; given both that need not be
so, since groups with both classes may read differently. By Cauchy and Schwarz the square root
of the product of the two has mean at most one, so half of each log-product counts. c may
depend on N_b and k on N_a, but neither on the other: the stake N_b c = N_a k is fixed by
the pilot alone. Rows of groups with a cap: ``deviations`` bounds both probabilities, alpha/2 each.

**No union over outputs.** The largest ratio over all outputs and pairs belongs to one
output, unknown but fixed. If the bound of that one holds, the largest of all bounds is
above it. Every bound may therefore spend all of alpha, as long as only their largest is
claimed.

*Certificates.* ``PointwiseAudit`` holds the rows, split at random into a pilot, which chooses bets
and rare outputs, and the main rows, which bound. The seed is recorded with the split. What alpha
covers, certificate by certificate:

* ``pairwise``: max log p(z|a)/p(z|b). All of alpha goes to the one ratio that is truly
  largest; see above for why there is no union over outputs.
* ``information``: max |log p(g|z)/p(g)|, at one output and class, unknown but fixed. It
  is a function of the m - 1 ratios of that class and of the prior. A tenth of alpha goes
  to the prior if it has to be estimated, the rest is divided by m - 1.
* ``nested``: the same, and epsilon outside a set of outputs with a mass of at most delta in
  every class, for several delta. All of these hold at once, and each implies the next: leaving
  outputs aside can only lower epsilon. So the smallest bound so far counts for all that follow.
  Most of alpha goes to epsilon without exceptions, the rest is divided by the number of
  deltas. The pilot orders outputs by the bound they are expected to get and proposes one
  set of the worst ones for each delta; a quarter of a delta's share, divided by m, goes to the
  proof on the main rows that its mass is at most delta, the rest to the ratios outside it.

More outputs than ``MAX_AUDIT_OUTPUTS`` are not listed: only the structural bound is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from discreet.arrays import Floats, Ints
from discreet.auditing.bounds.certificates import (
    Certificate,
    NotCertifiable,
    many,
    opening,
    row_assumptions,
    share_assumption,
)
from discreet.auditing.bounds.deviations import (
    capped_deviation,
    mean_upper,
    overall_lower,
    overall_upper,
)
from discreet.auditing.bounds.intervals import (
    check_alpha,
    clopper_pearson_lower,
    clopper_pearson_upper,
    last_positive,
    two_points,
)
from discreet.auditing.bounds.outputs_given import AuditRows, Moments
from discreet.errors import InputError
from discreet.leakage.exact import structural_epsilons
from discreet.leakage.joint_outputs import smallest_and_largest
from discreet.rounding import factor, up

# --- Ratios of two classes, output by output ------------------------------------------------

PILOT_SHARE = 0.2  # of the rows, spent on centres and bets
_PILOT_DOUBT = 0.1  # rows that the pilot might have seen at the largest value
_CANDIDATES = np.geomspace(0.2, 3.0, 8)  # multiples of the bet that a normal law would ask for
_MIXTURE = ((1.0, 0.7), (2.5, 0.3))  # multiples of the chosen bet, and their weights
_LARGEST_BET = 0.95  # of what may be lost
_LARGEST_STAKE = 0.75  # the same for groups, of which there may be fewer than foreseen
_CENTRE_OFF = 1e-6  # of the range, the least distance of the centre from its lower end
_BLOCK = 2**14  # outputs at once
_FAR = 60.0  # log-ratios beyond are infinite for all purposes
_CLOSE = 1e-11  # of a ratio, how far above the smallest certified one the bound may lie, and
_FORESEEN = 1e-5  # where bets are compared
_TINY = 1e-300
_ROUNDING = 1e-4  # relative surcharge on the exponent; rounding errors are far smaller
_CONSTANT = 1e-5  # below this relative range of Q(z|x) the range itself is the bound


@dataclass(frozen=True)
class RatioBounds:
    """Upper bounds on log p(z|a)/p(z|b), each at confidence 1 - alpha on its own.

    ``logs`` of shape (n_classes, n_classes, n_outputs): infinite where nothing can be said; 0 on
    the diagonal and for impossible outputs. ``expected``: the same as foreseen by the pilot alone;
    it may be used to choose outputs.
    """

    logs: Floats
    expected: Floats


def bound_ratios(pilot: AuditRows, main: AuditRows, alpha: float) -> RatioBounds:
    """Bound every ratio on the main rows with bets chosen on the pilot.

    The bounds hold one by one, and so does their largest; for several at once divide
    ``alpha``.
    """
    if main.cap is not None:
        return _bound_capped(pilot, main, alpha)
    low, high = smallest_and_largest(main.tables)
    need = float(np.log(1.0 / alpha)) * (1 + _ROUNDING)
    scale, largest = (1.0, _LARGEST_BET) if main.groups is None else (0.5, _LARGEST_STAKE)
    shape = (main.n_classes, main.n_classes, len(low))
    logs, expected = np.zeros(shape), np.zeros(shape)
    sizes = _foreseen_sizes(pilot, main)
    for a in range(main.n_classes):
        for b in range(main.n_classes):
            for start in range(0, len(low) if a != b else 0, _BLOCK):
                part = slice(start, start + _BLOCK)
                test = _RatioTest(low[part], high[part], need, scale)
                guess_a, guess_b = (_guess(pilot.moments, sizes, g, part, test) for g in (a, b))
                test.place(guess_b.mean, largest)
                bet, expected[a, b, part] = test.choose_bet(guess_a, guess_b)
                side_a, side_b = (test.side(main.moments, g, part) for g in (a, b))
                more = sizes[b] / max(side_b.size, 1.0)  # the same stake for as many as there are
                bets = [(np.minimum(bet * times, test.largest) * more, w) for times, w in _MIXTURE]
                logs[a, b, part] = test.solve(side_a, side_b, bets)
    return RatioBounds(logs, expected)


def _foreseen_sizes(pilot: AuditRows, main: AuditRows) -> Floats:
    """Return how many observations of each class there will be, without a look at random ones.

    Rows are bounded given their classes, so that their numbers are known. How many groups
    have a class is random, and may depend on what they read.
    """
    if main.groups is None:
        return main.moments.size
    times = main.n_groups / max(1, pilot.n_groups)
    return np.maximum(1.0, times * pilot.moments.size)


def _bound_capped(pilot: AuditRows, main: AuditRows, alpha: float) -> RatioBounds:
    """Divide upper bounds by lower ones, for rows of groups with a cap."""
    assert main.cap is not None
    low, high = smallest_and_largest(main.tables)
    cap, width = main.cap, np.where(high > low, high - low, 0.0)
    found = []
    for part in (main, pilot):  # the pilot alone foresees, with what it has itself
        stray = [capped_deviation(held, cap, alpha / 2) for held in part.held]
        reach = np.where(width > 0, np.minimum(stray, 1.0)[:, None] * width, 0.0)
        found.append(_log_ratios(part.average, reach, low, high))
    return RatioBounds(*found)


def _log_ratios(given: Floats, reach: Floats, low: Floats, high: Floats) -> Floats:
    upper, lower = np.minimum(given + reach, high), np.maximum(given - reach, low)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(high > 0, np.log(upper)[:, None] - np.log(lower)[None], 0.0)
    logs[np.arange(len(given)), np.arange(len(given))] = 0.0
    return logs


@dataclass(frozen=True)
class _Side:
    """Two-point laws of X - low and of high - X for one class, by output."""

    size: float
    mean: Floats
    variance: Floats
    above: tuple[Floats, Floats]
    below: tuple[Floats, Floats]


def _guess(pilot: Moments, sizes: Floats, g: int, part: slice, test: _RatioTest) -> _Side:
    """Expect what the pilot shows, and a part of a row at the largest value besides.

    A small pilot may not have seen how large Q(z|x) can be.
    """
    share = _PILOT_DOUBT / (pilot.size + _PILOT_DOUBT)
    mean = (1 - share[:, None]) * pilot.mean[:, part] + share[:, None] * test.high
    square = (1 - share[:, None]) * pilot.square[:, part] + share[:, None] * test.high**2
    return test.side(Moments(sizes, mean, square), g, slice(None))


class _RatioTest:
    """The product E(r) for one ordered pair of classes and a block of outputs."""

    def __init__(self, low: Floats, high: Floats, need: float, scale: float) -> None:
        self.low, self.high, self.need, self.scale = low, high, need, scale
        with np.errstate(divide="ignore", invalid="ignore"):
            # What holds without any rows.
            self.limit = np.where(high > 0, np.log(high) - np.log(low), 0.0)
        self.constant = high - low <= _CONSTANT * high  # also where high is 0

    def side(self, moments: Moments, g: int, part: slice) -> _Side:
        mean, square = moments.mean[g, part], moments.square[g, part]
        low, high = self.low, self.high
        return _Side(
            float(moments.size[g]),
            mean,
            np.maximum(square - mean**2, 0.0),
            two_points(mean - low, square - 2 * low * mean + low**2),
            two_points(high - mean, square - 2 * high * mean + high**2),
        )

    def place(self, centre: Floats, largest: float) -> None:
        """Set the centre t, and with it the largest bet: that share of what may be lost."""
        width = self.high - self.low
        self.centre = np.clip(centre, self.low + _CENTRE_OFF * width, self.high)
        self.largest = np.divide(
            largest, self.centre - self.low, out=np.ones(len(width)), where=~self.constant
        )

    def choose_bet(self, a: _Side, b: _Side) -> tuple[Floats, Floats]:
        """Return the bet that gives the smallest bound if the pilot is right, and the bound."""
        spread = np.full(len(self.low), 1e-12)
        for side in (a, b):
            if side.size:
                spread += side.variance / np.maximum(side.mean, 1e-150) ** 2 / side.size
        normal = np.sqrt(2.0 * self.need / self.scale / spread)
        normal /= max(b.size, 1.0) * np.maximum(self.centre, 1e-150)
        tried = np.minimum(_CANDIDATES[:, None] * normal, self.largest)
        bounds = self.solve(a, b, [(tried, 1.0)], close=_FORESEEN)
        best = np.argmin(bounds, axis=0)[None]
        bet = np.take_along_axis(tried, best, axis=0)[0]
        bound = np.take_along_axis(bounds, best, axis=0)[0]
        helpless = bound >= self.limit  # then at least bet as much as a normal law would ask for
        return np.where(helpless, np.minimum(normal, self.largest), bet), bound

    def solve(
        self, a: _Side, b: _Side, bets: list[tuple[Floats, float]], close: float = _CLOSE
    ) -> Floats:
        """Return the smallest log-ratio, up to ``close``, at which E is large enough.

        Solved for 1/r, of which the logarithm of one bet's product is nearly a linear and
        always a concave function. The best single bet is where a mixture begins.
        """
        shape = bets[0][0].shape
        limit = np.broadcast_to(self.limit, shape)
        if not (a.size and b.size):
            return limit
        terms = [self._term(a, b, bet, weight) for bet, weight in bets]
        low = np.exp(-np.minimum(limit, _FAR))
        high = 1.0 / low
        start = np.broadcast_to(b.mean / np.maximum(a.mean, _TINY), shape)
        found = [_largest_inverse([each], self.need, start, low, high, close) for each in terms]
        best: Floats = np.max(found, axis=0)
        if len(terms) > 1:
            low = np.where(best > 0, best, low)
            best = _largest_inverse(terms, self.need, low, low, high, close)
        certified = (best > 0) & ~self.constant
        return np.where(certified, -np.log(best, where=certified, out=np.zeros(shape)), limit)

    def _term(self, a: _Side, b: _Side, bet: Floats, weight: float) -> _Term:
        """Return what one bet adds to E."""
        mass, place = a.below
        bet_a = bet * (b.size / a.size)
        return _Term(
            start=np.log(weight) + self.scale * self._log_b(b, bet),
            centre=bet_a * self.centre,
            high=bet_a * self.high,
            point=bet_a * (self.high - place),
            mass=np.broadcast_to(mass, bet.shape),
            size=self.scale * a.size,
        )

    def _log_b(self, b: _Side, bet: Floats) -> Floats:
        mass, place = b.above
        worst = bet * (self.low - self.centre)
        allowed = worst > -1.0
        floor = np.log1p(np.where(allowed, worst, 0.0))
        point = np.log1p(np.where(allowed, bet * (self.low + place - self.centre), 0.0))
        wealth = b.size * ((1.0 - mass) * floor + mass * point)
        return np.where(allowed, wealth, -np.inf)


@dataclass(frozen=True)
class _Term:
    """The logarithm of one bet's share of E, as a function of 1/r; the bet is in all numbers."""

    start: Floats
    centre: Floats
    high: Floats
    point: Floats
    mass: Floats
    size: float

    @property
    def end(self) -> Floats:
        """Where the smallest factor of E reaches zero."""
        ends = np.full(self.high.shape, np.inf)
        np.divide(1.0 + self.centre, self.high, out=ends, where=self.high > 0)
        return ends

    def at(self, inverse: Floats, which: Any) -> tuple[Floats, Floats]:
        """Return values and slopes; minus infinity where a factor would not be positive."""
        high, point, mass = self.high[which], self.point[which], self.mass[which]
        floor = self.centre[which] - high * inverse
        upper = self.centre[which] - point * inverse
        allowed = floor > -1.0
        if not allowed.all():
            floor, upper = np.where(allowed, floor, 0.0), np.where(allowed, upper, 0.0)
        wealth = (1.0 - mass) * np.log1p(floor) + mass * np.log1p(upper)
        slope = (1.0 - mass) * high / (1.0 + floor) + mass * point / (1.0 + upper)
        value = np.where(allowed, self.start[which] + self.size * wealth, -np.inf)
        return value, -self.size * slope


def _largest_inverse(
    terms: list[_Term], need: float, start: Floats, low: Floats, high: Floats, close: float
) -> Floats:
    """Return the largest 1/r in a range at which E is large enough; 0 if there is none."""

    def curve(inverse: Floats, which: Any) -> tuple[Floats, Floats]:
        return _mixed([term.at(inverse, which) for term in terms], need)

    some = curve(low, ...)[0] >= 0
    end = np.minimum(high, np.max([term.end for term in terms], axis=0))
    found = last_positive(curve, start, low, np.where(some, np.maximum(end, low), low), close)
    return np.where(some, found, 0.0)


def _mixed(terms: list[tuple[Floats, Floats]], need: float) -> tuple[Floats, Floats]:
    """Return value and slope of log E - need for a mixture of bets."""
    if len(terms) == 1:
        return terms[0][0] - need, terms[0][1]
    values, slopes = (np.stack(each) for each in zip(*terms, strict=True))
    largest = values.max(axis=0)
    with np.errstate(invalid="ignore"):  # where all are minus infinity the slope is no number
        shares = np.exp(values - largest)
    total = shares.sum(axis=0)
    return largest + np.log(total) - need, (shares * slopes).sum(axis=0) / total


# --- Certificates ---------------------------------------------------------------------------

Box = tuple[Floats, Floats]

DELTAS = (0.001, 0.01, 0.05)
_PRIOR_SHARE = 0.1  # of alpha, for an estimated prior
_MASS_SHARE = 0.25  # of alpha, for the mass of the rare set
_WHOLE_SHARE = 0.8  # of alpha, for epsilon without exceptions
_AIM = 0.8  # of delta, what the pilot expects the proven mass of a rare set to be at most
_INFORMATION = "information epsilon"
BEYOND_MASS = f"{_INFORMATION} beyond a mass of "
"""How the names of certificates begin that leave rare outputs aside; their mass follows."""
_ROUND_UP = 1 + 1e-9


class PointwiseAudit:
    """Epsilon certificates for one private fact.

    ``seed``: of the split into pilot and main rows. It is to be fixed before the audit: the best of
    several splits holds less often than promised. ``prior`` of shape (n_classes,): exact
    probabilities of the classes. If not given they are estimated from the rows, which must then be
    drawn at random, classes and all.
    """

    def __init__(self, rows: AuditRows, seed: int, prior: Floats | None = None) -> None:
        if prior is not None and (len(prior) != rows.n_classes or not np.isclose(sum(prior), 1)):
            raise InputError("prior must hold one probability per class and sum to 1.")
        self.rows, self.seed, self.prior = rows, seed, prior
        self.pilot, self.main = rows.split(PILOT_SHARE, seed)
        self.limit = float(structural_epsilons(rows.tables).sum())

    def pairwise(self, alpha: float) -> Certificate:
        """Bound max log p(z|a)/p(z|b); it needs no prior."""
        check_alpha(alpha)
        cells = None
        if self.rows.listable:
            cells = bound_ratios(self.pilot, self.main, alpha).logs.max(axis=(0, 1))
        return self._certificate("pairwise epsilon", alpha, cells, self.limit)

    def information(self, alpha: float) -> Certificate:
        """Bound max |log p(g|z)/p(g)| over classes and outputs."""
        return self.nested(alpha, ())[0]

    def nested(self, alpha: float, deltas: Sequence[float] = DELTAS) -> tuple[Certificate, ...]:
        """Bound the information epsilon, then that outside a mass of at most each delta.

        All bounds hold at once, and none is above the one before it; ``deltas`` must grow. The
        mass counts in every class, so it also bounds the probability of those outputs overall,
        whatever the prior.
        """
        check_alpha(alpha)
        if not all(0 < delta < 1 for delta in deltas) or list(deltas) != sorted(deltas):
            raise InputError(f"every delta must be between 0 and 1, in order, got {tuple(deltas)}.")
        box, left = self._prior_box(alpha)
        limit = self._information_limit(box)
        whole = left if not deltas else _WHOLE_SHARE * left
        cells = self._information_cells(whole, box)
        found = [self._certificate(_INFORMATION, alpha, cells, limit, information=True)]
        if deltas:
            each = (left - whole) / len(deltas)
            found += self._beyond(alpha, each, deltas, box, found[0])
        return tuple(found)

    def _beyond(
        self, alpha: float, each: float, deltas: Sequence[float], box: Box, whole: Certificate
    ) -> list[Certificate]:
        """Bound what is left when the outputs that the pilot proposes are set aside."""
        names = [f"{BEYOND_MASS}{delta:g}" for delta in deltas]
        if not self.rows.listable:
            return [replace(whole, name=name) for name in names]
        share = (1 - _MASS_SHARE) * each / (self.rows.n_classes - 1)
        bounds = bound_ratios(self.pilot, self.main, share)
        # Outputs are ordered and proposed by the pilot alone.
        foreseen_prior = box if self.rows.groups is None else (self.pilot.shares,) * 2
        order = np.argsort(-_information_cells(bounds.expected, foreseen_prior), kind="stable")
        cells = _information_cells(bounds.logs, box)
        foreseen, proven = self._masses(order, _MASS_SHARE * each)
        found, least = [], np.inf if whole.bound is None else whole.bound / _ROUND_UP
        for name, delta in zip(names, deltas, strict=True):
            aside = int(np.searchsorted(foreseen, _AIM * delta, "right"))
            kept = order[aside if aside and proven[aside - 1] <= delta else 0 :]
            own = self._certificate(
                name, alpha, cells[kept], least, kept, information=True, delta=delta
            )
            least = min(least, np.inf if own.bound is None else own.bound / _ROUND_UP)
            found.append(own)
        return found

    def _information_cells(self, alpha: float, box: Box) -> Floats | None:
        if not self.rows.listable:
            return None
        ratios = bound_ratios(self.pilot, self.main, alpha / (self.rows.n_classes - 1))
        return _information_cells(ratios.logs, box)

    def _information_limit(self, box: Box) -> float:
        """Return the bound without listed outputs: every ratio is as large as the tables allow."""
        m = self.rows.n_classes
        widest = np.full((m, m, 1), self.limit)
        widest[np.arange(m), np.arange(m)] = 0.0
        return float(_information_cells(widest, box)[0])

    def _masses(self, order: Ints, alpha: float) -> tuple[Floats, Floats]:
        """Bound the mass of the first 1, 2, ... outputs: as the pilot foresees it, and proven."""
        share = alpha / self.rows.n_classes
        # How many rows of a class there are is given; how many groups have it is random.
        known = self.main if self.rows.groups is None else self.pilot
        foreseen, proven = (
            np.stack([
                mean_upper(sizes, k, np.minimum(np.cumsum(given[order]), 1.0), share)
                for k, given in enumerate(part.average)
            ]).max(axis=0)
            for part, sizes in ((self.pilot, known), (self.main, self.main))
        )  # fmt: skip
        return np.maximum.accumulate(foreseen), np.maximum.accumulate(proven)

    def _prior_box(self, alpha: float) -> tuple[Box, float]:
        """Return bounds on the prior and what is left of alpha."""
        if self.prior is not None:
            return (self.prior, self.prior), alpha
        rows = self.rows
        each = _PRIOR_SHARE * alpha / (2 * rows.n_classes)
        left = (1 - _PRIOR_SHARE) * alpha
        counts, n_rows = np.array(rows.counts), sum(rows.counts)
        if not n_rows:
            return (np.zeros(len(counts)), np.ones(len(counts))), left
        if rows.groups is None:
            low = clopper_pearson_lower(counts, n_rows, each)
            return (low, clopper_pearson_upper(counts, n_rows, each)), left
        low = overall_lower(rows, rows.shares, each)
        return (low, overall_upper(rows, rows.shares, each)), left

    def _certificate(
        self,
        name: str,
        alpha: float,
        cells: Floats | None,
        limit: float,
        numbers: Ints | None = None,
        *,
        information: bool = False,
        delta: float | None = None,
    ) -> Certificate:
        """Make the certificate from bounds by output, or from the tables alone."""
        epsilon = limit if cells is None else min(limit, float(np.max(cells, initial=0.0)))
        value: float | NotCertifiable = epsilon * _ROUND_UP
        words = f"{opening(self.rows, alpha)} {_say(epsilon, information, delta)}."
        if not np.isfinite(epsilon):
            value = NotCertifiable(self._why(cells, numbers))
            words = value.words
        assumptions = row_assumptions(self.rows)
        if information:
            assumptions += (share_assumption(self.rows, self.prior),)
        of_tables = bool(np.isfinite(epsilon) and epsilon * _ROUND_UP >= self.limit)
        counts, counted = self.rows.counts, self.rows.counted
        return Certificate(name, value, 1 - alpha, counts, assumptions, words, counted, of_tables)

    def _why(self, cells: Floats | None, numbers: Ints | None) -> str:
        if cells is None:
            return (
                f"{many(self.rows.n_outputs)} outputs are too many to list, and some table sends a "
                "symbol only for some codes"
            )
        open_cells = np.flatnonzero(~np.isfinite(cells))
        first = int(open_cells[0] if numbers is None else numbers[open_cells].min())
        symbols = np.unravel_index(first, [table.shape[1] for table in self.rows.tables])
        names = self.rows.sensors or [str(t) for t in range(len(symbols))]
        shown = ", ".join(f"{name}={z}" for name, z in zip(names, symbols, strict=True))
        return (
            f"with {self.rows.counted}, {len(open_cells)} of {self.rows.n_outputs} outputs are "
            f"too rare to rule out that some class never sends them, for example ({shown})"
        )


def _information_cells(logs: Floats, box: Box) -> Floats:
    """Return the largest |log p(g|z)/p(g)| by output that ratios and priors allow.

    p(z)/p(z|g) = sum_h prior_h p(z|h)/p(z|g) is linear in the prior and lies between the
    sums with the smallest and the largest ratios.
    """
    worst = np.zeros(logs.shape[2])
    for g in range(len(logs)):
        least = _linear_extreme(np.exp(-logs[g]), box, np.argsort)
        with np.errstate(over="ignore"):
            most = _linear_extreme(np.exp(logs[:, g]), box, lambda c, axis: np.argsort(-c, axis))
        with np.errstate(divide="ignore"):
            worst = np.maximum(worst, np.maximum(-np.log(least), np.log(most)))
    return worst


def _linear_extreme(coefficients: Floats, box: Box, rank: Callable[..., Ints]) -> Floats:
    """Return the extreme of sum prior_h coefficient_h over the box and the simplex.

    Everybody gets the lower end first; the rest is handed out in the order of ``rank``.
    """
    low, high = box
    order = rank(coefficients, axis=0)
    total: Floats = _weighted(low[:, None], coefficients).sum(axis=0)
    left = np.full(coefficients.shape[1], 1.0 - low.sum())
    for place in order:
        part = np.clip(np.minimum(left, (high - low)[place]), 0.0, None)
        own = np.take_along_axis(coefficients, place[None, :], axis=0)[0]
        total += _weighted(part, own)
        left -= part
    return total


def _weighted(weights: Floats, values: Floats) -> Floats:
    """Multiply, with nothing of infinity being nothing."""
    with np.errstate(invalid="ignore"):
        return np.where(weights > 0, weights * values, 0.0)


def _say(epsilon: float, information: bool, delta: float | None) -> str:
    rare = "" if delta is None else f"outside outputs that occur in at most {delta:.3%} of cases, "
    times = f"exp({up(epsilon):.3f}) = {factor(epsilon)} times as likely"
    if information:
        return (
            f"{rare}no output makes any private class more than {times}, or as unlikely, as before"
        )
    return f"{rare}no output is more than {times} for one private class as for another"
