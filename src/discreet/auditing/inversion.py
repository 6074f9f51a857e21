"""Where falling functions cross zero, many at once, approached from the side that is safe.

Bisection needs forty evaluations for eleven digits, Newton's method about five. A bound is
valid if its condition holds at the number that is returned, so only a point at which the
function was computed to be at least zero is ever returned: a poor step costs time or
tightness, never validity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Curve = Callable[[Floats, Any], tuple[Floats, Floats]]
"""Values and slopes at points, one for each of the functions that an index selects."""

_PATIENCE = 30  # steps of Newton's method, after which every other step halves the bracket
_MOST_STEPS = 140  # by then halving alone is as near as it gets


def last_positive(curve: Curve, start: Floats, low: Floats, high: Floats, close: float) -> Floats:
    """Return the largest points, nearly, at which falling functions are at least 0.

    Parameters
    ----------
    curve : callable
        Given points and an index into arrays of the shape of ``low``, the functions' values
        and slopes there. A value may be minus infinity.
    start : ndarray
        Where to begin; moved into the bracket.
    low, high : ndarray of one shape, positive
        The bracket. The functions are known to be at least 0 at ``low``.
    close : float
        How far below its zero a point may lie, as a share of the point.
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
