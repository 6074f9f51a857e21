"""Designs at one level, without each part that is left out, and what that part shows of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from discreet.arrays import Ints
from discreet.design.answers import Answers, answer_unseen, finish_fusion, join
from discreet.design.expected import Expected, Request
from discreet.design.feasible import Designed, uniform_tables
from discreet.design.fusion import class_shares, fusion_rows
from discreet.design.inputs import Settings, Target
from discreet.design.leak_estimates import Leaks, average, estimate_leaks
from discreet.design.left_out import Parts
from discreet.design.overtime import Clock, FirstFew, Overtime
from discreet.design.raw_answers import answer_from_codes, raw_advantage, tree_rows
from discreet.design.risks import Tables
from discreet.design.training_rows import Sample
from discreet.leakage.exact import information_epsilon
from discreet.leakage.joint_outputs import output_probabilities
from discreet.mapping.parts import TableFusion
from discreet.progress import Progress, Report

_TO_SPARE = 1.25  # standard errors: the least strict of several levels that pass flatters itself
_OVER_DRAWS = 0.4  # of them, to the leak under models that allow for sampling errors themselves
_TO_SPARE_HIDDEN = 3.0  # the same where dependence is hidden, which attackers may not have learned
_TO_SPARE_IN_GROUPS = 1.6  # the same where groups are few, which tell the error roughly
_HURRIED_ROWS = 2_000  # that what is told at the end is learned from, once time is over


class Design(Protocol):
    """A way from rows to tables, without some of the rows; ``left_out`` numbers them."""

    def __call__(
        self,
        left_out: Ints | None,
        target: Target,
        *,
        rng: np.random.Generator,
        starts: Sequence[Tables] = (),
        report: Report | None = None,
    ) -> Designed: ...


@dataclass(frozen=True)
class Tried:
    """Designs at one level, one for each part left out, and what the parts showed.

    ``kept``: the share of symbols that are sent as designed; the others are drawn evenly.
    ``cut``: whether time was over before all was looked at, so that errors are infinite.
    """

    target: Target
    designs: list[Designed]
    leaks: Leaks
    epsilon: float | None
    kept: float = 1.0
    cut: bool = False

    @property
    def stopped(self) -> bool:
        return self.cut or any(designed.stopped for designed in self.designs)

    @property
    def under_model(self) -> float:
        """What leaks under the models that were designed on: hardly ever more than is true."""
        return max(designed.leak for designed in self.designs)

    def most(self, to_spare: float) -> float:
        """Return what leaks at most, on rows left out or under the model, with standard errors.

        Models that allow for sampling errors themselves need less to spare (``_OVER_DRAWS``).
        """
        error, over_draws = to_spare * self.leaks.error, all(d.over_draws for d in self.designs)
        under_model = self.under_model + (_OVER_DRAWS if over_draws else 1.0) * error
        return max(self.leaks.advantage + error, under_model)

    def keeps(self, request: Request, to_spare: float = _TO_SPARE) -> bool:
        """Tell whether rows left out show a request to be kept, with standard errors to spare."""
        most, shown = self.most(to_spare), not self.cut and np.isfinite(self.leaks.error)
        within = request.max_advantage is None or bool(shown and most <= request.max_advantage)
        limit = request.epsilon
        return within and (limit is None or self.epsilon is None or self.epsilon <= limit)


def first_kept(tried: Iterable[Tried], request: Request, to_spare: float) -> Tried | None:
    """Return the first that keeps a request with so many standard errors to spare, if any."""
    return next((each for each in tried if each.keeps(request, to_spare)), None)


def telling(designs: Sequence[Designed]) -> range:
    """Return which designs tell of the mapping: all, or the first if a stop cut any short."""
    return range(1 if any(designed.stopped for designed in designs) else len(designs))


class LevelTrials:
    """Designs at one level after the other, each time without the same parts.

    ``beyond``: attackers know the public fact. ``blocks``: of sensors that depend given the facts.
    ``hidden``: dependence is (``attacker_views``), so that attackers learn, too, and more has to be
    to spare. ``n_jobs``: designs at the same time.
    """

    def __init__(
        self,
        settings: Settings,
        sample: Sample,
        groups: Ints | None,
        parts: Parts,
        design: Design,
        rng: np.random.Generator,
        *,
        beyond: bool = False,
        blocks: Sequence[tuple[int, ...]] = (),
        hidden: bool = False,
        report: Report | None = None,
        n_jobs: int = 1,
    ) -> None:
        self.blocks, self.hidden = blocks, hidden
        self.settings, self.sample, self.groups, self.design = settings, sample, groups, design
        self.rng, self.beyond, self.report, self.n_jobs = rng, beyond, report, n_jobs
        self.left_out = parts
        self.few_groups = None if parts.for_good else groups
        self.to_spare = _errors_to_spare(hidden, self.few_groups)
        self.seeds = rng.integers(2**63, size=len(parts.folds))
        self.parts = [(sample.take(known), sample.take(unseen)) for known, unseen in parts.folds]
        self.last: dict[int, Tables] = {}
        self.tried: dict[Target, Tried] = {}
        self.best: Tried | None = None  # of those that keep what was asked
        self.planned, self.done = 1, 0.0
        self.reported = Progress("search", 0.0, keeps=True)  # last
        self.hurried = False
        self.overtime = Overtime(self._is_over)
        self.ended = False  # before all levels were tried that were to be, as time was over
        self.noise_cut = False  # whether time was over before levels with noise were looked at

    def try_level(self, target: Target) -> Tried:
        """Design without each part in turn, and look at what is left out."""
        if target not in self.tried:
            design, parts = partial(self._design_part, target), range(len(self.parts))
            with ThreadPoolExecutor(self.n_jobs) as pool:  # starts no thread that has no work
                run = map if self.n_jobs == 1 else pool.map
                self.tried[target] = self.look_at(target, list(run(design, parts)))
        return self.tried[target]

    def look_at(self, target: Target, designs: list[Designed], kept: float = 1.0) -> Tried:
        """Look at what is left out, by designs at a level."""
        parts, over = telling(designs), Clock(self.overtime)
        leaks = average([self._leaks(designs[k].tables, k, over) for k in parts])
        epsilon = None
        if target.epsilon is not None and self.settings.lists_outputs:
            ratios = [_ratio(designs[k].tables, self.parts[k][1], self.beyond) for k in parts]
            epsilon = float(np.mean(ratios))
        return Tried(target, designs, leaks, epsilon, kept, over.struck)

    def seconds_to_look(self) -> float:
        """Return about how long looking at the rows left out takes, for one level."""
        if not self.parts:
            return 0.0
        tables, first = uniform_tables(self.sample.sizes, self.settings.n_symbols), FirstFew()
        self._leaks(tables, 0, first)
        return len(self.parts) * first.seconds_for_all()

    def _leaks(self, tables: Tables, k: int, over: Callable[[], bool]) -> Leaks:
        own = None if self.groups is None else self.groups[self.left_out.folds[k][1]]
        return estimate_leaks(
            tables, *self.parts[k], own,
            beyond=self.beyond, blocks=self.blocks, hidden=self.hidden, over=over,
        )  # fmt: skip

    def _is_over(self) -> bool:
        """Tell whether time is over."""
        return self.report is not None and self.report(self.reported)

    def _design_part(self, target: Target, k: int) -> Designed:
        designed = self.design(
            self.left_out.folds[k][1],
            target,
            rng=np.random.default_rng(self.seeds[k]),
            starts=[self.last[k]] if k in self.last else [],
            report=self._report_part(k),
        )
        self.last[k] = designed.tables
        return designed

    def design_all(
        self, target: Target, starts: Sequence[Tables] = (), kept: float = 1.0
    ) -> Designed:
        """Design on all rows that designs may see; ``kept``: as of ``Tried``."""
        designed = self.design(None, target, rng=self.rng, starts=starts, report=self.report)
        return self.finish(designed, kept)

    def finish(self, designed: Designed, kept: float = 1.0) -> Designed:
        """Return a design on all rows with its fusion rule; ``kept``: as of ``Tried``."""
        return self._with_fusion(mixed(designed, kept), self.sample, self.rng)

    def _with_fusion(self, designed: Designed, known: Sample, rng: np.random.Generator) -> Designed:
        most = self._at_most(fusion_rows(self.settings.n_symbols))
        fusion = finish_fusion(self.settings, designed.tables, designed.fusion, known, rng, most)
        return replace(designed, fusion=fusion)

    def _at_most(self, usual: int) -> int:
        """Return how many rows what is left to do may learn from: few if time is over."""
        over = self.report is not None and self.report(Progress("estimate", 0.99, keeps=True))
        return _HURRIED_ROWS if over else usual

    def _raw_rows(self) -> int:
        """Return how many rows what raw readings tell may be learned from."""
        usual = tree_rows(len(self.sample.sizes))
        most = self._at_most(usual)
        self.hurried |= most != usual
        return most

    def _report_part(self, k: int) -> Report | None:
        """Return a report that counts the design of one part as a share of the whole search."""
        report = self.report
        if report is None:
            return None

        def tell(progress: Progress) -> bool:
            done = len(self.tried) + (k + progress.done) / len(self.parts)
            self.done = share = max(self.done, min(done / self.planned, 0.99))
            if self.best is not None:
                progress = replace(progress, leak=self.best.leaks.advantage)
            # Whatever has been designed so far keeps its limit on the rows it was designed on.
            self.reported = replace(progress, phase="search", done=share, keeps=True)
            return report(self.reported)

        return tell

    @cached_property
    def _raw_answers(self) -> Answers:
        most = self._raw_rows()
        folds = self.left_out.folds[: 1 if self.hurried else None]
        return answer_from_codes(self.sample, folds, self.settings.aim, int(self.seeds[0]), most)

    @cached_property
    def _raw_advantage(self) -> float:
        return raw_advantage(
            *self.parts[0], beyond=self.beyond, hidden=self.hidden, most=self._raw_rows()
        )

    def _expect(self, tried: Tried, met: bool | None, asked: float | None = None) -> Expected:
        """Return what rows left out show of the designs at one level."""
        sample, groups, folds = self.sample, self.groups, self.left_out.folds
        answers, parts = [], telling(tried.designs)
        for k in parts:
            known, unseen = self.parts[k]
            rng = np.random.default_rng([int(self.seeds[k]), 1])
            designed = self._with_fusion(tried.designs[k], known, rng)
            tried.designs[k] = designed
            assert designed.fusion is not None
            answers.append(answer_unseen(designed.fusion, designed.tables, unseen, rng))
        joined = join(answers)
        order = np.concatenate([folds[k][1] for k in parts])
        low, high = joined.interval(None if groups is None else groups[order])
        raw, leaked = self._raw_answers, self._raw_advantage
        return Expected(
            advantage=tried.leaks.advantage,
            # With noise added less leaks than that.
            model_advantage=tried.under_model if tried.kept == 1.0 else 0.0,
            advantage_error=tried.leaks.error,
            raw_advantage=leaked,
            epsilon=tried.epsilon,
            public_error=joined.error,
            balanced_accuracy=joined.balanced_accuracy,
            balanced_low=low,
            balanced_high=high,
            decided=tuple(joined.shares.tolist()),
            guessing_error=1.0 - float(class_shares(sample.public).max()),
            raw_error=raw.error,
            raw_balanced_accuracy=raw.balanced_accuracy,
            folds=len(folds),
            met=met,
            asked=asked,
            evidence=tried.leaks.evidence,
            kept=tried.kept,
            hurried=self.hurried,
        )


def _errors_to_spare(hidden: bool, few_groups: Ints | None) -> float:
    if hidden:
        return _TO_SPARE_HIDDEN
    return _TO_SPARE if few_groups is None else _TO_SPARE_IN_GROUPS


def mixed(designed: Designed, kept: float) -> Designed:
    """Return the design whose symbols are sent with a probability, and else drawn evenly."""
    if kept == 1.0:
        return designed
    tables = [kept * table + (1.0 - kept) / table.shape[1] for table in designed.tables]
    fusion = designed.fusion
    if isinstance(fusion, TableFusion):
        fusion = fusion.with_noise(kept, [table.shape[1] for table in tables])
    else:
        fusion = None  # to be learned from the noisy symbols
    return replace(designed, tables=tables, fusion=fusion)


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
