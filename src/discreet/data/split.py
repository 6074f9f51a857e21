"""Which rows learn and which are kept for the audit; digests by which rows are known again.

A mapping records the digest of its table and the split, never the rows. Whoever has the
table can check that it is the same one and draw the same split.

*Digests by which rows are known again: a mapping records them, and never rows.* Each row becomes
one number, and the numbers are added up, so that parts of a table can be gone over in any order,
by anybody, and no row is ever sorted. Rows in their order are known by a second sum, in which each
number is mixed with the place of its row. What is recorded is a SHA-256 of the sums: it reveals no
row, and no other table has the same by chance. The numbers are no cryptographic hashes, and
nothing rests on nobody being able to make a second table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from discreet.arrays import Ints
from discreet.data.columns import (
    Column,
    Labels,
    check_column,
    count_classes,
    is_missing,
    written,
    written_column,
    written_labels,
)
from discreet.data.groups import group_values
from discreet.data.strict_model import Model
from discreet.errors import InputError, shown

# --- The split ------------------------------------------------------------------------------

Flags = NDArray[np.bool_]

_SPLIT_ATTEMPTS, _RANDOM_ATTEMPTS = 200, 50  # the others with combinations of classes in proportion
_DRAWN = 1 << 16  # rows that are drawn from together, in little memory


class Split(Model):
    """Which rows learn and which are kept for the audit.

    With the rows themselves, this is all that ``hold_out`` needs to draw the same split again.

    ``holdout``: share of the rows kept for the audit, from 0 up to but not including 1. ``seed``:
    seed of the shuffle. ``group``: which rows stay together: a column such as a home, the unit of a
    column of times (``date:day``) or ``rows:60``; see ``data.groups``. Neighbouring rows of a time
    series are near copies; split apart they would flatter the audit.
    """

    holdout: float = Field(default=0.3, ge=0, lt=1)
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    group: Annotated[str, Field(max_length=1_000)] | None = None


def hold_out(split: Split, facts: Sequence[Labels], groups: Labels | None = None) -> Flags:
    """Return which rows are kept for the audit.

    The answer depends on the order and the labels of the rows and on ``split`` alone, not on how
    the table is read. Among each 65536 rows that follow one another, so many are drawn at random.
    Were combinations of classes divided in proportion, held-out rows would have the shares that
    tables were designed with, by luck as far from the truth, and bounds take them for drawn anew.
    That is done only if no draw leaves every class on both sides. Groups are drawn whole.

    ``facts``: every class of each has rows on both sides. ``groups``: which rows stay together, if
    ``split`` asks for groups. Raises InputError: if a class would have no rows on one side, or
    there is one group only.
    """
    if split.holdout == 0:
        return np.zeros(len(facts[0].index), dtype=bool)
    rng = np.random.default_rng(split.seed)
    if groups is not None:
        _check_several(split, groups)
    for attempt in range(_SPLIT_ATTEMPTS):
        if groups is not None:
            count = held_out_groups(split, groups.n_classes)
            chosen = np.asarray((rng.permutation(groups.n_classes) < count)[groups.index])
        else:
            apart = facts if attempt >= _RANDOM_ATTEMPTS else ()
            chosen = _draw_rows(len(facts[0].index), apart, split.holdout, rng)
        if _absent_class(facts, chosen) is None:
            break
    # The last draw is as good as any to show what is wrong.
    _check_sides(facts, chosen, groups)
    return chosen


def split_rows(table: pd.DataFrame, split: Split, strata: Sequence[str]) -> tuple[Ints, Ints]:
    """Return the positions of a table's rows to learn from and to audit with, in order.

    ``strata``: the columns with the facts. Raises InputError: as ``hold_out``, and if a column is
    not there.
    """
    for name in strata:
        check_column(table.columns, name, "labels")
    facts = [written_labels(name, table[name]) for name in strata]
    groups = None
    if split.group is not None and split.holdout > 0:
        texts = pd.Series(group_values(table, split.group), dtype=object)
        groups = written_labels(split.group, texts)
    chosen = hold_out(split, facts, groups)
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def _texts(fact: Labels) -> list[str]:
    return written_column(pd.Series(np.asarray(fact.classes)))


def _draw_rows(
    n_rows: int, facts: Sequence[Labels], holdout: float, rng: np.random.Generator
) -> Flags:
    """Draw some rows after the other, each with the same probability; ``facts``: in proportion."""
    places = [np.argsort(np.argsort(np.array(_texts(fact), dtype=str))) for fact in facts]
    chosen = np.empty(n_rows, dtype=bool)
    for begin in range(0, n_rows, _DRAWN):
        part = slice(begin, begin + _DRAWN)
        stratum = np.zeros(len(chosen[part]), dtype=np.int64)
        for fact, place in zip(facts, places, strict=True):
            combined = stratum * fact.n_classes + place[fact.index[part]]
            stratum = np.unique(combined, return_inverse=True)[1].astype(np.int64)
        chosen[part] = _draw_part(stratum, holdout, rng)
    return chosen


def _draw_part(stratum: Ints, holdout: float, rng: np.random.Generator) -> Flags:
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


def held_out_groups(split: Split, count: int) -> int:
    """Return how many of so many groups are held out.

    A number of groups, whatever their sizes: filling up to a share of the rows would favour
    small groups, and what is held out has to be like the rest.
    """
    return min(max(round(split.holdout * count), 1), count - 1)


def _check_several(split: Split, groups: Labels) -> None:
    if groups.n_classes < 2:
        raise InputError(
            f"group {split.group!r} has one group only, {shown(groups.classes[0])}, which cannot "
            "be on both sides. Choose another column or a shorter time, or split without groups."
        )


def _absent_class(facts: Sequence[Labels], chosen: Flags) -> tuple[Labels, str, str] | None:
    for fact in facts:
        all_rows = count_classes(fact.index, fact.n_classes)
        audit = count_classes(fact.index[chosen], fact.n_classes)
        absent = np.flatnonzero((audit > 0) != (all_rows > audit))
        if len(absent):
            text, k = min((_texts(fact)[k], k) for k in absent)
            return fact, text, "audit" if audit[k] == 0 else "learning"
    return None


def _check_sides(facts: Sequence[Labels], chosen: Flags, groups: Labels | None) -> None:
    absent = _absent_class(facts, chosen)
    if absent is None:
        return
    fact, text, side = absent
    there = fact.index == _texts(fact).index(text)
    where = f"{int(there.sum())} rows"
    advice = "Add rows of that class, or change the holdout."
    if groups is not None:
        count = len(np.unique(groups.index[there]))
        where += f" in {count} of {groups.n_classes} groups by {groups.name!r}, which stay whole,"
        advice = "Add groups with that class, or name finer groups"
        advice += "." if count == 1 else ", or change the holdout or its seed."
    raise InputError(
        f"class {text!r} of {fact.name!r} has {where} and none would be on the {side} side. "
        f"{advice}"
    )


# --- Digests --------------------------------------------------------------------------------

PREFIX = "rows3:"
"""How digests begin that this version writes; those of earlier files begin otherwise."""
ROWS_AT_ONCE = 1 << 16
"""Few enough that what is computed of them stays near the processor."""

Words = NDArray[np.uint64]

_WORD = 1 << 64
_MISSING = np.uint64(0x6A09E667F3BCC908)
_SECOND = np.uint64(0x9E3779B97F4A7C15)
_FULL = 1 << 62  # codes are joined into numbers below this


@dataclass(frozen=True)
class RowSums:
    """Sums over rows, two of each kind: in any order, and with the place of each row.

    Of coded rows, those in any order alone.
    """

    rows: int = 0
    any_order: tuple[int, int] = (0, 0)
    in_order: tuple[int, int] = (0, 0)

    def __add__(self, other: RowSums) -> RowSums:
        return RowSums(
            self.rows + other.rows,
            _added(self.any_order, other.any_order),
            _added(self.in_order, other.in_order),
        )

    @property
    def unordered(self) -> str:
        """The digest that knows the rows in any order."""
        return self._digest(self.any_order)

    @property
    def ordered(self) -> str:
        """The digest that knows the rows in their order only."""
        return self._digest(self.in_order)

    def _digest(self, sums: tuple[int, int]) -> str:
        text = f"discreet-rows-2 {self.rows} {sums[0]} {sums[1]}"
        return PREFIX + hashlib.sha256(text.encode()).hexdigest()


def table_sums(batch: pd.DataFrame, begin: int = 0, names: Sequence[str] | None = None) -> RowSums:
    """Return the sums of some rows of a table, the first of which is row ``begin`` of all.

    A table read from CSV and the same as a DataFrame, whatever its index, have the same. The order
    of the columns counts, and what they are called: by themselves, or by ``names``.
    """
    called = [str(name) for name in batch.columns] if names is None else names
    numbers = np.zeros(len(batch), dtype=np.uint64)
    for k, name in enumerate(called):
        numbers += _mix(_values(batch.iloc[:, k]) + _key(f"{k} {name}"))
    return _sums(numbers, begin)


def table_digest(table: pd.DataFrame) -> str:
    """Return the digest of a table in memory, its rows in their order."""
    return table_sums(table).ordered


def code_sums(
    codes: NDArray[Any],
    sizes: Sequence[int],
    labels: Sequence[NDArray[Any]],
    classes: Sequence[int],
) -> RowSums:
    """Return the sums of coded rows with the classes of their facts, in any order.

    ``sizes``, ``classes``: how many codes each sensor and classes each fact has.
    """
    found, digits = RowSums(), [*sizes, *classes]
    for begin in range(0, len(codes), ROWS_AT_ONCE):
        part = slice(begin, begin + ROWS_AT_ONCE)
        columns = [*codes[part].T, *(index[part] for index in labels)]
        found += number_sums(
            join_digits([(columns[k], digits[k]) for k in run]) for run in digit_runs(digits)
        )
    return found


def digit_runs(sizes: Sequence[int]) -> list[range]:
    """Return which of small integers, that follow one another, are the digits of one number."""
    begins, room = [0], 1
    for k, size in enumerate(sizes):
        if room * size > _FULL:
            begins, room = [*begins, k], 1
        room *= size
    return [range(*ends) for ends in pairwise([*begins, len(sizes)])]


def join_digits(columns: Iterable[tuple[NDArray[Any], int]]) -> Ints:
    """Return one number for each row of small integers, given with how many of each there are."""
    first, *others = columns
    word = first[0].astype(np.int64)
    for column, size in others:
        word *= size
        word += column
    return word


def number_sums(numbers: Iterable[Ints]) -> RowSums:
    """Return the sums of rows in any order, whose digits became these numbers."""
    words = [_mix(each.view(np.uint64) + _key(f"{k}")) for k, each in enumerate(numbers)]
    total = sum(words[1:], start=words[0])
    return RowSums(len(total), _two_sums(total))


def coded_digest(
    codes: NDArray[Any],
    sizes: Sequence[int],
    labels: Sequence[NDArray[Any]],
    classes: Sequence[int],
) -> str:
    """Return the digest of coded rows with the classes of their facts, in any order."""
    return code_sums(codes, sizes, labels, classes).unordered


def _sums(numbers: Words, begin: int) -> RowSums:
    places = np.arange(begin, begin + len(numbers), dtype=np.uint64)
    return RowSums(len(numbers), _two_sums(numbers), _two_sums(numbers + _mix(places + _SECOND)))


def _two_sums(numbers: Words) -> tuple[int, int]:
    return int(_mix(numbers.copy()).sum()), int(_mix(numbers ^ _SECOND).sum())


def _added(one: tuple[int, int], two: tuple[int, int]) -> tuple[int, int]:
    return (one[0] + two[0]) % _WORD, (one[1] + two[1]) % _WORD


def _mix(words: Words) -> Words:
    """Spread each bit of a number over all of its bits, in place (the finaliser of SplitMix64)."""
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words


def _values(column: Column) -> Words:
    """Return a number for each value: one for all that are written alike, and for every gap."""
    gone, dtype = is_missing(column), column.dtype
    if pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype):
        found = _number_words(column)
    else:
        places, texts = pd.factorize(np.asarray(written_column(column), dtype=object))
        found = np.array([_text_word(text) for text in texts], dtype=np.uint64)[places]
    found[gone] = _MISSING
    return found


def _number_words(column: Column) -> Words:
    if column.dtype in (np.float16, np.float32):
        # As written in a file: 0.1, not the 0.10000000149 that widening would give.
        column = column.astype(str).astype(float)
    values = column.to_numpy(dtype=np.float64, na_value=np.nan) + 0.0  # -0.0 becomes 0.0
    return _mix(values.view(np.uint64))


def _text_word(text: str) -> np.uint64:
    """Return the number of a text; of one that a number is written like, that of the number."""
    try:
        number = float(text)
    except ValueError:
        return _key(f"text {text}")
    if written(number) != text:
        return _key(f"text {text}")
    return np.uint64(_mix(np.array([number + 0.0]).view(np.uint64))[0])


def _key(text: str) -> np.uint64:
    data = text.encode("utf-8", "surrogatepass")
    return np.uint64(int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big"))
