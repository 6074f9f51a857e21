"""What attackers reached: scores with their intervals, and the best of several attackers.

Plain records apart from the attackers, so that whoever prints or stores an audit needs no
attacker. Two kinds of intervals:

- hits are counted: Clopper and Pearson's, and for balanced accuracy one for each class at an
  equal share of the error probability, then the mean. With groups, the share of hits among a
  group's rows of a class is one observation, and Chernoff's bound takes their mean;
- elsewhere McDiarmid's, from how far one row can move the score.

``best_attack`` picks the strongest after the fact and pays for the choice: Bonferroni over
attackers and over the questions put to each, which are all classes and every pair of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt

import numpy as np

from discreet.auditing.intervals import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    kl_lower,
    kl_upper,
)
from discreet.errors import InputError


@dataclass(frozen=True)
class Interval:
    """An estimate between the ends of its confidence interval."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Question:
    """How an attacker did on telling some classes apart.

    Attributes
    ----------
    classes : tuple of int
        All classes of the fact, or two of them.
    estimate : float
        Balanced accuracy.
    right, tested : tuple
        Rows guessed right and rows tested, by class. With groups, the sum over groups of the
        share of their rows of the class that was guessed right, and the number of groups.
    grouped : bool
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

    Attributes
    ----------
    name : str
    accuracy, balanced_accuracy, auc : Interval or None
        At the confidence asked for, each by itself. AUC is one class against the rest,
        averaged over classes where there are more than two. None where it was skipped.
    worst_pair : Question or None
        The two classes it told apart best; its interval should be taken at the error
        probability divided by the number of pairs, as ``best_attack`` does.
    questions : tuple of Question
        All classes first, then each pair when there are more than two.
    rows : int
        Rows tested.
    learned : int
        Most rows that any of its fits learned from.
    note : str
        What was left out for speed, if anything.
    skipped : str or None
        Why it did not run.
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

    Attributes
    ----------
    name : str
    classes : tuple of int
        The classes it tells apart: all, or the worst pair.
    advantage : float
        Its balanced accuracy above guessing. Being the best of many, this errs high.
    lower : float
        With probability ``confidence``, some attacker's advantage is at least this.
    comparisons : int
        Attackers times questions, over which the error probability was split.
    """

    name: str
    classes: tuple[int, ...]
    advantage: float
    lower: float
    confidence: float
    comparisons: int


def best_attack(results: Sequence[AttackResult], *, confidence: float = 0.95) -> BestAttack:
    """Return the attack whose lower bound on the advantage is highest.

    Parameters
    ----------
    results : sequence of AttackResult
        All that were tried on one fact, skipped ones included: leaving out those that
        did badly would make the bound invalid.
    confidence : float, default=0.95
        Of the one-sided bound, jointly over all attackers, classes and pairs.

    Raises
    ------
    InputError
        If no attacker ran.
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
