"""Confidence bounds for probabilities and for means of bounded variables.

All bounds are one-sided, hold for every sample size and err on the safe side where
numbers are rounded. ``level`` is ln(1/alpha) over the number of independent
observations. Lower bounds are for variables in [0, 1]; an upper bound is one minus the
lower bound of one minus the variable.

Two families for means, both from a product of non-negative terms with mean at most one
(so that by Markov's inequality it exceeds 1/alpha with probability at most alpha):

* ``kl_lower``, ``kl_upper``: Chernoff's bound with the Bernoulli moment generating
  function, the largest one for a given mean. It knows the mean only.
* ``betting_lower``: for a fixed bet b in (0, 1) and a candidate mean mu the wealth
  prod (1 + b (Y_i/mu - 1)) has mean one, and it falls as mu grows. It knows the variance
  too, and needs a bet that was chosen without looking at the same rows.

The wealth is bounded from below by two moments, so that nobody needs the single values
(``two_points``). Let h(y) = log(1 + c (y - t)) with 1 + c (0 - t) > 0. Among all
distributions on [0, inf) with mean M1 and second moment M2 the one with mass M1^2/M2 at
x0 = M2/M1 and the rest at 0 has the smallest mean of h: the parabola that equals h at 0
and touches it at x0 lies below h, since the divided difference h[x0, x0, y] grows with
y (the third derivative is positive), and its mean depends on the two moments alone.

Rows in groups, group j with share w_j of the rows, any dependence within a group: with
N = 1/max w_j both bounds hold with N observations in place of n. Chernoff: the Bernoulli
log moment generating function f is convex with f(0) = 0, so that
f(s w_j) <= (w_j/w_max) f(s w_max), and the shares add up to one. Betting: group j bets
c w_j/w_max on its mean; log(1 + r v) >= r log(1 + v) for r in [0, 1], and the logarithm
of a mean is at least the mean of the logarithms, so the log-wealth is at least N times
the average of h over the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr, rel_entr, xlog1py
from scipy.stats import beta

from discreet.auditing.inversion import last_positive

Floats = NDArray[np.float64]

_SLACK = 1e-12  # relative, outweighs every rounding error below
_START_OFF = 1e-9  # relative, outweighs those of exponentials of large numbers
_TINY = 1e-300  # a lower bound this small is 0


def clopper_pearson_lower(successes: ArrayLike, trials: ArrayLike, alpha: float) -> Floats:
    """Return the exact lower bound of a binomial probability at confidence 1 - alpha."""
    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    some = np.maximum(k, 1.0)
    bound = beta.ppf(alpha, some, np.maximum(n - some + 1.0, 1.0))
    return np.where(k > 0, bound * (1 - _SLACK), 0.0)


def clopper_pearson_upper(successes: ArrayLike, trials: ArrayLike, alpha: float) -> Floats:
    """Return the exact upper bound of a binomial probability at confidence 1 - alpha."""
    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    fails = np.maximum(n - k, 1.0)
    bound = beta.isf(alpha, np.maximum(n - fails + 1.0, 1.0), fails)
    return np.where(k < n, np.minimum(bound * (1 + _SLACK), 1.0), 1.0)


def bernoulli_kl(p: ArrayLike, q: ArrayLike) -> Floats:
    """Return the relative entropy kl(p||q) of two coins, in nats."""
    p, q = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        # (1 - p) log((1 - p)/(1 - q)), exact to the last digits for small p and q too
        tails = np.where(p < 1, -xlog1py(1 - p, (p - q) / (1 - p)), 0.0)
    return np.asarray(rel_entr(p, q) + tails)


def kl_upper(mean: ArrayLike, level: ArrayLike) -> Floats:
    """Return the largest q >= mean with kl(mean||q) <= level, rounded outwards."""
    # kl(p||q) = kl(1 - p||1 - q)
    below = _kl_beyond(1.0 - np.asarray(mean, np.float64), np.asarray(level, np.float64))
    return np.minimum(1.0 - below + _SLACK, 1.0)


def kl_lower(mean: ArrayLike, level: ArrayLike) -> Floats:
    """Return the smallest q <= mean with kl(mean||q) <= level, rounded outwards.

    Right in relative terms: a small bound goes into a ratio.
    """
    mean = np.asarray(mean, np.float64)
    beyond = _kl_beyond(mean, np.asarray(level, np.float64))
    return np.where(beyond > 0, np.minimum(beyond * (1 - _SLACK), mean), 0.0)


def _kl_beyond(mean: Floats, level: Floats) -> Floats:
    """Return nearly the largest q < mean with kl(mean||q) >= level; 0 if it is tiny.

    Where to begin: kl(p||q) is at least (p - q)^2/2p for q < p, and at least -h(p) - p log q
    with the entropy h. Where one of them reaches the level, kl has passed it.
    """
    mean, level = np.broadcast_arrays(mean, level)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        by_square = mean - np.sqrt(2 * mean * level)
        entropy = entr(mean) - xlog1py(1 - mean, -mean)
        by_entropy = np.exp(-(level + entropy) / mean)
    low = np.fmax(by_square, by_entropy) * (1 - _START_OFF)
    some = low > _TINY  # not so where the mean is 0 or no number

    def curve(q: Floats, which: Any) -> tuple[Floats, Floats]:
        slope: Floats = (q - mean[which]) / (q * (1 - q))
        return bernoulli_kl(mean[which], q) - level[which], slope

    low = np.where(some, low, 1.0)
    found = last_positive(curve, low, low, np.where(some, mean, low), _SLACK)
    return np.where(some, found, 0.0)


def two_points(mean: ArrayLike, square: ArrayLike) -> tuple[Floats, Floats]:
    """Return mass and place of the upper point of the worst distribution on {0, place}.

    ``mean`` and ``square`` are first and second moments of a variable that is at least 0.
    """
    first = np.maximum(np.asarray(mean, dtype=np.float64), 0.0)
    second = np.maximum(np.asarray(square, dtype=np.float64), first**2)
    some = first > 0
    place = np.divide(second, first, out=np.zeros(np.shape(second)), where=some)
    mass = np.divide(first, place, out=np.zeros(np.shape(second)), where=some & (place > 0))
    return np.minimum(mass, 1.0), place


def betting_lower(mean: ArrayLike, square: ArrayLike, level: ArrayLike, bet: ArrayLike) -> Floats:
    """Return the betting lower bound of the mean of a variable in [0, 1].

    The largest mu with (1 - mass) log(1 - bet) + mass log(1 - bet + bet place/mu) >= level.
    """
    bet, level = np.asarray(bet, np.float64), np.asarray(level, np.float64)
    mass, place = two_points(mean, square)
    needed = level * (1 + _SLACK) - (1.0 - mass) * np.log1p(-bet)
    with np.errstate(divide="ignore", over="ignore"):
        factor = np.expm1(np.divide(needed, mass)) + bet
    bound = np.divide(bet * place, factor)
    return np.where(mass > 0, np.clip(bound * (1 - _SLACK), 0.0, 1.0), 0.0)
