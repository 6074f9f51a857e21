"""The job behind ``discreet learn``: a table on disk to a mapping, with rows set aside.

Rows that taught the mapping cannot vouch for it. So a part of the table is held out
before anything is learned, and the mapping records how: one digest of the whole table
and the seed of the split, from which an audit finds the same rows again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.design.mappers import BayesErrorMapper, NDDMapper, NPOMapper, PrivacyMapper
from discreet.design.results import Report
from discreet.errors import InputError
from discreet.mapping import Mapping, Source
from discreet.readings import (
    check_column,
    check_labels,
    check_sensors,
    choose_sensors,
    read_table,
)
from discreet.splitting import Split, split_rows, table_digest
from discreet.values import is_missing

METHODS: dict[str, type[PrivacyMapper]] = {
    "npo": NPOMapper,
    "ndd": NDDMapper,
    "bayes-error": BayesErrorMapper,
}


@dataclass(frozen=True)
class Task:
    """What to learn from which columns.

    Attributes
    ----------
    sensors : sequence of str, optional
        Columns with readings; by default all that are not named otherwise.
    options : dict
        Parameters of the mapper.
    """

    table: Path
    public: str
    private: Sequence[str]
    sensors: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    method: str = "npo"
    split: Split = field(default_factory=Split)
    options: dict[str, Any] = field(default_factory=dict)


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
    """A table that has passed every check, split and ready to learn from."""

    table: pd.DataFrame
    sensors: list[str]
    train: NDArray[np.int64]
    audit: NDArray[np.int64]


def prepare(task: Task) -> Prepared:
    """Read the table, check everything that can be checked, and split its rows."""
    if task.method not in METHODS:
        raise InputError(f"method must be one of {sorted(METHODS)}, got {task.method!r}.")
    table = read_table(task.table)
    check_column(table, task.public, "public")
    labels = [task.public, *task.private]
    for name in task.private:
        check_column(table, name, "private")
    if len(set(labels)) < len(labels):
        twice = next(name for name in labels if labels.count(name) > 1)
        raise InputError(f"column {twice!r} is named as a fact twice. Name each fact once.")
    aside = [*labels, *task.exclude]
    if task.split.group is not None:
        check_column(table, task.split.group, "group")
        aside.append(task.split.group)
    sensors = choose_sensors(table, task.sensors, aside)
    check_sensors(table, sensors)
    for name in labels:
        check_labels(table[name], "public" if name == task.public else "private", name)
    train, audit = split_rows(table, task.split, labels)
    _check_training_sensors(table.iloc[train], sensors)
    return Prepared(table, sensors, train, audit)


def learn(task: Task, prepared: Prepared, *, report: Report | None = None) -> Learned:
    """Learn the mapping from the training part."""
    training = prepared.table.iloc[prepared.train].reset_index(drop=True)
    held_out = prepared.table.iloc[prepared.audit].reset_index(drop=True)
    group = task.split.group
    source = Source(digest=table_digest(prepared.table), rows=len(prepared.table), split=task.split)
    mapper = METHODS[task.method](**task.options)
    mapper.fit_reporting(
        training[prepared.sensors],
        training[task.public],
        training[list(task.private)],
        groups=None if group is None else training[group].astype(str),
        source=source,
        report=report,
    )
    return Learned(mapper, prepared.sensors, training, held_out)


def _check_training_sensors(training: pd.DataFrame, sensors: Sequence[str]) -> None:
    """Refuse a sensor that varies in the table but not in the rows left to learn from."""
    for name in sensors:
        column = training[name]
        if column[~is_missing(column)].nunique() < 2:
            raise InputError(
                f"sensor {name!r} never changes in the {len(training)} rows left for learning. "
                "Leave it out with --exclude, or hold out fewer rows."
            )
