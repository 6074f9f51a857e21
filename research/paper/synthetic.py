"""The paper's synthetic cases, drawn at random or summed up exactly.

``four_sensors``: four sensors read 2, 4, 6 or 8 for (h, g) = (-,-), (-,+), (+,-), (+,+), plus noise
of -1, 0 or +1, independently given (h, g). The paper declares readings 1 to 8; they reach 9.

``m_ary``: with H in {-1, 1} and G in {0, ..., m-1}, both uniform and independent, sensors 1 to 4
read m(H+1) + 2(G+1) + N, and sensor 5 + k reads H + N if G - (H+1)/2 = k modulo m, else 0. The
noise N is -1, 0 or +1, independent from sensor to sensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.leakage.exact import bayes_error, information_epsilon, pair_risk
from discreet.mapping.mapping import Mapping
from research.optimum.distribution import Distribution

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


# --- A case whose distribution is known --------------------------------------------------


@dataclass(frozen=True)
class CaseFigures:
    """What any fusion centre and any attacker can reach at best.

    ``public_error``, ``private_error``: bayes errors of the two facts. ``risk``: min R of the
    private fact, over its worst pair of classes. ``epsilon``: largest |log p(g|z)/p(g)|; infinite
    if an output rules a class out.
    """

    public_error: float
    private_error: float
    risk: float
    epsilon: float

    def errors(self) -> dict[str, float]:
        """Return the two errors by the keys of the tables' columns."""
        return {"public": self.public_error, "private": self.private_error}


@dataclass(frozen=True)
class Case:
    """Sensors that are independent given one public and one private fact.

    ``distribution``: of codes and facts; its profiles are its cells. ``readings``: one per sensor:
    the reading that each code stands for.
    """

    distribution: Distribution
    readings: tuple[Ints, ...]

    @property
    def sensors(self) -> list[str]:
        """Names, ``x1`` and so on."""
        return [f"x{t + 1}" for t in range(len(self.readings))]

    def draw(self, n: int, seed: int) -> tuple[pd.DataFrame, pd.Series[int], pd.Series[int]]:
        """Draw rows: readings, the public fact ``h`` and the private fact ``g``."""
        rng, known = np.random.default_rng(seed), self.distribution
        cell = rng.choice(len(known.weights), n, p=np.diag(known.weights))
        columns = {}
        for name, values, given in zip(self.sensors, self.readings, known.profiles, strict=True):
            # The first code whose cumulated probability exceeds a uniform number.
            codes = (given.cumsum(axis=1)[cell] <= rng.random(n)[:, None]).sum(axis=1)
            columns[name] = values[np.minimum(codes, len(values) - 1)]
        public, private = known.public[cell], known.private[0][cell]
        return pd.DataFrame(columns), pd.Series(public, name="h"), pd.Series(private, name="g")

    def tables(self, mapping: Mapping) -> list[Floats]:
        """Return a mapping's tables with one row for each code of the case."""
        longest = max(map(len, self.readings))
        padded = [np.resize(values, longest) for values in self.readings]
        codes = mapping.encode(pd.DataFrame(dict(zip(self.sensors, padded, strict=True))))
        return [
            table[codes[: len(values), t]]
            for t, (table, values) in enumerate(zip(mapping.tables, self.readings, strict=True))
        ]

    def figures(self, tables: Sequence[Floats]) -> CaseFigures:
        """Return the exact figures of tables with one row for each code of the case."""
        return self._figures(self.distribution.joint_outputs(tables))

    def raw_figures(self) -> CaseFigures:
        """Return the exact figures of raw readings, Z = X.

        Only combinations of readings that can occur are looked at: with many sensors all
        of them would be too many.
        """
        return self._figures(_possible_readings(self.distribution))

    def _figures(self, joint: Floats) -> CaseFigures:
        known, prior = self.distribution, self.distribution.weights.sum(axis=0)
        public = known.given_rows(known.public) @ joint
        private = known.given_rows(known.private[0]) @ joint
        public_prior = known.class_rows(known.public) @ prior
        private_prior = known.class_rows(known.private[0]) @ prior
        return CaseFigures(
            bayes_error(public, public_prior),
            bayes_error(private, private_prior),
            pair_risk(private),
            information_epsilon(private, private_prior),
        )


def _possible_readings(known: Distribution) -> Floats:
    """Return p(cell, x) for every combination x of codes that some cell can give."""
    found: dict[tuple[int, ...], Floats] = {}
    for profile, weights in enumerate(known.weights):
        given = [table[profile] for table in known.profiles]
        for codes in product(*(np.flatnonzero(row).tolist() for row in given)):
            chance = float(np.prod([row[code] for row, code in zip(given, codes, strict=True)]))
            found[codes] = found.get(codes, 0.0) + chance * weights
    return np.array(list(found.values())).T


# --- Four sensors ------------------------------------------------------------------------

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


# --- Several private classes -------------------------------------------------------------

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
