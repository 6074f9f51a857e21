"""What an audit is about: which rows may vouch for a mapping, and their labels.

Rows that taught a mapping cannot vouch for it. The mapping carries digests of the table it
was learned from; on that table only the rows that were held out are used, and none if none
were. A shuffled copy of it is refused, and so are the very rows that were learned from.
Whether a part of them is in any other table cannot be told, and the audit says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from discreet.dependence import Dependence, check_dependence, worse_of
from discreet.design.packed_file import rows_digest
from discreet.errors import InputError
from discreet.grouping import as_noun, can_group, group_columns, group_noun, group_values
from discreet.mapping import Mapping
from discreet.mapping_parts import Fact, Source
from discreet.proposals import check_both_orders
from discreet.readings import check_column
from discreet.splitting import (
    RowSplit,
    TableDigest,
    coded_digest,
    split_rows,
    table_digest,
    unordered_digest,
)
from discreet.values import as_series, is_missing, is_numeric, shown, written, written_column

Ints = NDArray[np.int64]

_UNCHECKED = "all rows given; whether some of them were learned from cannot be checked"
MIN_CLASS_ROWS = 5
"""Fewest rows of a class that an audit takes; hundreds are needed to say something."""


@dataclass(frozen=True)
class Labelled:
    """A fact and the class of every audited row."""

    fact: Fact
    index: Ints

    @property
    def name(self) -> str:
        return self.fact.name

    @property
    def n_classes(self) -> int:
        return len(self.fact.classes)

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(np.bincount(self.index, minlength=self.n_classes).tolist())


@dataclass(frozen=True)
class Subject:
    """A frozen mapping and the rows to audit it with.

    Attributes
    ----------
    readings : DataFrame
        One column per sensor.
    codes : int array of shape (n_rows, n_sensors)
    public : Labelled
    private : tuple of Labelled
    groups : int array or None
        Rows of one group may depend on one another.
    origin : str
        Where the rows come from, in words for the report.
    held_out : bool
        Whether they are the part of the learned table that was kept for audits.
    dependence : Dependence or None
        What the order of the whole table, as given or as learned from, tells of its rows; of
        its groups where there are groups.
    assumed_independent : bool
        Whether the caller declared that rows, or groups, are independent.
    unit : str
        What a group is called in a sentence.
    learned_groups : str
        How groups come to have rows that were learned from, if some have.
    audited_before : str
        What earlier audits with the same rows mean for this one, if there were any.
    """

    mapping: Mapping
    readings: pd.DataFrame
    codes: Ints
    public: Labelled
    private: tuple[Labelled, ...]
    groups: Ints | None
    origin: str
    held_out: bool = False
    dependence: Dependence | None = None
    assumed_independent: bool = False
    unit: str = "group"
    learned_groups: str = ""
    audited_before: str = ""

    @property
    def n_rows(self) -> int:
        return len(self.codes)


def subject_from_arrays(
    mapping: Mapping,
    X: pd.DataFrame | ArrayLike,
    y: ArrayLike,
    private: Any,
    groups: ArrayLike | None = None,
    *,
    assume_independent: bool = False,
) -> Subject:
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


def subject_from_table(
    mapping: Mapping,
    table: pd.DataFrame,
    *,
    public: str | None = None,
    private: Sequence[str] | None = None,
    group: str | None = None,
    assume_independent: bool = False,
    of_rows: int | None = None,
) -> Subject:
    """Choose the rows of a table that may vouch for the mapping, and check them.

    Parameters
    ----------
    public, private : str and sequence of str, optional
        The label columns, if they are not called what the mapping calls them.
    group : str, optional
        Which rows depend on one another: a column, a unit of a column of times or rows in
        their order, see ``grouping``; by default what the rows were split by.
    assume_independent : bool, default=False
        The rows are independent, although those that were learned from came in groups, or
        although they look otherwise. With ``group``, the groups are.
    of_rows : int, optional
        The table is the part that was held out of a table with so many rows, and has been
        told from the rest already; its index tells where the rows stand in that table.
    """
    names = [fact.name for fact in mapping.private]
    columns = dict(zip(names, names if private is None else private, strict=False))
    if private is not None and len(private) != len(names):
        raise InputError(
            f"{len(private)} private facts were named; the mapping guards {len(names)}: "
            f"{', '.join(names)}. Name them in that order, or leave the option out."
        )
    labels = {mapping.public.name: public or mapping.public.name, **columns}
    for name in labels.values():
        check_column(table, name, "labels")
    if of_rows is None:
        rows, origin = _rows_that_may_vouch(mapping, table, labels)
    else:
        rows, origin = np.arange(len(table), dtype=np.int64), _held_out_words(len(table), of_rows)
    held_out = origin != _UNCHECKED
    group = _chosen_group(mapping, table, group, assume_independent)
    chosen = table.iloc[rows].reset_index(drop=True)
    positions = None if of_rows is None else table.index.to_numpy()
    groups = None if group is None else group_values(table, group, positions=positions)
    found = _finish(
        mapping,
        _readings(mapping, chosen),
        read_labels(mapping.public, chosen[labels[mapping.public.name]]),
        [read_labels(fact, chosen[labels[fact.name]]) for fact in mapping.private],
        None if groups is None else groups[rows],
        origin if group is None else f"{origin}, grouped by {group!r}",
        held_out=held_out,
    )
    unit = "group" if group is None else group_noun(group, map(str, table.columns))
    return replace(
        found,
        dependence=_dependence(mapping, table, labels, groups, held_out),
        assumed_independent=assume_independent,
        unit=unit,
        learned_groups=_learned_groups(mapping, rows, group, groups, unit) if held_out else "",
    )


def _learned_groups(mapping: Mapping, rows: Ints, group: str | None, groups: Any, unit: str) -> str:
    """Say that groups have rows on both sides of the split, if some have.

    Of a table that was streamed only the held-out rows are here; then the split itself tells.
    """
    source = mapping.design.source
    split = None if source is None else source.split
    if groups is None or split is None or split.group == group:
        return ""
    learned = np.ones(len(groups), dtype=bool)
    learned[rows] = False
    if learned.any() and not set(groups[learned]) & set(groups[rows]):
        return ""
    how = f"by {split.group!r}" if split.group else "one by one"
    return (
        f"rows of the same {unit} were learned from, since the rows were split {how}: learn again "
        f"with --group {group}"
    )


def _dependence(
    mapping: Mapping,
    table: pd.DataFrame,
    labels: dict[str, str],
    groups: Any,
    held_out: bool,
) -> Dependence | None:
    """Return the worse of what the table shows and of what was seen when it was learned from."""
    facts = [labels[fact.name] for fact in mapping.private]
    public = labels[mapping.public.name]
    if groups is None:
        here = check_both_orders(table, mapping.names, public, facts)
    else:
        columns = [table[name] for name in facts]
        here = check_dependence(
            _readings(mapping, table), columns, public=table[public], groups=groups
        )
    source = mapping.design.source
    learned = source.dependence if held_out and groups is None and source is not None else None
    return here if learned is None else worse_of(here, learned)


def read_labels(fact: Fact, values: Any) -> Labelled:
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
    labelled = Labelled(fact, index)
    _check_counts(labelled)
    return labelled


def _check_counts(labelled: Labelled) -> None:
    counts = labelled.counts
    least = int(np.argmin(counts))
    if counts[least] < MIN_CLASS_ROWS:
        raise InputError(
            f"class {shown(labelled.fact.classes[least])} of {labelled.name!r} has {counts[least]} "
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
            check_column(named, name, "readings of a sensor")
        return named[mapping.names].reset_index(drop=True)
    array = np.asarray(X)
    if array.ndim != 2 or array.shape[1] != len(mapping.names):
        raise InputError(
            f"the readings have shape {array.shape}; the mapping has {len(mapping.names)} sensors. "
            "Give one column for each."
        )
    return pd.DataFrame(array, columns=mapping.names).infer_objects()


def _chosen_group(
    mapping: Mapping, table: pd.DataFrame, group: str | None, assume_independent: bool
) -> str | None:
    source = mapping.design.source
    learned = None if source is None or source.split is None else source.split.group
    if assume_independent or group is not None or learned is None:
        return group
    if not can_group(learned, map(str, table.columns)):
        raise InputError(
            f"the mapping was learned from rows in groups of {learned!r}, a column that this table "
            "does not have. Name the groups with --group, or say --assume-independent."
        )
    return learned


def _rows_that_may_vouch(
    mapping: Mapping, table: pd.DataFrame, labels: dict[str, str]
) -> tuple[Ints, str]:
    source = mapping.design.source
    everything = np.arange(len(table), dtype=np.int64)
    facts = [fact.name for fact in (mapping.public, *mapping.private)]
    named = {theirs: ours for ours, theirs in labels.items()}
    if source is None or any(name not in table.columns for name in mapping.names):
        return everything, _UNCHECKED
    # The columns that were learned from, by the mapping's names and in its order.
    used = table[[*mapping.names, *labels.values()]].rename(columns=named)
    if _digest(used, source) != source.digest:
        if source.unordered is not None and unordered_digest(used) == source.unordered:
            raise InputError(
                f"this is the table that mapping {mapping.id[7:13]} was learned from, with its "
                "rows in another order: which of them were held out cannot be told. Give the "
                "table as it was."
            )
        return everything, _UNCHECKED
    split = source.split
    if split is None or split.holdout == 0:
        raise InputError(
            f"mapping {mapping.id[7:13]} was learned from all {len(table)} rows of this table, "
            "which cannot vouch for it. Audit with another table, or learn again with a holdout."
        )
    if source.read == "stream":
        groups = [] if split.group is None else group_values(table, split.group).tolist()
        held_out = everything[RowSplit(split, groups).held_out(table)]
    else:
        group = group_columns(split.group, map(str, table.columns))
        held_out = split_rows(pd.concat([used, table[group]], axis=1), split, facts)[1]
    return held_out, _held_out_words(len(held_out), len(table))


def _digest(used: pd.DataFrame, source: Source) -> str:
    """Return the digest of the kind that the mapping recorded."""
    if source.read != "stream":
        return table_digest(used)
    digest = TableDigest({str(name): is_numeric(used[name]) for name in used.columns})
    digest.update(used)
    return digest.result()


def _held_out_words(held_out: int, rows: int) -> str:
    return (
        f"the {held_out} of {rows} rows that were held out when the mapping was learned from this "
        "table"
    )


def _finish(
    mapping: Mapping,
    readings: pd.DataFrame,
    public: Labelled,
    private: Sequence[Labelled],
    groups: Any,
    origin: str,
    *,
    held_out: bool = False,
) -> Subject:
    codes = mapping.encode(readings)
    source = mapping.design.source
    labels = [each.index for each in (public, *private)]
    if source is not None and source.training == _training_digest(mapping, codes, labels):
        raise InputError(
            f"these are the {len(readings)} rows that mapping {mapping.id[7:13]} was learned from, "
            "which cannot vouch for it. Give rows that were used for nothing else."
        )
    return Subject(
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
