"""Which rows of a table may vouch for a mapping, and how they belong together.

Rows that taught a mapping cannot vouch for it. The mapping carries digests of the table it
was learned from; on that table only the rows that were held out are used, and none if none
were. A shuffled copy of it is refused, and so are the very rows that were learned from.
Whether a part of them is in any other table is unknown, and the audit says so.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.arrays import Ints
from discreet.auditing.data import (
    ATTACKED_ROWS,
    MIN_CLASS_ROWS,
    UNCHECKED,
    AuditData,
    attacked_rows,
    check_data,
    encode_compactly,
    readings_of,
    refuse_training,
    undeclared,
    unreadable_source,
)
from discreet.auditing.rounds import SeriesData
from discreet.data.columns import Labels, LabelTally, as_series, check_column, written_column
from discreet.data.dependence import Dependence, worse_of
from discreet.data.groups import GroupTally, can_group, group_columns, group_noun
from discreet.data.opening import CELL_BYTES, DEFAULT_MEMORY, LIBRARY_BYTES, open_table
from discreet.data.series import read_series
from discreet.data.split import RowSums, code_sums, hold_out, table_sums
from discreet.data.table_warnings import check_both_orders, check_groups, say_shared
from discreet.data.tables import Frame, Stretches, Table, add_clock, as_table, find_files, take
from discreet.errors import InputError
from discreet.mapping.mapping import Mapping

_IN_MEMORY = 1 << 30  # bytes that a table may take to be read as a whole
_LEAST_ROWS = 100_000  # that must fit into the memory that is allowed
_ROW_BYTES, _CLASS_BYTES, _CODE_BYTES = 100, 24, 4  # of each row that serves
_TABLE_BYTES = 16  # of each row of a streamed table: facts, groups, and which rows serve


@dataclass(frozen=True)
class Sample:
    """What is kept of many rows, and the seed that chooses it.

    ``most``: rows whose readings are kept. ``memory``: bytes that the audit may take; of more rows
    than fit, some serve.
    """

    most: int = ATTACKED_ROWS
    seed: int = 0
    memory: int = DEFAULT_MEMORY

    def most_rows(self, mapping: Mapping, table: Table) -> int:
        """Return how many rows may serve, as ``research.benchmarks.audit_memory`` measures them."""
        classes = max(len(fact.classes) for fact in (mapping.public, *mapping.private))
        each = _ROW_BYTES + _CLASS_BYTES * classes + _CODE_BYTES * len(mapping.names)
        held = len(table.columns) * CELL_BYTES if isinstance(table, Frame) else _TABLE_BYTES
        least = LIBRARY_BYTES + table.rows * held + min(table.rows, _LEAST_ROWS) * each
        if self.memory < least:
            raise InputError(
                f"--memory allows {self.memory >> 20} MiB; an audit with these {table.rows} rows "
                f"takes at least {-(-least >> 20)} MiB. Allow that, or give fewer rows."
            )
        return _LEAST_ROWS + (self.memory - least) // each


_SAMPLE = Sample()
ALL_READINGS = Sample(most=1 << 62, memory=1 << 62)


def open_rows(tables: Sequence[Path], memory: int = DEFAULT_MEMORY) -> Table:
    """Read a table; a large one some rows at a time."""
    allowed = min(_IN_MEMORY, max(memory - LIBRARY_BYTES, 0) // 2)
    return open_table(find_files(tables), in_memory=allowed)


def audit_data_from_table(
    mapping: Mapping,
    table: pd.DataFrame | Table,
    *,
    public: str | None = None,
    private: Sequence[str] | None = None,
    group: str | None = None,
    assume_independent: bool = False,
    time_column: str | None = None,
    sample: Sample = _SAMPLE,
    least: int = MIN_CLASS_ROWS,
) -> AuditData:
    """Choose the rows of a table that may vouch for the mapping, and check them.

    ``table``: of a streamed table that was learned from, only the held-out rows are brought into
    memory. ``public``, ``private``: the label columns, if they are not called what the mapping
    calls them. ``group``: which rows depend on one another: a column, a unit of a column of times
    or rows in their order, see ``data.groups``; by default what the rows were split by.
    ``assume_independent``: the rows are independent, although those that were learned from came in
    groups, or although they look otherwise. With ``group``, the groups are. ``time_column``: the
    time of every row, for an audit of many rounds. ``sample``: whose readings are kept, for
    attackers. ``least``: rows that each class must have; with 0 a single group will do as well.
    """
    table = add_clock(as_table(table), mapping.names)
    rows = _Labelled(mapping, table, public, private)
    group = _chosen_group(mapping, table, group, assume_independent)
    chosen = np.ones(table.rows, dtype=bool) if rows.held_out is None else rows.held_out
    groups = None if group is None else _groups(table, group)
    others = undeclared(mapping, table.columns, list(rows.labels.values()))
    # Of the table as it came, whichever rows of it serve.
    seen = Stretches(table)
    data = rows.audit_data(chosen, groups, sample, least, others, seen)
    looked = seen.finish()
    asked = groups is None and not assume_independent
    return replace(
        data,
        dependence=rows.dependence(looked, groups),
        assumed_independent=assume_independent,
        shared=say_shared(looked, mapping.names, *rows.named) if asked else "",
        series=None if time_column is None else rows.series(chosen, groups, time_column),
    )


def audit_data_on_same_rows(
    mappings: Sequence[Mapping],
    table: pd.DataFrame | Table,
    *,
    group: str | None = None,
    assume_independent: bool = False,
) -> list[AuditData]:
    """Return each mapping with the rows of a table that may vouch for all of them.

    The parameters are those of ``audit_data_from_table``. Whether rows depend on one another is not
    looked at.

    Raises InputError: as for each mapping by itself, or if no rows, or no groups, may serve for all
    of them.
    """
    table = add_clock(as_table(table), (name for each in mappings for name in each.names))
    rows = [_Labelled(each, table) for each in mappings]
    group = _common_group(mappings, table, group, assume_independent)
    chosen = np.ones(table.rows, dtype=bool)
    for each in rows:
        chosen &= True if each.held_out is None else each.held_out
    if not chosen.any():
        raise InputError(
            "each row of this table was learned from by one of the mappings. Give rows that were "
            "used for nothing else."
        )
    groups = None if group is None else _groups(table, group)
    return [each.audit_data(chosen, groups) for each in rows]


class _Labelled:
    """A table with the columns of a mapping's facts, whatever they are called here.

    ``held_out``: which rows were held out, None if this is not the table that was learned from.
    """

    def __init__(
        self,
        mapping: Mapping,
        table: Table,
        public: str | None = None,
        private: Sequence[str] | None = None,
    ) -> None:
        names = [fact.name for fact in mapping.private]
        if private is not None and len(private) != len(names):
            raise InputError(
                f"{len(private)} private facts were named; the mapping guards {len(names)}: "
                f"{', '.join(names)}. Name them in that order, or leave the option out."
            )
        columns = dict(zip(names, names if private is None else private, strict=True))
        self.mapping, self.table, self.facts = mapping, table, [mapping.public, *mapping.private]
        self.labels = {mapping.public.name: public or mapping.public.name, **columns}
        for name in self.labels.values():
            check_column(table.columns, name, "labels")

    @property
    def named(self) -> tuple[str, list[str]]:
        """What the columns of the public fact and of the private ones are called."""
        public, *private = (self.labels[fact.name] for fact in self.facts)
        return public, private

    def audit_data(
        self,
        chosen: NDArray[np.bool_],
        groups: Labels | None,
        sample: Sample = _SAMPLE,
        least: int = MIN_CLASS_ROWS,
        others: Sequence[str] = (),
        seen: Stretches | None = None,
    ) -> AuditData:
        """Return the mapping with the chosen rows, some or all of those that were held out.

        ``seen``: gathers rows of the whole table on the way.
        """
        mapping, table, held_out = self.mapping, self.table, self.held_out
        origin = UNCHECKED
        if held_out is not None:
            origin = (
                f"the {int(held_out.sum())} of {table.rows} rows that were held out when the "
                "mapping was learned from this table"
            )
        for name in mapping.names:
            check_column(table.columns, name, "readings of a sensor")
        if groups is not None:
            origin += f", grouped by {groups.name!r}"
        drawn = _draw(chosen, groups, sample.most_rows(mapping, table), sample.seed)
        if drawn is not chosen:
            count = int(chosen.sum())
            refuse_training(mapping, count, lambda: self._digest(chosen))
            origin += f"; {int(drawn.sum())} of these {count}, drawn at random, fit into --memory"
        attacked = attacked_rows(int(drawn.sum()), sample.seed, sample.most)
        codes, (public, *private), readings = self._encoded(drawn, attacked, others, seen)
        unit = "group" if groups is None else group_noun(groups.name, table.columns)
        data = AuditData(
            mapping, codes, public, tuple(private), readings[mapping.names], attacked,
            None if groups is None else _numbered(groups.take(drawn)), origin,
            held_out=held_out is not None, unit=unit,
            learned_groups=self._learned_groups(groups, unit), others=readings[list(others)],
        )  # fmt: skip
        return check_data(data, least)

    def series(
        self, held_out: NDArray[np.bool_], groups: Labels | None, time_column: str
    ) -> SeriesData:
        """Return all rows in time, each with its group or, without groups, a part of the time."""
        check_column(self.table.columns, time_column, "times")
        every = np.ones(self.table.rows, dtype=bool)
        times = take(self.table, every, [time_column])[time_column]
        group = None if groups is None else groups.index
        series = read_series(times, group, time_column)
        if group is None:  # twenty parts of equal length
            group = np.argsort(series.order) * 20 // self.table.rows
        codes, (public, *private), _ = self._encoded(every, np.arange(0))
        facts = {fact.name: fact.index for fact in private}
        return SeriesData(time_column, series, codes, public.index, facts, held_out, group)

    def _batches(
        self,
        chosen: NDArray[np.bool_],
        others: Sequence[str] = (),
        seen: Stretches | None = None,
    ) -> Iterator[tuple[pd.DataFrame, Ints, list[Ints]]]:
        """Yield some rows at a time, and the codes and classes of the chosen ones among them."""
        table, names = self.table, [*self.mapping.names, *self.labels.values(), *others]
        batches = (
            table.batches(names) if seen is None else seen.passed(table.batches(table.columns))
        )
        for batch in batches:
            own = batch[chosen[batch.index]]
            if len(own):
                codes = encode_compactly(self.mapping, readings_of(self.mapping, own))
                index = [each.places(own[self.labels[each.name]]) for each in self.facts]
                yield batch, codes, index

    def _digest(self, chosen: NDArray[np.bool_]) -> str:
        """Return by what the chosen rows are known, all of them, in any order."""
        total, classes = RowSums(), [len(fact.classes) for fact in self.facts]
        sizes = [sensor.encoder.n_codes for sensor in self.mapping.sensors]
        for _, codes, index in self._batches(chosen):
            total += code_sums(codes, sizes, index, classes)
        return total.unordered

    def _encoded(
        self,
        chosen: NDArray[np.bool_],
        attacked: Ints,
        others: Sequence[str] = (),
        seen: Stretches | None = None,
    ) -> tuple[Ints, list[Labels], pd.DataFrame]:
        """Return codes and classes of the chosen rows, and readings of those that are attacked."""
        kept = np.zeros(self.table.rows, dtype=bool)
        kept[np.flatnonzero(chosen)[attacked]] = True
        found = [
            (codes, batch.loc[kept[batch.index], [*self.mapping.names, *others]], index)
            for batch, codes, index in self._batches(chosen, others, seen)
        ]
        codes, readings, places = zip(*found, strict=True)
        facts = [
            Labels(fact.name, np.concatenate(own), fact.classes)
            for fact, own in zip(self.facts, zip(*places, strict=True), strict=True)
        ]
        return np.concatenate(codes), facts, pd.concat(readings, ignore_index=True)

    def _learned_groups(self, groups: Labels | None, unit: str) -> str:
        """Say that groups have rows on both sides of the split, if some have."""
        source, held_out = self.mapping.design.source, self.held_out
        split = None if source is None else source.split
        if groups is None or held_out is None or split is None or split.group == groups.name:
            return ""
        learned, kept = (groups.take(side) for side in (~held_out, held_out))
        if not np.any((np.array(learned.counts) > 0) & (np.array(kept.counts) > 0)):
            return ""
        how = f"by {split.group!r}" if split.group else "one by one"
        return (
            f"rows of the same {unit} were learned from, since the rows were split {how}: learn "
            f"again with --group {shlex.quote(groups.name)}"
        )

    def dependence(self, rows: pd.DataFrame, groups: Labels | None) -> Dependence | None:
        """Return the worse of what the table shows and of what was seen when learned from."""
        names, (public, facts) = self.mapping.names, self.named
        source = self.mapping.design.source
        if groups is not None:
            return check_groups(groups, rows, names, public, facts)
        here = check_both_orders(rows, names, public, facts, self.table)
        learned = None if self.held_out is None or source is None else source.dependence
        return here if learned is None else worse_of(here, learned)

    @cached_property
    def held_out(self) -> NDArray[np.bool_] | None:
        mapping, table, source = self.mapping, self.table, self.mapping.design.source
        if source is None or table.rows != source.rows:
            return None
        if any(name not in table.columns for name in mapping.names):
            return None
        if not source.is_readable:
            raise unreadable_source(mapping, table.rows)
        # The columns that were learned from, by the mapping's names and in its order.
        found = _sums(table, {name: name for name in mapping.names} | self.labels)
        if found.ordered != source.digest:
            if found.unordered == source.unordered:
                raise InputError(
                    f"this is the table that mapping {mapping.id[7:13]} was learned from, with its "
                    "rows in another order: which of them were held out is not known. Give the "
                    "table as it was."
                )
            return None
        split = source.split
        if split is None or split.holdout == 0:
            raise InputError(
                f"mapping {mapping.id[7:13]} was learned from all {table.rows} rows of this table, "
                "which cannot vouch for it. Audit with another table, or learn again with a "
                "holdout."
            )
        tallies = {name: LabelTally(name, "fact") for name in self.labels}
        for batch in table.batches(list(self.labels.values())):
            for name, tally in tallies.items():
                tally.add(batch[self.labels[name]])
        groups = None if split.group is None else _groups(table, split.group)
        return hold_out(split, [tally.finish() for tally in tallies.values()], groups)


def _draw(
    chosen: NDArray[np.bool_], groups: Labels | None, most: int, seed: int
) -> NDArray[np.bool_]:
    """Return about so many of the rows, drawn one by one, or by whole groups, without a look.

    Each is drawn with the same probability, whatever is drawn beside it, so that those drawn are
    as independent of one another as all of them are.
    """
    count = int(chosen.sum())
    if count <= most:
        return chosen
    rng = np.random.default_rng([seed, 6])
    units = len(chosen) if groups is None else groups.n_classes
    drawn = rng.random(units, dtype=np.float32) < most / count
    return chosen & (drawn if groups is None else drawn[groups.index])


def _numbered(groups: Labels) -> Ints:
    """Return the group of every row, numbered from 0 in the order of how groups are written."""
    present, place = np.unique(groups.index, return_inverse=True)
    texts = written_column(as_series(np.asarray(groups.classes)[present]))
    return np.unique(texts, return_inverse=True)[1].astype(np.int64)[place]


def _groups(table: Table, spec: str) -> Labels:
    tally = GroupTally(spec, table.rows)
    # Rows in their order need no column, and some column tells how many there are.
    for batch in table.batches(group_columns(spec, table.columns) or table.columns[:1]):
        tally.add(batch)
    return tally.finish()


def _chosen_group(
    mapping: Mapping, table: Table, group: str | None, assume_independent: bool
) -> str | None:
    source = mapping.design.source
    learned = None if source is None or source.split is None else source.split.group
    if assume_independent or group is not None or learned is None:
        return group
    if not can_group(learned, table.columns):
        raise InputError(
            f"the mapping was learned from rows in groups of {learned!r}, a column that this table "
            "does not have. Name the groups with --group, or say --assume-independent."
        )
    return learned


def _common_group(
    mappings: Sequence[Mapping], table: Table, group: str | None, assume_independent: bool
) -> str | None:
    """Return the one way to group rows that the mappings were learned with, if any."""
    chosen = [_chosen_group(each, table, group, assume_independent) for each in mappings]
    learned = list(dict.fromkeys(each for each in chosen if each is not None))
    if len(learned) > 1:
        raise InputError(
            f"the mappings were learned from rows in groups of {learned[0]!r} and of "
            f"{learned[1]!r}. Name the groups with --group, or say --assume-independent."
        )
    return learned[0] if learned else None


def _sums(table: Table, columns: dict[str, str]) -> RowSums:
    """Return the sums over all rows of columns, named as the mapping names them."""
    here, total, names = list(columns.values()), RowSums(), list(columns)
    for batch in table.batches(here):
        total += table_sums(batch[here], total.rows, names)
    return total
