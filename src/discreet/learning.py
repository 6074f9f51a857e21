"""The job behind ``discreet learn``: tables on disk to a mapping, with rows set aside.

Rows that taught the mapping cannot vouch for it. So a part of the table is held out
before anything is learned, and the mapping records how: one digest of the whole table
and the seed of the split, from which an audit finds the same rows again.

A table is gone over in batches, of which a table in memory is a single one: over the facts and
groups, for the classes and the split; over the sensors, for a sample of the rows to learn from,
which tells how readings become codes; and over all columns that are used, for the digest and the
counts. What is learned from is the counts and the sample.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.arrays import Ints
from discreet.choices import METHODS
from discreet.cluster import file_parts, run_on
from discreet.data.columns import Labels, LabelTally, as_series
from discreet.data.dependence import Dependence
from discreet.data.encoders import Encoder
from discreet.data.fit_encoders import DEFAULT_STRATEGY, ColumnScan, fit_sensors
from discreet.data.groups import GroupTally, group_columns
from discreet.data.opening import open_table as open_files
from discreet.data.roles import MOST_ROWS, Role
from discreet.data.split import Split, hold_out
from discreet.data.table_warnings import (
    Doubt,
    check_both_orders,
    check_group_copies,
    check_mixed,
    doubt_rows,
    odd_classes,
    odd_columns,
    odd_readings,
    same_facts,
    warn_of_groups,
)
from discreet.data.tables import (
    Frame,
    Stretches,
    Table,
    add_clock,
    first_rows,
    read_tables,
    take,
)
from discreet.design.counts.counting import (
    SAMPLED_ROWS,
    Part,
    Passed,
    Plan,
    Run,
    add_up,
    in_turn,
    sample_index,
)
from discreet.design.fusion import aim_for
from discreet.design.inputs import Coded, check_name, code_sample, describe_fact
from discreet.errors import InputError, Problems, StoppedError, TableWarning
from discreet.mappers.base import PrivacyMapper, check_reachable
from discreet.mapping.mapping import Mapping
from discreet.mapping.parts import PublicChain, Source
from discreet.progress import Progress, Report
from discreet.task import (
    Task,
    check_method,
    check_no_log,
    check_roles,
    fill_in,
    look_at_roles,
    role_of,
    without_others,
)

MIN_ROWS = 20
"""Fewest rows worth learning from."""
MIN_TRAINING_ROWS = 10
"""Fewest rows that may be left after the holdout."""


@dataclass(frozen=True)
class Prepared:
    """A table that has passed every check, split, coded and counted: ready to learn from.

    Attributes
    ----------
    options : dict
        Parameters of the mapper.
    facts : list of Labels
        The public fact, then the private ones, of every row.
    groups : Labels or None
        The group of every row, if rows stay together by group.
    held_out : ndarray of bool
        Which rows are kept for the audit.
    coded : Coded
        What is learned from.
    warning : str or None
        What to know of the rows or groups before they are learned from.
    doubt : Doubt or None
        Why rows, or the groups that are named, cannot be taken to be independent. No limit is met
        then, whatever rows left out show.
    chain : PublicChain or None
        How the public fact moves from round to round, if rows tell their time.
    """

    task: Task
    table: Table
    options: dict[str, Any]
    facts: list[Labels]
    groups: Labels | None
    held_out: NDArray[np.bool_]
    coded: Coded
    warning: str | None
    doubt: Doubt | None
    chain: PublicChain | None

    @property
    def sensors(self) -> list[str]:
        return self.coded.names

    @property
    def source(self) -> Source:
        """What the mapping records of the table: digests and the split, never rows."""
        return self.coded.source

    @property
    def train(self) -> Ints:
        """The positions of the rows to learn from."""
        return np.flatnonzero(~self.held_out)

    @property
    def audit(self) -> Ints:
        """The positions of the rows kept for the audit."""
        return np.flatnonzero(self.held_out)

    def rows(self, chosen: NDArray[np.bool_] | slice) -> pd.DataFrame:
        """Return the chosen rows, in memory, with all columns."""
        flags = np.zeros(self.table.rows, dtype=bool)
        flags[chosen] = True
        return take(self.table, flags, self.table.columns).reset_index(drop=True)


@dataclass(frozen=True)
class Learned:
    """A fitted mapper, and which rows it was and was not shown."""

    mapper: PrivacyMapper
    prepared: Prepared

    @property
    def mapping(self) -> Mapping:
        return self.mapper.mapping_

    @property
    def training(self) -> pd.DataFrame:
        return self.prepared.rows(~self.prepared.held_out)

    @property
    def held_out(self) -> pd.DataFrame:
        return self.prepared.rows(self.prepared.held_out)


def open_table(task: Task, memory: int | None, work_dir: Path | None = None) -> Table:
    """Return the task's table, in memory or to be streamed; see ``data.opening``."""
    return open_files(task.files(), memory, work_dir)


def prepare(
    task: Task,
    table: Table | None = None,
    *,
    report: Report | None = None,
    client: Any = None,
) -> Prepared:
    """Check everything that can be checked, split the rows, choose the encoders, and count.

    Parameters
    ----------
    task : Task
    table : Table, optional
        What ``open_table`` returned; in memory by default.
    report : Report, optional
        Told how far it is; may ask to stop.
    client : distributed.Client, optional
        A Dask cluster that goes over the rows.

    Raises
    ------
    InputError
        Naming the column, what was found in it and what to do.
    """
    check_method(task.method)
    table = Frame(read_tables(task.files())) if table is None else table
    table = add_clock(table, task.sensors or ())
    roles = look_at_roles(task, table)
    check_no_log(task, table, roles)
    task = without_others(task, roles)
    sensors = check_roles(table.columns, task)
    options = fill_in(task.options, {name: table.holds_numbers(name) for name in sensors})
    facts, groups = _check(task, table, roles, sensors, report)
    described = [describe_fact(fact.name, fact.classes) for fact in facts]
    aim_for(options.get("decide", "balanced"), described[0])  # refuses classes that there are not
    check_reachable(options.get("max_advantage"), described[1:])
    held_out = hold_out(task.split, facts, groups)
    _check_training(int((~held_out).sum()), task.split)
    METHODS[task.method].check_row_count(int((~held_out).sum()))
    seen = Stretches(table)
    sample = _draw_sample(table, sensors, facts, held_out, seen, report)
    kept = fit_sensors(
        sample.rows,
        strategy=options.get("binning", DEFAULT_STRATEGY),
        n_bins=options.get("n_bins", 10),
        facts=sample.facts,
        worth=True,
    )
    sensors = [name for name, _ in kept]
    options = _for_sensors(options, sensors)
    dependence, doubt = _look_at_order(task, table, sensors, seen, groups)
    few = None if groups is None else warn_of_groups(task.split, groups.n_classes)
    warning = few if doubt is None else doubt.warning
    plan = Plan(
        tuple(kept),
        tuple(fact.n_classes for fact in facts),
        (*sensors, *task.facts),
    )
    passed = _pass_over(plan, table, facts, held_out, report, client)
    source = Source(
        digest=passed.table.ordered,
        rows=table.rows,
        split=task.split,
        unordered=passed.table.unordered,
        training=passed.training.unordered,
        dependence=dependence,
    )
    coded = replace(sample.code(kept, groups, passed, source), doubted=doubt is not None)
    chain = _find_chain(task, table, facts[0], groups, held_out)
    return Prepared(task, table, options, facts, groups, held_out, coded, warning, doubt, chain)


def learn(prepared: Prepared, *, report: Report | None = None) -> Learned:
    """Learn the mapping from the training part.

    Parameters
    ----------
    prepared : Prepared
        What ``prepare`` made of the task.
    report : Report, optional
        Told how the learning goes; may ask to stop.

    Raises
    ------
    InputError
    StoppedError
        If it was stopped before there was a mapping to keep.
    """
    mapper = METHODS[prepared.task.method](**prepared.options)
    mapper.fit_coded(prepared.coded, report=report)
    if prepared.chain is not None:
        mapper.mapping_ = mapper.mapping_.with_chain(prepared.chain)
    return Learned(mapper, prepared)


# --- Labels and the order of rows ---------------------------------------------------------------


def _check(
    task: Task, table: Table, roles: list[Role], sensors: list[str], report: Report | None
) -> tuple[list[Labels], Labels | None]:
    """Return the facts and groups; refuse all that is wrong at once, and warn of the rest."""
    problems = Problems()
    rows = first_rows(table, MOST_ROWS)
    if table.rows < MIN_ROWS:
        problems.found.append(
            InputError(
                f"the table has {table.rows} rows; at least {MIN_ROWS} are needed. Gather more."
            )
        )
    for name in sensors:
        with problems.gathered():
            check_name("sensor", name)
            check_mixed(name, rows[name])
    facts, groups = _read_facts(task, table, report, problems)
    if problems.found:
        _check_worth(rows, sensors, problems)
    odd = [each for name in sensors for each in odd_readings(name, rows[name])]
    odd += odd_columns([each for each in roles if each.column in sensors])
    odd += [each for fact in facts for each in odd_classes(fact, role_of(task, fact.name))]
    if [fact.name for fact in facts] == task.facts:  # none was refused
        odd += same_facts(facts[0], facts[1:])
    for each in odd:
        warnings.warn(each, TableWarning, stacklevel=3)
    problems.refuse()
    return facts, groups


def _check_worth(rows: pd.DataFrame, sensors: list[str], problems: Problems) -> None:
    """Look for sensors to be refused, where the rows to learn from cannot be chosen."""
    named = " ".join(map(str, problems.found))
    for name in sensors:
        if f"sensor {name!r}" not in named:
            with problems.gathered():
                ColumnScan(name, as_series(rows[name])).check_worth()


def _read_facts(
    task: Task, table: Table, report: Report | None, problems: Problems
) -> tuple[list[Labels], Labels | None]:
    """Return the facts and the group of every row; what is wrong with one is gathered."""
    tallies = {name: LabelTally(name, role_of(task, name)) for name in task.facts}
    spec = task.split.group
    groups = None if spec is None else GroupTally(spec, table.rows)
    names = [*task.facts, *group_columns(spec, table.columns)]
    for batch in _told(table.batches(names), "labels", table.rows, report):
        for name, tally in list(tallies.items()):
            before = len(problems.found)
            with problems.gathered():
                tally.add(batch[name])
            if len(problems.found) > before:
                del tallies[name]
        if groups is not None:
            before = len(problems.found)
            with problems.gathered():
                groups.add(batch)
            groups = groups if len(problems.found) == before else None
    facts: list[Labels] = []
    for tally in tallies.values():
        with problems.gathered():
            facts.append(tally.finish())
    return facts, None if groups is None else groups.finish()


def _told(
    batches: Iterable[pd.DataFrame], phase: str, total: int, report: Report | None
) -> Iterator[pd.DataFrame]:
    """Pass batches on and tell how many of all rows they were; stop where that is wished."""
    seen = 0
    for batch in batches:
        seen += len(batch)
        _tell(phase, seen / total, report)
        yield batch


def _tell(phase: str, done: float, report: Report | None) -> None:
    if report is not None and report(Progress(phase, min(done, 1.0))):
        raise StoppedError("stopped before there was a mapping to keep.")


def _for_sensors(options: dict[str, Any], sensors: list[str]) -> dict[str, Any]:
    """Return the mapper's parameters without choices for sensors that were left out."""
    counts = options.get("n_symbols")
    if not isinstance(counts, dict):
        return options
    return options | {"n_symbols": {name: counts[name] for name in sensors if name in counts}}


def _check_training(rows: int, split: Split) -> None:
    if rows < MIN_TRAINING_ROWS:
        raise InputError(
            f"--holdout {split.holdout:g} leaves {rows} rows to learn from; at least "
            f"{MIN_TRAINING_ROWS} are needed. Hold out less, or add rows."
        )


def _look_at_order(
    task: Task, table: Table, sensors: list[str], seen: Stretches, groups: Labels | None
) -> tuple[Dependence | None, Doubt | None]:
    """Return whether rows taken to be independent look like it, and what speaks against it.

    Of groups only whether copies lie in different ones: the audit looks at their order.
    """
    rows = seen.finish()
    if groups is not None:
        copies = check_group_copies(groups, rows, sensors, task.facts)
        return None, doubt_rows(copies, rows, sensors, task.public, task.private)
    found = check_both_orders(rows, sensors, task.public, task.private, table)
    return found, doubt_rows(found, rows, sensors, task.public, task.private)


def _find_chain(
    task: Task,
    table: Table,
    public: Labels,
    groups: Labels | None,
    held_out: NDArray[np.bool_],
) -> PublicChain | None:
    """Return how the public fact moves, from rows to learn from that follow one another."""
    name = task.time_column
    if name is None:
        return None
    from discreet.data.series import read_series
    from discreet.leakage.chains import estimate_chain

    times = pd.concat([batch[name] for batch in table.batches([name])])
    series = read_series(times, None if groups is None else groups.index, name, task.every)
    return estimate_chain(public.index, public.n_classes, series, ~held_out)


# --- The sample, and the pass over all rows ----------------------------------------------------


@dataclass(frozen=True)
class _Drawn:
    """A sample of the rows to learn from.

    ``numbers``: theirs among all rows to learn from. ``chosen``: which rows of the table they are.
    """

    rows: pd.DataFrame
    facts: list[Labels]
    numbers: Ints
    chosen: NDArray[np.bool_]

    def code(
        self,
        sensors: list[tuple[str, Encoder]],
        groups: Labels | None,
        passed: Passed,
        source: Source,
    ) -> Coded:
        """Return the sample as codes, with the counts of all rows."""
        own = None
        if groups is not None:  # in numbers without gaps, in the same order
            own = np.unique(groups.index[self.chosen], return_inverse=True)[1].astype(np.int64)
        return code_sample(sensors, self.rows, self.facts, self.numbers, own, passed.counts, source)


def _draw_sample(
    table: Table,
    sensors: list[str],
    facts: list[Labels],
    held_out: NDArray[np.bool_],
    seen: Stretches,
    report: Report | None,
) -> _Drawn:
    """Bring some of the rows to learn from into memory, the same however the table is read.

    ``seen``: gathers rows whose order is looked at, of all columns, on the way.
    """
    numbers = sample_index(int((~held_out).sum()), SAMPLED_ROWS)
    chosen = ~held_out
    in_sample = np.zeros(int(chosen.sum()), dtype=bool)
    in_sample[numbers] = True
    chosen[chosen] = in_sample
    batches = seen.passed(table.batches(table.columns))
    parts = [
        batch.loc[chosen[batch.index], sensors]
        for batch in _told(batches, "sample", table.rows, report)
    ]
    rows = pd.concat(parts).reset_index(drop=True)
    return _Drawn(rows, [fact.take(chosen) for fact in facts], numbers, chosen)


def _pass_over(
    plan: Plan,
    table: Table,
    facts: list[Labels],
    held_out: NDArray[np.bool_],
    report: Report | None,
    client: Any,
) -> Passed:
    """Digest all rows, and count those to learn from."""
    rows: Iterable[Any] = table.batches(plan.columns)
    run: Run = in_turn
    if client is not None:
        rows, run = file_parts(client, table, plan.columns), run_on(client)

    def parts() -> Iterator[Part]:
        begin = number = 0
        for each in rows:
            size = each.rows if hasattr(each, "groups") else len(each)
            here = slice(begin, begin + size)
            kept = ~held_out[here]
            yield Part(each, begin, kept, number, tuple(fact.index[here] for fact in facts))
            begin, number = begin + size, number + int(kept.sum())

    def reported(found: Iterable[Passed]) -> Iterator[Passed]:
        seen = 0
        for each in found:
            seen += each.table.rows
            _tell("count", seen / table.rows, report)
            yield each

    return add_up(plan, reported(run(plan, parts())))
