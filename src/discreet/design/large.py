"""The design for many rows with the count kernel: few passes over them.

The search begins at a mapping that tells the private heads nothing (``quiet_start``). It runs
on quadratic models of the heads' losses in the numbers that heads give to codes
(``code_models``) and touches no row. Then the heads are solved on all rows for the mapping that
was found, the models are taken afresh from there, and the search goes on from that mapping,
until the risks on the rows no longer improve. At the mapping last swept over the models are
exact in value and slope, so what the rounds settle on is a solution for the rows themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from discreet.arrays import Floats
from discreet.design.code_solver import CodeSolver, ModelledRisks, PackedRows, SweptRisks
from discreet.design.fast import Limits, design_fast
from discreet.design.results import Designed
from discreet.design.risks import Risks, Tables
from discreet.progress import Progress, Report

_MOST_ROUNDS = 12
_STEPS = 60  # of each search and barrier: further away the models no longer tell the truth
# The barrier of the rounds after the first. Beginning as low as that one would leave the floor
# that was reached, and beginning at the end would slide along it: both end at a larger F.
_ONWARD = (1000.0, 10_000.0)
_ENOUGH = 5e-4  # a round that improves F by less than this share is the last one
# Shares of the silent mapping to mix in until the floors hold, if no round kept them.
_TOWARDS_SILENCE = (0.0, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0)


def design_large(
    solver: CodeSolver,
    limits: Limits,
    n_symbols: Sequence[int],
    *,
    rng: np.random.Generator,
    n_restarts: int,
    starts: Sequence[Tables] = (),
    report: Report | None = None,
) -> Designed:
    """Design tables with the least public risk within the limits, in few passes.

    The start that tells private heads nothing takes the place of all random ones but one.
    Where codes are too many for models, ``n_restarts`` random ones are swept over instead.
    """
    rows = PackedRows(solver.box)
    work = _Rounds(SweptRisks(solver, rows), limits)

    def search(risks: Risks, report: Report | None, **options: Any) -> Designed:
        found = design_fast(
            risks, limits, n_symbols, rng=rng, max_iter=_STEPS, report=report, **options
        )
        work.evaluations += found.evaluations
        return found

    if not solver.has_models:
        found = search(work.risks, report, n_restarts=n_restarts, starts=starts)
        return work.finish(found)
    quiet = _quiet_start(solver, rows, work.n_public, n_symbols)
    work.settles_at(quiet)
    modelled = ModelledRisks(solver, rows)
    found = search(modelled, _part(report, 0), n_restarts=1, starts=[quiet, *starts])
    for k in range(1, _MOST_ROUNDS):
        if work.settles_at(found.tables) or found.stopped:
            break
        onward = {"n_restarts": 0, "starts": [found.tables], "barrier": _ONWARD}
        found = search(modelled, _part(report, k), **onward)
    return work.finish(found)


def _quiet_start(
    solver: CodeSolver, rows: PackedRows, n_public: int, n_symbols: Sequence[int]
) -> Tables:
    """Return tables that say nothing to the private heads, from one sweep at score zero."""
    layout = solver.box.layout
    swept = solver.begin_at(np.zeros((len(solver.regs), layout.n_codes)))
    return quiet_tables(swept.sums, rows.totals, n_public, layout.sizes, n_symbols)


class _Rounds:
    """Scores mappings on all rows and keeps the best that is within the floors."""

    def __init__(self, risks: SweptRisks, limits: Limits) -> None:
        self.risks, self.limits = risks, limits
        self.n_public = risks.n_heads - len(limits.floors)
        self.evaluations = 0
        self.best: Designed | None = None

    def settles_at(self, tables: Tables) -> bool:
        """Score a mapping and say whether it brought little; take the models from there.

        A mapping outside the floors settles nothing: the models now know better.
        """
        before = np.inf if self.best is None else self.best.public_risk
        public, kept = self._score(tables)
        self.risks.solver.refresh()
        return kept and before - public <= _ENOUGH * abs(public)

    def finish(self, found: Designed) -> Designed:
        """Return the best mapping, by its risks on all rows."""
        tables = found.tables
        silent = [np.full_like(table, 1.0 / table.shape[1]) for table in tables]
        for share in _TOWARDS_SILENCE:
            pairs = zip(tables, silent, strict=True)
            self._score([(1 - share) * table + share * nothing for table, nothing in pairs])
            if self.best is not None:
                break
        assert self.best is not None  # saying nothing keeps every floor
        return replace(
            self.best,
            evaluations=self.evaluations,
            stopped=found.stopped,
            passes=self.risks.solver.passes,
        )

    def _score(self, tables: Tables) -> tuple[float, bool]:
        """Return the public risk and whether the floors are kept; remember the best."""
        values = self.risks.evaluate(tables).values
        public, private = float(values[: self.n_public].sum()), values[self.n_public :]
        kept = bool(np.all(private > self.limits.floors))
        if kept and (self.best is None or public < self.best.public_risk):
            self.best = Designed(tables, public, private, self.limits.floors)
        return public, kept


def _part(report: Report | None, k: int) -> Report | None:
    """Return a report that counts one search as a part of the whole."""
    if report is None:
        return None

    def tell(progress: Progress) -> bool:
        assert report is not None
        return report(replace(progress, done=(k + progress.done) / _MOST_ROUNDS))

    return tell


# --- Initial tables -------------------------------------------------------------------------
# A mapping to begin from that says what it can while every private head sees nothing.
#
# For small scores a head's loss depends on sensor t through ``Q^t' sums_t`` alone, where
# ``sums_t`` are its residuals at score zero, added up by code. Tables that are linear in a
# direction with no component along the private heads' sums leave those heads without a first
# step to take. Among such directions each sensor takes the one that tells the public heads most.


_LOUDNESS = 0.95  # short of certainty, where logits would be infinite


def quiet_tables(
    sums: Floats, masses: Floats, n_public: int, sizes: Sequence[int], n_symbols: Sequence[int]
) -> list[Floats]:
    """Return one table per sensor.

    ``sums`` of shape (n_heads, n_codes): residuals at score zero by code; the public heads come
    first. ``masses`` of shape (n_codes,): how often each code occurs.
    """
    ends = np.cumsum(sizes)
    return [
        _table(sums[:, end - size : end], masses[end - size : end], n_public, z)
        for end, size, z in zip(ends, sizes, n_symbols, strict=True)
    ]


def _table(sums: Floats, masses: Floats, n_public: int, n_symbols: int) -> Floats:
    seen = masses > 0
    root = np.sqrt(masses[seen])
    # In these units the code's own noise is the same for every code.
    wanted, barred = sums[:n_public, seen] / root, np.vstack([sums[n_public:, seen] / root, root])
    wanted = wanted - _project(wanted, barred)
    direction = np.linalg.svd(wanted, full_matrices=False)[2][0] / root
    size = float(np.abs(direction).max(initial=0.0))
    delta = np.zeros(len(masses))
    if np.linalg.norm(wanted) > 1e-12 and size > 0:
        delta[seen] = _LOUDNESS * direction / size
    steps = np.linspace(-1.0, 1.0, n_symbols)
    table: Floats = (1.0 + delta[:, None] * steps) / n_symbols
    return table


def _project(vectors: Floats, onto: Floats) -> Floats:
    """Return the components of ``vectors`` in the span of the rows of ``onto``."""
    _, values, basis = np.linalg.svd(onto, full_matrices=False)
    basis = basis[values > 1e-9 * max(float(values[0]), 1e-300)]
    found: Floats = vectors @ basis.T @ basis
    return found
