"""The search for a level: which limit on the rows of a design delivers what was asked for.

One search for all methods. Levels rise in strictness; rows left out tell what each delivers. Of
many rows some are left out for good: the tables designed without them are the ones that are kept,
and what is said of them is true of these very tables. Of few rows, each fold is left out in turn,
and the tables kept are designed on all rows, at the level that the folds chose.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Mapping as Dict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from discreet.arrays import Ints
from discreet.design.answers import Answers, answer_unseen, finish_fusion, join
from discreet.design.expected import Expected, Request, Shortfall
from discreet.design.feasible import Designed, uniform_tables
from discreet.design.fusion import class_shares, fusion_rows
from discreet.design.inputs import Settings, Target
from discreet.design.leak_estimates import Leaks, average, estimate_fitted_leaks, estimate_leaks
from discreet.design.raw_answers import answer_from_codes, raw_advantage, tree_rows
from discreet.design.risks import Tables
from discreet.design.training_rows import Fold, Sample, split_folds
from discreet.errors import InputError
from discreet.leakage.exact import information_epsilon
from discreet.leakage.joint_outputs import output_probabilities
from discreet.mapping.parts import TableFusion
from discreet.progress import Progress, Report

MANY_ROWS = 8_000
"""From so many on, some rows are left out for good."""
MANY_DEPENDENT_ROWS = 1_500
"""From so many on where dependence is hidden, or rows come in groups: no design knows what it
tells there, and two may leak quite different amounts, so that the very tables have to be tried."""
MANY_GROUPS = 100
"""Of rows in groups, from so many groups on only."""
LEFT_OUT, MOST_LEFT_OUT = 3, 20_000  # one in so many, and so many at most
_FOLDS_DRAWN = 3  # at most, where outputs are drawn, which takes longer
_GROUPS_EACH = 5  # of every class, for each fold: it is pairs of groups that show a leak
_TO_SPARE = 1.25  # standard errors: the least strict of several levels that pass flatters itself
_OVER_DRAWS = 0.4  # of them, to the leak under models that allow for sampling errors themselves
_TO_SPARE_HIDDEN = 3.0  # the same where dependence is hidden, which attackers may not have learned
_TO_SPARE_IN_GROUPS = 1.6  # the same where groups are few, which tell the error roughly
_OVERTIME = 2.0  # seconds that looking at levels may take, all together, after time is over
_ASKED_SECONDS = 0.2  # between two questions whether it is, at least
# The same where nothing is shown, of levels as they are and with noise added, and shares of symbols
# to send, the others drawn evenly: docs/decisions/0024-one-search.md
_LIKELY, _LIKELY_NOISY = 1.0, 0.5
_KEPT = (0.75, 0.5, 0.35, 0.2)
# Percent to send where groups are few: docs/decisions/0031-noise-for-few-groups.md
_PERCENT_KEPT = range(20, 81)
_FEW_SECONDS = 0.05  # that may be spent to tell how long looking at a level takes
_ALTERNATIVES = 3  # so many limits at most that would leave something of use
_HURRIED_ROWS = 2_000  # that what is told at the end is learned from, once time is over
_FIRST = 2  # of the levels: where the search begins


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
class Parts:
    """What is left out in turn, or for good; ``too_few`` says why nothing can be."""

    folds: list[Fold] = field(default_factory=list)
    for_good: bool = False
    too_few: InputError | None = None

    @property
    def left_out(self) -> Ints | None:
        """The rows that no design ever sees."""
        return self.folds[0][1] if self.for_good else None


def leave_out(
    sample: Sample,
    groups: Ints | None,
    rng: np.random.Generator,
    *,
    n_folds: int,
    listed: bool = True,
    for_good: bool = True,
    hidden: bool = False,
) -> Parts:
    """Choose which rows to leave out.

    ``listed``: whether outputs are few enough to be listed. ``for_good``: whether rows may be left
    out for good, where they are many. ``hidden``: whether dependence is; fewer are then many.
    """
    for_good = for_good and has_many(sample, groups, hidden=hidden)
    if for_good:
        n_folds = max(LEFT_OUT, -(-len(sample.codes) // MOST_LEFT_OUT))
    elif groups is not None:
        n_folds = min(n_folds, max(2, _fewest_groups(sample, groups) // _GROUPS_EACH))
    if not (listed or for_good):
        n_folds = min(n_folds, _FOLDS_DRAWN)
    try:
        folds = split_folds(sample, n_folds, groups, rng)
    except InputError as error:
        return Parts(too_few=error)
    return Parts(folds[:1] if for_good else folds, for_good)


def _fewest_groups(sample: Sample, groups: Ints) -> int:
    """Return how many groups the class has that is in fewest of them."""
    return min(
        len(np.unique(groups[fact.index == k]))
        for fact in sample.facts
        for k in range(fact.n_classes)
    )


def has_many(sample: Sample, groups: Ints | None, *, hidden: bool) -> bool:
    """Tell whether rows are so many, and groups enough, that some may be left out for good."""
    if groups is not None and len(np.unique(groups)) < MANY_GROUPS:
        return False
    depends = hidden or groups is not None
    return len(sample.codes) >= (MANY_DEPENDENT_ROWS if depends else MANY_ROWS)


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


def _telling(designs: Sequence[Designed]) -> range:
    """Return which designs tell of the mapping: all, or the first if a stop cut any short."""
    return range(1 if any(designed.stopped for designed in designs) else len(designs))


@dataclass(frozen=True)
class Found:
    """The level to take, what to expect of it, and the tables and the fusion rule to keep."""

    target: Target
    expected: Expected | None
    designed: Designed


class _Overtime:
    """Tells whether looking has to end: a while after time is over, for all levels together."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self.is_over, self.next, self.end = is_over, -np.inf, np.inf

    def __call__(self) -> bool:
        now = time.monotonic()
        if self.end == np.inf and now >= self.next:
            self.next = now + _ASKED_SECONDS
            self.end = now + _OVERTIME if self.is_over() else np.inf
        return now > self.end


class _Clock:
    """Passes on whether looking has to end, and remembers whether it had to."""

    def __init__(self, has_to_end: Callable[[], bool]) -> None:
        self.has_to_end, self.struck = has_to_end, False

    def __call__(self) -> bool:
        self.struck = self.struck or self.has_to_end()
        return self.struck


class _FirstFew:
    """Lets a few questions be answered, which tell how long all of them take.

    The first finds what all others need, too, so that two are answered at least.
    """

    def __init__(self) -> None:
        self.asked: list[float] = []  # when, as long as questions were answered
        self.begin = time.thread_time()
        self.count = 0

    def __call__(self) -> bool:
        now, self.count = time.thread_time(), self.count + 1
        if len(self.asked) > 2 and now > self.begin + _FEW_SECONDS:
            return True
        self.asked.append(now)
        return False

    def seconds_for_all(self) -> float:
        """Return about how long all questions would have taken."""
        if self.count == len(self.asked):
            return time.thread_time() - self.begin
        first, *_, last = self.asked[1:]
        return first - self.begin + (last - first) / (len(self.asked) - 2) * (self.count - 1)


class LevelSearch:
    """Designs at one level after the other, each time without the same parts.

    ``beyond``: attackers know the public fact. ``blocks``: of sensors that depend given the facts.
    ``hidden``: dependence is (``leak_estimates``), so
    that attackers learn, too, and more has to be to spare. ``n_jobs``: designs at the same time.
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
        self.overtime = _Overtime(self._is_over)
        self.ended = False  # before all levels were tried that were to be, as time was over
        self.noise_cut = False  # whether time was over before levels with noise were looked at

    def take(self, target: Target) -> Found:
        """Return the design for one level, without a search."""
        if self.left_out.for_good:
            return self._found(self.try_level(target), met=None)
        designed = self._design_all(target)
        if not self.parts or designed.stopped:
            return Found(target, None, designed)
        return Found(target, self._expect(self.try_level(target), met=None), designed)

    def find(self, levels: Sequence[Target], request: Request) -> Found:
        """Return the least strict of levels, which rise in strictness, that keeps a request."""
        if self.left_out.too_few is not None:
            raise self.left_out.too_few
        self.planned = 1 + int(np.ceil(np.log2(len(levels))))
        kept = self._least_strict(levels, request, first=True)
        if kept is None:
            found = self._found_none(request)
            return replace(found, expected=self._explained(found.expected, request))
        return self._found(kept, met=True, asked=request.max_advantage)

    def _least_strict(
        self, levels: Sequence[Target], request: Request, *, first: bool = False
    ) -> Tried | None:
        """Return the least strict of levels that keeps a request; ``first``: that of the user."""
        low, high, kept = 0, len(levels), None
        middle = min(_FIRST, high - 1)
        while low < high:
            tried = self.try_level(levels[middle])
            if tried.keeps(request, self.to_spare):
                kept, high = tried, middle
                self.best = tried if first else self.best
            else:
                low = middle + 1
            if tried.stopped or (low < high and self._ends()):
                break
            middle = _next_level(
                levels, low, high, tried.target, tried.most(self.to_spare), request
            )
        return kept

    def look_for_use(self, limits: Dict[float, Sequence[Target]]) -> list[Expected]:
        """Return what to expect under the first limits that leave something of use, three at most.

        Of use is what is surely better than guessing and keeps a fifth of what raw readings gain.
        ``limits``: on the advantage, each with its levels, which rise in strictness: of these the
        one is taken that ``find`` would take. A search that was stopped tells nothing of its limit,
        and none begins once time is over. What was tried before is forgotten.
        """
        found: list[Expected] = []
        for limit, levels in limits.items():
            if self._ends():
                break
            expected = self._of_use(limit, levels)
            if self._stopped:
                break
            if expected is not None:
                found.append(expected)
            if len(found) == _ALTERNATIVES:
                break
        return found

    def _of_use(self, limit: float, levels: Sequence[Target]) -> Expected | None:
        """Return what to expect under a limit, if that is of use."""
        loosest = self.try_level(levels[0])
        if loosest.stopped or not self._expect(loosest, met=None).of_use:
            return None
        self.last.clear()  # a search for this limit begins without the tables of others
        self.tried.clear()
        kept = self._least_strict(levels, Request(limit))
        expected = None if kept is None else self._expect(kept, met=True, asked=limit)
        return expected if expected is not None and expected.of_use else None

    def _found_none(self, request: Request) -> Found:
        """Take the least strict level tried that keeps a request with one error to spare.

        Without one, add noise, and if little is left say nothing. But take the last level where an
        epsilon alone was asked for, whose estimate errs upwards, or where the search was stopped,
        unless it surely leaks more.
        """
        asked, last = request.max_advantage, list(self.tried.values())[-1]
        tried = sorted(self.tried.values(), key=lambda each: -each.under_model)
        if taken := _first_kept(tried, request, _LIKELY):
            return self._found(taken, met=False, asked=asked)
        if asked is None or (self._stopped and last.leaks.low <= asked):
            return self._found(last, met=False, asked=asked)
        if self.few_groups is not None:
            found = self._add_noise_in_groups(tried[-1], request, self.few_groups)
        else:
            found = self._add_noise(tried, request)
        return found or self._silent(last.target, asked)

    def _explained(self, expected: Expected | None, request: Request) -> Expected | None:
        """Return what is expected, with what the levels that were tried lacked."""
        if expected is None:
            return None
        tried = self.tried.values()
        seen = [each.epsilon for each in tried if each.epsilon is not None]
        shortfall = Shortfall(
            request,
            min(each.most(self.to_spare) for each in tried),
            min(seen, default=None),
            self.to_spare,
            expected.kept,
        )
        return replace(expected, shortfall=shortfall)

    def _add_noise(self, tried: Sequence[Tried], request: Request) -> Found | None:
        """Add noise to the level with the smallest estimate, until half an error is to spare."""
        least = min(tried, key=lambda each: each.leaks.advantage)
        noisy = (self._with_noise(least, kept) for kept in _KEPT)
        if taken := _first_kept(noisy, request, _LIKELY_NOISY):
            return self._found(taken, met=False, asked=request.max_advantage)
        return None

    def _add_noise_in_groups(self, tried: Tried, request: Request, groups: Ints) -> Found | None:
        """Add noise to the strictest level, until the tables to write keep a request.

        Designs without a fold have seen half of few groups, or little more, and leak more than
        tables designed on all of them. How much these may leak elsewhere is what all groups tell.
        """
        designed = self._design_all(tried.target, [tried.designs[0].tables])

        def leaks_more(percent: int) -> bool:
            return not self._noise_in_groups(tried, designed, percent, groups).keeps(request, 0.0)

        above = bisect_left(_PERCENT_KEPT, True, key=leaks_more)  # the more is kept, the more leaks
        if above == 0:
            return None
        # What is told of it is what rows left out show, as of every level.
        taken = self._with_noise(tried, _PERCENT_KEPT[above - 1] / 100)
        written = self._with_fusion(_mixed(designed, taken.kept), self.sample, self.rng)
        return self._found(taken, False, request.max_advantage, written)

    def _noise_in_groups(
        self, tried: Tried, designed: Designed, percent: int, groups: Ints
    ) -> Tried:
        """Return a level with noise, and the leak of tables designed on all rows."""
        noisy, over = self._with_noise(tried, percent / 100), _Clock(self.overtime)
        own = estimate_fitted_leaks(
            _mixed(designed, noisy.kept).tables, self.sample, groups,
            beyond=self.beyond, hidden=self.hidden, over=over,
        )  # fmt: skip
        self.noise_cut |= over.struck
        cut = noisy.cut or over.struck
        return replace(noisy, leaks=_in_other_groups(own, noisy.leaks), cut=cut)

    def _with_noise(self, tried: Tried, kept: float) -> Tried:
        designs = [_mixed(each, kept) for each in tried.designs]
        noisy = self._look_at(tried.target, designs, kept)
        self.noise_cut |= noisy.cut
        return noisy

    def _found(
        self,
        tried: Tried,
        met: bool | None,
        asked: float | None = None,
        written: Designed | None = None,
    ) -> Found:
        """Return a level with its tables, designed on all rows unless they are given.

        Once time is over they are those of the first design, which rows left out have tried.
        """
        expected = self._expect(tried, met, asked)
        designed, over = written or tried.designs[0], False
        if not self.left_out.for_good and written is None:
            over = self._is_over()
            if over and len(_telling(tried.designs)) == 1:
                expected = replace(expected, folds=1)  # of the very mapping
            if not over:
                begin = self.tried[tried.target].designs[0].tables
                designed = self._design_all(tried.target, [begin], tried.kept)
        stopped = over or designed.stopped or self._stopped
        return Found(tried.target, expected, replace(designed, stopped=stopped))

    def _design_all(
        self, target: Target, starts: Sequence[Tables] = (), kept: float = 1.0
    ) -> Designed:
        designed = self.design(None, target, rng=self.rng, starts=starts, report=self.report)
        return self._with_fusion(_mixed(designed, kept), self.sample, self.rng)

    def _silent(self, target: Target, asked: float) -> Found:
        tables = uniform_tables(self.sample.sizes, self.settings.n_symbols)
        designs = [Designed(tables, float("nan"), np.empty(0), np.empty(0))] * len(self.parts)
        leaks = Leaks(np.zeros(1), np.zeros(1), np.zeros(1))
        expected = self._expect(Tried(target, designs, leaks, None), met=False, asked=asked)
        designed = self._with_fusion(designs[0], self.sample, self.rng)
        designed = replace(designed, stopped=self._stopped)
        expected = replace(expected, silent=True, kept=0.0, noise_cut=self.noise_cut)
        return Found(target, expected, designed)

    def try_level(self, target: Target) -> Tried:
        """Design without each part in turn, and look at what is left out."""
        if target not in self.tried:
            design, parts = partial(self._design_part, target), range(len(self.parts))
            with ThreadPoolExecutor(self.n_jobs) as pool:  # starts no thread that has no work
                run = map if self.n_jobs == 1 else pool.map
                self.tried[target] = self._look_at(target, list(run(design, parts)))
        return self.tried[target]

    def _look_at(self, target: Target, designs: list[Designed], kept: float = 1.0) -> Tried:
        parts, over = _telling(designs), _Clock(self.overtime)
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
        tables, first = uniform_tables(self.sample.sizes, self.settings.n_symbols), _FirstFew()
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

    def _ends(self) -> bool:
        """Tell whether time is over for another level, and remember it."""
        self.ended = self.ended or self._is_over()
        return self.ended

    @property
    def _stopped(self) -> bool:
        """Whether time was over before all was tried, designed and looked at."""
        return self.ended or any(each.stopped for each in self.tried.values())

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
        answers, parts = [], _telling(tried.designs)
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


def _next_level(
    levels: Sequence[Target], low: int, high: int, tried: Target, most: float, request: Request
) -> int:
    """Return which of some levels to try next, after one that leaks so much.

    The first that would keep what was asked for if leaks were in proportion to what levels allow,
    or the middle one if that is not known.
    """
    asked = request.max_advantage
    if asked is None or tried.ratio is None or not 0.0 < most < np.inf:
        return (low + high) // 2
    allowed = (1.0 - tried.ratio) * asked / most
    for k in range(low, high):
        if (ratio := levels[k].ratio) is not None and 1.0 - ratio <= allowed:
            return k
    return max(low, high - 1)


def _in_other_groups(fitted: Leaks, folds: Leaks) -> Leaks:
    """Return what tables leak in groups that they were not fitted to, completed by folds.

    Folds tell what attackers see that learned, and what a distance is worth to all of them: fitted
    tables are flat and hardly show it.
    """
    told, shown = np.isfinite(fitted.distance), np.nan_to_num(folds.slope)
    return Leaks(
        np.where(told, fitted.distance, folds.distance),
        np.where(told, fitted.variance, folds.variance),
        np.where(told & (shown <= 0.0), fitted.slope, shown),
    )


def _first_kept(tried: Iterable[Tried], request: Request, to_spare: float) -> Tried | None:
    return next((each for each in tried if each.keeps(request, to_spare)), None)


def _mixed(designed: Designed, kept: float) -> Designed:
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
