"""Choose how readings become codes, from rows that teach.

One encoder per column, chosen from its readings and, where asked, the facts of the rows that are
learned from. Applying an encoder needs nothing of this; see ``encoders``.
"""

import warnings
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Dict
from typing import Any, TypeVar

import pandas as pd

from discreet.data.column_scan import DEFAULT_BINS, DEFAULT_STRATEGY, ColumnScan
from discreet.data.columns import as_series, check_names
from discreet.data.encoders import Encoder
from discreet.data.labels import Labels
from discreet.errors import ConstantSensorWarning, InputError, Parameter, shown, suggest

_T = TypeVar("_T")
_NAMED = 5  # sensors that a warning names
_CALLER = 5  # frames up to whoever called ``fit``


def fit_encoders(
    table: pd.DataFrame,
    *,
    strategy: str | Dict[Any, str] = DEFAULT_STRATEGY,
    n_bins: int | Dict[Any, int] = DEFAULT_BINS,
    facts: Sequence[Labels] = (),
) -> list[Encoder]:
    """Choose one encoder per column.

    ``table``: the readings, one column per sensor. ``strategy``: ``"merged"``, ``"quantile"``,
    ``"uniform"`` or ``"supervised"`` cut numbers into bins, ``"categories"`` takes every value for
    a category and ``"codes"`` takes integers as they are. Text and booleans become categories.
    Columns that a mapping leaves out get the default. ``n_bins``: most bins per column, the code
    for missing aside. ``facts``: the public one, for ``"supervised"``, then the private ones, for
    ``"merged"``, which is ``"quantile"`` without them. Returns in the order of the columns. Each
    has a code for missing. Raises InputError: if there are no columns, two of one name, or one
    that does not suit its strategy.
    """
    return [scan.encoder() for scan in _scan(table, strategy, n_bins, facts)]


def fit_sensors(
    table: pd.DataFrame,
    *,
    strategy: str | Dict[Any, str] = DEFAULT_STRATEGY,
    n_bins: int | Dict[Any, int] = DEFAULT_BINS,
    facts: Sequence[Labels] = (),
    worth: bool = False,
) -> list[tuple[str, Encoder]]:
    """Choose encoders for the columns whose readings differ; leave out the others and warn.

    Nothing can be learned from a sensor that always reads the same. A mapping without it never
    sends what it reads later. ``worth``: whether to refuse readings that seem to identify the row.
    Raises InputError: if no sensor is left, and as ``fit_encoders`` does.
    """
    found, constant = [], []
    for scan in _scan(table, strategy, n_bins, facts):
        if (value := scan.constant) is not None:
            constant.append(f"{scan.sensor!r} ({value})")
            continue
        if worth:
            scan.check_worth()
        found.append((scan.sensor, scan.encoder()))
    _tell_constant(constant, len(table), left=len(found))
    return found


def _tell_constant(constant: Sequence[str], n_rows: int, left: int) -> None:
    if not constant:
        return
    more = f" and {len(constant) - _NAMED} more" if len(constant) > _NAMED else ""
    what = (
        f"the same in all {n_rows} rows looked at: {', '.join(constant[:_NAMED])}{more}. Nothing "
        "can be learned from such sensors"
    )
    if not left:
        raise InputError(f"{what}, and there are no others. Add sensors whose readings differ.")
    warnings.warn(
        f"{what}; the mapping leaves them out.", ConstantSensorWarning, stacklevel=_CALLER
    )


def _scan(
    table: pd.DataFrame,
    strategy: str | Dict[Any, str],
    n_bins: int | Dict[Any, int],
    facts: Sequence[Labels],
) -> Iterator[ColumnScan]:
    names = [str(column) for column in table.columns]
    if not names:
        raise InputError("the readings have no columns. Give at least one sensor.")
    check_names(names, "the readings")
    own = by_column("binning", strategy, names) if isinstance(strategy, Dict) else {}
    bins = by_column("n_bins", n_bins, names) if isinstance(n_bins, Dict) else {}
    chosen = DEFAULT_STRATEGY if isinstance(strategy, Dict) else strategy
    count = DEFAULT_BINS if isinstance(n_bins, Dict) else n_bins
    for i, name in enumerate(names):
        how = own.get(name, chosen), bins.get(name, count)
        column = as_series(table.iloc[:, i])
        yield ColumnScan(name, column, *how, facts=facts, by_name=name in own)


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
