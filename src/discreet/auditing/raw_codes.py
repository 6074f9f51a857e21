"""Raw readings as integers, for attackers that would see them instead of the symbols.

Finer than the mapping's own codes, and without a look at any label: up to 64 values or equal
shares of a numeric column, every category of another one.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.values import Column, as_floats, is_missing, is_numeric, written_column

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEVELS = 64


def raw_codes(readings: pd.DataFrame) -> tuple[Ints, list[int]]:
    """Return the codes of all columns and how many each column has."""
    columns = [_code(readings.iloc[:, t]) for t in range(readings.shape[1])]
    sizes = [max(int(column.max()) + 1, 2) for column in columns]
    return np.stack(columns, axis=1), sizes


def _code(column: Column) -> Ints:
    gone = is_missing(column)
    present = column[~gone]
    found = np.zeros(len(column), dtype=np.int64)  # 0 is for what is missing
    if len(present):
        levels = _levels(as_floats(present)) if is_numeric(column) else _categories(present)
        found[~gone] = levels + 1
    return found


def _levels(values: Floats) -> Ints:
    finite = np.nan_to_num(values)  # infinities become the largest floats
    distinct = np.unique(finite)
    if len(distinct) <= LEVELS:
        return np.searchsorted(distinct, finite).astype(np.int64)
    cuts = np.quantile(finite, np.linspace(0, 1, LEVELS + 1)[1:-1], method="lower")
    return np.searchsorted(np.unique(cuts), finite, side="right").astype(np.int64)


def _categories(column: Column) -> Ints:
    """Give categories numbers, the most frequent first; those beyond the last share one."""
    texts, place = np.unique(np.array(written_column(column), dtype=str), return_inverse=True)
    rank = np.empty(len(texts), dtype=np.int64)
    rank[np.argsort(-np.bincount(place), kind="stable")] = np.arange(len(texts))
    return np.minimum(rank[place], LEVELS - 1)
