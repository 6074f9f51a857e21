"""Logistic regression on codes, to the objective that scikit-learn ends at.

scikit-learn's LogisticRegression gets the one-hot table (CSR, float64) and its own defaults,
without an intercept, which a one-hot table makes superfluous. Ours gets the packed codes and
goes on until its estimate of what is left falls below 1e-6. Both minimise the mean logistic
loss plus |w|^2 / (2 n). Making either table is not counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.bench.measure import Promise, Setup
from discreet.bench.size import CODES, Size
from discreet.bench.tables import draw_large, one_hot
from discreet.design.code_models import Features
from discreet.design.code_solver import CodeSolver
from discreet.design.losses import LOSSES
from discreet.design.packing import pack
from discreet.design.sweep import Ballots

_OURS, _PEER = "ours", "scikit-learn LogisticRegression"


def prepare(size: Size) -> Setup:
    """Draw a table and get both ready."""
    codes, labels, _ = draw_large(size.rows, size.sensors)
    votes = np.array([[-1.0, 1.0]]) / size.rows
    packed = pack(codes, [CODES] * size.sensors)
    ballots = Ballots(packed, labels.astype(np.uint8), np.empty(0), votes)
    matrix = one_hot(codes, CODES, np.float64)
    ended: dict[str, Any] = {}

    def ours(_: int) -> None:
        regs = np.array([1.0 / size.rows])
        solver = CodeSolver(ballots, LOSSES["logistic"], regs, tolerance=1e-6, threads=1)
        itself = Features([np.eye(CODES)] * size.sensors)
        ended[_OURS] = solver.solve(itself).w[0]
        ended["passes"] = solver.passes

    def theirs(_: int) -> None:
        ended[_PEER] = fit_classifier(matrix, labels)

    def notes() -> list[str]:
        ours, theirs = (objective(matrix, labels, ended[name]) for name in (_OURS, _PEER))
        return [f"objective {ours:.8f}, scikit-learn's {theirs:.8f}; {ended['passes']:.1f} passes"]

    return Setup(
        name="logistic",
        title="Logistic regression to the same objective, one thread",
        size=size.text(),
        contestants={_OURS: ours, _PEER: theirs},
        rounds=size.rounds_of(5),
        ours=_OURS,
        yardstick=_PEER,
        promised=() if size.quick else [_FASTER],
        notes=notes,
    )


_FASTER = Promise("times faster than scikit-learn", lambda t: t[_PEER].over(t[_OURS]), 5.0, False)


def fit_classifier(matrix: Any, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Fit scikit-learn's classifier and return its weights."""
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(fit_intercept=False).fit(matrix, labels)
    weights: NDArray[np.float64] = fitted.coef_[0]
    return weights


def objective(matrix: Any, labels: NDArray[np.int64], w: NDArray[np.float64]) -> float:
    """Return what both minimise."""
    margins = (2 * labels - 1) * (matrix @ w)
    return float(np.logaddexp(0.0, -margins).mean() + 0.5 / len(labels) * w @ w)
