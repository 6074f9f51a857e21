"""Digests by which rows are known again: a mapping records them, and never rows.

Each row becomes one number, and the numbers are added up, so that parts of a table can be gone over
in any order, by anybody, and no row is ever sorted. Rows in their order are known by a second sum,
in which each number is mixed with the place of its row. What is recorded is a SHA-256 of the sums:
it reveals no row, and no other table has the same by chance. The numbers
are no cryptographic hashes, and nothing rests on nobody being able to make a second table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.data.columns import Column, is_missing, written, written_column

PREFIX = "rows2:"
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
    """Sums over rows, two of each kind: in any order, and with the place of each row."""

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
    """Return the sums of coded rows with the classes of their facts.

    ``sizes``, ``classes``: how many codes each sensor and classes each fact has.
    """
    found = RowSums()
    for begin in range(0, len(codes), ROWS_AT_ONCE):
        part = slice(begin, begin + ROWS_AT_ONCE)
        columns = [*codes[part].T, *(index[part] for index in labels)]
        found += _sums(_join(columns, [*sizes, *classes]), begin)
    return found


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


def _join(columns: Sequence[NDArray[Any]], sizes: Sequence[int]) -> Words:
    """Return one number for each row of small integers; as many as fit are its digits at once."""
    total = np.zeros(len(columns[0]), dtype=np.uint64)
    word, room, keys = np.zeros(len(total), dtype=np.int64), 1, 0
    for column, size in zip(columns, sizes, strict=True):
        if room * size > _FULL:
            total += _mix(word.view(np.uint64) + _key(f"{keys}"))
            word, room, keys = np.zeros(len(total), dtype=np.int64), 1, keys + 1
        word *= size
        word += column
        room *= size
    total += _mix(word.view(np.uint64) + _key(f"{keys}"))
    return total


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
