"""One design from counts: from a model and a target to tables and their fusion rule."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from discreet.arrays import Floats, Ints
from discreet.design.counts.ascent import (
    PRICES,
    STEPS,
    WAYS,
    Judged,
    Limits,
    Problem,
    Way,
    climb,
    draw_start,
    find_starts,
    settle,
)
from discreet.design.counts.counting import CountedRows, Counts
from discreet.design.counts.estimate import (
    BLOCK_ROWS,
    PAIRED_ROWS,
    CountModel,
    estimate_counts,
    find_structure,
)
from discreet.design.counts.units import Units
from discreet.design.feasible import Designed
from discreet.design.inputs import Settings, Target, structural_limit
from discreet.design.risks import Tables
from discreet.design.training_rows import Sample
from discreet.mapping.parts import MAX_FUSION_OUTPUTS, TableFusion
from discreet.progress import Progress, Report

# Starts for every restart asked for, where outputs are listed and where they are drawn.
_LISTED_STARTS, _DRAWN_STARTS = 9, 3
_MORE_STARTS = 2  # times as many, where outputs are so few that a step costs next to nothing
_LONG, _LONG_DRAWN = 360, 240  # steps likewise, and where outputs are drawn
_LEAST_STARTS, _FEW_SENSORS, _FEW_CHANCES = 3, 32, 24_576
_STEPS_TO_BLIND = 480
_NEAR = 2 / 3  # of the steps, from tables that were designed for another limit
_BLIND = [(Way("within", 16.0, lean), price) for price in PRICES for lean in (1.0, -1.0, 0.0)]
_TIMED = 4  # steps, to tell how long many will take
_SCREENED = 0.5  # share of the work that screening is, about
FLOOR = 0.002
"""Least entry of a table: with a zero, no audit could bound a log-ratio."""


def design_on_counts(
    settings: Settings,
    model: CountModel,
    target: Target,
    beyond: bool,
    rng: np.random.Generator,
    starts: Sequence[Sequence[Floats]] = (),
    report: Report | None = None,
    *,
    evidence: bool = False,
) -> Designed:
    """Climb from several starts and keep the best; a report that asks to stop keeps it so far.

    ``evidence``: whether the limit is one on what a round adds to many (``Evidence``); then
    ``beyond`` leaves out what the answer tells.
    """
    problem = pose(settings, model, target, beyond, evidence)
    tell = _Teller(report, problem.limits.advantage)
    first, found = [(list(start), PRICES[0]) for start in starts], list[Judged]()
    if evidence:
        ways, prices = zip(*_BLIND[: 3 * settings.n_restarts], strict=True)
        first += zip(find_starts(model, settings.n_symbols, ways), prices, strict=True)
    elif settings.n_restarts:
        solved, screened = _screen(problem, settings, rng, tell)
        found.append(settle(problem, solved))
        first += [(tables, PRICES[0]) for tables in screened]
    for k, (start, price) in enumerate(first):
        steps = _STEPS_TO_BLIND if evidence else _count_steps(problem)
        near = k < len(starts)
        steps = int(_NEAR * steps) if near else steps
        part = tell.part(found, _SCREENED + (1 - _SCREENED) * k / len(first), 1 / len(first))
        found.append(settle(problem, climb(problem, start, rng, steps, part, price, near=near)))
        if tell.stopped:
            break
    best, done = max(found, key=lambda each: each.merit), len(found)
    allowed = problem.limits.advantage
    return Designed(
        best.tables,
        1.0 - best.worth,
        np.array([0.5 - best.advantage]),
        np.array([0.0 if allowed is None else 0.5 - allowed]),
        done,
        stopped=tell.stopped,
        fusion=model_fusion(problem.units, best.tables),
        leak=best.advantage,
    )


def pose(
    settings: Settings, model: CountModel, target: Target, beyond: bool, evidence: bool
) -> Problem:
    """Return what to maximise for a target."""
    worth = settings.aim.worth(model.public_shares())
    limits = _limits(settings, target, beyond, evidence)
    return Problem(Units(model, settings.n_symbols), limits, worth)


def _count_steps(problem: Problem) -> int:
    if problem.listed is None:
        return _LONG_DRAWN
    return _LONG if _is_small(problem) else STEPS


def _is_small(problem: Problem) -> bool:
    chances = problem.units.n_outputs * len(problem.units.model.prior)
    return problem.listed is not None and chances <= _FEW_CHANCES / 8


def _count_starts(problem: Problem, settings: Settings) -> tuple[int, int]:
    """Return how many starts to climb a little from, and how many of them to go on with."""
    listed, model = problem.listed is not None, problem.units.model
    count = (_LISTED_STARTS if listed else _DRAWN_STARTS) * settings.n_restarts
    count *= _MORE_STARTS if _is_small(problem) else 1
    # A step costs more, the more outputs or sensors there are.
    fewer = (_FEW_SENSORS / len(model.given)) ** 2
    if listed:
        fewer = _FEW_CHANCES / (problem.units.n_outputs * len(model.prior))
    count = max(_LEAST_STARTS, min(count, int(count * fewer)))
    return count, settings.n_restarts if fewer >= 1.0 and listed else 1


def _screen(
    problem: Problem, settings: Settings, rng: np.random.Generator, tell: _Teller
) -> tuple[list[Floats], list[list[Floats]]]:
    """Climb a little from many starts; return the best of those solved for, and what got furthest.

    Where little stands in the way of the best tables, those solved for are better than what climbs
    on drawn outputs end with.
    """
    model, (count, kept) = problem.units.model, _count_starts(problem, settings)
    solved = find_starts(model, settings.n_symbols, WAYS[:count])
    starts = solved = [problem.above_floors(tables) for tables in solved]
    best = max(map(problem.judge, solved), key=lambda each: each.merit)
    while len(starts) < count:
        starts = [*starts, draw_start(model, settings.n_symbols, rng)]
    rounds = [(STEPS // 12, max(count // 4, kept)), (STEPS // 6, kept)]
    begin, span = 0.0, _SCREENED / len(rounds)
    for steps, left in rounds:
        found: list[Judged] = []
        for start in starts:
            part = tell.part(found, begin, span / len(starts))
            found.append(problem.judge(climb(problem, start, rng, steps, part)))
            begin += span / len(starts)
            if tell.stopped:
                break
        found.sort(key=lambda each: -each.merit)
        starts = [each.tables for each in found[:left]]
        if tell.stopped:
            break
    return best.tables, starts[:kept]


class _Teller:
    """Tells a report how the climbs from several starts go, and remembers whether to stop."""

    def __init__(self, report: Report | None, limit: float | None) -> None:
        self.report, self.limit = report, limit
        self.stopped = False

    def part(self, found: Sequence[Judged], begin: float, span: float) -> Callable[[float], bool]:
        """Return a callback for the share of one climb that is done, itself a part of the whole."""

        def tell(share: float) -> bool:
            if self.report is None:
                return False
            progress = Progress("design", begin + span * share, limit=self.limit)
            if found:
                best = max(found, key=lambda each: each.merit)
                progress = replace(progress, public_risk=1.0 - best.worth, leak=best.advantage)
            self.stopped = self.stopped or self.report(progress)
            return self.stopped

        return tell


def _limits(settings: Settings, target: Target, beyond: bool, evidence: bool) -> Limits:
    advantage = None if target.ratio is None else 0.5 * (1.0 - target.ratio)
    local = structural_limit(settings, target)
    floors = [
        FLOOR if local is None else max(FLOOR, 1.0 / (math.exp(min(local, 700.0)) + n - 1))
        for n in settings.n_symbols
    ]
    epsilon = target.epsilon if settings.lists_outputs else None
    if not evidence or advantage is None:
        return Limits(advantage, epsilon, floors, beyond)
    one_round = None if beyond else advantage
    return Limits(one_round, epsilon, floors, beyond, 4.0 * advantage**2)


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


class CountDesign:
    """Designs on the counts of all rows but those left out.

    ``structure``, smoothing and blocks, is chosen once, without the rows that are left out for
    good.
    """

    def __init__(
        self,
        settings: Settings,
        counted: CountedRows,
        for_good: Ints | None,
        rng: np.random.Generator,
        *,
        beyond: bool = False,
        evidence: bool = False,
    ) -> None:
        self.settings, self.counted = settings, counted
        self.beyond, self.evidence = beyond, evidence
        self.models: dict[int, CountModel] = {}  # by the rows left out, which outlive this
        self.counts: dict[int, Counts] = {}
        sample = self._some(for_good, PAIRED_ROWS, rng)
        counts = self._counts(for_good)
        self.structure = find_structure(sample, counts, settings.n_symbols)

    def __call__(
        self,
        left_out: Ints | None,
        target: Target,
        *,
        rng: np.random.Generator,
        starts: Sequence[Tables] = (),
        report: Report | None = None,
    ) -> Designed:
        model = self._model(left_out, rng)
        settings, part = self.settings, left_out is not None
        if starts and part:  # it goes on from the last level
            settings = replace(settings, n_restarts=1 if settings.lists_outputs else 0)
        elif self.evidence and part:
            settings = replace(settings, n_restarts=1)
        return design_on_counts(
            settings, model, target, self.beyond, rng, starts, report, evidence=self.evidence
        )

    def seconds(self, parts: Sequence[Ints | None], target: Target, levels: int) -> float:
        """Return about how long designs at so many levels take, by the time of a few steps."""
        rng = np.random.default_rng(0)
        begin = time.perf_counter()
        model = self._model(parts[0], rng)
        problem = pose(self.settings, model, target, self.beyond, self.evidence)
        start = climb(problem, find_starts(model, self.settings.n_symbols, WAYS[:1])[0], rng, 1)
        made = time.perf_counter()
        climb(problem, start, rng, _TIMED)
        each = (time.perf_counter() - made) / _TIMED
        screened, kept = _count_starts(problem, self.settings)
        last = _count_steps(problem)
        first = screened * (STEPS // 12 + STEPS // 24) + kept * last
        steps = first + (levels - 1) * (first // 3 + int(_NEAR * last))
        return len(parts) * (levels * (made - begin) + each * steps)

    def _model(self, left_out: Ints | None, rng: np.random.Generator) -> CountModel:
        """Return what all rows but some say, the same at every level."""
        if id(left_out) not in self.models:
            sample = self._some(left_out, BLOCK_ROWS if self.structure.blocks else 0, rng)
            counts = self._counts(left_out)
            self.models[id(left_out)] = estimate_counts(sample, counts, self.structure)
        return self.models[id(left_out)]

    def _counts(self, left_out: Ints | None) -> Counts:
        if left_out is None:
            return self.counted.counts
        if id(left_out) not in self.counts:
            self.counts[id(left_out)] = self.counted.without(left_out)
        return self.counts[id(left_out)]

    def _some(self, left_out: Ints | None, most: int, rng: np.random.Generator) -> Sample:
        """Return at most so many of the sample's rows that are not left out."""
        sample = self.counted.sample
        kept = np.full(len(sample.codes), True)
        if left_out is not None:
            kept[left_out] = False
        rows = np.flatnonzero(kept)
        if len(rows) > most:
            rows = np.sort(rng.choice(rows, most, replace=False))
        return sample.take(rows)
