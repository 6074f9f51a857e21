"""From a wish in words to a target, by designing on folds and attacking what was left out.

``max_advantage`` and ``epsilon`` speak of people the mapping has never seen. So for
each level of strictness the mapping is designed without one fold and then attacked on
that fold. One attacker learned from the rows that the mapping learned from, where the
leak was pressed down: its advantage errs low. Another is the best rule in hindsight for
the fold: it errs high. The expected advantage is the middle of the two
(``benchmarks/calibration.py`` holds it against the truth). The least strict level that
keeps the wish with one standard error to spare is taken. What comes out is an estimate
on held-out rows and no certificate: that takes an audit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from discreet.design.feasible import uniform_tables
from discreet.design.fusion import draw_symbols, learn_fusion
from discreet.design.heads import Labels, Rows, collapse
from discreet.design.problem import Settings, Target, design_tables
from discreet.design.results import Designed, Progress, Report
from discreet.design.risks import Tables
from discreet.errors import InputError, StoppedError
from discreet.exact import advantage, information_epsilon
from discreet.mapping_parts import TableFusion
from discreet.outputs import output_probabilities

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RATIO_LEVELS = (0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999)
EPSILON_LEVELS = (1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.12, 0.07, 0.03)  # shares of the limit
_FIRST_RESTARTS = 3  # random starts in a fold; later levels go on from the last one's tables
_DRAWS = 20  # symbols drawn per held-out row where the outputs are too many to list


@dataclass(frozen=True)
class Request:
    """The wish: no attacker beats guessing by more, no log-ratio exceeds."""

    max_advantage: float | None = None
    epsilon: float | None = None


@dataclass(frozen=True)
class Expected:
    """What held-out rows showed, averaged over folds, with standard errors.

    Attributes
    ----------
    advantage : float
        The attacker's, over guessing, for the fact and pair of classes it does best on:
        the middle of two estimates, one that errs low and one that errs high.
    epsilon : float or None
        max |log p(g|z)/p(g)| with every output counted as seen; it errs upwards, and
        is None where the outputs are too many to list.
    public_error : float
    public_advantage : float
        Balanced accuracy of the fusion rule over guessing.
    met : bool
        Whether the wish was kept at some level. If not, the mapping is constant.
    """

    advantage: float
    advantage_error: float
    epsilon: float | None
    epsilon_error: float | None
    public_error: float
    public_advantage: float
    folds: int
    met: bool

    def as_dict(self) -> dict[str, float | None]:
        return {
            "advantage": self.advantage,
            "advantage_standard_error": self.advantage_error,
            "epsilon": self.epsilon,
            "epsilon_standard_error": self.epsilon_error,
            "public_error": self.public_error,
            "folds": float(self.folds),
            "met": float(self.met),
        }


@dataclass(frozen=True)
class Sample:
    """Coded rows with their labels, before equal rows are collapsed."""

    codes: Ints
    sizes: tuple[int, ...]
    public: Labels
    private: tuple[Labels, ...]

    def take(self, index: Ints) -> Sample:
        return Sample(
            self.codes[index],
            self.sizes,
            _take(self.public, index),
            tuple(_take(fact, index) for fact in self.private),
        )

    def rows(self) -> Rows:
        return collapse(self.codes, self.sizes)


@dataclass(frozen=True)
class _FoldScore:
    advantage: float
    epsilon: float | None
    public_error: float
    public_advantage: float


def calibrate(
    settings: Settings,
    sample: Sample,
    request: Request,
    *,
    n_folds: int,
    groups: Ints | None,
    rng: np.random.Generator,
    report: Report | None = None,
) -> tuple[Target, Expected]:
    """Find the least strict target that keeps the request on held-out folds."""
    trial = _Trial(settings, sample, n_folds, groups, rng, report)
    target = Target(None)
    if request.epsilon is not None:
        limit = request.epsilon
        if not settings.lists_outputs:
            target = Target(None, limit)  # structural, holds by construction: nothing to search
        else:
            levels = [Target(None, share * limit) for share in EPSILON_LEVELS]
            found = _least_strict(levels, lambda level: trial.upper_epsilon(level) <= limit)
            if found is None:
                return levels[-1], trial.summary(levels[-1], met=False)
            target = found
    if request.max_advantage is not None:
        allowed = request.max_advantage
        levels = [Target(ratio, target.epsilon) for ratio in RATIO_LEVELS]
        epsilon = request.epsilon if settings.lists_outputs else None

        def keeps(level: Target) -> bool:
            kept = trial.upper_advantage(level) <= allowed
            return kept and (epsilon is None or trial.upper_epsilon(level) <= epsilon)

        found = _least_strict(levels, keeps)
        if found is None:
            return levels[-1], trial.summary(levels[-1], met=False)
        target = found
    return target, trial.summary(target, met=True)


def _least_strict(levels: list[Target], keeps: Callable[[Target], bool]) -> Target | None:
    """Bisect levels of rising strictness for the first that keeps the request."""
    if not keeps(levels[-1]):
        return None
    low, high = 0, len(levels) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(levels[middle]) else (middle + 1, high)
    return levels[high]


class _Trial:
    """Designs and attacks at one level after the other, on fixed folds."""

    def __init__(
        self,
        settings: Settings,
        sample: Sample,
        n_folds: int,
        groups: Ints | None,
        rng: np.random.Generator,
        report: Report | None,
    ) -> None:
        self.settings = replace(settings, n_restarts=_FIRST_RESTARTS, solver="fast")
        self.sample, self.report = sample, report
        self.folds = list(split_folds(sample, n_folds, groups, rng))
        self.seeds = rng.integers(2**63, size=len(self.folds))
        self.last: dict[int, Tables] = {}
        self.scores: dict[Target, list[_FoldScore]] = {}
        self.n_levels = 2 + int(np.ceil(np.log2(len(RATIO_LEVELS))))

    def upper_advantage(self, level: Target) -> float:
        mean, error = _mean([score.advantage for score in self._score(level)])
        return mean + error

    def upper_epsilon(self, level: Target) -> float:
        mean, error = _mean([score.epsilon or 0.0 for score in self._score(level)])
        return mean + error

    def summary(self, level: Target, *, met: bool) -> Expected:
        """Return what to expect: of this level if it met the request, of silence if not."""
        scores = self._score(level)
        if not met:
            silent = uniform_tables(self.sample.sizes, self.settings.n_symbols)
            scores = [
                self._attack(silent, train, test, seed)
                for (train, test), seed in zip(self.folds, self.seeds, strict=True)
            ]
        advantage, advantage_error = _mean([score.advantage for score in scores])
        ratios = [score.epsilon for score in scores if score.epsilon is not None]
        epsilon, epsilon_error = _mean(ratios) if ratios else (None, None)
        return Expected(
            advantage,
            advantage_error,
            epsilon,
            epsilon_error,
            _mean([score.public_error for score in scores])[0],
            _mean([score.public_advantage for score in scores])[0],
            len(self.folds),
            met,
        )

    def _score(self, level: Target) -> list[_FoldScore]:
        if level not in self.scores:
            self.scores[level] = [self._score_fold(level, k) for k in range(len(self.folds))]
        return self.scores[level]

    def _score_fold(self, level: Target, k: int) -> _FoldScore:
        train, test = self.folds[k]
        designed = self._design(level, self.sample.take(train), k)
        self.last[k] = designed.tables
        return self._attack(designed.tables, train, test, self.seeds[k])

    def _design(self, level: Target, part: Sample, k: int) -> Designed:
        warm = k in self.last
        designed = design_tables(
            replace(self.settings, n_restarts=1) if warm else self.settings,
            part.rows(),
            part.public,
            part.private,
            level,
            rng=np.random.default_rng(self.seeds[k]),
            starts=[self.last[k]] if warm else (),
        )
        if self.report is not None:
            done = (len(self.scores) + k / len(self.folds)) / self.n_levels
            if self.report(Progress("search", min(done, 0.99), designed.public_risk)):
                raise StoppedError(
                    "Stopped during the search for a privacy level, before any mapping was known "
                    "to keep what was asked. There is nothing to keep."
                )
        return designed

    def _attack(self, tables: Tables, train: Ints, test: Ints, seed: int) -> _FoldScore:
        known, unseen = self.sample.take(train), self.sample.take(test)
        rng = np.random.default_rng(seed)
        score = _attack_listed if self.settings.lists_outputs else _attack_drawn
        return score(self.settings, tables, known, unseen, rng)


def _attack_listed(
    settings: Settings, tables: Tables, known: Sample, unseen: Sample, rng: np.random.Generator
) -> _FoldScore:
    """Attack with the Bayes table, scored exactly: Q is averaged, not sampled."""
    rows, left = known.rows(), unseen.rows()
    before, after = (
        output_probabilities(tables, rows.codes),
        output_probabilities(tables, left.codes),
    )
    advantages, ratios = [], []
    for fact, held in zip(known.private, unseen.private, strict=True):
        learned, true = rows.class_weights(fact) @ before, left.class_weights(held) @ after
        advantages.append(0.5 * (_rule_advantage(learned, true) + advantage(true)))
        ratios.append(information_epsilon(true, np.bincount(held.index) / left.n_rows))
    fusion = learn_fusion(tables, rows, known.public, settings.kernel, settings.reg, rng)
    assert isinstance(fusion, TableFusion)
    rule = np.argmax(np.array(fusion.joint), axis=0)
    true = left.class_weights(unseen.public) @ after
    right = np.array([true[h, rule == h].sum() for h in range(unseen.public.n_classes)])
    prior = np.bincount(unseen.public.index, minlength=len(right)) / left.n_rows
    known_public = rows.class_weights(known.public) @ before
    return _FoldScore(
        max(advantages),
        max(ratios),
        1.0 - float(prior @ right),
        _rule_advantage(known_public, true),
    )


def _attack_drawn(
    settings: Settings, tables: Tables, known: Sample, unseen: Sample, rng: np.random.Generator
) -> _FoldScore:
    """Attack drawn symbols with naive Bayes, for networks with too many outputs to list."""
    symbols = draw_symbols(tables, np.repeat(unseen.codes, _DRAWS, axis=0), rng)

    def beats_guessing(learned: Ints, fact: Labels, held: Labels) -> float:
        scores = _naive_scores(tables, learned, fact, symbols)
        return _score_advantage(scores, np.repeat(held.index, _DRAWS))

    advantages = [
        0.5 * (beats_guessing(known.codes, fact, held) + beats_guessing(unseen.codes, held, held))
        for fact, held in zip(known.private, unseen.private, strict=True)
    ]
    public = _naive_scores(tables, known.codes, known.public, symbols)
    public += np.log(np.bincount(known.public.index))[:, None]
    wrong = np.argmax(public, axis=0) != np.repeat(unseen.public.index, _DRAWS)
    gain = beats_guessing(known.codes, known.public, unseen.public)
    return _FoldScore(max(advantages), None, float(wrong.mean()), gain)


def _naive_scores(tables: Tables, codes: Ints, fact: Labels, symbols: Ints) -> Floats:
    """Return log p(symbols|class) as if sensors were independent, one row per class."""
    total = np.zeros((fact.n_classes, len(symbols)))
    for t, table in enumerate(tables):
        sent = table[codes[:, t]]
        for k in range(fact.n_classes):
            marginal = sent[fact.index == k].mean(axis=0)
            total[k] += np.log(np.maximum(marginal, 1e-12))[symbols[:, t]]
    return total


def _rule_advantage(learned: Floats, true: Floats) -> float:
    """Score the rules that ``learned`` suggests under the ``true`` distribution of outputs."""
    n_classes = len(true)
    rule = np.argmax(learned, axis=0)
    right = [float(true[k, rule == k].sum()) for k in range(n_classes)]
    best = float(np.mean(right)) - 1.0 / n_classes
    for a, b in combinations(range(n_classes), 2):
        picks_b = learned[b] > learned[a]
        accuracy = 0.5 * float(true[a, ~picks_b].sum() + true[b, picks_b].sum())
        best = max(best, accuracy - 0.5)
    return best


def _score_advantage(scores: Floats, index: Ints) -> float:
    """Return the same from class scores of single rows."""
    n_classes = len(scores)
    right = np.argmax(scores, axis=0) == index
    best = float(np.mean([right[index == k].mean() for k in range(n_classes)])) - 1.0 / n_classes
    for a, b in combinations(range(n_classes), 2):
        picks_b = scores[b] > scores[a]
        accuracy = 0.5 * float((~picks_b)[index == a].mean() + picks_b[index == b].mean())
        best = max(best, accuracy - 0.5)
    return best


def split_folds(
    sample: Sample, n_folds: int, groups: Ints | None, rng: np.random.Generator
) -> Iterator[tuple[Ints, Ints]]:
    """Deal rows, or whole groups, out to folds that each hold every class.

    Rows are dealt within each combination of labels. Folds are merged until every
    class of every fact is on both sides of every split.
    """
    facts = (sample.public, *sample.private)
    n_rows = len(sample.codes)
    for count in range(n_folds, 1, -1):
        fold = _deal_rows(facts, count, rng) if groups is None else _deal_groups(groups, count, rng)
        splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(count)]
        if all(_has_all_classes(facts, side) for split in splits for side in split):
            yield from splits
            return
    raise InputError(
        f"{n_rows} rows do not hold every class often enough for two folds, which the search for "
        "a privacy level needs. Add rows, or ask by privacy_ratio instead."
    )


def _deal_rows(facts: Sequence[Labels], count: int, rng: np.random.Generator) -> Ints:
    labels = np.stack([fact.index for fact in facts], axis=1)
    cells = np.unique(labels, axis=0, return_inverse=True)[1].ravel()
    order = np.lexsort((rng.permutation(len(cells)), cells))
    fold = np.empty(len(cells), dtype=np.int64)
    fold[order] = np.arange(len(cells)) % count
    return fold


def _deal_groups(groups: Ints, count: int, rng: np.random.Generator) -> Ints:
    n_groups = int(groups.max()) + 1
    order = np.empty(n_groups, dtype=np.int64)
    order[rng.permutation(n_groups)] = np.arange(n_groups) % count
    fold: Ints = order[groups]
    return fold


def _has_all_classes(facts: Sequence[Labels], index: Ints) -> bool:
    return all(len(np.unique(fact.index[index])) == fact.n_classes for fact in facts)


def _take(labels: Labels, index: Ints) -> Labels:
    return Labels(labels.name, labels.index[index], labels.n_classes)


def _mean(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean over folds and its standard error."""
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
    return float(np.mean(values)), error
