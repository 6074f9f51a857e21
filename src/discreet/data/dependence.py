"""Whether rows of a table resemble one another more than independent rows would (stage 1).

Every certificate takes rows to be independent draws given the private class. Their order can
contradict that: rows that follow one another, or lie a fixed distance apart, are alike. Readings
are turned into a few standardised features, what the private class explains is taken out, and
correlations at every distance are compared with those of the same rows shuffled within their
classes. A table that is merely sorted by class therefore passes; one that is sorted by a reading
does not, since its order is not that of independent draws.

Three families of correlations are looked at, each with its share of the false alarms: rows that
follow one another, rows at any one distance (sensors in rotation, days, a table appended to
itself), and all rows up to a distance together (a slow drift below much noise).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from discreet.data.columns import (
    Column,
    as_floats,
    as_series,
    is_missing,
    is_numeric,
    understood,
    written_column,
)
from discreet.data.copies import Copies, find_copies
from discreet.data.strict_model import Model
from discreet.data.unique_rows import distinct_rows

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Kind = Literal["next", "apart", "within", "copies"]

MIN_ROWS = 30
"""Fewest rows whose order is looked at."""
MIN_GROUPS = 10
"""Fewest groups whose order is looked at."""
MOST_ROWS = 20_000
"""Most rows whose order is looked at; of a longer table, stretches of it."""
_FEWER_ROWS, _SHUFFLED_CELLS = 2_500, 400_000  # of a wide table; rows times features
_MOST_CELLS = 2_000_000  # rows times columns that are read once
_MOST_COMPARED = 100_000  # rows that are searched for copies
_STRETCHES = 12  # divisible by 2, 3, 4 and 6, so that a table appended to itself is found
_SHUFFLES = 199  # an alarm beats all of them: at most one in 200 by chance
_CLEAR_SHUFFLES, _CLEAR = 19, 1.5  # beating 19 of them by half suffices
_SHARE_OF_NEXT, _SHARE_OF_OTHERS = 0.003, 0.0005  # of the false alarms; there are four others
_COPIES_ALPHA = 0.001
_MIN_PAIRS = 20  # fewest pairs of rows that a correlation is computed from
_MOST_SERIES = 24  # more features than these are added up for the correlations at all distances
_MULTIPLIED = 8  # of these, the first are multiplied with one another
_EVEN = 3.0  # largest square of evenly spread ranks whose variance is 1
_COMMON, _MOST_LEVELS, _SIGNS = 0.02, 4, 3
_RESOLUTIONS = (None, 1_000, 100)  # numbers as they are, and in so many bins
_MOST_BINS = 1_000_000  # either way of the middle


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
    cannot be told from these rows. ``copies``: how many different rows occur ``lag`` times, if
    those are too many.
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
        if not self.checked:
            return f"{self.rows} {self.unit} are too few to check whether they are independent"
        if self.kind is None:
            return f"no order was found among the {self.rows} {self.unit} that were looked at"
        if self.kind == "copies":
            return (
                f"rows occur again and again: {self.copies} different rows occur {self.lag} times, "
                "which independent rows cannot do so often"
            )
        place = {
            "next": f"{self.unit} that follow one another resemble each other",
            "apart": f"{self.unit} that are {self.lag} apart resemble each other",
            "within": f"{self.unit} that are at most {self.lag} apart resemble each other",
        }[self.kind]
        return (
            f"{place}: correlation {_rounded(self.strength)} given the private class, where "
            f"shuffled {self.unit} reach {_rounded(self.chance)}"
        )


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
    seed: int = 0,
) -> Dependence:
    """Compare the order of a table with that of independent rows.

    ``readings``: the sensors' columns, of any kind, gaps allowed; rows in the order they came in.
    ``facts`` of shape (n_rows,): the private facts. What they explain is no dependence. ``public``
    of shape (n_rows,): the public fact. A table that is sorted by it passes, too. ``groups`` of
    shape (n_rows,): look at groups instead, in the order of their first rows. ``seed``: seed of the
    shuffles. The same rows and seed give the same answer. Returns false alarms are rarer than one
    in a hundred.
    """
    n_rows = len(readings)
    cells = _cells(facts, public, n_rows)
    rng = np.random.default_rng(seed)
    features, cells, seen = _to_compare(readings, cells, groups, rng)
    unit: Literal["rows", "groups"] = "rows" if groups is None else "groups"
    if seen < (MIN_ROWS if groups is None else MIN_GROUPS):
        return Dependence(found=False, rows=seen, unit=unit)
    in_runs = _alarm(_indicators(cells, rng), np.zeros_like(cells), rng) is not None
    known: dict[str, Any] = {"rows": seen, "unit": unit, "classes_in_runs": in_runs}
    order = _alarm(features, cells, rng)
    if order is not None:
        return Dependence(found=True, **order, **known)
    copies = _copies(readings, facts) if groups is None else None
    if copies is not None:
        return Dependence(found=True, kind="copies", lag=copies.times, copies=copies.rows, **known)
    return Dependence(found=False, **known)


def correlation_length(readings: pd.DataFrame, facts: Sequence[ArrayLike], *, seed: int = 0) -> int:
    """Return the first distance at which no sensor resembles itself, given the private class.

    ``readings``, ``facts``, ``seed``: as ``check_dependence`` takes them. Returns in rows; about
    the number of rows if resemblance lasts that long.
    """
    rng = np.random.default_rng(seed)
    features, _, n_rows = _to_compare(readings, _cells(facts, None, len(readings)), None, rng)
    if n_rows < MIN_ROWS or not len(features):
        return n_rows
    lags = np.arange(1, n_rows - _MIN_PAIRS)
    found = np.abs(_autocovariances(_bundled(features, rng), len(lags))).max(axis=0)
    # Four standard errors, or what is too weak to matter in a large table.
    alike = found / (n_rows - lags) > max(4.0 / np.sqrt(n_rows), 0.05)
    return int(np.argmin(alike)) + 1 if not alike.all() else n_rows


# --- Classes ---------------------------------------------------------------------------------


def _numbers(values: ArrayLike) -> Ints:
    """Return the classes as numbers from 0."""
    column = as_series(values)  # type: ignore[arg-type]
    if column.dtype == object:
        column = pd.Series(written_column(column))
    return np.asarray(pd.factorize(column, use_na_sentinel=False)[0], dtype=np.int64)


def _cells(facts: Sequence[ArrayLike], public: ArrayLike | None, n_rows: int) -> Ints:
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
    readings: pd.DataFrame, cells: Ints, groups: ArrayLike | None, rng: np.random.Generator
) -> tuple[Floats, Ints, int]:
    """Return standardised features, one row each, the cells to shuffle in, and how many rows."""
    if groups is None:
        rows = _stretches(len(readings), _affordable(readings))
        readings, cells = readings.iloc[rows], cells[rows]
        features = _standardised(_features(readings, rng), cells)
        return features, cells, len(rows)
    most = _MOST_CELLS // (2 * max(1, readings.shape[1]))
    number, cells, readings = _numbers(groups)[:most], cells[:most], readings.iloc[:most]
    sizes = np.bincount(number)
    features = _centred(_features(readings, rng), cells)
    means = np.stack([np.bincount(number, each) / sizes for each in features])
    common = _commonest(cells, number)
    return _standardised(means, np.zeros_like(common)), common, len(sizes)


def _affordable(readings: pd.DataFrame) -> int:
    return min(MOST_ROWS, max(_FEWER_ROWS, _SHUFFLED_CELLS // (2 * max(1, readings.shape[1]))))


def _stretches(n_rows: int, most: int) -> Ints:
    """Return all rows, or stretches that begin at equal distances."""
    if n_rows <= most:
        return np.arange(n_rows)
    begins = np.arange(_STRETCHES) * n_rows // _STRETCHES
    return (begins[:, None] + np.arange(most // _STRETCHES)).ravel()


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
    return _standardised(np.stack(found) if found else np.zeros((1, len(cells))), nothing)


def _centred(features: Floats, cells: Ints) -> Floats:
    """Take out of every feature what the cell explains: its mean."""
    sizes = np.maximum(np.bincount(cells), 1)
    centred = np.empty_like(features)
    for k, each in enumerate(features):
        centred[k] = each - (np.bincount(cells, each) / sizes)[cells]
    return centred


def _standardised(features: Floats, cells: Ints) -> Floats:
    """Return centred features of variance 1; those that do not vary are left out."""
    centred = _centred(features, cells)
    scale = np.sqrt(np.sum(centred**2, axis=1, keepdims=True) / max(1, centred.shape[1]))
    varies = scale[:, 0] > 1e-6
    return np.asarray(centred[varies] / scale[varies])


def _commonest(cells: Ints, number: Ints) -> Ints:
    """Return the commonest cell of every group."""
    n_cells = int(cells.max()) + 1
    counts = np.bincount(number * n_cells + cells, minlength=(int(number.max()) + 1) * n_cells)
    return np.asarray(counts.reshape(-1, n_cells).argmax(axis=1), dtype=np.int64)


# --- Correlations ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Peak:
    """The most remarkable correlation of one kind.

    ``score``: about 1 where its kind's share of the false alarms begins. ``correlation``: the
    largest of any feature at that distance.
    """

    kind: Kind
    score: float
    lag: int
    correlation: float


def _alarm(features: Floats, cells: Ints, rng: np.random.Generator) -> dict[str, Any] | None:
    """Return the peak that all shuffled rows stay below, or None if there is none."""
    if not len(features):
        return None
    ordered = _Ordered.of(features, rng)
    found = ordered.peaks()
    best = max(peak.score for peak in found)
    highest = 0.0
    for count in range(1, _SHUFFLES + 1):
        peaks = ordered.shuffled(_order(cells, rng)).peaks()
        highest = max(highest, *(peak.score for peak in peaks))
        if highest >= best:
            return None
        if count >= _CLEAR_SHUFFLES and best > _CLEAR * highest:
            break
    # Of all that is beyond chance, the strongest is what a reader recognises.
    beyond = [peak for peak in found if peak.score > highest]
    plainest = max(beyond, key=lambda peak: abs(peak.correlation))
    return {
        "kind": plainest.kind,
        "lag": plainest.lag,
        "strength": round(plainest.correlation, 4),
        "chance": round(abs(plainest.correlation) * highest / plainest.score, 4),
    }


def _order(cells: Ints, rng: np.random.Generator) -> Ints:
    """Return a random order in which every row is replaced by one of its own cell."""
    order = np.empty(len(cells), dtype=np.int64)
    order[np.argsort(cells, kind="stable")] = np.argsort(cells + rng.random(len(cells)))
    return order


@dataclass(frozen=True)
class _Sums:
    """Features whose products with later rows are added up, and how far they are from normal.

    The sum over n pairs of independent rows has variance n. By Bernstein's inequality it
    exceeds s with a probability below exp(-z^2 / 2), z^2 = s^2 / (n + b s / 3), b the largest
    product. Of b only what exceeds that of evenly spread ranks is counted, whose sums are close
    to normal: rare levels, whose sums are not, must not drown the others.

    ``values`` is of shape (n_features, n_rows). ``excess`` of shape (n_features + 1,): what the
    largest square exceeds, of each feature and of all together. ``together``: variance of a product
    summed over the features.
    """

    values: Floats
    excess: Floats
    together: float

    @classmethod
    def of(cls, values: Floats) -> _Sums:
        together = float(np.sum((values @ values.T / values.shape[1]) ** 2))
        squares = values**2 - _EVEN
        excess = np.append(squares.max(axis=1), squares.sum(axis=0).max() / np.sqrt(together))
        return cls(values, np.maximum(excess, 0.0), together)

    def shuffled(self, order: Ints) -> _Sums:
        return _Sums(self.values[:, order], self.excess, self.together)

    def peak(self, kind: Kind, share: float, sums: Floats, pairs: Ints, lags: Ints) -> _Peak:
        """Return the highest of the sums of products, features by distances.

        ``share``: of the false alarms, as a probability.
        """
        total = sums.sum(axis=0, keepdims=True) / np.sqrt(self.together)
        scores = _scores(np.concatenate([sums, total]), pairs, self.excess[:, None])
        lag = int(scores.max(axis=0).argmax())
        of_features = sums[:, lag]
        # Few pairs may vary more than all rows do.
        value = np.clip(of_features[np.abs(of_features).argmax()] / pairs[lag], -1.0, 1.0)
        score = scores[:, lag].max() / _limit(scores.size, share)
        return _Peak(kind, float(score), int(lags[lag]), float(value))


def _scores(sums: Floats, pairs: Ints, excess: Floats) -> Floats:
    size = np.abs(sums)
    return np.asarray(size / np.sqrt(pairs + excess * size / 3.0))


def _limit(tests: int, share: float) -> float:
    """Return what the highest of so many normal scores exceeds with at most this probability."""
    return -NormalDist().inv_cdf(share / (2 * tests))


@dataclass(frozen=True)
class _Ordered:
    """Rows in some order: all features, few enough series for every distance, and products.

    Products of two series show what they tell together only, as an exclusive or does.
    """

    features: _Sums
    series: _Sums
    products: _Sums

    @classmethod
    def of(cls, features: Floats, rng: np.random.Generator) -> _Ordered:
        series = _bundled(features, rng)
        return cls(_Sums.of(features), _Sums.of(series), _Sums.of(_products(series)))

    def shuffled(self, order: Ints) -> _Ordered:
        parts = (self.features, self.series, self.products)
        return _Ordered(*(part.shuffled(order) for part in parts))

    def peaks(self) -> list[_Peak]:
        """Return the highest score of each kind."""
        n_rows = self.series.values.shape[1]
        lags = np.arange(1, n_rows - min(_MIN_PAIRS, n_rows // 2))
        pairs = n_rows - lags
        every = _autocovariances(self.series.values, len(lags))
        ends = 2 ** np.arange(1, int(np.log2(n_rows)) - 1)  # up to a quarter of the rows
        running = np.cumsum(every, axis=1)[:, ends - 1]
        return [
            _next(self.features, _SHARE_OF_NEXT),
            _next(self.products, _SHARE_OF_OTHERS),
            self._across(),
            self.series.peak("apart", _SHARE_OF_OTHERS, every[:, 1:], pairs[1:], lags[1:]),
            self.series.peak("within", _SHARE_OF_OTHERS, running, np.cumsum(pairs)[ends - 1], ends),
        ]

    def _across(self) -> _Peak:
        """Compare every series with the others a row later, as one is that reads with a delay."""
        values, excess = self.series.values, self.series.excess[:-1]
        sums = values[:, :-1] @ values[:, 1:].T
        np.fill_diagonal(sums, 0.0)
        pairs = values.shape[1] - 1
        scores = _scores(sums, np.array(pairs), np.maximum.outer(excess, excess))
        place = np.unravel_index(scores.argmax(), scores.shape)
        score = scores[place] / _limit(scores.size, _SHARE_OF_OTHERS)
        return _Peak("next", float(score), 1, float(np.clip(sums[place] / pairs, -1.0, 1.0)))


def _next(sums: _Sums, share: float) -> _Peak:
    values = sums.values
    found = np.einsum("fi,fi->f", values[:, :-1], values[:, 1:])[:, None]
    return sums.peak("next", share, found, np.array([values.shape[1] - 1]), np.array([1]))


def _products(series: Floats) -> Floats:
    """Return standardised products of pairs of series."""
    chosen = series[:_MULTIPLIED]
    first, second = np.triu_indices(len(chosen), 1)
    products = chosen[first] * chosen[second]
    found = _standardised(products, np.zeros(series.shape[1], dtype=np.int64))
    return found if len(found) else series[:1]


def _bundled(features: Floats, rng: np.random.Generator) -> Floats:
    """Return the features, or as many sums of them, with signs drawn by lot, as are affordable."""
    if len(features) <= _MOST_SERIES:
        return features
    signed = features * rng.choice([-1.0, 1.0], (len(features), 1))
    sums = np.stack([signed[j::_MOST_SERIES].sum(axis=0) for j in range(_MOST_SERIES)])
    return np.asarray(sums / np.sqrt(np.mean(sums**2, axis=1, keepdims=True)))


def _autocovariances(values: Floats, count: int) -> Floats:
    """Return the sums of products of rows 1 to ``count`` apart, one row per series."""
    from scipy.fft import irfft, next_fast_len, rfft  # loading a mapping must not load SciPy

    size = next_fast_len(values.shape[1] + count, real=True)
    power = np.abs(rfft(values, size, axis=1)) ** 2
    return np.asarray(irfft(power, size, axis=1)[:, 1 : count + 1])


# --- Copies ----------------------------------------------------------------------------------


def _copies(readings: pd.DataFrame, facts: Sequence[ArrayLike]) -> Copies | None:
    """Return rows that occur too often, as they are or in narrow bins."""
    most = min(_MOST_COMPARED, _MOST_CELLS // max(1, readings.shape[1]))
    rows = readings.iloc[:most]
    classes = [_numbers(fact)[:most] for fact in facts]
    columns = [rows.iloc[:, k] for k in range(rows.shape[1])]
    for bins in _RESOLUTIONS:
        codes = np.column_stack([*classes, *(_codes(column, bins) for column in columns)])
        found = find_copies(distinct_rows(codes).inverse, _COPIES_ALPHA / len(_RESOLUTIONS))
        if found is not None:
            return found
    return None


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
