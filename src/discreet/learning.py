"""The job behind ``discreet learn``: tables on disk to a mapping, with rows set aside.

Rows that taught the mapping cannot vouch for it. So a part of the table is held out
before anything is learned, and the mapping records how: one digest of the whole table
and the seed of the split, from which an audit finds the same rows again.

A table is gone over in batches, of which a table in memory is a single one: over the facts and
groups, for the classes and the split; over each column, for its encoder, from the rows to learn
from, and for the digest; then over the rows to learn from, which become codes. The codes of a
table in memory stay there. Others are packed into a file, half a byte for a code of sixteen, and
everything further reads that file.
"""

from __future__ import annotations

import shlex
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ValidationError

from discreet.arrays import Ints
from discreet.choices import METHODS, ByColumn
from discreet.cluster.fit import check_mapper, place_on
from discreet.data.column_scan import DEFAULT_STRATEGY, ColumnScan
from discreet.data.columns import check_column, choose_sensors
from discreet.data.dependence import MOST_ROWS, Dependence
from discreet.data.digest import MAX_UNORDERED_ROWS, TableDigest, unordered_digest
from discreet.data.encoders import Encoder, encode_table
from discreet.data.fit_encoders import begin_scans, by_column
from discreet.data.groups import GroupTally, group_columns
from discreet.data.labels import Labels, LabelTally
from discreet.data.proposals import check_both_orders, propose_group, say_shared
from discreet.data.series import read_series
from discreet.data.split import Split, held_out_groups, hold_out
from discreet.data.spooling import stream_text
from discreet.data.strict_model import explain
from discreet.data.tables import (
    BATCH_ROWS,
    LIBRARY_BYTES,
    Frame,
    Stream,
    Table,
    add_clock,
    can_stream,
    find_files,
    first_rows,
    memory_needed,
    memory_streamed,
    open_stream,
    read_tables,
    take,
    time_columns,
)
from discreet.data.unique_rows import Distinct, distinct_rows
from discreet.design.coded import Coded, coded_file, coded_rows, sampled
from discreet.design.deciding import aim_for
from discreet.design.inputs import check_name, describe_fact
from discreet.design.packed_file import (
    MAX_KINDS,
    Header,
    PackedSensor,
    PackedWriter,
    packing_to,
)
from discreet.errors import InputError, MemoryCapWarning, StoppedError, TimesLeftOutWarning
from discreet.mappers.risk_mappers import PrivacyMapper
from discreet.mapping.mapping import Mapping
from discreet.mapping.memory import estimate_chain
from discreet.mapping.parts import PublicChain, Source
from discreet.progress import Progress, Report

MIN_ROWS = 20
"""Fewest rows worth learning from."""
MIN_TRAINING_ROWS = 10
"""Fewest rows that may be left after the holdout."""
DEFAULT_MEMORY = 4 << 30
"""Tables that would take more bytes than this to learn from are streamed."""


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
    time_column : str, optional
        When each row was written; from it the mapping learns how long the public fact lasts.
    every : float, optional
        Seconds from one round to the next; by default what is usual between rows.
    """

    table: Path
    public: str
    private: Sequence[str]
    sensors: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    method: str = "auto"
    split: Split = field(default_factory=Split)
    options: dict[str, Any] = field(default_factory=dict)
    further: Sequence[Path] = ()
    time_column: str | None = None
    every: float | None = None

    @property
    def facts(self) -> list[str]:
        """The public fact, then the private ones."""
        return [self.public, *self.private]

    def files(self) -> list[Path]:
        """Return all files with rows, patterns resolved."""
        return find_files([self.table, *self.further])


@dataclass(frozen=True)
class Prepared:
    """A table that has passed every check, split and ready to learn from.

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
    encoders : list of Encoder
        One for each sensor, from the rows to learn from.
    source : Source
        What the mapping records of the table: digests and the split, never rows.
    warning : str or None
        What to know of the rows or groups before they are learned from.
    chain : PublicChain or None
        How the public fact moves from round to round, if rows tell their time.
    """

    task: Task
    table: Table
    sensors: list[str]
    options: dict[str, Any]
    facts: list[Labels]
    groups: Labels | None
    held_out: NDArray[np.bool_]
    encoders: list[Encoder]
    source: Source
    warning: str | None
    chain: PublicChain | None

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


# --- What to read ----------------------------------------------------------------------------


def open_table(task: Task, memory: int | None, work_dir: Path | None = None) -> Table:
    """Return the task's table: in memory, or one to be streamed if it is too large for that.

    Parameters
    ----------
    memory : int or None
        Bytes that learning may take. None stands for 4 GiB, and for what the streamed way
        does not know it stands for as much as it takes.
    work_dir : Path, optional
        Where a text table that is streamed is copied to.

    Raises
    ------
    InputError
        If the table takes more than it may and cannot be streamed.
    """
    files = task.files()
    needed = memory_needed(files) if all(file.is_file() for file in files) else 0
    if needed <= (DEFAULT_MEMORY if memory is None else memory):
        return Frame(read_tables(files))
    if can_stream(files):
        stream = open_stream(files)
    elif not any(can_stream([file]) for file in files):
        stream = stream_text(files, work_dir)
    elif memory is not None:
        raise InputError(
            f"{files[0]}: learning from it takes about {needed >> 20} MiB, and text beside Parquet "
            "cannot be streamed. Give one kind of file, or allow more with --memory."
        )
    else:
        return Frame(read_tables(files))
    if memory is not None:
        _check_cap(memory, memory_streamed(stream))
    if memory is not None or _goes_beyond_memory(task, stream):
        return stream
    return Frame(read_tables(files))


def _check_cap(memory: int, least: int) -> None:
    if memory < least:
        warnings.warn(
            f"--memory allows {max(memory >> 20, 1)} MiB; the libraries alone take about "
            f"{LIBRARY_BYTES >> 20}, and this table, streamed, about {least >> 20} MiB. It is "
            "learned from in as little as that. Allow more, or name fewer sensors.",
            MemoryCapWarning,
            stacklevel=3,
        )


def _goes_beyond_memory(task: Task, stream: Stream) -> bool:
    try:
        _make_options(task, stream, check_roles(stream.columns, task))
    except InputError:
        return False
    return True


def _make_options(task: Task, table: Table, sensors: list[str]) -> dict[str, Any]:
    """Return the mapper's parameters; refuse what needs all rows in memory before any is read."""
    check_method(task.method)
    options = fill_in(task.options, {name: table.holds_numbers(name) for name in sensors})
    if table.read == "stream":
        METHODS[task.method](**options).check_beyond_memory(sensors)
    return options


# --- What it holds -----------------------------------------------------------------------------


def prepare(task: Task, table: Table | None = None, *, report: Report | None = None) -> Prepared:
    """Check everything that can be checked, split the rows, and fit the encoders.

    Parameters
    ----------
    task : Task
    table : Table, optional
        What ``open_table`` returned; in memory by default.
    report : Report, optional
        Told how far it is; may ask to stop.

    Raises
    ------
    InputError
        Naming the column, what was found in it and what to do.
    """
    check_method(task.method)
    table = Frame(read_tables(task.files())) if table is None else table
    table = add_clock(table, task.sensors or ())
    task = _without_times(task, table)
    sensors = check_roles(table.columns, task)
    for name in sensors:
        check_name("sensor", name)
    if table.rows < MIN_ROWS:
        raise InputError(
            f"the table has {table.rows} rows; at least {MIN_ROWS} are needed. Gather more."
        )
    options = _make_options(task, table, sensors)
    facts, groups = _read_facts(task, table, report)
    described = [describe_fact(fact.name, fact.classes) for fact in facts]
    aim_for(options.get("decide", "balanced"), described[0])  # refuses classes that there are not
    held_out = hold_out(task.split, facts, groups, read=table.read)
    _check_training(int((~held_out).sum()), task.split)
    scans = begin_scans(
        sensors, options.get("binning", DEFAULT_STRATEGY), options.get("n_bins", 10)
    )
    digest = _scan(task, table, scans, facts, held_out, report)
    if groups is None:
        dependence, warning = _check_order(task, table, sensors)
    else:
        dependence, warning = None, warn_of_groups(task.split, groups.n_classes)
    used = [*sensors, *task.facts]
    source = Source(
        digest=digest,
        rows=table.rows,
        split=task.split,
        unordered=(
            unordered_digest(table.batches(used)) if table.rows <= MAX_UNORDERED_ROWS else None
        ),
        read=table.read,
        dependence=dependence,
    )
    encoders = [scan.encoder() for scan in scans]
    chain = _find_chain(task, table, facts[0], groups, held_out)
    return Prepared(
        task, table, sensors, options, facts, groups, held_out, encoders, source, warning, chain
    )


def _without_times(task: Task, table: Table) -> Task:
    """Return the task without sensors that nobody named and that are times."""
    used = [*task.facts, *group_columns(task.split.group, table.columns), *task.exclude]
    times = [] if task.sensors is not None else time_columns(table)
    times = [name for name in times if name not in (*used, task.time_column)]
    for name in times:
        warnings.warn(
            f"column {name!r} holds times and is no sensor. For the hour of the day or the weekday "
            f"name the sensors, as in --sensors A,B,{name}:hour,{name}:weekday.",
            TimesLeftOutWarning,
            stacklevel=3,
        )
    return replace(task, exclude=[*task.exclude, *times]) if times else task


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
    times = pd.concat([batch[name] for batch in table.batches([name])])
    series = read_series(times, None if groups is None else groups.index, name, task.every)
    return estimate_chain(public.index, public.n_classes, series, ~held_out)


def _told(
    batches: Iterator[pd.DataFrame], phase: str, begin: int, total: int, report: Report | None
) -> Iterator[pd.DataFrame]:
    """Pass batches on and tell how many of all rows they were; stop where that is wished."""
    for batch in batches:
        begin += len(batch)
        done = min(begin / total, 1.0)
        if report is not None and report(Progress(phase, done)):
            raise StoppedError("stopped before there was a mapping to keep.")
        yield batch


def _read_facts(
    task: Task, table: Table, report: Report | None
) -> tuple[list[Labels], Labels | None]:
    """Return the facts and the group of every row."""
    tallies = [LabelTally(name, role_of(task, name)) for name in task.facts]
    spec = task.split.group
    groups = None if spec is None else GroupTally(spec, table.rows)
    names = [*task.facts, *group_columns(spec, table.columns)]
    for batch in _told(table.batches(names), "labels", 0, table.rows, report):
        for tally in tallies:
            tally.add(batch[tally.name])
        if groups is not None:
            groups.add(batch)
    return [tally.finish() for tally in tallies], None if groups is None else groups.finish()


def _scan(
    task: Task,
    table: Table,
    scans: Sequence[ColumnScan],
    facts: Sequence[Labels],
    held_out: NDArray[np.bool_],
    report: Report | None,
) -> str:
    """Look at the readings to learn from, and return the digest of all rows."""
    names = [*(scan.sensor for scan in scans), *task.facts]
    digest = TableDigest(table.rows, len(names))
    for k, name in enumerate(names):
        digest.begin(name)
        span = k * table.rows, len(names) * table.rows
        for batch in _told(table.batches([name]), "scan", *span, report):
            digest.add(batch[name])
            if k < len(scans):
                kept = batch.index[~held_out[batch.index]]
                scans[k].add(batch[name][kept], facts[0].index[kept])
        if k < len(scans):
            scans[k].check_worth()
            _count_cells(table, scans[k], facts, held_out)
    return digest.result()


def _count_cells(
    table: Table, scan: ColumnScan, facts: Sequence[Labels], held_out: NDArray[np.bool_]
) -> None:
    """Show a column once more to a scan that merges bins by the facts."""
    for batch in table.batches([scan.sensor]) if scan.counts_cells else ():
        kept = batch.index[~held_out[batch.index]].to_numpy()
        scan.count(batch[scan.sensor][kept], [fact.take(kept) for fact in facts])


def _check_order(
    task: Task, table: Table, sensors: list[str]
) -> tuple[Dependence | None, str | None]:
    """Return whether rows taken to be independent look like it and, if not, what to say."""
    rows = first_rows(table, MOST_ROWS)
    found = check_both_orders(rows, sensors, task.public, task.private)
    return found, warn_of_rows(found, rows, sensors, task)


def warn_of_rows(
    dependence: Dependence, table: pd.DataFrame, sensors: Sequence[str], task: Task
) -> str | None:
    """Return what to say about rows that depend on one another or may do so, if they do."""
    if dependence.found:
        return describe_order(dependence, table, sensors, task)
    shared = say_shared(table, sensors, task.public, task.private)
    return f"{shared}; split one by one, such rows make an audit too sure." if shared else None


def warn_of_groups(split: Split, count: int) -> str | None:
    """Return what to say about groups that leave too few of them to an audit, if they do."""
    if split.group is None or split.holdout == 0 or held_out_groups(split, count) > 1:
        return None
    more = "" if count == 2 else "hold out more, "
    return (
        f"group {split.group!r} has {count} groups, 1 of which is held out: an audit needs at "
        f"least 2, and many more to certify anything. Add groups, {more}or name finer ones."
    )


def describe_order(
    dependence: Dependence,
    table: pd.DataFrame,
    sensors: Sequence[str],
    task: Task,
    *,
    override: str = "audit with --assume-independent",
) -> str:
    """Return what to say about rows that depend on one another: what was found, what to do.

    ``override`` is what to do if they are independent all the same.
    """
    if dependence.kind == "copies":
        advice = "Drop the copies, or name what they share with --group."
    elif (group := propose_group(dependence, table, sensors, task.public, task.private)) not in (
        None,
        task.split.group,
    ):
        advice = f"Run again with --group {shlex.quote(group)}."
    else:
        advice = (
            "No stretches of rows, ten or more, are free of it: name what such rows share, as a "
            "home, with --group, or gather more rows."
        )
    return (
        f"{dependence.words}. Nothing is certified from such {dependence.unit}. {advice} If they "
        f"are independent all the same, {override}."
    )


def check_method(method: str) -> None:
    """Refuse a method that there is not."""
    if method not in METHODS:
        raise InputError(f"--method must be one of {', '.join(METHODS)}, got {method!r}.")


def check_roles(columns: Sequence[str], task: Task) -> list[str]:
    """Return the sensors; refuse columns that are not there, or named in two roles.

    A column of times is no sensor.
    """
    facts, groups = task.facts, group_columns(task.split.group, columns)
    for name in facts:
        check_column(columns, name, role_of(task, name))
        if facts.count(name) > 1:
            raise InputError(f"{name!r} is named as a fact twice. Name each fact once.")
        if name in groups:
            raise InputError(
                f"{name!r} is the {role_of(task, name)} and cannot be --group as well, which "
                "would put each of its classes on one side. Group by another column."
            )
    times = [] if task.time_column is None else [task.time_column]
    for name in times:
        check_column(columns, name, "times")
    return choose_sensors(columns, task.sensors, [*facts, *groups, *times, *task.exclude])


def role_of(task: Task, name: str) -> str:
    """Return what a fact is to the task, in words."""
    return "public fact" if name == task.public else "private fact"


def fill_in(options: dict[str, Any], numbers: dict[str, bool]) -> dict[str, Any]:
    """Return the mapper's parameters, with choices by column in the form that it takes.

    Parameters
    ----------
    options : dict
    numbers : dict of str to bool
        The sensors, and whether each holds numbers.

    Raises
    ------
    InputError
        If a choice is for a column that is no sensor.
    """
    return options | {
        name: _choice_by_sensor(name, choice, numbers)
        for name, choice in options.items()
        if isinstance(choice, ByColumn)
    }


def _choice_by_sensor(option: str, choice: ByColumn, numbers: dict[str, bool]) -> Any:
    own = by_column(option, choice.own, list(numbers))
    if not own:
        return choice.common
    # Bins for all are bins for numbers; asked for by name they would be refused for text.
    rest = [name for name, is_number in numbers.items() if option != "binning" or is_number]
    return dict.fromkeys(rest, choice.common) | own


def _check_training(rows: int, split: Split) -> None:
    if rows < MIN_TRAINING_ROWS:
        raise InputError(
            f"--holdout {split.holdout:g} leaves {rows} rows to learn from; at least "
            f"{MIN_TRAINING_ROWS} are needed. Hold out less, or add rows."
        )


def check_task(task: Task) -> None:
    """Refuse a method or a kernel that no cluster runs, before the table is read.

    Raises
    ------
    InputError
    """
    check_method(task.method)
    check_mapper(METHODS[task.method](kernel=task.options.get("kernel", "product")))


# --- Codes, and the mapping --------------------------------------------------------------------


def learn(
    prepared: Prepared,
    *,
    work_dir: Path | None = None,
    report: Report | None = None,
    client: Any = None,
) -> Learned:
    """Learn the mapping from the training part.

    Parameters
    ----------
    prepared : Prepared
        What ``prepare`` made of the task.
    work_dir : Path, optional
        Where a streamed table is packed, into a file without a name that is gone when the work
        ends, however it ends. The current directory by default.
    report : Report, optional
        Told how the learning goes; may ask to stop.
    client : distributed.Client, optional
        A Dask cluster, for the passes over the rows of a large table.

    Raises
    ------
    InputError
    StoppedError
        If it was stopped before there was a mapping to keep.
    """
    mapper = METHODS[prepared.task.method](**prepared.options)
    place = None if client is None else place_on(client)
    if prepared.table.read is None:
        mapper.fit_coded(_coded(prepared), report=report, place=place)
        return _learned(mapper, prepared)
    folder = work_dir or Path()
    try:
        stream = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  closed just below
    except OSError as error:
        raise InputError(
            f"--work-dir {folder}: cannot be written ({error.strerror or error}). Name another."
        ) from None
    with stream:
        writer = PackedWriter(stream, _header(prepared), str(folder))
        _pack(prepared, writer, report)
        coded = coded_file(writer.finish(), _sampled_groups(prepared))
        mapper.fit_coded(coded, report=report, place=place)
        return _learned(mapper, prepared)


def _learned(mapper: PrivacyMapper, prepared: Prepared) -> Learned:
    if prepared.chain is not None:
        mapper.mapping_ = mapper.mapping_.with_chain(prepared.chain)
    return Learned(mapper, prepared)


def pack_tables(task: Task, path: str | PathLike[str], *, report: Report | None = None) -> None:
    """Pack the rows of a task that are to be learned from into a file, for ``fit_packed``.

    Parameters
    ----------
    task : Task
        ``options`` tells how readings become codes: ``binning`` and ``n_bins``.
    path : path-like
        Written whole or not at all.

    Raises
    ------
    InputError
    """
    prepared = prepare(task, open_stream(task.files()), report=report)
    with packing_to(path, _header(prepared)) as writer:
        _pack(prepared, writer, report)


def _coded(prepared: Prepared) -> Coded:
    """Return the codes of the rows to learn from, in memory."""
    training = take(prepared.table, ~prepared.held_out, prepared.sensors)
    sensors = list(zip(prepared.sensors, prepared.encoders, strict=True))
    facts = [fact.take(~prepared.held_out) for fact in prepared.facts]
    groups = prepared.groups
    numbers = None if groups is None else _renumbered(groups.index[~prepared.held_out])
    return coded_rows(
        prepared.sensors,
        prepared.encoders,
        encode_table(training, sensors),
        facts,
        numbers,
        prepared.source,
    )


def _renumbered(groups: NDArray[Any]) -> Ints:
    """Return numbers without gaps, in the same order."""
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)


def _sampled_groups(prepared: Prepared) -> Ints | None:
    """Return the groups of those packed rows that a fit will hold in memory."""
    if prepared.groups is None:
        return None
    packed = prepared.groups.index[~prepared.held_out]
    return _renumbered(packed[sampled(len(packed))])


def _header(prepared: Prepared) -> Header:
    """Return what the packed file tells of its rows."""
    kinds: Counter[tuple[int, ...]] = Counter()
    for begin in range(0, prepared.table.rows, BATCH_ROWS):
        found = _kinds(prepared, begin, begin + BATCH_ROWS)
        kinds.update(dict(zip(map(tuple, found.rows.tolist()), found.counts.tolist(), strict=True)))
    if len(kinds) > MAX_KINDS:
        raise InputError(
            f"the facts have {len(kinds)} combinations of classes; a packed table tells "
            f"{MAX_KINDS} apart. Name fewer private facts, or merge classes."
        )
    pairs = zip(prepared.sensors, prepared.encoders, strict=True)
    return Header(
        sensors=tuple(PackedSensor(name=name, encoder=encoder) for name, encoder in pairs),
        facts=tuple(describe_fact(fact.name, fact.classes) for fact in prepared.facts),
        kinds=tuple(sorted(kinds)),
        kind_rows=tuple(kinds[kind] for kind in sorted(kinds)),
        source=prepared.source,
    )


def _kinds(prepared: Prepared, begin: int, end: int) -> Distinct:
    """Return the combinations of classes in a stretch of rows, of those to learn from."""
    kept = ~prepared.held_out[begin:end]
    columns = [fact.index[begin:end][kept] for fact in prepared.facts]
    return distinct_rows(np.column_stack(columns).astype(np.int64))


def _pack(prepared: Prepared, writer: PackedWriter, report: Report | None) -> None:
    """Encode and pack the rows to learn from."""
    numbers = {kind: k for k, kind in enumerate(writer.header.kinds)}
    sensors = list(zip(prepared.sensors, prepared.encoders, strict=True))
    table = prepared.table
    for batch in _told(table.batches(prepared.sensors), "pack", 0, table.rows, report):
        found = _kinds(prepared, batch.index[0], batch.index[-1] + 1)
        kinds = np.array([numbers[tuple(row)] for row in found.rows.tolist()], dtype=np.int64)
        training = batch[~prepared.held_out[batch.index]]
        writer.add(encode_table(training, sensors), kinds[found.inverse])
