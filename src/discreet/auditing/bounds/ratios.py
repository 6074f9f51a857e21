"""Upper bounds on p(z|a) / p(z|b) for two classes, output by output.

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
the pilot alone. Rows of groups with a cap: ``spread`` bounds both probabilities, alpha/2 each.

**No union over outputs.** The largest ratio over all outputs and pairs belongs to one
output, unknown but fixed. If the bound of that one holds, the largest of all bounds is
above it. Every bound may therefore spend all of alpha, as long as only their largest is
claimed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.arrays import Floats
from discreet.auditing.bounds.intervals import last_positive, two_points
from discreet.auditing.bounds.outputs_given import AuditRows, Moments
from discreet.auditing.bounds.spread import capped_deviation
from discreet.leakage.joint_outputs import smallest_and_largest

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
