"""What a trade-off is computed from, and what rows that a mapping never saw say of it.

Which mappings to learn, rows split once for all; what each mapping gets wrong, and what it leaks.

Wherever the outputs can be listed, the known Q(z|x) is averaged over the held-out rows and
no symbol is drawn. Every bound here holds for one mapping at the confidence asked for. With
several private facts the worst one counts: the upper bound is the largest of theirs, and
since only the truly worst fact's has to hold, that costs nothing. The lower bound picks the
best of several attacks after the fact and splits its error probability among them.

Points are independent pieces of work, done in this process or in several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Dict
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pydantic import ValidationError
from threadpoolctl import threadpool_limits

import discreet
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
from discreet.choices import METHODS
from discreet.data.columns import Labels, as_series, label_column, plain
from discreet.data.dependence import Dependence, check_dependence
from discreet.data.encoders import encode_table
from discreet.data.fit_encoders import fit_encoders
from discreet.data.split import split_rows, table_digest
from discreet.data.strict_model import explain
from discreet.data.table_warnings import check_groups
from discreet.data.tables import read_stretches
from discreet.design.counts.blocks import sensors_depend
from discreet.design.fusion import BALANCED, Aim, aim_for
from discreet.design.inputs import (
    array_names,
    check_choice,
    check_count,
    check_number,
    describe_fact,
    group_index,
    private_facts,
)
from discreet.design.leak_estimates import estimate_leaks
from discreet.design.raw_answers import answer_unseen_codes, raw_advantage
from discreet.design.training_rows import Sample
from discreet.errors import InputError, Parameter, suggest
from discreet.frontiers.results import FAMILIES, MAX_POINTS, About, Bound, Estimate, Leak, Worth
from discreet.leakage.exact import advantage
from discreet.leakage.joint_outputs import count_outputs
from discreet.learning import MIN_TRAINING_ROWS, Prepared
from discreet.mappers.risk_mappers import PrivacyMapper
from discreet.mapping.mapping import Mapping
from discreet.mapping.parts import MAX_SYMBOLS, Source
from discreet.task import Task, make_split

_SET_HERE = ("privacy_ratio", "n_symbols", "random_state")
_SEARCHED = ("max_advantage", "epsilon")


# --- What to compute -----------------------------------------------------------------------


@dataclass(frozen=True)
class Spec:
    """Which mapping to learn."""

    method: str
    n_symbols: int
    ratio: float | None

    @property
    def key(self) -> tuple[str, int, float | None]:
        """The same as ``Point.key``."""
        return self.method, self.n_symbols, self.ratio

    def has(self, name: str) -> bool:
        """Tell whether the method has a parameter; ``auto`` has none of the risks'."""
        return name in signature(METHODS[self.method]).parameters

    def mapper(self, parameters: Dict[str, Any], seed: int) -> PrivacyMapper:
        own = {name: value for name, value in parameters.items() if self.has(name)}
        return METHODS[self.method](
            **own, n_symbols=self.n_symbols, privacy_ratio=self.ratio, random_state=seed
        )


def plan(methods: Sequence[str], ratios: Sequence[float], n_symbols: Sequence[int]) -> list[Spec]:
    """Return every combination that makes sense, each once."""
    for name, values in (("methods", methods), ("ratios", ratios), ("n_symbols", n_symbols)):
        if isinstance(values, str) or not hasattr(values, "__iter__"):
            raise InputError(f"{name} must be a sequence, got {values!r}. Write [{values!r}].")
        if not len(list(values)):
            raise InputError(f"{name} is empty. Give at least one.")
    for method in methods:
        check_choice("methods", method, METHODS)
    for ratio in ratios:
        if ratio is None:
            raise InputError("ratios must be numbers strictly between 0 and 1, got None.")
        check_number("ratios", ratio, 0.0, 1.0, "strictly between 0 and 1")
    for count in n_symbols:
        check_count("n_symbols", count, 2, MAX_SYMBOLS)
    specs = [
        Spec(method, int(count), ratio)
        for method in methods
        for count in n_symbols
        for ratio in (map(float, ratios) if METHODS[method]._constrained else (None,))
    ]
    distinct = list(dict.fromkeys(specs))
    if len(distinct) > MAX_POINTS:
        raise InputError(f"{len(distinct)} points were asked for; at most {MAX_POINTS} are.")
    return distinct


def check_parameters(specs: Sequence[Spec], parameters: Dict[str, Any]) -> None:
    """Refuse parameters that the mappers do not have, before any work is done."""
    known = [name for name in signature(PrivacyMapper).parameters if name not in _SET_HERE]
    for name in parameters:
        if name in _SEARCHED:
            raise InputError(
                f"{name} was given, which searches for one ratio; a frontier goes over all of "
                "them. Leave it out."
            )
        if name not in known:
            raise InputError(f"{name!r} is no parameter of a mapper. {suggest(name, known)}")
        if not any(spec.has(name) for spec in specs):
            raise InputError(
                Parameter(name), " was given, but none of the methods has it. Leave it out."
            )
    for method in dict.fromkeys(spec.method for spec in specs):
        first = next(spec for spec in specs if spec.method == method)
        first.mapper(parameters, 0)._check_parameters()


# --- The rows ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Study:
    """A table, split once for all points.

    ``order``: what the order of the rows, or of their groups, tells. ``assumed_independent``:
    whether they were declared to be independent whatever their order tells.
    """

    readings: pd.DataFrame
    public: pd.Series[Any]
    private: pd.DataFrame
    groups: pd.Series[Any] | None
    train: Ints
    held_out: Ints
    source: Source
    order: Dependence | None = None
    assumed_independent: bool = False

    @property
    def labels(self) -> Labels:
        """The public class of every row."""
        return label_column(str(self.public.name), self.public, "public fact")

    @property
    def dependence(self) -> str:
        """What the order of the rows says against their independence, or nothing."""
        found = None if self.assumed_independent else self.order
        return found.words if found is not None and found.found else ""


def study_table(task: Task, prepared: Prepared, *, assume_independent: bool = False) -> Study:
    """Return the rows of a table that ``learning.prepare`` has checked and split."""
    table, groups = prepared.rows(slice(None)), prepared.groups
    _check_held_out(len(prepared.audit))
    order = prepared.source.dependence
    if groups is not None:
        looked = read_stretches(prepared.table)
        order = check_groups(groups, looked, prepared.sensors, task.public, task.private)
    return Study(
        table[prepared.sensors],
        table[task.public],
        table[list(task.private)],
        None if groups is None else pd.Series(groups.values),
        prepared.train,
        prepared.audit,
        prepared.source,
        order,
        assume_independent,
    )


def study_arrays(
    X: pd.DataFrame | ArrayLike,
    y: ArrayLike,
    private: Any,
    groups: ArrayLike | None,
    holdout: float,
    seed: int,
    assume_independent: bool = False,
) -> Study:
    """Check readings and labels handed over in Python, and split their rows."""
    check_number("holdout", holdout, 0.0, 1.0, "strictly between 0 and 1")
    readings = _frame(X)
    n_rows = len(readings)
    given = getattr(y, "name", None)
    name = "public" if given is None else str(given)
    public = as_series(np.asarray(y)).rename(name)
    if len(public) != n_rows:
        raise InputError(f"y has {len(public)} rows; X has {n_rows}.")
    label_column(name, public, "public fact")  # refuses what is no label
    facts = {fact.name: fact.values for fact in private_facts(private, n_rows)}
    if name in facts:
        raise InputError(f"{name!r} is public and private at once. Rename one of the two.")
    labels = pd.DataFrame(facts)
    labels.insert(0, name, public)
    numbers = group_index(groups, n_rows)
    group = None
    if numbers is not None:
        group = next(n for n in ("groups", "groups_", "groups__") if n not in labels)
        labels[group] = as_series(np.asarray(groups)).astype(str)
    split = make_split(holdout, seed, group)
    train, held_out = split_rows(labels, split, [name, *facts])
    if len(train) < MIN_TRAINING_ROWS:
        raise InputError(
            f"holdout leaves {len(train)} rows to learn from; at least {MIN_TRAINING_ROWS} are "
            "needed. Hold out less, or add rows."
        )
    _check_held_out(len(held_out))
    digest = table_digest(pd.concat([readings, labels], axis=1))
    order = check_dependence(
        readings, [labels[fact] for fact in facts], public=labels[name], groups=numbers
    )
    return Study(
        readings,
        labels[name],
        labels[list(facts)],
        None if group is None else labels[group],
        train,
        held_out,
        Source(digest=digest, rows=n_rows, split=split, dependence=order),
        order,
        assume_independent,
    )


def _frame(X: pd.DataFrame | ArrayLike) -> pd.DataFrame:
    if isinstance(X, pd.DataFrame):
        return X.reset_index(drop=True)
    array = np.asarray(X)
    if array.ndim != 2:
        raise InputError(f"X must have rows and columns, got shape {array.shape}.")
    return pd.DataFrame(array, columns=array_names(array.shape[1])).infer_objects()


def _check_held_out(n_held_out: int) -> None:
    if not n_held_out:
        raise InputError(
            "holdout leaves no rows to measure with. Hold out more: a frontier is measured on "
            "rows that no mapping learned from."
        )


# --- What all points share -----------------------------------------------------------------


def describe_study(study: Study, mapper: PrivacyMapper, confidence: float) -> About:
    """Return what all points share, by which a file is known to be about the same.

    Raises InputError: if misses of a class have a cost that the public fact does not have.
    """
    recorded = {
        name: _recorded(value)
        for name, value in mapper.get_params(deep=False).items()
        if name not in (*_SET_HERE, *_SEARCHED)
    }
    public = study.labels
    aim = aim_for(mapper.decide, describe_fact(public.name, public.classes))
    known, unseen = _label_rows(study, study.train), _label_rows(study, study.held_out)
    sample = _raw_sample(study, mapper)
    parts: dict[str, Any] = dict(
        public=public.name,
        private=tuple(map(str, study.private.columns)),
        sensors=tuple(map(str, study.readings.columns)),
        source=study.source,
        held_out=len(study.held_out),
        independent_rows=float(unseen.n_groups),
        confidence=float(confidence),
        rule=aim.rule,
        guessing=guess(known, unseen, aim),
        raw=answer_raw(sample, study.train, unseen, study.held_out, aim),
        order=study.order,
        assumed_independent=study.assumed_independent,
        parameters=recorded,
        discreet=discreet.__version__,
    )
    try:
        return About(**parts)
    except ValidationError as error:
        raise InputError(f"the frontier's file cannot hold this: {explain(error)}.") from None


def _label_rows(study: Study, rows: Ints) -> AuditRows:
    """Return rows of whose readings nothing is known."""
    public, groups = study.labels, group_index(study.groups, len(study.public))
    codes, own = np.empty((len(rows), 0), dtype=np.int64), None if groups is None else groups[rows]
    return AuditRows((), codes, public.index[rows], public.n_classes, own)


def _raw_sample(study: Study, mapper: PrivacyMapper) -> Sample:
    """Return all rows as codes, by the encoders that every point has."""
    public, train = study.labels, study.train
    facts = [public, *private_facts(study.private, len(study.readings))]
    encoders = fit_encoders(
        study.readings.iloc[train],
        strategy=mapper.binning,
        n_bins=mapper.n_bins,
        facts=[fact.take(train) for fact in facts],
    )
    names = map(str, study.readings.columns)
    codes = encode_table(study.readings, list(zip(names, encoders, strict=True)))
    return Sample(codes, tuple(each.n_codes for each in encoders), public, tuple(facts[1:]))


def _recorded(value: Any) -> Any:
    """Return a parameter as JSON can hold it; a kernel by how it is written."""
    if isinstance(value, Dict):
        return {str(name): _recorded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_recorded(each) for each in value)
    found = plain(value)
    return repr(value)[:1000] if found is None and value is not None else found


# --- What the rows left out say ----------------------------------------------------------------

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
    for classes in _questions(fact.n_classes):
        factors = np.zeros(fact.n_classes)
        factors[classes] = 1.0 / len(classes)
        yield rule_accuracy(learned[classes], rows.average[classes]), rows, factors


def _questions(n_classes: int) -> list[list[int]]:
    """Return all classes, and each two of them if there are more."""
    pairs = [list(pair) for pair in combinations(range(n_classes), 2)]
    return [list(range(n_classes))] + (pairs if n_classes > 2 else [])


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
        leak = raw_advantage(sample.take(known), sample.take(rows), hidden=sensors_depend(sample))
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
