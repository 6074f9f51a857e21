"""The risks F and R_k of a mapping, with their gradients in the tables.

Three ways to the same numbers; ``make_risks`` picks one:

- ``OutputRisks`` writes out all outputs (few of them). It is the only one that can
  score the symbols themselves (``relaxed=False``): the risk of a fusion rule on z,
  averaged over z, instead of the paper's relaxation, which averages Phi(z) first and
  by Jensen's inequality reports a lower risk than any rule on z can reach.
- ``CountRisks`` uses the concatenated rows Q^t[x^t] (count kernel, any number of sensors).
- ``GramRisks`` uses the kernel between rows (many outputs, few rows).

``evaluate`` solves every head for its best w and returns, by the envelope theorem, the
gradient of each minimum at that w.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Floats
from discreet.design.kernels import (
    CountKernel,
    Kernel,
    cross_gram,
    output_gram,
    pair_blocks,
    pair_tables,
)
from discreet.design.losses import Loss
from discreet.design.solvers import HeadSolution, fit_stack, solve_dual
from discreet.design.training_rows import Head, Rows
from discreet.errors import InputError
from discreet.leakage.joint_outputs import Products, scatter_rows

Tables = list[Floats]

# Beyond these a dense matrix of the outputs, or of the rows, stops being small.
MAX_OUTPUTS = 1024
MAX_GRAM_ROWS = 4000


@dataclass(frozen=True)
class RiskValues:
    """Minimal risk of every head, and what the gradient needs."""

    values: Floats
    solutions: list[HeadSolution] = field(default_factory=list)
    products: Products | None = None  # Q(z|x_i), where it was written out


class Risks(ABC):
    """Heads on rows, ready to be scored for any mapping; solvers begin where they ended last."""

    def __init__(
        self, rows: Rows, heads: Sequence[Head], loss: Loss, regs: Sequence[float]
    ) -> None:
        self.rows, self.heads, self.loss, self.regs = rows, list(heads), loss, np.array(regs)
        self.n_heads = len(self.heads)
        # The weights of all heads, one row per head, for each sign.
        self._pos = np.stack([head.pos for head in heads])
        self._neg = np.stack([head.neg for head in heads])
        self._last: Floats | None = None

    @abstractmethod
    def evaluate(self, tables: Tables) -> RiskValues:
        """Return the minimal risk of every head."""

    @abstractmethod
    def gradient(self, tables: Tables, found: RiskValues, weights: Floats) -> Tables:
        """Return the gradient of ``weights @ values`` in every table."""

    def _fit(self, features: Floats, pos: Floats, neg: Floats) -> list[HeadSolution]:
        """Solve all heads from features, in the dual when the loss is not smooth."""
        if not self.loss.smooth:
            gram = features @ features.T
            parts = zip(pos, neg, self.regs, strict=True)
            return [solve_dual(gram, p, n, self.loss, float(reg)) for p, n, reg in parts]
        found = fit_stack(features, pos, neg, self.loss, self.regs, self._last)
        self._last = np.stack([head.variables for head in found])
        return found


class OutputRisks(Risks):
    """Risks with every output written out.

    ``relaxed``: true for the paper's Phi_Q(x) relaxation, False for rules on the symbols. ``regs``:
    the regulariser of each head.
    """

    def __init__(
        self,
        rows: Rows,
        heads: Sequence[Head],
        n_symbols: Sequence[int],
        kernel: Kernel,
        loss: Loss,
        regs: Sequence[float],
        *,
        relaxed: bool,
    ) -> None:
        super().__init__(rows, heads, loss, regs)
        self.relaxed = relaxed
        self.factor = factor_gram(output_gram(kernel, n_symbols))

    def evaluate(self, tables: Tables) -> RiskValues:
        products = Products(tables, self.rows.codes)
        outputs = products.by_output.T
        if self.relaxed:
            features, pos, neg = outputs @ self.factor, self._pos, self._neg
        else:
            features, pos, neg = self.factor, self._pos @ outputs, self._neg @ outputs
        solutions = self._fit(features, pos, neg)
        return RiskValues(np.array([found.value for found in solutions]), solutions, products)

    def gradient(self, tables: Tables, found: RiskValues, weights: Floats) -> Tables:
        assert found.products is not None  # evaluate() of this class wrote them
        if self.relaxed:
            residuals = np.stack([solution.residual for solution in found.solutions])
            w = (found.products.by_output @ residuals.T / self.regs).T @ self.factor
            slope = -(self.factor @ (weights[:, None] * w).T) @ residuals
        else:
            scores = np.stack([solution.scores for solution in found.solutions]).T
            slope = (self.loss.value(scores) * weights) @ self._pos
            slope += (self.loss.value(-scores) * weights) @ self._neg
        return found.products.pull_back(slope)


class CountRisks(Risks):
    """Relaxed risks of the count kernel, from the concatenated rows Q^t[x^t]."""

    def evaluate(self, tables: Tables) -> RiskValues:
        features = self._features(tables)
        solutions = self._fit(features, self._pos, self._neg)
        return RiskValues(np.array([found.value for found in solutions]), solutions)

    def gradient(self, tables: Tables, found: RiskValues, weights: Floats) -> Tables:
        features, codes = self._features(tables), self.rows.codes
        gradients = [np.zeros_like(table) for table in tables]
        edges = np.cumsum([0] + [table.shape[1] for table in tables])
        for weight, reg, solution in zip(weights, self.regs, found.solutions, strict=True):
            w = features.T @ solution.residual / reg
            for t, gradient in enumerate(gradients):
                # Residuals of rows with the same code add up before w comes in.
                total = np.bincount(codes[:, t], solution.residual, minlength=len(gradient))
                gradient -= weight * np.outer(total, w[edges[t] : edges[t + 1]])
        return gradients

    def _features(self, tables: Tables) -> Floats:
        codes = self.rows.codes
        return np.concatenate([table[codes[:, t]] for t, table in enumerate(tables)], axis=1)


class GramRisks(Risks):
    """Relaxed risks of any kernel, from the kernel between the distinct rows."""

    def __init__(
        self,
        rows: Rows,
        heads: Sequence[Head],
        kernel: Kernel,
        loss: Loss,
        regs: Sequence[float],
    ) -> None:
        _check_gram_size(
            f"The {kernel.name!r} kernel",
            rows,
            "Use kernel='count', fewer sensors or symbols, or a sample of the rows.",
        )
        super().__init__(rows, heads, loss, regs)
        self.kernel = kernel
        self._variables: list[Floats | None] = [None] * self.n_heads

    def evaluate(self, tables: Tables) -> RiskValues:
        gram = cross_gram(self.kernel, tables, self.rows.codes, tables, self.rows.codes)
        solutions = [
            solve_dual(gram, head.pos, head.neg, self.loss, float(reg), last)
            for head, reg, last in zip(self.heads, self.regs, self._variables, strict=True)
        ]
        self._variables = [found.variables for found in solutions]
        return RiskValues(np.array([found.value for found in solutions]), solutions)

    def gradient(self, tables: Tables, found: RiskValues, weights: Floats) -> Tables:
        # d risk / d kappa = -(1 / (2 reg)) b b'.
        slope = np.zeros((len(self.rows.codes), len(self.rows.codes)))
        for weight, reg, solution in zip(weights, self.regs, found.solutions, strict=True):
            slope -= weight / (2.0 * reg) * np.outer(solution.residual, solution.residual)
        return gram_gradient(self.kernel, tables, self.rows, slope)


def gram_gradient(kernel: Kernel, tables: Tables, rows: Rows, slope: Floats) -> Tables:
    """Turn a symmetric d f / d kappa_Q into d f / d Q^t for every sensor."""
    gradients = [np.zeros_like(table) for table in tables]
    codes = rows.codes
    for weight, symbol_kernels in kernel.components([table.shape[1] for table in tables]):
        for block in pair_blocks(len(codes), codes.size):
            pairs = pair_tables(symbol_kernels, tables, codes[block], tables, codes)
            for t, table in enumerate(tables):
                values = weight * slope[block] * kernel.split(pairs, t)[1]
                by_code = fold_pairs(values, codes[block, t], codes[:, t], len(table))
                gradients[t] += 2.0 * by_code @ table @ symbol_kernels[t]
    return gradients


def fold_pairs(
    values: Floats, left: NDArray[np.int64], right: NDArray[np.int64], size: int
) -> Floats:
    """Add up a matrix over pairs of rows by the codes of the two rows, those of ``right`` first."""
    return scatter_rows(scatter_rows(values, left, size).T, right, size)


def make_risks(
    rows: Rows,
    heads: Sequence[Head],
    n_symbols: Sequence[int],
    kernel: Kernel,
    loss: Loss,
    regs: Sequence[float],
    *,
    relaxed: bool,
) -> Risks:
    """Choose the cheapest exact form for these rows, outputs and kernel."""
    n_outputs = math.prod(n_symbols)
    if relaxed and not loss.smooth:  # solved in the dual, one variable per row
        _check_gram_size(
            f"The {loss.name!r} loss", rows, "Use loss='logistic', or a sample of the rows."
        )
    if not relaxed and n_outputs > MAX_OUTPUTS:
        raise InputError(
            f"relaxed=False writes out all {n_outputs} outputs, more than the {MAX_OUTPUTS} that "
            "fit. Use relaxed=True, or fewer sensors or symbols."
        )
    if isinstance(kernel, CountKernel) and relaxed:
        return CountRisks(rows, heads, loss, regs)
    if n_outputs <= MAX_OUTPUTS and (not relaxed or n_outputs <= 4 * len(rows.codes)):
        return OutputRisks(rows, heads, n_symbols, kernel, loss, regs, relaxed=relaxed)
    return GramRisks(rows, heads, kernel, loss, regs)


def _check_gram_size(what: str, rows: Rows, advice: str) -> None:
    """Refuse a matrix between rows that would not fit."""
    if len(rows.codes) > MAX_GRAM_ROWS:
        raise InputError(
            f"{what} needs a matrix of {len(rows.codes)} distinct rows, more than the "
            f"{MAX_GRAM_ROWS} that fit. {advice}"
        )


def factor_gram(gram: Floats) -> Floats:
    """Return L with L L' = gram, without the directions of eigenvalue zero."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-12 * values[-1]
    factor: Floats = vectors[:, kept] * np.sqrt(values[kept])
    return factor
