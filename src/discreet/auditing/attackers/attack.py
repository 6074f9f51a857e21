"""Real attackers on sampled symbols: a lower bound on what leaks.

An attacker learns from some rows and guesses the fact of others. Any attacker can reach what it
reaches on rows it has not seen, so a lower bound on its score is one on the leak. The attackers
range from counting outputs to one that knows the tables and the codes of the rows it learns from.

The assumptions are documented where they are made: ``problem`` on which rows an attacker learns
from, ``scores`` on what is measured, the intervals and the cost of picking the best attacker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import config_context
from threadpoolctl import threadpool_limits

from discreet.auditing.attackers.bayes_attacker import attack_with_tables, refuse_without_tables
from discreet.auditing.attackers.models import (
    by_fold,
    fit_boosting,
    fit_forest,
    fit_logistic,
    fit_logistic_pairs,
    fit_naive_bayes,
    fit_neighbours,
    fit_svm,
    fit_table,
    fit_telltale,
    refuse_pairs,
    refuse_table,
    refuse_wide,
)
from discreet.auditing.attackers.problem import Guesses, Problem, pose
from discreet.auditing.attackers.scores import (
    AttackResult,
    ask_questions,
    check_confidence,
    score_accuracy,
    score_auc,
)
from discreet.data.values import suggest
from discreet.errors import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Attacker:
    """How to attack, and why not to: a reason, or nothing."""

    run: Callable[[Problem, np.random.Generator], Guesses]
    refuse: Callable[[Problem], str] = lambda _: ""


ATTACKERS: dict[str, Attacker] = {
    "knows-all": Attacker(attack_with_tables, refuse_without_tables),
    "table": Attacker(by_fold(fit_table, learn=inf, test=inf), refuse_table),
    "telltale": Attacker(by_fold(fit_telltale, test=inf), refuse_wide),
    "naive-bayes": Attacker(by_fold(fit_naive_bayes, learn=inf, test=inf)),
    "logistic": Attacker(by_fold(fit_logistic)),
    "logistic-pairs": Attacker(by_fold(fit_logistic_pairs), refuse_pairs),
    "boosting": Attacker(by_fold(fit_boosting)),
    "forest": Attacker(by_fold(fit_forest, learn=0.25)),
    "neighbours": Attacker(by_fold(fit_neighbours, learn=0.1)),
    "svm": Attacker(by_fold(fit_svm, learn=0.075, test=0.5)),
}
"""Every attacker by name, in the order they run."""


def attack(
    values: ArrayLike,
    sizes: Sequence[int],
    fact: ArrayLike,
    n_classes: int,
    *,
    tables: Sequence[Floats] | None = None,
    codes: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    n_folds: int = 5,
    confidence: float = 0.95,
    attackers: Sequence[str] | None = None,
    max_rows: int = 20_000,
    rng: np.random.Generator | None = None,
) -> list[AttackResult]:
    """Let every attacker guess a fact from rows of symbols, or of raw codes.

    ``values``: what the attacker sees. Symbols must have been drawn once per row. ``sizes``: how
    many values each sensor has; they run from 0. ``fact``: the class of every row, from 0.
    ``tables``, ``codes``: the mapping's tables and the codes behind the symbols. Only the attacker
    that knows them looks, and of the codes only at those of rows it learns from. ``groups``: rows
    with equal values stay in one fold, and count as one observation. ``n_folds``: two make every
    interval exact, at the price of fewer tested rows. Fewer are used when a class has fewer rows or
    groups. ``confidence``: of each interval by itself. ``attackers``: keys of ``ATTACKERS``; all
    when not given. ``max_rows``: most rows that a slow attacker learns from in a fold, and most it
    is tested on. ``rng``: deals the folds and seeds the attackers, each by its name: leaving one
    out does not change the others. Returns one for each attacker asked for, in that order. Raises
    InputError: if the arrays do not fit together, or a class has too few rows for two folds.
    """
    alpha = check_confidence(confidence)
    names = list(ATTACKERS) if attackers is None else list(attackers)
    for name in names:
        if name not in ATTACKERS:
            raise InputError(f"there is no attacker {name!r}. {suggest(name, ATTACKERS)}")
    rng = np.random.default_rng() if rng is None else rng
    seed = int(rng.integers(2**32))
    problem = pose(
        values,
        sizes,
        fact,
        n_classes,
        tables=tables,
        codes=codes,
        groups=groups,
        n_folds=n_folds,
        max_rows=max_rows,
        rng=rng,
    )
    # Sums in another order would be other numbers, so one thread. What is attacked was checked
    # when the problem was posed; scikit-learn need not do it again for every tree.
    unchecked = config_context(assume_finite=True, skip_parameter_validation=True)
    with threadpool_limits(limits=1), unchecked:
        return [
            _run(name, problem, alpha, np.random.default_rng([seed, *name.encode()]))
            for name in names
        ]


def _run(name: str, problem: Problem, alpha: float, rng: np.random.Generator) -> AttackResult:
    begin = time.perf_counter()
    attacker = ATTACKERS[name]
    if reason := attacker.refuse(problem):
        return AttackResult(name, skipped=reason)
    guesses = attacker.run(problem, rng)
    questions = ask_questions(problem, guesses)
    return AttackResult(
        name,
        accuracy=score_accuracy(problem, guesses, alpha),
        balanced_accuracy=questions[0].interval(alpha),
        auc=score_auc(problem, guesses, alpha),
        worst_pair=max(questions[1:] or questions, key=lambda question: question.estimate),
        questions=tuple(questions),
        rows=len(guesses.rows),
        learned=guesses.learned,
        note=_left_out(problem, guesses),
        seconds=time.perf_counter() - begin,
    )


def _left_out(problem: Problem, guesses: Guesses) -> str:
    """Say how many rows were left out for speed, if any."""
    tested, teaching = (problem.fold > 0).sum(), (problem.fold < problem.fold.max()).sum()
    cuts = []
    if guesses.learned < teaching:
        cuts.append(f"learned from at most {guesses.learned} of {teaching} rows")
    if len(guesses.rows) < tested:
        cuts.append(f"tested on {len(guesses.rows)} of {tested} rows")
    return "; ".join(cuts)
