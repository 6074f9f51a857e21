"""One design from counts: from a model and a target to tables and their fusion rule."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from discreet.arrays import Floats, Ints
from discreet.design.counts.ascent import HALVINGS, PRICES, STEPS, climb, settle
from discreet.design.counts.blocks import PAIRED_ROWS
from discreet.design.counts.counting import CountedRows, Counts
from discreet.design.counts.estimate import (
    CountModel,
    estimate_counts,
    find_structure,
)
from discreet.design.counts.objective import Judged, Limits, Problem
from discreet.design.counts.starts import WAYS, Way, draw_start, find_starts, hop_from
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
# Steps that are timed at once, and for how long, to tell how long many will take.
_TIMED, _TIMED_SECONDS = 4, 0.01
_HALVINGS_IN_HASTE = 5  # of the noise that tables need, where time is over
# Rounds of climbs from near the best tables so far, climbs in each, and tables they begin near.
_HOPS, _HOPS_EACH, _HOPPED = 3, 12, 4
# Models that rows might as well have shown, and the most rows that these are drawn for.
_DRAWS, _MOST_DRAWN_FROM = 24, 20_000
# Products that a step of a climb takes for attackers to look at all outputs under all draws. They
# grow with the cube of the private classes, and with the square of the draws.
_MOST_COMPARED = 2**21
# Least entry of a table, and where an epsilon is asked for: with a zero, no audit could bound a
# log-ratio.
_FLOOR, _FLOOR_FOR_EPSILON = 0.0005, 0.002


def design_on_counts(
    settings: Settings,
    model: CountModel,
    target: Target,
    beyond: bool,
    rng: np.random.Generator,
    starts: Sequence[Sequence[Floats]] = (),
    report: Report | None = None,
    *,
    draws: Sequence[CountModel] = (),
    evidence: bool = False,
) -> Designed:
    """Climb from several starts and keep the best; a report that asks to stop keeps it so far.

    If it asks to before anything is climbed, the tables to start from are kept, or without any a
    start that was solved for, with as much noise as it takes.

    ``draws``: models that the rows might as well have shown, under which tables are kept flat, too.
    ``evidence``: whether the limit is one on what a round adds to many (``Evidence``); then
    ``beyond`` leaves out what the answer tells.
    """
    rough = pose(settings, model, target, beyond, evidence)
    problem = pose(settings, model, target, beyond, evidence, draws) if draws else rough
    tell = _Teller(report, rough.limits.advantage)
    search = _Search(problem, settings, rng, tell)
    first = _Search(rough, settings, rng, tell) if draws else search
    steps = _count_steps(rough)
    if starts and search.is_over():
        search.keep(starts)
    elif evidence:
        ways, prices = zip(*_BLIND[: 3 * settings.n_restarts], strict=True)
        first.climb(find_starts(model, settings.n_symbols, ways), _STEPS_TO_BLIND, 0.5, prices)
    elif settings.n_restarts and not (starts and draws):
        first.climb(first.screen(0.3), steps, 0.5)
    if draws:
        search.climb(first.take_best(), int(_NEAR * steps), 0.6, near=True)
    if starts:
        search.climb([list(start) for start in starts], int(_NEAR * steps), 0.7, near=True)
    for k in range(_HOPS if _hops(rough) else 0):
        search.hop(0.7 + 0.3 * (k + 1) / _HOPS)
    best, allowed = search.best, rough.limits.advantage
    return Designed(
        best.tables,
        1.0 - best.worth,
        np.array([0.5 - best.advantage]),
        np.array([0.0 if allowed is None else 0.5 - allowed]),
        len(search.found),
        stopped=tell.stopped,
        fusion=model_fusion(rough.units, best.tables),
        leak=best.advantage,
        over_draws=bool(draws),
    )


def pose(
    settings: Settings,
    model: CountModel,
    target: Target,
    beyond: bool,
    evidence: bool,
    draws: Sequence[CountModel] = (),
) -> Problem:
    """Return what to maximise for a target."""
    worth = settings.aim.worth(model.public_shares())
    limits = _limits(settings, target, beyond, evidence)
    return Problem(model, settings.n_symbols, limits, worth, draws)


def _count_steps(problem: Problem) -> int:
    if problem.listed is None:
        return _LONG_DRAWN
    return _LONG if _is_small(problem) else STEPS


def _is_small(problem: Problem) -> bool:
    chances = problem.units.n_outputs * len(problem.model.prior)
    return problem.listed is not None and chances <= _FEW_CHANCES / 8


def _hops(problem: Problem) -> bool:
    """Tell whether climbs are so cheap that many more of them cost little."""
    blocks = sum(block.given.size for block in problem.model.blocks)
    cheap = _is_small(problem) and blocks <= _FEW_CHANCES / 8
    return cheap and problem.limits.evidence is None


def _compares_few(problem: Problem) -> bool:
    """Tell whether attackers would compare little under as many draws of the model."""
    return _DRAWS**2 * problem.attackers.apart.size * problem.units.n_outputs <= _MOST_COMPARED


def _count_starts(problem: Problem, settings: Settings) -> tuple[int, int]:
    """Return how many starts to climb a little from, and how many of them to go on with."""
    listed, model = problem.listed is not None, problem.model
    count = (_LISTED_STARTS if listed else _DRAWN_STARTS) * settings.n_restarts
    count *= _MORE_STARTS if _is_small(problem) else 1
    # A step costs more, the more outputs or sensors there are.
    fewer = (_FEW_SENSORS / len(model.given)) ** 2
    if listed:
        fewer = _FEW_CHANCES / (problem.units.n_outputs * len(model.prior))
    count = max(_LEAST_STARTS, min(count, int(count * fewer)))
    return count, settings.n_restarts if fewer >= 1.0 and listed else 1


def plan_climbs(
    rough: Problem, problem: Problem, settings: Settings, *, evidence: bool, near: bool
) -> list[tuple[Problem, int, int]]:
    """Return what a design climbs that nothing stops: how many climbs at a time, of how many steps.

    ``rough``, ``problem``: without and with draws of the model, one and the same without any.
    ``near``: whether tables are given to start from.
    """
    steps, draws = _count_steps(rough), problem is not rough
    found = []
    if evidence:
        found.append((rough, len(_BLIND[: 3 * settings.n_restarts]), _STEPS_TO_BLIND))
    elif settings.n_restarts and not (near and draws):
        count, kept = _count_starts(rough, settings)
        screened = [(count, STEPS // 12), (max(count // 4, kept), STEPS // 6)]
        found += [(rough, *stage) for stage in [*screened, (kept, steps)]]
        if draws:  # what got furthest, one of which was solved for
            found.append((problem, min(kept + 1, _HOPPED), int(_NEAR * steps)))
    if near:
        found.append((problem, 1, int(_NEAR * steps)))
    return [*found, *[(problem, _HOPS_EACH, STEPS)] * (_HOPS if _hops(rough) else 0)]


class _Pace:
    """How long steps take: so long for one climb, and so much more for each that climbs with it."""

    def __init__(self, problem: Problem, start: list[Floats]) -> None:
        self.problem = problem
        together = min(problem.climbs_at_once, _HOPS_EACH)
        self.alone, self.each = _time_step(problem, [start]), 0.0
        if together > 1:
            more = _time_step(problem, [start] * together) - self.alone
            self.each = max(more, 0.0) / (together - 1)

    def seconds(self, climbs: int, steps: int) -> float:
        turns = math.ceil(climbs / self.problem.climbs_at_once)
        return steps * (turns * self.alone + (climbs - turns) * self.each)


def _time_step(problem: Problem, starts: list[list[Floats]]) -> float:
    """Return the seconds of one step: of this thread, as others use the machine, too."""
    rng, taken = np.random.default_rng(0), 0
    starts = climb(problem, starts, rng, 1)
    begin = now = time.thread_time()
    while not taken or now < begin + _TIMED_SECONDS:
        climb(problem, starts, rng, _TIMED)
        taken, now = taken + _TIMED, time.thread_time()
    return (now - begin) / taken


def _from_another_limit(settings: Settings) -> Settings:
    """Return how to search where tables for another limit are known."""
    return replace(settings, n_restarts=1 if settings.lists_outputs else 0)


class _Search:
    """Climbs from many starts; ``found``: where they ended, with as much noise as it takes.

    Each step of the search is told up to which share of the whole it goes.
    """

    def __init__(
        self, problem: Problem, settings: Settings, rng: np.random.Generator, tell: _Teller
    ) -> None:
        self.problem, self.settings, self.rng, self.tell = problem, settings, rng, tell
        self.found: list[Judged] = []
        self.done = 0.0

    @property
    def best(self) -> Judged:
        return max(self.found, key=lambda each: each.merit)

    def is_over(self) -> bool:
        """Tell whether to stop before the next climb."""
        return self.tell.stopped or self.tell.part(self.found, self.done, 0.0)(0.0)

    def take_best(self) -> list[list[Floats]]:
        best = sorted(self.found, key=lambda each: -each.merit)
        return [each.tables for each in best[:_HOPPED]]

    def climb(
        self,
        starts: Sequence[Sequence[Floats]],
        steps: int,
        until: float,
        prices: Sequence[float] | None = None,
        *,
        near: bool = False,
    ) -> None:
        """Climb, and keep where climbs end; if time is over, a start where nothing was found."""
        if self.is_over():
            some = [] if self.found else starts[:1]
            self.keep([self.problem.above_floors(start) for start in some])
        else:
            self.keep(self._climb(starts, steps, until, prices, near=near))

    def keep(self, tables: Sequence[Sequence[Floats]]) -> None:
        """Keep tables, with as much noise as it takes."""
        halvings = _HALVINGS_IN_HASTE if self.tell.stopped else HALVINGS
        self.found += [settle(self.problem, list(each), halvings) for each in tables]

    def screen(self, until: float) -> list[list[Floats]]:
        """Climb a little from many starts, and return what got furthest.

        Where little stands in the way of the best tables, those solved for are better than what
        climbs on drawn outputs end with: the best of them is kept as it is.
        """
        problem, model = self.problem, self.problem.model
        count, kept = _count_starts(problem, self.settings)
        over = self.is_over()
        solved = find_starts(model, self.settings.n_symbols, WAYS[: 1 if over else count])
        starts = solved = [problem.above_floors(tables) for tables in solved]
        self.keep(solved if over else self._furthest(solved, 1))
        if self.is_over():
            return []
        while len(starts) < count:
            starts = [*starts, draw_start(model, self.settings.n_symbols, self.rng)]
        for steps, left in ((STEPS // 12, max(count // 4, kept)), (STEPS // 6, kept)):
            ended = self._climb(starts, steps, 0.5 * (self.done + until))
            starts = self._furthest(ended, left)
            if self.tell.stopped:
                self.keep(starts[:1])
                break
        return starts[:kept]

    def hop(self, until: float) -> None:
        """Climb from tables near the best so far, and go on from what got furthest."""
        if self.tell.stopped:
            return
        best = self.take_best()
        starts = [hop_from(best[k % len(best)], self.rng) for k in range(_HOPS_EACH)]
        ended = self._climb(starts, STEPS, until)
        self.keep(self._furthest(ended, _HOPPED))

    def _climb(
        self,
        starts: Sequence[Sequence[Floats]],
        steps: int,
        until: float,
        prices: Sequence[float] | None = None,
        *,
        near: bool = False,
    ) -> list[list[Floats]]:
        part = self.tell.part(self.found, self.done, until - self.done)
        self.done = until
        return climb(self.problem, starts, self.rng, steps, part, prices, near=near)

    def _furthest(self, tables: Sequence[list[Floats]], count: int) -> list[list[Floats]]:
        found = sorted(map(self.problem.judge, tables), key=lambda each: -each.merit)
        return [each.tables for each in found[:count]]


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
    least = _FLOOR if target.epsilon is None else _FLOOR_FOR_EPSILON
    floors = [
        least if local is None else max(least, 1.0 / (math.exp(min(local, 700.0)) + n - 1))
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


@dataclass(frozen=True)
class Planned:
    """So many designs alike: ``part``, without some of the rows; ``near``, from known tables."""

    times: int
    part: bool
    near: bool


class CountDesign:
    """Designs on the counts of all rows but those left out.

    ``structure``, smoothing and blocks, is chosen once, without the rows that are left out for
    good. ``grouped``: whether rows may depend on one another. ``report``: told how far sensors have
    been looked at in pairs, and may end that.
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
        grouped: bool = False,
        report: Report | None = None,
    ) -> None:
        self.settings, self.counted, self.grouped = settings, counted, grouped
        self.beyond, self.evidence = beyond, evidence
        # By the rows left out, which outlive this: what they say, and what they might have said.
        self.models: dict[int, CountModel] = {}
        self.draws: dict[int, list[CountModel]] = {}
        self.counts: dict[int, Counts] = {}
        sample = self._some(for_good, PAIRED_ROWS, rng)
        counts = self._counts(for_good)

        def stop(done: float) -> bool:
            return report is not None and report(Progress("pairs", done))

        self.structure = find_structure(sample, counts, settings.n_symbols, stop)

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
        settings = self._effort(part=left_out is not None, near=bool(starts))
        draws = self._draws(left_out, target)
        return design_on_counts(
            settings, model, target, self.beyond, rng, starts, report,
            draws=draws, evidence=self.evidence,
        )  # fmt: skip

    def _effort(self, *, part: bool, near: bool) -> Settings:
        """Return how to search: less where it goes on from the last level, and of rounds."""
        if part and near:
            return _from_another_limit(self.settings)
        if part and self.evidence:
            return replace(self.settings, n_restarts=1)
        return self.settings

    def seconds(self, left_out: Ints | None, target: Target, planned: Sequence[Planned]) -> float:
        """Return about how long some designs take, by the time of a few steps.

        ``left_out``: the rows that one of them leaves out.
        """
        begin = time.thread_time()
        model = self._model(left_out, np.random.default_rng(0))
        draws = self._draws(left_out, target)
        rough = pose(self.settings, model, target, self.beyond, self.evidence)
        problem = rough
        if draws:
            problem = pose(self.settings, model, target, self.beyond, self.evidence, draws)
        (start,) = find_starts(model, self.settings.n_symbols, WAYS[:1])
        prepared = time.thread_time() - begin
        paces = {each: _Pace(each, start) for each in {rough, problem}}
        total = 0.0
        for each in planned:
            settings = self._effort(part=each.part, near=each.near)
            climbs = plan_climbs(rough, problem, settings, evidence=self.evidence, near=each.near)
            took = sum(paces[one].seconds(count, steps) for one, count, steps in climbs)
            # What is known of rows is found once, however many levels they are designed for.
            total += each.times * (took + prepared * (not (each.part and each.near)))
        return total

    def _model(self, left_out: Ints | None, rng: np.random.Generator) -> CountModel:
        """Return what all rows but some say, the same at every level."""
        if id(left_out) not in self.models:
            sample = self._some_joint(left_out, rng)
            counts = self._counts(left_out)
            self.models[id(left_out)] = estimate_counts(sample, counts, self.structure)
        return self.models[id(left_out)]

    def _draws(self, left_out: Ints | None, target: Target) -> list[CountModel]:
        """Return models that all rows but some might have shown, where that matters and is cheap.

        Draws take rows for independent; limits on many rounds allow for sampling errors already.
        """
        many = int(self._counts(left_out).cells.sum()) > _MOST_DRAWN_FROM
        if many or self.grouped or target.epsilon is not None:
            return []
        model = self._model(left_out, np.random.default_rng(0))
        problem = pose(self.settings, model, target, self.beyond, self.evidence)
        if not (_hops(problem) and _compares_few(problem)):
            return []
        if id(left_out) not in self.draws:
            rng = np.random.default_rng(0)
            sample = self._some_joint(left_out, rng)
            given = sample, self._counts(left_out), self.structure, rng
            self.draws[id(left_out)] = [estimate_counts(*given) for _ in range(_DRAWS)]
        return self.draws[id(left_out)]

    def _counts(self, left_out: Ints | None) -> Counts:
        if left_out is None:
            return self.counted.counts
        if id(left_out) not in self.counts:
            self.counts[id(left_out)] = self.counted.without(left_out)
        return self.counts[id(left_out)]

    def _some_joint(self, left_out: Ints | None, rng: np.random.Generator) -> Sample:
        """Return the rows that joint codes of blocks are counted in."""
        return self._some(left_out, self.structure.joint_rows if self.structure.blocks else 0, rng)

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
