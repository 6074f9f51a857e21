"""What a trade-off is computed from: which mappings to learn, and rows split once for all."""

from __future__ import annotations

from collections.abc import Mapping as Dict
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pydantic import ValidationError

import discreet
from discreet.arrays import Ints
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.choices import METHODS
from discreet.data.columns import Labels, as_series, label_column, plain
from discreet.data.dependence import Dependence, check_dependence
from discreet.data.encoders import encode_table
from discreet.data.fit_encoders import fit_encoders
from discreet.data.split import split_rows, table_digest
from discreet.data.strict_model import explain
from discreet.design.fusion import aim_for
from discreet.design.inputs import (
    array_names,
    check_choice,
    check_count,
    check_number,
    describe_fact,
    group_index,
    private_facts,
)
from discreet.design.training_rows import Sample
from discreet.errors import InputError, Parameter, suggest
from discreet.frontiers.measure import answer_raw, guess
from discreet.frontiers.results import MAX_POINTS, About
from discreet.learning import MIN_TRAINING_ROWS, Prepared
from discreet.mappers.risk_mappers import PrivacyMapper
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
        facts = [table[name] for name in task.private]
        order = check_dependence(
            table[prepared.sensors], facts, public=table[task.public], groups=groups.index
        )
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
