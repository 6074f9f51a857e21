"""Learning from tables larger than memory: scan the files, pack their rows, design from there.

Three passes over the files: one over the labels alone, for the classes and the split; one that
fits the encoders on the rows to learn from; one that encodes these rows and packs them into a
file of half a byte for a code of sixteen. Everything further reads that file.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Dict
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.batches import Stream, can_stream, memory_needed, open_stream
from discreet.cluster.fit import place_on
from discreet.codes import CategoriesEncoder, encode_table
from discreet.dependence import MOST_ROWS, Dependence
from discreet.design.base import PrivacyMapper
from discreet.design.coded import sampled
from discreet.design.deciding import aim_for
from discreet.design.inputs import LabelColumn, check_name, label_column
from discreet.design.packed_file import (
    MAX_KINDS,
    Header,
    PackedFile,
    PackedSensor,
    PackedWriter,
    packing_to,
)
from discreet.design.results import Progress, Report
from discreet.errors import CodeRangeError, InputError, StoppedError
from discreet.fit_codes import DEFAULT_BINS, DEFAULT_STRATEGY
from discreet.grouping import can_group, group_columns, group_values
from discreet.learning import (
    METHODS,
    MIN_TRAINING_ROWS,
    Task,
    check_method,
    check_order,
    check_roles,
    describe_order,
    fill_in,
    role_of,
)
from discreet.mapping_parts import Source
from discreet.readings import MAX_CLASSES, check_labels
from discreet.scanning import ColumnScan, holds_numbers
from discreet.splitting import RowSplit, Split, TableDigest
from discreet.values import Plain, is_missing, plain, shown, written, written_column

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

DEFAULT_MEMORY = 4 << 30
"""Tables that would take more bytes than this to learn from are streamed."""
_CHANGED = "The files changed while they were read; leave them alone and start again."


def is_streamed(task: Task, memory: int | None) -> bool:
    """Whether the task's table is too large for memory and will be streamed.

    Parameters
    ----------
    memory : int or None
        Bytes that learning may take. None stands for 4 GiB, and for what the streamed way
        does not know it stands for as much as it takes.

    Raises
    ------
    InputError
        If the table takes more than it may and cannot be streamed.
    """
    files = task.files()
    if not all(file.is_file() for file in files):
        return False  # reading it will say what is wrong
    needed = memory_needed(files)
    if needed <= (DEFAULT_MEMORY if memory is None else memory):
        return False
    if not can_stream(files):
        if memory is None:
            return False
        raise InputError(
            f"{files[0]}: learning from it takes about {needed >> 20} MiB and only Parquet can be "
            "streamed. Convert it to Parquet, or allow more with --memory."
        )
    if memory is not None:
        return True
    stream = open_stream(files)
    try:
        _make_mapper(task, stream, check_roles(_no_rows(stream), task))
    except InputError:
        return False
    return True


def _make_mapper(task: Task, stream: Stream, sensors: list[str]) -> PrivacyMapper:
    """Return the mapper; refuse what needs all rows in memory before any is read."""
    check_method(task.method)
    mapper = METHODS[task.method](**fill_in(task.options, _no_rows(stream)[sensors]))
    mapper.check_beyond_memory(sensors)
    return mapper


def _no_rows(stream: Stream) -> pd.DataFrame:
    """Return the columns as they are, without rows."""
    kinds = {name: float if kind == "number" else object for name, kind in stream.kinds.items()}
    return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in kinds.items()})


# --- What the files hold ---------------------------------------------------------------------


@dataclass(frozen=True)
class Scanned:
    """What two passes over the files found: all that packing them needs.

    Attributes
    ----------
    stream : Stream
    header : Header
        Of the packed file to come: encoders, facts, combinations of labels, the source.
    held_out : int
        Rows that are kept for the audit.
    groups : list of str
        All groups, if rows stay together by group.
    warning : str, optional
        What to say about rows that depend on one another.
    """

    task: Task
    stream: Stream
    header: Header
    held_out: int
    groups: list[str]
    warning: str | None = None

    @property
    def sensors(self) -> list[str]:
        return self.header.names

    @property
    def training(self) -> int:
        return self.header.rows

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        return _columns(self.sensors, self.task, self.stream)


def scan(task: Task, *, report: Report | None = None) -> Scanned:
    """Go over the files twice: over the labels, then over the readings to learn from.

    Raises
    ------
    InputError
        Naming the file or column, what was found and what to do.
    """
    stream = open_stream(task.files())
    sensors = check_roles(_no_rows(stream), task)
    for name in sensors:
        check_name("sensor", name)
    mapper = _make_mapper(task, stream, sensors)
    groups = _all_groups(stream, task.split)
    labels = _scan_labels(stream, task, groups, report)
    aim_for(mapper.decide, labels.facts[0].describe())  # refuses classes that there are not
    scans, digest = _scan_readings(stream, task, sensors, mapper, groups, report)
    dependence, warning = _check_first_rows(stream, task, sensors)
    source = Source(
        digest=digest, rows=stream.rows, split=task.split, read="stream", dependence=dependence
    )
    header = Header(
        sensors=tuple(PackedSensor(name=each.sensor, encoder=each.encoder()) for each in scans),
        facts=tuple(fact.describe() for fact in labels.facts),
        kinds=tuple(labels.kinds),
        kind_rows=tuple(labels.kinds.values()),
        source=source,
    )
    return Scanned(task, stream, header, labels.held_out, groups, warning)


def _check_first_rows(
    stream: Stream, task: Task, sensors: list[str]
) -> tuple[Dependence | None, str | None]:
    """Return what the order of the first rows tells and, if they depend, what to say."""
    if task.split.group is not None:
        return None, None
    first = _first_rows(stream, MOST_ROWS)
    found = check_order(first, sensors, task)
    return found, describe_order(found, first, sensors, task) if found.found else None


def _first_rows(stream: Stream, count: int) -> pd.DataFrame:
    parts: list[pd.DataFrame] = []
    for batch in stream.batches(stream.columns):
        parts.append(batch)
        if sum(map(len, parts)) >= count:
            break
    return pd.concat(parts, ignore_index=True).iloc[:count]


def _columns(sensors: list[str], task: Task, stream: Stream) -> list[str]:
    return [*sensors, *task.facts, *group_columns(task.split.group, stream.columns)]


def _reported(
    batches: Iterator[pd.DataFrame], rows: int, phase: str, report: Report | None
) -> Iterator[pd.DataFrame]:
    """Pass the batches on and tell how far they are; stop where that is wished."""
    seen = 0
    for batch in batches:
        seen += len(batch)
        if report is not None and report(Progress(phase, min(seen / rows, 1.0), float("nan"))):
            raise StoppedError("stopped before there was a mapping to keep.")
        yield batch


def _all_groups(stream: Stream, split: Split) -> list[str]:
    if split.group is None:
        return []
    columns = group_columns(split.group, stream.columns)
    if not columns:  # rows in their order need not be read
        no_rows = pd.DataFrame(index=pd.RangeIndex(stream.rows))
        return sorted(set(group_values(no_rows, split.group)))
    found: set[str] = set()
    seen = 0
    for batch in stream.batches(columns):
        found.update(group_values(batch, split.group, positions=seen + np.arange(len(batch))))
        seen += len(batch)
    return sorted(found)


@dataclass(frozen=True)
class _Labels:
    """The facts' classes, and how many rows to learn from have each combination of them."""

    facts: list[LabelColumn]
    kinds: dict[tuple[int, ...], int]
    held_out: int


def _scan_labels(stream: Stream, task: Task, groups: list[str], report: Report | None) -> _Labels:
    tallies = {name: _LabelTally(role_of(task, name), name) for name in task.facts}
    split = RowSplit(task.split, groups)
    sides: tuple[Counter[tuple[str, ...]], ...] = (Counter(), Counter())
    names = _columns([], task, stream)
    for batch in _reported(stream.batches(names), stream.rows, "labels", report):
        for name, tally in tallies.items():
            tally.add(batch[name])
        held = split.held_out(batch)
        texts = list(zip(*(written_column(batch[name]) for name in task.facts), strict=True))
        for side, chosen in zip(sides, (~held, held), strict=True):
            side.update(texts[i] for i in np.flatnonzero(chosen))
    facts = [tally.finish() for tally in tallies.values()]
    training, held_out = sides
    _check_sides(facts, training, held_out, task)
    places = [_places(fact) for fact in facts]
    if len(training) > MAX_KINDS:
        raise InputError(
            f"the facts have {len(training)} combinations of classes; a packed table tells "
            f"{MAX_KINDS} apart. Name fewer private facts, or merge classes."
        )
    kinds = {
        tuple(place[text] for place, text in zip(places, key, strict=True)): count
        for key, count in training.items()
    }
    return _Labels(facts, dict(sorted(kinds.items())), held_out.total())


def _places(fact: LabelColumn) -> dict[str, int]:
    values = [plain(value) for value in fact.classes]
    return {written(value): k for k, value in enumerate(values) if value is not None}


class _LabelTally:
    """The classes of one fact, gathered batch by batch."""

    def __init__(self, role: str, name: str) -> None:
        self.role, self.name = role, name
        self._counts: Counter[str] = Counter()
        self._values: dict[str, Plain] = {}

    def add(self, column: pd.Series[Any]) -> None:
        gone = int(is_missing(column).sum())
        if gone:
            raise InputError(
                f"{self.role} {self.name!r} is missing in {gone} of {len(column)} rows (empty, NA "
                "and None count as missing). Label these rows or drop them."
            )
        distinct = pd.Series(column.unique())
        if len(distinct) > MAX_CLASSES or len(self._counts) > MAX_CLASSES:
            check_labels(column, self.role, self.name)  # says what is wrong with so many
        self._counts.update(written_column(column))
        for value, text in zip(distinct, written_column(distinct), strict=True):
            found = plain(value)
            self._values.setdefault(text, str(value) if found is None else found)
        if len(self._counts) > MAX_CLASSES:
            self.finish()

    def finish(self) -> LabelColumn:
        """Return the classes, in order, once they have passed all checks."""
        # Two rows of each class, where there are as many, tell all that the checks ask.
        few = [self._values[text] for text, n in self._counts.items() for _ in range(min(n, 2))]
        values = pd.Series(few)
        check_labels(values, self.role, self.name)
        return label_column(self.name, values.to_numpy(), self.role)


def _check_sides(
    facts: list[LabelColumn], training: Counter[Any], held_out: Counter[Any], task: Task
) -> None:
    """Refuse too few rows to learn from, and classes with no rows on one side."""
    split = task.split
    if training.total() < MIN_TRAINING_ROWS:
        raise InputError(
            f"--holdout {split.holdout:g} leaves {training.total()} rows to learn from; at least "
            f"{MIN_TRAINING_ROWS} are needed. Hold out less, or add rows."
        )
    if split.holdout == 0:
        return
    for k, fact in enumerate(facts):
        there = [{key[k] for key in side} for side in (training, held_out)]
        absent = sorted(there[0] ^ there[1])
        if absent:
            side = "audit" if absent[0] in there[0] else "learning"
            raise InputError(
                f"class {absent[0]!r} of {fact.name!r} would have no rows on the {side} side. Add "
                "rows of that class, or change the holdout, its seed or the groups."
            )


def _scan_readings(
    stream: Stream,
    task: Task,
    sensors: list[str],
    mapper: PrivacyMapper,
    groups: list[str],
    report: Report | None,
) -> tuple[list[ColumnScan], str]:
    """Return what the columns look like on the rows to learn from, and the digest of all rows."""
    scans: list[ColumnScan] = []
    digest: TableDigest | None = None
    split = RowSplit(task.split, groups)
    batches = stream.batches(_columns(sensors, task, stream))
    for batch in _reported(batches, stream.rows, "scan", report):
        if digest is None:
            scans = [_begin_scan(name, batch, stream, mapper) for name in sensors]
            digest = _begin_digest(stream.kinds, batch, [*sensors, *task.facts])
        digest.update(batch)
        training = batch[~split.held_out(batch)]
        for each in scans:
            each.add(training[each.sensor])
    assert digest is not None  # a stream has rows
    return scans, digest.result()


def _begin_scan(
    name: str, batch: pd.DataFrame, stream: Stream, mapper: PrivacyMapper
) -> ColumnScan:
    strategy, bins = mapper.binning, mapper.n_bins
    chosen = strategy if isinstance(strategy, str) else strategy.get(name, DEFAULT_STRATEGY)
    count = bins.get(name, DEFAULT_BINS) if isinstance(bins, dict) else int(bins)  # type: ignore[arg-type]
    numeric = holds_numbers(batch[name], stream.kinds[name])
    return ColumnScan(name, chosen, count, numeric=numeric)


def _begin_digest(
    kinds: Dict[str, str], batch: pd.DataFrame, columns: Sequence[str]
) -> TableDigest:
    return TableDigest({name: holds_numbers(batch[name], kinds[name]) for name in columns})


# --- Packing ---------------------------------------------------------------------------------


def pack(
    scanned: Scanned, stream: IO[bytes], where: str, *, report: Report | None = None
) -> tuple[PackedFile, Ints | None]:
    """Encode and pack the rows to learn from; return the file and the groups of its sample.

    Raises
    ------
    InputError
        If the disk is full, or the files are no longer what was scanned.
    """
    writer = PackedWriter(stream, scanned.header, where)
    groups = _fill(scanned, writer, report)
    return writer.finish(), groups


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
    scanned = scan(task, report=report)
    with packing_to(path, scanned.header) as writer:
        _fill(scanned, writer, report)


def _fill(scanned: Scanned, writer: PackedWriter, report: Report | None) -> Ints | None:
    task, header = scanned.task, scanned.header
    numbers = {kind: k for k, kind in enumerate(header.kinds)}
    places = [{written(value): k for k, value in enumerate(fact.classes)} for fact in header.facts]
    split, digest = RowSplit(task.split, scanned.groups), None
    groups = _SampledGroups(task.split.group, scanned.groups, header.rows)
    batches, used = scanned.stream.batches(scanned.columns), [*scanned.sensors, *task.facts]
    seen = 0
    for batch in _reported(batches, scanned.stream.rows, "pack", report):
        digest = digest or _begin_digest(scanned.stream.kinds, batch, used)
        digest.update(batch)
        kept = np.flatnonzero(~split.held_out(batch))
        training = batch.iloc[kept].reset_index(drop=True)
        groups.add(training, seen + kept)
        seen += len(batch)
        writer.add(_encode(training, header), _kinds(training, task.facts, places, numbers))
    assert digest is not None and header.source is not None
    if digest.result() != header.source.digest:
        raise InputError(f"{scanned.stream.files[0]}: {_CHANGED}")
    return groups.found()


def _encode(training: pd.DataFrame, header: Header) -> Ints:
    """Encode rows; a reading that the scan did not see means that the files changed."""
    try:
        codes = encode_table(training, list(zip(header.names, header.encoders, strict=True)))
    except CodeRangeError as error:
        raise InputError(f"{error} {_CHANGED}") from None
    for t, encoder in enumerate(header.encoders):
        if isinstance(encoder, CategoriesEncoder):
            new = codes[:, t] == len(encoder.categories)
            value = training[header.names[t]].iloc[int(np.argmax(new))] if new.any() else None
            if new.any() and not _is_infinite(value):
                raise InputError(
                    f"sensor {header.names[t]!r} read {shown(value)}, a category that was not "
                    f"there before. {_CHANGED}"
                )
    return codes


def _is_infinite(value: object) -> bool:
    return isinstance(value, float | np.floating) and bool(np.isinf(value))


def _kinds(
    training: pd.DataFrame,
    facts: list[str],
    places: list[dict[str, int]],
    numbers: dict[tuple[int, ...], int],
) -> Ints:
    columns = [written_column(training[name]) for name in facts]
    try:
        keys = zip(*([place[text] for text in column] for place, column in
                     zip(places, columns, strict=True)), strict=True)  # fmt: skip
        return np.array([numbers[key] for key in keys], dtype=np.int64)
    except KeyError as error:
        raise InputError(f"the facts have a class that was not there before: {error}. "
                         f"{_CHANGED}") from None  # fmt: skip


class _SampledGroups:
    """The groups of those packed rows that a fit will hold in memory."""

    def __init__(self, spec: str | None, groups: list[str], rows: int) -> None:
        self._spec, self._rows = spec, 0
        self._numbers = {text: k for k, text in enumerate(groups)}
        wanted = sampled(rows)
        self._wanted = np.arange(rows) if isinstance(wanted, slice) else wanted
        self._parts: list[Ints] = []

    def add(self, training: pd.DataFrame, positions: Ints) -> None:
        """Add rows to learn from; ``positions`` are theirs in the whole table."""
        begin, self._rows = self._rows, self._rows + len(training)
        if self._spec is None:
            return
        low, high = np.searchsorted(self._wanted, [begin, self._rows])
        chosen = self._wanted[low:high] - begin
        texts = group_values(training.iloc[chosen], self._spec, positions=positions[chosen])
        found = [self._numbers.get(text, -1) for text in texts]
        self._parts.append(np.array(found, dtype=np.int64))

    def found(self) -> Ints | None:
        return None if self._spec is None else np.concatenate(self._parts)


# --- The whole job ---------------------------------------------------------------------------


def learn_streamed(
    scanned: Scanned, work_dir: Path, *, report: Report | None = None, client: Any = None
) -> PrivacyMapper:
    """Pack the rows into a file without a name in ``work_dir``, and learn from it.

    The file is gone when the work ends, however it ends. With a ``client`` of a Dask cluster
    the workers hold the rows too, and go over them.

    Raises
    ------
    InputError
    StoppedError
        If it was stopped before there was a mapping to keep.
    """
    mapper = _make_mapper(scanned.task, scanned.stream, scanned.sensors)
    try:
        stream = tempfile.TemporaryFile(dir=work_dir)  # noqa: SIM115  closed just below
    except OSError as error:
        raise InputError(
            f"--work-dir {work_dir}: cannot be written ({error.strerror or error}). Name another."
        ) from None
    with stream:
        file, groups = pack(scanned, stream, str(work_dir), report=report)
        place = None if client is None else place_on(client)
        return mapper.fit_packed_reporting(file, groups=groups, report=report, place=place)


def held_out_rows(
    stream: Stream,
    source: Source,
    sensors: list[str],
    facts: Dict[str, str],
    group: str | None = None,
) -> pd.DataFrame | None:
    """Return the rows of a streamed table that were held out, or None if it is another table.

    Parameters
    ----------
    stream : Stream
    source : Source
        What the mapping records of the table it was learned from.
    sensors : list of str
        In the order of the mapping.
    facts : mapping of str to str
        What the mapping calls its facts, and what their columns are called here.
    group : str, optional
        What the audit groups rows by, if not by what they were split by.

    Returns
    -------
    DataFrame or None
        Its index tells where the rows stand in the whole table.
    """
    split = source.split
    if stream.rows != source.rows or split is None or split.holdout == 0:
        return None
    if any(name not in stream.kinds for name in (*sensors, *facts.values())):
        return None
    if split.group is not None and not can_group(split.group, stream.columns):
        return None
    by = [each for spec in (split.group, group) for each in group_columns(spec, stream.columns)]
    columns = list(dict.fromkeys([*sensors, *facts.values(), *by]))
    rows, digest, parts = RowSplit(split, _all_groups(stream, split)), None, []
    seen = 0
    theirs = {here: name for name, here in facts.items()}
    for batch in stream.batches(columns):
        named = batch.rename(columns=theirs)
        if digest is None:
            kinds = {theirs.get(name, name): kind for name, kind in stream.kinds.items()}
            digest = _begin_digest(kinds, named, [*sensors, *facts])
        digest.update(named)
        batch.index = pd.RangeIndex(seen, seen + len(batch))
        seen += len(batch)
        parts.append(batch[rows.held_out(batch)])
    if digest is None or digest.result() != source.digest:
        return None
    return pd.concat(parts)
