"""The design for many rows with kernels that look at several sensors together.

A pass costs a hundred times what one costs with the count kernel, so three stages share the
work: a mapping that the count kernel finds in a few seconds, a search on a sample of the rows
from there, and a few steps on all rows. The floors that count are those on all rows.

Features are many (thousands) and most of them tiny: products of several sensors' small deviations.
So the best heads are found by L-BFGS, begun with the curvature that a sample of the rows shows: the
whole matrix of the largest features, and the diagonal for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from discreet.arrays import Floats, Ints
from discreet.design.code_solver import CodeSolver, Metric, PackedRows
from discreet.design.fast import BARRIER_STEPS, Limits, design_fast
from discreet.design.feasible import uniform_tables
from discreet.design.large import design_large
from discreet.design.losses import Loss
from discreet.design.packed_file import FileRows
from discreet.design.packing import Packed
from discreet.design.results import Designed
from discreet.design.risks import RiskValues, Tables
from discreet.design.sweep import WeightedRows
from discreet.design.tensor_features import Form, Lifts, missing_share
from discreet.design.tensor_sweep import (
    AnyTensorRows,
    TensorRows,
    feature_rows,
    row_curvatures,
    tensor_slopes,
    tensor_sweep,
)
from discreet.progress import Progress, Report

# Rows behind the diagonal of the curvature, and behind the matrix of the largest features.
_DIAGONAL_ROWS, _CORE_ROWS = 1024, 8192
_CORE = 600  # features whose whole matrix is taken
_WORTH_FRESH = 1 << 17  # rows beyond which a pass costs more than a new curvature
_MANY_SHUFFLED = 1 << 24  # rows beyond which their numbers alone would fill memory
_MOST_STEPS = 100
_NOISE = 1e-9  # relative, of a risk added up in single precision
_MANY_STEPS = 8  # a solution that took so many asks for a new curvature


@dataclass(frozen=True)
class TensorSolved:
    """The minimum of every head's risk; ``w`` has the axes (head, a, b)."""

    values: Floats
    w: Floats


class TensorSolver:
    """Solves all heads for one mapping after the other, each from where the last one ended.

    ``passes``: sweeps over the rows so far.
    """

    def __init__(
        self, rows: AnyTensorRows, loss: Loss, regs: Floats, *, tolerance: float = 1e-8
    ) -> None:
        self.rows, self.loss, self.regs = rows, loss, np.asarray(regs, dtype=np.float64)
        self.tolerance, self.passes = tolerance, 0
        self._kept = np.flatnonzero(rows.form.mask.ravel())
        self._w = np.zeros((len(self.regs), len(self._kept)))
        self._first: _SampledCurvature | None = None
        order = _shuffled(len(rows))
        self._samples = [rows.take(np.sort(order[:n])) for n in (_DIAGONAL_ROWS, _CORE_ROWS)]

    def begin_where(self, other: TensorSolver) -> None:
        """Begin the next solution where a solver for other rows ended."""
        self._w = other._w

    def solve(self, vectors: Sequence[Floats]) -> TensorSolved:
        """Minimise every head for the mapping with these vectors of codes."""
        fresh = self._first is None or len(self.rows) > _WORTH_FRESH
        first = self._curvature(vectors, self._w) if fresh else self._first
        assert first is not None
        metric, w, last = Metric(first), self._w, None
        length, before = np.ones(len(w)), self.passes
        for _ in range(_MOST_STEPS):
            values, slopes = self._risk(vectors, w)
            if last is not None:
                worse = values > last[1] + _NOISE * np.abs(values)
                if worse.any():  # overshot: back, and half the way
                    length = np.where(worse, 0.5 * length, length)
                    if length.min() < 1e-6:
                        break
                    w = last[0] - length[:, None] * last[3]
                    continue
                metric.learn(w - last[0], slopes - last[2])
            step = metric.solve(slopes)
            if np.all(0.5 * (slopes * step).sum(axis=1) <= self.tolerance):
                break
            last, length = (w, values, slopes, step), np.ones(len(w))
            w = w - step
        self._w = w
        slow = self.passes - before > _MANY_STEPS
        self._first = self._curvature(vectors, w) if slow else first
        return TensorSolved(values, self._whole(w))

    def _risk(self, vectors: Sequence[Floats], w: Floats) -> tuple[Floats, Floats]:
        self.passes += 1
        swept = tensor_sweep(self.rows, vectors, self._whole(w), self.loss)
        values = swept.values + 0.5 * self.regs * (w * w).sum(axis=1)
        sums = swept.sums.reshape(len(w), -1)[:, self._kept]
        return values, self.regs[:, None] * w - sums

    def _whole(self, w: Floats) -> Floats:
        whole = np.zeros((len(w), self.rows.form.mask.size))
        whole[:, self._kept] = w
        return whole.reshape(len(w), *self.rows.form.mask.shape)

    def _curvature(self, vectors: Sequence[Floats], w: Floats) -> _SampledCurvature:
        some, more = self._samples
        whole = self._whole(w)
        squares = row_curvatures(some, vectors, whole, self.loss) @ feature_rows(some, vectors) ** 2
        core = np.sort(np.argsort(-squares.max(axis=0), kind="stable")[:_CORE])
        weights = row_curvatures(more, vectors, whole, self.loss)
        features = feature_rows(more, vectors, core)
        return _SampledCurvature(squares, core, features, weights, self.regs)


def _shuffled(n_rows: int) -> Ints:
    """Return the first rows of a shuffle that is always the same."""
    rng = np.random.default_rng(0)
    if n_rows <= _MANY_SHUFFLED:
        return rng.permutation(n_rows)
    return rng.choice(n_rows, _CORE_ROWS, replace=False)


class _SampledCurvature:
    """The matrix of the largest features and the diagonal of the rest, for every head."""

    def __init__(
        self, squares: Floats, core: Ints, features: Floats, weights: Floats, regs: Floats
    ) -> None:
        self._core, self._diagonals = core, squares + regs[:, None]
        self._factors = []
        for weight, reg in zip(weights, regs, strict=True):
            matrix = features.T @ (weight[:, None] * features)
            matrix.flat[:: len(matrix) + 1] += reg
            self._factors.append(cho_factor(matrix, overwrite_a=True, check_finite=False))

    def solve(self, right: Floats) -> Floats:
        step = right / self._diagonals
        for h, factor in enumerate(self._factors):
            step[h, self._core] = cho_solve(factor, right[h, self._core], check_finite=False)
        return step


_SAMPLED_ROWS = 1 << 16
_SAMPLE_STEPS, _LAST_STEPS = 20, 6
_MOST_ROUNDS = 5
_ERROR_ROWS = 1 << 15  # rows on which the error of the kernel is measured


@dataclass(frozen=True)
class TensorProblem:
    """Heads on packed rows, a kernel in the form of tensors, and what must be kept.

    ``count_limits`` are the limits as the count kernel sees them, for the first stage.
    """

    weighted_rows: WeightedRows | FileRows
    loss: Loss
    regs: Floats
    lifts: Lifts
    form: Form
    limits: Limits
    count_limits: Limits
    n_symbols: tuple[int, ...]


def design_tensor(
    problem: TensorProblem,
    *,
    rng: np.random.Generator,
    n_restarts: int,
    starts: Sequence[Tables] = (),
    report: Report | None = None,
) -> Designed:
    """Design tables with the least public risk within the limits."""
    first = design_large(
        CodeSolver(problem.weighted_rows, problem.loss, problem.regs),
        problem.count_limits,
        problem.n_symbols,
        rng=rng,
        n_restarts=n_restarts,
        report=_part(report, 0.0, 0.1),
    )
    work = _Stages(problem, rng)
    found = work.search([first.tables, *starts], first.stopped, report)
    if not found.stopped:
        found = design_fast(
            work.all,
            problem.limits,
            problem.n_symbols,
            rng=rng,
            n_restarts=0,
            starts=[found.tables],
            max_iter=_LAST_STEPS,
            barrier=BARRIER_STEPS[-1:],
            report=_part(report, 0.6, 1.0),
        )
    passes = (first.passes or 0.0) + work.passes()
    return replace(found, passes=passes, kernel_error=_kernel_error(problem, found.tables))


class _Stages:
    """The risks on a sample of the rows and on all of them."""

    def __init__(self, problem: TensorProblem, rng: np.random.Generator) -> None:
        self.problem, self.rng = problem, rng
        packed = PackedRows(problem.weighted_rows)
        rows = _tensor_rows(problem)
        size = min(len(rows), _SAMPLED_ROWS)
        few = rows.take(np.sort(rng.choice(len(rows), size, replace=False)))
        self._growth = len(rows) / size
        self.some, self.all = (
            TensorRisks(TensorSolver(part, problem.loss, regs), problem.lifts, packed)
            for part, regs in ((few, self._growth * problem.regs), (rows, problem.regs))
        )
        self._n_public = self.all.n_heads - len(problem.limits.floors)

    def passes(self) -> float:
        return self.some.solver.passes / self._growth + self.all.solver.passes

    def search(self, starts: list[Tables], stopped: bool, report: Report | None) -> Designed:
        """Search on the sample until what it finds keeps the floors on all rows.

        The same mapping has other risks on all rows. So the sample's floors are moved by
        the difference, and each time a little further if that was not enough.
        """
        limits = self.problem.limits
        margin, moved = 0.1 * (limits.reachable - limits.floors), np.zeros_like(limits.floors)
        for k in range(_MOST_ROUNDS):
            if stopped:
                break
            tried = design_fast(
                self.some,
                replace(limits, floors=limits.floors + moved),
                self.problem.n_symbols,
                rng=self.rng,
                n_restarts=0,
                starts=starts,
                max_iter=_SAMPLE_STEPS,
                report=_part(
                    report, 0.1 + 0.5 * k / _MOST_ROUNDS, 0.1 + 0.5 * (k + 1) / _MOST_ROUNDS
                ),
            )
            self.all.solver.begin_where(self.some.solver)
            found, stopped = self._score(tried.tables), tried.stopped
            if np.all(found.private_risks > limits.floors):
                return replace(found, stopped=stopped)
            moved = tried.private_risks - found.private_risks + margin * (k + 1)
            moved = np.minimum(moved, 0.9 * (limits.reachable - limits.floors))
            starts = [tried.tables]
        sizes = self.problem.weighted_rows.layout.sizes
        return replace(self._score(uniform_tables(sizes, self.problem.n_symbols)), stopped=stopped)

    def _score(self, tables: Tables) -> Designed:
        values = self.all.evaluate(tables).values
        public, private = float(values[: self._n_public].sum()), values[self._n_public :]
        return Designed(tables, public, private, self.problem.limits.floors)


def _tensor_rows(problem: TensorProblem) -> AnyTensorRows:
    if isinstance(problem.weighted_rows, FileRows):
        return StoredTensorRows(problem.weighted_rows, problem.form, problem.lifts.scale)
    return _rows_here(problem.weighted_rows, problem.form, problem.lifts.scale)


def _rows_here(weighted_rows: WeightedRows, form: Form, scale: float) -> TensorRows:
    codes = _small_codes(weighted_rows.packed)
    return TensorRows(
        codes, weighted_rows.kinds, weighted_rows.counts, weighted_rows.signed_weights, form, scale
    )


@dataclass(frozen=True)
class StoredTensorRows:
    """Rows that stay in their file and are unpacked block by block."""

    weighted_rows: FileRows
    form: Form
    scale: float

    def __len__(self) -> int:
        return len(self.weighted_rows)

    def take(self, index: Ints) -> TensorRows:
        """Read some of the rows, with signed weights that keep the sums' scale."""
        scale = len(self) / len(index)
        return _rows_here(self.weighted_rows.take(index, scale), self.form, self.scale)

    def block(self, rows: slice) -> TensorRows:
        """Read rows that follow each other, with the signed weights as they are."""
        return _rows_here(self.weighted_rows.take(rows), self.form, self.scale)


def _small_codes(packed: Packed) -> NDArray[np.uint8] | NDArray[np.uint32]:
    """Unpack column by column into the narrowest integers, so that memory stays small."""
    widest = max(packed.layout.sizes)
    kind = np.uint8 if widest <= 256 else np.uint32
    codes = np.empty((len(packed), len(packed.layout.sizes)), dtype=kind)
    for t in range(codes.shape[1]):
        codes[:, t] = packed.column(t)
    return codes


def _kernel_error(problem: TensorProblem, tables: Tables) -> float:
    if problem.form.exact:
        return 0.0
    some = problem.weighted_rows.take(slice(0, _ERROR_ROWS)).packed
    return missing_share(problem.lifts.vectors(tables), some.unpack())


def _part(report: Report | None, begin: float, end: float) -> Report | None:
    """Return a report that counts one stage as a part of the whole."""
    if report is None:
        return None

    def tell(progress: Progress) -> bool:
        assert report is not None
        return report(replace(progress, done=begin + (end - begin) * progress.done))

    return tell


# --- Risks of the product kernel ------------------------------------------------------------
# The risks of the product and ANOVA kernels for many rows.


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
