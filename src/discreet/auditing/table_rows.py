"""Which rows of a table may vouch for a mapping, and how they belong together.

Rows that taught a mapping cannot vouch for it. The mapping carries digests of the table it
was learned from; on that table only the rows that were held out are used, and none if none
were. A shuffled copy of it is refused, and so are the very rows that were learned from.
Whether a part of them is in any other table cannot be told, and the audit says so.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.arrays import Ints
from discreet.auditing.data import (
    MIN_CLASS_ROWS,
    UNCHECKED,
    AuditData,
    finish_data,
    read_labels,
    readings_of,
)
from discreet.auditing.rounds import SeriesData
from discreet.data.columns import check_column
from discreet.data.dependence import MOST_ROWS, Dependence, check_dependence, worse_of
from discreet.data.digest import TableDigest, unordered_digest
from discreet.data.groups import GroupTally, can_group, group_columns, group_noun
from discreet.data.labels import Labels, LabelTally
from discreet.data.proposals import check_both_orders, say_shared
from discreet.data.series import Series, read_series
from discreet.data.split import hold_out
from discreet.data.spooling import stream_text
from discreet.data.tables import (
    Table,
    add_clock,
    as_table,
    can_stream,
    find_files,
    first_rows,
    open_stream,
    read_tables,
    take,
)
from discreet.errors import InputError
from discreet.mapping.mapping import Mapping


def open_rows(tables: Sequence[Path], mappings: Sequence[Mapping]) -> pd.DataFrame | Table:
    """Read a table; of one that was streamed to learn from, only rows that are needed are kept."""
    files, sources = find_files(tables), [mapping.design.source for mapping in mappings]
    streamed = any(source is not None and source.read == "stream" for source in sources)
    if not streamed:
        return read_tables(files)
    if can_stream(files):
        return open_stream(files)
    return read_tables(files) if any(can_stream([file]) for file in files) else stream_text(files)


def audit_data_from_table(
    mapping: Mapping,
    table: pd.DataFrame | Table,
    *,
    public: str | None = None,
    private: Sequence[str] | None = None,
    group: str | None = None,
    assume_independent: bool = False,
    time_column: str | None = None,
    least: int = MIN_CLASS_ROWS,
) -> AuditData:
    """Choose the rows of a table that may vouch for the mapping, and check them.

    ``table``: of a streamed table that was learned from, only the held-out rows are brought into
    memory. ``public``, ``private``: the label columns, if they are not called what the mapping
    calls them. ``group``: which rows depend on one another: a column, a unit of a column of times
    or rows in their order, see ``data.groups``; by default what the rows were split by.
    ``assume_independent``: the rows are independent, although those that were learned from came in
    groups, or although they look otherwise. With ``group``, the groups are. ``time_column``: the
    time of every row, for an audit of many rounds. ``least``: rows that each class must have;
    with 0 a single group will do as well.
    """
    table = add_clock(as_table(table), mapping.names)
    labels = _label_columns(mapping, table, public, private)
    group = _chosen_group(mapping, table, group, assume_independent)
    rows = _rows_that_may_vouch(mapping, table, labels)
    chosen = np.ones(table.rows, dtype=bool) if rows is None else rows
    groups = None if group is None else _groups(table, group)
    data = _audit_data(mapping, table, labels, chosen, groups, rows, least)
    facts = labels[mapping.public.name], [labels[fact.name] for fact in mapping.private]
    first = first_rows(table, MOST_ROWS)
    asked = groups is None and not assume_independent
    return replace(
        data,
        dependence=_dependence(mapping, first, *facts, groups, rows is not None),
        assumed_independent=assume_independent,
        shared=say_shared(first, mapping.names, *facts) if asked else "",
        series=_series(mapping, table, labels, chosen, groups, time_column),
    )


def _series(
    mapping: Mapping,
    table: Table,
    labels: dict[str, str],
    held_out: NDArray[np.bool_],
    groups: Labels | None,
    time_column: str | None,
) -> SeriesData | None:
    """Return all rows in time, each with the group or, without groups, the day it belongs to."""
    if time_column is None:
        return None
    check_column(table.columns, time_column, "times")
    rows = take(table, np.ones(table.rows, dtype=bool),
                list(dict.fromkeys([*mapping.names, *labels.values(), time_column])))  # fmt: skip
    group = None if groups is None else groups.index
    series = read_series(rows[time_column], group, time_column)
    return SeriesData(
        time_column,
        series,
        mapping.encode(readings_of(mapping, rows)),
        mapping.public.places(rows[labels[mapping.public.name]]),
        {fact.name: fact.places(rows[labels[fact.name]]) for fact in mapping.private},
        held_out,
        _stretches(series) if group is None else group,
    )


def _stretches(series: Series) -> Ints:
    """Return parts of a series that has no groups: twenty of equal length."""
    place = np.empty(len(series.order), dtype=np.int64)
    place[series.order] = np.arange(len(series.order))
    return place * 20 // len(place)


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
    labels = [_label_columns(each, table, None, None) for each in mappings]
    group = _common_group(mappings, table, group, assume_independent)
    held_out = [
        _rows_that_may_vouch(m, table, own) for m, own in zip(mappings, labels, strict=True)
    ]
    chosen = np.ones(table.rows, dtype=bool)
    for rows in held_out:
        chosen &= True if rows is None else rows
    if not chosen.any():
        raise InputError(
            "each row of this table was learned from by one of the mappings. Give rows that were "
            "used for nothing else."
        )
    groups = None if group is None else _groups(table, group)
    return [
        _audit_data(mapping, table, own, chosen, groups, rows)
        for mapping, own, rows in zip(mappings, labels, held_out, strict=True)
    ]


def _audit_data(
    mapping: Mapping,
    table: Table,
    labels: dict[str, str],
    chosen: NDArray[np.bool_],
    groups: Labels | None,
    held_out: NDArray[np.bool_] | None,
    least: int = MIN_CLASS_ROWS,
) -> AuditData:
    """Return the mapping with the chosen rows, some or all of those that were held out."""
    origin = UNCHECKED
    if held_out is not None:
        origin = (
            f"the {int(held_out.sum())} of {table.rows} rows that were held out when the mapping "
            "was learned from this table"
        )
    for name in mapping.names:
        check_column(table.columns, name, "readings of a sensor")
    found = take(table, chosen, [*mapping.names, *labels.values()])
    data = finish_data(
        mapping,
        readings_of(mapping, found),
        read_labels(mapping.public, found[labels[mapping.public.name]], least),
        [read_labels(fact, found[labels[fact.name]], least) for fact in mapping.private],
        None if groups is None else groups.take(chosen).values,
        origin if groups is None else f"{origin}, grouped by {groups.name!r}",
        held_out=held_out is not None,
        least=least,
    )
    unit = "group" if groups is None else group_noun(groups.name, table.columns)
    learned = "" if held_out is None else _learned_groups(mapping, held_out, groups, unit)
    return replace(data, unit=unit, learned_groups=learned)


def _label_columns(
    mapping: Mapping, table: Table, public: str | None, private: Sequence[str] | None
) -> dict[str, str]:
    """Return, for every fact of the mapping, what its column is called here."""
    names = [fact.name for fact in mapping.private]
    if private is not None and len(private) != len(names):
        raise InputError(
            f"{len(private)} private facts were named; the mapping guards {len(names)}: "
            f"{', '.join(names)}. Name them in that order, or leave the option out."
        )
    columns = dict(zip(names, names if private is None else private, strict=True))
    labels = {mapping.public.name: public or mapping.public.name, **columns}
    for name in labels.values():
        check_column(table.columns, name, "labels")
    return labels


def _groups(table: Table, spec: str) -> Labels:
    tally = GroupTally(spec, table.rows)
    # Rows in their order need no column, and some column tells how many there are.
    for batch in table.batches(group_columns(spec, table.columns) or table.columns[:1]):
        tally.add(batch)
    return tally.finish()


def _learned_groups(
    mapping: Mapping, held_out: NDArray[np.bool_], groups: Labels | None, unit: str
) -> str:
    """Say that groups have rows on both sides of the split, if some have."""
    source = mapping.design.source
    split = None if source is None else source.split
    if groups is None or split is None or split.group == groups.name:
        return ""
    learned, kept = (groups.take(side) for side in (~held_out, held_out))
    if not np.any((np.array(learned.counts) > 0) & (np.array(kept.counts) > 0)):
        return ""
    how = f"by {split.group!r}" if split.group else "one by one"
    return (
        f"rows of the same {unit} were learned from, since the rows were split {how}: learn again "
        f"with --group {shlex.quote(groups.name)}"
    )


def _dependence(
    mapping: Mapping,
    rows: pd.DataFrame,
    public: str,
    facts: list[str],
    groups: Labels | None,
    held_out: bool,
) -> Dependence | None:
    """Return the worse of what the table shows and of what was seen when it was learned from."""
    if groups is None:
        here = check_both_orders(rows, mapping.names, public, facts)
    else:
        here = check_dependence(
            readings_of(mapping, rows),
            [rows[name] for name in facts],
            public=rows[public],
            groups=groups.index[: len(rows)],
        )
    source = mapping.design.source
    learned = source.dependence if held_out and groups is None and source is not None else None
    return here if learned is None else worse_of(here, learned)


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


def _rows_that_may_vouch(
    mapping: Mapping, table: Table, labels: dict[str, str]
) -> NDArray[np.bool_] | None:
    """Return which rows were held out, or None if this is not the table that was learned from."""
    source = mapping.design.source
    if source is None or table.rows != source.rows:
        return None
    if any(name not in table.columns for name in mapping.names):
        return None
    # The columns that were learned from, by the mapping's names and in its order.
    used = {name: name for name in mapping.names} | labels
    if _digest(table, used) != source.digest:
        same_rows = source.unordered is not None and source.unordered == unordered_digest(
            table.batches(list(used.values()))
        )
        if same_rows:
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
            "which cannot vouch for it. Audit with another table, or learn again with a holdout."
        )
    tallies = {name: LabelTally(name, "fact") for name in labels}
    for batch in table.batches(list(labels.values())):
        for name, tally in tallies.items():
            tally.add(batch[labels[name]])
    groups = None if split.group is None else _groups(table, split.group)
    facts = [tally.finish() for tally in tallies.values()]
    return hold_out(split, facts, groups, read=source.read)


def _digest(table: Table, columns: dict[str, str]) -> str:
    """Return the digest of columns, named as the mapping names them."""
    digest = TableDigest(table.rows, len(columns))
    for name, here in columns.items():
        digest.begin(name)
        for batch in table.batches([here]):
            digest.add(batch[here])
    return digest.result()
