"""The audit: a frozen mapping and rows it has not seen in, an honest account out.

Upper bounds come from averaging the shipped tables over the rows (``certificates``,
``pointwise``), the lower side from real attackers on drawn symbols (``attackers``). The
error probability 1 - confidence is divided over the private facts and the limits stated:
one kind of bound holds on all facts together, and all limits hold at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

import discreet
from discreet.auditing.attackers import BestAttack, Interval, attack, best_attack
from discreet.auditing.beyond_answer import BEYOND, certify_beyond_answer, rows_within
from discreet.auditing.certificates import (
    Certificate,
    Structural,
    certify_accuracy,
    certify_advantage,
    certify_structure,
    certify_total_variation,
)
from discreet.auditing.conditions import (
    find_conditions,
    qualify,
    qualify_attack,
    qualify_beyond,
    withheld,
)
from discreet.auditing.contributions import Contribution, contributions, separate_contributions
from discreet.auditing.findings import find_copies, find_leaks
from discreet.auditing.intervals import kl_lower, kl_upper
from discreet.auditing.limits import check_limits
from discreet.auditing.lower_side import HALVES, certify_lower
from discreet.auditing.needed import say_needed, say_needed_for_epsilon, say_needed_within
from discreet.auditing.outputs_given import AuditRows, dobrushin
from discreet.auditing.over_time import compose
from discreet.auditing.plug_in import plug_in_epsilon
from discreet.auditing.pointwise import DELTAS, PointwiseAudit
from discreet.auditing.raw_codes import raw_codes
from discreet.auditing.results import (
    FEW_ROWS,
    Attacks,
    Audit,
    FactAudit,
    Figures,
    LimitCheck,
    PublicAudit,
)
from discreet.auditing.spread import mean_lower, mean_upper
from discreet.auditing.subjects import Labelled, Subject, subject_from_arrays
from discreet.auditing.telling_groups import count_telling_groups
from discreet.auditing.verdict import give_verdict
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
_COMPARED_ROWS = 8_000  # what readings tell is for comparison: slow attackers learn from fewer
_GROUP_THEM = (
    "Learn and audit with --group, which names the rows that belong together, or declare "
    "--assume-independent if they are independent all the same."
)
_ONLY_STRUCTURE = (
    "Over several reports only the structural bound adds up: ask for fewer of them, learn with "
    "--ldp-epsilon, or declare --independent-releases if that is true."
)
_DRAWS = 20
_LISTED_AT_ONCE = 2**16
_MANY_ROWS = 2_000  # beyond, attackers learn enough from fewer and larger folds


@dataclass(frozen=True)
class AuditOptions:
    """What is asked of an audit; ``audit`` explains each."""

    max_advantage: float | None = None
    epsilon: float | None = None
    beyond_answer: bool = False
    confidence: float = 0.95
    releases: int = 1
    independent_releases: bool = False
    cap: int | None = None
    prior: Floats | None = None
    seed: int = 0

    @property
    def limits(self) -> dict[str, float]:
        """The stated limits, by what they limit."""
        sense = BEYOND if self.beyond_answer else "advantage"
        stated = {sense: self.max_advantage, "epsilon": self.epsilon}
        return {name: limit for name, limit in stated.items() if limit is not None}


def audit(
    mapping: Mapping,
    X: pd.DataFrame | ArrayLike,
    y: ArrayLike,
    *,
    private: Any = None,
    groups: ArrayLike | None = None,
    cap: int | None = None,
    assume_independent: bool = False,
    max_advantage: float | None = None,
    beyond_answer: bool = False,
    epsilon: float | None = None,
    confidence: float = 0.95,
    releases: int = 1,
    independent_releases: bool = False,
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
        one observation, and the bounds speak of a group drawn at random. The name of a
        Series is what a group is called.
    cap : int, optional
        Certify a row drawn at random instead, where a group counts with at most so many rows
        of a private class.
    assume_independent : bool, default=False
        Declare that rows are independent draws although their order says otherwise; the
        verdict repeats it. Without it such rows certify nothing.
    max_advantage, epsilon : float, optional
        Limits to check. They are met only if certified.
    beyond_answer : bool, default=False
        ``max_advantage`` limits what is gained by an attacker who is told the public fact.
    confidence : float, default=0.95
        With which each bound holds, on all private facts together; stated limits hold all
        at once. Different kinds of bounds do not share it.
    releases : int, default=1
        How many reports to add up. Limits are then on all of them together.
    independent_releases : bool, default=False
        Declare that readings of different releases are independent given the private class;
        the verdict repeats it. Without it only the structural bound adds up.
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
    subject = subject_from_arrays(
        mapping, X, y, private, groups, assume_independent=assume_independent
    )
    options = AuditOptions(
        max_advantage=max_advantage,
        epsilon=epsilon,
        beyond_answer=beyond_answer,
        confidence=confidence,
        releases=releases,
        independent_releases=independent_releases,
        cap=cap,
        prior=None if prior is None else np.asarray(prior, dtype=np.float64),
        seed=random_state,
    )
    return audit_subject(subject, options, report=report)


def audit_subject(
    subject: Subject, options: AuditOptions | None = None, *, report: Report | None = None
) -> Audit:
    """Do what ``audit`` does on rows that are already chosen and checked."""
    options = AuditOptions() if options is None else options
    _check_options(subject, options)
    alpha = (1.0 - options.confidence) / (len(subject.private) * max(1, len(options.limits)))
    steps = _Steps(report, 2 + 4 * len(subject.private))
    with threadpool_limits(limits=1):
        structural = certify_structure(subject.mapping.tables, subject.mapping.names)
        symbols = subject.mapping.sample(subject.codes, np.random.default_rng(options.seed))
        public = _audit_public(subject, options, symbols, steps)
        private = tuple(
            _audit_fact(subject, each, options, symbols, structural, alpha, steps)
            for each in subject.private
        )
    limits = check_limits(
        options.limits,
        private,
        options.releases,
        independent=options.independent_releases,
        eta=dobrushin(subject.mapping.tables),
    )
    limits = tuple(_with_needed(subject, check, private, options, alpha) for check in limits)
    conditions = find_conditions(subject, options.releases, options.independent_releases,
                                 prior_given=options.prior is not None)  # fmt: skip
    drawn = _audit_rows(subject, subject.public, options).drawn
    return Audit(
        mapping_id=subject.mapping.id,
        method=subject.mapping.design.method,
        created=subject.mapping.design.created,
        rows=subject.n_rows,
        rows_from=subject.origin,
        confidence=options.confidence,
        seed=options.seed,
        releases=options.releases,
        outputs=math.prod(subject.mapping.n_symbols),
        structural=structural,
        public=public,
        private=private,
        limits=limits,
        unit="row" if subject.groups is None else subject.unit,
        conditions=conditions,
        remarks=_remarks(subject),
        verdict=give_verdict(limits, private, public, options.confidence, conditions, drawn),
        date=datetime.now(UTC).date().isoformat(),
        program=f"discreet {discreet.__version__}",
    )


def _with_needed(
    subject: Subject,
    check: LimitCheck,
    private: Sequence[FactAudit],
    options: AuditOptions,
    alpha: float,
) -> LimitCheck:
    """Say how many more rows a limit on one report needs, if it is not shown."""
    if check.state != "not shown":
        return check
    if withheld(subject):
        return replace(check, needed="" if subject.learned_groups else _GROUP_THEM)
    if options.releases > 1:
        return replace(check, needed="" if options.independent_releases else _ONLY_STRUCTURE)
    labelled = next(each for each in subject.private if each.name == check.fact)
    rows = _audit_rows(subject, labelled, options)
    if check.name == BEYOND:
        needed = say_needed_within(rows_within(rows, subject.public), check.limit, alpha)
    elif check.name == "epsilon":
        fact = next(each for each in private if each.name == check.fact)
        found = fact.certificate("information epsilon")
        needed = say_needed_for_epsilon(rows, found, check.limit)
    else:
        needed = say_needed(rows, check.limit, alpha)
    return replace(check, needed=needed)


class _Steps:
    """Counts the steps of an audit for whoever watches."""

    def __init__(self, report: Report | None, planned: int) -> None:
        self.report, self.planned, self.done = report, planned, 0

    def begin(self, what: str) -> None:
        if self.report is not None:
            self.report(what, self.done / self.planned)
        self.done += 1


def _check_options(subject: Subject, options: AuditOptions) -> None:
    advantage, epsilon = options.max_advantage, options.epsilon
    if advantage is not None and not 0.0 < advantage < 1.0:
        raise InputError(f"max_advantage must be strictly between 0 and 1, got {advantage!r}.")
    if options.beyond_answer and advantage is None:
        raise InputError("max_advantage is missing, which is what beyond_answer is about: give it.")
    if epsilon is not None and not 0.0 < epsilon < np.inf:
        raise InputError(f"epsilon must be a finite number above 0, got {epsilon!r}.")
    if not 0.5 <= options.confidence < 1.0:
        raise InputError(
            f"confidence must be at least 0.5 and below 1, got {options.confidence!r}."
        )
    if options.releases < 1:
        raise InputError(f"releases must be at least 1, got {options.releases!r}.")
    if options.cap is not None and options.cap < 1:
        raise InputError(f"cap must be at least 1, got {options.cap!r}.")
    if options.cap is not None and subject.groups is None:
        raise InputError(
            f"cap={options.cap} counts the rows of groups, and there are none. Name the groups, on "
            "the command line by --group."
        )
    if options.prior is not None:
        _check_prior(subject, options.prior)


def _check_prior(subject: Subject, prior: Floats) -> None:
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
    options: AuditOptions,
    symbols: Ints,
    structural: Structural,
    alpha: float,
    steps: _Steps,
) -> FactAudit:
    rows, seed = _audit_rows(subject, labelled, options), options.seed
    steps.begin(f"bounds on {shown(labelled.name)}")
    certificates = _certificates(subject, rows, options, alpha)
    by_name = {each.name: each for each in certificates}
    beyond = certify_beyond_answer(rows, subject.public, labelled.name, alpha)
    steps.begin(f"rare outputs and {shown(labelled.name)}")
    # Half of alpha for attackers on drawn symbols, half for one that draws none.
    attacks = _attack_both(subject, labelled, options, symbols, 1.0 - alpha / 2, steps)
    attacks = replace(attacks, best=_best(subject, attacks.best, rows, alpha, seed))
    beyond = replace(beyond, lower=_lower_within(rows, subject.public, alpha, seed))
    level = options.max_advantage or by_name["advantage"].bound
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
            np.random.default_rng([seed, 1]),
            subject.groups,
        ),
        certificates=certificates,
        over_time=compose(
            by_name["pairwise epsilon"],
            by_name["total variation"],
            structural.total,
            options.releases,
            n_classes=labelled.n_classes,
            unit=None if subject.groups is None else subject.unit,
        ),
        beyond_answer=qualify_beyond(subject, beyond),
        telling_groups=None if level is None else count_telling_groups(rows, level, alpha),
        attacks=attacks,
        contributions=_contributions(subject, rows, labelled),
        findings=(
            *find_leaks(subject, rows, labelled, attacks.best.lower, alpha),
            *find_copies(subject),
        ),
    )


def _best(
    subject: Subject, best: BestAttack, rows: AuditRows, alpha: float, seed: int
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
    return qualify_attack(subject, best if rows.cap is None else replace(best, lower=0.0))


def _lower_within(rows: AuditRows, public: Labelled, alpha: float, seed: int) -> float | None:
    """Return what an attacker gains at least who is told the public fact."""
    if rows.cap is not None:
        return None
    share = alpha / public.n_classes
    found = [certify_lower(own, share, seed) for own in rows_within(rows, public)]
    return max((each.advantage for each in found if each is not None), default=None)


def _certificates(
    subject: Subject, rows: AuditRows, options: AuditOptions, alpha: float
) -> tuple[Certificate, ...]:
    """Return all bounds from rows, or why these rows allow none."""
    pointwise = PointwiseAudit(rows, options.seed, options.prior)
    found = (
        certify_advantage(rows, alpha),
        certify_total_variation(rows, alpha),
        certify_accuracy(rows, alpha, options.prior),
        pointwise.pairwise(alpha),
        *pointwise.nested(alpha),
    )
    return tuple(qualify(subject, each, options.prior is not None) for each in found)


def _audit_rows(
    subject: Subject, labelled: Labelled, options: AuditOptions | None = None
) -> AuditRows:
    return AuditRows(
        tables=tuple(subject.mapping.tables),
        codes=subject.codes,
        index=labelled.index,
        n_classes=labelled.n_classes,
        groups=subject.groups,
        cap=None if options is None else options.cap,
        unit=subject.unit,
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
    options: AuditOptions,
    symbols: Ints,
    confidence: float,
    steps: _Steps,
) -> Attacks:
    """Attack what is sent and, beside it, the readings themselves."""
    chosen, seed = np.arange(subject.n_rows), options.seed
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
        max_rows=_COMPARED_ROWS,
        rng=np.random.default_rng([seed, 4]),
        **shared,
    )
    best = best_attack(on_symbols, confidence=confidence)
    best_on_readings = best_attack(on_readings, confidence=confidence)
    return Attacks(
        tuple(on_symbols),
        tuple(on_readings),
        qualify_attack(subject, best),
        qualify_attack(subject, best_on_readings),
    )


# --- The public fact -------------------------------------------------------------------------


def _audit_public(
    subject: Subject, options: AuditOptions, symbols: Ints, steps: _Steps
) -> PublicAudit:
    labelled, alpha = subject.public, 1.0 - options.confidence
    rows = _audit_rows(subject, labelled)
    attacks = _attack_both(subject, labelled, options, symbols, 1.0 - alpha, steps)
    error, right, constant = _fusion_scores(subject, rows, options.seed)
    level = np.log(2.0 / alpha) / rows.n_groups
    ran = [each for each in attacks.readings if each.accuracy and each.balanced_accuracy]
    return PublicAudit(
        name=labelled.name,
        classes=tuple(written(each) for each in labelled.fact.classes),
        rows=labelled.counts,
        error=error,
        error_low=float(kl_lower(error, level)),
        error_high=float(kl_upper(error, level)),
        guessing_error=1.0 - float(rows.shares.max()),
        raw_error=1.0 - max(each.accuracy.estimate for each in ran if each.accuracy),
        balanced=_balanced(rows, right, alpha),
        raw_balanced=max(e.balanced_accuracy.estimate for e in ran if e.balanced_accuracy),
        constant=constant,
        attacks=attacks,
        contributions=_contributions(subject, rows, labelled),
    )


def _balanced(rows: AuditRows, right: Floats, alpha: float) -> Interval:
    """Return the mean over classes of how often each is named rightly, with its interval."""
    share = alpha / (2 * rows.n_classes)
    low, high = (
        float(np.mean([bound(rows, k, each, share) for k, each in enumerate(right)]))
        for bound in (mean_lower, mean_upper)
    )
    return Interval(float(right.mean()), low, high)


def _fusion_scores(subject: Subject, rows: AuditRows, seed: int) -> tuple[float, Floats, bool]:
    """Return the share of wrong answers, that of right ones by class, and if all are the same.

    Averaged over Q where outputs can be listed, and over drawn symbols elsewhere.
    """
    mapping, labelled = subject.mapping, subject.public
    classes = range(labelled.n_classes)
    if rows.listable:
        decided = _decisions(mapping)
        hits = [rows.joint[h, decided == h].sum() for h in classes]
        right = [rows.average[h, decided == h].sum() for h in classes]
        constant = len(np.unique(decided[rows.average.sum(axis=0) > 0])) == 1
        return float(np.clip(1.0 - sum(hits), 0, 1)), np.clip(right, 0, 1), constant
    rng = np.random.default_rng([seed, 5])
    drawn = [mapping.decide(mapping.sample(subject.codes, rng)) for _ in range(_DRAWS)]
    hit = np.mean([each == labelled.index for each in drawn], axis=0)
    by_class = np.bincount(labelled.index, rows.row_weights * hit, minlength=len(classes))
    group_rows = np.bincount(rows.group)[rows.group]
    error = 1.0 - float(np.sum(hit / group_rows) / rows.n_groups)
    return float(np.clip(error, 0, 1)), np.clip(by_class, 0, 1), len(np.unique(drawn)) == 1


def _decisions(mapping: Mapping) -> Ints:
    """Return the class that the fusion rule names for every output."""
    sizes = tuple(mapping.n_symbols)
    total = int(np.prod(sizes))
    parts = []
    for begin in range(0, total, _LISTED_AT_ONCE):
        numbers = np.arange(begin, min(begin + _LISTED_AT_ONCE, total))
        outputs = np.stack(np.unravel_index(numbers, sizes), axis=1)
        parts.append(mapping.decide(outputs))
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
        count, unit = int(subject.groups.max()) + 1, subject.unit
        found.append(
            f"rows of one {unit} may depend on each other, so the {count} {unit}s count, not the "
            f"{subject.n_rows} rows"
        )
    if subject.n_rows < FEW_ROWS:
        found.append(
            f"{subject.n_rows} rows are few: no method can certify a useful epsilon from them"
        )
    return tuple(found)
