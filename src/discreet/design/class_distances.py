"""Squared distances between classes of what rows are expected to show, and their errors.

The squared distance between the means of classes exceeds the true one by a sum of variances, which
the same rows tell. Less that, the distance is without bias, may be negative, and averages over
folds.

Rows of a fact are of many kinds, by what else is true of them, and how often each kind occurs is
known from all rows, of the design, too: tables can be such that kinds cancel out in these very
shares. So the shares are those of all rows (*strata* below), and as far as they may be off the
truth leaks more, as if it were drawn around them. Of tables that do not cancel this errs upwards.

The advantage is not without bias. It is the distance's root times a slope. Of outputs that are
listed, that is the gain in hindsight over the distance in hindsight, which errs by a few percent
where outputs are many and tell unequally. Of symbols it is that of a normal law, as of many that
tell a little each: of a single telling symbol the law tells four fifths if it is sent half of the
time, and too much if it is rare. So the sensors that tell most are listed as well
(``attacker_views``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtr

from discreet.arrays import Floats, Ints
from discreet.design.attacker_views import View
from discreet.design.kinds import Strata
from discreet.design.learned_attackers import some_rows

# Rows that the spread is taken from, or so many numbers of each class if that is more.
_MOST_ROWS, _MOST_NUMBERS = 5_000, 50_000
# The spread of more columns than this is told by pairs of so many rows.
_FEW_COLUMNS, _FEW_ROWS = 256, 500
_DRAWN = 4096  # from a normal law, for attackers that tell more than two classes apart
_TINY = 1e-12


class _Noise:
    """By how much rows, or groups, may have moved the centres of the classes.

    ``parts``: for each class, how a row of it moves each centre, and by how much: rows by columns.
    """

    def __init__(self, parts: Sequence[tuple[Floats, Floats]]) -> None:
        self.shares = np.array([share for share, _ in parts])
        self.moves = [moves for _, moves in parts]

    def trace(self) -> float:
        """Return the trace of the covariance of the centres."""
        squares = [float(np.sum(moves**2)) for moves in self.moves]
        return float(np.sum(self.shares**2, axis=1) @ squares)

    def along(self, centres: Floats) -> float:
        """Return how much they move along some centres."""
        ways = zip(self.moves, self.shares @ centres.reshape(self.shares.shape[1], -1), strict=True)
        return float(sum(np.sum((moves @ way) ** 2) for moves, way in ways))

    def squared_trace(self) -> float:
        """Return the trace of the square of the covariance, a sum over any two classes."""
        alike, kinds = (self.shares @ self.shares.T) ** 2, range(len(self.moves))
        if self.moves[0].shape[1] <= _FEW_COLUMNS:
            squares = [moves.T @ moves for moves in self.moves]
            sums = [[np.sum(squares[k] * squares[m]) for m in kinds] for k in kinds]
            return float(np.sum(alike * sums))
        few = [some_rows(moves, max(_FEW_ROWS // len(kinds), 2)) for moves in self.moves]
        found = sum(alike[k, k] * _squared(self.moves[k], few[k]) for k in kinds)
        for k, m in combinations(kinds, 2):
            products = np.mean((few[k] @ few[m].T) ** 2)
            found += 2.0 * alike[k, m] * products * len(self.moves[k]) * len(self.moves[m])
        return float(found)


def _squared(moves: Floats, few: Floats) -> float:
    """Return the sum of squared products of any two rows, from those of few of them."""
    with_itself = (few**2).sum(axis=1) ** 2
    others = np.sum((few @ few.T) ** 2) - with_itself.sum()
    pairs, all_pairs = len(few) * (len(few) - 1), len(moves) * (len(moves) - 1)
    return float(((moves**2).sum(axis=1) ** 2).sum() + others * all_pairs / max(pairs, 1))


def _unfitted(seen: float, bias: float, moved: float, noise: _Noise) -> tuple[float, float]:
    """Return distance and variance where tables owe nothing to the rows that show them."""
    # The centres that were seen carry noise themselves, which counts four squared traces too much.
    trace = noise.squared_trace()
    return seen - bias, max(4.0 * moved - 2.0 * trace, trace)


def _fitted(seen: float, _bias: float, moved: float, noise: _Noise) -> tuple[float, float]:
    """Return the mean and the variance of the distance if centres are drawn around those seen."""
    return seen + noise.trace(), 4.0 * moved + 2.0 * noise.squared_trace()


def estimate_distance(
    view: View | None,
    strata: Sequence[Strata | None],
    groups: Ints | None,
    *,
    fitted: bool,
) -> tuple[float, float, float, float, float]:
    """Return what ``Leaks`` has of one attacker; NaN if rows cannot tell.

    ``strata``: the rows of each class that is told apart. ``fitted``: whether tables were designed
    on these very rows.
    """
    own = [each for each in strata if each is not None and len(each.rows) > 1]
    if view is None or len(own) < len(strata):
        return (float("nan"),) * 5
    parts = [view.of(each.rows) for each in own]
    inner = [each.means(part) for each, part in zip(own, parts, strict=True)]
    means = np.stack([each.shares @ mean for each, mean in zip(own, inner, strict=True)])
    whiten = _whitener(view, parts, means)
    centres = whiten(means - means.mean(axis=0)) / np.sqrt(len(own))
    seen = float(np.sum(centres**2))
    gain = _gain_listed(means) if view.noise is None else _gain_normal(centres)
    slope = gain / np.sqrt(max(seen, _TINY)) / view.share_seen(gain)
    # Centres are what is left of the classes' means without their average.
    keep = (np.eye(len(own)) - 1.0 / len(own)) / np.sqrt(len(own))
    shared = 0.0
    if groups is None:
        noise = _Noise([
            (keep[:, k], _moved_by_rows(own[k], parts[k], inner[k], _MOST_ROWS // len(own), whiten))
            for k in range(len(own))
        ])  # fmt: skip
        bias = noise.trace()
        drawn = _Noise([
            (keep[:, k], _moved_by_shares(own[k], inner[k] - means[k], whiten))
            for k in range(len(own))
        ])  # fmt: skip
        seen, shared = _fitted(seen, 0.0, drawn.along(centres), drawn)
    else:
        weights, sums = _by_group(view, [each.rows for each in own], groups, whiten)
        if np.max(weights) == 1.0:  # how groups of a class differ, one alone does not tell
            return seen, float("inf"), slope, 0.0, 0.0
        noise = _moved_by_groups(weights, sums, keep)
        bias = _shared_by_groups(weights, sums, keep)
    correct = _fitted if fitted else _unfitted
    distance, variance = correct(seen, bias, noise.along(centres), noise)
    return distance, variance + shared, slope, shared, noise.squared_trace()


def _whitener(view: View, parts: Sequence[Floats], means: Floats) -> Callable[[Floats], Floats]:
    """Return what divides by the spread of what is shown within a class; ``parts``: by class."""
    if view.noise is None:
        scale = 1.0 / np.sqrt(np.maximum(means.mean(axis=0), _TINY))
        return lambda values: values * scale
    inner = sum((np.cov(part.T, ddof=0) for part in parts), np.zeros(1)) / len(parts)
    within = np.atleast_2d(inner) + view.noise
    root = np.linalg.cholesky(within + _TINY * np.eye(len(within)))
    return lambda values: solve_triangular(root, values.T, lower=True).T


def _moved_by_rows(
    strata: Strata, part: Floats, inner: Floats, most: int, whiten: Callable[[Floats], Floats]
) -> Floats:
    """Return by how much each row may have moved the mean of its class.

    ``part``: what the rows of the class show. ``inner``: the mean of each kind. ``most``: rows to
    look at, or as many as have few numbers.
    """
    most = max(most, _MOST_NUMBERS // part.shape[1])
    some = np.arange(len(part)) if len(part) <= most else some_rows(np.arange(len(part)), most)
    kind = np.repeat(np.arange(len(inner)), strata.counts)[some]
    counts = strata.counts.astype(np.float64)
    scale = strata.shares / np.sqrt(counts * np.maximum(counts - 1.0, 1.0) * len(some) / len(part))
    return whiten(part[some] - inner[kind]) * scale[kind, None]


def _moved_by_shares(strata: Strata, apart: Floats, whiten: Callable[[Floats], Floats]) -> Floats:
    """Return by how much the shares of kinds may be off, each of them as seen in all rows.

    ``apart``: how far the mean of each kind is from that of the class.
    """
    return whiten(apart) * np.sqrt(strata.shares / strata.total)[:, None]


def _by_group(
    view: View, own: Sequence[Ints], groups: Ints, whiten: Callable[[Floats], Floats]
) -> tuple[Floats, Floats]:
    """Return the share of each group in each class, and its part of the class's mean, whitened."""
    number, place = np.unique(groups, return_inverse=True)
    weights = np.zeros((len(number), len(own)))
    parts = np.zeros((len(number), len(own), view.shown.shape[1]))
    for k, rows in enumerate(own):
        weights[:, k] = np.bincount(place[rows], minlength=len(number)) / len(rows)
        np.add.at(parts[:, k], place[rows], (view.shown[rows] - view.origin) / len(rows))
    return weights, whiten(parts.reshape(-1, parts.shape[2])).reshape(parts.shape)


def _shared_by_groups(weights: Floats, parts: Floats, keep: Floats) -> float:
    """Return by how much the squared distance exceeds that of pairs of different groups.

    Of two groups, products have no noise in common: they are right on average, however unequal
    groups are in size and in spread.
    """
    means = parts.sum(axis=0)
    within = np.einsum("dkw,dlw->kl", parts, parts)
    alike = weights.T @ weights  # the chance that two rows, of two classes, share a group
    excess = (within - alike * (means @ means.T)) / (1.0 - alike)
    return float(np.sum(keep.T @ keep * excess))


def _moved_by_groups(weights: Floats, parts: Floats, keep: Floats) -> _Noise:
    """Return by how much each group may have moved the centres: as far as they move without it.

    This is the jackknife. A group moves all centres, each by its own.
    """
    apart = (parts - weights[:, :, None] * parts.sum(axis=0)) / (1.0 - weights)[:, :, None]
    counts = np.count_nonzero(weights, axis=0)
    moved = np.einsum("jk,dkw->djw", keep * np.sqrt(1.0 - 1.0 / counts), apart)
    return _Noise([(np.ones(1), moved.reshape(len(moved), -1))])


def _gain_listed(means: Floats) -> float:
    """Return the advantage of naming the most likely class of every output."""
    return float((means.max(axis=0).sum() - 1.0) / len(means))


def _gain_normal(centres: Floats) -> float:
    """Return the advantage of telling normal laws of unit variance apart by their centres."""
    n_classes = len(centres)
    places = centres * np.sqrt(n_classes)
    if n_classes == 2:
        return float(ndtr(0.5 * np.linalg.norm(places[0] - places[1])) - 0.5)
    gram = places @ places.T
    value, vector = np.linalg.eigh(gram)
    # The symmetric root: others depend on the signs of eigenvectors, which libraries choose.
    flat = vector * np.sqrt(np.maximum(value, 0.0)) @ vector.T
    drawn = np.random.default_rng(0).normal(size=(_DRAWN, n_classes))
    right = [
        np.mean(np.argmax((drawn + flat[k]) @ flat.T - 0.5 * np.diag(gram), axis=1) == k)
        for k in range(n_classes)
    ]
    return float(np.mean(right)) - 1.0 / n_classes
