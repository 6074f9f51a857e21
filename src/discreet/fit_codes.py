"""Choose how readings become codes, from rows that teach (stage 2).

One encoder per column, chosen from its readings and, where asked, the public label.
Applying an encoder needs nothing of this; see ``codes``.
"""

import math
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as Dict
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ValidationError
from sklearn.tree import DecisionTreeClassifier

from discreet.codes import MAX_CODES, BinsEncoder, CategoriesEncoder, CodesEncoder, Encoder
from discreet.errors import InputError
from discreet.readings import check_kind, check_names
from discreet.values import (
    Column,
    NotNumberError,
    Plain,
    Values,
    as_floats,
    as_series,
    explain,
    is_missing,
    is_numeric,
    plain,
    shown,
    suggest,
    written,
)

MAX_CATEGORIES = 1_000
"""Most categories that fitting accepts; more is nearly always an identifier."""
STRATEGIES = ("quantile", "uniform", "supervised", "categories", "codes")
DEFAULT_STRATEGY = "quantile"
_BINS = ("quantile", "uniform", "supervised")
DEFAULT_BINS = 10
_T = TypeVar("_T")


def fit_encoders(
    table: pd.DataFrame,
    *,
    strategy: str | Dict[Any, str] = DEFAULT_STRATEGY,
    n_bins: int | Dict[Any, int] = DEFAULT_BINS,
    public: "Values | None" = None,
) -> list[Encoder]:
    """Choose one encoder per column.

    Parameters
    ----------
    table : DataFrame
        The readings, one column per sensor.
    strategy : str or mapping of column to str, default="quantile"
        ``"quantile"``, ``"uniform"`` or ``"supervised"`` cut numbers into bins,
        ``"categories"`` takes every value for a category and ``"codes"`` takes integers
        as they are. Text and booleans become categories. Columns that a mapping leaves
        out get the default.
    n_bins : int or mapping of column to int, default=10
        Most bins per column, the code for missing aside.
    public : Series or array, optional
        The public label, for ``"supervised"``. The private label has no place here: a
        bin edge that follows it would leak it.

    Returns
    -------
    list of Encoder
        In the order of the columns. Each has a code for missing.

    Raises
    ------
    InputError
        If there are no columns, two of one name, or one that does not suit its strategy.
    """
    names = [str(column) for column in table.columns]
    if not names:
        raise InputError("the readings have no columns. Give at least one sensor.")
    check_names(names, "the readings")
    bins = by_column("n_bins", n_bins, names) if isinstance(n_bins, Dict) else {}
    default = DEFAULT_BINS if isinstance(n_bins, Dict) else n_bins
    return [
        fit_encoder(
            table.iloc[:, i],
            sensor=name,
            strategy=chosen,
            n_bins=bins.get(name, default),
            public=public,
        )
        for i, (name, chosen) in enumerate(
            zip(names, choose_strategies(table, strategy), strict=True)
        )
    ]


def choose_strategies(table: pd.DataFrame, strategy: str | Dict[Any, str]) -> list[str]:
    """Return the strategy of every column.

    Raises
    ------
    InputError
        If a column that does not hold numbers is to be cut into bins by name.
    """
    names = [str(column) for column in table.columns]
    if not isinstance(strategy, Dict):
        return [strategy] * len(names)
    own = by_column("binning", strategy, names)
    for i, name in enumerate(names):
        if own.get(name) in _BINS and not is_numeric(table.iloc[:, i]):
            raise InputError(
                f"binning {own[name]!r} was asked for {name!r}, which does not hold numbers. "
                "Ask for 'categories' there, or convert the column to numbers."
            )
    return [own.get(name, DEFAULT_STRATEGY) for name in names]


def by_column(option: str, given: Dict[Any, _T], names: Sequence[str]) -> dict[str, _T]:
    """Return what was chosen for single columns, by the columns' names as text.

    Parameters
    ----------
    option : str
        The parameter, as the message should call it.
    given : mapping of column to anything
        A column may be called what pandas calls it: 0 for the first of an array's.
    names : sequence of str
        The columns that there are.

    Raises
    ------
    InputError
        If there is no such column, or two keys mean the same one.
    """
    found: dict[str, _T] = {}
    for key, value in given.items():
        name = str(key)
        if name not in names:
            raise InputError(
                f"{option} names the column {shown(key)}, which is no sensor. "
                f"{suggest(name, names)}"
            )
        if name in found:
            raise InputError(f"{option} names the column {name!r} twice. Keep one entry.")
        found[name] = value
    return found


def fit_encoder(
    values: Values,
    *,
    sensor: str,
    strategy: str = DEFAULT_STRATEGY,
    n_bins: int = DEFAULT_BINS,
    public: "Values | None" = None,
) -> Encoder:
    """Choose the encoder of one column; see ``fit_encoders`` for the parameters.

    Raises
    ------
    InputError
        If the column holds dates, lists or complex numbers, too many categories, or
        does not suit the strategy.
    """
    if strategy not in STRATEGIES:
        raise InputError(f"no binning {strategy!r} for {sensor!r}. {suggest(strategy, STRATEGIES)}")
    if type(plain(n_bins)) is not int or not 1 <= n_bins < MAX_CODES:
        raise InputError(
            f"n_bins must be a whole number from 1 to {MAX_CODES - 1}; for {sensor!r} it is "
            f"{shown(n_bins)}."
        )
    series = as_series(values)
    check_kind(series, sensor)
    if strategy == "codes":
        return _fit_codes(series, sensor)
    if strategy == "categories" or not is_numeric(series):
        return _fit_categories(series, sensor)
    readings = as_floats(series)
    if strategy == "supervised":
        edges = _supervised_edges(readings, _public_codes(public, len(readings), sensor), n_bins)
    else:
        distinct, counts = np.unique(readings[np.isfinite(readings)], return_counts=True)
        edges = plain_edges(distinct, counts, strategy, n_bins)
    return BinsEncoder(edges=tuple(edges), missing=True)


def plain_edges(
    distinct: NDArray[np.float64],
    counts: NDArray[np.int64],
    strategy: str,
    n_bins: int,
    *,
    few: bool = True,
) -> NDArray[np.float64]:
    """Return edges between numbers, from their distinct values in order and the count of each.

    Where they are fewer than the bins each value gets its own, unless ``few`` is false.
    """
    if few and len(distinct) <= n_bins:
        return _midpoints(distinct, np.arange(len(distinct) - 1))
    if strategy == "uniform":
        share = np.arange(1, n_bins) / n_bins
        # Weighted ends instead of a step, since the step between huge readings overflows.
        edges = np.unique(distinct[0] * (1 - share) + distinct[-1] * share)
        kept: NDArray[np.float64] = edges[(edges >= distinct[0]) & (edges < distinct[-1])]
        return kept
    # The j-th edge follows the first value that brings the count to j/n_bins of the rows.
    below = np.searchsorted(
        np.cumsum(counts) * n_bins, np.arange(1, n_bins) * counts.sum(), side="left"
    )
    return _midpoints(distinct, np.unique(below[below < len(distinct) - 1]))


def _supervised_edges(
    readings: NDArray[np.float64], public: NDArray[np.int64], n_bins: int
) -> NDArray[np.float64]:
    finite = np.isfinite(readings)
    distinct, ranks = np.unique(readings[finite], return_inverse=True)
    if len(distinct) < 2 or n_bins < 2:
        return np.empty(0)
    # The tree works in 32-bit floats, which would merge or overflow readings; ranks are safe.
    tree = DecisionTreeClassifier(max_leaf_nodes=int(n_bins), random_state=0)
    tree.fit(ranks.reshape(-1, 1), public[finite])
    splits = tree.tree_.threshold[tree.tree_.feature >= 0]
    return _midpoints(distinct, np.unique(np.floor(splits).astype(np.int64)))


def _midpoints(distinct: NDArray[np.float64], left: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return an edge after each of ``distinct[left]`` and before its right neighbour."""
    if len(left) == 0:
        return np.empty(0)
    low, high = distinct[left], distinct[left + 1]
    with np.errstate(over="ignore"):
        middle = low + (high - low) / 2
    middle = np.where(np.isfinite(middle), middle, low / 2 + high / 2)
    # Between neighbouring floats the midpoint rounds to one of them; an edge closes its bin,
    # so the lower one separates the two and the upper one does not.
    return np.where((middle >= low) & (middle < high), middle, low)


def _public_codes(public: "Values | None", rows: int, sensor: str) -> NDArray[np.int64]:
    if public is None:
        raise InputError(
            f"binning 'supervised' for {sensor!r} needs the public label. "
            "Pass `public`, or choose 'quantile'."
        )
    codes, _ = pd.factorize(as_series(public), use_na_sentinel=True)
    if len(codes) != rows:
        raise InputError(
            f"the public label has {len(codes)} rows and {sensor!r} has {rows}. "
            "Pass labels and readings of the same rows."
        )
    if (codes < 0).any():
        raise InputError(
            f"the public label is missing in {int((codes < 0).sum())} rows. Drop those rows first."
        )
    return codes.astype(np.int64)


def _fit_codes(series: Column, sensor: str) -> CodesEncoder:
    advice = "Binning 'codes' needs whole numbers from 0; choose 'categories' or 'quantile'."
    try:
        readings = as_floats(series)
    except NotNumberError as error:
        raise InputError(f"sensor {sensor!r} holds {shown(error.value)}. {advice}") from None
    readings = readings[~np.isnan(readings)]
    wrong = ~((readings >= 0) & (readings < MAX_CODES - 1) & (np.floor(readings) == readings))
    if wrong.any():
        value = readings[int(np.argmax(wrong))]
        limit = f" The largest code allowed is {MAX_CODES - 2}." if value >= MAX_CODES - 1 else ""
        raise InputError(f"sensor {sensor!r} holds {value:g}. {advice}{limit}")
    size = int(readings.max()) + 1 if len(readings) else 1
    return CodesEncoder(size=size, missing=True)


def _fit_categories(series: Column, sensor: str) -> CategoriesEncoder:
    seen = _distinct(series[~is_missing(series)])
    # JSON has no infinity; such a reading shares the code of the unknown.
    kept = {written(value): value for value in seen if not is_infinite(value)}
    if len(kept) > MAX_CATEGORIES:
        raise InputError(
            f"sensor {sensor!r} has {len(kept)} different values; at most {MAX_CATEGORIES} can be "
            "categories. Group them, convert the column to numbers, or leave it out."
        )
    try:
        return CategoriesEncoder(categories=sort_categories(kept.values()), missing=True)
    except ValidationError as error:
        raise InputError(f"sensor {sensor!r} cannot be encoded: {explain(error)}.") from None


def sort_categories(categories: Iterable[Plain]) -> tuple[Plain, ...]:
    """Return categories in their order in an encoder: true and false, numbers, texts."""
    return tuple(sorted(categories, key=_rank))


def _distinct(series: Column) -> list[Plain]:
    values = series if series.dtype == object else pd.Series(series.unique())
    found = (plain(value) for value in values)
    return [value for value in found if value is not None]


def _rank(value: Plain) -> tuple[int, float, str]:
    if isinstance(value, str):
        return 2, 0.0, value
    return (0 if isinstance(value, bool) else 1), value, written(value)


def is_infinite(value: Plain) -> bool:
    """Whether a value is a number that JSON cannot hold."""
    return isinstance(value, float) and math.isinf(value)
