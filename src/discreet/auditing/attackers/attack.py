"""Real attackers on sampled symbols: a lower bound on what leaks.

An attacker learns from some rows and guesses the fact of others. Any attacker can reach what it
reaches on rows it has not seen, so a lower bound on its score is one on the leak. The attackers
range from counting outputs to one that knows the tables and the codes of the rows it learns from.

``problem`` has the assumptions on which rows an attacker learns from.

The one that knows most rates a class by the mean of Q(z|x) over the codes x of its rows, and so has
the posterior that a world made of those rows would have. Q is a product over sensors, which allows
two ways to add it up over rows; ``_plan`` takes the cheaper one.

*How well attackers guess: balanced accuracy, accuracy and AUC, with confidence intervals.* Rows are
taken to be independent; or, when groups are given, groups are, each weighs the same and its rows
may depend on one another in any way.

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

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import inf, prod, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from sklearn import config_context
from threadpoolctl import threadpool_limits

from discreet.arrays import Floats, Ints, distinct_rows
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
from discreet.auditing.attackers.problem import (
    Guesses,
    Problem,
    count_rows,
    normalised,
    one_hot,
    pose,
    tested_rows,
    thin,
)
from discreet.auditing.bounds.intervals import (
    Interval,
    clopper_pearson_lower,
    clopper_pearson_upper,
    kl_lower,
    kl_upper,
)
from discreet.errors import InputError, suggest

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
    counts = np.bincount((fold - 1) * m + fact, minlength=(problem.n_folds - 1) * m)
    # Folds weigh what they can tell, which is equal unless groups made them uneven.
    worth = 1.0 / (1.0 / counts.reshape(-1, m).astype(np.float64)).sum(axis=1)
    weight = worth / worth.sum()
    sides = (1,) if m == 2 else tuple(range(m))
    value, shifts = 0.0, np.zeros(len(rows))
    for k in range(1, problem.n_folds):
        here = np.flatnonzero(fold == k)
        for side in sides:
            part = weight[k - 1] / len(sides)
            inside = fact[here] == side
            ranks, n = rankdata(guesses.scores[here, side])[inside], int(inside.sum())
            value += part * float((ranks.sum() - n * (n + 1) / 2) / (n * (len(here) - n)))
            shifts[here] += part / np.where(inside, inside.sum(), (~inside).sum())
    if problem.grouped:
        return Interval(value, 0.0, 1.0)
    # McDiarmid's interval, by the sum of squared shifts.
    half = sqrt(0.5 * np.log(2 / alpha) * float(np.square(shifts).sum()))
    return Interval(value, max(value - half, 0.0), min(value + half, 1.0))


# --- The attacker who knows the tables --------------------------------------------------------

_BLOCK = 2**20  # numbers held at once
_MAX_WORK = 2e10  # multiplications that may be spent, and
_MAX_EXPONENTS = 5e7  # exponentials, where outputs are too many to list
_LOG_COST = 100  # multiplications that take as long as one logarithm of Q(z|x) and its exponential


def attack_with_tables(problem: Problem, rng: np.random.Generator) -> Guesses:
    """Score a class by the mean of Q(z|x) over the codes x of its rows in earlier folds.

    The evidence of a fold is worked out once and added up from fold to fold.
    """
    assert problem.tables is not None and problem.codes is not None
    plan = _plan(problem)
    tested = tested_rows(problem.fold, problem.fact, plan.test_rows, rng)
    ask, answers = np.unique(problem.place[tested], return_inverse=True)
    codes = distinct_rows(problem.codes)
    fold, total = problem.fold, np.zeros((len(ask), problem.n_classes))
    scores, seen = np.empty((len(tested), problem.n_classes)), np.zeros(problem.n_classes)
    for k in range(1, problem.n_folds):
        new = thin(np.flatnonzero(fold == k - 1), problem.fact, plan.fold_rows, rng)
        rows, counts = count_rows(codes.inverse[new], problem.fact[new], problem.n_classes)
        total += plan.evidence(problem.tables, codes.rows[rows], counts, problem.symbols[ask])
        seen += counts.sum(axis=0)
        here = fold[tested] == k
        scores[here] = normalised(total / seen)[answers[here]]
    return Guesses(tested, scores, int(seen.sum()))


@dataclass(frozen=True)
class _Plan:
    """Which way to sum, and how many rows it can afford."""

    evidence: Callable[[list[Floats], Ints, Floats, Ints], Floats]
    fold_rows: float = inf
    test_rows: float = inf


def _plan(problem: Problem) -> _Plan:
    """Choose by how many pairs of halves of an output there are."""
    rows, turns = min(problem.max_rows, len(problem.fact)), problem.n_folds - 1
    grid = prod(len(distinct) for distinct, _ in _halves(problem.symbols))
    if _MAX_WORK / grid >= rows and grid <= _LOG_COST * len(problem.symbols):
        return _Plan(evidence_by_halves, _MAX_WORK / grid / turns)
    return _Plan(evidence_by_logs, rows / turns, max(1_000, _MAX_EXPONENTS / rows))


def evidence_by_halves(
    tables: Sequence[Floats], codes: Ints, counts: Floats, symbols: Ints
) -> Floats:
    """Sum Q(z|x) over rows of codes x, class by class, for rows of symbols z.

    Q(z|x) is the product of a factor of the first half of the sensors and one of the
    second, so the sum over rows is one matrix product for all pairs of halves that occur.

    ``counts``: how often each row of codes occurs. Returns up to a factor of its own for each row
    of symbols.
    """
    half = symbols.shape[1] // 2
    scaled = _scaled(tables)
    (left, i), (right, j) = _halves(symbols)
    found = np.zeros((len(symbols), counts.shape[1]))
    step = max(1, _BLOCK // (len(left) + len(right)))
    for k in range(counts.shape[1]):
        rows = np.flatnonzero(counts[:, k])
        grid = np.zeros((len(left), len(right)))
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            first = _factor(scaled[:half], codes[block, :half], left)
            second = _factor(scaled[half:], codes[block, half:], right)
            grid += first.T @ (second * counts[block, k, None])
        found[:, k] = grid[i, j]
    return found


def _scaled(tables: Sequence[Floats]) -> list[Floats]:
    """Divide each symbol's column by its largest entry, which keeps products from vanishing."""
    return [table / np.maximum(table.max(axis=0), np.finfo(float).tiny) for table in tables]


def _factor(tables: Sequence[Floats], codes: Ints, symbols: Ints) -> Floats:
    """Return the product over some sensors of Q^t(z|x), rows of codes by rows of symbols.

    Halves of halves: few distinct parts of a row are looked up, most work is one product.
    """
    if len(tables) < 2:
        ones = np.ones((len(codes), len(symbols)))
        return tables[0][codes[:, 0]][:, symbols[:, 0]] if tables else ones
    half = len(tables) // 2
    (left, i), (right, j) = _halves(symbols)
    first = _factor(tables[:half], codes[:, :half], left)
    second = _factor(tables[half:], codes[:, half:], right)
    return first[:, i] * second[:, j]


def _halves(symbols: Ints) -> list[tuple[Ints, Ints]]:
    """Return the distinct rows of either half of the sensors, and which of them each row has."""
    half = symbols.shape[1] // 2
    parts = (distinct_rows(part) for part in (symbols[:, :half], symbols[:, half:]))
    return [(part.rows, part.inverse) for part in parts]


def evidence_by_logs(
    tables: Sequence[Floats], codes: Ints, counts: Floats, symbols: Ints
) -> Floats:
    """Return the same as ``evidence_by_halves``, pair of rows by pair of rows.

    For networks whose outputs are too many to list: log Q(z|x) of all pairs is a product
    of one-hot symbols with the logarithms that each row of codes picks from the tables.
    """
    with np.errstate(divide="ignore"):
        # e**-1e4 is 0 and, unlike minus infinity, still is after multiplying with a zero
        logs = [np.maximum(np.log(table), -1e4) for table in _scaled(tables)]
    picked = np.concatenate([log[codes[:, t]] for t, log in enumerate(logs)], axis=1)
    hot = one_hot(symbols, [table.shape[1] for table in tables])
    found = np.empty((len(symbols), counts.shape[1]))
    step = max(1, _BLOCK // max(len(codes), 1))
    for start in range(0, len(symbols), step):
        likely = np.exp(hot[start : start + step].toarray() @ picked.T)
        found[start : start + step] = likely @ counts
    return found


# --- All attackers ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Attacker:
    """How to attack, and why not to: a reason, or nothing."""

    run: Callable[[Problem, np.random.Generator], Guesses]
    refuse: Callable[[Problem], str] = lambda _: ""


ATTACKERS: dict[str, Attacker] = {
    "knows-all": Attacker(
        attack_with_tables, lambda each: "needs the tables and the codes" * (each.tables is None)
    ),
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
        values, sizes, fact, n_classes, tables=tables, codes=codes, groups=groups,
        n_folds=n_folds, max_rows=max_rows, rng=rng,
    )  # fmt: skip
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
