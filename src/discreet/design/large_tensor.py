"""The design for many rows with kernels that look at several sensors together.

A pass costs a hundred times what one costs with the count kernel, so three stages share the
work: a mapping that the count kernel finds in a few seconds, a search on a sample of the rows
from there, and a few steps on all rows. The floors that count are those on all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from discreet.design.code_risks import PackedRows
from discreet.design.code_solver import CodeSolver
from discreet.design.fast import BARRIER_STEPS, Limits, design_fast
from discreet.design.large import design_large
from discreet.design.losses import Loss
from discreet.design.packing import Packed
from discreet.design.results import Designed, Progress, Report
from discreet.design.risks import Tables
from discreet.design.sweep import Ballots
from discreet.design.tensor_features import Form, Lifts, missing_share
from discreet.design.tensor_risks import TensorRisks
from discreet.design.tensor_solver import TensorSolver
from discreet.design.tensor_sweep import TensorRows

Floats = NDArray[np.float64]

_SAMPLED_ROWS = 1 << 15
_SAMPLE_STEPS, _LAST_STEPS = 30, 6
_ERROR_ROWS = 1 << 15  # rows on which the error of the kernel is measured
# Factors on the logits that bring a mapping within the floors of all rows.
_QUIETER = (1.0, 0.98, 0.95, 0.9, 0.8, 0.65, 0.5, 0.25, 0.0)


@dataclass(frozen=True)
class TensorProblem:
    """Heads on packed rows, a kernel in the form of tensors, and what must be kept.

    ``count_limits`` are the limits as the count kernel sees them, for the first stage.
    """

    ballots: Ballots
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
    solver = CodeSolver(problem.ballots, problem.loss, problem.regs)
    first = design_large(
        solver,
        problem.count_limits,
        problem.n_symbols,
        rng=rng,
        n_restarts=n_restarts,
        report=_part(report, 0.0, 0.1),
    )
    packed = PackedRows(problem.ballots.packed)
    rows = _tensor_rows(problem)
    few = rows.take(np.sort(rng.choice(len(rows), min(len(rows), _SAMPLED_ROWS), replace=False)))
    growth = len(rows) / len(few)
    search = TensorRisks(
        TensorSolver(few, problem.loss, growth * problem.regs), problem.lifts, packed
    )
    found = design_fast(
        search,
        problem.limits,
        problem.n_symbols,
        rng=rng,
        n_restarts=0,
        starts=[first.tables, *starts],
        max_iter=_SAMPLE_STEPS,
        report=_part(report, 0.1, 0.4),
    )
    last = TensorSolver(rows, problem.loss, problem.regs)
    risks = TensorRisks(last, problem.lifts, packed)
    begin = _within(risks, problem.limits, found.tables)
    if not found.stopped:
        found = design_fast(
            risks,
            problem.limits,
            problem.n_symbols,
            rng=rng,
            n_restarts=0,
            starts=[begin],
            max_iter=_LAST_STEPS,
            barrier=BARRIER_STEPS[-1:],
            report=_part(report, 0.4, 1.0),
        )
    else:
        found = _scored(risks, problem.limits, begin)
    passes = (first.passes or 0.0) + search.solver.passes / growth + last.passes
    return replace(found, passes=passes, kernel_error=_kernel_error(problem, found.tables))


def _tensor_rows(problem: TensorProblem) -> TensorRows:
    ballots = problem.ballots
    codes = _small_codes(ballots.packed)
    form, scale = problem.form, problem.lifts.scale
    return TensorRows(codes, ballots.kinds, ballots.counts, ballots.votes, form, scale)


def _small_codes(packed: Packed) -> NDArray[np.uint8] | NDArray[np.uint32]:
    """Unpack column by column into the narrowest integers, so that memory stays small."""
    widest = max(packed.layout.sizes)
    kind = np.uint8 if widest <= 256 else np.uint32
    codes = np.empty((len(packed), len(packed.layout.sizes)), dtype=kind)
    for t in range(codes.shape[1]):
        codes[:, t] = packed.column(t)
    return codes


def _within(risks: TensorRisks, limits: Limits, tables: Tables) -> Tables:
    """Make a mapping quieter until it keeps the floors on all rows."""
    n_public = risks.n_heads - len(limits.floors)
    for factor in _QUIETER:
        quieter = [_soften(table, factor) for table in tables]
        if np.all(risks.evaluate(quieter).values[n_public:] > limits.floors):
            break
    return quieter


def _soften(table: Floats, factor: float) -> Floats:
    if factor == 1.0:
        return table
    raised = np.maximum(table, 1e-12) ** factor
    softer: Floats = raised / raised.sum(axis=1, keepdims=True)
    return softer


def _scored(risks: TensorRisks, limits: Limits, tables: Tables) -> Designed:
    values = risks.evaluate(tables).values
    n_public = risks.n_heads - len(limits.floors)
    public = float(values[:n_public].sum())
    return Designed(tables, public, values[n_public:], limits.floors, stopped=True)


def _kernel_error(problem: TensorProblem, tables: Tables) -> float:
    if problem.form.exact:
        return 0.0
    some = problem.ballots.packed.take(slice(0, _ERROR_ROWS))
    return missing_share(problem.lifts.vectors(tables), some.unpack())


def _part(report: Report | None, begin: float, end: float) -> Report | None:
    """Return a report that counts one stage as a part of the whole."""
    if report is None:
        return None

    def tell(progress: Progress) -> bool:
        assert report is not None
        return report(replace(progress, done=begin + (end - begin) * progress.done))

    return tell
