"""Choose how readings become codes, from rows that teach.

One encoder per column, chosen from its readings and, where asked, the public label. The rows may
come in batches; all of them at once are one batch. Numbers are counted value by value. Once a
batch has shown too many different ones and another batch follows, they go into a t-digest, whose
quantiles are near the true ones: the one sketch of Apache DataSketches that throws no dice, so
that the same files give the same edges. Applying an encoder needs nothing of this; see
``encoders``.
"""

import math
from collections.abc import Mapping as Dict
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ValidationError
from sklearn.tree import DecisionTreeClassifier

from discreet.arrays import Floats
from discreet.data.columns import (
    Column,
    NotNumberError,
    Plain,
    Values,
    as_floats,
    as_series,
    check_kind,
    check_names,
    is_missing,
    is_numeric,
    plain,
    written,
)
from discreet.data.encoders import MAX_CODES, BinsEncoder, CategoriesEncoder, CodesEncoder, Encoder
from discreet.data.strict_model import explain
from discreet.errors import InputError, Parameter, shown, suggest

MAX_CATEGORIES = 1_000
"""Most categories that fitting accepts; more is nearly always an identifier."""
STRATEGIES = ("quantile", "uniform", "supervised", "categories", "codes")
DEFAULT_STRATEGY = "quantile"
DEFAULT_BINS = 10
EXACT_VALUES = 4096
"""Most distinct numbers of a column that are counted one by one from batch to batch."""
SKETCH_SIZE = 2000
"""The t-digest's k; the larger, the nearer to the true quantiles."""
_BINS = ("quantile", "uniform", "supervised")
_AT_ONCE = 1 << 16  # values handed to the sketch
_T = TypeVar("_T")


def fit_encoders(
    table: pd.DataFrame,
    *,
    strategy: str | Dict[Any, str] = DEFAULT_STRATEGY,
    n_bins: int | Dict[Any, int] = DEFAULT_BINS,
    public: "Values | None" = None,
) -> list[Encoder]:
    """Choose one encoder per column.

    ``table``: the readings, one column per sensor. ``strategy``: ``"quantile"``, ``"uniform"`` or
    ``"supervised"`` cut numbers into bins, ``"categories"`` takes every value for a category and
    ``"codes"`` takes integers as they are. Text and booleans become categories. Columns that a
    mapping leaves out get the default. ``n_bins``: most bins per column, the code for missing
    aside. ``public``: the public label, for ``"supervised"``. The private label has no place here:
    a bin edge that follows it would leak it. Returns in the order of the columns. Each has a code
    for missing. Raises InputError: if there are no columns, two of one name, or one that does not
    suit its strategy.
    """
    names = [str(column) for column in table.columns]
    if not names:
        raise InputError("the readings have no columns. Give at least one sensor.")
    check_names(names, "the readings")
    scans = begin_scans(names, strategy, n_bins)
    for i, scan in enumerate(scans):
        scan.add(as_series(table.iloc[:, i]), public)
    return [scan.encoder() for scan in scans]


def begin_scans(
    names: Sequence[str], strategy: str | Dict[Any, str], n_bins: int | Dict[Any, int]
) -> list["ColumnScan"]:
    """Return a scan for every column that has seen nothing yet; see ``fit_encoders``."""
    own = by_column("binning", strategy, names) if isinstance(strategy, Dict) else {}
    bins = by_column("n_bins", n_bins, names) if isinstance(n_bins, Dict) else {}
    chosen = DEFAULT_STRATEGY if isinstance(strategy, Dict) else strategy
    count = DEFAULT_BINS if isinstance(n_bins, Dict) else n_bins
    return [
        ColumnScan(name, own.get(name, chosen), bins.get(name, count), by_name=name in own)
        for name in names
    ]


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


class ColumnScan:
    """What one sensor's readings look like, gathered batch by batch.

    ``strategy``, ``n_bins``: as in ``fit_encoders``. "supervised" needs all rows in one batch.
    ``by_name``: whether the strategy was chosen for this column, so that one that does not suit it
    is refused. Raises InputError: from here on if the column holds dates, lists or complex numbers,
    too many categories, or does not suit the strategy.
    """

    def __init__(
        self,
        sensor: str,
        strategy: str = DEFAULT_STRATEGY,
        n_bins: int = DEFAULT_BINS,
        *,
        by_name: bool = False,
    ) -> None:
        if strategy not in STRATEGIES:
            raise InputError(
                f"no binning {strategy!r} for {sensor!r}. {suggest(strategy, STRATEGIES)}"
            )
        if type(plain(n_bins)) is not int or not 1 <= n_bins < MAX_CODES:
            raise InputError(
                f"n_bins must be a whole number from 1 to {MAX_CODES - 1}; for {sensor!r} it is "
                f"{shown(n_bins)}."
            )
        self.sensor, self.strategy, self.n_bins = sensor, strategy, n_bins
        self.rows = self.missing = 0
        self._by_name = by_name
        self._holds_numbers: bool | None = None
        self._numbers = _Numbers(sensor)
        self._categories: dict[str, Plain] = {}
        self._supervised: Floats | None = None

    def add(self, column: Column, public: "Values | None" = None) -> None:
        """Look at some readings; ``public`` is their public label."""
        check_kind(column, self.sensor)
        gone = is_missing(column)
        if self._holds_numbers is None:  # gaps alone, as objects, do not tell
            self._tell_numbers(column, gone)
        if self.strategy == "codes":
            self._numbers.add(_codes(column, self.sensor))
        elif self._cut:
            self._numbers.add(as_floats(column))
        else:
            self._add_categories(column[~gone])
        if self._cut and self.strategy == "supervised":
            self._supervise(as_floats(column), public)
        self.rows += len(column)
        self.missing += int(gone.sum())

    def encoder(self) -> Encoder:
        """Return the encoder for what was seen."""
        if self.strategy == "codes":
            return CodesEncoder(size=int(self._numbers.most) + 1, missing=True)
        if not self._cut:
            return self._category_encoder()
        edges = self._supervised
        if edges is None:
            edges = self._numbers.edges(self.strategy, self.n_bins)
        return BinsEncoder(edges=tuple(edges), missing=True)

    def check_worth(self) -> None:
        """Refuse readings that nothing can be learned from, or that seem to identify the row."""
        leave_out = f"Leave it out with --exclude {self.sensor!r}"
        present, different = self.rows - self.missing, len(self._categories)
        if not present:
            raise InputError(
                f"sensor {self.sensor!r} is missing in all {self.rows} rows to learn from. "
                f"{leave_out}."
            )
        # A sensor with one value and gaps still says something by its gaps.
        if self._numbers.n_distinct + different == 1 and not self.missing:
            raise InputError(
                f"sensor {self.sensor!r} reads {self._one_value()} in all {self.rows} rows "
                f"to learn from, so it says nothing. {leave_out}, or hold out less."
            )
        if not self._holds_numbers and different > max(10, present / 2):
            raise InputError(
                f"sensor {self.sensor!r} has {different} different texts in {present} rows, like "
                f"{self._one_value()}; it seems to be a time or an "
                f"identifier. {leave_out}, or group its values first."
            )

    def _one_value(self) -> str:
        found = next(iter(self._categories.values()), None)
        return written(self._numbers.most) if found is None else shown(found)

    @property
    def _cut(self) -> bool:
        """Whether the readings are numbers that are cut into bins."""
        return bool(self._holds_numbers) and self.strategy in _BINS

    def _tell_numbers(self, column: Column, gone: NDArray[np.bool_]) -> None:
        if column.dtype == object and gone.all():
            return
        self._holds_numbers = is_numeric(column)
        if self._by_name and self.strategy in _BINS and not self._holds_numbers:
            raise InputError(
                Parameter("binning"),
                f" {self.strategy!r} was asked for {self.sensor!r}, which does not hold "
                "numbers. Ask for 'categories' there, or convert the column to numbers.",
            )

    def _supervise(self, readings: Floats, public: "Values | None") -> None:
        if self.rows:
            raise needs_all_rows(self.sensor)
        labels = _public_codes(public, len(readings), self.sensor)
        self._supervised = _supervised_edges(readings, labels, self.n_bins)

    def _add_categories(self, present: Column) -> None:
        distinct: Any = present if present.dtype == object else present.unique()
        for value in distinct:
            found = plain(value)
            # JSON has no infinity; such a reading shares the code of the unknown.
            if found is not None and not is_infinite(found):
                self._categories[written(found)] = found
        if len(self._categories) > MAX_CATEGORIES:
            raise InputError(
                f"sensor {self.sensor!r} has {len(self._categories)} different values, like "
                f"{shown(found)}; at most {MAX_CATEGORIES} can be categories. Group them, convert "
                f"the column to numbers, or leave it out with --exclude {self.sensor!r}."
            )

    def _category_encoder(self) -> CategoriesEncoder:
        try:
            categories = tuple(sorted(self._categories.values(), key=_rank))
            return CategoriesEncoder(categories=categories, missing=True)
        except ValidationError as error:
            raise InputError(
                f"sensor {self.sensor!r} cannot be encoded: {explain(error)}."
            ) from None


def needs_all_rows(sensor: str) -> InputError:
    """Return what to say of bins that cannot be learned batch by batch."""
    return InputError(
        Parameter("binning"),
        f" 'supervised' for {sensor!r} needs all rows in memory. Choose 'quantile' or 'uniform'.",
    )


class _Numbers:
    """Numbers, counted one by one while their values are few, sketched beyond."""

    def __init__(self, sensor: str) -> None:
        self.sensor = sensor
        self.least, self.most = np.inf, 0.0
        self._values, self._counts = np.empty(0), np.empty(0, dtype=np.int64)
        self._sketch: Any = None

    @property
    def n_distinct(self) -> int:
        """Number of different values; of the many, at least ``EXACT_VALUES``."""
        return len(self._values)

    def add(self, readings: Floats) -> None:
        finite = readings[np.isfinite(readings)] + 0.0  # -0.0 becomes 0.0
        if not len(finite):
            return
        most = float(finite.max())
        self.most = most if self.least == np.inf else max(self.most, most)
        self.least = min(self.least, float(finite.min()))
        if self._sketch is None and len(self._values) > EXACT_VALUES:
            self._sketch = self._begin_sketch()
        if self._sketch is not None:
            self._sketch.update(finite)
            return
        places, values = pd.factorize(finite)
        values, back = np.unique(np.concatenate([self._values, values]), return_inverse=True)
        counts = np.zeros(len(values), dtype=np.int64)
        np.add.at(counts, back[: len(self._values)], self._counts)
        np.add.at(counts, back[len(self._values) :], np.bincount(places))
        self._values, self._counts = values, counts

    def _begin_sketch(self) -> Any:
        try:
            from datasketches import tdigest_double
        except ImportError:
            raise InputError(
                f"sensor {self.sensor!r} has more than {EXACT_VALUES} different readings, which "
                'takes a sketch of them. Run: pip install "discreet[large]"'
            ) from None
        sketch = tdigest_double(SKETCH_SIZE)
        totals = np.cumsum(self._counts)
        for begin in range(0, int(totals[-1]), _AT_ONCE):
            places = np.arange(begin, min(begin + _AT_ONCE, int(totals[-1])))
            sketch.update(self._values[np.searchsorted(totals, places, side="right")])
        return sketch

    def edges(self, strategy: str, n_bins: int) -> Floats:
        """Return where to cut the numbers into bins."""
        if self._sketch is None:
            return plain_edges(self._values, self._counts, strategy, n_bins)
        if strategy == "uniform":
            ends = np.array([self.least, self.most])
            return plain_edges(ends, np.ones(2, dtype=np.int64), strategy, n_bins, few=False)
        ranks = np.arange(1, n_bins) / n_bins
        cuts = np.unique([self._sketch.get_quantile(rank) for rank in ranks])
        return cuts[(cuts >= self.least) & (cuts < self.most)]


def plain_edges(
    distinct: Floats,
    counts: NDArray[np.int64],
    strategy: str,
    n_bins: int,
    *,
    few: bool = True,
) -> Floats:
    """Return edges between numbers, from their distinct values in order and the count of each.

    Where they are fewer than the bins each value gets its own, unless ``few`` is false.
    """
    if few and len(distinct) <= n_bins:
        return _midpoints(distinct, np.arange(len(distinct) - 1))
    if strategy == "uniform":
        share = np.arange(1, n_bins) / n_bins
        # Weighted ends instead of a step, since the step between huge readings overflows.
        edges = np.unique(distinct[0] * (1 - share) + distinct[-1] * share)
        kept: Floats = edges[(edges >= distinct[0]) & (edges < distinct[-1])]
        return kept
    # The j-th edge follows the first value that brings the count to j/n_bins of the rows.
    below = np.searchsorted(
        np.cumsum(counts) * n_bins, np.arange(1, n_bins) * counts.sum(), side="left"
    )
    return _midpoints(distinct, np.unique(below[below < len(distinct) - 1]))


def _supervised_edges(readings: Floats, public: NDArray[np.int64], n_bins: int) -> Floats:
    finite = np.isfinite(readings)
    distinct, ranks = np.unique(readings[finite], return_inverse=True)
    if len(distinct) < 2 or n_bins < 2:
        return np.empty(0)
    # The tree works in 32-bit floats, which would merge or overflow readings; ranks are safe.
    tree = DecisionTreeClassifier(max_leaf_nodes=int(n_bins), random_state=0)
    tree.fit(ranks.reshape(-1, 1), public[finite])
    splits = tree.tree_.threshold[tree.tree_.feature >= 0]
    return _midpoints(distinct, np.unique(np.floor(splits).astype(np.int64)))


def _midpoints(distinct: Floats, left: NDArray[np.int64]) -> Floats:
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


def _codes(series: Column, sensor: str) -> Floats:
    """Return readings that are codes already, or refuse them."""
    advice = "Binning 'codes' needs whole numbers from 0; choose 'categories' or 'quantile'."
    try:
        readings = as_floats(series)
    except NotNumberError as error:
        raise InputError(f"sensor {sensor!r} holds {shown(error.value)}. {advice}") from None
    present = readings[~np.isnan(readings)]
    wrong = ~((present >= 0) & (present < MAX_CODES - 1) & (np.floor(present) == present))
    if wrong.any():
        value = present[int(np.argmax(wrong))]
        limit = f" The largest code allowed is {MAX_CODES - 2}." if value >= MAX_CODES - 1 else ""
        raise InputError(f"sensor {sensor!r} holds {value:g}. {advice}{limit}")
    return readings


def _rank(value: Plain) -> tuple[int, float, str]:
    if isinstance(value, str):
        return 2, 0.0, value
    return (0 if isinstance(value, bool) else 1), value, written(value)


def is_infinite(value: Plain) -> bool:
    """Whether a value is a number that JSON cannot hold."""
    return isinstance(value, float) and math.isinf(value)
