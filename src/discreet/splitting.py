"""Which rows learn and which are kept for the audit, and how to find them again (stage 1).

A mapping records the digest of its table and the split, never the rows. Whoever has the
table can check that it is the same one and draw the same split.
"""

import hashlib
from collections.abc import Mapping as Dict
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from discreet.distinct import distinct_rows
from discreet.errors import InputError
from discreet.grouping import group_values
from discreet.readings import check_column
from discreet.values import (
    Column,
    Model,
    as_floats,
    is_missing,
    is_numeric,
    shown,
    written_column,
)

_SPLIT_ATTEMPTS = 200
MAX_UNORDERED_ROWS = 1_000_000
_DIGESTED_ROWS = 1 << 16  # at a time, so that no second copy of the table is made


# --- Splitting -----------------------------------------------------------------------------


class Split(Model):
    """Which rows learn and which are kept for the audit.

    With the rows themselves, this is all that ``split_rows`` needs to draw the same
    split again.

    Parameters
    ----------
    holdout : float, default=0.3
        Share of the rows kept for the audit, from 0 up to but not including 1.
    seed : int, default=0
        Seed of the shuffle.
    group : str, optional
        Which rows stay together: a column such as a home, the unit of a column of times
        (``date:day``) or ``rows:60``; see ``grouping``. Neighbouring rows of a time series
        are near copies; split apart they would flatter the audit.
    """

    holdout: float = Field(default=0.3, ge=0, lt=1)
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    group: Annotated[str, Field(max_length=1_000)] | None = None


def split_rows(
    table: pd.DataFrame, split: Split, strata: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of the rows to learn from and to audit with.

    The answer depends on the order and contents of the rows and on ``split`` alone,
    not on the index or on how the columns are stored.

    Parameters
    ----------
    table : DataFrame
    split : Split
    strata : sequence of str
        Label columns. Each combination of their classes is divided in proportion, to the
        nearest row, and every class has rows on both sides.

    Returns
    -------
    train, audit : arrays of int
        Positions in increasing order.

    Raises
    ------
    InputError
        If a column is not there, or a class would have no rows on one side.
    """
    for name in strata:
        check_column(table, name, "labels")
    rows = np.arange(len(table), dtype=np.int64)
    if split.holdout == 0:
        return rows, rows[:0]
    labels = {name: np.asarray(written_column(table[name]), dtype=object) for name in strata}
    rng = np.random.default_rng(split.seed)
    if split.group is None:
        stratum = _combine(labels, len(table))
        chosen = _draw_rows(stratum, split.holdout, rng)
        for _ in range(_SPLIT_ATTEMPTS):
            if _absent_class(labels, chosen) is None:
                break
            chosen = _draw_rows(stratum, split.holdout, rng)
        _check_sides(labels, chosen, split)
    else:
        chosen = _draw_groups(table, split, labels, rng)
    return rows[~chosen], rows[chosen]


def _combine(labels: dict[str, NDArray[Any]], rows: int) -> NDArray[np.int64]:
    """Return the number of each row's combination of classes, in sorted order."""
    combined = np.zeros(rows, dtype=np.int64)
    for column in labels.values():
        classes, places = np.unique(column.astype(str), return_inverse=True)
        combined = np.unique(combined * len(classes) + places, return_inverse=True)[1]
    return combined


def _draw_rows(
    stratum: NDArray[np.int64], holdout: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Draw every row with the same probability, and of each stratum as near as can be its share.

    Systematic sampling: rows shuffled within strata, strata shuffled among themselves, then
    every 1/holdout-th row from a random start. A rule that favoured small strata would make
    the held-out rows a biased sample, and every bound from them wrong.
    """
    place = rng.permutation(int(stratum.max()) + 1)[stratum]
    order = np.lexsort((rng.random(len(stratum)), place))
    steps = np.floor(rng.random() + holdout * np.arange(len(stratum) + 1))
    chosen = np.zeros(len(stratum), dtype=bool)
    chosen[order] = np.diff(steps) > 0
    return chosen


def _draw_groups(
    table: pd.DataFrame, split: Split, labels: dict[str, NDArray[Any]], rng: np.random.Generator
) -> NDArray[np.bool_]:
    assert split.group is not None
    groups, member = np.unique(group_values(table, split.group), return_inverse=True)
    _check_several(split.group, groups.tolist())
    # A number of groups, whatever their sizes: filling up to a share of the rows would favour
    # small groups, and what is held out has to be like the rest.
    count = min(max(round(split.holdout * len(groups)), 1), len(groups) - 1)
    for _ in range(_SPLIT_ATTEMPTS):
        chosen = (rng.permutation(len(groups)) < count)[member]
        if _absent_class(labels, chosen) is None:
            break
    # The last draw is as good as any to show what is wrong.
    _check_sides(labels, chosen, split)
    return chosen


def _check_several(spec: str, groups: Sequence[str]) -> None:
    if len(groups) < 2:
        raise InputError(
            f"group {spec!r} has one group only, {shown(groups[0])}, which cannot be on both "
            "sides. Choose another column or a shorter time, or split without groups."
        )


def _absent_class(
    labels: dict[str, NDArray[Any]], chosen: NDArray[np.bool_]
) -> tuple[str, str, str] | None:
    for name, column in labels.items():
        train, audit = set(column[~chosen]), set(column[chosen])
        if train != audit:
            text = sorted(train ^ audit)[0]
            return name, text, "audit" if text in train else "learning"
    return None


def _check_sides(labels: dict[str, NDArray[Any]], chosen: NDArray[np.bool_], split: Split) -> None:
    absent = _absent_class(labels, chosen)
    if absent is None:
        return
    name, text, side = absent
    count = int((labels[name] == text).sum())
    groups = f", kept together by {split.group!r}," if split.group else ""
    raise InputError(
        f"class {text!r} of {name!r} has {count} rows{groups} and none would be on the {side} "
        f"side. Add rows of that class, or change the holdout{' or the groups' if groups else ''}."
    )


# --- Tables that are streamed --------------------------------------------------------------


class RowSplit:
    """The split of a table that comes in batches, from the first row to the last.

    Each row is held out by a draw of its own, or each group by the draws for the groups: no
    row has to be known when another one is decided on.

    Parameters
    ----------
    split : Split
    groups : sequence of str
        All groups as they are written, if rows stay together by group.
    """

    def __init__(self, split: Split, groups: Sequence[str] = ()) -> None:
        self.split = split
        self._rng = np.random.default_rng(split.seed)
        self._held: set[str] = set()
        self._rows = 0
        if split.group is not None and split.holdout > 0:
            names = sorted(set(groups))
            _check_several(split.group, names)
            count = min(max(round(split.holdout * len(names)), 1), len(names) - 1)
            order = self._rng.permutation(len(names))
            self._held = {name for name, place in zip(names, order, strict=True) if place < count}

    def held_out(self, batch: pd.DataFrame) -> NDArray[np.bool_]:
        """Return which rows of the next batch are kept for the audit."""
        positions = np.arange(self._rows, self._rows + len(batch))
        self._rows += len(batch)
        if self.split.group is None:
            return self._rng.random(len(batch)) < self.split.holdout
        texts = group_values(batch, self.split.group, positions=positions)
        return np.fromiter((text in self._held for text in texts), dtype=bool, count=len(texts))


class TableDigest:
    """One SHA-256 over the names, values and order of a table that comes in batches.

    Parameters
    ----------
    columns : mapping of str to bool
        The columns in their order, and whether each holds numbers.
    """

    def __init__(self, columns: Dict[str, bool]) -> None:
        self._columns = dict(columns)
        self._parts = [hashlib.sha256() for _ in columns]
        self.rows = 0

    def update(self, batch: pd.DataFrame) -> None:
        """Add the next rows."""
        self.rows += len(batch)
        for part, (name, numeric) in zip(self._parts, self._columns.items(), strict=True):
            column = batch[name]
            part.update(_float_bytes(as_floats(column)) if numeric else _text_bytes(column))

    def result(self) -> str:
        """Return the digest of the rows so far."""
        whole = hashlib.sha256(b"discreet-stream-1\n")
        whole.update(f"{self.rows} {len(self._columns)}\n".encode())
        for part, (name, numeric) in zip(self._parts, self._columns.items(), strict=True):
            whole.update(_framed(name) + (b"n" if numeric else b"t") + part.digest())
        return "sha256:" + whole.hexdigest()


# --- Digest --------------------------------------------------------------------------------


def table_digest(table: pd.DataFrame) -> str:
    """Return one SHA-256 over the names, values and order of the whole table.

    A table read from CSV and the same table as a DataFrame, whatever its index, have the
    same digest. There is one digest for all rows on purpose: a digest per row could be
    tried against guesses of that row.
    """
    digest = hashlib.sha256(b"discreet-table-1\n")
    digest.update(f"{len(table)} {table.shape[1]}\n".encode())
    for i, name in enumerate(table.columns):
        column = table.iloc[:, i]
        digest.update(_framed(str(name)))
        if is_numeric(column) or is_missing(column).all():
            digest.update(b"n" + _number_bytes(column))
        else:
            digest.update(b"t" + _text_bytes(column))
    return "sha256:" + digest.hexdigest()


def unordered_digest(table: pd.DataFrame) -> str | None:
    """Return one number for the rows in any order, to know a shuffled table again.

    The digests of the rows are added up, so that none of them can be told from the sum.
    None for a table too long to be worth it.
    """
    if len(table) > MAX_UNORDERED_ROWS:
        return None
    columns = [written_column(table.iloc[:, i]) for i in range(table.shape[1])]
    total = 0
    for row in zip(*columns, strict=True):
        data = b"".join(_framed(text) for text in row)
        total += int.from_bytes(hashlib.sha256(data).digest(), "big")
    return f"sha256:{total % 2**256:064x}"


def coded_digest(codes: NDArray[np.int64], labels: Sequence[NDArray[np.int64]]) -> str:
    """Return the digest of coded rows with the classes of their facts, in any order."""
    found = distinct_rows(np.column_stack([codes, *labels]))
    digest = hashlib.sha256(b"discreet-codes-1\n")
    digest.update(f"{found.rows.shape[0]} {found.rows.shape[1]}\n".encode())
    for begin in range(0, len(found.rows), _DIGESTED_ROWS):
        part = slice(begin, begin + _DIGESTED_ROWS)
        counted = np.column_stack([found.rows[part], found.counts[part]])
        digest.update(counted.astype("<i8").tobytes())
    return "sha256:" + digest.hexdigest()


def _number_bytes(column: Column) -> bytes:
    if column.dtype in (np.float16, np.float32):
        # As written in a file: 0.1, not the 0.10000000149 that widening would give.
        column = column.astype(str).astype(float)
    gone = is_missing(column)
    values = np.full(len(column), np.nan)  # one bit pattern for every gap
    values[~gone] = column[~gone].to_numpy(dtype=np.float64)
    return _float_bytes(values)


def _float_bytes(values: NDArray[np.float64]) -> bytes:
    found = values + 0.0  # -0.0 becomes 0.0
    found[np.isnan(found)] = np.nan  # of all bit patterns, one
    return found.astype("<f8").tobytes()


def _text_bytes(column: Column) -> bytes:
    gone, texts = is_missing(column), written_column(column)
    known = {text: b"+" + _framed(text) for text in set(texts)}  # most columns repeat theirs
    parts = (b"-" if absent else known[text] for text, absent in zip(texts, gone, strict=True))
    return b"".join(parts)


def _framed(text: str) -> bytes:
    """Return the text after its length, so that no two lists of texts join to the same bytes."""
    data = text.encode("utf-8", "surrogatepass")
    return b"%d:%b" % (len(data), data)
