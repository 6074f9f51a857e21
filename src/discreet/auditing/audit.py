"""The audit: a frozen mapping and rows it has not seen in, an honest account out.

Upper bounds come from averaging the shipped tables over the rows (``certificates``,
``epsilon``), the lower side from real attackers on drawn symbols (``attackers``). The
error probability 1 - confidence is divided over the private facts and the limits stated:
one kind of bound holds on all facts together, and all limits hold at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

import discreet
from discreet.arrays import Floats
from discreet.auditing.attackers.attack import BestAttack, attack, best_attack
from discreet.auditing.attackers.problem import discretise_readings
from discreet.auditing.audit_file import BEYOND
from discreet.auditing.bounds.certificates import (
    Certificate,
    certify_accuracy,
    certify_advantage,
    certify_beyond_answer,
    certify_total_variation,
    rows_within,
)
from discreet.auditing.bounds.epsilon import DELTAS, PointwiseAudit
from discreet.auditing.bounds.lower_side import HALVES, certify_lower
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.auditing.bounds.over_time import certify_structure, compose
from discreet.auditing.bounds.rows_needed import (
    say_needed,
    say_needed_for_epsilon,
    say_needed_for_rounds,
    say_needed_within,
)
from discreet.auditing.data import AuditData, AuditOptions, audit_data_from_arrays, check_options
from discreet.auditing.findings import (
    balanced_interval,
    contributions,
    count_telling_groups,
    error_interval,
    find_copies,
    find_leaks,
    plug_in_epsilon,
    score_answers,
)
from discreet.auditing.other_secrets import find_other_secrets
from discreet.auditing.results import (
    FEW_ROWS,
    Attacks,
    Audit,
    FactAudit,
    Figures,
    LimitCheck,
    PublicAudit,
)
from discreet.auditing.rounds import RoundsAudit, audit_rounds
from discreet.auditing.verdict import (
    check_limits,
    find_conditions,
    give_verdict,
    qualify,
    qualify_attack,
    qualify_beyond,
    say_independence,
)
from discreet.choices import LOSSES
from discreet.data.columns import Labels, written
from discreet.data.encoders import CategoriesEncoder
from discreet.errors import InputError, shown
from discreet.leakage.exact import (
    Budget,
    advantage,
    epsilon_beyond,
    extreme_probability,
    information_epsilon,
    maximal_leakage,
    mutual_information,
    pair_risk,
    pairwise_epsilon,
    proposition_budget,
    theorem_budget,
    total_variation,
)
from discreet.leakage.joint_outputs import dobrushin
from discreet.mappers.base import PrivacyMapper
from discreet.mapping.mapping import Mapping
from discreet.progress import Progress, Report

# --- One fact -------------------------------------------------------------------------------

_TAUGHT_ROWS = 20_000  # of which slow attackers learn from a share
_COMPARED_ROWS = 8_000  # the same for readings and the public fact, which are for comparison
_MANY_ROWS = 2_000  # beyond, attackers learn enough from fewer and larger folds


class _Auditor:
    """One audit under way: its rows, what is asked, and the symbols drawn for the attackers."""

    def __init__(self, data: AuditData, options: AuditOptions, report: Report | None) -> None:
        self.data, self.options, self.report, self.done = data, options, report, 0
        self.alpha = (1.0 - options.confidence) / (len(data.private) * max(1, len(options.limits)))
        self.structural = certify_structure(data.mapping.tables, data.mapping.names)
        self.symbols = data.draw_symbols(options.seed)

    def begin(self, what: str) -> None:
        """Tell whoever watches about the next step."""
        if self.report is not None:
            self.report(Progress(what, self.done / (3 + 4 * len(self.data.private))))
        self.done += 1

    def audit_fact(self, labelled: Labels) -> FactAudit:
        """Bound, attack and describe what is sent about one private fact."""
        data, options, alpha = self.data, self.options, self.alpha
        rows, seed = data.rows_with(labelled, options.cap), options.seed
        self.begin(f"bounds on {shown(labelled.name)}")
        certificates = self._certificates(rows)
        by_name = {each.name: each for each in certificates}
        beyond = certify_beyond_answer(rows, data.public, labelled.name, alpha, seed)
        self.begin(f"rare outputs and {shown(labelled.name)}")
        # Half of alpha for attackers on drawn symbols, half for one that draws none.
        attacks = self._attack_symbols_and_readings(labelled, 1.0 - alpha / 2)
        attacks = replace(attacks, best=self._strongest_attack(attacks.best, rows))
        level = options.max_advantage or by_name["advantage"].bound
        rng = np.random.default_rng([seed, 1])
        return FactAudit(
            name=labelled.name,
            classes=tuple(written(each) for each in labelled.classes),
            rows=labelled.counts,
            figures=self._figures(rows) if rows.listable else None,
            plug_in=plug_in_epsilon(
                self.symbols, labelled.index, labelled.n_classes, rng, data.groups
            ),
            certificates=certificates,
            over_time=compose(
                by_name["pairwise epsilon"],
                by_name["total variation"],
                self.structural.total,
                options.rounds or options.releases,
                n_classes=labelled.n_classes,
                unit=None if data.groups is None else data.unit,
            ),
            beyond_answer=qualify_beyond(data, beyond),
            telling_groups=None if level is None else count_telling_groups(rows, level, alpha),
            attacks=attacks,
            contributions=contributions(rows, data.mapping.names),
            rounds=audit_rounds(data, labelled, options, alpha),
            findings=(
                *find_leaks(data, rows, labelled, attacks.best.lower, alpha),
                *find_copies(data),
            ),
        )

    def _strongest_attack(self, best: BestAttack, rows: AuditRows) -> BestAttack:
        """Return the attack that is shown to gain most, with what both kinds of it have cost."""
        best = replace(best, confidence=1.0 - self.alpha)
        if rows.cap is not None:
            # Real attackers see rows of groups, and say nothing for certain about capped rows.
            return replace(best, lower=0.0)
        found = certify_lower(rows, self.alpha / 2, self.options.seed)
        if found is not None and found.advantage > best.lower:
            best = replace(
                best,
                name=HALVES,
                classes=found.classes,
                advantage=found.estimate,
                lower=found.advantage,
            )
        return qualify_attack(self.data, best)

    def _certificates(self, rows: AuditRows) -> tuple[Certificate, ...]:
        """Return all bounds from rows, or why these rows allow none."""
        alpha, prior = self.alpha, self.options.prior
        pointwise = PointwiseAudit(rows, self.options.seed, prior)
        epsilons = pointwise.pairwise(alpha), *pointwise.nested(alpha)
        found = (
            certify_advantage(rows, alpha),
            certify_total_variation(rows, alpha),
            certify_accuracy(rows, alpha, prior),
            *epsilons,
        )
        return tuple(qualify(self.data, each, prior is not None) for each in found)

    def _figures(self, rows: AuditRows) -> Figures:
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
            budgets=_budgets(self.data, given),
        )

    def _attack_symbols_and_readings(
        self, labelled: Labels, confidence: float, max_rows: int = _TAUGHT_ROWS
    ) -> Attacks:
        """Attack what is sent, slow attackers with fewer rows, and the readings beside it."""
        data, seed, chosen = self.data, self.options.seed, self.data.attacked
        shared: dict[str, Any] = {
            "groups": None if data.groups is None else data.groups[chosen],
            "confidence": confidence,
            "n_folds": 5 if len(chosen) <= _MANY_ROWS else 3,
        }
        fact = labelled.index[chosen], labelled.n_classes
        self.begin(f"attackers on {shown(labelled.name)}, from symbols")
        on_symbols = attack(
            self.symbols[chosen],
            data.mapping.n_symbols,
            *fact,
            tables=data.mapping.tables,
            codes=data.codes[chosen],
            max_rows=max_rows,
            rng=np.random.default_rng([seed, 3]),
            **shared,
        )
        self.begin(f"attackers on {shown(labelled.name)}, from readings")
        rng = np.random.default_rng([seed, 4])
        raw = discretise_readings(data.readings)
        on_readings = attack(*raw, *fact, max_rows=_COMPARED_ROWS, rng=rng, **shared)
        best, best_on_readings = (
            qualify_attack(data, best_attack(each, confidence=confidence))
            for each in (on_symbols, on_readings)
        )
        return Attacks(tuple(on_symbols), tuple(on_readings), best, best_on_readings)

    def audit_public(self) -> PublicAudit:
        """Measure how good the answers about the public fact are, beside guessing and readings."""
        data, labelled, confidence = self.data, self.data.public, self.options.confidence
        rows, alpha = data.rows_with(labelled), 1.0 - confidence
        attacks = self._attack_symbols_and_readings(labelled, 1.0 - alpha, _COMPARED_ROWS)
        error, right, constant = score_answers(data.mapping, rows, self.options.seed, rows.listable)
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
            doubt=data.withheld,
        )

    def with_needed(self, check: LimitCheck, private: Sequence[FactAudit]) -> LimitCheck:
        """Say how many more rows a limit needs, if it is not shown."""
        if check.state != "not shown":
            return check
        fact = next(each for each in private if each.name == check.fact)
        return replace(check, needed=self._needed(check, fact))

    def _needed(self, check: LimitCheck, fact: FactAudit) -> str:
        data, options = self.data, self.options
        if data.withheld:
            return "" if data.learned_groups else _GROUP_THEM
        labelled = next(each for each in data.private if each.name == check.fact)
        rows = data.rows_with(labelled, options.cap)
        if options.rounds is not None:
            return self._needed_for_rounds(rows, check, fact.rounds)
        if options.releases > 1:
            return "" if options.independent_releases else _ONLY_STRUCTURE
        if check.name == BEYOND:
            return say_needed_within(rows_within(rows, data.public), check.limit, self.alpha)
        if check.name == "epsilon":
            found = fact.certificate("information epsilon")
            return say_needed_for_epsilon(rows, found, check.limit)
        return say_needed(rows, check.limit, self.alpha)

    def _needed_for_rounds(
        self, rows: AuditRows, check: LimitCheck, found: RoundsAudit | None
    ) -> str:
        told = check.name == BEYOND
        if found is None or found.bound is None or check.name == "epsilon":
            return ""
        if told != found.beyond_answer:
            return ""
        rows = replace(rows, groups=None, cap=None)  # as the bound takes them
        parts = rows_within(rows, self.data.public) if told else [rows]
        return say_needed_for_rounds(parts, found.bound, check.limit)


def _budgets(data: AuditData, given: Floats) -> tuple[Budget, ...]:
    """Return the paper's budgets: of its proposition, and of its theorem where it applies."""
    found = [proposition_budget(given)]
    parameters = data.mapping.design.parameters
    loss, theta = LOSSES.get(str(parameters.get("loss"))), parameters.get("threshold")
    if loss is not None and isinstance(theta, int | float):
        at_zero = float(loss.value(np.zeros(1))[0])
        found.append(theorem_budget(given, float(theta), 0.01, at_zero=at_zero, a=loss.a, r=loss.r))
    return tuple(found)


# --- All of them ----------------------------------------------------------------------------

_GROUP_THEM = (
    "Learn and audit with --group, which names the rows that belong together, or declare "
    "--assume-independent if they are independent all the same."
)
_ONLY_STRUCTURE = (
    "Over several reports only the structural bound adds up: ask for fewer of them, learn with "
    "--ldp-epsilon, or declare --independent-releases if that is true."
)


def audit(
    mapping: Mapping | PrivacyMapper,
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
    rounds: int | None = None,
    stay: float | ArrayLike | None = None,
    prior: ArrayLike | None = None,
    random_state: int = 0,
    report: Report | None = None,
) -> Audit:
    """Measure what a mapping leaks and what it is good for, on rows it has not seen.

    Parameters
    ----------
    mapping : Mapping or fitted mapper
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
        ``max_advantage`` limits what is gained by an attacker who knows the public fact.
    confidence : float, default=0.95
        With which each bound holds, on all private facts together; stated limits hold all
        at once. Different kinds of bounds do not share it.
    releases : int, default=1
        How many reports to add up. Limits are then on all of them together.
    independent_releases : bool, default=False
        Declare that readings of different releases are independent given the private class;
        the verdict repeats it. Without it only the structural bound adds up.
    rounds : int, optional
        Certify what so many rounds tell of the private fact of any one of them, if the symbols
        of a round depend on other rounds only through that fact. Limits are then on all of
        them together.
    stay : float or array of shape (n_classes,), optional
        Probability that the private fact is the same in the next round; a declaration, which
        the verdict repeats. ``discreet audit --time-column`` estimates it instead.
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

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import RandomizedResponseMapper, audit
    >>> rng = np.random.default_rng(0)
    >>> who, fall = rng.integers(2, size=(2, 400))
    >>> X = np.column_stack([fall ^ (rng.random(400) < 0.1), who ^ (rng.random(400) < 0.1)])
    >>> mapper = RandomizedResponseMapper(ldp_epsilon=0.5)
    >>> mapper = mapper.fit(X[:200], fall[:200], private=who[:200])
    >>> audit(mapper, X[200:], fall[200:], private=who[200:], max_advantage=0.2)
    <Audit of ...: WITHIN LIMITS ON CONDITION, 200 rows>
    """
    if isinstance(mapping, PrivacyMapper):
        check_is_fitted(mapping, "mapping_")
        mapping = mapping.mapping_
    if not isinstance(mapping, Mapping):
        raise InputError(
            f"mapping must be a Mapping or a fitted mapper, got {shown(mapping)}. Of a file: "
            "Mapping.load(PATH)."
        )
    data = audit_data_from_arrays(
        mapping, X, y, private, groups, assume_independent=assume_independent, seed=random_state
    )
    options = AuditOptions(
        max_advantage=max_advantage,
        epsilon=epsilon,
        beyond_answer=beyond_answer,
        confidence=confidence,
        releases=releases,
        independent_releases=independent_releases,
        rounds=rounds,
        stay=None if stay is None else np.atleast_1d(np.asarray(stay, dtype=np.float64)),
        cap=cap,
        prior=None if prior is None else np.asarray(prior, dtype=np.float64),
        seed=random_state,
    )
    return audit_checked_data(data, options, report=report)


def audit_checked_data(
    data: AuditData, options: AuditOptions | None = None, *, report: Report | None = None
) -> Audit:
    """Do what ``audit`` does on rows that are already chosen and checked."""
    options = AuditOptions() if options is None else options
    check_options(data, options)
    with threadpool_limits(limits=1):
        auditor = _Auditor(data, options, report)
        public = auditor.audit_public()
        private = tuple(map(auditor.audit_fact, data.private))
        auditor.begin("other secrets")
        others = find_other_secrets(data, auditor.symbols, options.confidence, options.seed)
    limits = tuple(
        auditor.with_needed(check, private)
        for check in check_limits(options, private, dobrushin(data.mapping.tables))
    )
    conditions = find_conditions(data, options)
    drawn = data.rows_with(data.public, options.cap).drawn
    if options.rounds is not None:
        drawn = f"any one of {options.rounds} rounds"
    return Audit(
        mapping_id=data.mapping.id,
        method=data.mapping.design.method,
        created=data.mapping.design.created,
        rows=data.n_rows,
        rows_from=data.origin,
        confidence=options.confidence,
        seed=options.seed,
        releases=options.releases,
        outputs=math.prod(data.mapping.n_symbols),
        structural=auditor.structural,
        public=public,
        private=private,
        limits=limits,
        unit="row" if data.groups is None else data.unit,
        conditions=conditions,
        remarks=_remarks(data),
        verdict=give_verdict(limits, private, public, options.confidence, conditions, drawn),
        date=datetime.now(UTC).date().isoformat(),
        program=f"discreet {discreet.__version__}",
        other_secrets=others,
        independence=say_independence(data),
        mapping=data.mapping,
    )


def _remarks(data: AuditData) -> tuple[str, ...]:
    found = []
    for t, sensor in enumerate(data.mapping.sensors):
        if not isinstance(sensor.encoder, CategoriesEncoder):
            continue
        unknown = int(np.sum(data.codes[:, t] == len(sensor.encoder.categories)))
        if unknown:
            found.append(
                f"sensor {shown(sensor.name)} has {unknown} readings that it was not taught; they "
                "take the code for the unknown"
            )
    if data.groups is not None:
        count, unit = int(data.groups.max()) + 1, data.unit
        found.append(
            f"rows of one {unit} may depend on each other, so the {count} {unit}s count, not the "
            f"{data.n_rows} rows"
        )
    if len(data.attacked) < data.n_rows:
        found.append(
            f"attackers were tried on {len(data.attacked)} of the {data.n_rows} rows, drawn at "
            "random; the bounds use all of them"
        )
    if data.mapping.design.parameters.get("stopped"):
        found.append(
            "learning was stopped early, by hand or by --time-limit: the same command may make "
            "another mapping; what is certified of this one does not depend on it"
        )
    if data.n_rows < FEW_ROWS:
        found.append(
            f"{data.n_rows} rows are few: no method can certify a useful epsilon from them"
        )
    return tuple(found)
