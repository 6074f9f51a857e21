"""What independent rows do by chance: how alike they are at any distance, how often they recur.

Three families of correlations are looked at, each with its share of the false alarms: rows that
follow one another, rows at any one distance (sensors in rotation, days, a table appended to
itself), and all rows up to a distance together (a slow drift below much noise). The highest of all
of them, over all columns and distances, is compared with the highest after shuffling: a wide table
raises no more false alarms than a narrow one.

Equal rows are no proof of anything: a table of a few coarse sensors is full of them. But
whatever the distribution, the rows that occur k times are bounded by those that occur k - 1
and k + 1 times. Let row x be expected lambda(x) times. Then k! f_k, f_k the expected number of
different rows that occur k times, is the sum over x of lambda^k exp(-lambda), and by Cauchy
and Schwarz

    f_k^2 <= (k + 1) / k * f_(k-1) * f_(k+1).

A table where every record was written twice has pairs without triples or single rows, which
this excludes, and sensors that are functions of one another do not matter. The same holds after
binning, so that near copies are found in bins that are wider than what sets them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from discreet.arrays import Floats, Ints

Kind = Literal["next", "apart", "within", "copies"]

MIN_PAIRS = 20
"""Fewest pairs of rows that a correlation is computed from."""
_SHUFFLES = 1_999  # an alarm beats all of them: at most one in 2,000 by chance
# Beating so many of them by so much is as rare. Of large tables, where small margins mean
# dependence too weak to matter and shuffles take long, nothing else counts.
_CLEAR, _LARGE = {19: 1.5, 199: 1.25}, 50_000  # rows times features
_SHARE_OF_NEXT, _SHARE_OF_OTHERS = 0.003, 0.0005  # of the false alarms; there are four others
_MOST_SERIES = 24  # more features than these are added up for the correlations at all distances
_MULTIPLIED = 8  # of these, the first are multiplied with one another
_EVEN = 3.0  # largest square of evenly spread ranks whose variance is 1
MOST_TIMES = 256
_FEWEST_COPIED = 20  # different rows of a group that is a copy of another
_NEARLY_ALL = 0.9  # of the rows
_ACROSS, _MORE_ALIKE = 0.25, 2.0
"""Rows that occur more often than this are not looked at."""


def centred(features: Floats, cells: Ints) -> Floats:
    """Take out of every feature what the cell explains: its mean."""
    sizes = np.maximum(np.bincount(cells), 1)
    found = np.empty_like(features)
    for k, each in enumerate(features):
        found[k] = each - (np.bincount(cells, each) / sizes)[cells]
    return found


def standardised(features: Floats, cells: Ints) -> Floats:
    """Return centred features of variance 1; those that do not vary are left out."""
    found = centred(features, cells)
    scale = np.sqrt(np.sum(found**2, axis=1, keepdims=True) / max(1, found.shape[1]))
    varies = scale[:, 0] > 1e-6
    return np.asarray(found[varies] / scale[varies])


def shuffled_within(cells: Ints, rng: np.random.Generator) -> Ints:
    """Return a random order in which every row is replaced by one of its own cell."""
    order = np.empty(len(cells), dtype=np.int64)
    order[np.argsort(cells, kind="stable")] = np.argsort(cells + rng.random(len(cells)))
    return order


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


def alarm(features: Floats, cells: Ints, rng: np.random.Generator) -> dict[str, Any] | None:
    """Return the peak beyond its limit that all shuffled rows stay below, or None."""
    if not len(features):
        return None
    ordered = _Ordered.of(features, rng)
    found = ordered.peaks()
    best = max(peak.score for peak in found)
    if best < 1.0:
        return None
    highest = 0.0
    for count in range(1, _SHUFFLES + 1):
        peaks = ordered.shuffled(shuffled_within(cells, rng)).peaks()
        highest = max(highest, *(peak.score for peak in peaks))
        if highest >= best:
            return None
        if best > _CLEAR.get(count, np.inf) * highest:
            break
        if count == max(_CLEAR) and features.size > _LARGE:
            return None
    # Of all that is beyond chance, the strongest is what a reader recognises.
    beyond = [peak for peak in found if peak.score > highest]
    plainest = max(beyond, key=lambda peak: abs(peak.correlation))
    return {
        "kind": plainest.kind,
        "lag": plainest.lag,
        "strength": round(plainest.correlation, 4),
        "chance": round(abs(plainest.correlation) * highest / plainest.score, 4),
    }


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
        series = bundled(features, rng)
        return cls(_Sums.of(features), _Sums.of(series), _Sums.of(_products(series)))

    def shuffled(self, order: Ints) -> _Ordered:
        parts = (self.features, self.series, self.products)
        return _Ordered(*(part.shuffled(order) for part in parts))

    def peaks(self) -> list[_Peak]:
        """Return the highest score of each kind."""
        n_rows = self.series.values.shape[1]
        lags = np.arange(1, n_rows - min(MIN_PAIRS, n_rows // 2))
        pairs = n_rows - lags
        every = autocovariances(self.series.values, len(lags))
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
    found = standardised(products, np.zeros(series.shape[1], dtype=np.int64))
    return found if len(found) else series[:1]


def bundled(features: Floats, rng: np.random.Generator) -> Floats:
    """Return the features, or as many sums of them, with signs drawn by lot, as are affordable."""
    if len(features) <= _MOST_SERIES:
        return features
    signed = features * rng.choice([-1.0, 1.0], (len(features), 1))
    sums = np.stack([signed[j::_MOST_SERIES].sum(axis=0) for j in range(_MOST_SERIES)])
    return np.asarray(sums / np.sqrt(np.mean(sums**2, axis=1, keepdims=True)))


def autocovariances(values: Floats, count: int) -> Floats:
    """Return the sums of products of rows 1 to ``count`` apart, one row per series."""
    from scipy.fft import irfft, next_fast_len, rfft  # loading a mapping must not load SciPy

    size = next_fast_len(values.shape[1] + count, real=True)
    power = np.abs(rfft(values, size, axis=1)) ** 2
    return np.asarray(irfft(power, size, axis=1)[:, 1 : count + 1])


# --- Copies ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Copies:
    """How many different rows occur so many times, where that cannot be chance.

    ``times``: how often the rows occur that are too many. ``rows``: how many different rows do.
    ``more``: how many different rows occur once more.
    """

    times: int
    rows: int
    more: int


def find_copies(keys: Ints, alpha: float, places: int | None = None) -> Copies | None:
    """Return the first surplus of rows that occur equally often, or None.

    ``keys`` of shape (n_rows,): equal for rows that count as equal, numbered from 0. ``alpha``:
    most probable that independent rows show a surplus. ``places``: in how many each row can occur,
    once; there is no such bound by default.
    """
    counts = np.bincount(np.bincount(keys), minlength=MOST_TIMES + 2)
    # Three counts are bounded for each number of times. A count of rows is a sum of nearly
    # independent yes and no, no wider than Poisson's, whose exact bounds these are.
    from scipy.special import gammainccinv, gammaincinv  # loading a mapping must not load SciPy

    level = alpha / (3 * (MOST_TIMES - 1))
    times = np.arange(2, MOST_TIMES + 1)
    fewer, rows, more = (counts[times + step] for step in (-1, 0, 1))
    lower = np.where(rows > 0, gammaincinv(np.maximum(rows, 1), level), 0.0)
    upper = gammainccinv(fewer + 1, level) * gammainccinv(more + 1, level)
    ratio = (times + 1) / times
    if places is not None:  # a row that is nearly everywhere says nothing
        left = np.maximum(places - times, 0)
        ratio = np.where(left > 0, ratio * (left + 1) / np.maximum(left, 1), np.inf)
    found = np.flatnonzero(lower**2 > np.where(upper > 0, ratio * upper, np.inf))
    if not len(found):
        return None
    first = int(found[0])
    return Copies(int(times[first]), int(rows[first]), int(more[first]))


def find_copies_across(keys: Ints, groups: Ints, alpha: float) -> Copies | None:
    """Return rows that occur too often in different groups, or groups that are copies; or None.

    ``keys``, ``alpha``: as in ``find_copies``. ``groups`` of shape (n_rows,): numbered from 0. Rows
    of a group may be as alike as they like.
    """
    if copied := _copied_groups(keys, groups):
        return Copies(len(copied[0]), len(np.unique(keys[groups == copied[0][0]])), 0)
    n_groups = int(groups.max()) + 1
    once = np.unique(keys * n_groups + groups) // n_groups
    found = find_copies(once, alpha / 2, n_groups) or find_copies(keys, alpha / 2)
    return found if found is not None and _lie_across(keys, groups) else None


def _copied_groups(keys: Ints, groups: Ints) -> list[Ints]:
    """Return groups with the same rows, the most of them first, if nearly all groups have copies.

    Single ones may be alike by chance: days on which nothing happened.
    """
    order = np.lexsort((keys, groups))
    parts = np.split(keys[order], np.flatnonzero(np.diff(groups[order])) + 1)
    same: dict[bytes, list[int]] = {}
    for number, part in zip(np.unique(groups).tolist(), parts, strict=True):
        if len(np.unique(part)) >= _FEWEST_COPIED:
            same.setdefault(part.tobytes(), []).append(number)
    found = [np.array(each) for each in same.values() if len(each) > 1]
    in_copies = np.isin(groups, np.concatenate(found)).mean() if found else 0.0
    return sorted(found, key=len, reverse=True) if in_copies >= _NEARLY_ALL else []


def _lie_across(keys: Ints, groups: Ints) -> bool:
    """Whether equal rows lie in different groups, and not since rows of groups resemble each other.

    They do resemble each other if those that follow one another are equal more often than those of
    different groups: then groups may be alike, as warm days are.
    """
    sizes, counts = np.bincount(groups), np.bincount(keys)
    own = np.unique(keys * len(sizes) + groups, return_counts=True)[1]
    within, everywhere = (int((each.astype(np.int64) ** 2).sum()) for each in (own, counts))
    across = everywhere - within
    if across < _ACROSS * (everywhere - len(keys)):
        return False
    order = np.argsort(groups, kind="stable")
    next_one = np.diff(groups[order]) == 0
    equal = np.count_nonzero(next_one & (np.diff(keys[order]) == 0))
    apart = len(keys) ** 2 - int((sizes.astype(np.int64) ** 2).sum())
    usual = np.count_nonzero(next_one) * across / max(apart, 1)
    return bool(equal <= _MORE_ALIKE * (usual + 1.0))
