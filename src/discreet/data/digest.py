"""Digests by which a table is known again: a mapping records them, and never rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.data.columns import Column, is_missing, is_numeric, written_column
from discreet.data.unique_rows import distinct_rows

MAX_UNORDERED_ROWS = 1_000_000
_DIGESTED_ROWS = 1 << 16  # at a time, so that no second copy of the table is made


class TableDigest:
    """One SHA-256 over the names, values and order of a whole table, column after column.

    A table read from CSV and the same table as a DataFrame, whatever its index and however its
    columns are cut into batches, have the same digest. There is one digest for all rows on
    purpose: a digest per row could be tried against guesses of that row.

    ``rows``, ``columns``: how many there are.
    """

    def __init__(self, rows: int, columns: int) -> None:
        self._digest = hashlib.sha256(b"discreet-table-1\n")
        self._digest.update(f"{rows} {columns}\n".encode())
        self._numeric: bool | None = True
        self._gaps = 0

    def begin(self, name: str) -> None:
        """Go on to the next column."""
        self._end()
        self._digest.update(_framed(name))
        self._numeric, self._gaps = None, 0

    def add(self, part: Column) -> None:
        """Add the next rows of the column."""
        if self._numeric is None:
            if is_missing(part).all():  # which tells nothing of what the column holds
                self._gaps += len(part)
                return
            self._settle(is_numeric(part))
        self._digest.update(_number_bytes(part) if self._numeric else _text_bytes(part))

    def result(self) -> str:
        """Return the digest of all columns."""
        self._end()
        return "sha256:" + self._digest.hexdigest()

    def _end(self) -> None:
        if self._numeric is None:
            self._settle(True)

    def _settle(self, numeric: bool) -> None:
        self._numeric = numeric
        gaps = _float_bytes(np.full(self._gaps, np.nan)) if numeric else b"-" * self._gaps
        self._digest.update((b"n" if numeric else b"t") + gaps)


def table_digest(table: pd.DataFrame) -> str:
    """Return the digest of a table in memory."""
    digest = TableDigest(len(table), table.shape[1])
    for i, name in enumerate(table.columns):
        digest.begin(str(name))
        digest.add(table.iloc[:, i])
    return digest.result()


def unordered_digest(batches: Iterable[pd.DataFrame]) -> str:
    """Return one number for the rows in any order, to know a shuffled table again.

    The digests of the rows are added up, so that none of them can be told from the sum. It is
    not worth its time for more than ``MAX_UNORDERED_ROWS``.
    """
    total = 0
    for batch in batches:
        columns = [written_column(batch.iloc[:, i]) for i in range(batch.shape[1])]
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
