"""Arrays: names by what they hold, for annotations, and the distinct rows of one.

*Distinct rows of small integers, in order, as ``numpy.unique(..., axis=0)`` finds them.* NumPy
compares rows byte by byte. Here neighbouring columns become digits of one 63-bit number for as
long as they fit, so that a row is a number or two and sorting is cheap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


_LARGEST = 1 << 63


@dataclass(frozen=True)
class Distinct:
    """Distinct rows in lexicographic order.

    ``rows`` is of shape (n_distinct, n_columns). ``inverse`` of shape (n_rows,): the distinct row
    of every row. ``counts`` is of shape (n_distinct,).
    """

    rows: Ints
    inverse: Ints
    counts: Ints


def distinct_rows(table: Ints) -> Distinct:
    """Return the distinct rows of a table."""
    if not len(table):
        none = np.empty(0, dtype=np.int64)
        return Distinct(table.astype(np.int64), none, none)
    words = _words(table)
    order = np.lexsort(words[::-1]) if len(words) > 1 else np.argsort(words[0], kind="stable")
    begins = np.zeros(len(order), dtype=bool)
    begins[0] = True
    for word in words:
        ordered = word[order]
        begins[1:] |= ordered[1:] != ordered[:-1]
    inverse = np.empty(len(order), dtype=np.int64)
    inverse[order] = np.cumsum(begins) - 1
    firsts = np.flatnonzero(begins)
    counts = np.diff(np.append(firsts, len(order)))
    return Distinct(table[order[firsts]].astype(np.int64), inverse, counts.astype(np.int64))


def _words(table: Ints) -> list[Ints]:
    """Return numbers whose order, the first deciding, is that of the rows."""
    words, room = [np.zeros(len(table), dtype=np.int64)], _LARGEST
    for column in table.T:
        least = int(column.min())
        size = int(column.max()) - least + 1
        if size > room:
            words.append(np.zeros(len(table), dtype=np.int64))
            room = _LARGEST
        if size >= _LARGEST:  # one column that fills a word: nothing to subtract or to add
            words[-1], room = column.astype(np.int64), 1
            continue
        words[-1] = words[-1] * size + (column - least)
        room //= size
    return words
