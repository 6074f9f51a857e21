"""Choose how readings become codes, from rows that teach.

One encoder per column, chosen from its readings and, where asked, the facts of the rows that are
learned from. Applying an encoder needs nothing of this; see ``encoders``.

*Bins of numbers: where they are cut, and which neighbours are merged.* A design can hide a private
fact only as far as codes tell its classes apart, and can answer only as far as they tell the
public ones apart: what is to be kept is what codes say of both together. Merged bins are taken
only if they tell more than quantiles of rows that did not choose them: one half of the rows, as
they come, judges what the other would merge.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as Dict
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ValidationError

from discreet.arrays import Floats, Ints
from discreet.choices import MERGED_BINS
from discreet.data.columns import (
    Column,
    Labels,
    NotNumberError,
    Plain,
    Values,
    as_floats,
    as_series,
    check_kind,
    check_names,
    count_integers,
    distinct_values,
    is_missing,
    is_missing_word,
    is_numeric,
    map_distinct,
    plain,
    understood,
    word_kind,
    written,
)
from discreet.data.encoders import (
    MAX_CODES,
    BinsEncoder,
    CategoriesEncoder,
    CodesEncoder,
    Encoder,
    encode_column,
)
from discreet.data.strict_model import explain
from discreet.errors import (
    ConstantSensorWarning,
    InputError,
    Parameter,
    Problems,
    UnfitSensorError,
    shown,
    suggest,
)

# --- Bins -----------------------------------------------------------------------------------

FINER = 4
"""How many bins to begin with for each that is to be left; quantiles are among their edges."""
_EXACT = 2.0**53  # whole numbers up to this are different numbers as floats, too
MOST_MERGED = 64
"""More bins than this are fine enough."""


class Numbers:
    """The different finite numbers of a column, in order, and how often each occurs."""

    def __init__(self, readings: Values) -> None:
        few = count_integers(np.asarray(readings))
        if few is not None and np.abs(few[0][[0, -1]].astype(np.float64)).max() <= _EXACT:
            self.values, self.counts = few[0].astype(np.float64), few[1]
            return
        numbers = as_floats(as_series(readings))
        places, values = pd.factorize(numbers[np.isfinite(numbers)] + 0.0)  # -0.0 becomes 0.0
        order = np.argsort(values)
        self.values = values[order]
        self.counts = np.bincount(places, minlength=len(values))[order]

    def edges(self, strategy: str, n_bins: int) -> Floats:
        """Return edges between the numbers; where they are few, each gets its own bin."""
        distinct, counts = self.values, self.counts
        if len(distinct) <= n_bins:
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


# --- Merging neighbours ---------------------------------------------------------------------


class Halves:
    """The facts of rows, and which half of the table each row is in."""

    def __init__(self, facts: Sequence[Labels] = ()) -> None:
        self.facts = facts

    @cached_property
    def _cells(self) -> list[tuple[int, Ints]]:
        """How many combinations of classes there are, and which each row has, halves apart.

        For each private fact with the public one; if there is none, for the public one alone.
        """
        public, *private = self.facts
        n_rows, found = len(public.index), []
        half, alone = np.arange(n_rows) >= n_rows // 2, np.zeros(n_rows, dtype=np.int64)
        for n_classes, index in [(each.n_classes, each.index) for each in private] or [(1, alone)]:
            size = public.n_classes * n_classes
            found.append((size, half * size + public.index * n_classes + index))
        return found

    def count(self, bins: Ints, n_bins: int) -> list[Ints]:
        """Count the rows of every bin that have which classes: halves by bins by cells."""
        found = []
        for size, cell in self._cells:
            counts = np.bincount(cell * n_bins + bins, minlength=2 * size * n_bins)
            found.append(counts.reshape(2, size, n_bins).transpose(0, 2, 1))
        return found


def choose_bins(counts: Sequence[Ints], plain: Ints, n_bins: int) -> Ints:
    """Return which bins remain the last of theirs: merged by the counts, or plainly.

    ``counts``: for each private fact, halves by bins by cells. ``plain``: what to keep unless
    merging to ``n_bins`` tells more of the other half.
    """
    gain = 0.0
    for half in (0, 1):
        merged = merge_bins([table[half] for table in counts], n_bins)
        for table in counts:
            own, other = table[half], table[1 - half]
            gain += _tells(own, other, merged) - _tells(own, other, plain)
    return merge_bins([table.sum(axis=0) for table in counts], n_bins) if gain > 0 else plain


def merge_bins(counts: Sequence[Ints], n_bins: int) -> Ints:
    """Return which bins remain the last of theirs, once neighbours are merged to so many.

    Merged are the two whose rows lose the least likelihood by sharing one distribution over the
    classes, for the private fact that loses the most.

    ``counts``: for each private fact, bins by cells.
    """
    tables = [table.astype(np.float64) for table in counts]
    last = np.arange(len(tables[0]))
    while len(last) > n_bins:
        k = int(np.argmin(np.max([_losses(table) for table in tables], axis=0)))
        for table in tables:
            table[k + 1] += table[k]
        left = np.arange(len(last)) != k
        tables, last = [table[left] for table in tables], last[left]
    return last


def _tells(own: Ints, other: Ints, last: Ints) -> float:
    """Return the log-likelihood of the classes in one half by the shares in the other one."""
    begins = np.concatenate([[0], last[:-1] + 1])
    known, new = (np.add.reduceat(table, begins, axis=0) for table in (own, other))
    # One row more for each code, shared as in all rows: no class is impossible that has rows.
    shares = (own.sum(axis=0) + 1.0) / (own.sum() + own.shape[1])
    chances = (known + shares) / (known.sum(axis=1, keepdims=True) + 1.0)
    return float(np.sum(new * np.log(chances)))


def _losses(table: Floats) -> Floats:
    """Return what merging each bin with the next one costs in log-likelihood."""
    alone = _likelihood(table)
    return np.asarray(alone[:-1] + alone[1:] - _likelihood(table[:-1] + table[1:]))


def _likelihood(table: Floats) -> Floats:
    total = table.sum(axis=1)
    return np.asarray(_x_log_x(table).sum(axis=1) - _x_log_x(total))


def _x_log_x(values: Floats) -> Floats:
    return np.asarray(values * np.log(np.maximum(values, 1.0)))  # 0 of 0; counts are whole


# --- One column -----------------------------------------------------------------------------

STRATEGIES = ("merged", "quantile", "uniform", "categories", "codes")
DEFAULT_STRATEGY = "merged"
DEFAULT_BINS = 10
MAX_CATEGORIES = 1_000
"""Most categories that fitting accepts; more is nearly always an identifier."""
_BINS = ("merged", "quantile", "uniform")


class ColumnScan:
    """What one sensor's readings look like.

    ``strategy``, ``n_bins``: as in ``fit_encoders``. ``by_name``: whether the strategy was chosen
    for this column, so that one that does not suit it is refused. ``facts``: those of the rows, the
    public one first. Raises InputError: if the column holds dates, lists or complex numbers, too
    many categories, or does not suit the strategy.
    """

    def __init__(
        self,
        sensor: str,
        column: Column,
        strategy: str = DEFAULT_STRATEGY,
        n_bins: int = DEFAULT_BINS,
        *,
        facts: Halves | None = None,
        by_name: bool = False,
    ) -> None:
        _check_choice(sensor, strategy, n_bins)
        check_kind(column, sensor)
        self.sensor, self.strategy, self.n_bins = sensor, strategy, n_bins
        self.rows, gone = len(column), is_missing(column)
        self._gaps, self._halves, self._column = int(gone.sum()), facts or Halves(), column
        self._holds_numbers = is_numeric(column)
        self._categories = Categories(sensor, column[:0], may_be_numbers=False)
        self._numbers = Numbers(np.empty(0))
        if by_name and strategy in _BINS and not gone.all():
            self._check_numbers()
        if strategy == "codes":
            self._numbers = Numbers(_codes(column, sensor))
        elif self._holds_numbers and strategy in _BINS:
            self._numbers = Numbers(column)
        else:
            bins = strategy in _BINS
            self._categories = Categories(sensor, column[~gone], may_be_numbers=bins)
            if self._categories.are_numbers:
                self._numbers = Numbers(as_floats(column))

    def encoder(self) -> Encoder:
        """Return the encoder for what was seen."""
        if self.strategy == "codes":
            values = self._numbers.values
            return CodesEncoder(size=int(values[-1]) + 1 if len(values) else 1, missing=True)
        if not (self._categories.are_numbers or (self._holds_numbers and self.strategy in _BINS)):
            return self._categories.encoder()
        return BinsEncoder(edges=tuple(self._edges()), missing=True)

    def _edges(self) -> Floats:
        plain = self._numbers.edges(self.strategy, self.n_bins)
        if self.strategy != "merged" or not self._halves.facts or self.n_bins > MOST_MERGED:
            return plain
        fine = self._numbers.edges(self.strategy, FINER * self.n_bins)
        if len(fine) <= len(plain):
            return plain
        encoder = BinsEncoder(edges=tuple(fine), missing=True)
        codes = encode_column(self._column, encoder, self.sensor)
        counts = self._halves.count(codes, encoder.n_codes)
        present = [each[:, :-1] for each in counts]  # the last code is for missing
        last = np.append(np.searchsorted(fine, plain), len(fine))
        return fine[choose_bins(present, last, self.n_bins)[:-1]]

    @property
    def constant(self) -> str | None:
        """What it reads in all rows, or that it is missing; None if readings differ."""
        if not self._present:
            return "missing"
        different = len(self._categories.values) or len(self._numbers.values)
        if different > 1 or self._present < self.rows:
            return None  # a sensor with one value and gaps still says something by its gaps
        if not different:
            return "infinite"
        rounded = self._holds_numbers and self._column.nunique() > 1
        return f"{self._one_value()}{', rounded to a float' if rounded else ''}"

    def check_worth(self) -> None:
        """Refuse readings that seem to identify the row."""
        different = len(self._categories.values)
        if not self._holds_numbers and different > max(10, self._present / 2):
            raise UnfitSensorError(
                self.sensor,
                f"sensor {self.sensor!r} has {different} different texts in {self._present} rows, "
                f"like {self._one_value()}; it seems to be a time or an identifier. Leave it out "
                f"with --exclude {self.sensor!r}, or group its values first.",
            )

    @property
    def _present(self) -> int:
        return self.rows - self._gaps - self._categories.missing

    def _one_value(self) -> str:
        found = self._categories.values
        return shown(found[0]) if found else written(float(self._numbers.values[-1]))

    def _check_numbers(self) -> None:
        if not is_numeric(understood(self._column)):
            raise InputError(
                Parameter("binning"),
                f" {self.strategy!r} was asked for {self.sensor!r}, which does not hold "
                "numbers. Ask for 'categories' there, or convert the column to numbers.",
            )


def _check_choice(sensor: str, strategy: str, n_bins: int) -> None:
    if strategy not in STRATEGIES:
        hint = f"{suggest(strategy, STRATEGIES)} {MERGED_BINS}."
        raise InputError(f"no binning {strategy!r} for {sensor!r}. {hint}")
    if type(plain(n_bins)) is not int or not 1 <= n_bins < MAX_CODES:
        raise InputError(
            f"n_bins must be a whole number from 1 to {MAX_CODES - 1}; for {sensor!r} it is "
            f"{shown(n_bins)}."
        )


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


# --- Values that are distinguished one by one ------------------------------------------------


class Categories:
    """The different values of a column.

    ``present``: readings without gaps. ``may_be_numbers``: whether texts that all turn out to be
    numbers, or words for a missing one, are to be taken for numbers; there may be any number of
    these. ``words``: rows with such a word. Raises InputError: if there are too many different
    values.
    """

    def __init__(self, sensor: str, present: Column, *, may_be_numbers: bool) -> None:
        self.sensor = sensor
        self._wanted = may_be_numbers
        self._kinds: set[str] = set()
        self._values: dict[str, Plain] = {}
        for value in distinct_values(present):
            found = plain(value)
            self._kinds.add(word_kind(value))
            # JSON has no infinity; such a reading shares the code of the unknown.
            endless = isinstance(found, float) and math.isinf(found)
            if found is not None and not endless and len(self._values) <= MAX_CATEGORIES:
                self._values[written(found)] = found
        self.words = int(map_distinct(present, is_missing_word).sum()) if len(present) else 0
        if not self.are_numbers:
            self._check_few()

    @property
    def are_numbers(self) -> bool:
        """Whether all are numbers, and words tell that this is how they are meant."""
        return self._wanted and self._kinds == {"missing", "number"}

    @property
    def missing(self) -> int:
        """How many rows have no reading, as a word says."""
        return self.words if self.are_numbers or self._are_switches else 0

    @property
    def values(self) -> list[Plain]:
        """The different values, but for words that say that there is none."""
        if self.are_numbers:
            return []
        found = self._values.values()
        return [each for each in found if not (self._are_switches and is_missing_word(each))]

    def encoder(self) -> CategoriesEncoder:
        """Return the encoder for these values."""
        self._check_few()
        try:
            return CategoriesEncoder(categories=tuple(sorted(self.values, key=_rank)), missing=True)
        except ValidationError as error:
            raise InputError(
                f"sensor {self.sensor!r} cannot be encoded: {explain(error)}."
            ) from None

    @property
    def _are_switches(self) -> bool:
        return self._kinds == {"missing", "switch"}

    def _check_few(self) -> None:
        if len(self._values) > MAX_CATEGORIES:
            raise UnfitSensorError(
                self.sensor,
                f"sensor {self.sensor!r} has more than {MAX_CATEGORIES} different values, like "
                f"{shown(next(reversed(self._values.values())))}, which is the most that can be "
                "categories. Group them, convert the column to numbers, or leave it out with "
                f"--exclude {self.sensor!r}.",
            )


def _rank(value: Plain) -> tuple[int, float, str]:
    if isinstance(value, str):
        return 2, 0.0, value
    return (0 if isinstance(value, bool) else 1), value, written(value)


# --- All columns ----------------------------------------------------------------------------

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

    ``table``: the readings, one column per sensor. ``strategy``: ``"merged"``, ``"quantile"``
    or ``"uniform"`` cut numbers into bins, ``"categories"`` takes every value for a category and
    ``"codes"`` takes integers as they are. Text and booleans become categories. Columns that a
    mapping leaves out get the default. ``n_bins``: most bins per column, the code for missing
    aside. ``facts``: the public one, then the private ones, for ``"merged"``, which is
    ``"quantile"`` without them. Returns in the order of the columns. Each has a code for missing.
    Raises InputError: if there are no columns, two of one name, or one that does not suit its
    strategy.
    """
    return [scan().encoder() for scan in _scans(table, strategy, n_bins, facts)]


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
    Raises InputError: if no sensor is left, and as ``fit_encoders`` does, but of all columns at
    once.
    """
    found: list[tuple[str, Encoder]] = []
    constant: list[str] = []
    problems = Problems()
    for make in _scans(table, strategy, n_bins, facts):
        with problems.gathered():
            scan = make()
            if (value := scan.constant) is not None:
                constant.append(f"{scan.sensor!r} ({value})")
                continue
            if worth:
                scan.check_worth()
            found.append((scan.sensor, scan.encoder()))
    problems.refuse()
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


def _scans(
    table: pd.DataFrame,
    strategy: str | Dict[Any, str],
    n_bins: int | Dict[Any, int],
    facts: Sequence[Labels],
) -> Iterator[Callable[[], ColumnScan]]:
    """Yield what looks at each column, once all choices for it are checked."""
    names = [str(column) for column in table.columns]
    if not names:
        raise InputError("the readings have no columns. Give at least one sensor.")
    check_names(names, "the readings")
    own = by_column("binning", strategy, names) if isinstance(strategy, Dict) else {}
    bins = by_column("n_bins", n_bins, names) if isinstance(n_bins, Dict) else {}
    chosen = DEFAULT_STRATEGY if isinstance(strategy, Dict) else strategy
    count = DEFAULT_BINS if isinstance(n_bins, Dict) else n_bins
    halves = Halves(facts)
    for i, name in enumerate(names):
        how = own.get(name, chosen), bins.get(name, count)
        column = as_series(table.iloc[:, i])
        _check_choice(name, *how)  # of many columns one choice, which is told once
        yield partial(ColumnScan, name, column, *how, facts=halves, by_name=name in own)


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
