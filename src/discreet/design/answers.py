"""What a fusion rule answers on rows that taught it nothing.

Rows that the mapping learned from flatter it. So each row is answered by a rule that was learned
without it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet.arrays import Floats, Ints
from discreet.data.columns import Labels
from discreet.design.fusion import (
    Fusion,
    add_decision,
    draw_symbols,
    fusion_rows,
    learn_fusion,
)
from discreet.design.inputs import Settings
from discreet.design.risks import MAX_OUTPUTS, Tables
from discreet.design.training_rows import Rows, Sample
from discreet.leakage.joint_outputs import output_probabilities

# Symbols drawn per row where the outputs are too many to list, and in all.
_DRAWS, _MOST_DRAWN = 20, 40_000
_DRAWN_IN_HASTE = 2  # symbols for each row that a fusion rule is learned from, once time is over
_ROWS_AT_ONCE = 20_000
_LEAST_OF_CLASS = 100  # of its rows, however many there are of others
_TWO_SIDED = 1.96  # standard errors of an interval that holds for 95 %


@dataclass(frozen=True)
class Answers:
    """Decisions about rows whose truth is known.

    ``truth``: the class of every row. ``right``: the probability, over the noise of the symbols,
    that it is decided. ``shares``: how often each class is decided.
    """

    truth: Ints
    right: Floats
    shares: Floats

    @property
    def error(self) -> float:
        """The share of wrong decisions."""
        return 1.0 - float(self.right.mean())

    @property
    def balanced_accuracy(self) -> float:
        """The share of right decisions, averaged over the classes."""
        return float(self._by_class().mean())

    @property
    def constant(self) -> bool:
        """Whether one class is decided whatever the symbols are."""
        return is_constant(self.shares)

    def interval(self, groups: Ints | None = None) -> tuple[float, float]:
        """Return where the balanced accuracy lies with a confidence of 95 %.

        Rows of a group may depend on one another. For the spread, each class gets one group more
        that is answered right and one that is answered wrong: a handful of answers that agree
        are no certainty.
        """
        accuracy = self._by_class()
        share = 1.0 / (len(accuracy) * self._counts())
        parts = share[self.truth] * (self.right - accuracy[self.truth])
        sums = parts if groups is None else np.bincount(groups, parts)
        added = (share * self._largest(groups)) ** 2 * (accuracy**2 + (1.0 - accuracy) ** 2)
        half = _TWO_SIDED * float(np.sqrt(np.sum(sums**2) + added.sum()))
        middle = float(accuracy.mean())
        return max(middle - half, 0.0), min(middle + half, 1.0)

    def _largest(self, groups: Ints | None) -> Floats:
        """Return for each class the most rows that one group has of it."""
        found = np.ones(len(self.shares))
        if groups is not None:
            cells, counts = np.unique(groups * len(found) + self.truth, return_counts=True)
            np.maximum.at(found, cells % len(found), counts)
        return found

    def useful(self, groups: Ints | None = None) -> bool:
        """Whether the decisions are surely better than guessing."""
        return is_useful(self.interval(groups)[0], self.shares)

    def _by_class(self) -> Floats:
        counts = self._counts()
        found: Floats = np.bincount(self.truth, self.right, minlength=len(counts)) / counts
        return found

    def _counts(self) -> Ints:
        """Return the rows of each class; one for a class without any, which counts as wrong."""
        return np.maximum(np.bincount(self.truth, minlength=len(self.shares)), 1)


def is_constant(shares: Sequence[float] | Floats) -> bool:
    """Tell whether one class has all decisions, but for rounding."""
    return bool(np.max(shares) >= 1.0 - 1e-9)


def is_useful(low: float, shares: Sequence[float] | Floats) -> bool:
    """Tell whether decisions are good for anything.

    They are if the interval of their balanced accuracy, which begins at ``low``, lies above
    guessing, and they are not always the same.
    """
    return low > 1.0 / len(shares) and not is_constant(shares)


def join(parts: Sequence[Answers]) -> Answers:
    """Return the answers about all rows, part after part."""
    sizes = np.array([len(part.truth) for part in parts])
    return Answers(
        np.concatenate([part.truth for part in parts]),
        np.concatenate([part.right for part in parts]),
        np.asarray(sizes @ np.stack([part.shares for part in parts]) / sizes.sum()),
    )


# --- Answers from symbols -------------------------------------------------------------------


def some_rows(index: Ints, public: Labels, rng: np.random.Generator, most: int) -> Ints:
    """Return at most so many of the rows at random, and some of every class."""
    if len(index) <= most:
        return index
    order = rng.permutation(index)
    first = order[:most]
    counts = np.bincount(public.index[first], minlength=public.n_classes)
    for k in np.flatnonzero(counts < _LEAST_OF_CLASS):
        first = np.union1d(first, order[public.index[order] == k][:_LEAST_OF_CLASS])
    return np.sort(first)


def finish_fusion(
    settings: Settings,
    tables: Tables,
    fusion: Fusion | None,
    known: Sample,
    rng: np.random.Generator,
    most: int | None = None,
) -> Fusion:
    """Return the rule with its decisions, learned from these rows if it is not given.

    ``most``: rows that a score for each symbol is learned from, where outputs are too many to list.
    If they are fewer than usual, so are the symbols drawn for them.
    """
    reg, drawn = settings.reg, None
    if not settings.lists_outputs:  # a score for each symbol takes no more rows than this
        usual = fusion_rows(settings.n_symbols)
        most = most or usual
        drawn = usual if most >= usual else _DRAWN_IN_HASTE * most
        some = known.take(some_rows(np.arange(len(known.codes)), known.public, rng, most))
        reg, known = reg * len(known.codes) / len(some.codes), some
        # All rows, equal or not, where looking for equal ones would not pay.
        rows = Rows(known.codes, np.arange(len(known.codes)), known.sizes)
    else:
        rows = known.rows()
    if fusion is None:
        fusion = learn_fusion(tables, rows, known.public, settings.kernel, reg, rng, drawn)
    return add_decision(fusion, tables, rows, known.public, settings.aim, rng, drawn)


def answer_unseen(
    fusion: Fusion, tables: Tables, unseen: Sample, rng: np.random.Generator
) -> Answers:
    """Answer rows by a finished rule: exactly where the outputs can be listed."""
    if math.prod([table.shape[1] for table in tables]) <= MAX_OUTPUTS:
        return _answer_listed(fusion, tables, unseen.codes, unseen.public)
    return answer_drawn(fusion, tables, unseen.codes, unseen.public, rng)


def _answer_listed(fusion: Fusion, tables: Tables, codes: Ints, public: Labels) -> Answers:
    """Average Q over all outputs."""
    sizes = [table.shape[1] for table in tables]
    outputs = np.stack(np.unravel_index(np.arange(math.prod(sizes)), sizes), axis=1)
    decided = np.eye(public.n_classes)[fusion.choose(fusion.scores(outputs, sizes))]
    right, total = np.empty(len(codes)), np.zeros(public.n_classes)
    for begin in range(0, len(codes), _ROWS_AT_ONCE):
        part = slice(begin, begin + _ROWS_AT_ONCE)
        chosen = output_probabilities(tables, codes[part]) @ decided
        right[part] = chosen[np.arange(len(chosen)), public.index[part]]
        total += chosen.sum(axis=0)
    return Answers(public.index, right, total / len(codes))


def answer_drawn(
    fusion: Fusion, tables: Tables, codes: Ints, public: Labels, rng: np.random.Generator
) -> Answers:
    """Draw symbols for each row, several times where the rows are few."""
    copies = max(1, min(_DRAWS, _MOST_DRAWN // len(codes)))
    sizes = [table.shape[1] for table in tables]
    right, total = np.zeros(len(codes)), np.zeros(public.n_classes)
    for _ in range(copies):
        decided = fusion.choose(fusion.scores(draw_symbols(tables, codes, rng), sizes))
        right += decided == public.index
        total += np.bincount(decided, minlength=public.n_classes)
    return Answers(public.index, right / copies, total / total.sum())
