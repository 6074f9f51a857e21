"""Convex surrogate losses and their conjugates (paper, Table I).

Margins ``u = label * score`` come in; one value per margin goes out. To add a
loss, write one class and list it in ``discreet.choices``: the tests then cover it.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.special import expit, logit, xlogy

from discreet.arrays import Floats

# exp(-u) overflows below -709; the cap keeps sums of values finite too.
_LARGEST_EXPONENT = 500.0


class Loss(Protocol):
    """What the risks and the solvers ask of a loss.

    ``conjugate(x)`` is phi*(-x), the form the dual risks use, on ``dual_interval``.
    ``a`` and ``r`` are the constants of the paper's Assumption 3.
    """

    name: str
    smooth: bool
    dual_interval: tuple[float, float]
    a: float
    r: int

    def value(self, u: Floats) -> Floats: ...
    def gradient(self, u: Floats) -> Floats: ...
    def curvature(self, u: Floats) -> Floats: ...
    def conjugate(self, x: Floats) -> Floats: ...
    def conjugate_gradient(self, x: Floats) -> Floats: ...
    def conjugate_curvature(self, x: Floats) -> Floats: ...


class ExponentialLoss:
    """phi(u) = exp(-u)."""

    name = "exponential"
    smooth = True
    dual_interval = (1e-14, np.inf)  # the conjugate's slope is infinite at 0
    a, r = 0.5**0.5, 2

    def value(self, u: Floats) -> Floats:
        return np.exp(np.minimum(-u, _LARGEST_EXPONENT))

    def gradient(self, u: Floats) -> Floats:
        return -self.value(u)

    def curvature(self, u: Floats) -> Floats:
        return self.value(u)

    def conjugate(self, x: Floats) -> Floats:
        return xlogy(x, x) - x

    def conjugate_gradient(self, x: Floats) -> Floats:
        return np.log(x)

    def conjugate_curvature(self, x: Floats) -> Floats:
        return 1.0 / x


class LogisticLoss:
    """phi(u) = log(1 + exp(-u))."""

    name = "logistic"
    smooth = True
    dual_interval = (1e-14, 1 - 1e-14)  # the conjugate's slope is infinite at 0 and 1
    a, r = 0.5**0.5, 2

    def value(self, u: Floats) -> Floats:
        return np.logaddexp(0.0, -u)

    def gradient(self, u: Floats) -> Floats:
        return -expit(-u)

    def curvature(self, u: Floats) -> Floats:
        return expit(u) * expit(-u)

    def conjugate(self, x: Floats) -> Floats:
        return np.asarray(xlogy(x, x) + xlogy(1 - x, 1 - x), dtype=np.float64)

    def conjugate_gradient(self, x: Floats) -> Floats:
        return logit(x)

    def conjugate_curvature(self, x: Floats) -> Floats:
        return 1.0 / (x * (1 - x))


class HingeLoss:
    """phi(u) = max(1 - u, 0); not smooth, so it is always solved in the dual."""

    name = "hinge"
    smooth = False
    dual_interval = (0.0, 1.0)
    a, r = 0.5, 1

    def value(self, u: Floats) -> Floats:
        return np.maximum(1.0 - u, 0.0)

    def gradient(self, u: Floats) -> Floats:
        return -(u < 1.0).astype(np.float64)

    def curvature(self, u: Floats) -> Floats:
        return np.zeros_like(u)

    def conjugate(self, x: Floats) -> Floats:
        return -x

    def conjugate_gradient(self, x: Floats) -> Floats:
        return np.full_like(x, -1.0)

    def conjugate_curvature(self, x: Floats) -> Floats:
        return np.zeros_like(x)


class SquareLoss:
    """phi(u) = (1 - u)^2."""

    name = "square"
    smooth = True
    dual_interval = (-np.inf, np.inf)
    a, r = 0.5, 2

    def value(self, u: Floats) -> Floats:
        return (1.0 - u) ** 2

    def gradient(self, u: Floats) -> Floats:
        return -2.0 * (1.0 - u)

    def curvature(self, u: Floats) -> Floats:
        return np.full_like(u, 2.0)

    def conjugate(self, x: Floats) -> Floats:
        return x**2 / 4.0 - x

    def conjugate_gradient(self, x: Floats) -> Floats:
        return x / 2.0 - 1.0

    def conjugate_curvature(self, x: Floats) -> Floats:
        return np.full_like(x, 0.5)


LOGISTIC, EXPONENTIAL, HINGE, SQUARE = LogisticLoss(), ExponentialLoss(), HingeLoss(), SquareLoss()
