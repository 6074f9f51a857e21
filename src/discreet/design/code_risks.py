"""The risks of the count kernel for many rows: from sweeps, or from models of them.

``SweptRisks`` goes over all rows until every head is solved. ``ModelledRisks`` asks the
quadratic models that the sweeps left behind (``code_models``): it touches no row, is exact in
value and slope for the mapping last swept over, and leads the search from there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from discreet.design.code_models import Features
from discreet.design.code_solver import CodeSolver
from discreet.design.risks import RiskValues, Tables
from discreet.design.sweep import RowSource

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class CodeValues(RiskValues):
    """Risks, with the heads and the sums of residuals behind them."""

    w: Floats = field(default_factory=lambda: np.empty(0))
    sums: Floats = field(default_factory=lambda: np.empty(0))


class PackedRows:
    """What the design asks of rows that are packed."""

    def __init__(self, box: RowSource) -> None:
        self._box = box
        self.totals = box.totals()

    @property
    def codes(self) -> Ints:
        return self._box.sample(len(self._box)).packed.unpack()

    def seen(self) -> list[NDArray[np.bool_]]:
        """Return, for every sensor, which codes occur at all."""
        parts = np.split(self.totals, self._box.layout.offsets[1:])
        return [part > 0 for part in parts]


class SweptRisks:
    """Relaxed risks of the count kernel, every head solved on all rows."""

    def __init__(self, solver: CodeSolver, rows: PackedRows) -> None:
        self.solver, self.rows = solver, rows
        self.n_heads = len(solver.regs)

    def evaluate(self, tables: Tables) -> RiskValues:
        found = self.solver.solve(Features(tables))
        return CodeValues(found.values, w=found.w, sums=found.sums)

    def gradient(self, tables: Tables, found: RiskValues, weights: Floats) -> Tables:
        return _gradient(tables, found, weights)


class ModelledRisks:
    """The same by the solver's models, without a sweep."""

    def __init__(self, solver: CodeSolver, rows: PackedRows) -> None:
        self.models, self.rows = solver.models, rows
        self.n_heads = len(solver.regs)

    def evaluate(self, tables: Tables) -> RiskValues:
        found = self.models.fit(Features(tables))
        return CodeValues(found.values, w=found.w, sums=found.sums)

    def gradient(self, tables: Tables, found: RiskValues, weights: Floats) -> Tables:
        return _gradient(tables, found, weights)


def _gradient(tables: Tables, found: RiskValues, weights: Floats) -> Tables:
    """Return -sum_h weight_h sums_h[x] w_h[z] for every sensor: the envelope theorem."""
    assert isinstance(found, CodeValues)
    sums = -weights[:, None] * found.sums
    features = Features(tables)
    return [
        sums[:, codes].T @ found.w[:, symbols]
        for codes, symbols in zip(features.codes, features.symbols, strict=True)
    ]
