"""The search for a level: which limit under the model delivers what was asked for.

Each level is a share of what was asked for, taken as the limit under the model; rows left out tell
what it delivers. Of many rows some are left out for good: the tables designed without them are the
ones that are kept, and what is told of them is true of these very tables. Of few rows, each fold is
left out in turn, and the tables kept are designed on all rows, at the level that the folds chose.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from discreet.arrays import Ints
from discreet.design.answers import answer_from_codes, answer_unseen, finish_fusion, join
from discreet.design.calibration import Expected, Request
from discreet.design.counts.counting import CountedRows, Counts
from discreet.design.counts.design import design_on_counts
from discreet.design.counts.estimate import estimate_counts, find_structure
from discreet.design.deciding import class_shares
from discreet.design.feasible import uniform_tables
from discreet.design.folds import Fold, Sample, split_folds
from discreet.design.leaks import Leaks, average, estimate_leaks
from discreet.design.problem import Settings, Target
from discreet.design.results import Designed
from discreet.design.risks import Tables
from discreet.errors import InputError
from discreet.leakage.exact import information_epsilon
from discreet.leakage.joint_outputs import output_probabilities
from discreet.progress import Progress, Report

MANY_ROWS = 8_000
"""From so many on, some rows are left out for good."""
MANY_GROUPS = 100
"""From so many groups on, likewise."""
_LEFT_OUT, _MOST_LEFT_OUT = 3, 20_000  # one in so many, and so many at most
_FOLDS_DRAWN = 3  # at most, where outputs are drawn, which takes longer
SHARES = (0.95, 0.8, 0.65, 0.5, 0.35, 0.22, 0.12, 0.06)
_TO_SPARE = 1.25  # standard errors: the least strict of several levels that pass flatters itself
_ALTERNATIVES, _APART = 3, 0.01  # so many levels, and so much more leak from one to the next
_FIRST = 2  # of these: where the search begins


@dataclass(frozen=True)
class Tried:
    """Designs at one level, one for each part left out, and what the parts showed."""

    target: Target
    designs: list[Designed]
    leaks: Leaks
    epsilon: float | None

    @property
    def stopped(self) -> bool:
        return any(designed.stopped for designed in self.designs)

    @property
    def under_model(self) -> float:
        """What leaks under the models that were designed on: hardly ever more than is true."""
        return max(0.5 - float(designed.private_risks.min()) for designed in self.designs)


@dataclass(frozen=True)
class Found:
    """The level to take, what to expect of it, and the tables and the fusion rule to keep."""

    target: Target
    expected: Expected | None
    designed: Designed


class LevelSearch:
    """Designs at one level after the other, on fixed folds."""

    def __init__(
        self,
        settings: Settings,
        counted: CountedRows,
        rng: np.random.Generator,
        *,
        n_folds: int,
        beyond: bool = False,
        evidence: bool = False,
        report: Report | None = None,
        n_jobs: int = 1,
    ) -> None:
        self.settings, self.counted, self.rng = settings, counted, rng
        self.n_jobs = n_jobs
        self.beyond, self.evidence, self.report = beyond, evidence, report
        sample = counted.sample
        # Of what one of many rounds may tell, rows left out show nothing: all are designed on.
        self.for_good = not evidence and _has_many(sample, counted.groups)
        if self.for_good:
            n_folds = max(_LEFT_OUT, -(-len(sample.codes) // _MOST_LEFT_OUT))
        elif not settings.lists_outputs:
            n_folds = min(n_folds, _FOLDS_DRAWN)
        self.folds, self.too_few = self._split(n_folds)
        self.seeds = rng.integers(2**63, size=len(self.folds))
        self.parts = [(sample.take(known), sample.take(unseen)) for known, unseen in self.folds]
        known, counts = sample, counted.counts
        if self.for_good:
            known, counts = self.parts[0][0], counted.without(self.folds[0][1])
        self.structure = find_structure(known, counts, settings.n_symbols, rng)
        self.last: dict[int, Tables] = {}
        self.tried: dict[Target, Tried] = {}
        self.best: Tried | None = None  # of those that keep what was asked

    def _split(self, n_folds: int) -> tuple[list[Fold], InputError | None]:
        """Return what is left out in turn, or why nothing can be."""
        try:
            folds = split_folds(self.counted.sample, n_folds, self.counted.groups, self.rng)
        except InputError as error:
            self.for_good = False
            return [], error
        return folds[:1] if self.for_good else folds, None

    def take(self, target: Target) -> Found:
        """Return the design for one level, without a search."""
        if self.too_few is not None:
            return Found(target, None, self._design_all(target))
        return self._found(self.try_level(target), met=None)

    def find(self, levels: Sequence[Target], request: Request) -> Found:
        """Return the least strict of levels, which rise in strictness, that keeps a request."""
        if self.too_few is not None:
            raise self.too_few
        low, high, kept = 0, len(levels), None
        middle = min(_FIRST, high - 1)
        while low < high:
            tried = self.try_level(levels[middle])
            if _keeps(tried, request):
                kept, high = tried, middle
                self.best = tried
            else:
                low = middle + 1
            if tried.stopped:
                break
            middle = (low + high) // 2
        if kept is None:
            return self._found_none(request)
        return self._found(kept, met=True)

    def look_for_use(self, levels: Sequence[Target]) -> list[Expected]:
        """Return what to expect of the first levels that are of use, three at most."""
        found: list[Expected] = []
        for level in levels:
            tried = self.try_level(level)
            expected = self._expect(tried, met=None)
            last = found[-1].advantage_with_error if found else 0.0
            if expected.useful and expected.advantage_with_error > last + _APART:
                found.append(expected)
            if len(found) == _ALTERNATIVES or tried.stopped:
                break
        return found

    def _found_none(self, request: Request) -> Found:
        """Take the strictest level that was tried; say nothing if even that surely leaks more."""
        strictest = list(self.tried.values())[-1]
        asked = request.max_advantage
        if asked is not None and strictest.leaks.low > asked:
            return self._silent(strictest.target)
        return self._found(strictest, met=_keeps(strictest, request))

    def _found(self, tried: Tried, met: bool | None) -> Found:
        expected = self._expect(tried, met)
        designed = tried.designs[0]
        if not self.for_good:
            designed = self._design_all(tried.target, [designed.tables])
        stopped = designed.stopped or any(each.stopped for each in self.tried.values())
        return Found(tried.target, expected, replace(designed, stopped=stopped))

    def _design_all(self, target: Target, starts: Sequence[Tables] = ()) -> Designed:
        sample, counts = self.counted.sample, self.counted.counts
        designed = self._design(sample, counts, target, self.rng, starts)
        return self._with_fusion(designed, sample, self.rng)

    def _silent(self, target: Target) -> Found:
        tables = uniform_tables(self.counted.sample.sizes, self.settings.n_symbols)
        designs = [Designed(tables, float("nan"), np.empty(0), np.empty(0))] * len(self.folds)
        leaks = Leaks(np.zeros(1), np.zeros(1), np.zeros(1))
        expected = self._expect(Tried(target, designs, leaks, None), met=False)
        designed = self._with_fusion(designs[0], self.counted.sample, self.rng)
        return Found(target, replace(expected, silent=True), designed)

    def try_level(self, target: Target) -> Tried:
        """Design without each fold in turn, and look at what is left out."""
        if target not in self.tried:
            parts = range(len(self.folds))
            with ThreadPoolExecutor(self.n_jobs) as pool:
                designs = list(pool.map(partial(self._design_part, target), parts))
            leaks = average([self._leaks(designs[k].tables, k) for k in parts])
            epsilon = None
            if target.epsilon is not None and self.settings.lists_outputs:
                ratios = [_ratio(designs[k].tables, self.parts[k][1], self.beyond) for k in parts]
                epsilon = float(np.mean(ratios))
            self.tried[target] = Tried(target, designs, leaks, epsilon)
        return self.tried[target]

    def _leaks(self, tables: Tables, k: int) -> Leaks:
        groups = self.counted.groups
        own = None if groups is None else groups[self.folds[k][1]]
        return estimate_leaks(tables, *self.parts[k], own, beyond=self.beyond)

    def _design_part(self, target: Target, k: int) -> Designed:
        counts = self.counted.without(self.folds[k][1])
        rng = np.random.default_rng(self.seeds[k])
        starts = [self.last[k]] if k in self.last else []
        designed = self._design(self.parts[k][0], counts, target, rng, starts, k)
        self.last[k] = designed.tables
        return designed

    def _design(
        self,
        known: Sample,
        counts: Counts,
        target: Target,
        rng: np.random.Generator,
        starts: Sequence[Tables] = (),
        part: int | None = None,
    ) -> Designed:
        model = estimate_counts(known, counts, self.structure, rng)
        report = self.report if part is None else self._report_part(part)
        settings = self.settings
        if starts and part is not None:  # it goes on from the last level
            settings = replace(settings, n_restarts=1 if settings.lists_outputs else 0)
        elif self.evidence and part is not None:
            settings = replace(settings, n_restarts=1)
        return design_on_counts(
            settings, model, target, self.beyond, rng, starts, report, evidence=self.evidence
        )

    def _with_fusion(self, designed: Designed, known: Sample, rng: np.random.Generator) -> Designed:
        fusion = finish_fusion(self.settings, designed.tables, designed.fusion, known, rng)
        return replace(designed, fusion=fusion)

    def _report_part(self, k: int) -> Report | None:
        """Return a report that counts the design of one part as a share of the whole search."""
        report, levels = self.report, 1 + int(np.ceil(np.log2(len(SHARES))))
        if report is None:
            return None

        def tell(progress: Progress) -> bool:
            done = len(self.tried) + (k + progress.done) / len(self.folds)
            share = min(done / levels, 0.99)
            if self.best is not None:
                progress = replace(progress, leak=self.best.leaks.advantage)
            # Whatever has been designed so far keeps its limit under the model.
            return report(replace(progress, phase="search", done=share, keeps=True))

        return tell

    def _expect(self, tried: Tried, met: bool | None) -> Expected:
        """Return what rows left out show of the designs at one level."""
        sample, groups = self.counted.sample, self.counted.groups
        answers = []
        for k, (known, unseen) in enumerate(self.parts):
            rng = np.random.default_rng([int(self.seeds[k]), 1])
            designed = self._with_fusion(tried.designs[k], known, rng)
            tried.designs[k] = designed
            assert designed.fusion is not None
            answers.append(answer_unseen(designed.fusion, designed.tables, unseen, rng))
        joined = join(answers)
        order = np.concatenate([held for _, held in self.folds])
        low, high = joined.interval(None if groups is None else groups[order])
        raw = answer_from_codes(sample, self.folds, self.settings.aim, int(self.seeds[0]))
        return Expected(
            advantage=tried.leaks.advantage,
            advantage_error=tried.leaks.error,
            epsilon=tried.epsilon,
            epsilon_error=None if tried.epsilon is None else 0.0,
            public_error=joined.error,
            balanced_accuracy=joined.balanced_accuracy,
            balanced_low=low,
            balanced_high=high,
            decided=tuple(joined.shares.tolist()),
            guessing_error=1.0 - float(class_shares(sample.public).max()),
            raw_error=raw.error,
            raw_balanced_accuracy=raw.balanced_accuracy,
            folds=len(self.folds),
            met=met,
        )


def _has_many(sample: Sample, groups: Ints | None) -> bool:
    many = len(sample.codes) >= MANY_ROWS
    return many and (groups is None or len(np.unique(groups)) >= MANY_GROUPS)


def _keeps(tried: Tried, request: Request) -> bool:
    """Tell whether rows left out show a request to be kept, with more than one standard error."""
    most = max(tried.leaks.advantage, tried.under_model) + _TO_SPARE * tried.leaks.error
    within = request.max_advantage is None or most <= request.max_advantage
    limit = request.epsilon
    return within and (limit is None or tried.epsilon is None or tried.epsilon <= limit)


def _ratio(tables: Tables, unseen: Sample, beyond: bool) -> float:
    """Return max |log p(g|z)/p(g)| among rows left out."""
    outputs, found = output_probabilities(tables, unseen.codes), 0.0
    for h in range(unseen.public.n_classes) if beyond else [None]:
        inside = np.full(len(outputs), True) if h is None else unseen.public.index == h
        for fact in unseen.private:
            counts = np.bincount(fact.index[inside])
            there = np.flatnonzero(counts)
            means = [outputs[inside & (fact.index == k)].mean(axis=0) for k in there]
            found = max(found, information_epsilon(np.stack(means), counts[there] / counts.sum()))
    return found
