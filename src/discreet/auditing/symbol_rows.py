"""Rows of symbols, or of codes, as arrays: numbered, counted and one-hot.

Rows of few symbols repeat. Whoever works on the distinct ones saves time, so that equal rows
get one number and are counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_LARGEST_KEY = 2**62  # number of a row that still fits 64 bits, with room to spare


def number_rows(values: Ints, sizes: Sequence[int]) -> tuple[Ints, Ints]:
    """Return the distinct rows, and which of them every row is.

    ``sizes`` says how many values each column has.
    """
    key, reach = np.zeros(len(values), dtype=np.int64), 1
    for column, size in zip(values.T, sizes, strict=True):
        if reach * size > _LARGEST_KEY:
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
            reach = len(values)
        key, reach = key * size + column, reach * size
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    return values[first], place.astype(np.int64)


def count_rows(place: Ints, fact: Ints, n_classes: int) -> tuple[Ints, Floats]:
    """Return the distinct places and how many rows of each class they hold."""
    rows, own = np.unique(place, return_inverse=True)
    counts = np.bincount(own * n_classes + fact, minlength=len(rows) * n_classes)
    return rows, counts.reshape(-1, n_classes).astype(np.float64)


def one_hot(values: Ints, sizes: Sequence[int]) -> scipy.sparse.csr_array:
    """Return one column per sensor and symbol."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    columns = (values + starts[:-1]).ravel()
    pointers = np.arange(0, len(columns) + 1, len(sizes))
    return scipy.sparse.csr_array(
        (np.ones(len(columns)), columns, pointers), shape=(len(values), int(starts[-1]))
    )
