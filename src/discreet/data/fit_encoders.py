"""Choose how readings become codes, from rows that teach.

One encoder per column, chosen from its readings and, where asked, the facts of the rows that are
learned from. Applying an encoder needs nothing of this; see ``encoders``.
"""

from collections.abc import Mapping as Dict
from collections.abc import Sequence
from typing import Any, TypeVar

import pandas as pd

from discreet.data.column_scan import DEFAULT_BINS, DEFAULT_STRATEGY, ColumnScan
from discreet.data.columns import as_series, check_names
from discreet.data.encoders import Encoder
from discreet.data.labels import Labels
from discreet.errors import InputError, Parameter, shown, suggest

_T = TypeVar("_T")


def fit_encoders(
    table: pd.DataFrame,
    *,
    strategy: str | Dict[Any, str] = DEFAULT_STRATEGY,
    n_bins: int | Dict[Any, int] = DEFAULT_BINS,
    facts: Sequence[Labels] = (),
    worth: bool = False,
) -> list[Encoder]:
    """Choose one encoder per column.

    ``table``: the readings, one column per sensor. ``strategy``: ``"merged"``, ``"quantile"``,
    ``"uniform"`` or ``"supervised"`` cut numbers into bins, ``"categories"`` takes every value for
    a category and ``"codes"`` takes integers as they are. Text and booleans become categories.
    Columns that a mapping leaves out get the default. ``n_bins``: most bins per column, the code
    for missing aside. ``facts``: the public one, for ``"supervised"``, then the private ones, for
    ``"merged"``, which is ``"quantile"`` without them. ``worth``: whether to refuse readings that
    nothing can be learned from. Returns in the order of the columns. Each has a code for missing.
    Raises InputError: if there are no columns, two of one name, or one that does not suit its
    strategy.
    """
    names = [str(column) for column in table.columns]
    if not names:
        raise InputError("the readings have no columns. Give at least one sensor.")
    check_names(names, "the readings")
    own = by_column("binning", strategy, names) if isinstance(strategy, Dict) else {}
    bins = by_column("n_bins", n_bins, names) if isinstance(n_bins, Dict) else {}
    chosen = DEFAULT_STRATEGY if isinstance(strategy, Dict) else strategy
    count = DEFAULT_BINS if isinstance(n_bins, Dict) else n_bins
    found = []
    for i, name in enumerate(names):
        how = own.get(name, chosen), bins.get(name, count)
        column = as_series(table.iloc[:, i])
        scan = ColumnScan(name, column, *how, facts=facts, by_name=name in own)
        if worth:
            scan.check_worth()
        found.append(scan.encoder())
    return found


def by_column(option: str, given: Dict[Any, _T], names: Sequence[str]) -> dict[str, _T]:
    """Return what was chosen for single columns, by the columns' names as text.

    ``option``: the parameter, as the message should call it. ``given``: a column may be called what
    pandas calls it: 0 for the first of an array's. ``names``: the columns that there are. Raises
    InputError: if there is no such column, or two keys mean the same one.
    """
    found: dict[str, _T] = {}
    for key, value in given.items():
        name = str(key)
        if name not in names:
            raise InputError(
                Parameter(option),
                f" names the column {shown(key)}, which is no sensor. {suggest(name, names)}",
            )
        if name in found:
            raise InputError(
                Parameter(option), f" names the column {name!r} twice. Keep one entry."
            )
        found[name] = value
    return found
