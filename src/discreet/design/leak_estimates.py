"""What tables leak, estimated on rows that they were not designed on.

The best rule in hindsight seems to gain even where nothing leaks, the more so the fewer the rows
and the more the outputs. But a squared distance between classes, of what rows are expected to
send, exceeds the true one by a sum of variances, which the same rows tell. Less that, the distance
is without bias, may be negative, and averages over folds.

Rows of a fact are of many kinds, by what else is true of them, and how often each kind occurs is
known from all rows, of the design, too: tables can be such that kinds cancel out in these very
shares. So the shares are those of all rows (*strata* below), and as far as they may be off the
truth leaks more, as if it were drawn around them. Of tables that do not cancel this errs upwards.

The advantage is not without bias. It is the distance's root times a slope. Of outputs that are
listed, that is the gain in hindsight over the distance in hindsight, which errs by a few percent
where outputs are many and tell unequally. Of symbols it is that of a normal law, as of many that
tell a little each: of a single telling symbol the law tells four fifths if it is sent half of the
time, and too much if it is rare. So the sensors that tell most are listed as well. The most of
several estimates, which is what is told in the end, errs upwards.

Few outputs are looked at one by one. Of many, each symbol of each sensor counts by itself, and
attackers weigh them as a linear discriminant does, which sees copies and chains; what shows only
in combinations is looked for in the pairs of sensors that tell most on other rows. And an attacker
learns from the rows of the design how likely symbols are for each kind of row: a private class may
move all sensors to one side for one public class, and to the other for another one.

*Hidden* is what makes sensors depend beyond their facts and the blocks of a design, such as a state
that nobody named, while outputs are too many to be looked at. Attackers then learn from the rows of
the design, too (``hidden`` below): boosted trees, and mixtures of states given which sensors are
independent. They see about nine tenths of what leaks (``research.benchmarks.hidden_state``) and are
taken for that, and more has to be to spare (``levels``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtr, ndtri

from discreet.arrays import Floats, Ints
from discreet.design.fusion import draw_symbols
from discreet.design.kinds import Kinds, Strata
from discreet.design.learned_attackers import (
    LEAST_KNOWN,
    Chances,
    grow_trees,
    learn_kinds,
    learn_states,
    some_rows,
)
from discreet.design.training_rows import Sample, rows_of
from discreet.leakage.joint_outputs import output_probabilities

MAX_LISTED = 64
"""Most outputs that are always looked at one by one."""
# More of them too, beside the symbols, where there are so many rows to learn from for each.
_MOST_LISTED, _ROWS_EACH = 1024, 16
# Sensors that are looked at by themselves for each question, and together, and pairs of them.
_ALONE, _TOGETHER, _PAIRS = 2, 3, 4
# Known rows that attackers learn from, of each class as many, and the least of each; those that
# telling sensors and pairs are chosen by.
_KNOWN_ROWS, _CHOOSING_ROWS = 20_000, 10_000
# Rows that the spread is taken from, or so many numbers of each class if that is more.
_MOST_ROWS, _MOST_NUMBERS = 5_000, 50_000
# Of what learned attackers score; symbols drawn for each row, and rows that need no more than one.
_CELLS, _DRAWS, _ENOUGH_ROWS = 12, 2, 16_000
_LEARNED = 0.9  # of what leaks, that they see
# The same at least of those whose lessons were few, and the most gain that it is told for.
_LEAST_SEEN, _MOST_GAIN = 0.75, 0.49
_LEAST_LESSONS = 3_000  # rows, known and unseen, of which attackers learn what each kind sends
# The spread of more columns than this is told by pairs of so many rows.
_FEW_COLUMNS, _FEW_ROWS = 256, 500
_ORIGIN_ROWS = 1_000  # that what rows show on average is taken from, roughly
_DRAWN = 4096  # from a normal law, for attackers that tell more than two classes apart
_TINY = 1e-12

_Correction = Callable[[float, float, float, "_Noise"], tuple[float, float]]


@dataclass(frozen=True)
class Leaks:
    """The leak to several attackers, each by a squared distance between classes.

    ``distance`` is without bias and may be negative, ``variance`` is that of its error, and
    ``slope`` is the advantage over the root of the distance. Where a class is in one group,
    ``variance`` is infinite and ``distance`` is the one that was seen. NaN if a class lacks rows,
    or nobody looked. ``shared``: the part of the variance that other folds of these rows have in
    common. ``crossed``: the trace of the squared covariance of what rows left out show, by which
    designs without one fold and what shows in it move with the other folds.
    """

    distance: Floats
    variance: Floats
    slope: Floats
    shared: Floats = field(default_factory=lambda: np.zeros(1))
    crossed: Floats = field(default_factory=lambda: np.zeros(1))

    @property
    def advantage(self) -> float:
        """The advantage of the attacker who gains most."""
        return self._most(0.0)

    @property
    def error(self) -> float:
        """One standard error of it, upwards."""
        return self._most(1.0) - self.advantage

    @property
    def low(self) -> float:
        """What is surely gained: two standard errors less."""
        return self._most(-2.0)

    @property
    def evidence(self) -> float:
        """The largest squared distance with one standard error: x of a round, which adds up."""
        least = np.maximum(self.distance, 0.0)
        return float(np.nanmax(least + np.sqrt(self.variance), initial=0.0))

    def _most(self, errors: float) -> float:
        # A distance that seems negative is none, and as uncertain as before.
        least = np.maximum(self.distance, 0.0) if errors > 0 else self.distance
        moved = least + errors * np.sqrt(self.variance) if errors else least
        return float(np.nanmax(self.slope * np.sqrt(np.maximum(moved, 0.0)), initial=0.0))


def average(parts: Sequence[Leaks]) -> Leaks:
    """Average over folds, whose rows are others.

    A fold that lacks a class, or has it in one group, says nothing of it where others do. Of what
    no fold shows, or one of several by a few rows, everything may leak.

    Each design has learned from the other folds. Where tables are flat on those, they are off by
    what these show by chance, and so the products of any two folds are part of both estimates.
    """
    distance, variance, slope, shared, crossed = (
        np.stack([np.broadcast_to(getattr(part, each.name), part.distance.shape) for part in parts])
        for each in fields(Leaks)
    )
    told = np.isfinite(variance)
    told |= np.isfinite(distance) & ~told.any(axis=0)
    folds, lacking = told.sum(axis=0), np.isnan(distance).any(axis=0)
    count, shown = np.maximum(folds, 1), told.any(axis=0) & ~(lacking & (folds < 2))

    def mean(values: Floats) -> Floats:
        return np.asarray(np.where(told, values, 0.0).sum(axis=0) / count)

    common = mean(shared)
    own = (
        mean(variance)
        - common
        + np.where(folds > 1, 4.0 * mean(crossed), 0.0) / np.maximum(folds - 1, 1)
    )
    return Leaks(
        mean(distance),
        np.where(shown, own / count + common, np.inf),
        np.where(shown, mean(slope), 1.0),
    )


@dataclass(frozen=True)
class _Look:
    """How rows are looked at. ``over``: asked before every question, which it leaves unanswered."""

    n_rows: int
    correct: _Correction
    blocks: Sequence[tuple[int, ...]]
    hidden: bool
    over: Callable[[], bool]

    @property
    def teaches_kinds(self) -> bool:
        """Whether rows are enough to learn what each kind sends: of fewer all seems uncertain."""
        return self.n_rows >= _LEAST_LESSONS


def estimate_leaks(
    tables: Sequence[Floats],
    known: Sample,
    unseen: Sample,
    groups: Ints | None = None,
    *,
    beyond: bool = False,
    blocks: Sequence[tuple[int, ...]] = (),
    hidden: bool = False,
    over: Callable[[], bool] = lambda: False,
) -> Leaks:
    """Estimate from ``unseen`` what tables leak that were designed on ``known``.

    ``groups``: of the rows of ``unseen`` that may depend on one another. ``beyond``: attackers
    know the public fact. ``blocks``: of sensors that depend given the facts. ``over``: whether time
    is; what was not looked at is NaN.
    """
    look = _Look(len(known.codes) + len(unseen.codes), _unfitted, blocks, hidden, over)
    return _estimate_all(tables, known, unseen, groups, beyond, look)


def estimate_fitted_leaks(
    tables: Sequence[Floats],
    sample: Sample,
    groups: Ints,
    *,
    beyond: bool = False,
    hidden: bool = False,
    over: Callable[[], bool] = lambda: False,
) -> Leaks:
    """Estimate what tables leak in other groups that were designed on these very ones.

    On the groups that they were designed on, tables leak as little as they were asked to. What
    other groups see is as far from that as groups differ: the distance is what it would be on
    average if the truth were drawn around what was seen. That errs upwards where tables follow
    single groups less closely. Attackers that learned are NaN: there are no rows that did not
    teach them. ``over``: whether time is; what was not looked at is NaN, too.
    """
    look = _Look(len(sample.codes), _fitted, (), hidden, over)
    return _estimate_all(tables, sample, sample, groups, beyond, look)


def _estimate_all(
    tables: Sequence[Floats],
    known: Sample,
    unseen: Sample,
    groups: Ints | None,
    beyond: bool,
    look: _Look,
) -> Leaks:
    found = []
    kinds = Kinds(known, unseen)
    for inside, rows in _audiences(known, unseen, beyond):
        shown = _Shown(tables, rows_of(unseen.codes, rows))
        own = None if groups is None else groups[rows]
        for held, fact in zip(known.private, unseen.private, strict=True):
            index = fact.index[rows]
            taught = _Taught(
                shown, rows_of(known.codes, inside), held.index[inside], kinds.taught(inside, held)
            )
            strata = kinds.strata(inside, taught.index, rows, index, whole=own is not None)
            found += [
                _estimate(view, [strata.get(k) for k in classes], own, look.correct)
                for classes in _questions(_present(taught.index, index))
                for view in _views(taught, classes, look)
            ]
    return Leaks(*np.reshape(found, (-1, 5)).T)


def _audiences(
    known: Sample, unseen: Sample, beyond: bool
) -> Iterator[tuple[Ints | slice, Ints | slice]]:
    """Yield the known and the unseen rows that attackers look at together."""
    if not beyond:
        yield slice(None), slice(None)  # all of them, which are not copied
        return
    for h in range(unseen.public.n_classes):
        yield np.flatnonzero(known.public.index == h), np.flatnonzero(unseen.public.index == h)


def _present(*parts: Ints) -> Ints:
    """Return the classes that occur."""
    length = 1 + max(int(part.max(initial=0)) for part in parts)
    return np.flatnonzero(sum(np.bincount(part, minlength=length) for part in parts))


def _questions(classes: Ints) -> list[tuple[int, ...]]:
    """Return which of the classes that occur to tell apart: any two, and all of more than two."""
    found: list[tuple[int, ...]] = list(combinations(classes.tolist(), 2))
    return found if len(classes) <= 2 else [*found, tuple(classes.tolist())]


# --- What attackers look at -----------------------------------------------------------------


@dataclass(frozen=True)
class _View:
    """What each row is expected to show; ``noise`` is its covariance given the row, on average.

    Outputs that are listed have none: their covariance follows from their probabilities.
    ``origin``: what other rows show on average, near which products of two groups vary least.
    ``unsure``: the variance of the scores of learned attackers that comes from their lessons, when
    1 is that within a class. ``share``: of what leaks, that learned attackers see anyway.
    """

    shown: Floats
    noise: Floats | None
    origin: Floats
    unsure: float = 0.0
    share: float = 1.0

    def share_seen(self, gain: float) -> float:
        """Return which share of what leaks is seen, if so much is.

        If scores of normal law are d apart, those with that much more variance are
        d / sqrt(1 + unsure / d**2) apart.
        """
        seen = (2.0 * float(ndtri(0.5 + min(max(gain, 0.0), _MOST_GAIN)))) ** 2
        true = 0.5 * (seen + np.sqrt(seen**2 + 4.0 * seen * self.unsure))
        of_lessons = np.sqrt(seen / true) if true > 0.0 else 1.0
        return self.share * max(float(of_lessons), _LEAST_SEEN)

    def of(self, rows: Ints) -> Floats:
        """Return what some rows show; columns are contiguous."""
        return self.shown.T.take(rows, axis=1).T


class _Shown:
    """What unseen rows are expected to show, whatever the question; found when it is needed."""

    def __init__(self, tables: Sequence[Floats], codes: Ints) -> None:
        self.tables, self.codes = tables, codes
        self.n_symbols = np.array([table.shape[1] for table in tables])
        self.n_outputs = float(np.prod(self.n_symbols.astype(float)))

    @cached_property
    def symbols(self) -> Floats:
        return _symbols(self.tables, self.codes)

    @cached_property
    def noise(self) -> Floats:
        return _symbol_noise(self.tables, self.codes)

    @cached_property
    def drawn(self) -> list[Ints]:
        """Symbols of every row, drawn a few times where rows are few."""
        return _draw(self.tables, self.codes, 0)

    @cached_property
    def listed(self) -> Floats:
        return output_probabilities(self.tables, self.codes)


class _Taught:
    """What known rows teach about one fact; found when it is needed.

    Of every class as many rows, drawn at random: tables may be sorted.
    """

    def __init__(self, shown: _Shown, codes: Ints, index: Ints, kinds: Ints) -> None:
        self.shown, self.codes, self.index, self.kinds = shown, codes, index, kinds
        self._of_kinds: _Scores | None = None

    @cached_property
    def rows(self) -> dict[int, Ints]:
        """The rows of every class, in random order."""
        classes = _present(self.index)
        most = max(_KNOWN_ROWS // max(len(classes), 1), LEAST_KNOWN)
        return {int(k): some_rows(np.flatnonzero(self.index == k), most) for k in classes}

    def lacks(self, classes: Sequence[int]) -> bool:
        """Tell whether one of the classes has no two rows to learn from."""
        return any(len(self.rows.get(k, ())) < 2 for k in classes)

    @cached_property
    def moments(self) -> dict[int, tuple[Floats, Floats]]:
        """For every class the means of symbols, and of their products."""
        most = max(_CHOOSING_ROWS // len(self.rows), LEAST_KNOWN)
        some = {k: rows_of(self.codes, np.sort(own[:most])) for k, own in self.rows.items()}
        parts = {k: _symbols(self.shown.tables, codes) for k, codes in some.items()}
        return {k: (part.mean(axis=0), part.T @ part / len(part)) for k, part in parts.items()}

    @cached_property
    def lessons(self) -> tuple[Ints, Ints]:
        """Symbols that known rows sent, and their classes."""
        own = np.concatenate(list(self.rows.values()))
        drawn = _draw(self.shown.tables, rows_of(self.codes, own), 1)
        return np.concatenate(drawn), np.tile(self.index[own], len(drawn))

    def scores_of_kinds(self, blocks: Sequence[tuple[int, ...]]) -> _Scores:
        """Return what attackers score who know how likely symbols are for each kind."""
        if self._of_kinds is None:
            tables = self.shown.tables
            learned, unsure = learn_kinds(tables, self.codes, self.index, self.kinds, blocks)
            self._of_kinds = _Scores(learned, np.unique(self.index), self.shown.drawn, unsure)
        return self._of_kinds

    @cached_property
    def scores(self) -> list[_Scores]:
        """What trees and mixtures score that learned to tell all classes apart."""
        drawn, index = self.lessons
        learned = grow_trees(drawn, index), learn_states(drawn, index, self.shown.n_symbols)
        return [_Scores(each, np.unique(index), self.shown.drawn) for each in learned]

    def some(self, classes: Sequence[int]) -> Ints:
        """Return the codes of some rows, of each class as many."""
        own = [self.rows[k][: _ORIGIN_ROWS // len(classes)] for k in classes if k in self.rows]
        return rows_of(self.codes, np.concatenate([*own, np.zeros(0, dtype=np.int64)]))


def _views(taught: _Taught, classes: tuple[int, ...], look: _Look) -> Iterator[_View | None]:
    """Yield what attackers look at to tell classes apart, then None for what nobody can look at.

    There are as many for other rows, so that folds can be averaged.
    """
    lacking = _count_views(taught.shown, look)
    if len(taught.shown.codes) and not look.over():
        for view in _possible_views(taught, classes, look):
            lacking -= 1
            yield view
    yield from [None] * lacking


def _possible_views(taught: _Taught, classes: tuple[int, ...], look: _Look) -> Iterator[_View]:
    shown, some = taught.shown, taught.some(classes)
    if lists_all(shown.n_outputs, look.n_rows):
        yield _View(shown.listed, None, _middle(output_probabilities(shown.tables, some)))
    if shown.n_outputs <= MAX_LISTED:
        return
    yield _View(shown.symbols, shown.noise, _middle(_symbols(shown.tables, some)))
    if taught.lacks(classes):
        return
    for sensors in [*_telling_sensors(taught, classes), *_telling_pairs(taught, classes)]:
        own = [shown.tables[t] for t in sensors]
        seen, before = (
            output_probabilities(own, codes[:, sensors]) for codes in (shown.codes, some)
        )
        yield _View(seen, None, _middle(before))
    if look.correct is _fitted:
        return
    if look.teaches_kinds:
        yield taught.scores_of_kinds(look.blocks).view(classes)
    if look.hidden:
        yield from (scores.sliced_view(classes, taught.lessons) for scores in taught.scores)


def _middle(values: Floats) -> Floats:
    """Return the mean over rows, 0 without any."""
    return np.asarray(values.sum(axis=0) / max(len(values), 1))


def _count_views(shown: _Shown, look: _Look) -> int:
    """Return how many views there are of any question."""
    if shown.n_outputs <= MAX_LISTED:
        return 1
    n_sensors = len(shown.tables)
    some = min(_ALONE, n_sensors) + 1 + min(_PAIRS, n_sensors * (n_sensors - 1) // 2)
    listed = lists_all(shown.n_outputs, look.n_rows)
    return listed + 1 + some + look.teaches_kinds + 2 * look.hidden


class _Scores:
    """What attackers score who learned to tell all classes apart.

    What all sensors follow, and nobody named, shows there: a state that is often on either side for
    one class and in the middle for the other moves no symbol by itself. ``classes``: which they
    learned of, in order. ``unseen``: symbols drawn for the rows left out. ``unsure``: the variance
    of the scores of each class that comes from the lessons (``_View``).
    """

    def __init__(
        self,
        learned: Chances,
        classes: Ints,
        unseen: Sequence[Ints],
        unsure: dict[int, float] | None = None,
    ) -> None:
        self.learned, self.classes, self.unsure = learned, classes, unsure or {}
        self.unseen = [learned(drawn) for drawn in unseen]

    def view(self, classes: tuple[int, ...]) -> _View:
        """Return how often each of the classes scores most for each row."""
        columns = np.searchsorted(self.classes, classes)
        cells = [each[:, columns].argmax(axis=1) for each in self.unseen]
        unsure = 2.0 * sum(self.unsure.get(k, 0.0) for k in classes) / len(classes)
        return _counted(cells, len(classes), unsure)

    def sliced_view(self, classes: tuple[int, ...], lessons: tuple[Ints, Ints]) -> _View:
        """Return the same where dependence is hidden: of two classes, in slices of their scores.

        ``lessons``: what the attackers learned from, which tells where to cut.
        """
        if len(classes) != 2:
            return replace(self.view(classes), share=_LEARNED)
        first, second = np.searchsorted(self.classes, classes)
        drawn, index = lessons
        own = self.learned(drawn[np.isin(index, classes)])
        edges = np.quantile(own[:, second] - own[:, first], np.arange(1, _CELLS) / _CELLS)
        cells = [np.searchsorted(edges, each[:, second] - each[:, first]) for each in self.unseen]
        return replace(_counted(cells, _CELLS), share=_LEARNED)


def _counted(cells: Sequence[Ints], n_cells: int, unsure: float = 0.0) -> _View:
    """Return how often each row is in each cell, over some draws."""
    seen, rows = np.zeros((len(cells[0]), n_cells)), np.arange(len(cells[0]))
    for each in cells:
        seen[rows, each] += 1.0 / len(cells)
    return _View(seen, None, np.full(n_cells, 1.0 / n_cells), unsure)


def _draw(tables: Sequence[Floats], codes: Ints, seed: int) -> list[Ints]:
    """Return symbols of some rows, drawn a few times where rows are few."""
    rng, times = np.random.default_rng(seed), _DRAWS if len(codes) < _ENOUGH_ROWS else 1
    return [draw_symbols(list(tables), codes, rng) for _ in range(times)]


def lists_all(n_outputs: float, n_rows: int) -> bool:
    """Tell whether so many rows show every one of so many outputs well enough to look at it."""
    few = n_outputs <= _MOST_LISTED and n_rows >= _ROWS_EACH * n_outputs
    return n_outputs <= MAX_LISTED or few


def _symbols(tables: Sequence[Floats], codes: Ints) -> Floats:
    """Return the probabilities of all symbols but each sensor's first, rows by symbols."""
    columns = np.ascontiguousarray(codes.T)
    parts = [table[:, 1:].T.take(columns[t], axis=1) for t, table in enumerate(tables)]
    return np.concatenate(parts).T


def _symbol_noise(tables: Sequence[Floats], codes: Ints) -> Floats:
    """Return the average covariance of the symbols that equal readings send."""
    width = sum(table.shape[1] - 1 for table in tables)
    found, begin = np.zeros((width, width)), 0
    for t, table in enumerate(tables):
        weights = np.bincount(codes[:, t], minlength=len(table)) / len(codes)
        sent = table[:, 1:]
        end = begin + sent.shape[1]
        own = np.diag(weights @ sent) - (sent * weights[:, None]).T @ sent
        found[begin:end, begin:end] = own
        begin = end
    return found


def _means(taught: _Taught, classes: Sequence[int]) -> Floats:
    """Return the means of symbols in known rows, classes by symbols."""
    return np.stack([taught.moments[k][0] for k in classes])


def _first_columns(tables: Sequence[Floats]) -> Ints:
    """Return the first column of each sensor among the symbols."""
    return np.cumsum([0, *(table.shape[1] - 1 for table in tables[:-1])])


def _telling_sensors(taught: _Taught, classes: Sequence[int]) -> list[list[int]]:
    """Return the sensors whose symbols tell most by themselves, and some of them together."""
    tables, means = taught.shown.tables, _means(taught, classes)
    edges, middle = _first_columns(tables), means.mean(axis=0)
    apart = means - middle
    told = np.add.reduceat((apart**2).sum(axis=0) / np.maximum(middle, _TINY), edges)
    first = (np.add.reduceat(apart, edges, axis=1) ** 2).sum(axis=0)  # of each sensor's first
    told += first / np.maximum(1.0 - np.add.reduceat(middle, edges), _TINY)
    best = np.argsort(-told, kind="stable").tolist()
    return [*([t] for t in best[:_ALONE]), _as_listed(tables, best[:_TOGETHER])]


def _as_listed(tables: Sequence[Floats], sensors: Sequence[int]) -> list[int]:
    """Return the first of some sensors, as many as have few outputs together."""
    outputs = np.cumprod([float(tables[t].shape[1]) for t in sensors])
    return list(sensors[: max(int(np.sum(outputs <= MAX_LISTED)), 1)])


def _telling_pairs(taught: _Taught, classes: Sequence[int]) -> list[list[int]]:
    """Return the pairs of sensors whose symbols together tell most beyond what each tells."""
    tables, middle = taught.shown.tables, _means(taught, classes).mean(axis=0)
    edges = _first_columns(tables)
    total = _apart_together([taught.moments[k] for k in classes], middle)
    by_sensors = np.add.reduceat(np.add.reduceat(total, edges, axis=0), edges, axis=1)
    first, second = np.triu_indices(len(tables), 1)
    best = np.argsort(-by_sensors[first, second], kind="stable")[:_PAIRS]
    return [[int(first[k]), int(second[k])] for k in best]


def _apart_together(moments: Sequence[tuple[Floats, Floats]], middle: Floats) -> Floats:
    """Return how far products of symbols, about the middle, are from what they are on average."""
    crossed = [np.outer(middle, mean) for mean, _ in moments]
    own = [both - each - each.T for (_, both), each in zip(moments, crossed, strict=True)]
    average = sum(own[1:], own[0]) / len(own)
    return np.asarray(sum(np.abs(each - average) for each in own))


# --- Distances ------------------------------------------------------------------------------


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


def _estimate(
    view: _View | None,
    strata: Sequence[Strata | None],
    groups: Ints | None,
    correct: _Correction,
) -> tuple[float, float, float, float, float]:
    """Return what ``Leaks`` has of one attacker; NaN if rows cannot tell.

    ``strata``: the rows of each class that is told apart.
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
    distance, variance = correct(seen, bias, noise.along(centres), noise)
    return distance, variance + shared, slope, shared, noise.squared_trace()


def _whitener(view: _View, parts: Sequence[Floats], means: Floats) -> Callable[[Floats], Floats]:
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
    view: _View, own: Sequence[Ints], groups: Ints, whiten: Callable[[Floats], Floats]
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
