"""Rows turned into counts, once: how often each code occurs in each cell.

A cell is a combination of the public class and the private ones. Counts are integers and add up
over batches, files and workers, in any order. Rows themselves are kept of a sample only, the same
ones however the table is read.

*The one pass over a table, in memory, in files or on a cluster: what it adds up are integers.*
Every row is digested; every row to learn from becomes codes, which are counted. Parts of a table
can be gone over by anybody and in any order, and their sums added up are those of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.arrays import Floats, Ints
from discreet.data.columns import Labels
from discreet.data.encoders import Encoder, LookedUp, look_up_table
from discreet.data.split import (
    ROWS_AT_ONCE,
    RowSums,
    digit_runs,
    join_digits,
    number_sums,
    table_sums,
)
from discreet.data.tables import FilePart
from discreet.design.training_rows import Sample

FOLDS = 5
"""Parts that rows are dealt to by turns, so that smoothing can be chosen from counts alone."""
_MOST_COUNTERS = 1 << 15  # that are near the processor
_PAIRED_AT_ONCE = 1 << 10  # rows that pairs are counted in at once: their places stay there, too
SAMPLED_ROWS = 100_000
"""Most rows that are looked at as rows: for encoders, dependence, and levels tried."""


def sample_index(n_rows: int, most: int) -> Ints:
    """Return which of so many rows make a sample: always the same ones, in their order."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, most, replace=False))


def cell_index(facts: Sequence[Labels]) -> Ints:
    """Return the cell of every row, numbered the same in every batch."""
    found = np.zeros(len(facts[0].index), dtype=np.int64)
    for fact in facts:
        found *= fact.n_classes
        found += fact.index
    return found


@dataclass(frozen=True)
class Counts:
    """How often each code of each sensor occurs in each fold and cell.

    Attributes
    ----------
    by_code : tuple of int arrays of shape (FOLDS, n_cells, n_codes)
        One for every sensor.
    classes : tuple of int
        Classes of the public fact, then of the private ones.
    """

    by_code: tuple[Ints, ...]
    classes: tuple[int, ...]

    def __add__(self, other: Counts) -> Counts:
        pairs = zip(self.by_code, other.by_code, strict=True)
        return Counts(tuple(a + b for a, b in pairs), self.classes)

    def __sub__(self, other: Counts) -> Counts:
        pairs = zip(self.by_code, other.by_code, strict=True)
        return Counts(tuple(a - b for a, b in pairs), self.classes)

    @property
    def n_cells(self) -> int:
        return int(np.prod(self.classes))

    @property
    def cells(self) -> Ints:
        """Rows of each cell."""
        found: Ints = self.by_code[0].sum(axis=(0, 2))
        return found

    @property
    def facts(self) -> Ints:
        """Classes of each cell, cells by facts."""
        grid = np.unravel_index(np.arange(self.n_cells), self.classes)
        return np.stack(grid, axis=1).astype(np.int64)


def count_codes(
    codes: Ints, sizes: Sequence[int], facts: Sequence[Labels], numbers: Ints | None = None
) -> Counts:
    """Count one batch; ``numbers`` are those of its rows among all, from 0 on if not given."""
    numbers = np.arange(len(codes)) if numbers is None else numbers
    tally = Tally(facts, numbers)
    by_code = [tally.count(codes[:, t], size) for t, size in enumerate(sizes)]
    return Counts(tuple(by_code), tally.classes)


class Tally:
    """Counts codes of some rows, one column after the other.

    ``facts``: of the rows. ``numbers``: theirs among all.
    """

    def __init__(self, facts: Sequence[Labels], numbers: Ints) -> None:
        self.classes = tuple(fact.n_classes for fact in facts)
        self.shape = FOLDS, int(np.prod(self.classes))
        self.places = FOLDS * self.shape[1]
        self._place = numbers % FOLDS * self.shape[1] + cell_index(facts)
        self._begins: dict[int, Ints] = {}

    def count(self, codes: NDArray[Any], size: int) -> Ints:
        """Return how often each of so many codes occurs, folds by cells by codes."""
        if size not in self._begins:
            self._begins[size] = self._place * size
        flat = np.bincount(self._begins[size] + codes, minlength=self.places * size)
        return flat.reshape(*self.shape, size)


@dataclass(frozen=True)
class CountedRows:
    """All rows as counts, and a sample of them as rows.

    ``totals``: how many of all rows have each code, by sensor. ``n_rows``: how many there are.
    ``sample``: all rows, or ``SAMPLED_ROWS`` of them; ``numbers``: theirs among all. ``groups``:
    theirs, if there are any; then ``counts`` are of the sample alone, since groups that are left
    out are left out whole.
    """

    counts: Counts
    totals: list[Ints]
    n_rows: int
    sample: Sample
    numbers: Ints
    groups: Ints | None

    def without(self, left_out: Ints) -> Counts:
        """Return the counts of all rows but some of the sample."""
        return self.counts - count_codes(
            self.sample.codes[left_out],
            self.sample.sizes,
            [fact.take(left_out) for fact in self.sample.facts],
            self.numbers[left_out],
        )


def counted_rows(counts: Counts, sample: Sample, numbers: Ints, groups: Ints | None) -> CountedRows:
    """Return what was counted of all rows beside those that are kept as rows."""
    totals = [table.sum(axis=(0, 1)) for table in counts.by_code]
    n_rows = int(totals[0].sum())
    if groups is not None and len(numbers) < n_rows:
        counts = count_codes(sample.codes, sample.sizes, sample.facts, numbers)
    return CountedRows(counts, totals, n_rows, sample, numbers, groups)


class PairCounts:
    """Counts pairs of codes in one cell after the other, of some sensors with all later ones.

    Codes stand in one row, one sensor after the other: all pairs of them in all cells at once would
    take gigabytes.

    ``edges``: where the codes of each sensor begin, and end. ``totals``: rows of each cell that
    occurs. ``single``: how often each code occurs, cells by codes.
    """

    def __init__(self, codes: Ints, sizes: Sequence[int], cell: Ints) -> None:
        self.edges = np.cumsum([0, *sizes])
        order = np.argsort(cell, kind="stable")
        self._begins = np.flatnonzero(np.diff(cell[order], prepend=-1))
        self.totals = np.diff(self._begins, append=len(cell))
        self._places = np.empty(codes.T.shape, dtype=np.int32)
        for t, column in enumerate(codes.T):
            self._places[t] = column[order] + self.edges[t]
        self.single = np.zeros((len(self.totals), self.edges[-1]), dtype=np.int32)
        for k in range(len(self.totals)):
            self.single[k] = np.bincount(self._rows(k).ravel(), minlength=self.edges[-1])

    def count(self, k: int, some: range) -> Floats:
        """Return the pairs in a cell of the codes of some sensors, and of these and all later ones.

        Each two sensors once: of later codes in rows with earlier ones nothing is counted.
        """
        begin, end = self.edges[some.start], self.edges[-1]
        found = np.zeros((self.edges[some.stop] - begin, end - begin))
        places = self._rows(k)
        for t in some:
            own, later = self.edges[t], slice(self.edges[t] - begin, self.edges[t + 1] - begin)
            shape = later.stop - later.start, int(end - own)
            block = found[later, later.start :]
            for first in range(0, places.shape[1], _PAIRED_AT_ONCE):
                few = places[t:, first : first + _PAIRED_AT_ONCE] - own
                flat = (few[0] * shape[1] + few).ravel()
                block += np.bincount(flat, minlength=shape[0] * shape[1]).reshape(shape)
        return found

    def _rows(self, k: int) -> NDArray[np.int32]:
        """Return the codes in a cell, sensors by rows."""
        return self._places[:, self._begins[k] : self._begins[k] + self.totals[k]]


# --- One pass over a table ------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """What a pass over a table does with each row; small, so that it can be sent to workers.

    ``sensors``: the columns that are coded, and how. ``classes``: how many each fact has.
    ``digested``: the columns that the table is known again by; none where nobody asks.
    """

    sensors: tuple[tuple[str, Encoder], ...]
    classes: tuple[int, ...]
    digested: tuple[str, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(encoder.n_codes for _, encoder in self.sensors)

    @property
    def columns(self) -> list[str]:
        """All columns that are looked at."""
        return list(dict.fromkeys([*(name for name, _ in self.sensors), *self.digested]))


@dataclass(frozen=True)
class Part:
    """Some rows of a table that follow one another.

    ``rows``: they themselves, or where to read them. ``begin``: the number of the first one in the
    table. ``kept``: which of them are learned from. ``number``: of the first of these among all
    that are. ``labels``: the class of every row, for each fact.
    """

    rows: pd.DataFrame | FilePart
    begin: int
    kept: NDArray[np.bool_]
    number: int
    labels: tuple[NDArray[Any], ...]

    def batches(self) -> Iterator[pd.DataFrame]:
        """Yield some rows after the other."""
        for batch in self.rows.batches() if isinstance(self.rows, FilePart) else (self.rows,):
            for begin in range(0, len(batch), ROWS_AT_ONCE):
                yield batch[begin : begin + ROWS_AT_ONCE]


@dataclass(frozen=True)
class Passed:
    """What a pass has added up: sums over all rows, sums and counts of those learned from."""

    table: RowSums
    training: RowSums
    counts: Counts

    def __add__(self, other: Passed) -> Passed:
        return Passed(
            self.table + other.table, self.training + other.training, self.counts + other.counts
        )


def pass_over(plan: Plan, part: Part) -> Passed:
    """Go over some rows: digest all, encode and count those to learn from."""
    table, training, tally = RowSums(), RowSums(), _JointTally(plan)
    seen, number = 0, part.number
    for batch in part.batches():
        here = slice(seen, seen + len(batch))
        kept, labels = part.kept[here], [index[here] for index in part.labels]
        if plan.digested:
            table += table_sums(batch[list(plan.digested)], part.begin + seen)
        if not kept.all():
            batch, labels = batch[kept], [index[kept] for index in labels]
        training += tally.add(batch, labels, number)
        seen, number = seen + len(kept), number + len(batch)
    return Passed(table, training, tally.finish())


class _JointTally:
    """Counts rows batch by batch; neighbouring columns are coded and counted as one."""

    def __init__(self, plan: Plan) -> None:
        self.plan, n_sensors = plan, len(plan.sizes)
        self.places = FOLDS * int(np.prod(plan.classes))
        self.runs = digit_runs([*plan.sizes, *plan.classes])
        # Of each run of digits, which sensors are counted as one.
        self.joined = [
            _together([t for t in run if t < n_sensors], plan.sizes, self.places)
            for run in self.runs
        ]
        self.counts: dict[int, Ints] = {}  # by the first of the sensors that are counted as one

    def add(self, batch: pd.DataFrame, labels: Sequence[NDArray[Any]], number: int) -> RowSums:
        """Count some rows, and return their sums; ``number``: of the first among all."""
        sizes, classes = self.plan.sizes, self.plan.classes
        facts = [Labels("", i, range(k)) for i, k in zip(labels, classes, strict=True)]
        tally = Tally(facts, np.arange(number, number + len(batch)))
        columns, numbers = look_up_table(batch, self.plan.sensors), []
        for run, joined in zip(self.runs, self.joined, strict=True):
            digits = []
            for some in joined:
                found = reduce(LookedUp.joined, [next(columns) for _ in some])
                digits.append((codes := found.codes(), found.size))
                counts = tally.count(codes, found.size)
                self.counts[some[0]] = self.counts.get(some[0], 0) + counts
            of_facts = (t - len(sizes) for t in run if t >= len(sizes))
            digits += [(labels[k], classes[k]) for k in of_facts]
            numbers.append(join_digits(digits))
        return number_sums(numbers)

    def finish(self) -> Counts:
        """Return the counts of every sensor."""
        by_code: list[Ints] = []
        for some in (each for joined in self.joined for each in joined):
            sizes = [self.plan.sizes[t] for t in some]
            nothing = np.zeros((FOLDS, self.places // FOLDS, int(np.prod(sizes))), dtype=np.int64)
            by_code += _apart(self.counts.get(some[0], nothing), sizes)
        return Counts(tuple(by_code), self.plan.classes)


def _together(columns: Sequence[int], sizes: Sequence[int], places: int) -> list[list[int]]:
    """Return neighbours that are counted as one, so few that the counters stay at hand."""
    found: list[list[int]] = []
    counters = _MOST_COUNTERS + 1
    for t in columns:
        counters *= sizes[t]
        if counters > _MOST_COUNTERS:
            found, counters = [*found, []], places * sizes[t]
        found[-1].append(t)
    return found


def _apart(counts: Ints, sizes: Sequence[int]) -> list[Ints]:
    """Return the counts of each column, from those of all that were counted as one."""
    every = counts.reshape(*counts.shape[:2], *sizes)
    axes = range(2, every.ndim)
    return [every.sum(axis=tuple(k for k in axes if k != own)) for own in axes]


Run = Callable[[Plan, Iterable[Part]], Iterable[Passed]]
"""Goes over parts, here or elsewhere; what it finds may come in any order."""


def in_turn(plan: Plan, parts: Iterable[Part]) -> Iterator[Passed]:
    """Go over one part after the other, here."""
    for part in parts:
        yield pass_over(plan, part)


def add_up(plan: Plan, found: Iterable[Passed]) -> Passed:
    """Return what all parts have together."""
    return sum(found, start=Passed(RowSums(), RowSums(), _JointTally(plan).finish()))
