"""One design, from coded rows and a target to tables.

Here the heads, the kernel, the loss and the limits come together, and the solver is
chosen. Everything above (the search for a ratio, the estimators) calls this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from discreet.arrays import Ints
from discreet.data.columns import Labels
from discreet.design.fast import SOFTNESS, Limits, PrivateClasses, design_fast
from discreet.design.feasible import Designed, uniform_tables
from discreet.design.inputs import Coded, Settings, Target, structural_limit
from discreet.design.npo import Setting, design_gauss_seidel, feasible_start, find_threshold
from discreet.design.risks import Risks, Tables, make_risks
from discreet.design.training_rows import Head, Rows, Sample, private_heads, public_heads
from discreet.progress import Report

# Below this the sampling noise is larger than anything that further steps would gain.
_FEW_ROWS = 500


class Designer(Protocol):
    """A way from coded rows and a target to tables."""

    def __call__(
        self,
        settings: Settings,
        sample: Sample,
        target: Target,
        *,
        rng: np.random.Generator,
        starts: Sequence[Tables] = (),
        report: Report | None = None,
    ) -> Designed: ...


def design_sample(
    settings: Settings,
    sample: Sample,
    target: Target,
    *,
    rng: np.random.Generator,
    starts: Sequence[Tables] = (),
    report: Report | None = None,
) -> Designed:
    """Design by keeping risks above floors. Codes never seen keep a uniform row."""
    rows, public, private = sample.rows(), sample.public, sample.private
    asked = public_heads(rows, public)
    guarded = _guarded_heads(settings, rows, private, target)
    softness = SOFTNESS
    if settings.solver != "fast":
        reference = _gauss_seidel(settings, rows, asked, guarded, target, rng, report)
        if settings.solver == "gauss-seidel" or reference.stopped:
            return reference
        # Thorough: carry the reference's answer on, compared by F alone.
        starts, softness = [*starts, reference.tables], 0.0
    regs = [settings.reg] * len(asked) + [settings.private_reg] * len(guarded)
    risks = make_risks(
        rows,
        asked + guarded,
        settings.n_symbols,
        settings.kernel,
        settings.loss,
        regs,
        relaxed=settings.relaxed,
    )
    limits = _limits(settings, rows, private, target, risks, len(asked))
    if settings.solver != "fast":
        limits = replace(limits, floors=reference.floors)
    return design_fast(
        risks,
        limits,
        settings.n_symbols,
        rng=rng,
        n_restarts=settings.n_restarts,
        starts=starts,
        n_carried=1 if rows.n_rows < _FEW_ROWS else 2,
        max_iter=60 if rows.n_rows < _FEW_ROWS else 120,
        softness=softness,
        report=report,
    )


def _guarded_heads(
    settings: Settings, rows: Rows, private: Sequence[Labels], target: Target
) -> list[Head]:
    if not settings.constrained or target.ratio is None:
        return []
    return [
        head
        for fact in private
        for head in private_heads(rows, fact, pairs=settings.pairs, normalised=settings.normalised)
    ]


def _limits(
    settings: Settings,
    rows: Rows,
    private: Sequence[Labels],
    target: Target,
    risks: Risks,
    n_public: int,
) -> Limits:
    nothing = uniform_tables(rows.sizes, settings.n_symbols)
    reachable = risks.evaluate(nothing).values[n_public:]
    floors = (target.ratio or 0.0) * reachable
    per_sensor = structural_limit(settings, target)
    if target.epsilon is None or not settings.lists_outputs:
        return Limits(floors, reachable, ldp_epsilon=per_sensor)
    classes = [
        PrivateClasses(rows.class_weights(fact), np.bincount(fact.index) / rows.n_rows)
        for fact in private
    ]
    return Limits(floors, reachable, target.epsilon, classes, per_sensor)


def _gauss_seidel(
    settings: Settings,
    rows: Rows,
    asked: list[Head],
    guarded: list[Head],
    target: Target,
    rng: np.random.Generator,
    report: Report | None,
) -> Designed:
    setting = Setting(
        rows, settings.n_symbols, settings.kernel, settings.loss, settings.reg, settings.private_reg
    )
    thresholds = [find_threshold(setting, head, rng=rng) for head in guarded]
    lowest = min(threshold.value for threshold in thresholds)
    assert target.ratio is not None  # there are private heads, so a ratio was asked for
    floors = np.full(len(guarded), target.ratio * lowest)
    start = feasible_start(setting, guarded, thresholds, floors)
    return design_gauss_seidel(setting, asked, guarded, floors, start, report=report)


# --- Without some of the rows, and levels of strictness ---------------------------------------


RATIO_LEVELS = (0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999)
_EPSILON_SHARES = (1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.12, 0.07, 0.03)  # of the limit, likewise
_RESTARTS = 3  # random starts without a part; later levels go on from the last one's tables


def risk_levels(settings: Settings, advantage: bool, epsilon: float | None) -> list[Target]:
    """Return targets of rising strictness, for a limit on the advantage, on epsilon or on both."""
    ratios = RATIO_LEVELS if advantage else (None,) * len(RATIO_LEVELS)
    if epsilon is None:
        return [Target(ratio) for ratio in ratios]
    if not settings.lists_outputs:  # structural, holds by construction
        return [Target(ratio, epsilon) for ratio in dict.fromkeys(ratios)]
    pairs = zip(ratios, _EPSILON_SHARES, strict=True)
    return [Target(ratio, share * epsilon) for ratio, share in pairs]


class RiskDesign:
    """Designs on the rows of a fit's sample, or on those that are not left out."""

    def __init__(self, settings: Settings, coded: Coded, designer: Designer) -> None:
        self.settings, self.coded, self.designer = settings, coded, designer

    def __call__(
        self,
        left_out: Ints | None,
        target: Target,
        *,
        rng: np.random.Generator,
        starts: Sequence[Tables] = (),
        report: Report | None = None,
    ) -> Designed:
        coded, settings = self.coded, self.settings
        sample = coded.sample
        if left_out is not None:
            kept = np.full(len(sample.codes), True)
            kept[left_out] = False
            sample = sample.take(np.flatnonzero(kept))
            restarts = 1 if starts else min(_RESTARTS, settings.n_restarts)
            settings = replace(settings, n_restarts=restarts)
        return self.designer(settings, sample, target, rng=rng, starts=starts, report=report)
