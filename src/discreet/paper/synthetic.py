"""The paper's synthetic case, drawn at random or summed up exactly.

Four sensors read 2, 4, 6 or 8 for (h, g) = (-,-), (-,+), (+,-), (+,+), plus noise of -1, 0
or +1, independently given (h, g). The paper declares readings 1 to 8; they reach 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.exact import bayes_error, information_epsilon, pair_risk
from discreet.mapping import Mapping
from discreet.optimum.distribution import Distribution
from discreet.paper.cases import Case

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SENSORS = ("x1", "x2", "x3", "x4")
N_READINGS = 9


@dataclass(frozen=True)
class ExactFigures:
    """Bayes error of the public fact, min R and epsilon of the private one."""

    public_error: float
    risk: float
    epsilon: float


def four_sensors(prior: Sequence[float]) -> Case:
    """Return the case with p(h, g) = ``prior`` for (h, g) = 00, 01, 10, 11."""
    given = np.zeros((4, N_READINGS))
    for cell in range(4):  # readings 2, 4, 6, 8, plus noise: codes 0 to 2, 2 to 4, ...
        given[cell, 2 * cell : 2 * cell + 3] = 1 / 3
    facts = np.array([0, 0, 1, 1]), [np.array([0, 1, 0, 1])]
    known = Distribution.independent([given] * len(SENSORS), np.array(prior), *facts)
    return Case(known, (np.arange(1, N_READINGS + 1),) * len(SENSORS))


def correlated(correlation: float) -> Case:
    """Return the case with both facts uniform and this correlation between them."""
    same, other = (1 + correlation) / 4, (1 - correlation) / 4
    return four_sensors([same, other, other, same])


def draw_readings(n: int, correlation: float, rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
    """Draw n rows of readings 1 to 9, with h and g in {0, 1}, both uniform."""
    h = rng.integers(2, size=n)
    g = np.where(rng.random(n) < (1 + correlation) / 2, h, 1 - h)
    return (_level(h, g)[:, None] + rng.integers(-1, 2, (n, len(SENSORS)))).astype(np.int64), h, g


def draw_table(
    n: int, correlation: float, seed: int
) -> tuple[pd.DataFrame, pd.Series[int], pd.Series[int]]:
    """Draw the same as a DataFrame of readings and two Series, ``h`` and ``g``."""
    readings, h, g = draw_readings(n, correlation, np.random.default_rng(seed))
    columns = pd.DataFrame(readings, columns=list(SENSORS))
    return columns, pd.Series(h, name="h"), pd.Series(g, name="g")


def exact_joint(tables: Sequence[Floats], correlation: float) -> Floats:
    """Return p(h, g, z), 2 x 2 x outputs, for tables with one row per reading 1 to 9."""
    joint = []
    for h in (0, 1):
        for g in (0, 1):
            level = int(_level(np.array(h), np.array(g)))
            outputs = np.ones(1)
            for table in tables:
                # Readings level - 1, level, level + 1 are rows level - 2 to level.
                sent = table[level - 2 : level + 1].mean(axis=0)
                outputs = np.multiply.outer(outputs, sent).ravel()
            joint.append((1 + correlation if h == g else 1 - correlation) / 4 * outputs)
    return np.array(joint).reshape(2, 2, -1)


def exact_figures(tables: Sequence[Floats], correlation: float) -> ExactFigures:
    """Return the exact figures of tables with one row per reading."""
    joint, half = exact_joint(tables, correlation), np.array([0.5, 0.5])
    public, private = 2 * joint.sum(axis=1), 2 * joint.sum(axis=0)
    return ExactFigures(
        bayes_error(public, half), pair_risk(private), information_epsilon(private, half)
    )


def tables_by_reading(mapping: Mapping) -> list[Floats]:
    """Return a mapping's tables with one row for each reading 1 to 9."""
    every = np.repeat(np.arange(1, N_READINGS + 1)[:, None], len(SENSORS), axis=1)
    codes = mapping.encode(pd.DataFrame(every, columns=list(SENSORS)))
    return [table[codes[:, t]] for t, table in enumerate(mapping.tables)]


def _level(h: Ints, g: Ints) -> Ints:
    return np.asarray(2 + 4 * h + 2 * g)
