"""What attackers look at: each row of codes as what it is expected to show.

Few outputs are looked at one by one. Of many, each symbol of each sensor counts by itself, and
attackers weigh them as a linear discriminant does, which sees copies and chains; what shows only
in combinations is looked for in the pairs of sensors that tell most on other rows. And an attacker
learns from the rows of the design how likely symbols are for each kind of row: a private class may
move all sensors to one side for one public class, and to the other for another one.

*Hidden* is what makes sensors depend beyond their facts and the blocks of a design, such as a state
that nobody named, while outputs are too many to be looked at. Attackers then learn from the rows of
the design, too (``hidden`` below): boosted trees, and mixtures of states given which sensors are
independent. They see about nine tenths of what leaks (``research.benchmarks.hidden_state``) and are
taken for that, and more has to be to spare (``level_trials``).

How far what they look at is apart for two classes, ``class_distances`` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from discreet.arrays import Floats, Ints
from discreet.design.fusion import draw_symbols
from discreet.design.learned_attackers import (
    LEAST_KNOWN,
    Chances,
    LearnedKinds,
    grow_trees,
    learn_states,
    some_rows,
)
from discreet.design.training_rows import rows_of
from discreet.leakage.joint_outputs import output_probabilities

MAX_LISTED = 64
"""Most outputs that are always looked at one by one."""
# More of them too, beside the symbols, where there are so many rows to learn from for each.
_MOST_LISTED, _ROWS_EACH = 1024, 16
# Sensors that are looked at by themselves for each question, and together, and pairs of them.
_ALONE, _TOGETHER, _PAIRS = 2, 3, 4
# Known rows that trees and states are learned from, of each class as many; those that telling
# sensors and pairs are chosen by.
_KNOWN_ROWS, _CHOOSING_ROWS = 20_000, 10_000
# Of what learned attackers score; symbols drawn for each row, and rows that need no more than one.
_CELLS, _DRAWS, _ENOUGH_ROWS = 12, 2, 16_000
_LEARNED = 0.9  # of what leaks, that they see
# The same at least of those whose lessons were few, and the most gain that it is told for.
_LEAST_SEEN, _MOST_GAIN = 0.75, 0.49
_LEAST_LESSONS = 3_000  # rows, known and unseen, of which attackers learn what each kind sends
_UNSURE_ROWS = 2_000  # that tell how unsure scores are
_ORIGIN_ROWS = 1_000  # that what rows show on average is taken from, roughly
_TINY = 1e-12


@dataclass(frozen=True)
class Look:
    """How rows are looked at.

    ``n_rows``: known and unseen. ``fitted``: whether tables were designed on the rows that show
    what they leak. ``blocks``: of sensors that depend given the facts. ``hidden``: whether
    dependence is. ``over``: asked before every question, which it leaves unanswered.
    """

    n_rows: int
    fitted: bool
    blocks: Sequence[tuple[int, ...]]
    hidden: bool
    over: Callable[[], bool]

    @property
    def teaches_kinds(self) -> bool:
        """Whether rows are enough to learn what each kind sends: of fewer all seems uncertain."""
        return self.n_rows >= _LEAST_LESSONS


@dataclass(frozen=True)
class View:
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


class Shown:
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


class Taught:
    """What known rows teach about one fact; found when it is needed.

    Kinds are learned from all rows; all else from as many of every class, drawn at random: tables
    may be sorted.
    """

    def __init__(self, shown: Shown, codes: Ints, index: Ints, kinds: Ints) -> None:
        self.shown, self.codes, self.index, self.kinds = shown, codes, index, kinds
        self._of_kinds: _Scores | None = None

    @cached_property
    def rows(self) -> dict[int, Ints]:
        """The rows of every class, in random order."""
        classes = present_classes(self.index)
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
            drawn, classes = self.shown.drawn, np.unique(self.index)
            learned = LearnedKinds(self.shown.tables, self.codes, self.index, self.kinds, blocks)
            some = some_rows(np.arange(len(drawn[0])), _UNSURE_ROWS)
            unsure = dict(zip(classes.tolist(), learned.unsure(drawn[0][some]), strict=True))
            self._of_kinds = _Scores(learned, classes, drawn, unsure)
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


def views(taught: Taught, classes: tuple[int, ...], look: Look) -> Iterator[View | None]:
    """Yield what attackers look at to tell classes apart, then None for what nobody can look at.

    There are as many for other rows, so that folds can be averaged.
    """
    lacking = _count_views(taught.shown, look)
    if len(taught.shown.codes) and not look.over():
        for view in _possible_views(taught, classes, look):
            lacking -= 1
            yield view
    yield from [None] * lacking


def _possible_views(taught: Taught, classes: tuple[int, ...], look: Look) -> Iterator[View]:
    shown, some = taught.shown, taught.some(classes)
    if lists_all(shown.n_outputs, look.n_rows):
        yield View(shown.listed, None, _middle(output_probabilities(shown.tables, some)))
    if shown.n_outputs <= MAX_LISTED:
        return
    yield View(shown.symbols, shown.noise, _middle(_symbols(shown.tables, some)))
    if taught.lacks(classes):
        return
    for sensors in [*_telling_sensors(taught, classes), *_telling_pairs(taught, classes)]:
        own = [shown.tables[t] for t in sensors]
        seen, before = (
            output_probabilities(own, codes[:, sensors]) for codes in (shown.codes, some)
        )
        yield View(seen, None, _middle(before))
    if look.fitted:
        return
    if look.teaches_kinds:
        yield taught.scores_of_kinds(look.blocks).view(classes)
    if look.hidden:
        yield from (scores.sliced_view(classes, taught.lessons) for scores in taught.scores)


def _middle(values: Floats) -> Floats:
    """Return the mean over rows, 0 without any."""
    return np.asarray(values.sum(axis=0) / max(len(values), 1))


def _count_views(shown: Shown, look: Look) -> int:
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
    of the scores of each class that comes from the lessons (``View``).
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

    def view(self, classes: tuple[int, ...]) -> View:
        """Return how often each of the classes scores most for each row."""
        columns = np.searchsorted(self.classes, classes)
        cells = [each[:, columns].argmax(axis=1) for each in self.unseen]
        unsure = 2.0 * sum(self.unsure.get(k, 0.0) for k in classes) / len(classes)
        return _counted(cells, len(classes), unsure)

    def sliced_view(self, classes: tuple[int, ...], lessons: tuple[Ints, Ints]) -> View:
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


def _counted(cells: Sequence[Ints], n_cells: int, unsure: float = 0.0) -> View:
    """Return how often each row is in each cell, over some draws."""
    seen, rows = np.zeros((len(cells[0]), n_cells)), np.arange(len(cells[0]))
    for each in cells:
        seen[rows, each] += 1.0 / len(cells)
    return View(seen, None, np.full(n_cells, 1.0 / n_cells), unsure)


def _draw(tables: Sequence[Floats], codes: Ints, seed: int) -> list[Ints]:
    """Return symbols of some rows, drawn a few times where rows are few."""
    rng, times = np.random.default_rng(seed), _DRAWS if len(codes) < _ENOUGH_ROWS else 1
    return [draw_symbols(list(tables), codes, rng) for _ in range(times)]


def present_classes(*parts: Ints) -> Ints:
    """Return the classes that occur."""
    length = 1 + max(int(part.max(initial=0)) for part in parts)
    return np.flatnonzero(sum(np.bincount(part, minlength=length) for part in parts))


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


def _means(taught: Taught, classes: Sequence[int]) -> Floats:
    """Return the means of symbols in known rows, classes by symbols."""
    return np.stack([taught.moments[k][0] for k in classes])


def _first_columns(tables: Sequence[Floats]) -> Ints:
    """Return the first column of each sensor among the symbols."""
    return np.cumsum([0, *(table.shape[1] - 1 for table in tables[:-1])])


def _telling_sensors(taught: Taught, classes: Sequence[int]) -> list[list[int]]:
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


def _telling_pairs(taught: Taught, classes: Sequence[int]) -> list[list[int]]:
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
