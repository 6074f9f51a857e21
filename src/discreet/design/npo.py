"""Algorithms 1 and 2 of the paper, step for step: the reference solver.

Both are block Gauss-Seidel on the dual risks: solve for the dual variables with the
tables fixed, then for one sensor's table at a time with everything else fixed. Each
block is a convex problem and no step makes the objective worse; ``history`` holds the
objective after every single block, and the tests check it. The cost per sweep is
O(n^2 s): this is for small tables and for comparison, ``fast`` is for work.

Where this departs from print: w carries the factor 1/reg that the paper leaves out
(``solvers``); Algorithm 1's non-convex set is handled as described in ``feasible``;
with several private heads, Algorithm 2 starts from the most private of Algorithm 1's
answers, mixed with the uniform table until it satisfies every floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet.arrays import Floats
from discreet.design.feasible import (
    Designed,
    SidedSet,
    project_simplex,
    sided_start,
    uniform_tables,
)
from discreet.design.kernels import Kernel, cross_gram, pair_tables
from discreet.design.losses import Loss
from discreet.design.risks import Tables, fold_pairs
from discreet.design.solvers import (
    HeadSolution,
    dual_value,
    head_residual,
    head_value,
    signed_rows,
    solve_dual,
)
from discreet.design.training_rows import Head, Rows
from discreet.progress import Progress, Report

_TOLERANCE, _MU = 1e-5, 1000.0
_TABLE_STEPS = 30  # projected gradient steps for one sensor's table within one sweep


@dataclass(frozen=True)
class Setting:
    """What both algorithms are given: distinct rows, kernel, loss and regularisers."""

    rows: Rows
    n_symbols: tuple[int, ...]
    kernel: Kernel
    loss: Loss
    public_reg: float
    private_reg: float


@dataclass(frozen=True)
class Threshold:
    """What Algorithm 1 returns for one private head."""

    tables: Tables
    value: float
    history: list[float]


def find_threshold(
    setting: Setting,
    head: Head,
    *,
    rng: np.random.Generator,
    max_sweeps: int = 50,
) -> Threshold:
    """Algorithm 1: maximise one private risk over dual variables and tables."""
    pairs = zip(setting.rows.sizes, setting.n_symbols, strict=True)
    tables = [sided_start(codes, symbols, rng) for codes, symbols in pairs]
    sets = [SidedSet.around(table) for table in tables]
    history: list[float] = []
    dual: HeadSolution | None = None
    for _ in range(max_sweeps):
        before = history[-1] if history else -np.inf
        dual = _best_dual(setting, tables, head, setting.private_reg, dual)
        history.append(dual.value)
        for t, allowed in enumerate(sets):
            quadratic = _DualInTable(setting, tables, t, head, dual)
            tables[t] = _ascend(quadratic, tables[t], allowed)
            history.append(quadratic.value(tables[t]))
        if history[-1] - before <= _TOLERANCE * abs(history[-1]):
            break
    return Threshold(tables, history[-1], history)


def design_gauss_seidel(
    setting: Setting,
    public: Sequence[Head],
    private: Sequence[Head],
    floors: Floats,
    start: Tables,
    *,
    max_sweeps: int = 100,
    report: Report | None = None,
) -> Designed:
    """Algorithm 2: minimise F - (1/mu) sum_k log(R_k - theta_k) from a feasible start."""
    tables = [table.copy() for table in start]
    history: list[float] = []
    duals: list[HeadSolution | None] = [None] * len(private)
    for sweep in range(max_sweeps):
        before = history[-1] if history else np.inf
        # alpha, and with it w_H: fixed as a vector while the tables change below.
        old = [table.copy() for table in tables]
        answers = [_best_dual(setting, tables, h, setting.public_reg, None) for h in public]
        # beta, for every private head.
        solved = [
            _best_dual(setting, tables, head, setting.private_reg, dual)
            for head, dual in zip(private, duals, strict=True)
        ]
        duals = list(solved)
        risks = np.array([dual.value for dual in solved])
        public_risk = float(sum(answer.value for answer in answers))
        history.append(public_risk - float(np.log(risks - floors).sum()) / _MU)
        for t in range(len(tables)):
            block = _BarrierInTable(setting, tables, old, t, public, answers, private, solved)
            tables[t] = _descend(block, tables[t], floors)
            history.append(block.value(tables[t], floors))
        k, done = int(np.argmin(risks - floors)), sweep / max_sweeps
        standing = Progress("design", done, public_risk, float(risks[k]), float(floors[k]))
        stopped = report is not None and report(standing)
        if stopped or before - history[-1] <= _TOLERANCE * abs(history[-1]):
            break
    return _finish(setting, tables, public, private, floors, history, stopped)


def _finish(
    setting: Setting,
    tables: Tables,
    public: Sequence[Head],
    private: Sequence[Head],
    floors: Floats,
    history: list[float],
    stopped: bool,
) -> Designed:
    """Score the final tables once more, since the duals lag behind the last sweep."""
    answers = [_best_dual(setting, tables, h, setting.public_reg, None) for h in public]
    guards = [_best_dual(setting, tables, h, setting.private_reg, None) for h in private]
    return Designed(
        tables,
        float(sum(answer.value for answer in answers)),
        np.array([guard.value for guard in guards]),
        floors,
        len(history),
        stopped,
        history,
    )


def feasible_start(
    setting: Setting, private: Sequence[Head], thresholds: Sequence[Threshold], floors: Floats
) -> Tables:
    """Return Algorithm 1's most private answer, inside every floor."""
    best = max(thresholds, key=lambda threshold: threshold.value)
    nothing = uniform_tables(setting.rows.sizes, setting.n_symbols)
    for share in np.linspace(0.0, 1.0, 21):
        tables = [(1 - share) * q + share * u for q, u in zip(best.tables, nothing, strict=True)]
        duals = [_best_dual(setting, tables, h, setting.private_reg, None) for h in private]
        if all(dual.value > floor for dual, floor in zip(duals, floors, strict=True)):
            break
    return tables


def _best_dual(
    setting: Setting, tables: Tables, head: Head, reg: float, last: HeadSolution | None
) -> HeadSolution:
    """Solve for the dual variables, and never return worse than the last ones."""
    codes = setting.rows.codes
    gram = cross_gram(setting.kernel, tables, codes, tables, codes)
    start = None if last is None else last.variables
    found = solve_dual(gram, head.pos, head.neg, setting.loss, reg, start)
    if last is None:
        return found
    kept = dual_value(gram, head.pos, head.neg, last.variables, last.residual, setting.loss, reg)
    if kept <= found.value:
        return found
    return HeadSolution(kept, gram @ last.residual / reg, last.residual, last.variables)


class _DualInTable:
    """One private dual risk as a function of one sensor's table: a concave quadratic."""

    def __init__(
        self, setting: Setting, tables: Tables, t: int, head: Head, dual: HeadSolution
    ) -> None:
        codes, kernel = setting.rows.codes, setting.kernel
        outer = np.outer(dual.residual, dual.residual) / setting.private_reg
        self.terms: list[tuple[Floats, Floats]] = []
        constant = 0.0
        for weight, symbol_kernels in kernel.components(setting.n_symbols):
            pairs = pair_tables(symbol_kernels, tables, codes, tables, codes)
            rest, slope = kernel.split(pairs, t)
            constant += weight * float(np.sum(outer * rest))
            folded = fold_pairs(weight * outer * slope, codes[:, t], codes[:, t], len(tables[t]))
            self.terms.append((0.5 * (folded + folded.T), symbol_kernels[t]))
        _, _, weights = signed_rows(head.pos, head.neg)
        conjugates = -float(weights @ setting.loss.conjugate(dual.variables))
        self.constant = conjugates - 0.5 * constant

    def value(self, table: Floats) -> float:
        spent = sum(float(np.sum((a @ table) * (table @ k))) for a, k in self.terms)
        return self.constant - 0.5 * spent

    def gradient(self, table: Floats) -> Floats:
        total = np.zeros_like(table)
        for a, k in self.terms:
            total -= a @ table @ k
        return total

    def steepness(self) -> float:
        """Return a Lipschitz constant of the gradient."""
        return sum(float(np.linalg.norm(a, 2) * np.linalg.norm(k, 2)) for a, k in self.terms)


class _BarrierInTable:
    """F_0 as a function of one sensor's table, w_H and all beta fixed: convex."""

    def __init__(
        self,
        setting: Setting,
        tables: Tables,
        old: Tables,
        t: int,
        public: Sequence[Head],
        answers: Sequence[HeadSolution],
        private: Sequence[Head],
        duals: Sequence[HeadSolution],
    ) -> None:
        self.index, self.size = setting.rows.codes[:, t], len(tables[t])
        self.loss, self.public = setting.loss, public
        self.duals = [
            _DualInTable(setting, tables, t, head, dual)
            for head, dual in zip(private, duals, strict=True)
        ]
        self.norms = [
            0.5 * float(answer.scores @ answer.residual) for answer in answers
        ]  # (reg / 2) |w|^2 with w = sum_i b_i Phi(x_i) / reg
        self.affine = [
            _scores_in_table(setting, tables, old, t, answer.residual / setting.public_reg)
            for answer in answers
        ]

    def value(self, table: Floats, floors: Floats) -> float:
        total = 0.0
        for head, norm, (base, slope) in zip(self.public, self.norms, self.affine, strict=True):
            scores = base + np.sum(slope * table[self.index], axis=1)
            total += norm + head_value(scores, head.pos, head.neg, self.loss)
        slack = np.array([dual.value(table) for dual in self.duals]) - floors
        return np.inf if np.any(slack <= 0) else total - float(np.log(slack).sum()) / _MU

    def gradient(self, table: Floats, floors: Floats) -> Floats:
        total = np.zeros_like(table)
        for head, (base, slope) in zip(self.public, self.affine, strict=True):
            scores = base + np.sum(slope * table[self.index], axis=1)
            residual = head_residual(scores, head.pos, head.neg, self.loss)
            np.add.at(total, self.index, -residual[:, None] * slope)
        for dual, floor in zip(self.duals, floors, strict=True):
            total -= dual.gradient(table) / (_MU * (dual.value(table) - floor))
        return total


def _scores_in_table(
    setting: Setting, tables: Tables, old: Tables, t: int, coefficients: Floats
) -> tuple[Floats, Floats]:
    """Return (base, slope): score_i = base_i + slope_i @ Q^t[x_i], for w on the old tables."""
    codes, kernel = setting.rows.codes, setting.kernel
    base = np.zeros(len(codes))
    slope = np.zeros((len(codes), tables[t].shape[1]))
    for weight, symbol_kernels in kernel.components(setting.n_symbols):
        pairs = pair_tables(symbol_kernels, old, codes, tables, codes)
        rest, factor = kernel.split(pairs, t)
        base += weight * (coefficients @ rest)
        sent = (old[t] @ symbol_kernels[t])[codes[:, t]]
        slope += weight * ((factor * coefficients[:, None]).T @ sent)
    return base, slope


def _ascend(quadratic: _DualInTable, table: Floats, allowed: SidedSet) -> Floats:
    """Projected gradient ascent with the step that cannot overshoot."""
    step = 1.0 / max(quadratic.steepness(), 1e-12)
    value = quadratic.value(table)
    for _ in range(_TABLE_STEPS):
        candidate = allowed.project(table + step * quadratic.gradient(table))
        new_value = quadratic.value(candidate)
        if new_value <= value:
            break
        gain, table, value = new_value - value, candidate, new_value
        if gain <= 1e-10 * abs(value):
            break
    return table


def _descend(block: _BarrierInTable, table: Floats, floors: Floats) -> Floats:
    """Projected gradient descent with backtracking; never leaves the floors."""
    value, step = block.value(table, floors), 1.0
    for _ in range(_TABLE_STEPS):
        slope = block.gradient(table, floors)
        step *= 4.0
        while True:
            candidate = project_simplex(table - step * slope)
            moved = candidate - table
            new_value = block.value(candidate, floors)
            if new_value <= value + 0.1 * float(np.sum(slope * moved)) or step < 1e-12:
                break
            step *= 0.5
        if not new_value < value:
            break
        gain, table, value = value - new_value, candidate, new_value
        if gain <= 1e-9 * abs(value):
            break
    return table
