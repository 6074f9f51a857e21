"""One design from counts: from a model and a target to tables and their fusion rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet.arrays import Floats
from discreet.design.counts.ascent import STEPS, Judged, Limits, Problem, climb, settle
from discreet.design.counts.counting import Counts
from discreet.design.counts.estimate import (
    CountModel,
    Structure,
    count_sample,
    estimate_counts,
    find_structure,
)
from discreet.design.counts.starts import WAYS, draw_start, find_start
from discreet.design.counts.units import Units
from discreet.design.folds import Sample
from discreet.design.problem import Settings, Target, structural_limit
from discreet.design.results import Designed
from discreet.mapping.parts import MAX_FUSION_OUTPUTS, TableFusion
from discreet.progress import Progress, Report

_LISTED_STARTS = 3  # for every restart asked for, where outputs are listed: they are cheap
_DRAWN_STARTS = 2  # at most, where outputs are drawn
FLOOR = 0.002
"""Least entry of a table: with a zero, no audit could bound a log-ratio."""


@dataclass(frozen=True)
class CountDesigner:
    """Designs on rows like those that the structure was found in; see ``problem.Designer``.

    ``counts`` are of all rows, where the sample has only some of them.
    """

    structure: Structure | None = None
    counts: Counts | None = None
    beyond: bool = False

    def __call__(
        self,
        settings: Settings,
        sample: Sample,
        target: Target,
        *,
        rng: np.random.Generator,
        starts: Sequence[Sequence[Floats]] = (),
        report: Report | None = None,
    ) -> Designed:
        counts = count_sample(sample) if self.counts is None else self.counts
        structure = self.structure or find_structure(sample, counts, settings.n_symbols, rng)
        model = estimate_counts(sample, counts, structure, rng)
        return design_on_counts(settings, model, target, self.beyond, rng, starts, report)


def design_on_counts(
    settings: Settings,
    model: CountModel,
    target: Target,
    beyond: bool,
    rng: np.random.Generator,
    starts: Sequence[Sequence[Floats]] = (),
    report: Report | None = None,
) -> Designed:
    """Climb from several starts and keep the best; a report that asks to stop keeps it so far."""
    units = Units(model, settings.n_symbols)
    worth = settings.aim.worth(model.public_shares())
    problem = Problem(units, _limits(settings, target, beyond), worth)
    n_starts = max(settings.n_restarts, len(starts))
    if problem.listed is None:
        n_starts = min(n_starts, _DRAWN_STARTS)
    elif not starts:
        n_starts *= _LISTED_STARTS
    found: list[Judged] = []
    for k in range(n_starts):
        start = _start(model, settings.n_symbols, k, starts, rng)
        steps = STEPS // 2 if k < len(starts) else STEPS  # a given start is nearly there
        found.append(settle(problem, climb(problem, list(start), rng, steps)))
        best = max(found, key=lambda each: each.merit)
        if report is not None and report(Progress("design", (k + 1) / n_starts, 1.0 - best.worth)):
            break
    done = len(found)
    allowed = problem.limits.advantage
    return Designed(
        best.tables,
        1.0 - best.worth,
        np.array([0.5 - best.advantage]),
        np.array([0.0 if allowed is None else 0.5 - allowed]),
        done,
        stopped=done < n_starts,
        fusion=model_fusion(units, best.tables),
    )


def _start(
    model: CountModel,
    n_symbols: Sequence[int],
    k: int,
    given: Sequence[Sequence[Floats]],
    rng: np.random.Generator,
) -> Sequence[Floats]:
    if k < len(given):
        return given[k]
    if k - len(given) < len(WAYS):
        return find_start(model, n_symbols, k - len(given))
    return draw_start(model, n_symbols, rng)


def _limits(settings: Settings, target: Target, beyond: bool) -> Limits:
    advantage = None if target.ratio is None else 0.5 * (1.0 - target.ratio)
    local = structural_limit(settings, target)
    floors = [
        FLOOR if local is None else max(FLOOR, 1.0 / (math.exp(min(local, 700.0)) + n - 1))
        for n in settings.n_symbols
    ]
    epsilon = target.epsilon if settings.lists_outputs else None
    return Limits(advantage, epsilon, floors, beyond)


def model_fusion(units: Units, tables: Sequence[Floats]) -> TableFusion | None:
    """Return the best fusion rule under the model; None if it would be too large."""
    if math.prod(units.n_symbols) > MAX_FUSION_OUTPUTS:
        return None
    symbols = np.stack(np.unravel_index(np.arange(math.prod(units.n_symbols)), units.n_symbols))
    chances, _ = units.chances(units.pad(tables))
    given = np.ones((symbols.shape[1], len(units.model.prior)))
    for k, t in enumerate(units.singles):
        given *= chances[units.edges[k] + symbols[t]]
    for k, block in enumerate(units.model.blocks, start=len(units.singles)):
        sizes = [units.n_symbols[t] for t in block.sensors]
        index = np.ravel_multi_index(tuple(symbols[list(block.sensors)]), sizes)
        given *= chances[units.edges[k] + index]
    rows = units.model.class_rows(0) * units.model.public_shares()[:, None]
    joint = rows @ given.T
    return TableFusion(joint=(joint / joint.sum()).tolist())
