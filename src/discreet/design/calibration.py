"""From a wish in words to a target, by designing on folds and attacking what was left out.

``max_advantage`` and ``epsilon`` speak of people the mapping has never seen. So for
each level of strictness the mapping is designed without one fold and then attacked on
that fold (``held_out``). The least strict level that keeps the wish with one standard
error to spare is taken; nothing less counts as met. Where no level is searched for, the
same is done once, with two folds, to tell what the mapping is worth. What comes out is an
estimate on held-out rows and no certificate: that takes an audit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from discreet.arrays import Ints
from discreet.design.answers import (
    Answers,
    answer_from_codes,
    answer_held_out,
    is_useful,
    join,
)
from discreet.design.deciding import class_shares
from discreet.design.feasible import uniform_tables
from discreet.design.folds import Fold, Sample, shuffle_private, split_folds
from discreet.design.held_out import Score, score_held_out
from discreet.design.problem import (
    Designer,
    Settings,
    Target,
    design_sample,
    is_large,
)
from discreet.design.results import Designed
from discreet.design.risks import Tables
from discreet.errors import StoppedError
from discreet.progress import Progress, Report

RATIO_LEVELS = (0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999)
EPSILON_LEVELS = (1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.12, 0.07, 0.03)  # shares of the limit
_FIRST_RESTARTS = 3  # random starts in a fold; later levels go on from the last one's tables
_SHUFFLES = 5  # of a fold's private facts, to see what chance does
# Most rows of the estimate where no level is searched for; more for large tables.
_ESTIMATE_ROWS, _LARGE_ESTIMATE_ROWS = 2000, 10_000


@dataclass(frozen=True)
class Request:
    """The wish: no attacker beats guessing by more, no log-ratio exceeds."""

    max_advantage: float | None = None
    epsilon: float | None = None

    def met_by(self, scores: Sequence[Score]) -> bool:
        """Tell whether held-out rows show the wish to be kept, with one standard error to spare.

        This is what ``met`` means everywhere. Where the outputs are too many to list, epsilon
        holds by construction and nothing is estimated.
        """
        return _is_within([score.advantage for score in scores], self.max_advantage) and _is_within(
            [score.epsilon for score in scores if score.epsilon is not None], self.epsilon
        )


def _is_within(values: Sequence[float], limit: float | None) -> bool:
    return limit is None or not values or sum(mean_and_error(values)) <= limit


@dataclass(frozen=True)
class Expected:
    """What held-out rows showed, with standard errors over folds.

    ``advantage``: the attacker's, over guessing, for the fact and pair of classes it does best on:
    the middle of two estimates, one that errs low and one that errs high. Where the outputs are too
    many to list, that of the strongest attacker tried. ``epsilon``: max |log p(g|z)/p(g)| with
    every output counted as seen; it errs upwards, is infinite where a certain row rules a class
    out, and None where the outputs are too many to list. ``public_error``: of the decisions of the
    fusion rule. ``balanced_accuracy``: the share of right decisions, averaged over the public
    classes. ``balanced_low``, ``balanced_high``: where it lies with a confidence of 95 %.
    ``decided``: how often each public class is decided. ``guessing_error``: the error of naming the
    most frequent public class always. The balanced accuracy of any guessing is
    ``guessing_balanced_accuracy``. ``raw_error``, ``raw_balanced_accuracy``: of a classifier that
    sees the codes of the readings themselves and decides likewise. ``met``: whether what was asked
    for is kept with one standard error to spare. None if there was no wish to search for.
    ``silent``: whether the mapping is constant, since no level was found that keeps what was asked.
    """

    advantage: float
    advantage_error: float
    epsilon: float | None
    epsilon_error: float | None
    public_error: float
    balanced_accuracy: float
    balanced_low: float
    balanced_high: float
    decided: tuple[float, ...]
    guessing_error: float
    raw_error: float
    raw_balanced_accuracy: float
    folds: int
    met: bool | None
    silent: bool = False

    @property
    def guessing_balanced_accuracy(self) -> float:
        """One over the number of public classes, whatever the guess."""
        return 1.0 / len(self.decided)

    @property
    def advantage_with_error(self) -> float:
        """The attacker's advantage with one standard error: what a request is held against."""
        return self.advantage + self.advantage_error

    @property
    def public_advantage(self) -> float:
        """Balanced accuracy of the fusion rule over guessing."""
        return self.balanced_accuracy - self.guessing_balanced_accuracy

    @property
    def useful(self) -> bool:
        """Whether the decisions are surely better than guessing, and not always the same."""
        return is_useful(self.balanced_low, self.decided)

    def as_dict(self) -> dict[str, float | None]:
        """Return what the mapping file records; JSON has no infinity."""
        endless = self.epsilon is not None and not np.isfinite(self.epsilon)
        return {
            "advantage": self.advantage,
            "advantage_standard_error": self.advantage_error,
            "epsilon": None if endless else self.epsilon,
            "epsilon_standard_error": self.epsilon_error,
            "public_error": self.public_error,
            "public_advantage": self.public_advantage,
            "balanced_accuracy": self.balanced_accuracy,
            "balanced_accuracy_low": self.balanced_low,
            "balanced_accuracy_high": self.balanced_high,
            "guessing_error": self.guessing_error,
            "guessing_balanced_accuracy": self.guessing_balanced_accuracy,
            "raw_error": self.raw_error,
            "raw_balanced_accuracy": self.raw_balanced_accuracy,
            "folds": float(self.folds),
            "met": None if self.met is None else float(self.met),
        }


def calibrate(
    settings: Settings,
    sample: Sample,
    request: Request,
    *,
    n_folds: int,
    groups: Ints | None,
    rng: np.random.Generator,
    report: Report | None = None,
    design: Designer = design_sample,
) -> tuple[Target, Expected]:
    """Find the least strict target that keeps the request on held-out folds."""
    short = replace(settings, n_restarts=_FIRST_RESTARTS)
    trial = Trial(short, sample, n_folds, groups, rng, report, design)
    target = Target(None)
    if request.epsilon is not None:
        limit = request.epsilon
        if not settings.lists_outputs:
            target = Target(None, limit)  # structural, holds by construction: nothing to search
        else:
            levels = [Target(None, share * limit) for share in EPSILON_LEVELS]
            alone = Request(epsilon=limit)
            found = least_strict(levels, lambda level: alone.met_by(trial.score(level)))
            if found is None:
                return levels[-1], trial.silence()
            target = found
    if request.max_advantage is not None:
        levels = [Target(ratio, target.epsilon) for ratio in RATIO_LEVELS]
        found = least_strict(levels, lambda level: request.met_by(trial.score(level)))
        if found is None:
            return levels[-1], trial.silence()
        target = found
    return target, trial.summary(target, request)


def estimate(
    settings: Settings,
    sample: Sample,
    target: Target,
    *,
    groups: Ints | None,
    rng: np.random.Generator,
    design: Designer = design_sample,
) -> Expected:
    """Tell what one target delivers, from two designs on half of the rows each.

    Raises InputError: if the rows cannot be halved with every class on both sides.
    """
    most = _ESTIMATE_ROWS
    if is_large(settings, sample, target):  # designed as the table itself is
        most = min(_LARGE_ESTIMATE_ROWS, len(sample.codes))
        growth = 2.0 * len(sample.codes) / most
        settings = replace(
            settings,
            reg=growth * settings.reg,
            private_reg=growth * settings.private_reg,
            many_rows=0,
        )
    if len(sample.codes) > most:
        kept = np.sort(rng.choice(len(sample.codes), most, replace=False))
        sample = sample.take(kept)
        groups = None if groups is None else groups[kept]
    short = replace(settings, n_restarts=min(_FIRST_RESTARTS, settings.n_restarts))
    return Trial(short, sample, 2, groups, rng, None, design).summary(target)


def least_strict(levels: list[Target], keeps: Callable[[Target], bool]) -> Target | None:
    """Bisect levels of rising strictness for the first that keeps the request."""
    if not keeps(levels[-1]):
        return None
    low, high = 0, len(levels) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(levels[middle]) else (middle + 1, high)
    return levels[high]


class Trial:
    """Designs and attacks at one level after the other, on fixed folds.

    ``last``: the last design of each fold, from which the next one goes on.
    """

    def __init__(
        self,
        settings: Settings,
        sample: Sample,
        n_folds: int,
        groups: Ints | None,
        rng: np.random.Generator,
        report: Report | None,
        design: Designer,
    ) -> None:
        self.settings, self.sample, self.report = settings, sample, report
        self.design, self.groups = design, groups
        self.folds: list[Fold] = split_folds(sample, n_folds, groups, rng)
        self.seeds = rng.integers(2**63, size=len(self.folds))
        self.last: dict[int, Tables] = {}
        self.scores: dict[Target, list[Score]] = {}
        self.designs: dict[Target, list[Designed]] = {}
        self.n_levels = 2 + int(np.ceil(np.log2(len(RATIO_LEVELS))))

    def summary(self, level: Target, request: Request | None = None) -> Expected:
        """Return what to expect of a level, and whether it keeps a request."""
        scores = self.score(level)
        met = None if request is None else request.met_by(scores)
        return self._expected(scores, self.designs[level], met)

    def silence(self) -> Expected:
        """Return what to expect if no level keeps the request: tables that say nothing."""
        silent = uniform_tables(self.sample.sizes, self.settings.n_symbols)
        scores = [
            self._attack(silent, train, test, seed)
            for (train, test), seed in zip(self.folds, self.seeds, strict=True)
        ]
        designs = [Designed(silent, float("nan"), np.empty(0), np.empty(0))] * len(self.folds)
        return replace(self._expected(scores, designs, met=False), silent=True)

    def _expected(
        self, scores: Sequence[Score], designs: Sequence[Designed], met: bool | None
    ) -> Expected:
        advantage, advantage_error = mean_and_error([score.advantage for score in scores])
        ratios = [score.epsilon for score in scores if score.epsilon is not None]
        epsilon, epsilon_error = mean_and_error(ratios) if ratios else (None, None)
        answers = join([self._answer(designs[k], k) for k in range(len(self.folds))])
        order = np.concatenate([held for _, held in self.folds])
        low, high = answers.interval(None if self.groups is None else self.groups[order])
        raw = answer_from_codes(self.sample, self.folds, self.settings.aim, int(self.seeds[0]))
        return Expected(
            advantage=advantage,
            advantage_error=advantage_error,
            epsilon=epsilon,
            epsilon_error=epsilon_error,
            public_error=answers.error,
            balanced_accuracy=answers.balanced_accuracy,
            balanced_low=low,
            balanced_high=high,
            decided=tuple(answers.shares.tolist()),
            guessing_error=1.0 - float(class_shares(self.sample.public).max()),
            raw_error=raw.error,
            raw_balanced_accuracy=raw.balanced_accuracy,
            folds=len(self.folds),
            met=met,
        )

    def _answer(self, designed: Designed, k: int) -> Answers:
        """Return what the decisions about a fold are worth."""
        known, unseen = (self.sample.take(index) for index in self.folds[k])
        rng = np.random.default_rng([int(self.seeds[k]), 1])
        tables, fusion = designed.tables, designed.fusion
        return answer_held_out(self.settings, tables, fusion, known, unseen, rng)

    def score(self, level: Target) -> list[Score]:
        """Return what each fold shows of designs at this level, made without it."""
        if level not in self.scores:
            self.designs[level] = []
            self.scores[level] = [self._score_fold(level, k) for k in range(len(self.folds))]
        return self.scores[level]

    def chance(self) -> float:
        """Return what the last designs would seem to leak if they leaked nothing.

        The private facts of the rows left out are shuffled among them and attacked likewise.
        """
        found = []
        for k, (train, test) in enumerate(self.folds):
            rng = np.random.default_rng(self.seeds[k])
            known = self.sample.take(train)
            for _ in range(_SHUFFLES):
                unseen = shuffle_private(self.sample.take(test), rng)
                found.append(score_held_out(self.settings, self.last[k], known, unseen, rng))
        return float(np.mean([score.advantage for score in found]))

    def _score_fold(self, level: Target, k: int) -> Score:
        train, test = self.folds[k]
        designed = self._design(level, self.sample.take(train), k)
        self.last[k] = designed.tables
        self.designs[level].append(designed)
        return self._attack(designed.tables, train, test, self.seeds[k])

    def _design(self, level: Target, part: Sample, k: int) -> Designed:
        warm = k in self.last
        designed = self.design(
            replace(self.settings, n_restarts=1) if warm else self.settings,
            part,
            level,
            rng=np.random.default_rng(self.seeds[k]),
            starts=[self.last[k]] if warm else (),
            report=self._report_fold(k),
        )
        if designed.stopped:
            raise StoppedError(
                "Stopped during the search for a privacy level, before any mapping was known "
                "to keep what was asked. There is nothing to keep."
            )
        return designed

    def _report_fold(self, k: int) -> Report | None:
        """Return a report that counts one fold's design as a part of the whole search."""
        report = self.report
        if report is None:
            return None

        def tell(progress: Progress) -> bool:
            done = len(self.scores) + (k + progress.done) / len(self.folds)
            share = min(done / self.n_levels, 0.99)
            return report(replace(progress, phase="search", done=share))

        return tell

    def _attack(self, tables: Tables, train: Ints, test: Ints, seed: int) -> Score:
        known, unseen = self.sample.take(train), self.sample.take(test)
        return score_held_out(self.settings, tables, known, unseen, np.random.default_rng(seed))


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean over folds and its standard error; no error for what is infinite."""
    if not np.all(np.isfinite(values)):
        return float("inf"), 0.0
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
    return float(np.mean(values)), error
