"""How well guesses hit: balanced accuracy, accuracy and AUC, with what their intervals need.

Rows are taken to be independent; or, when groups are given, groups are, each weighs the same
and its rows may depend on one another in any way.

- Balanced accuracy is asked of all classes and, if there are more than two, of every pair.
- Accuracy is the pooled count of hits, scores weighted with the classes' shares, the classes
  as common as here.
- AUC is moved by one row of a class of n by at most 1/n. With groups it has no interval: how many
  rows of a class a group has may depend on what it reads.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from discreet.auditing.attack_problem import Guesses, Problem
from discreet.auditing.attack_results import (
    Interval,
    Question,
    bounded_interval,
    exact_interval,
    mean_interval,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
    shares = [_group_shares(problem.groups[rows[label == k]], hit[label == k])
              for k in range(len(classes))]  # fmt: skip
    return Question(
        classes,
        float(np.mean([each.mean() for each in shares])),
        tuple(float(each.sum()) for each in shares),
        tuple(len(each) for each in shares),
        grouped=True,
    )


def _group_shares(groups: Ints, hit: NDArray[np.bool_]) -> Floats:
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
    shares = _group_shares(problem.groups[rows], hit)
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
