"""What symbols tell about columns that nobody declared to be private: other secrets.

Every column of the table that is not a declared fact is a candidate: undeclared ones, and what a
sensor itself reads. Rows are dealt into two halves. On the first, columns are compared and the
three that symbols tell most about are chosen; on the second, which no choice has seen, the attacker
who knows the tables and learned from the first half is scored. So its intervals need pay for three
columns only, however many were compared. They are about this attacker: nothing here is a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet.arrays import Floats, Ints
from discreet.auditing.attackers.attack import Question, evidence_by_logs, group_shares
from discreet.auditing.bounds.intervals import Interval
from discreet.auditing.data import AuditData
from discreet.data.columns import (
    Column,
    as_floats,
    is_missing,
    is_numeric,
    understood,
    unusable_kind,
    written_column,
)

SHOWN = 3
_LEAST = 10  # rows of a class, or groups, in each half
_MOST_CLASSES = 5
_LEARNED, _COMPARED, _TESTED = 2_000, 1_000, 4_000  # rows at most, which bounds the time
_REST = "any other"


@dataclass(frozen=True)
class OtherSecret:
    """A column that was not declared, and how well the attacker names its class from symbols.

    ``sensor``: whether it is what a sensor itself reads. ``rows``: of each class that the attacker
    was tested on; with groups, how many of them. ``gain``: balanced accuracy above guessing, with
    its interval. ``from_answer``: the gain from the true public fact alone, an estimate.
    """

    column: str
    sensor: bool
    classes: tuple[str, ...]
    rows: tuple[int, ...]
    gain: Interval
    from_answer: float


@dataclass(frozen=True)
class OtherSecrets:
    """The columns that symbols tell most about, the most telling on the first half in front.

    ``compared``: how many columns there were to choose from. ``left_out``: how many cannot be
    compared: constant, unique to each row, or with too few rows of each class. ``confidence``: of
    all intervals together. ``doubt``: why they promise nothing, as rows depend on one another.
    """

    found: tuple[OtherSecret, ...]
    compared: int
    left_out: int
    confidence: float
    doubt: str = ""


@dataclass(frozen=True)
class _Candidate:
    """A column as classes; ``index`` is -1 where a row has none."""

    name: str
    sensor: bool
    classes: tuple[str, ...]
    index: Ints


def find_other_secrets(
    data: AuditData, symbols: Ints, confidence: float, seed: int
) -> OtherSecrets:
    """Choose on one half of the rows and measure on the other.

    ``symbols``: drawn once for every row.
    """
    rows, rng = data.attacked, np.random.default_rng([seed, 5])
    unit = np.arange(len(rows)) if data.groups is None else data.groups[rows]
    half = _halves(unit, rng)
    frames = (data.readings, True), (data.others, False)
    every = [
        _as_classes(str(name), frame.iloc[:, t], sensor)
        for frame, sensor in frames
        if frame is not None
        for t, name in enumerate(frame.columns)
    ]
    usable = [each for each in every if each is not None and _is_in_both(each, half, unit)]
    first, second = (np.flatnonzero(half == k) for k in (0, 1))
    learn, compare = (first[_halves(unit[first], rng) == k] for k in (0, 1))
    attacker = _Attacker(data, symbols[rows], unit, rng)
    tried = attacker.ask(usable, learn, compare, _COMPARED)
    best = sorted(range(len(usable)), key=lambda k: -tried[k].advantage)[:SHOWN]
    chosen = [usable[k] for k in best]
    asked = attacker.ask(chosen, first, second, _TESTED)
    told = [attacker.ask_answer(each, first, second) for each in chosen]
    share = (1.0 - confidence) / SHOWN
    each_found = (_secret(*each, share) for each in zip(chosen, asked, told, strict=True))
    found = tuple(sorted(each_found, key=lambda each: -each.gain.estimate))
    left_out = len(every) - len(usable)
    return OtherSecrets(found, len(usable), left_out, confidence, data.withheld)


def _secret(each: _Candidate, asked: Question, told: Question, alpha: float) -> OtherSecret:
    base, found = 1.0 / len(each.classes), asked.interval(alpha)
    gain = Interval(found.estimate - base, found.low - base, found.high - base)
    return OtherSecret(each.name, each.sensor, each.classes, asked.tested, gain, told.advantage)


def _halves(unit: Ints, rng: np.random.Generator) -> Ints:
    """Deal units, and with each all of its rows, into two halves."""
    names, place = np.unique(unit, return_inverse=True)
    return np.asarray((rng.permutation(len(names)) % 2)[place])


def _is_in_both(each: _Candidate, half: Ints, unit: Ints) -> bool:
    return all(
        len(np.unique(unit[(half == side) & (each.index == k)])) >= _LEAST
        for side in (0, 1)
        for k in range(len(each.classes))
    )


# --- Columns as classes ----------------------------------------------------------------------


def _as_classes(name: str, column: Column, sensor: bool) -> _Candidate | None:
    column = understood(column)
    gone = is_missing(column)
    present = column[~gone]
    if not len(present) or unusable_kind(column) is not None:
        return None
    many = is_numeric(column) and present.nunique() > _MOST_CLASSES
    classes, inner = _around_the_median(present) if many else _commonest(present)
    if len(classes) < 2:
        return None
    index = np.full(len(column), -1)
    index[~gone] = inner
    return _Candidate(name, sensor, classes, index)


def _around_the_median(present: Column) -> tuple[tuple[str, ...], Ints]:
    """Cut near the median, at a round number: a page shows no single reading."""
    values = np.nan_to_num(as_floats(present))
    middle = float(np.quantile(values, 0.5))
    if middle == values.max():  # half of them or more are the largest
        middle = float(values[values < middle].max())
    cuts = [float(f"{middle:.{digits}g}") for digits in range(2, 7)]
    cut = next((each for each in cuts if 0.3 <= np.mean(values > each) <= 0.7), cuts[-1])
    return (f"at most {cut:g}", f"above {cut:g}"), (values > cut).astype(np.int64)


def _commonest(present: Column) -> tuple[tuple[str, ...], Ints]:
    """Return the commonest values, and the others together if they are enough."""
    texts, place = np.unique(np.array(written_column(present), dtype=str), return_inverse=True)
    order = np.argsort(-np.bincount(place), kind="stable")
    counts = np.bincount(place)[order]
    kept = [int(k) for k, count in zip(order, counts, strict=True) if count >= 2 * _LEAST]
    kept = kept[: _MOST_CLASSES - 1] if len(kept) > _MOST_CLASSES else kept
    number = np.full(len(texts), -1)
    number[kept] = np.arange(len(kept))
    classes = [str(texts[k]) for k in kept]
    index = number[place]
    if kept and (index < 0).sum() >= 2 * _LEAST:
        index, classes = np.where(index < 0, len(kept), index), [*classes, _REST]
    return tuple(classes), index


# --- The attacker ----------------------------------------------------------------------------


class _Attacker:
    """Rates a class by the mean of Q(z|x) over the codes x of the rows learned from."""

    def __init__(
        self, data: AuditData, symbols: Ints, unit: Ints, rng: np.random.Generator
    ) -> None:
        self._tables, self._symbols, self._rng = data.mapping.tables, symbols, rng
        self._codes, self._answer = data.codes[data.attacked], data.public.index[data.attacked]
        self._unit, self._grouped = unit, data.groups is not None

    def ask(
        self, candidates: Sequence[_Candidate], learn: Ints, test: Ints, most: int
    ) -> list[Question]:
        """Learn from some rows and guess the class of others; Q(z|x) is worked out once for all."""
        if not candidates:
            return []
        learn, test = self._some(learn, _LEARNED), self._some(test, most)
        hot = [_one_hot(each, learn) for each in candidates]
        ends = np.cumsum([each.shape[1] for each in hot])[:-1]
        codes, every = self._codes[learn], np.concatenate(hot, axis=1)
        rated = evidence_by_logs(self._tables, codes, every, self._symbols[test])
        parts = zip(candidates, np.split(rated, ends, axis=1), hot, strict=True)
        return [self._question(each, test, _likeliest(part, own)) for each, part, own in parts]

    def ask_answer(self, each: _Candidate, learn: Ints, test: Ints) -> Question:
        """Guess by the true public fact, and by nothing else."""
        hot, answers = _one_hot(each, learn), np.arange(int(self._answer.max()) + 1)
        given = (self._answer[learn] == answers[:, None]).astype(np.float64) @ hot
        return self._question(each, test, _likeliest(given, hot)[self._answer[test]])

    def _some(self, rows: Ints, most: int) -> Ints:
        return rows if len(rows) <= most else np.sort(self._rng.choice(rows, most, replace=False))

    def _question(self, each: _Candidate, test: Ints, guesses: Ints) -> Question:
        label, classes = each.index[test], tuple(range(len(each.classes)))
        hit = (guesses == label).astype(np.float64)
        shares = [
            group_shares(self._unit[test[label == k]], hit[label == k])
            if self._grouped
            else hit[label == k]
            for k in classes
        ]
        estimate = float(np.mean([own.mean() if len(own) else 0.0 for own in shares]))
        right = tuple(float(own.sum()) for own in shares)
        return Question(classes, estimate, right, tuple(map(len, shares)), grouped=self._grouped)


def _one_hot(each: _Candidate, rows: Ints) -> Floats:
    return np.eye(len(each.classes) + 1)[each.index[rows], :-1]  # the last is no class, -1


def _likeliest(rated: Floats, hot: Floats) -> Ints:
    """Return the class with the largest mean rating over its rows; a class without rows has 0."""
    return np.asarray((rated / np.maximum(hot.sum(axis=0), 1.0)).argmax(axis=1))
