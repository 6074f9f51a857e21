"""Whether rows of a table resemble one another more than independent rows would (stage 1).

Every certificate takes rows to be independent draws given the private class. Their order can
contradict that: rows that follow one another, or lie a fixed distance apart, are alike. Readings
are turned into a few standardised features, what the private class explains is taken out, and
correlations at every distance are compared with those of the same rows shuffled within their
classes. A table that is merely sorted by class therefore passes; one that is sorted by a reading
does not, since its order is not that of independent draws. ``chance`` says what is beyond chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from discreet.arrays import Floats, Ints, distinct_rows
from discreet.data.chance import (
    MIN_PAIRS,
    Copies,
    Kind,
    alarm,
    autocovariances,
    bundled,
    centred,
    find_copies,
    find_copies_across,
    standardised,
)
from discreet.data.columns import (
    Column,
    as_floats,
    as_series,
    is_missing,
    is_numeric,
    understood,
    written_column,
)
from discreet.data.strict_model import Model

MIN_ROWS = 30
"""Fewest rows whose order is looked at."""
MIN_GROUPS = 10
"""Fewest groups whose order is looked at."""
MOST_ROWS = 20_000
"""Most rows whose order is looked at; of a longer table, stretches of it."""
STRETCHES = 12
"""How many there are: divisible by 2, 3, 4 and 6, to find a table appended to itself."""
_FEWER_ROWS, _SHUFFLED_CELLS = 2_500, 400_000  # of a wide table; rows times features
_MOST_CELLS = 2_000_000  # rows times columns that are read once
_MOST_COMPARED = 100_000  # rows that are searched for copies, or that tell of groups
_COPIES_ALPHA = 0.0005
_COMMON, _MOST_LEVELS, _SIGNS = 0.02, 4, 3
_RESOLUTIONS = (None, 1_000, 100)  # numbers as they are, and in so many bins
_MOST_BINS = 1_000_000  # either way of the middle


# --- Which rows ------------------------------------------------------------------------------


def stretches(n_rows: int, most: int) -> Ints:
    """Return the places of all rows, or of stretches of them that begin at equal distances.

    They depend on nothing else, so that they are the same however a table is read. Of rows that
    were chosen so, fewer are chosen as they would be of the whole table.
    """
    if n_rows <= most:
        return np.arange(n_rows)
    begins = np.arange(STRETCHES) * n_rows // STRETCHES
    return (begins[:, None] + np.arange(most // STRETCHES)).ravel()


def looked_at(n_rows: int, n_columns: int) -> Ints:
    """Return the places of the rows of a table that are kept to see whether rows are independent.

    ``n_columns``: all that the table has. No check of its rows looks at others.
    """
    return stretches(n_rows, max(MOST_ROWS, _affordable(_MOST_CELLS, n_columns)))


def _affordable(cells: int, n_columns: int) -> int:
    return min(_MOST_COMPARED, cells // max(1, n_columns))


# --- What was found --------------------------------------------------------------------------


class Dependence(Model):
    """Whether rows depend on one another, and how that shows.

    ``kind``: rows that follow one another are alike; rows ``lag`` apart; rows at most ``lag``
    apart, on average; or rows occur again and again. None where nothing was found. ``lag``: how far
    apart, in rows (or in groups). ``strength``: the correlation of one sensor at that distance,
    given the private class. ``chance``: the correlation there that would be as remarkable as the
    most remarkable one, at any distance, of the same rows after shuffling. ``rows``: how many rows
    (or groups) were looked at; fewer than ``MIN_ROWS`` are not checked. ``classes_in_runs``:
    whether the private classes themselves do not come in random order: then their frequencies
    cannot be estimated from these rows. ``copies``: how many different rows occur ``lag`` times, if
    those are too many. ``in_order_of``: the column of times that rows were sorted by to see it.
    """

    found: bool
    kind: Kind | None = None
    lag: int | None = Field(default=None, ge=1)
    strength: float = Field(default=0.0, ge=-1.0, le=1.0)
    chance: float = Field(default=0.0, ge=0.0, le=1.0)
    rows: int = Field(ge=0)
    unit: Literal["rows", "groups"] = "rows"
    classes_in_runs: bool = False
    copies: int | None = Field(default=None, ge=1)
    in_order_of: str | None = None

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        if len({self.found, self.kind is not None, self.lag is not None}) > 1:
            raise PydanticCustomError(
                "discreet_dependence", "must name kind and lag if, and only if, found is true"
            )
        return self

    @property
    def checked(self) -> bool:
        """Whether there was enough to look at."""
        return self.rows >= (MIN_ROWS if self.unit == "rows" else MIN_GROUPS)

    @property
    def words(self) -> str:
        """One sentence for a user, without the full stop."""
        if not (self.checked or self.found):
            return f"{self.rows} {self.unit} are too few to check whether they are independent"
        if self.kind is None:
            return f"no order was found among the {self.rows} {self.unit} that were looked at"
        if self.kind == "copies":
            often = f"{self.lag} times" if self.unit == "rows" else f"in {self.lag} groups each"
            return (
                f"{self.cause}: {self.copies} different rows occur {often}, which independent "
                f"{self.unit} cannot do so often"
            )
        return (
            f"{self.cause}: correlation {_rounded(self.strength)} given the private class, where "
            f"shuffled {self.unit} reach {_rounded(self.chance)}"
        )

    @property
    def cause(self) -> str:
        """What was found, without figures; nothing if nothing was."""
        if self.kind is None or self.kind == "copies":
            where = "" if self.unit == "rows" else " in different groups"
            return f"rows occur again and again{where}" if self.kind else ""
        sorted_by = "" if self.in_order_of is None else f"in the order of {self.in_order_of!r}, "
        alike = {
            "next": "follow one another",
            "apart": f"are {self.lag} apart",
            "within": f"are at most {self.lag} apart",
        }[self.kind]
        return f"{sorted_by}{self.unit} that {alike} resemble each other"


def _rounded(correlation: float) -> str:
    """Return two digits, of 0.998 those that do not say 1."""
    if abs(correlation) < 0.1:
        return f"{correlation:.1g}"
    return f"{int(correlation * 100) / 100:.2f}"


def worse_of(first: Dependence, second: Dependence) -> Dependence:
    """Return the one that was found, or else the one that saw more rows."""
    return max(first, second, key=lambda each: (each.found, each.rows))


def check_dependence(
    readings: pd.DataFrame,
    facts: Sequence[ArrayLike],
    *,
    public: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    told_by_order: Sequence[str] = (),
    seed: int = 0,
) -> Dependence:
    """Compare the order of a table with that of independent rows.

    ``readings``: the sensors' columns, of any kind, gaps allowed; rows in the order they came in.
    ``facts`` of shape (n_rows,): the private facts. What they explain is no dependence. ``public``
    of shape (n_rows,): the public fact. A table that is sorted by it passes, too. ``groups`` of
    shape (n_rows,): look at groups instead, in the order of their first rows. ``told_by_order``:
    readings that are told by the place of a row, as the hour is in rows that come in the order of
    time: they count for copies only. ``seed``: seed of the shuffles. The same rows and seed give
    the same answer. Independent rows are seldom found dependent, however many columns there are:
    ``research.benchmarks.check_tables`` counts.
    """
    rng = np.random.default_rng(seed)
    compared = readings.drop(columns=list(told_by_order))
    features, cells, seen = _to_compare(compared, facts, public, groups, rng)
    unit: Literal["rows", "groups"] = "rows" if groups is None else "groups"
    known: dict[str, Any] = {"rows": seen, "unit": unit}
    if seen >= (MIN_ROWS if groups is None else MIN_GROUPS):
        indicators = _indicators(cells, rng)
        known["classes_in_runs"] = alarm(indicators, np.zeros_like(cells), rng) is not None
        order = alarm(features, cells, rng)
        if order is not None:
            return Dependence(found=True, **order, **known)
    elif groups is None:
        return Dependence(found=False, **known)
    if groups is None:
        copies = _copies(readings, facts)
    else:
        copies = _copies(compared, [*facts, *([] if public is None else [public])], groups)
    return _told(copies, known)


def _told(copies: Copies | None, known: dict[str, Any]) -> Dependence:
    if copies is None:
        return Dependence(found=False, **known)
    return Dependence(found=True, kind="copies", lag=copies.times, copies=copies.rows, **known)


def correlation_length(readings: pd.DataFrame, facts: Sequence[ArrayLike], *, seed: int = 0) -> int:
    """Return the first distance at which no sensor resembles itself, given the private class.

    ``readings``, ``facts``, ``seed``: as ``check_dependence`` takes them. Returns in rows; about
    the number of rows if resemblance lasts that long.
    """
    rng = np.random.default_rng(seed)
    features, _, n_rows = _to_compare(readings, facts, None, None, rng)
    if n_rows < MIN_ROWS or not len(features):
        return n_rows
    lags = np.arange(1, n_rows - MIN_PAIRS)
    found = np.abs(autocovariances(bundled(features, rng), len(lags))).max(axis=0)
    # Four standard errors, or what is too weak to matter in a large table.
    alike = found / (n_rows - lags) > max(4.0 / np.sqrt(n_rows), 0.05)
    return int(np.argmin(alike)) + 1 if not alike.all() else n_rows


# --- Classes ---------------------------------------------------------------------------------


def _taken(values: ArrayLike, rows: Ints) -> Column:
    return as_series(values).iloc[rows]  # type: ignore[arg-type]


def _numbers(column: Column) -> Ints:
    """Return the classes as numbers from 0."""
    if column.dtype == object:
        column = pd.Series(written_column(column))
    return np.asarray(pd.factorize(column, use_na_sentinel=False)[0], dtype=np.int64)


def _cells(facts: Sequence[Column], public: Column | None, n_rows: int) -> Ints:
    """Return the combination of private classes of every row.

    A public fact that the table is sorted by counts among them: rows that were gathered, or
    put down, class by class are independent given their class.
    """
    private = np.zeros(n_rows, dtype=np.int64)
    for fact in facts:
        private = _joined(private, _numbers(fact))
    if public is None:
        return private
    both = _joined(private, shown_to_all := _numbers(public))
    return both if _is_sorted(both) or _is_sorted(shown_to_all) else private


def _joined(first: Ints, second: Ints) -> Ints:
    pairs = first * (int(second.max(initial=0)) + 1) + second
    return np.asarray(np.unique(pairs, return_inverse=True)[1], dtype=np.int64)


def _is_sorted(classes: Ints) -> bool:
    """Whether the rows of every class are all together."""
    runs = 1 + int(np.count_nonzero(np.diff(classes)))
    return runs == len(np.unique(classes))


# --- Features --------------------------------------------------------------------------------


def _to_compare(
    readings: pd.DataFrame,
    facts: Sequence[ArrayLike],
    public: ArrayLike | None,
    groups: ArrayLike | None,
    rng: np.random.Generator,
) -> tuple[Floats, Ints, int]:
    """Return standardised features, one row each, the cells to shuffle in, and how many rows."""
    rows = _compared(readings, groups is not None)
    readings = readings.iloc[rows]
    seen = None if public is None else _taken(public, rows)
    cells = _cells([_taken(fact, rows) for fact in facts], seen, len(rows))
    if groups is None:
        return standardised(_features(readings, rng), cells), cells, len(rows)
    number = _numbers(_taken(groups, rows))
    sizes = np.bincount(number)
    features = centred(_features(readings, rng), cells)
    means = np.stack([np.bincount(number, each) / sizes for each in features])
    common = _commonest(cells, number)
    return standardised(means, np.zeros_like(common)), common, len(sizes)


def _compared(readings: pd.DataFrame, in_groups: bool) -> Ints:
    """Return the places of as many rows as are affordable: groups are shuffled, not their rows."""
    n_rows, n_columns = readings.shape
    if in_groups:
        return stretches(n_rows, _affordable(_MOST_CELLS // 2, n_columns))
    shuffled = max(_FEWER_ROWS, _affordable(_SHUFFLED_CELLS // 2, n_columns))
    return stretches(n_rows, min(MOST_ROWS, shuffled))


def _features(readings: pd.DataFrame, rng: np.random.Generator) -> Floats:
    """Return what is compared of the readings, one row per feature, without gaps."""
    found = [each for name in range(readings.shape[1])
             for each in _column_features(readings.iloc[:, name], rng)]  # fmt: skip
    return np.stack(found) if found else np.zeros((1, len(readings)))


def _column_features(column: Column, rng: np.random.Generator) -> Iterator[Floats]:
    column = understood(column)
    gone = is_missing(column)
    if gone.any():
        yield gone.astype(np.float64)
    if gone.all():
        return
    if is_numeric(column):
        yield from _number_features(as_floats(column), gone)
    else:
        codes = np.full(len(column), -1)
        codes[~gone] = _numbers(column[~gone])
        yield from _level_features(codes, rng)


def _number_features(values: Floats, gone: NDArray[np.bool_]) -> Iterator[Floats]:
    """Yield the place of each number among all, and how far it is from the middle.

    The latter shows a series whose size comes in runs while its sign does not.
    """
    place = np.zeros(len(values))
    _, index, counts = np.unique(values[~gone], return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - counts / 2.0
    place[~gone] = ranks[index] / len(index) - 0.5
    yield place
    if len(counts) > 2:
        yield np.abs(place)


def _level_features(codes: Ints, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield which rows have a common level; of many levels also signs drawn by lot for each."""
    counts = np.bincount(codes[codes >= 0])
    common = np.argsort(-counts, kind="stable")[:_MOST_LEVELS]
    for level in common[counts[common] >= _COMMON * len(codes)]:
        yield (codes == level).astype(np.float64)
        if len(counts) == 2:
            return
    if len(counts) > _MOST_LEVELS + 1:
        for _ in range(_SIGNS):
            signs = np.append(rng.choice([-1.0, 1.0], len(counts)), 0.0)  # a gap has code -1
            yield signs[codes]


def _indicators(cells: Ints, rng: np.random.Generator) -> Floats:
    """Return the classes as features."""
    found = list(_level_features(cells, rng)) if cells.any() else []
    nothing = np.zeros_like(cells)
    return standardised(np.stack(found) if found else np.zeros((1, len(cells))), nothing)


def _commonest(cells: Ints, number: Ints) -> Ints:
    """Return the commonest cell of every group."""
    n_cells = int(cells.max()) + 1
    counts = np.bincount(number * n_cells + cells, minlength=(int(number.max()) + 1) * n_cells)
    return np.asarray(counts.reshape(-1, n_cells).argmax(axis=1), dtype=np.int64)


# --- Copies ----------------------------------------------------------------------------------


def check_copies(
    readings: pd.DataFrame, facts: Sequence[ArrayLike], groups: ArrayLike
) -> Dependence:
    """Look for rows that occur again and again in different groups, and for nothing else."""
    seen = len(np.unique(np.asarray(groups)))
    return _told(_copies(readings, facts, groups), {"rows": seen, "unit": "groups"})


def occur_too_often(readings: pd.DataFrame, facts: Sequence[ArrayLike]) -> bool:
    """Whether rows occur more often than independent ones do."""
    return _copies(readings, facts) is not None


def _copies(
    readings: pd.DataFrame, facts: Sequence[ArrayLike], groups: ArrayLike | None = None
) -> Copies | None:
    """Return rows that occur too often, as they are or in narrow bins; or in too many groups."""
    chosen = stretches(len(readings), _affordable(_MOST_CELLS, readings.shape[1]))
    classes = [_numbers(_taken(fact, chosen)) for fact in facts]
    rows = readings.iloc[chosen]
    if groups is not None:
        return _copies_across(rows, classes, _numbers(_taken(groups, chosen)))
    columns = [rows.iloc[:, k] for k in range(rows.shape[1])]
    for bins in _RESOLUTIONS:
        codes = np.column_stack([*classes, *(_codes(column, bins) for column in columns)])
        found = find_copies(distinct_rows(codes).inverse, _COPIES_ALPHA / len(_RESOLUTIONS))
        if found is not None:
            return found
    return None


def _copies_across(rows: pd.DataFrame, classes: list[Ints], groups: Ints) -> Copies | None:
    """Return rows that are exactly the same in too many groups.

    What only rises in each group, as the hour does in a day, makes rows of many groups equal.
    """
    columns = (rows.iloc[:, k] for k in range(rows.shape[1]))
    codes = [_numbers(each) for each in columns if not _rises(each, groups)]
    keys = distinct_rows(np.column_stack([*classes, *codes])).inverse
    return find_copies_across(keys, groups, _COPIES_ALPHA)


def _rises(column: Column, groups: Ints) -> bool:
    if not is_numeric(column):
        return False
    order = np.argsort(groups, kind="stable")
    steps = np.diff(as_floats(column)[order])
    return not np.any(steps[np.diff(groups[order]) == 0] < 0)


def _codes(column: Column, bins: int | None) -> Ints:
    """Return the values by numbers, as they are or in bins of equal width.

    Bins with equally many rows would make equal rows more regular than chance does.
    """
    if bins is None or not is_numeric(column):
        return _numbers(column)
    values = as_floats(column)
    usual = values[np.isfinite(values)]
    low, high = np.quantile(usual, [0.05, 0.95]) if len(usual) else (0.0, 0.0)
    if high <= low:
        return _numbers(column)
    place = np.clip((values - low) * (bins / (high - low)), -_MOST_BINS, _MOST_BINS)
    return np.nan_to_num(np.floor(place), nan=_MOST_BINS + 1.0).astype(np.int64)
