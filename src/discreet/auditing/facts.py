"""One fact of an audit: bounds, attackers and figures of a private one, use of the public one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from discreet.arrays import Floats, Ints
from discreet.auditing.attackers.attack import attack
from discreet.auditing.attackers.problem import discretise_readings
from discreet.auditing.attackers.scores import BestAttack, best_attack
from discreet.auditing.bounds.beyond_answer import certify_beyond_answer
from discreet.auditing.bounds.certificates import (
    Certificate,
    certify_accuracy,
    certify_advantage,
    certify_total_variation,
)
from discreet.auditing.bounds.estimates import (
    balanced_interval,
    error_interval,
    plug_in_epsilon,
    score_answers,
)
from discreet.auditing.bounds.lower_side import HALVES, certify_lower
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.auditing.bounds.over_time import Structural, compose
from discreet.auditing.bounds.pointwise import DELTAS, PointwiseAudit
from discreet.auditing.data import AuditData, AuditOptions
from discreet.auditing.findings import (
    contributions,
    count_telling_groups,
    find_copies,
    find_leaks,
)
from discreet.auditing.results import Attacks, FactAudit, Figures, PublicAudit
from discreet.auditing.rounds import RoundsAudit, audit_rounds
from discreet.auditing.verdict import qualify, qualify_attack, qualify_beyond, withheld
from discreet.choices import LOSSES
from discreet.data.columns import written
from discreet.data.labels import Labels
from discreet.errors import shown
from discreet.leakage.epsilon_bounds import (
    Budget,
    extreme_probability,
    proposition_budget,
    theorem_budget,
)
from discreet.leakage.exact import (
    advantage,
    epsilon_beyond,
    information_epsilon,
    maximal_leakage,
    mutual_information,
    pair_risk,
    pairwise_epsilon,
    total_variation,
)
from discreet.progress import Progress, Report

_TAUGHT_ROWS = 20_000  # of which slow attackers learn from a share
_COMPARED_ROWS = 8_000  # the same for readings and the public fact, which are for comparison
_MANY_ROWS = 2_000  # beyond, attackers learn enough from fewer and larger folds


class Steps:
    """Counts the steps of an audit for whoever watches."""

    def __init__(self, report: Report | None, planned: int) -> None:
        self.report, self.planned, self.done = report, planned, 0

    def begin(self, what: str) -> None:
        if self.report is not None:
            self.report(Progress(what, self.done / self.planned))
        self.done += 1


def audit_fact(
    data: AuditData,
    labelled: Labels,
    options: AuditOptions,
    symbols: Ints,
    structural: Structural,
    alpha: float,
    steps: Steps,
) -> FactAudit:
    """Bound, attack and describe what is sent about one private fact."""
    rows, seed = data.rows_with(labelled, options.cap), options.seed
    steps.begin(f"bounds on {shown(labelled.name)}")
    certificates = _certificates(data, rows, options, alpha)
    by_name = {each.name: each for each in certificates}
    beyond = certify_beyond_answer(rows, data.public, labelled.name, alpha, seed)
    steps.begin(f"rare outputs and {shown(labelled.name)}")
    # Half of alpha for attackers on drawn symbols, half for one that draws none.
    attacks = _attack_symbols_and_readings(data, labelled, options, symbols, 1.0 - alpha / 2, steps)
    attacks = replace(attacks, best=_strongest_attack(data, attacks.best, rows, alpha, seed))
    level = options.max_advantage or by_name["advantage"].bound
    return FactAudit(
        name=labelled.name,
        classes=tuple(written(each) for each in labelled.classes),
        rows=labelled.counts,
        figures=_figures(data, rows) if rows.listable else None,
        plug_in=plug_in_epsilon(
            symbols,
            labelled.index,
            labelled.n_classes,
            np.random.default_rng([seed, 1]),
            data.groups,
        ),
        certificates=certificates,
        over_time=compose(
            by_name["pairwise epsilon"],
            by_name["total variation"],
            structural.total,
            options.rounds or options.releases,
            n_classes=labelled.n_classes,
            unit=None if data.groups is None else data.unit,
        ),
        beyond_answer=qualify_beyond(data, beyond),
        telling_groups=None if level is None else count_telling_groups(rows, level, alpha),
        attacks=attacks,
        contributions=contributions(rows, data.mapping.names),
        rounds=_audit_rounds(data, labelled, options, alpha),
        findings=(
            *find_leaks(data, rows, labelled, attacks.best.lower, alpha),
            *find_copies(data),
        ),
    )


def _audit_rounds(
    data: AuditData, labelled: Labels, options: AuditOptions, alpha: float
) -> RoundsAudit | None:
    if options.rounds is None:
        return None
    return audit_rounds(
        data.mapping,
        data.rows_with(labelled),
        data.public,
        labelled.name,
        data.series,
        options.stay,
        options.rounds,
        alpha,
        options.seed,
        beyond=options.beyond_answer,
    )


def _strongest_attack(
    data: AuditData, best: BestAttack, rows: AuditRows, alpha: float, seed: int
) -> BestAttack:
    """Return the attack that is shown to gain most, with what both kinds of it have cost."""
    best = replace(best, confidence=1.0 - alpha)
    found = certify_lower(rows, alpha / 2, seed) if rows.cap is None else None
    if found is not None and found.advantage > best.lower:
        best = replace(
            best,
            name=HALVES,
            classes=found.classes,
            advantage=found.estimate,
            lower=found.advantage,
        )
    # Real attackers see rows of groups, and say nothing for certain about capped rows.
    return qualify_attack(data, best if rows.cap is None else replace(best, lower=0.0))


def _certificates(
    data: AuditData, rows: AuditRows, options: AuditOptions, alpha: float
) -> tuple[Certificate, ...]:
    """Return all bounds from rows, or why these rows allow none."""
    pointwise = PointwiseAudit(rows, options.seed, options.prior)
    epsilons = pointwise.pairwise(alpha), *pointwise.nested(alpha)
    found = (
        certify_advantage(rows, alpha),
        certify_total_variation(rows, alpha),
        certify_accuracy(rows, alpha, options.prior),
        *epsilons,
    )
    return tuple(qualify(data, each, options.prior is not None) for each in found)


def _figures(data: AuditData, rows: AuditRows) -> Figures:
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
        budgets=_budgets(data, given),
    )


def _budgets(data: AuditData, given: Floats) -> tuple[Budget, ...]:
    """Return the paper's budgets: of its proposition, and of its theorem where it applies."""
    found = [proposition_budget(given)]
    parameters = data.mapping.design.parameters
    loss, theta = LOSSES.get(str(parameters.get("loss"))), parameters.get("threshold")
    if loss is not None and isinstance(theta, int | float):
        at_zero = float(loss.value(np.zeros(1))[0])
        found.append(theorem_budget(given, float(theta), 0.01, at_zero=at_zero, a=loss.a, r=loss.r))
    return tuple(found)


def _attack_symbols_and_readings(
    data: AuditData,
    labelled: Labels,
    options: AuditOptions,
    symbols: Ints,
    confidence: float,
    steps: Steps,
    max_rows: int = _TAUGHT_ROWS,
) -> Attacks:
    """Attack what is sent, slow attackers with fewer rows, and the readings beside it."""
    chosen, seed, tables = data.attacked, options.seed, data.mapping.tables
    shared: dict[str, Any] = {
        "groups": None if data.groups is None else data.groups[chosen],
        "confidence": confidence,
        "n_folds": 5 if len(chosen) <= _MANY_ROWS else 3,
    }
    fact, n_classes = labelled.index[chosen], labelled.n_classes
    steps.begin(f"attackers on {shown(labelled.name)}, from symbols")
    on_symbols = attack(
        symbols[chosen],
        data.mapping.n_symbols,
        fact,
        n_classes,
        tables=tables,
        codes=data.codes[chosen],
        max_rows=max_rows,
        rng=np.random.default_rng([seed, 3]),
        **shared,
    )
    steps.begin(f"attackers on {shown(labelled.name)}, from readings")
    raw, levels = discretise_readings(data.readings)
    on_readings = attack(
        raw,
        levels,
        fact,
        n_classes,
        max_rows=_COMPARED_ROWS,
        rng=np.random.default_rng([seed, 4]),
        **shared,
    )
    best = best_attack(on_symbols, confidence=confidence)
    best_on_readings = best_attack(on_readings, confidence=confidence)
    return Attacks(
        tuple(on_symbols),
        tuple(on_readings),
        qualify_attack(data, best),
        qualify_attack(data, best_on_readings),
    )


def audit_public(
    data: AuditData, options: AuditOptions, symbols: Ints, steps: Steps
) -> PublicAudit:
    """Measure how good the answers about the public fact are, beside guessing and readings."""
    labelled, alpha = data.public, 1.0 - options.confidence
    rows = data.rows_with(labelled)
    attacks = _attack_symbols_and_readings(
        data, labelled, options, symbols, 1.0 - alpha, steps, max_rows=_COMPARED_ROWS
    )
    error, right, constant = score_answers(data.mapping, rows, options.seed, rows.listable)
    wrong = error_interval(rows, error, alpha)
    ran = [each for each in attacks.readings if each.accuracy and each.balanced_accuracy]
    return PublicAudit(
        name=labelled.name,
        classes=tuple(written(each) for each in labelled.classes),
        rows=labelled.counts,
        error=error,
        error_low=wrong.low,
        error_high=wrong.high,
        guessing_error=1.0 - float(rows.shares.max()),
        raw_error=1.0 - max(each.accuracy.estimate for each in ran if each.accuracy),
        balanced=balanced_interval(rows, right, alpha),
        raw_balanced=max(e.balanced_accuracy.estimate for e in ran if e.balanced_accuracy),
        constant=constant,
        attacks=attacks,
        contributions=contributions(rows, data.mapping.names),
        doubt=withheld(data),
    )
