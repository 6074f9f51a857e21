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
else. Groups: ``intervals`` tells why N independent observations may be counted; if one
group holds rows of both classes, its two terms share one factor,
log(1 + u + v) >= (log(1 + 2u) + log(1 + 2v))/2, so half of each log-product counts.

**No union over outputs.** The largest ratio over all outputs and pairs belongs to one
output, unknown but fixed. If the bound of that one holds, the largest of all bounds is
above it. Every bound may therefore spend all of alpha, as long as only their largest is
claimed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.auditing.intervals import two_points
from discreet.auditing.outputs_given import AuditRows, Moments, smallest_and_largest

Floats = NDArray[np.float64]

PILOT_SHARE = 0.2  # of the rows, spent on centres and bets
_PILOT_DOUBT = 0.1  # rows that the pilot might have seen at the largest value
_CANDIDATES = np.geomspace(0.2, 3.0, 8)  # multiples of the bet that a normal law would ask for
_MIXTURE = ((1.0, 0.7), (2.5, 0.3))  # multiples of the chosen bet, and their weights
_LARGEST_BET = 0.95
_CENTRE_OFF = 1e-6  # of the range, the least distance of the centre from its lower end
_BLOCK = 2**14  # outputs at once
_FAR = 60.0  # log-ratios beyond are infinite for all purposes
_ROUNDING = 1e-4  # relative surcharge on the exponent; rounding errors are far smaller
_CONSTANT = 1e-5  # below this relative range of Q(z|x) the range itself is the bound


@dataclass(frozen=True)
class RatioBounds:
    """Upper bounds on log p(z|a)/p(z|b), each at confidence 1 - alpha on its own.

    Attributes
    ----------
    logs : ndarray of shape (n_classes, n_classes, n_outputs)
        Infinite where nothing can be said; 0 on the diagonal and for impossible outputs.
    expected : ndarray of the same shape
        The same as foreseen by the pilot alone; it may be used to choose outputs.
    """

    logs: Floats
    expected: Floats


def bound_ratios(pilot: AuditRows, main: AuditRows, alpha: float) -> RatioBounds:
    """Bound every ratio on the main rows with bets chosen on the pilot.

    The bounds hold one by one, and so does their largest; for several at once divide
    ``alpha``.
    """
    low, high = smallest_and_largest(main.tables)
    need = float(np.log(1.0 / alpha)) * (1 + _ROUNDING)
    scale = 0.5 if main.classes_share_groups else 1.0
    shape = (main.n_classes, main.n_classes, len(low))
    logs, expected = np.zeros(shape), np.zeros(shape)
    for a in range(main.n_classes):
        for b in range(main.n_classes):
            for start in range(0, len(low) if a != b else 0, _BLOCK):
                part = slice(start, start + _BLOCK)
                test = _RatioTest(low[part], high[part], need, scale)
                guess_a, guess_b = (
                    _guess(pilot.moments, main.moments, g, part, test) for g in (a, b)
                )
                test.place(guess_b.mean)
                bet, expected[a, b, part] = test.choose_bet(guess_a, guess_b)
                side_a, side_b = (test.side(main.moments, g, part) for g in (a, b))
                bets = [(bet * multiple, weight) for multiple, weight in _MIXTURE]
                logs[a, b, part] = test.solve(side_a, side_b, bets)
    return RatioBounds(logs, expected)


@dataclass(frozen=True)
class _Side:
    """Two-point laws of X - low and of high - X for one class, by output."""

    size: float
    mean: Floats
    variance: Floats
    above: tuple[Floats, Floats]
    below: tuple[Floats, Floats]


def _guess(pilot: Moments, main: Moments, g: int, part: slice, test: _RatioTest) -> _Side:
    """Expect what the pilot shows, and a part of a row at the largest value besides.

    A small pilot may not have seen how large Q(z|x) can be.
    """
    share = _PILOT_DOUBT / (pilot.size + _PILOT_DOUBT)
    mean = (1 - share[:, None]) * pilot.mean[:, part] + share[:, None] * test.high
    square = (1 - share[:, None]) * pilot.square[:, part] + share[:, None] * test.high**2
    return test.side(Moments(main.size, mean, square), g, slice(None))


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

    def place(self, centre: Floats) -> None:
        """Set the centre t, and with it the largest bet."""
        width = self.high - self.low
        self.centre = np.clip(centre, self.low + _CENTRE_OFF * width, self.high)
        self.largest = np.divide(
            _LARGEST_BET, self.centre - self.low, out=np.ones(len(width)), where=~self.constant
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
        bounds = self.solve(a, b, [(tried, 1.0)], steps=20)
        best = np.argmin(bounds, axis=0)[None]
        bet = np.take_along_axis(tried, best, axis=0)[0]
        bound = np.take_along_axis(bounds, best, axis=0)[0]
        helpless = bound >= self.limit  # then at least bet as much as a normal law would ask for
        return np.where(helpless, np.minimum(normal, self.largest), bet), bound

    def solve(
        self, a: _Side, b: _Side, bets: list[tuple[Floats, float]], steps: int = 45
    ) -> Floats:
        """Return the smallest log-ratio, up to bisection, at which E is large enough."""
        if not (a.size and b.size):
            return np.broadcast_to(self.limit, bets[0][0].shape)
        bets = [(np.minimum(bet, self.largest), weight) for bet, weight in bets]
        starts = [np.log(weight) + self.scale * self._log_b(b, bet) for bet, weight in bets]
        top = np.minimum(self.limit, _FAR)
        lower, upper = -top, top
        for _ in range(steps):
            middle = 0.5 * (lower + upper)
            ratio = np.exp(middle)
            terms = [
                start + self.scale * self._log_a(a, bet * (b.size / a.size), ratio)
                for start, (bet, _) in zip(starts, bets, strict=True)
            ]
            enough = np.logaddexp.reduce(terms) >= self.need
            upper = np.where(enough, middle, upper)
            lower = np.where(enough, lower, middle)
        found = np.where(upper < top, upper, self.limit)
        return np.where(self.constant, self.limit, found)

    def _log_b(self, b: _Side, bet: Floats) -> Floats:
        mass, place = b.above
        floor = np.log1p(bet * (self.low - self.centre))
        point = np.log1p(bet * (self.low + place - self.centre))
        wealth: Floats = b.size * ((1.0 - mass) * floor + mass * point)
        return wealth

    def _log_a(self, a: _Side, bet: Floats, ratio: Floats) -> Floats:
        mass, place = a.below
        worst = bet * (self.centre - self.high / ratio)
        point = bet * (self.centre - (self.high - place) / ratio)
        allowed = worst > -1.0
        floor = np.log1p(np.where(allowed, worst, 0.0))
        wealth = a.size * ((1.0 - mass) * floor + mass * np.log1p(np.where(allowed, point, 0.0)))
        return np.where(allowed, wealth, -np.inf)
