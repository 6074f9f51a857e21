"""The audit: a frozen mapping and rows it has not seen in, an honest account out.

Upper bounds come from averaging the shipped tables over the rows (``certificates``,
``pointwise``), the lower side from real attackers on drawn symbols (``attackers``). The
error probability 1 - confidence is divided over the private facts and the limits stated:
one kind of bound holds on all facts together, and all limits hold at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

import discreet
from discreet.auditing.attackers import attack, best_attack
from discreet.auditing.certificates import (
    Certificate,
    Structural,
    certify_accuracy,
    certify_advantage,
    certify_structure,
    certify_total_variation,
    compose,
)
from discreet.auditing.contributions import Contribution, contributions, separate_contributions
from discreet.auditing.findings import find_copies, find_leaks
from discreet.auditing.intervals import kl_lower, kl_upper
from discreet.auditing.limits import check_limits, give_verdict
from discreet.auditing.outputs_given import AuditRows
from discreet.auditing.plug_in import plug_in_epsilon
from discreet.auditing.pointwise import DELTAS, PointwiseAudit
from discreet.auditing.raw_codes import raw_codes
from discreet.auditing.results import FEW_ROWS, Attacks, Audit, FactAudit, Figures, PublicAudit
from discreet.auditing.subjects import Labelled, Subject, subject_from_arrays
from discreet.codes import CategoriesEncoder
from discreet.design.losses import LOSSES
from discreet.errors import InputError
from discreet.exact import (
    advantage,
    epsilon_beyond,
    information_epsilon,
    maximal_leakage,
    mutual_information,
    pair_risk,
    pairwise_epsilon,
    total_variation,
)
from discreet.mapping import Mapping
from discreet.paper_budgets import Budget, extreme_probability, proposition_budget, theorem_budget
from discreet.values import shown, written

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Report = Callable[[str, float], None]
"""Told what is being done and the share of the work that is behind."""

ATTACKED_ROWS = 10_000
"""Most rows that attackers learn and are tested on; the certificates use all rows."""
_DRAWS = 20
_LISTED_AT_ONCE = 2**16
_MANY_ROWS = 2_000  # beyond, attackers learn enough from fewer and larger folds


def audit(
    mapping: Mapping,
    X: pd.DataFrame | ArrayLike,
    y: ArrayLike,
    *,
    private: Any = None,
    groups: ArrayLike | None = None,
    max_advantage: float | None = None,
    epsilon: float | None = None,
    confidence: float = 0.95,
    releases: int = 1,
    prior: ArrayLike | None = None,
    random_state: int = 0,
    report: Report | None = None,
) -> Audit:
    """Measure what a mapping leaks and what it is good for, on rows it has not seen.

    Parameters
    ----------
    mapping : Mapping
    X : DataFrame or array
        Readings; a DataFrame may have more columns than the sensors.
    y : array of shape (n_rows,)
        The public fact.
    private : Series, DataFrame or array
        The private facts, in the order of the mapping.
    groups : array of shape (n_rows,), optional
        Rows of one group (a day, a home) may depend on one another; a group then counts as
        one observation.
    max_advantage, epsilon : float, optional
        Limits to check. They are met only if certified.
    confidence : float, default=0.95
        With which each bound holds, on all private facts together; stated limits hold all
        at once. Different kinds of bounds do not share it.
    releases : int, default=1
        How many reports to add up.
    prior : array of shape (n_classes,), optional
        Known frequencies of the private classes, for a single private fact. By default
        they are estimated from the rows.
    random_state : int, default=0
        Seeds the symbols drawn for the attackers and the split of the rows. These
        symbols are never sent.
    report : callable, optional
        Told about progress.

    Returns
    -------
    Audit

    Raises
    ------
    InputError
        If the rows cannot be used, with what to do; also if they are the very rows that
        the mapping was learned from.
    """
    subject = subject_from_arrays(mapping, X, y, private, groups)
    return audit_subject(
        subject,
        max_advantage=max_advantage,
        epsilon=epsilon,
        confidence=confidence,
        releases=releases,
        prior=None if prior is None else np.asarray(prior, dtype=np.float64),
        seed=random_state,
        report=report,
    )


def audit_subject(
    subject: Subject,
    *,
    max_advantage: float | None = None,
    epsilon: float | None = None,
    confidence: float = 0.95,
    releases: int = 1,
    prior: Floats | None = None,
    seed: int = 0,
    report: Report | None = None,
) -> Audit:
    """Do what ``audit`` does on rows that are already chosen and checked."""
    _check_options(subject, max_advantage, epsilon, confidence, releases, prior)
    stated = {"advantage": max_advantage, "epsilon": epsilon}
    asked = {name: limit for name, limit in stated.items() if limit is not None}
    alpha = (1.0 - confidence) / (len(subject.private) * max(1, len(asked)))
    steps = _Steps(report, 2 + 4 * len(subject.private))
    with threadpool_limits(limits=1):
        structural = certify_structure(subject.mapping.tables, subject.mapping.names)
        symbols = subject.mapping.sample(subject.codes, np.random.default_rng(seed))
        public = _audit_public(subject, symbols, 1.0 - confidence, seed, steps)
        private = tuple(
            _audit_fact(subject, each, symbols, structural, alpha, releases, prior, seed, steps)
            for each in subject.private
        )
    limits = check_limits(asked, private, releases)
    return Audit(
        mapping_id=subject.mapping.id,
        method=subject.mapping.design.method,
        created=subject.mapping.design.created,
        rows=subject.n_rows,
        rows_from=subject.origin,
        confidence=confidence,
        seed=seed,
        releases=releases,
        outputs=math.prod(subject.mapping.n_symbols),
        structural=structural,
        public=public,
        private=private,
        limits=limits,
        remarks=_remarks(subject),
        verdict=give_verdict(limits, private, public, confidence),
        date=datetime.now(UTC).date().isoformat(),
        program=f"discreet {discreet.__version__}",
    )


class _Steps:
    """Counts the steps of an audit for whoever watches."""

    def __init__(self, report: Report | None, planned: int) -> None:
        self.report, self.planned, self.done = report, planned, 0

    def begin(self, what: str) -> None:
        if self.report is not None:
            self.report(what, self.done / self.planned)
        self.done += 1


def _check_options(
    subject: Subject,
    max_advantage: float | None,
    epsilon: float | None,
    confidence: float,
    releases: int,
    prior: Floats | None,
) -> None:
    if max_advantage is not None and not 0.0 < max_advantage < 1.0:
        raise InputError(f"max_advantage must be strictly between 0 and 1, got {max_advantage!r}.")
    if epsilon is not None and not 0.0 < epsilon < np.inf:
        raise InputError(f"epsilon must be a finite number above 0, got {epsilon!r}.")
    if not 0.5 <= confidence < 1.0:
        raise InputError(f"confidence must be at least 0.5 and below 1, got {confidence!r}.")
    if releases < 1:
        raise InputError(f"releases must be at least 1, got {releases!r}.")
    if prior is None:
        return
    if len(subject.private) > 1:
        raise InputError(
            f"prior is for a single private fact; the mapping guards {len(subject.private)}. "
            "Leave it out: the classes' frequencies are then estimated."
        )
    classes = subject.private[0].n_classes
    if prior.shape != (classes,) or np.any(prior <= 0) or abs(prior.sum() - 1.0) > 1e-9:
        raise InputError(
            f"prior must hold {classes} positive numbers that sum to 1, got {prior.tolist()}."
        )


# --- One private fact ------------------------------------------------------------------------


def _audit_fact(
    subject: Subject,
    labelled: Labelled,
    symbols: Ints,
    structural: Structural,
    alpha: float,
    releases: int,
    prior: Floats | None,
    seed: int,
    steps: _Steps,
) -> FactAudit:
    rows = _audit_rows(subject, labelled)
    steps.begin(f"bounds on {shown(labelled.name)}")
    pointwise = PointwiseAudit(rows, seed, prior)
    pairwise = pointwise.pairwise(alpha)
    certificates: tuple[Certificate, ...] = (
        certify_advantage(rows, alpha),
        certify_total_variation(rows, alpha),
        certify_accuracy(rows, alpha, prior),
        pairwise,
    )
    steps.begin(f"rare outputs and {shown(labelled.name)}")
    certificates += pointwise.nested(alpha)
    attacks = _attack_both(subject, labelled, symbols, 1.0 - alpha, seed, steps)
    rng = np.random.default_rng([seed, 1])
    return FactAudit(
        name=labelled.name,
        classes=tuple(written(each) for each in labelled.fact.classes),
        rows=labelled.counts,
        figures=_figures(subject, rows) if rows.listable else None,
        plug_in=plug_in_epsilon(
            symbols,
            subject.mapping.n_symbols,
            labelled.index,
            labelled.n_classes,
            rng,
            subject.groups,
        ),
        certificates=certificates,
        over_time=compose(pairwise, structural.total, releases),
        attacks=attacks,
        contributions=_contributions(subject, rows, labelled),
        findings=(
            *find_leaks(subject, rows, labelled, attacks.best.lower, alpha),
            *find_copies(subject),
        ),
    )


def _audit_rows(subject: Subject, labelled: Labelled) -> AuditRows:
    return AuditRows(
        tables=tuple(subject.mapping.tables),
        codes=subject.codes,
        index=labelled.index,
        n_classes=labelled.n_classes,
        groups=subject.groups,
        sensors=tuple(subject.mapping.names),
    )


def _figures(subject: Subject, rows: AuditRows) -> Figures:
    given, prior = rows.average, rows.shares
    return Figures(
        bayes_error=1.0 - float(rows.joint.max(axis=0).sum()),
        risk=pair_risk(given),
        total_variation=total_variation(given),
        advantage=advantage(given),
        epsilon=information_epsilon(given, prior),
        epsilon_beyond={f"{delta:g}": epsilon_beyond(given, prior, delta) for delta in DELTAS},
        pairwise_epsilon=pairwise_epsilon(given),
        mutual_information=mutual_information(given, prior),
        maximal_leakage=maximal_leakage(given),
        extreme_probability=extreme_probability(given),
        budgets=_budgets(subject, given),
    )


def _budgets(subject: Subject, given: Floats) -> tuple[Budget, ...]:
    """Return the paper's budgets: of its proposition, and of its theorem where it applies."""
    found = [proposition_budget(given)]
    told = subject.mapping.design.parameters
    loss, theta = LOSSES.get(str(told.get("loss"))), told.get("threshold")
    if loss is not None and isinstance(theta, int | float):
        at_zero = float(loss.value(np.zeros(1))[0])
        found.append(theorem_budget(given, float(theta), 0.01, at_zero=at_zero, a=loss.a, r=loss.r))
    return tuple(found)


def _contributions(
    subject: Subject, rows: AuditRows, labelled: Labelled
) -> tuple[Contribution, ...]:
    mapping = subject.mapping
    if rows.listable:
        return tuple(contributions(rows.average, mapping.n_symbols, mapping.names))
    return tuple(
        separate_contributions(
            mapping.tables, subject.codes, labelled.index, labelled.n_classes, mapping.names
        )
    )


def _attack_both(
    subject: Subject,
    labelled: Labelled,
    symbols: Ints,
    confidence: float,
    seed: int,
    steps: _Steps,
) -> Attacks:
    """Attack what is sent and, beside it, the readings themselves."""
    chosen = np.arange(subject.n_rows)
    if subject.n_rows > ATTACKED_ROWS:
        drawn = np.random.default_rng([seed, 2]).choice(subject.n_rows, ATTACKED_ROWS, False)
        chosen = np.sort(drawn)
    tables = subject.mapping.tables
    shared: dict[str, Any] = {
        "groups": None if subject.groups is None else subject.groups[chosen],
        "confidence": confidence,
        "n_folds": 5 if len(chosen) <= _MANY_ROWS else 3,
    }
    fact, n_classes = labelled.index[chosen], labelled.n_classes
    steps.begin(f"attackers on {shown(labelled.name)}, from symbols")
    on_symbols = attack(
        symbols[chosen],
        subject.mapping.n_symbols,
        fact,
        n_classes,
        tables=tables,
        codes=subject.codes[chosen],
        rng=np.random.default_rng([seed, 3]),
        **shared,
    )
    steps.begin(f"attackers on {shown(labelled.name)}, from readings")
    raw, levels = raw_codes(subject.readings.iloc[chosen])
    on_readings = attack(
        raw,
        levels,
        fact,
        n_classes,
        rng=np.random.default_rng([seed, 4]),
        **shared,
    )
    return Attacks(
        tuple(on_symbols),
        tuple(on_readings),
        best_attack(on_symbols, confidence=confidence),
        best_attack(on_readings, confidence=confidence),
    )


# --- The public fact -------------------------------------------------------------------------


def _audit_public(
    subject: Subject, symbols: Ints, alpha: float, seed: int, steps: _Steps
) -> PublicAudit:
    labelled = subject.public
    rows = _audit_rows(subject, labelled)
    attacks = _attack_both(subject, labelled, symbols, 1.0 - alpha, seed, steps)
    error = _fusion_error(subject, rows, seed)
    level = np.log(2.0 / alpha) / rows.n_groups
    return PublicAudit(
        name=labelled.name,
        classes=tuple(written(each) for each in labelled.fact.classes),
        rows=labelled.counts,
        error=error,
        error_low=float(kl_lower(error, level)),
        error_high=float(kl_upper(error, level)),
        guessing_error=1.0 - float(rows.shares.max()),
        attacks=attacks,
        contributions=_contributions(subject, rows, labelled),
    )


def _fusion_error(subject: Subject, rows: AuditRows, seed: int) -> float:
    """Return the share of wrong answers, averaged over Q where outputs can be listed."""
    mapping, labelled = subject.mapping, subject.public
    if not rows.listable:
        rng = np.random.default_rng([seed, 5])
        drawn = (mapping.sample(subject.codes, rng) for _ in range(_DRAWS))
        wrong = [mapping.posterior(each).argmax(axis=1) != labelled.index for each in drawn]
        return float(np.mean(wrong))
    decided = _decisions(mapping)
    right = [float(rows.joint[h, decided == h].sum()) for h in range(labelled.n_classes)]
    return min(1.0, max(0.0, 1.0 - sum(right)))


def _decisions(mapping: Mapping) -> Ints:
    """Return the class that the fusion rule names for every output."""
    sizes = tuple(mapping.n_symbols)
    total = int(np.prod(sizes))
    parts = []
    for begin in range(0, total, _LISTED_AT_ONCE):
        numbers = np.arange(begin, min(begin + _LISTED_AT_ONCE, total))
        outputs = np.stack(np.unravel_index(numbers, sizes), axis=1)
        parts.append(mapping.posterior(outputs).argmax(axis=1))
    return np.concatenate(parts)


# --- Remarks ---------------------------------------------------------------------------------


def _remarks(subject: Subject) -> tuple[str, ...]:
    found = []
    for t, sensor in enumerate(subject.mapping.sensors):
        if not isinstance(sensor.encoder, CategoriesEncoder):
            continue
        unknown = int(np.sum(subject.codes[:, t] == len(sensor.encoder.categories)))
        if unknown:
            found.append(
                f"sensor {shown(sensor.name)} has {unknown} readings that it was not taught; they "
                "take the code for the unknown"
            )
    if subject.groups is not None:
        count = int(subject.groups.max()) + 1
        found.append(
            f"rows of one group depend on each other, so the {count} groups count, not the "
            f"{subject.n_rows} rows"
        )
    if subject.held_out:
        found.append(
            "if these held-out rows have been looked at before, to choose among mappings, the "
            "bounds are those of a choice: audit with fresh rows, or take the frontier's bound for "
            "what was chosen"
        )
    if subject.n_rows < FEW_ROWS:
        found.append(
            f"{subject.n_rows} rows are few: no method can certify a useful epsilon from them"
        )
    return tuple(found)
