"""What each sensor reads in each cell, from counts that are smoothed.

p(code|cell) is counted from few rows and smoothed three ways: along the alphabet where its codes
are ordered, towards what all sensors with as many codes read in the same cell, and towards what
the sensor reads whatever the cell. How much of each is chosen by the likelihood of rows left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from discreet.arrays import Floats

_WIDTHS = (0.0, 0.4, 0.6, 0.9, 1.4)
_SHARED = (0.0, 4.0, 16.0, 64.0, 256.0, 4096.0, 65536.0)
_MARGINAL = (0.25, 1.0, 4.0, 16.0)
_LEAST = 0.25  # of a row, for each code in the marginal: nothing is impossible


@dataclass(frozen=True)
class Smoothing:
    """How much to smooth.

    ``width``: standard deviation, in codes, of the spread along an ordered alphabet. ``shared``:
    rows that the sensors of one kind count for in each other's estimates. ``marginal``: rows that
    the sensor's own marginal counts for in every cell.
    """

    width: float = 0.6
    shared: float = 0.0
    marginal: float = 1.0


@dataclass(frozen=True)
class Alphabets:
    """The codes of each sensor: how many, and how many, from the first, lie on a line."""

    sizes: tuple[int, ...]
    ordered: tuple[int, ...]

    def kinds(self) -> list[list[int]]:
        """Return the sensors that may share statistics: those with the same alphabet."""
        kinds: dict[tuple[int, int], list[int]] = {}
        for t, alphabet in enumerate(zip(self.sizes, self.ordered, strict=True)):
            kinds.setdefault(alphabet, []).append(t)
        return list(kinds.values())


def spread(size: int, ordered: int, width: float) -> Floats:
    """Return the matrix that spreads one observation over its neighbours; rows sum to 1."""
    table = np.eye(size)
    if width > 0 and ordered > 1:
        places = np.arange(ordered)
        weights = np.exp(-0.5 * ((places[:, None] - places) / width) ** 2)
        table[:ordered, :ordered] = weights / weights.sum(axis=1, keepdims=True)
    return table


def estimate_sensors(
    alphabets: Alphabets, counts: Sequence[Floats], how: Sequence[Smoothing]
) -> list[Floats]:
    """Return p(code|cell) of every sensor, one row per cell.

    ``counts`` is of shape (n_cells, n_codes). ``how``: one for every sensor; those of one kind have
    the same.
    """
    found: list[Floats] = [np.empty(0)] * len(counts)
    for kind in alphabets.kinds():
        tables = _estimate_kind(alphabets, kind, np.stack([counts[t] for t in kind]), how[kind[0]])
        for t, table in zip(kind, tables, strict=True):
            found[t] = table
    return found


def _estimate_kind(
    alphabets: Alphabets, kind: Sequence[int], counts: Floats, how: Smoothing
) -> Floats:
    """Return p(code|cell) of all sensors of a kind, from counts of sensors by cells by codes."""
    matrix = spread(alphabets.sizes[kind[0]], alphabets.ordered[kind[0]], how.width)
    own = counts @ matrix
    total = own + how.marginal * _marginal(own)
    if len(kind) > 1:
        pooled = own.sum(axis=0)
        total += how.shared * _towards(pooled, _marginal(pooled), how.marginal)
    return np.asarray(total / total.sum(axis=-1, keepdims=True))


def _marginal(counts: Floats) -> Floats:
    total = counts.sum(axis=-2, keepdims=True) + _LEAST
    share: Floats = total / total.sum(axis=-1, keepdims=True)
    return share


def _towards(counts: Floats, centre: Floats, rows: float) -> Floats:
    total = counts + rows * centre
    share: Floats = total / total.sum(axis=1, keepdims=True)
    return share


def choose_smoothing(
    alphabets: Alphabets, held: Sequence[Sequence[Floats]], alike: float = 0.0
) -> list[Smoothing]:
    """Choose by the likelihood of each fold under what the others teach.

    ``held``: the counts of each fold, sensor by sensor, cells by codes. ``alike``: nats by which
    sensors have to differ, or they share as much as they can. Width and sharing are chosen for
    every kind by itself, the marginal for all sensors together: one sensor alone says too little
    about it.
    """
    kinds, found = alphabets.kinds(), [Smoothing()] * len(alphabets.sizes)
    by_kind = {kind[0]: np.array([[own[t] for t in kind] for own in held]) for kind in kinds}

    def likelihood(how: Sequence[Smoothing], kind: Sequence[int]) -> float:
        folds, total = by_kind[kind[0]], 0.0
        everything = folds.sum(axis=0)
        for own in folds:
            given = _estimate_kind(alphabets, kind, everything - own, how[kind[0]])
            total += float((own * np.log(given)).sum())
        return total

    for _ in range(2):
        for kind in kinds:
            for choice in _choices_for_kind(alphabets, kind):
                options = [_changed(found, kind, **{choice[0]: value}) for value in choice[1]]
                likely = [likelihood(how, kind) for how in options]
                slack = alike if choice[0] == "shared" else 0.0
                close = np.flatnonzero(np.array(likely) >= max(likely) - slack)
                found = options[int(close[-1] if slack else close[0])]
        options = [_changed(found, range(len(found)), marginal=value) for value in _MARGINAL]
        found = max(options, key=lambda how: sum(likelihood(how, kind) for kind in kinds))
    return found


def _choices_for_kind(
    alphabets: Alphabets, kind: Sequence[int]
) -> list[tuple[str, tuple[float, ...]]]:
    return [
        ("shared", _SHARED if len(kind) > 1 else (0.0,)),
        ("width", _WIDTHS if alphabets.ordered[kind[0]] else (0.0,)),
    ]


def _changed(how: Sequence[Smoothing], sensors: Sequence[int], **values: float) -> list[Smoothing]:
    return [
        replace(each, **values) if t in sensors else each for t, each in enumerate(how)
    ]  # fmt: skip
