"""What an audit is about: which rows may vouch for a mapping, and their labels.

Rows that taught a mapping cannot vouch for it. The mapping carries digests of the table it
was learned from; on that table only the rows that were held out are used, and none if none
were. A shuffled copy of it is refused, and so are the very rows that were learned from.
Whether a part of them is in any other table cannot be told, and the audit says so.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from discreet.arrays import Ints
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.data.checks import check_column
from discreet.data.columns import as_series, is_missing, written, written_column
from discreet.data.dependence import MOST_ROWS, Dependence, check_dependence, worse_of
from discreet.data.digest import TableDigest, coded_digest, unordered_digest
from discreet.data.groups import GroupTally, as_noun, can_group, group_columns, group_noun
from discreet.data.labels import Labels, LabelTally
from discreet.data.proposals import check_both_orders, say_shared
from discreet.data.split import hold_out
from discreet.data.tables import Table, as_table, first_rows, take
from discreet.design.packed_file import rows_digest
from discreet.errors import InputError, shown
from discreet.mapping.mapping import Mapping
from discreet.mapping.parts import Fact

_UNCHECKED = "all rows given; whether some of them were learned from cannot be checked"
MIN_CLASS_ROWS = 5
"""Fewest rows of a class that an audit takes; hundreds are needed to say something."""


@dataclass(frozen=True)
class AuditData:
    """A frozen mapping and the rows to audit it with.

    ``readings``: one column per sensor. ``codes`` is of shape (n_rows, n_sensors). ``groups``: rows
    of one group may depend on one another. ``origin``: where the rows come from, in words for the
    report. ``held_out``: whether they are the part of the learned table that was kept for audits.
    ``dependence``: what the order of the whole table, as given or as learned from, tells of its
    rows; of its groups where there are groups. ``assumed_independent``: whether the caller declared
    that rows, or groups, are independent. ``unit``: what a group is called in a sentence.
    ``learned_groups``: how groups come to have rows that were learned from, if some have.
    ``shared``: how rows without groups may belong together by a column of the table, if they may.
    ``audited_before``: what earlier audits with the same rows mean for this one, if there were any.
    """

    mapping: Mapping
    readings: pd.DataFrame
    codes: Ints
    public: Labels
    private: tuple[Labels, ...]
    groups: Ints | None
    origin: str
    held_out: bool = False
    dependence: Dependence | None = None
    assumed_independent: bool = False
    unit: str = "group"
    learned_groups: str = ""
    shared: str = ""
    audited_before: str = ""

    @property
    def n_rows(self) -> int:
        return len(self.codes)

    def rows_with(self, fact: Labels, cap: int | None = None) -> AuditRows:
        """Return the rows with the classes of one fact, for the bounds."""
        return AuditRows(
            tables=tuple(self.mapping.tables),
            codes=self.codes,
            index=fact.index,
            n_classes=fact.n_classes,
            groups=self.groups,
            cap=cap,
            unit=self.unit,
            sensors=tuple(self.mapping.names),
        )


def audit_data_from_arrays(
    mapping: Mapping,
    X: pd.DataFrame | ArrayLike,
    y: ArrayLike,
    private: Any,
    groups: ArrayLike | None = None,
    *,
    assume_independent: bool = False,
) -> AuditData:
    """Check rows handed over in Python; refuse those that the mapping was learned from."""
    if private is None:
        raise InputError("audit needs private=, the fact to protect, as in fit.")
    readings = _readings(mapping, X)
    columns = _private_columns(mapping, private)
    for name, values in [(mapping.public.name, y), *columns.items()]:
        if len(np.asarray(values)) != len(readings):
            raise InputError(
                f"{name!r} has {len(np.asarray(values))} labels; there are {len(readings)} rows of "
                "readings. Give one label per row."
            )
    public = read_labels(mapping.public, y)
    facts = [read_labels(fact, columns[fact.name]) for fact in mapping.private]
    found = _finish(mapping, readings, public, facts, groups, _UNCHECKED)
    labels = [fact.index for fact in found.private]
    order = check_dependence(readings, labels, public=public.index, groups=found.groups)
    return replace(
        found,
        dependence=order,
        assumed_independent=assume_independent,
        unit=as_noun(getattr(groups, "name", None)),
    )


def audit_data_from_table(
    mapping: Mapping,
    table: pd.DataFrame | Table,
    *,
    public: str | None = None,
    private: Sequence[str] | None = None,
    group: str | None = None,
    assume_independent: bool = False,
) -> AuditData:
    """Choose the rows of a table that may vouch for the mapping, and check them.

    ``table``: of a streamed table that was learned from, only the held-out rows are brought into
    memory. ``public``, ``private``: the label columns, if they are not called what the mapping
    calls them. ``group``: which rows depend on one another: a column, a unit of a column of times
    or rows in their order, see ``data.groups``; by default what the rows were split by.
    ``assume_independent``: the rows are independent, although those that were learned from came in
    groups, or although they look otherwise. With ``group``, the groups are.
    """
    table = as_table(table)
    labels = _label_columns(mapping, table, public, private)
    group = _chosen_group(mapping, table, group, assume_independent)
    rows = _rows_that_may_vouch(mapping, table, labels)
    chosen = np.ones(table.rows, dtype=bool) if rows is None else rows
    groups = None if group is None else _groups(table, group)
    return replace(
        _audit_data(mapping, table, labels, chosen, groups, rows),
        dependence=_dependence(mapping, table, labels, groups, rows is not None),
        assumed_independent=assume_independent,
        shared="" if groups is not None or assume_independent else _shared(mapping, table, labels),
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
    table = as_table(table)
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
) -> AuditData:
    """Return the mapping with the chosen rows, some or all of those that were held out."""
    origin = _UNCHECKED
    if held_out is not None:
        origin = _held_out_words(int(held_out.sum()), table.rows)
    found = take(table, chosen, [*_known(mapping, table), *labels.values()])
    data = _finish(
        mapping,
        _readings(mapping, found),
        read_labels(mapping.public, found[labels[mapping.public.name]]),
        [read_labels(fact, found[labels[fact.name]]) for fact in mapping.private],
        None if groups is None else groups.take(chosen).values,
        origin if groups is None else f"{origin}, grouped by {groups.name!r}",
        held_out=held_out is not None,
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


def _known(mapping: Mapping, table: Table) -> list[str]:
    """Return the mapping's sensors; refuse a table that lacks one."""
    for name in mapping.names:
        check_column(table.columns, name, "readings of a sensor")
    return mapping.names


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
    mapping: Mapping, table: Table, labels: dict[str, str], groups: Labels | None, held_out: bool
) -> Dependence | None:
    """Return the worse of what the table shows and of what was seen when it was learned from."""
    facts = [labels[fact.name] for fact in mapping.private]
    public, rows = labels[mapping.public.name], first_rows(table, MOST_ROWS)
    if groups is None:
        here = check_both_orders(rows, mapping.names, public, facts)
    else:
        here = check_dependence(
            _readings(mapping, rows),
            [rows[name] for name in facts],
            public=rows[public],
            groups=groups.index[: len(rows)],
        )
    source = mapping.design.source
    learned = source.dependence if held_out and groups is None and source is not None else None
    return here if learned is None else worse_of(here, learned)


def _shared(mapping: Mapping, table: Table, labels: dict[str, str]) -> str:
    facts = [labels[fact.name] for fact in mapping.private]
    public, rows = labels[mapping.public.name], first_rows(table, MOST_ROWS)
    return say_shared(rows, mapping.names, public, facts)


def read_labels(fact: Fact, values: Any) -> Labels:
    """Return the class of every row, told apart by how the classes are written."""
    column = as_series(values)
    gone = is_missing(column)
    if gone.any():
        raise InputError(
            f"{fact.name!r} is missing in {int(gone.sum())} of {len(column)} rows. Leave those "
            "rows out."
        )
    places = {written(each): k for k, each in enumerate(fact.classes)}
    texts = written_column(column)
    unknown = next((text for text in texts if text not in places), None)
    if unknown is not None:
        known = ", ".join(shown(each) for each in fact.classes[:10])
        raise InputError(
            f"{fact.name!r} has the class {shown(unknown)}; the mapping knows {known}. "
            "Give the labels it was learned with."
        )
    index = np.array([places[text] for text in texts], dtype=np.int64)
    labels = Labels(fact.name, index, fact.classes)
    _check_counts(labels)
    return labels


def _check_counts(labels: Labels) -> None:
    counts = labels.counts
    least = int(np.argmin(counts))
    if counts[least] < MIN_CLASS_ROWS:
        raise InputError(
            f"class {shown(labels.classes[least])} of {labels.name!r} has {counts[least]} "
            f"of {sum(counts)} audit rows; at least {MIN_CLASS_ROWS} are needed to begin, and "
            "hundreds to certify anything. Add rows of that class."
        )


def _private_columns(mapping: Mapping, private: Any) -> dict[str, Any]:
    names = [fact.name for fact in mapping.private]
    if isinstance(private, pd.DataFrame):
        columns = [private.iloc[:, k] for k in range(private.shape[1])]
    else:
        array = np.asarray(private)
        columns = [private] if array.ndim < 2 else list(array.T)
    if len(columns) != len(names):
        raise InputError(
            f"private has {len(columns)} columns; the mapping guards {len(names)}: "
            f"{', '.join(names)}. Give one column for each, in that order."
        )
    return dict(zip(names, columns, strict=True))


def _readings(mapping: Mapping, X: pd.DataFrame | ArrayLike) -> pd.DataFrame:
    if isinstance(X, pd.DataFrame):
        named = X.set_axis([str(name) for name in X.columns], axis=1)
        for name in mapping.names:
            check_column(named.columns, name, "readings of a sensor")
        return named[mapping.names].reset_index(drop=True)
    array = np.asarray(X)
    if array.ndim != 2 or array.shape[1] != len(mapping.names):
        raise InputError(
            f"the readings have shape {array.shape}; the mapping has {len(mapping.names)} sensors. "
            "Give one column for each."
        )
    return pd.DataFrame(array, columns=mapping.names).infer_objects()


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
        if source.unordered is not None and _unordered(table, used) == source.unordered:
            raise InputError(
                f"this is the table that mapping {mapping.id[7:13]} was learned from, with its "
                "rows in another order: which of them were held out cannot be told. Give the "
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


def _unordered(table: Table, columns: dict[str, str]) -> str:
    return unordered_digest(table.batches(list(columns.values())))


def _held_out_words(held_out: int, rows: int) -> str:
    return (
        f"the {held_out} of {rows} rows that were held out when the mapping was learned from this "
        "table"
    )


def _finish(
    mapping: Mapping,
    readings: pd.DataFrame,
    public: Labels,
    private: Sequence[Labels],
    groups: Any,
    origin: str,
    *,
    held_out: bool = False,
) -> AuditData:
    codes = mapping.encode(readings)
    source = mapping.design.source
    labels = [each.index for each in (public, *private)]
    if source is not None and source.training == _training_digest(mapping, codes, labels):
        raise InputError(
            f"these are the {len(readings)} rows that mapping {mapping.id[7:13]} was learned from, "
            "which cannot vouch for it. Give rows that were used for nothing else."
        )
    return AuditData(
        mapping,
        readings,
        codes,
        public,
        tuple(private),
        _group_index(groups, len(codes)),
        origin,
        held_out,
    )


def _training_digest(mapping: Mapping, codes: Ints, labels: Sequence[Ints]) -> str:
    source = mapping.design.source
    if source is None or source.read != "stream":
        return coded_digest(codes, labels)
    return rows_digest(codes, [sensor.encoder.n_codes for sensor in mapping.sensors], labels)


def _group_index(groups: Any, n_rows: int) -> Ints | None:
    if groups is None:
        return None
    column = as_series(groups)
    if len(column) != n_rows:
        raise InputError(f"groups has {len(column)} entries; there are {n_rows} rows.")
    if (gone := is_missing(column)).any():
        raise InputError(f"the group is missing in {int(gone.sum())} of {n_rows} rows. Fill it in.")
    index: Ints = np.unique(written_column(column), return_inverse=True)[1].astype(np.int64)
    if int(index.max()) == 0:
        raise InputError("all rows are in one group, which counts as one observation. Add groups.")
    return index
