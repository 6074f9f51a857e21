"""Learning fold by fold: makes an attacker of anything that can be fitted to rows.

A lesson is what one fit sees: distinct rows with how often each class sent them, classes
weighing the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.auditing.attack_folds import tested_rows, thin
from discreet.auditing.attack_problem import Guesses, Problem
from discreet.auditing.symbol_rows import count_rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Lesson:
    """What one fit learns from, and the distinct rows it is asked about."""

    rows: Ints  # distinct rows of symbols
    counts: Floats  # rows by classes
    ask: Ints
    sizes: tuple[int, ...]
    seed: int

    @property
    def weights(self) -> Floats:
        """Rows by classes, each class adding up to 1."""
        share: Floats = self.counts / self.counts.sum(axis=0)
        return share

    def labelled(self) -> tuple[Ints, Ints, Floats]:
        """Return one row per distinct row and class, its class, and its weight.

        Classes weigh the same and weights add up to the number of rows, so that penalties
        keep their meaning.
        """
        place, label = np.nonzero(self.counts)
        scale = self.counts.sum() / self.counts.shape[1]
        return self.rows[place], label, self.weights[place, label] * scale

    def spelled_out(self) -> tuple[Ints, Ints, Floats]:
        """Return the same with equal rows apart, for those who count rows and not weights."""
        place, label = np.nonzero(self.counts)
        times = self.counts[place, label].astype(int)
        sizes = self.counts.sum(axis=0)
        y = np.repeat(label, times)
        return np.repeat(self.rows[place], times, axis=0), y, sizes.mean() / sizes[y]

    def leaf_rows(self, balanced: int) -> int:
        """Return how many rows a leaf must hold, more of them the rarer the rarest class.

        A single row of a rare class weighs as much as many of a common one, and small leaves
        would learn it by heart.
        """
        sizes = self.counts.sum(axis=0)
        return int(min(balanced * sizes.mean() / sizes.min(), sizes.sum() / 10)) or 1


def by_fold(
    fit: Callable[[Lesson], Floats], *, learn: float = 1.0, test: float = 1.0
) -> Callable[[Problem, np.random.Generator], Guesses]:
    """Make an attacker of a function that learns one lesson and scores what it is asked.

    It learns from at most ``learn`` times ``max_rows`` rows, as many of each class, and is
    tested on at most ``test`` times as many.
    """

    def run(problem: Problem, rng: np.random.Generator) -> Guesses:
        cap = learn * problem.max_rows
        tested = tested_rows(problem.fold, problem.fact, test * problem.max_rows, rng)
        scores, most = np.empty((len(tested), problem.n_classes)), 0
        for here, lesson, answers in _lessons(problem, tested, cap, rng):
            scores[here] = fit(lesson)[answers]
            most = max(most, int(lesson.counts.sum()))
        return Guesses(tested, scores, most)

    return run


def _lessons(
    problem: Problem, tested: Ints, cap: float, rng: np.random.Generator
) -> Iterator[tuple[Ints, Lesson, Ints]]:
    """Yield, for each tested fold: its rows among ``tested``, the lesson, and their answers."""
    fold = problem.fold[tested]
    for k in range(1, problem.n_folds):
        taught = thin(np.flatnonzero(problem.fold < k), problem.fact, cap, rng)
        here = np.flatnonzero(fold == k)
        ask, answers = np.unique(problem.place[tested[here]], return_inverse=True)
        rows, counts = count_rows(problem.place[taught], problem.fact[taught], problem.n_classes)
        lesson = Lesson(
            problem.symbols[rows],
            counts,
            problem.symbols[ask],
            problem.sizes,
            int(rng.integers(2**31)),
        )
        yield here, lesson, answers
