"""A table as a series: which row follows which, and whether a fact is all that links rounds.

*The hidden state is the fact* if, given the fact of a round, its readings depend on nothing of
other rounds. Then, among rows of one class, readings may be exchanged without changing anything.
Three things would show that they may not: readings of rounds near one another resemble each other
(``dependence``); stretches of rounds have too much or too little of a code, which finds a weak link
that lasts; or readings depend on the fact of a round up to eight before or after. The last two are
looked at here, with shuffles among the rows of a class for comparison. What shows in none of them
remains hidden: a state that is the same in all of the table, for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.arrays import Floats, Ints
from discreet.data.chance import shuffled_within, standardised
from discreet.data.columns import Column, as_floats, is_missing, is_numeric
from discreet.data.dependence import MOST_ROWS, Dependence, check_dependence, stretches
from discreet.data.groups import epoch_seconds, years_first
from discreet.errors import InputError

_MOST_EQUAL = 0.01  # share of the rows that may have the time of another one
_SHUFFLES = 199
_CLEAR_SHUFFLES, _CLEAR = 19, 1.5  # beating 19 of them by half suffices
_FARTHEST = 8  # rounds before and after whose facts readings may depend on
_STRETCHES = (2, 8, 32, 128, 512)  # rounds
_MOST_LEVELS = 16  # codes of a sensor that are distinguished, the commonest


@dataclass(frozen=True)
class Series:
    """The rows of a table in time.

    ``order``: the rows by group and time. ``follows``: for every row the one a step later in the
    same group, -1 where there is none. ``ahead``: rounds from one row of ``order`` to the next.
    ``step``: seconds, or ticks of a counter.
    """

    order: Ints
    follows: Ints
    ahead: Ints
    step: float

    @property
    def pairs(self) -> int:
        """How many rows are followed by another."""
        return int((self.follows >= 0).sum())


def read_series(
    times: Column, groups: NDArray[Any] | None, name: str, step: float | None = None
) -> Series:
    """Find which row follows which: ``step`` later, or by the commonest difference of times."""
    moments = _moments(times, name)
    group = np.zeros(len(moments), dtype=np.int64) if groups is None else groups
    order = np.lexsort((moments, group))
    ahead, together = np.diff(moments[order]), np.diff(group[order]) == 0
    steps = ahead[together & (ahead > 0)]
    if not len(steps):
        raise InputError(
            f"column {name!r} has no two rows at different times, so that no row follows another. "
            "Name the column with the time of every row."
        )
    if (equal := int(np.sum(ahead[together] == 0))) > _MOST_EQUAL * len(steps):
        raise InputError(
            f"column {name!r}: {equal} rows have the time of another, so that it cannot be seen "
            "which row follows which. Name what tells them apart, as a home, with --group; if "
            "clocks were set back, write times with their offset from UTC."
        )
    if step is None:
        found, counts = np.unique(steps.round(6), return_counts=True)
        step = float(found[counts.argmax()])
    # Clocks are not exact: half a step either way is the same round.
    next_one = together & (np.abs(ahead - step) < 0.5 * step)
    follows = np.full(len(moments), -1, dtype=np.int64)
    follows[order[:-1][next_one]] = order[1:][next_one]
    rounds = np.rint(ahead / step).astype(np.int64)
    return Series(order.astype(np.int64), follows, rounds, step)


def _moments(times: Column, name: str) -> Floats:
    """Return times in seconds; numbers that are none, such as a counter, as they are."""
    if is_missing(times).any():
        raise InputError(f"column {name!r} has rows without a time. Fill or drop them.")
    if is_numeric(times):
        since = epoch_seconds(times)
        return as_floats(times) if np.isnan(since).any() else since
    read = pd.to_datetime(years_first(times.astype(str)), errors="coerce", utc=True)
    bad = read.isna().to_numpy()
    if bad.any():
        raise InputError(
            f"column {name!r} has {str(times.iloc[int(bad.argmax())])[:60]!r}, which is no time. "
            "Write times as in 2026-01-31 14:05:00, or as seconds."
        )
    elapsed = (read - pd.Timestamp(0, tz="UTC")).dt.total_seconds()
    return np.asarray(elapsed, dtype=np.float64)


def count_steps(index: Ints, follows: Ints, n_classes: int) -> Ints:
    """Return how often each class was followed by each.

    ``follows``: for every row the place of the row one round later, -1 where there is none.
    """
    there = np.flatnonzero(follows >= 0)
    steps = np.zeros((n_classes, n_classes), dtype=np.int64)
    np.add.at(steps, (index[there], index[follows[there]]), 1)
    return steps


def estimate_moves(index: Ints, follows: Ints, n_classes: int) -> Floats:
    """Return P(class of the next round | class of this one), each count raised by one half."""
    steps = count_steps(index, follows, n_classes) + 0.5
    moves: Floats = steps / steps.sum(axis=1, keepdims=True)
    return moves


@dataclass(frozen=True)
class HiddenState:
    """Whether the facts are all that links the rounds of a series, as far as it shows."""

    order: Dependence
    stretches: bool
    neighbours: bool

    @property
    def broken(self) -> bool:
        """Whether something else links them."""
        return self.order.found or self.stretches or self.neighbours

    @property
    def checked(self) -> bool:
        """Whether there were enough rows to look at."""
        return self.order.checked

    @property
    def words(self) -> str:
        """One sentence for a user, without the full stop."""
        if self.order.found or not self.checked:
            return self.order.words
        if self.stretches:
            return "stretches of rounds resemble each other more than the facts explain"
        if self.neighbours:
            return "readings depend on the fact of a round before or after, given that of their own"
        return "given the fact, nothing was found that links the readings of different rounds"


def check_hidden_state(codes: Ints, fact: Ints, series: Series, seed: int = 0) -> HiddenState:
    """Look for what links rounds besides a fact, or a combination of facts, given by its number."""
    rows = series.order[stretches(len(series.order), MOST_ROWS)]
    readings = pd.DataFrame(codes[rows]).astype("category")
    order = check_dependence(readings, [fact[rows]], seed=seed)
    rng = np.random.default_rng(seed)
    uneven = _in_stretches(codes[rows], fact[rows], rng)
    return HiddenState(order, uneven, _depends_on_neighbours(codes, fact, series, rng))


# --- Stretches -----------------------------------------------------------------------------


def _in_stretches(codes: Ints, fact: Ints, rng: np.random.Generator) -> bool:
    """Whether sums over stretches vary more, or less, than in any shuffle within the classes."""
    features = _features(codes, fact)
    lengths = [length for length in _STRETCHES if 4 * length <= len(features)]
    if not lengths or not features.shape[1]:
        return False
    orders = [np.arange(len(features)), *(shuffled_within(fact, rng) for _ in range(_SHUFFLES))]
    # By class as well: what turns the meaning of readings round sums to nothing over the classes.
    by_class = np.concatenate([features * (fact == k)[:, None] for k in np.unique(fact)], axis=1)
    sums = np.array(
        [_vary(features[each], lengths) + _vary(by_class[each], lengths) for each in orders]
    )
    spread = sums[1:].std(axis=0)
    peaks = np.abs((sums - sums[1:].mean(axis=0)) / np.where(spread > 0, spread, 1.0)).max(axis=1)
    return bool(peaks[0] > peaks[1:].max())


def _features(codes: Ints, fact: Ints) -> Floats:
    """Return which code each sensor has, less the mean of the class, each with variance 1."""
    levels = [_commonest(column) for column in codes.T]
    columns = [each == k for each in levels for k in range(int(each.max()))]
    features = np.array(columns, dtype=np.float64).reshape(len(columns), len(codes))
    return standardised(features, np.unique(fact, return_inverse=True)[1]).T


def _vary(features: Floats, lengths: Sequence[int]) -> list[float]:
    """Return the sum of squared sums over stretches of each length, one a multiple of the last."""
    found, sums, before = [], features, 1
    for length in lengths:
        times, before = length // before, length
        whole = len(sums) // times * times
        sums = sums[:whole].reshape(-1, times, features.shape[1]).sum(axis=1)
        found.append(float((sums**2).sum()))
    return found


# --- The facts before and after ------------------------------------------------------------


def _depends_on_neighbours(
    codes: Ints, fact: Ints, series: Series, rng: np.random.Generator
) -> bool:
    """Whether codes depend on a fact nearby given their own: more than in any shuffle."""
    rows = series.order[stretches(len(series.order), MOST_ROWS)]
    levels, own = [_commonest(column) for column in codes[rows].T], _numbered(fact[rows])
    nearby = [
        (there, own[there], _numbered(fact[place[there]]))
        for place in _rounds_nearby(rows, series.follows)
        if (there := place >= 0).any()
    ]

    def excess(order: Ints) -> float:
        shuffled = [each[order] for each in levels]
        return max(
            _chi_square(each[there], *facts) for there, *facts in nearby for each in shuffled
        )

    if not nearby:
        return False
    seen, highest = excess(np.arange(len(rows))), 0.0
    for count in range(1, _SHUFFLES + 1):
        highest = max(highest, excess(shuffled_within(own, rng)))
        if highest >= seen:
            return False
        if count >= _CLEAR_SHUFFLES and seen > _CLEAR * highest:
            break
    return True


def _rounds_nearby(rows: Ints, follows: Ints) -> Iterator[Ints]:
    """Yield the place of the round 1, 2, ... after every row and before it, -1 where none is."""
    before = np.full_like(follows, -1)
    before[follows[follows >= 0]] = np.flatnonzero(follows >= 0)
    for way in (follows, before):
        place = rows
        for _ in range(_FARTHEST):
            place = np.where(place >= 0, way[place], -1)
            yield place


def _numbered(values: Ints) -> Ints:
    return np.unique(values, return_inverse=True)[1]


def _commonest(column: Ints) -> Ints:
    """Return the commonest codes as 0, 1, ... and all others as one more."""
    _, index, counts = np.unique(column, return_inverse=True, return_counts=True)
    rank = np.argsort(np.argsort(-counts, kind="stable"))
    return np.minimum(rank, _MOST_LEVELS)[index]


def _chi_square(level: Ints, own: Ints, other: Ints) -> float:
    """Return the standardised chi-square of a sensor against the other fact."""
    shape = (int(own.max()) + 1, int(other.max()) + 1, int(level.max()) + 1)
    counts = np.bincount(np.ravel_multi_index((own, other, level), shape), minlength=np.prod(shape))
    table = counts.reshape(shape).astype(np.float64)
    expected = table.sum(axis=2, keepdims=True) * table.sum(axis=1, keepdims=True)
    total = table.sum(axis=(1, 2))[:, None, None]
    expected = np.divide(expected, total, out=np.zeros_like(expected), where=total > 0)
    off = (table - expected) ** 2
    off = np.divide(off, expected, out=np.zeros_like(off), where=expected > 0)
    free = max((shape[1] - 1) * (shape[2] - 1) * shape[0], 1)
    return float((off.sum() - free) / np.sqrt(2.0 * free))
