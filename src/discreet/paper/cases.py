"""A case whose distribution is known: rows are drawn from it, and figures summed up exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.exact import bayes_error, information_epsilon, pair_risk
from discreet.mapping import Mapping
from discreet.optimum.distribution import Distribution

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class CaseFigures:
    """What any fusion centre and any attacker can reach at best.

    Attributes
    ----------
    public_error, private_error : float
        Bayes errors of the two facts.
    risk : float
        min R of the private fact, over its worst pair of classes.
    epsilon : float
        Largest |log p(g|z)/p(g)|; infinite if an output rules a class out.
    """

    public_error: float
    private_error: float
    risk: float
    epsilon: float


@dataclass(frozen=True)
class Case:
    """Sensors that are independent given one public and one private fact.

    Attributes
    ----------
    distribution : Distribution
        Of codes and facts; its profiles are its cells.
    readings : tuple of ndarrays of int
        One per sensor: the reading that each code stands for.
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
