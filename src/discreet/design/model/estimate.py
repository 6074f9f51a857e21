"""The distribution behind labelled rows: independent sensors as far as the rows agree.

Sensors are taken to be independent given the cell (public and private classes), which a few
hundred rows can support. Where they are not (a copied sensor, a chain), that would be a
dangerous mistake: the copies' noise averages out and the model does not see it. So the model
is mixed with the rows themselves, each blurred a little, as far as the likelihood of rows
left out asks for.

What each sensor reads in each cell, p(code|cell), is counted from few rows and smoothed three
ways: along the alphabet where its codes are ordered, towards what all sensors with as many codes
read in the same cell, and towards what the sensor reads whatever the cell. How much of each is
chosen by the likelihood of rows left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from discreet.arrays import Floats, Ints
from discreet.design.folds import Sample
from discreet.design.model.distribution import Distribution

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
class Cells:
    """Coded rows and the cell of each.

    ``codes`` is of shape (n_rows, n_sensors). ``sizes``: codes of each sensor. ``ordered``: how
    many of them, from the first, lie on a line; 0 for categories. ``cell`` is of shape (n_rows,).
    """

    codes: Ints
    sizes: tuple[int, ...]
    ordered: tuple[int, ...]
    cell: Ints
    n_cells: int

    def take(self, rows: Ints) -> Cells:
        return replace(self, codes=self.codes[rows], cell=self.cell[rows])

    def counts(self) -> list[Floats]:
        """Return how often each code occurs in each cell, sensor by sensor."""
        found = []
        for t, size in enumerate(self.sizes):
            flat = np.bincount(self.cell * size + self.codes[:, t], minlength=self.n_cells * size)
            found.append(flat.reshape(self.n_cells, size).astype(np.float64))
        return found

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
    cells: Cells, counts: Sequence[Floats], how: Sequence[Smoothing]
) -> list[Floats]:
    """Return p(code|cell) of every sensor, one row per cell.

    ``counts`` is of shape (n_cells, n_codes). ``how``: one for every sensor; those of one kind have
    the same.
    """
    found: list[Floats] = [np.empty(0)] * len(counts)
    for kind in cells.kinds():
        tables = _estimate_kind(cells, kind, [counts[t] for t in kind], how[kind[0]])
        for t, table in zip(kind, tables, strict=True):
            found[t] = table
    return found


def _estimate_kind(
    cells: Cells, kind: Sequence[int], counts: Sequence[Floats], how: Smoothing
) -> list[Floats]:
    matrix = spread(cells.sizes[kind[0]], cells.ordered[kind[0]], how.width)
    spreads = [own @ matrix for own in counts]
    pooled = np.sum(spreads, axis=0)
    common = _towards(pooled, _marginal(pooled), how.marginal)
    found = []
    for own in spreads:
        total = own + how.marginal * _marginal(own)
        if len(kind) > 1:
            total = total + how.shared * common
        found.append(total / total.sum(axis=1, keepdims=True))
    return found


def _marginal(counts: Floats) -> Floats:
    total = counts.sum(axis=0) + _LEAST
    share: Floats = total / total.sum()
    return share


def _towards(counts: Floats, centre: Floats, rows: float) -> Floats:
    total = counts + rows * centre
    share: Floats = total / total.sum(axis=1, keepdims=True)
    return share


def choose_smoothing(cells: Cells, fold: Ints) -> list[Smoothing]:
    """Choose by the likelihood of each fold under what the others teach.

    Width and sharing are chosen for every kind by itself, the marginal for all sensors
    together: one sensor alone says too little about it.
    """
    held = [cells.take(np.flatnonzero(fold == k)).counts() for k in range(int(fold.max()) + 1)]
    return choose_from_counts(cells, held)


def choose_from_counts(
    cells: Cells, held: Sequence[Sequence[Floats]], alike: float = 0.0
) -> list[Smoothing]:
    """Do the same from the counts of each fold, sensor by sensor; ``cells`` needs no rows.

    ``alike``: nats by which sensors have to differ, or they share as much as they can.
    """
    everything = [np.sum(each, axis=0) for each in zip(*held, strict=True)]

    def likelihood(how: Sequence[Smoothing], kind: Sequence[int]) -> float:
        total = 0.0
        for own in held:
            rest = [everything[t] - own[t] for t in kind]
            given = _estimate_kind(cells, kind, rest, how[kind[0]])
            for t, table in zip(kind, given, strict=True):
                total += float((own[t] * np.log(table)).sum())
        return total

    kinds, found = cells.kinds(), [Smoothing()] * len(everything)
    for _ in range(2):
        for kind in kinds:
            for choice in _choices_for_kind(cells, kind):
                options = [_changed(found, kind, **{choice[0]: value}) for value in choice[1]]
                likely = [likelihood(how, kind) for how in options]
                slack = alike if choice[0] == "shared" else 0.0
                close = np.flatnonzero(np.array(likely) >= max(likely) - slack)
                found = options[int(close[-1] if slack else close[0])]
        options = [_changed(found, range(len(found)), marginal=value) for value in _MARGINAL]
        found = max(options, key=lambda how: sum(likelihood(how, kind) for kind in kinds))
    return found


def _choices_for_kind(cells: Cells, kind: Sequence[int]) -> list[tuple[str, tuple[float, ...]]]:
    return [
        ("shared", _SHARED if len(kind) > 1 else (0.0,)),
        ("width", _WIDTHS if cells.ordered[kind[0]] else (0.0,)),
    ]


def _changed(how: Sequence[Smoothing], sensors: Sequence[int], **values: float) -> list[Smoothing]:
    return [
        replace(each, **values) if t in sensors else each for t, each in enumerate(how)
    ]  # fmt: skip


_FOLDS = 5
_BLURS = (0.05, 0.15, 0.35, 0.6)
_LEAST_SHARE = 0.05  # of the rows in the mixture; less is as good as none
_SURE = 3.0  # standard errors that the gain in likelihood must be above nothing
_COMPARED = 400  # most rows of a cell that a row left out is compared with
_KEPT = 600  # most rows in the mixture


@dataclass(frozen=True)
class Model:
    """An estimated distribution, and how it was smoothed.

    ``smoothing``: one for every sensor. ``share``: how much of it are the blurred rows; the rest
    are independent sensors. ``blur``: how often a sensor of such a row reads as any row of its cell
    does.
    """

    distribution: Distribution
    smoothing: list[Smoothing]
    share: float
    blur: float


def estimate_model(
    sample: Sample, ordered: tuple[int, ...], rng: np.random.Generator, like: Model | None = None
) -> Model:
    """Estimate the distribution that the rows were drawn from.

    ``ordered``: how many codes of each sensor lie on a line, from the first; 0 for categories.
    ``rng``: deals rows to folds and chooses those that are kept. ``like``: smooth and mix as in
    this one instead of choosing anew.
    """
    facts, cells = _cells(sample, ordered)
    if like is None:
        fold = _deal(cells, rng)
        smoothing = choose_smoothing(cells, fold)
        share, blur = _choose_mixture(cells, fold, smoothing, rng)
    else:
        smoothing, share, blur = like.smoothing, like.share, like.blur
    given = estimate_sensors(cells, cells.counts(), smoothing)
    prior = np.bincount(cells.cell, minlength=cells.n_cells) / len(cells.cell)
    found = Distribution.independent(given, prior, facts[:, 0], tuple(facts[:, 1:].T))
    if share > 0:
        found = found.mixed_with(_blurred_rows(cells, facts, given, smoothing, blur, rng), share)
    return Model(found, smoothing, share, blur)


def _cells(sample: Sample, ordered: tuple[int, ...]) -> tuple[Ints, Cells]:
    labels = np.column_stack([sample.public.index, *(fact.index for fact in sample.private)])
    facts, cell = np.unique(labels, axis=0, return_inverse=True)
    return facts, Cells(
        sample.codes, sample.sizes, ordered, cell.ravel().astype(np.int64), len(facts)
    )


def _deal(cells: Cells, rng: np.random.Generator) -> Ints:
    order = np.lexsort((rng.permutation(len(cells.cell)), cells.cell))
    fold = np.empty(len(order), dtype=np.int64)
    fold[order] = np.arange(len(order)) % _FOLDS
    return fold


# --- Dependence between sensors --------------------------------------------------------------


def _choose_mixture(
    cells: Cells, fold: Ints, smoothing: Sequence[Smoothing], rng: np.random.Generator
) -> tuple[float, float]:
    """Return the share of blurred rows that rows left out ask for, and the blur."""
    if len(cells.sizes) == 1:
        return 0.0, 1.0
    alone, mixed = [], []
    for k in range(_FOLDS):
        rest, held = cells.take(np.flatnonzero(fold != k)), cells.take(np.flatnonzero(fold == k))
        if not len(held.cell) or not len(rest.cell):
            continue
        given = estimate_sensors(rest, rest.counts(), smoothing)
        alone.append(_log_independent(held, given))
        mixed.append([_log_mixture(rest, held, given, smoothing, b, rng) for b in _BLURS])
    independent = np.concatenate(alone)
    best = (0.0, 1.0, float(independent.sum()))
    for k, blur in enumerate(_BLURS):
        rows = np.concatenate([each[k] for each in mixed])
        share = _best_share(independent, rows)
        gains = _mix(independent, rows, share) - independent
        value = float(independent.sum() + gains.sum())
        sure = gains.sum() > _SURE * np.sqrt(len(gains)) * gains.std()
        if share >= _LEAST_SHARE and sure and value > best[2]:
            best = (share, blur, value)
    return best[0], best[1]


def _log_independent(held: Cells, given: list[Floats]) -> Floats:
    total = np.zeros(len(held.cell))
    for t, table in enumerate(given):
        total += np.log(table[held.cell, held.codes[:, t]])
    return total


def _log_mixture(
    rest: Cells,
    held: Cells,
    given: list[Floats],
    smoothing: Sequence[Smoothing],
    blur: float,
    rng: np.random.Generator,
) -> Floats:
    """Return log p(held row|cell) under the blurred rows of the same cell."""
    found = np.full(len(held.cell), -np.inf)
    for c in range(held.n_cells):
        here, known = np.flatnonzero(held.cell == c), np.flatnonzero(rest.cell == c)
        if not len(here) or not len(known):
            continue
        known = rng.permutation(known)[:_COMPARED]
        logs = np.zeros((len(here), len(known)))
        for t, table in enumerate(given):
            matrix = spread(held.sizes[t], held.ordered[t], smoothing[t].width)
            close = (1.0 - blur) * matrix[rest.codes[known, t]] + blur * table[c]
            logs += np.log(close[:, held.codes[here, t]].T)
        found[here] = logsumexp(logs, axis=1) - np.log(len(known))
    return found


def _mix(independent: Floats, rows: Floats, share: float) -> Floats:
    if share <= 0:
        return independent
    return np.asarray(np.logaddexp(np.log1p(-share) + independent, np.log(share) + rows))


def _best_share(independent: Floats, rows: Floats) -> float:
    """Maximise the likelihood of the mixture by EM; it is concave in the share."""
    share = 0.5
    for _ in range(100):
        both = _mix(independent, rows, share)
        new = float(np.exp(np.log(share) + rows - both).mean())
        if abs(new - share) < 1e-4:
            break
        share = min(max(new, 1e-6), 1 - 1e-6)
    return share


def _blurred_rows(
    cells: Cells,
    facts: Ints,
    given: list[Floats],
    smoothing: Sequence[Smoothing],
    blur: float,
    rng: np.random.Generator,
) -> Distribution:
    """Return the rows as a distribution, each blurred, with the cells' own frequencies."""
    n_rows = len(cells.cell)
    kept = np.sort(rng.permutation(n_rows)[:_KEPT])
    cell, codes = cells.cell[kept], cells.codes[kept]
    weights = np.zeros((len(kept), cells.n_cells))
    frequency = np.bincount(cells.cell, minlength=cells.n_cells) / n_rows
    here = np.bincount(cell, minlength=cells.n_cells)
    weights[np.arange(len(kept)), cell] = frequency[cell] / here[cell]
    weights /= weights.sum()  # a cell may have lost all of its rows
    profiles = []
    for t, table in enumerate(given):
        matrix = spread(cells.sizes[t], cells.ordered[t], smoothing[t].width)
        profiles.append((1.0 - blur) * matrix[codes[:, t]] + blur * table[cell])
    return Distribution(weights, tuple(profiles), facts[:, 0], tuple(facts[:, 1:].T))
