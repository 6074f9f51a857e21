"""The distribution behind counts: sensors, or blocks of them, independent given the cell.

*What each sensor reads in each cell, from counts that are smoothed.* p(code|cell) is counted from
few rows and smoothed three ways: along the alphabet where its codes are ordered, towards what all
sensors with as many codes read in the same cell, and towards what the sensor reads whatever the
cell. How much of each is chosen by the likelihood of rows left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Floats, Ints
from discreet.design.counts.blocks import Stop, find_blocks, find_dependence, share_out
from discreet.design.counts.counting import FOLDS, Counts, cell_index
from discreet.design.training_rows import Sample

# --- Smoothing ------------------------------------------------------------------------------

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
    changed = {each: replace(each, **values) for each in {how[t] for t in sensors}}
    return [changed[each] if t in sensors else each for t, each in enumerate(how)]


# --- The model ------------------------------------------------------------------------------

BLOCK_ROWS = 100_000
"""Most rows that the joint codes of a block are counted in."""
_MOST_JOINT = 2**22  # p(joint code|cell) of all blocks, as a design holds several such models
_LEAST_JOINT = 2**12  # rows that joint codes are counted in, or blocks are left out
_ALIKE = 3.0  # nats by which sensors have to differ, or they share what is known of them


@dataclass(frozen=True)
class Structure:
    """What is chosen once, from all rows but those left out for good: smoothing, and blocks.

    ``left_over``: whether sensors surely depend that no block holds together, two or all of them,
    or may, since time was over before all were looked at. ``joint_rows``: most rows that joint
    codes of blocks are counted in.
    """

    smoothing: list[Smoothing]
    blocks: list[tuple[int, ...]]
    left_over: bool = False
    joint_rows: int = BLOCK_ROWS


@dataclass(frozen=True)
class Block:
    """Sensors that depend: their distinct joint codes, and p(joint code|cell)."""

    sensors: tuple[int, ...]
    codes: Ints
    given: Floats


@dataclass(frozen=True)
class CountModel:
    """An estimated distribution; cells without a row are left out.

    Attributes
    ----------
    facts : int array, cells by facts
        The public class of each cell, then the private ones.
    prior : array of shape (n_cells,)
    given : list of arrays, cells by codes
        p(code|cell) of every sensor.
    blocks : list of Block
    rows : array of shape (n_sensors, n_cells), optional
        How many rows each p(code|cell) is as good as; exact without.
    """

    facts: Ints
    prior: Floats
    given: list[Floats]
    blocks: list[Block] = field(default_factory=list)
    rows: Floats | None = None

    def class_rows(self, fact: int, within: NDArray[np.bool_] | None = None) -> Floats:
        """Return p(cell|class) for each class of a fact that occurs, classes by cells."""
        weights = self.prior if within is None else self.prior * within
        classes = self.facts[:, fact]
        rows = np.stack([weights * (classes == k) for k in np.unique(classes[weights > 0])])
        return np.asarray(rows / rows.sum(axis=1, keepdims=True))

    def public_shares(self) -> Floats:
        """Return the probability of each public class."""
        return np.bincount(self.facts[:, 0], self.prior).astype(np.float64)


def join_models(models: Sequence[CountModel]) -> CountModel:
    """Return one model of several that are equally likely, with the cells of all."""
    first = models[0]
    blocks = [
        replace(block, given=np.concatenate([each.blocks[k].given for each in models]))
        for k, block in enumerate(first.blocks)
    ]
    return CountModel(
        np.concatenate([each.facts for each in models]),
        np.concatenate([each.prior for each in models]) / len(models),
        [np.concatenate(tables) for tables in zip(*(each.given for each in models), strict=True)],
        blocks,
    )


def find_structure(
    sample: Sample, counts: Counts, n_symbols: Sequence[int], stop: Stop | None = None
) -> Structure:
    """Choose the smoothing by the likelihood of folds left out, and find the blocks.

    Pairs are counted in the rows of the sample, until all are or it is stopped. Sensors that were
    not paired then may depend, which is left over.
    """
    kept = counts.cells > 0
    folds = [[table[k][kept].astype(np.float64) for table in counts.by_code] for k in range(FOLDS)]
    smoothing = choose_smoothing(Alphabets(sample.sizes, sample.ordered), folds, _ALIKE)
    ties: dict[tuple[int, ...], float] = {}
    left_over = False
    for first, dependence in find_dependence(sample, stop):
        own = find_blocks(dependence.strength, n_symbols[first:][: len(dependence.strength)])
        for block in own:
            tie = float(dependence.strength[np.ix_(block, block)].max())
            ties[tuple(first + t for t in block)] = tie
        left_over = left_over or dependence.beyond(own)
    blocks, rows = _fit_blocks(ties, sample.sizes, counts)
    return Structure(smoothing, blocks, left_over or len(blocks) < len(ties), rows)


def _fit_blocks(
    ties: Mapping[tuple[int, ...], float], sizes: Sequence[int], counts: Counts
) -> tuple[list[tuple[int, ...]], int]:
    """Return the blocks whose joint codes can be held, the closest ones, and in how many rows.

    ``ties``: how close the closest two sensors of each block are.
    """
    blocks, cells = list(ties), counts.cells
    most = _MOST_JOINT // int((cells > 0).sum())
    by_tie = sorted(ties, key=lambda block: ties[block])
    while blocks:
        codes = [min(prod(sizes[t] for t in block), int(cells.sum())) for block in blocks]
        rows = BLOCK_ROWS if sum(codes) <= most else share_out(codes, most)
        if rows >= min(_LEAST_JOINT, *codes):
            return blocks, min(rows, BLOCK_ROWS)
        blocks.remove(by_tie.pop(0))
    return [], 0


def estimate_counts(
    sample: Sample,
    counts: Counts,
    structure: Structure,
    rng: np.random.Generator | None = None,
) -> CountModel:
    """Return what the counts say, with joint codes of blocks from the sample's rows.

    With ``rng``: what other rows of the same world might have said. Each count is then drawn from
    a gamma law whose mean and variance are the count.
    """
    kept = counts.cells > 0
    cells = counts.cells[kept].astype(np.float64)
    totals = [table.sum(axis=0)[kept].astype(np.float64) for table in counts.by_code]
    if rng is not None:
        cells, totals = rng.gamma(cells), [rng.gamma(table) for table in totals]
    alphabets = Alphabets(sample.sizes, sample.ordered)
    given = estimate_sensors(alphabets, totals, structure.smoothing)
    rows = _rows_behind(alphabets, counts.cells[kept], structure.smoothing)
    cell = (np.cumsum(kept) - 1)[cell_index(sample.facts)]
    blocks = [_count_block(own, sample.codes, cell, given, rng) for own in structure.blocks]
    return CountModel(counts.facts[kept], cells / cells.sum(), given, blocks, rows)


def _rows_behind(alphabets: Alphabets, rows: Ints, smoothing: Sequence[Smoothing]) -> Floats:
    """Return how many rows of its own each estimate is as good as, sensors by cells.

    Sensors that share statistics lend each other rows, as many as the weight they have there.
    """
    found = np.empty((len(alphabets.sizes), len(rows)))
    for kind in alphabets.kinds():
        lent = smoothing[kind[0]].shared if len(kind) > 1 else 0.0
        each = lent / (rows + lent) / len(kind)  # weight of every sensor in what is shared
        own = rows / (rows + lent) + each
        found[kind] = rows / (own**2 + (len(kind) - 1) * each**2)
    return found


def _count_block(
    sensors: tuple[int, ...],
    codes: Ints,
    cell: Ints,
    given: list[Floats],
    rng: np.random.Generator | None,
) -> Block:
    distinct, row = np.unique(codes[:, sensors], axis=0, return_inverse=True)
    joint = np.zeros((len(given[0]), len(distinct)))
    np.add.at(joint, (cell, row.ravel()), 1.0)
    if rng is not None:
        joint = rng.gamma(joint)
    # Few rows of a cell would make joint codes certain that are not: one row more for each
    # sensor, as independent sensors would share it out among the joint codes that occur.
    alone = np.ones_like(joint)
    for k, t in enumerate(sensors):
        alone *= given[t][:, distinct[:, k]]
    alone /= alone.sum(axis=1, keepdims=True)
    alone *= len(sensors)
    joint += alone
    joint /= joint.sum(axis=1, keepdims=True)
    return Block(sensors, distinct, joint)
