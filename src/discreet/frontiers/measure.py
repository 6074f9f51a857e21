"""What rows that a mapping never saw say of it: what it gets wrong, and what it leaks.

Wherever the outputs can be listed, the known Q(z|x) is averaged over the held-out rows and
no symbol is drawn. Every bound here holds for one mapping at the confidence asked for. With
several private facts the worst one counts: the upper bound is the largest of theirs, and
since only the truly worst fact's has to hold, that costs nothing. The lower bound picks the
best of several attacks after the fact and splits its error probability among them.

Points are independent pieces of work, done in this process or in several.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits

from discreet.arrays import Floats, Ints
from discreet.auditing.bounds.certificates import NotCertifiable, certify_advantage
from discreet.auditing.bounds.deviations import deviation
from discreet.auditing.bounds.intervals import Interval
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.auditing.findings import (
    balanced_interval,
    error_interval,
    score_answers,
    score_rows,
    weighted_interval,
)
from discreet.data.columns import Labels
from discreet.design.expected import answer_unseen_codes, raw_advantage
from discreet.design.fusion import BALANCED, Aim
from discreet.design.leak_estimates import estimate_leaks
from discreet.design.training_rows import Sample
from discreet.errors import InputError
from discreet.frontiers.results import FAMILIES, Bound, Estimate, Leak, Worth
from discreet.leakage.exact import advantage
from discreet.leakage.joint_outputs import count_outputs
from discreet.mapping.mapping import Mapping

_T = TypeVar("_T")


def count_jobs(n_jobs: int | None) -> int:
    """Return how many processes a number asks for; -1 asks for one for each core."""
    if n_jobs is not None and (
        isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer)
    ):
        raise InputError(f"n_jobs must be None or an integer, got {n_jobs!r}.")
    if n_jobs == 0:
        raise InputError("n_jobs must not be 0. Give 1, or -1 for all cores.")
    return int(effective_n_jobs(n_jobs))


def run_each(
    function: Callable[..., _T], work: Sequence[tuple[Any, ...]], jobs: int
) -> Iterator[_T]:
    """Call the function with each of the argument lists; results come in any order.

    Raises BrokenProcessPool: if a process was ended from outside.
    """
    if jobs == 1 or len(work) < 2:
        yield from (function(*each) for each in work)
        return
    # Only this process hears Ctrl-C; it then ends the others, who need not say so.
    pool = Parallel(
        n_jobs=jobs,
        backend="loky",
        return_as="generator_unordered",
        inner_max_num_threads=1,
        initializer=partial(signal.signal, signal.SIGINT, signal.SIG_IGN),
    )
    yield from pool(delayed(function)(*each) for each in work)


_MOST_RULES = 2**16  # outputs for which the fusion rule's answers are written out
_MOST_CELLS = 2**20  # entries of the table of an attacker that listens to all sensors,
_FEW_CELLS = 2**12  # and of one that listens to some because all are too many


@dataclass(frozen=True)
class Side:
    """Coded rows with their labels: those that a mapping learned from, or those left out."""

    codes: Ints
    public: Labels
    private: tuple[Labels, ...]
    groups: Ints | None = None


@dataclass(frozen=True)
class Trial:
    """A finished mapping, the rows that it and an attacker learned from, and those left out."""

    mapping: Mapping
    known: Side
    unseen: Side
    alpha: float
    seed: int
    dependence: str = ""  # what the order of the rows says against their independence
    aim: Aim = BALANCED

    @property
    def tables(self) -> tuple[Floats, ...]:
        return tuple(self.mapping.tables)

    def audit_rows(self, labels: Labels) -> AuditRows:
        """Return the rows left out, as seen by those who look for one fact."""
        side = self.unseen
        return AuditRows(self.tables, side.codes, labels.index, labels.n_classes, side.groups)

    @cached_property
    def attacked(self) -> tuple[AuditRows, ...]:
        """The rows left out, once for each private fact."""
        return tuple(self.audit_rows(fact) for fact in self.unseen.private)


# --- Answers -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answered:
    """What the answers of the mapping's own fusion rule are worth; ``Point`` explains each."""

    error: Estimate
    balanced_accuracy: Estimate
    cost: Estimate | None
    exact: bool


def score_public(trial: Trial) -> Answered:
    """Return how often the fusion rule errs, is right by class, and what its misses cost.

    A row's share of wrong answers lies between 0 and 1 and rows, or groups of them, are
    independent, so that Chernoff's bound gives an interval, half of alpha on each side. Where
    classes have weights of their own, alpha is split among them.
    """
    rows, exact = trial.audit_rows(trial.unseen.public), count_outputs(trial.tables) <= _MOST_RULES
    error, right, _ = score_answers(trial.mapping, rows, trial.seed, exact)
    cost = None
    if trial.aim.rule == "cost":
        worth = trial.aim.worth(rows.shares)
        cost = _estimate(weighted_interval(rows, right, worth, trial.alpha)).turned()
    return Answered(
        error=_estimate(error_interval(rows, error, trial.alpha)),
        balanced_accuracy=_estimate(balanced_interval(rows, right, trial.alpha)),
        cost=cost,
        exact=exact,
    )


def _estimate(found: Interval) -> Estimate:
    """Return the interval without what rounding adds."""
    value = min(max(found.estimate, 0.0), 1.0)
    low, high = max(min(found.low, value), 0.0), min(max(found.high, value), 1.0)
    return Estimate(value=value, low=low, high=high)


# --- Advantage -----------------------------------------------------------------------------


def leak(trial: Trial) -> tuple[Leak, str]:
    """Return the attacker's advantage, and the private fact it speaks of."""
    estimates = [_estimate_leak(trial, k) for k in range(len(trial.known.private))]
    worst = int(np.argmax(estimates))
    low = lower_bound(trial)
    # The attackers behind the two figures differ where outputs are too many to list.
    value = min(max(estimates[worst], low, 0.0), 1.0)
    return Leak(value=value, low=low), trial.unseen.private[worst].name


def _estimate_leak(trial: Trial, k: int) -> float:
    """Return the advantage on one private fact, estimated as for the search for a level."""
    sizes = tuple(len(table) for table in trial.tables)
    known, unseen = (
        Sample(side.codes, sizes, side.public, (side.private[k],))
        for side in (trial.known, trial.unseen)
    )
    return estimate_leaks(trial.tables, known, unseen, trial.unseen.groups).advantage


def _learned(trial: Trial, fact: Labels, heard: list[int]) -> Floats:
    """Return p(z|class) of the sensors heard, as an attacker learns it from the training rows."""
    tables = tuple(trial.tables[t] for t in heard)
    return AuditRows(tables, trial.known.codes[:, heard], fact.index, fact.n_classes).average


def lower_bound(trial: Trial) -> float:
    """Return what an attacker reaches that learned from the training rows, at 1 - alpha.

    Its rules are fixed before the held-out rows are looked at: one that tells all classes
    of a fact apart and one for each pair. alpha is split among them and the best counts.
    """
    if trial.dependence:
        return 0.0
    facts = zip(trial.known.private, trial.attacked, strict=True)
    found = [each for fact, rows in facts for each in _attacks(trial, fact, rows)]
    return max(0.0, *(gain - deviation(r, trial.alpha / len(found), f) for gain, r, f in found))


def _attacks(
    trial: Trial, fact: Labels, rows: AuditRows
) -> Iterator[tuple[float, AuditRows, Floats]]:
    """Give the advantage of each rule on the held-out rows, the rows and classes' weights."""
    heard = _sensors_heard(trial, fact)
    learned = _learned(trial, fact, heard)
    if len(heard) < len(trial.tables):
        tables = tuple(trial.tables[t] for t in heard)
        rows = replace(rows, tables=tables, codes=rows.codes[:, heard])
    every = list(range(fact.n_classes))
    pairs = map(list, combinations(every, 2)) if len(every) > 2 else ()
    for classes in [every, *pairs]:
        factors = np.zeros(fact.n_classes)
        factors[classes] = 1.0 / len(classes)
        yield rule_accuracy(learned[classes], rows.average[classes]), rows, factors


def rule_accuracy(learned: Floats, true: Floats) -> float:
    """Return by how much the rule that ``learned`` suggests beats guessing among its classes."""
    rule = np.argmax(learned, axis=0)
    right = [float(p[rule == k].sum()) for k, p in enumerate(true)]
    return float(np.mean(right)) - 1.0 / len(true)


def _sensors_heard(trial: Trial, fact: Labels) -> list[int]:
    """Return the sensors that the attacker listens to: all, or the most telling it can tabulate.

    Chosen on the training rows, so that the choice is free.
    """
    tables, everyone = trial.tables, list(range(len(trial.tables)))
    if count_outputs(tables) * fact.n_classes <= _MOST_CELLS:
        return everyone
    alone = [advantage(_learned(trial, fact, [t])) for t in everyone]
    heard: list[int] = []
    for t in sorted(everyone, key=lambda t: -alone[t]):
        if count_outputs([tables[u] for u in (*heard, t)]) * fact.n_classes <= _FEW_CELLS:
            heard.append(t)
    return sorted(heard)


def upper_bounds(trial: Trial) -> tuple[Bound, ...]:
    """Return the certified bound for a mapping chosen among 1, 2, 4, ... mappings."""
    return tuple(_worst_bound(trial, among) for among in FAMILIES)


def _worst_bound(trial: Trial, among: int) -> Bound:
    if trial.dependence:
        return Bound(among=among, certifiable=False, reason=trial.dependence)
    alpha = trial.alpha / among
    bounds = []
    for rows in trial.attacked:
        value = certify_advantage(rows, alpha).value
        if isinstance(value, NotCertifiable):
            return Bound(among=among, certifiable=False, reason=value.reason)
        bounds.append(value)
    return Bound(among=among, certifiable=True, value=max(bounds))


# --- Guessing and raw readings --------------------------------------------------------------
# What stands beside the answers of a mapping: guessing, and a classifier on raw readings.


def guess(known: AuditRows, unseen: AuditRows, aim: Aim) -> Worth:
    """Return the worth of always naming the class that is best among the known rows."""
    common = int(np.argmax(known.shares))
    cheap = int(np.argmax(aim.worth(known.shares)))
    return Worth(
        error=1.0 - unseen.shares[common],
        balanced_accuracy=1.0 / unseen.n_classes,
        cost=_cost(unseen, np.eye(unseen.n_classes)[cheap], aim),
        leak=0.0,
    )


def answer_raw(sample: Sample, known: Ints, unseen: AuditRows, rows: Ints, aim: Aim) -> Worth:
    """Return the worth of deciding from the codes, learned from those of the known rows.

    ``sample``: all rows; ``known`` and ``rows`` number those that teach and those that are
    answered. ``unseen``: the latter, with their groups.
    """
    with threadpool_limits(1):
        answers = answer_unseen_codes(sample, known, rows, aim, seed=0)
        leak = raw_advantage(sample.take(known), sample.take(rows))
    error, right = score_rows(unseen, answers.right)
    return Worth(
        error=error,
        balanced_accuracy=float(right.mean()),
        cost=_cost(unseen, right, aim),
        leak=leak,
    )


def _cost(rows: AuditRows, right: Floats, aim: Aim) -> float | None:
    if aim.rule != "cost":
        return None
    return float(np.clip(1.0 - aim.worth(rows.shares) @ right, 0.0, 1.0))
