"""Two sets of tables for the paper's four sensors, learned once from 1,000 rows at correlation 0.

They are written down so that what is computed from them does not change with the methods: each line
is a sensor's probability to send symbol 0 for the readings 1 to 9. A day of 1,440 rounds tells 0.22
of a private fact that stays the same by the first set, as in the examples that the accountant is
tested against; the second one is for the re-check.
"""

from __future__ import annotations

import numpy as np

from discreet.arrays import Floats

_FOR_A_DAY = (
    (1, 1, 1, 1, 1, 0, 0, 1, 0.0179),
    (1, 1, 1, 1, 1, 0, 0, 0, 0.9597),
    (1, 1, 1, 1, 1, 0, 0, 0, 0.9621),
    (1, 1, 1, 1, 1, 0, 0, 1, 0.0212),
)
_FOR_THE_RECHECK = (
    (0.8874, 0, 0, 0, 1, 1, 1, 1, 1),
    (0.8877, 0, 0, 0, 1, 1, 1, 1, 1),
    (0, 0.8994, 0, 0, 1, 1, 1, 1, 1),
    (0, 0.9003, 0, 0, 1, 1, 1, 1, 1),
)


def tables_for_a_day() -> list[Floats]:
    """Return tables that tell 0.22 in a day, one row for each reading."""
    return [_with_symbol_1(row) for row in _FOR_A_DAY]


def tables_for_the_recheck() -> list[Floats]:
    """Return tables that were learned for an advantage of 0.03 of one report."""
    return [_with_symbol_1(row) for row in _FOR_THE_RECHECK]


def _with_symbol_1(first: tuple[float, ...]) -> Floats:
    return np.array([[p, 1.0 - p] for p in first])
