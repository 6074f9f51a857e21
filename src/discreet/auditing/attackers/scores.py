"""How well attackers guess: balanced accuracy, accuracy and AUC, with confidence intervals.

Rows are taken to be independent; or, when groups are given, groups are, each weighs the same
and its rows may depend on one another in any way.

- Balanced accuracy is asked of all classes and, if there are more than two, of every pair: Clopper
  and Pearson's interval for each class at an equal share of the error probability, then the mean.
  With groups, the share of hits among a group's rows of a class is one observation, and
  Chernoff's bound takes their mean.
- Accuracy is the pooled count of hits, scores weighted with the classes' shares.
- AUC is moved by one row of a class of n by at most 1/n, and has McDiarmid's interval. With groups
  it has none: how many rows of a class a group has may depend on what it reads.

``best_attack`` picks the strongest attacker and pays for the choice: Bonferroni over attackers
and over the questions put to each, which are all classes and every pair of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from discreet.arrays import Floats, Ints
from discreet.auditing.attackers.problem import Guesses, Problem
from discreet.auditing.bounds.intervals import (
    Interval,
    clopper_pearson_lower,
    clopper_pearson_upper,
    kl_lower,
    kl_upper,
)
from discreet.errors import InputError

# --- Results ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """How an attacker did on telling some classes apart.

    ``classes``: all classes of the fact, or two of them. ``estimate``: balanced accuracy.
    ``right``, ``tested``: rows guessed right and rows tested, by class. With groups, the sum over
    groups of the share of their rows of the class that was guessed right, and the number of groups.
    """

    classes: tuple[int, ...]
    estimate: float
    right: tuple[float, ...]
    tested: tuple[int, ...]
    grouped: bool = False

    @property
    def advantage(self) -> float:
        """How far the estimate is above guessing."""
        return self.estimate - 1.0 / len(self.classes)

    def interval(self, alpha: float) -> Interval:
        """Return the interval that misses with probability at most ``alpha``."""
        share = alpha / len(self.classes)
        one = mean_interval if self.grouped else exact_interval
        ends = [one(k, n, share) for k, n in zip(self.right, self.tested, strict=True)]
        low, high = np.mean([[end.low, end.high] for end in ends], axis=0)
        return Interval(self.estimate, float(low), float(high))


@dataclass(frozen=True)
class AttackResult:
    """What one attacker reached on rows it had not learned from.

    ``accuracy``, ``balanced_accuracy``, ``auc``: at the confidence asked for, each by itself. AUC
    is one class against the rest, averaged over classes where there are more than two. None where
    it was skipped. ``worst_pair``: the classes it distinguished best; its interval should be taken
    at the error probability divided by the number of pairs, as ``best_attack`` does. ``questions``:
    all classes first, then each pair when there are more than two. ``rows``: rows tested.
    ``learned``: most rows that any of its fits learned from. ``note``: what was left out for speed,
    if anything. ``skipped``: why it did not run.
    """

    name: str
    accuracy: Interval | None = None
    balanced_accuracy: Interval | None = None
    auc: Interval | None = None
    worst_pair: Question | None = None
    questions: tuple[Question, ...] = ()
    rows: int = 0
    learned: int = 0
    note: str = ""
    skipped: str | None = None
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class BestAttack:
    """The strongest attack, with a lower bound that pays for having chosen it.

    ``classes``: the classes it tells apart: all, or the worst pair. ``advantage``: its balanced
    accuracy above guessing. Being the best of many, this errs high. ``lower``: with probability
    ``confidence``, some attacker's advantage is at least this. ``comparisons``: attackers times
    questions, over which the error probability was split.
    """

    name: str
    classes: tuple[int, ...]
    advantage: float
    lower: float
    confidence: float
    comparisons: int


def best_attack(results: Sequence[AttackResult], *, confidence: float = 0.95) -> BestAttack:
    """Return the attack whose lower bound on the advantage is highest.

    ``results``: all that were tried on one fact, skipped ones included: leaving out those that did
    badly would make the bound invalid. ``confidence``: of the one-sided bound, jointly over all
    attackers, classes and pairs. Raises InputError: if no attacker ran.
    """
    alpha = check_confidence(confidence)
    tried = [(result.name, question) for result in results for question in result.questions]
    if not tried:
        raise InputError("no attacker ran, so there is no best one. Ask for other attackers.")
    # An interval misses below with half of its alpha, hence twice the share.
    share = 2.0 * alpha / len(tried)

    def rank(item: tuple[str, Question]) -> tuple[float, float]:
        _, question = item
        low = question.interval(share).low
        return low - 1.0 / len(question.classes), question.advantage

    name, question = max(tried, key=rank)
    lower, estimate = rank((name, question))
    return BestAttack(name, question.classes, estimate, max(lower, 0.0), confidence, len(tried))


def check_confidence(confidence: float) -> float:
    """Return the error probability that goes with a confidence."""
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be between 0 and 1, got {confidence!r}.")
    return 1.0 - confidence


def mean_interval(total: float, count: int, alpha: float) -> Interval:
    """Return Chernoff's interval for the mean of independent shares between 0 and 1."""
    mean, level = min(total / count, 1.0), np.log(2.0 / alpha) / count
    return Interval(mean, float(kl_lower(mean, level)), float(kl_upper(mean, level)))


def exact_interval(right: float, tested: int, alpha: float) -> Interval:
    """Return Clopper and Pearson's interval, which misses with at most alpha/2 on each side."""
    low = clopper_pearson_lower(right, tested, alpha / 2)
    high = clopper_pearson_upper(right, tested, alpha / 2)
    return Interval(right / tested, float(low), float(high))


def bounded_interval(estimate: float, spread: float, alpha: float) -> Interval:
    """Return McDiarmid's interval of a score in 0..1, ``spread`` the sum of squared shifts."""
    half = sqrt(0.5 * np.log(2 / alpha) * spread)
    return Interval(estimate, max(estimate - half, 0.0), min(estimate + half, 1.0))


# --- Scoring guesses -------------------------------------------------------------------------


def ask_questions(problem: Problem, guesses: Guesses) -> list[Question]:
    """Ask for all classes first, then for each pair when there are more than two."""
    asked: list[tuple[int, ...]] = [tuple(range(problem.n_classes))]
    if problem.n_classes > 2:
        asked += combinations(range(problem.n_classes), 2)
    return [_answer(problem, guesses, classes) for classes in asked]


def _answer(problem: Problem, guesses: Guesses, classes: tuple[int, ...]) -> Question:
    """Score one question by the mean of the folds' balanced accuracies."""
    fact = problem.fact[guesses.rows]
    inside = np.isin(fact, classes)
    rows, label = guesses.rows[inside], np.searchsorted(classes, fact[inside])
    hit = guesses.scores[inside][:, classes].argmax(axis=1) == label
    tested = np.bincount(label, minlength=len(classes))
    right = np.bincount(label[hit], minlength=len(classes))
    if not problem.grouped:  # folds are even, so the mean of the folds is that of the rows
        counts = tuple(right.tolist()), tuple(tested.tolist())
        return Question(classes, float(np.mean(right / tested)), *counts)
    shares = [group_shares(problem.groups[rows[label == k]], hit[label == k])
              for k in range(len(classes))]  # fmt: skip
    return Question(
        classes,
        float(np.mean([each.mean() for each in shares])),
        tuple(float(each.sum()) for each in shares),
        tuple(len(each) for each in shares),
        grouped=True,
    )


def group_shares(groups: Ints, hit: NDArray[np.bool_]) -> Floats:
    """Return the share of hits in every group."""
    place = np.unique(groups, return_inverse=True)[1]
    return np.asarray(np.bincount(place, hit) / np.bincount(place))


def _fold_sizes(problem: Problem, rows: Ints, label: Ints, n_classes: int) -> Floats:
    """Count the tested rows, folds by classes; fold 0 has none and is left out."""
    cell = (problem.fold[rows] - 1) * n_classes + label
    counts = np.bincount(cell, minlength=(problem.n_folds - 1) * n_classes)
    return counts.reshape(-1, n_classes).astype(np.float64)


def _fold_weights(counts: Floats) -> Floats:
    """Weight folds by what they can tell, which is equally unless groups made them uneven."""
    worth = 1.0 / (1.0 / counts).sum(axis=1)
    share: Floats = worth / worth.sum()
    return share


def score_accuracy(problem: Problem, guesses: Guesses, alpha: float) -> Interval:
    """Score the guesses that also weigh how common each class was among rows learned from."""
    rows, n_classes = guesses.rows, problem.n_classes
    cell = problem.fold * n_classes + problem.fact
    dealt = np.bincount(cell, minlength=problem.n_folds * n_classes).reshape(-1, n_classes)
    before = dealt.cumsum(axis=0)[problem.fold[rows] - 1]
    hit = (guesses.scores * before).argmax(axis=1) == problem.fact[rows]
    if not problem.grouped:
        return exact_interval(int(hit.sum()), len(hit), alpha)
    shares = group_shares(problem.groups[rows], hit)
    return mean_interval(float(shares.sum()), len(shares), alpha)


def score_auc(problem: Problem, guesses: Guesses, alpha: float) -> Interval:
    """Return the mean over folds, since scores of two fits cannot be compared."""
    rows, m = guesses.rows, problem.n_classes
    fact, fold = problem.fact[rows], problem.fold[rows]
    weight = _fold_weights(_fold_sizes(problem, rows, fact, m))
    sides = (1,) if m == 2 else tuple(range(m))
    value, shifts = 0.0, np.zeros(len(rows))
    for k in range(1, problem.n_folds):
        here = np.flatnonzero(fold == k)
        for side in sides:
            part = weight[k - 1] / len(sides)
            inside = fact[here] == side
            value += part * _fold_auc(guesses.scores[here, side], inside)
            shifts[here] += part / np.where(inside, inside.sum(), (~inside).sum())
    if problem.grouped:
        return Interval(value, 0.0, 1.0)
    return bounded_interval(value, float(np.square(shifts).sum()), alpha)


def _fold_auc(scores: Floats, inside: NDArray[np.bool_]) -> float:
    ranks, n = rankdata(scores), int(inside.sum())
    return float((ranks[inside].sum() - n * (n + 1) / 2) / (n * (len(scores) - n)))
