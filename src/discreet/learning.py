"""The job behind ``discreet learn``: a table on disk to a mapping, with rows set aside.

Rows that taught the mapping cannot vouch for it. So a part of the table is held out
before anything is learned, and the mapping records how: one digest of the whole table
and the seed of the split, from which an audit finds the same rows again.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ValidationError

from discreet.batches import find_files, read_tables
from discreet.cluster.fit import check_mapper, place_on
from discreet.dependence import Dependence
from discreet.design.deciding import aim_for
from discreet.design.inputs import check_name, describe_fact
from discreet.design.mappers import BayesErrorMapper, NDDMapper, NPOMapper, PrivacyMapper
from discreet.design.results import Report
from discreet.errors import InputError
from discreet.fit_codes import DEFAULT_STRATEGY, by_column, choose_strategies
from discreet.grouping import group_columns, group_values
from discreet.mapping import Mapping
from discreet.mapping_parts import Source
from discreet.modelling.mapper import ModelMapper
from discreet.peers.randomized_response import RandomizedResponseMapper
from discreet.proposals import check_both_orders, propose_group
from discreet.readings import (
    check_column,
    check_labels,
    check_sensors,
    choose_sensors,
)
from discreet.splitting import Split, split_rows, table_digest, unordered_digest
from discreet.values import explain, is_missing, is_numeric, shown

METHODS: dict[str, type[PrivacyMapper]] = {
    "npo": NPOMapper,
    "model": ModelMapper,
    "ndd": NDDMapper,
    "bayes-error": BayesErrorMapper,
    "randomized-response": RandomizedResponseMapper,
}
MIN_TRAINING_ROWS = 10
"""Fewest rows that may be left after the holdout."""


@dataclass(frozen=True)
class ByColumn:
    """One choice for all the sensors, but for those that have their own."""

    common: Any
    own: dict[str, Any]


@dataclass(frozen=True)
class Task:
    """What to learn from which columns.

    Attributes
    ----------
    table : Path
        The file with the rows, or a pattern that several are called like.
    further : sequence of Path
        Files that go on where the first ends.
    sensors : sequence of str, optional
        Columns with readings; by default all that are not named otherwise.
    options : dict
        Parameters of the mapper. Those that it takes by column may be a ``ByColumn``.
    """

    table: Path
    public: str
    private: Sequence[str]
    sensors: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    method: str = "npo"
    split: Split = field(default_factory=Split)
    options: dict[str, Any] = field(default_factory=dict)
    further: Sequence[Path] = ()

    @property
    def facts(self) -> list[str]:
        """The public fact, then the private ones."""
        return [self.public, *self.private]

    def files(self) -> list[Path]:
        """Return all files with rows, patterns resolved."""
        return find_files([self.table, *self.further])


@dataclass(frozen=True)
class Learned:
    """A fitted mapper, and which rows it was and was not shown."""

    mapper: PrivacyMapper
    sensors: list[str]
    training: pd.DataFrame
    held_out: pd.DataFrame

    @property
    def mapping(self) -> Mapping:
        return self.mapper.mapping_


@dataclass(frozen=True)
class Prepared:
    """A table that has passed every check, split and ready to learn from.

    Attributes
    ----------
    options : dict
        Parameters of the mapper.
    groups : array of str, optional
        The group of every row of the table, if rows stay together by group.
    dependence : Dependence, optional
        What the order of the rows tells, if they do not stay together by group.
    """

    table: pd.DataFrame
    sensors: list[str]
    train: NDArray[np.int64]
    audit: NDArray[np.int64]
    options: dict[str, Any]
    groups: NDArray[np.str_] | None = None
    dependence: Dependence | None = None


def make_split(holdout: float, seed: int, group: str | None) -> Split:
    """Return the split, or refuse one that a mapping file could not record.

    Raises
    ------
    InputError
    """
    try:
        return Split(holdout=holdout, seed=seed, group=group)
    except ValidationError as error:
        raise InputError(f"the split cannot be used: {explain(error)}.") from None


def prepare(task: Task) -> Prepared:
    """Read the table, check everything that can be checked, and split its rows.

    Raises
    ------
    InputError
        Naming the column, what was found in it and what to do.
    """
    check_method(task.method)
    table = read_tables(task.files())
    facts = task.facts
    sensors = check_roles(table, task)
    check_sensors(table, sensors)
    _check_no_identifiers(table, sensors)
    for name in facts:
        check_labels(table[name], role_of(task, name), name)
    _check_recordable(table, sensors, facts)
    group = task.split.group
    groups = None if group is None else group_values(table, group)
    public = describe_fact(task.public, pd.unique(table[task.public]))
    aim_for(task.options.get("decide", "balanced"), public)  # refuses classes that there are not
    train, audit = split_rows(table, task.split, facts)
    training = table.iloc[train]
    _check_training(training, sensors, task.split)
    options = fill_in(task.options, training[sensors])
    dependence = check_order(table, sensors, task) if group is None else None
    return Prepared(table, sensors, train, audit, options, groups, dependence)


def check_order(table: pd.DataFrame, sensors: Sequence[str], task: Task) -> Dependence:
    """Return whether rows that are taken to be independent look like it."""
    return check_both_orders(table, sensors, task.public, task.private)


def describe_order(
    dependence: Dependence, table: pd.DataFrame, sensors: Sequence[str], task: Task
) -> str:
    """Return what to say about rows that depend on one another: what was found, what to do."""
    if dependence.kind == "copies":
        advice = "Drop the copies, or name what they share with --group."
    elif (
        group := propose_group(dependence, table, sensors, task.public, task.private)
    ) is not None:
        advice = f"Learn again with --group {shlex.quote(group)}."
    else:
        advice = (
            "No stretches of rows, ten or more, are free of it: name what such rows share, as a "
            "home, with --group, or gather more rows."
        )
    return (
        f"{dependence.words}. An audit will certify nothing from such rows. {advice} If they are "
        "independent all the same, audit with --assume-independent."
    )


def check_method(method: str) -> None:
    """Refuse a method that there is not."""
    if method not in METHODS:
        raise InputError(f"--method must be one of {', '.join(METHODS)}, got {method!r}.")


def check_roles(table: pd.DataFrame, task: Task) -> list[str]:
    """Return the sensors; refuse columns that are not there, or named in two roles.

    Of the table only the columns' names are looked at. A column of times that rows are
    grouped by is no sensor.
    """
    _check_roles(table, task)
    group = group_columns(task.split.group, map(str, table.columns))
    return choose_sensors(table, task.sensors, [*task.facts, *group, *task.exclude])


def role_of(task: Task, name: str) -> str:
    """Return what a fact is to the task, in words."""
    return "public fact" if name == task.public else "private fact"


def _check_roles(table: pd.DataFrame, task: Task) -> None:
    """Refuse facts and groups that are not in the table, or one column in two roles."""
    facts = task.facts
    for name in facts:
        check_column(table, name, role_of(task, name))
        if facts.count(name) > 1:
            raise InputError(f"{name!r} is named as a fact twice. Name each fact once.")
    for group in group_columns(task.split.group, map(str, table.columns)):
        if group in facts:
            raise InputError(
                f"{group!r} is the {role_of(task, group)} and cannot be --group as well, which "
                "would put each of its classes on one side. Group by another column."
            )


def _check_no_identifiers(table: pd.DataFrame, sensors: Sequence[str]) -> None:
    """Refuse text that hardly repeats: it teaches nothing, and the file would list all of it."""
    for name in sensors:
        column = table[name]
        present = column[~is_missing(column)]
        if is_numeric(column) or present.nunique() <= max(10, len(present) / 2):
            continue
        raise InputError(
            f"sensor {name!r} has {present.nunique()} different texts in {len(present)} rows, like "
            f"{shown(present.iloc[0])}; it seems to be a time or an identifier. "
            f"Leave it out with --exclude {name!r}, or group its values first."
        )


def _check_recordable(table: pd.DataFrame, sensors: Sequence[str], facts: Sequence[str]) -> None:
    """Refuse now what the mapping file could not hold at the end."""
    for name in sensors:
        check_name("sensor", name)
    for name in facts:
        describe_fact(name, pd.unique(table[name]))


def fill_in(options: dict[str, Any], readings: pd.DataFrame) -> dict[str, Any]:
    """Return the mapper's parameters, with choices by column in the form that it takes.

    Raises
    ------
    InputError
        If a choice is for a column that is no sensor, or for one that it does not suit.
    """
    filled = options | {
        name: _choice_by_sensor(name, choice, readings)
        for name, choice in options.items()
        if isinstance(choice, ByColumn)
    }
    choose_strategies(readings, filled.get("binning", DEFAULT_STRATEGY))
    return filled


def _choice_by_sensor(option: str, choice: ByColumn, readings: pd.DataFrame) -> Any:
    own = by_column(option, choice.own, list(readings.columns))
    if not own:
        return choice.common
    # Bins for all are bins for numbers; asked for by name they would be refused for text.
    rest = [name for name in readings if option != "binning" or is_numeric(readings[name])]
    return dict.fromkeys(rest, choice.common) | own


def check_task(task: Task) -> None:
    """Refuse a method or a kernel that no cluster runs, before the table is read.

    Raises
    ------
    InputError
    """
    check_method(task.method)
    check_mapper(METHODS[task.method](kernel=task.options.get("kernel", "product")))


def learn(
    task: Task, prepared: Prepared, *, report: Report | None = None, client: Any = None
) -> Learned:
    """Learn the mapping from the training part.

    Parameters
    ----------
    task : Task
    prepared : Prepared
        What ``prepare`` made of the task.
    report : Report, optional
        Told how the learning goes; may ask to stop.
    client : distributed.Client, optional
        A Dask cluster, for the passes over the rows of a large table.

    Raises
    ------
    StoppedError
        If it was stopped before there was a mapping to keep.
    """
    training = prepared.table.iloc[prepared.train].reset_index(drop=True)
    held_out = prepared.table.iloc[prepared.audit].reset_index(drop=True)
    source = describe_source(task, prepared)
    mapper = METHODS[task.method](**prepared.options)
    mapper.fit_reporting(
        training[prepared.sensors],
        training[task.public],
        training[list(task.private)],
        groups=None if prepared.groups is None else prepared.groups[prepared.train],
        source=source,
        report=report,
        place=None if client is None else place_on(client),
    )
    return Learned(mapper, prepared.sensors, training, held_out)


def describe_source(task: Task, prepared: Prepared) -> Source:
    """Return what the mapping records of its table: digests and the split, never rows."""
    used = prepared.table[[*prepared.sensors, task.public, *task.private]]
    return Source(
        digest=table_digest(used),
        rows=len(used),
        split=task.split,
        unordered=unordered_digest(used),
        dependence=prepared.dependence,
    )


def _check_training(training: pd.DataFrame, sensors: Sequence[str], split: Split) -> None:
    """Refuse too few rows to learn from, and sensors that say nothing in them."""
    if len(training) < MIN_TRAINING_ROWS:
        raise InputError(
            f"--holdout {split.holdout:g} leaves {len(training)} rows to learn from; at least "
            f"{MIN_TRAINING_ROWS} are needed. Hold out less, or add rows."
        )
    for name in sensors:
        column = training[name]
        gone = is_missing(column)
        # One value and gaps still say something by the gaps; either alone does not.
        if gone.all() or (not gone.any() and column.nunique() < 2):
            raise InputError(
                f"sensor {name!r} changes in the table but not in the {len(training)} rows left "
                f"to learn from. Leave it out with --exclude {name!r}, or hold out less."
            )
