"""Confidence bounds for probabilities and for means of bounded variables.

All bounds are one-sided, hold for every sample size and err on the safe side where
numbers are rounded. ``level`` is ln(1/alpha) over the number of independent
observations. Lower bounds are for variables in [0, 1]; an upper bound is one minus the
lower bound of one minus the variable.

``kl_lower`` and ``kl_upper`` are Chernoff's bound on a mean with the Bernoulli moment generating
function, the largest one for a given mean: a product of non-negative terms with mean at most one,
which by Markov's inequality exceeds 1/alpha with probability at most alpha.

``two_points`` bounds log-products such as those of ``epsilon`` from below by two moments, so that
single values are not needed. Let h(y) = log(1 + c (y - t)) with 1 + c (0 - t) > 0. Among all
distributions on [0, inf) with mean M1 and second moment M2 the one with mass M1^2/M2 at
x0 = M2/M1 and the rest at 0 has the smallest mean of h: the parabola that equals h at 0
and touches it at x0 lies below h, since the divided difference h[x0, x0, y] grows with
y (the third derivative is positive), and its mean depends on the two moments alone.

``last_positive`` inverts the bounds: Newton's method, which needs about five evaluations where
bisection needs forty for eleven digits. A bound is valid if its condition holds at the number that
is returned, so only a point at which the function was computed to be at least zero is ever
returned: a poor step costs time or tightness, never validity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, rel_entr, xlog1py
from scipy.stats import beta

from discreet.arrays import Floats
from discreet.errors import InputError

_SLACK = 1e-12  # relative, outweighs every rounding error below
_START_OFF = 1e-9  # relative, outweighs those of exponentials of large numbers
_TINY = 1e-300  # a lower bound this small is 0


@dataclass(frozen=True)
class Interval:
    """An estimate between the ends of its confidence interval."""

    estimate: float
    low: float
    high: float


def check_alpha(alpha: float) -> None:
    """Refuse anything but a probability strictly between 0 and 1."""
    if not 0 < alpha < 1:
        raise InputError(f"alpha must be between 0 and 1, got {alpha!r}.")


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


# --- Where falling functions cross zero ------------------------------------------------------

Curve = Callable[[Floats, Any], tuple[Floats, Floats]]
"""Values and slopes at points, one for each of the functions that an index selects."""

_PATIENCE = 30  # steps of Newton's method, after which every other step halves the bracket
_MOST_STEPS = 140  # by then halving alone is as near as it gets


def last_positive(curve: Curve, start: Floats, low: Floats, high: Floats, close: float) -> Floats:
    """Return the largest points, nearly, at which falling functions are at least 0.

    ``curve``: given points and an index into arrays of the shape of ``low``, the functions' values
    and slopes there. A value may be minus infinity. ``start``: where to begin; moved into the
    bracket. ``low``, ``high``: the bracket. The functions are known to be at least 0 at ``low``.
    ``close``: how far below its zero a point may lie, as a share of the point.
    """
    found, beyond = np.array(low), np.array(high)
    active: Any = ...
    point = np.clip(start, low, high * (1 - close))
    for turn in range(_MOST_STEPS):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            value, slope = curve(point, active)
            step = -value / slope
            # A little short, to land on the safe side.
            aim = np.minimum(point + step, high[active]) * (1 - close)
        enough = value >= 0
        inner = found[active] = np.where(enough, point, found[active])
        outer = beyond[active] = np.where(enough, beyond[active], point)
        near = enough & (np.abs(step) <= 2 * close * point) | (outer <= inner * (1 + close))
        left = np.count_nonzero(~near)
        if not left:
            break
        newton = (inner < aim) & (aim < outer) & (turn < _PATIENCE or turn % 2 == 1)
        aim = np.where(newton, aim, np.sqrt(inner) * np.sqrt(outer))
        point = np.where(near, inner, aim)
        if left < near.size / 2:
            kept = np.nonzero(~near)
            active = kept if active is ... else tuple(axis[kept] for axis in active)
            point = point[kept]
    return found
