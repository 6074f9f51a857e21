"""The risks of the product and ANOVA kernels for many rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from discreet.design.code_risks import PackedRows
from discreet.design.risks import RiskValues, Tables
from discreet.design.tensor_features import Lifts
from discreet.design.tensor_solver import TensorSolver
from discreet.design.tensor_sweep import tensor_slopes

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TensorValues(RiskValues):
    """Risks, with the heads behind them."""

    w: Floats = field(default_factory=lambda: np.empty(0))


class TensorRisks:
    """Relaxed risks, every head solved on all rows."""

    def __init__(self, solver: TensorSolver, lifts: Lifts, rows: PackedRows) -> None:
        self.solver, self.lifts, self.rows = solver, lifts, rows
        self.n_heads = len(solver.regs)

    def evaluate(self, tables: Tables) -> RiskValues:
        found = self.solver.solve(self.lifts.vectors(tables))
        return TensorValues(found.values, w=found.w)

    def gradient(self, tables: Tables, found: RiskValues, weights: Floats) -> Tables:
        assert isinstance(found, TensorValues)
        vectors = self.lifts.vectors(tables)
        solver = self.solver
        slopes = tensor_slopes(solver.rows, vectors, found.w, solver.loss, weights)
        return self.lifts.pull(slopes)
