"""Which groups to propose for rows that depend on one another (stage 1)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.dependence import (
    MIN_GROUPS,
    Dependence,
    check_dependence,
    correlation_length,
    worse_of,
)
from discreet.errors import InputError
from discreet.grouping import group_values
from discreet.values import Column, is_numeric, written_column

Ints = NDArray[np.int64]

_PREVIEW = 50  # rows that tell a column without times from one with them
_SIZES = [digit * 10**power for power in range(1, 9) for digit in (1, 2, 5)]


def propose_group(
    found: Dependence,
    table: pd.DataFrame,
    sensors: Sequence[str],
    public: str,
    private: Sequence[str],
) -> str | None:
    """Return what to group dependent rows by, as ``--group`` takes it, or None.

    Proposed are days of a column of times (weeks if days still resemble each other, hours if
    there are few days), or else stretches of rows that are longer than their resemblance
    lasts. There are at least ``MIN_GROUPS`` groups, and no order is found among them.

    Parameters
    ----------
    found : Dependence
        Of the rows.
    table : DataFrame
        In the order that the rows came in.
    """
    if found.kind == "copies":
        return None
    facts = (public, *private)
    times = [str(name) for name in table.columns if name not in facts and _has_times(table[name])]
    specs = [f"{name}:{unit}" for name in times for unit in ("day", "week", "hour")]
    by_time = {spec: each for spec in specs if (each := _groups(table, spec)) is not None}
    usable = by_time or _stretches(found, table, sensors, private)
    for spec, groups in usable.items():
        if not _order_of(groups, table, sensors, public, private).found:
            return spec
    return min(by_time, key=lambda spec: len(np.unique(by_time[spec])), default=None)


def _order_of(
    groups: NDArray[np.str_] | None,
    table: pd.DataFrame,
    sensors: Sequence[str],
    public: str,
    private: Sequence[str],
) -> Dependence:
    facts = [table[name] for name in private]
    return check_dependence(table[list(sensors)], facts, public=table[public], groups=groups)


def time_order(table: pd.DataFrame, used: Collection[str]) -> Ints | None:
    """Return the rows in the order of a column of times that is not used, if that is another one.

    A series that was shuffled is still a series.
    """
    for name in map(str, table.columns):
        if name in used or is_numeric(table[name]) or not _has_times(table[name]):
            continue
        order = np.argsort(np.array(written_column(table[name]), dtype=str), kind="stable")
        if np.any(np.diff(order) < 0):
            return order.astype(np.int64)
    return None


def check_both_orders(
    table: pd.DataFrame, sensors: Sequence[str], public: str, private: Sequence[str]
) -> Dependence:
    """Look at the rows as they come and, if a column tells the time, in the order of that."""
    found = _order_of(None, table, sensors, public, private)
    order = None if found.found else time_order(table, {*sensors, public, *private})
    if order is None:
        return found
    return worse_of(found, _order_of(None, table.iloc[order], sensors, public, private))


def _has_times(column: Column) -> bool:
    """Whether a column holds times; numbers must not fall, as those of a clock do not."""
    if is_numeric(column) and not column.is_monotonic_increasing:
        return False
    try:
        group_values(pd.DataFrame({"time": column.iloc[:_PREVIEW]}), "time:day")
    except InputError:
        return False
    return True


def _groups(table: pd.DataFrame, spec: str) -> NDArray[np.str_] | None:
    """Return the groups, if there are any and enough of them."""
    try:
        found = group_values(table, spec)
    except InputError:
        return None
    return found if len(np.unique(found)) >= MIN_GROUPS else None


def _stretches(
    found: Dependence, table: pd.DataFrame, sensors: Sequence[str], private: Sequence[str]
) -> dict[str, NDArray[np.str_]]:
    """Return groups of successive rows, shortest first, that resemblance does not reach across."""
    length = correlation_length(table[list(sensors)], [table[name] for name in private])
    longest = len(table) // MIN_GROUPS
    if found.kind == "apart" and found.lag is not None and found.lag > longest and length == 1:
        return {}  # only rows far apart are alike, as in a table appended to itself
    sizes = [size for size in _SIZES if 2 * length <= size <= longest]
    return {f"rows:{size}": group_values(table, f"rows:{size}") for size in sizes}
