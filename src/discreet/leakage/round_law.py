"""What one round tells: p(symbols | private fact), from rows, or at worst from the tables alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import expit

from discreet.arrays import Floats, Ints
from discreet.leakage.exact import (
    advantage,
    mutual_information,
    pairwise_epsilon,
    structural_epsilons,
)
from discreet.leakage.joint_outputs import weighted_outputs
from discreet.leakage.sequences import PeriodLaws

_MOST_OUTPUTS = 2**16  # that are listed
_MOST_LAWS = 256  # ways to give every code its symbol that are listed


@dataclass(frozen=True)
class RoundLaw:
    """What the symbols of one round tell about a fact.

    ``given``: p(symbols|class), classes x outputs; None if nothing is known of it. ``worst``: it is
    the worst that the tables allow, so that figures are upper bounds. ``shares``: of the classes.
    ``structural``: C1 of all tables. ``codes`` and ``code_law``: combinations of codes and
    p(codes|class), classes x combinations, where rows were given.
    """

    given: Floats | None
    shares: Floats
    structural: float
    source: str
    worst: bool = False
    tables: tuple[Floats, ...] = ()
    codes: Ints | None = None
    code_law: Floats | None = None

    @classmethod
    def of_tables(cls, tables: Sequence[Floats], n_classes: int, why: str) -> RoundLaw:
        """Return the worst case, whatever the readings are.

        No two classes have log-ratios beyond C1. Of all pairs of laws within it, randomised
        response tells most: any other one can be drawn from its answer.
        """
        total = float(structural_epsilons(tables).sum())
        given = None
        if n_classes == 2:
            right = float(expit(total))
            given = np.array([[right, 1 - right], [1 - right, right]])
        shares = np.full(n_classes, 1 / n_classes)
        return cls(given, shares, total, f"worst case of the tables, {why}", worst=True)

    @classmethod
    def of_rows(
        cls, tables: Sequence[Floats], codes: Ints, index: Ints, n_classes: int
    ) -> RoundLaw:
        """Estimate the law from rows; every class must have some."""
        counts = np.bincount(index, minlength=n_classes)
        n_outputs = math.prod(table.shape[1] for table in tables)
        if n_outputs * n_classes > _MOST_OUTPUTS:
            why = f"since {n_outputs} joint outputs are too many to list"
            return cls.of_tables(tables, n_classes, why)
        seen, which = np.unique(codes, axis=0, return_inverse=True)
        law = np.zeros((n_classes, len(seen)))
        np.add.at(law, (index, which.ravel()), 1.0)
        law /= counts[:, None]
        return cls(
            weighted_outputs(tables, seen, law),
            counts / counts.sum(),
            float(structural_epsilons(tables).sum()),
            f"plug-in estimate from {len(index)} rows, not certified",
            tables=tuple(tables),
            codes=seen,
            code_law=law,
        )

    @property
    def n_classes(self) -> int:
        return len(self.shares)

    @property
    def epsilon(self) -> float:
        """The largest log-ratio of a round."""
        if self.given is None or self.worst:
            return self.structural
        return pairwise_epsilon(self.given)

    @property
    def figures(self) -> tuple[float, float] | None:
        """Advantage and information of one round."""
        if self.given is None:
            return None
        return advantage(self.given), mutual_information(self.given, self.shares)


# --- The same code, the same symbol --------------------------------------------------------


def remembered_laws(law: RoundLaw, period: int) -> PeriodLaws | None:
    """Return p(symbols|class) for each way to give every code its symbol; None beyond many."""
    if law.codes is None:
        return None
    seen = [np.unique(column) for column in law.codes.T]
    sizes = [table.shape[1] for table in law.tables]
    if math.prod(size ** len(own) for size, own in zip(sizes, seen, strict=True)) > _MOST_LAWS:
        return None
    ways = [list(_ways(t, own)) for t, own in zip(law.tables, seen, strict=True)]
    found = [(_law_of(law, [w for w, _ in way]), math.prod(p for _, p in way))
             for way in product(*ways)]  # fmt: skip
    weights = np.array([chance for _, chance in found])
    return PeriodLaws(np.array([given for given, _ in found]), weights / weights.sum(), period)


def _ways(table: Floats, codes: Ints) -> Iterator[tuple[Ints, float]]:
    """Yield every way to give the codes of a sensor their symbols, and how likely it is."""
    for symbols in product(*(np.flatnonzero(table[code]).tolist() for code in codes)):
        chosen = np.zeros(len(table), dtype=np.int64)
        chosen[codes] = symbols
        yield chosen, float(table[codes, symbols].prod())


def drawn_law(law: RoundLaw, rng: np.random.Generator) -> Floats:
    """Draw a symbol for every code, and return p(symbols|class) for somebody who knows them."""
    tops = (table.cumsum(axis=1)[:, :-1] for table in law.tables)
    return _law_of(law, [(top <= rng.random((len(top), 1))).sum(axis=1) for top in tops])


def _law_of(law: RoundLaw, symbols: Sequence[Ints]) -> Floats:
    assert law.codes is not None and law.code_law is not None
    sent = [own[column] for own, column in zip(symbols, law.codes.T, strict=True)]
    sizes = [table.shape[1] for table in law.tables]
    output = np.ravel_multi_index(sent, sizes)
    return np.stack([np.bincount(output, row, math.prod(sizes)) for row in law.code_law])
