"""The paper's case with m private classes: four sensors that hear both facts, and m more.

With H in {-1, 1} and G in {0, ..., m-1}, both uniform and independent, sensors 1 to 4 read
m(H+1) + 2(G+1) + N, and sensor 5 + k reads H + N if G - (H+1)/2 = k modulo m, else 0. The
noise N is -1, 0 or +1, independent from sensor to sensor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreet.optimum.distribution import Distribution
from discreet.paper.cases import Case

Floats = NDArray[np.float64]

N_LOUD = 4
_QUIET_READINGS = np.arange(-2, 3)  # H + N


def m_ary(m: int) -> Case:
    """Return the case with m private classes; H is 0 or 1 there."""
    cells = [(h, g) for h in (-1, 1) for g in range(m)]
    loud = np.zeros((2 * m, 4 * m + 1))  # readings 1 to 4m + 1
    for cell, (h, g) in enumerate(cells):
        level = m * (h + 1) + 2 * (g + 1)
        loud[cell, level - 2 : level + 1] = 1 / 3
    given = [loud] * N_LOUD + [_quiet(cells, sensor, m) for sensor in range(m)]
    public, private = np.array([[(h + 1) // 2, g] for h, g in cells]).T
    known = Distribution.independent(given, np.full(2 * m, 0.5 / m), public, [private])
    return Case(known, (np.arange(1, 4 * m + 2),) * N_LOUD + (_QUIET_READINGS,) * m)


def _quiet(cells: list[tuple[int, int]], sensor: int, m: int) -> Floats:
    """Return p(reading|cell) of one of the sensors that hear a single combination."""
    given = np.zeros((len(cells), len(_QUIET_READINGS)))
    for cell, (h, g) in enumerate(cells):
        if (g - (h + 1) // 2) % m == sensor:
            given[cell, h + 1 : h + 4] = 1 / 3
        else:
            given[cell, 2] = 1.0
    return given
