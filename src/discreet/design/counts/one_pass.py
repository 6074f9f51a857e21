"""The one pass over a table, in memory, in files or on a cluster: what it adds up are integers.

Every row is digested; every row to learn from becomes codes, which are counted. Parts of a table
can be gone over by anybody and in any order, and their sums added up are those of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.data.encoders import Encoder, encode_table
from discreet.data.labels import Labels
from discreet.data.split import ROWS_AT_ONCE, RowSums, code_sums, table_sums
from discreet.data.tables import FilePart
from discreet.design.counts.counting import Counts, count_codes


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
    found, seen, number = _nothing(plan), 0, part.number
    for batch in part.batches():
        here = slice(seen, seen + len(batch))
        kept, labels = part.kept[here], [index[here] for index in part.labels]
        table = table_sums(batch[list(plan.digested)], part.begin + seen) if plan.digested else None
        if not kept.all():
            batch, labels = batch[kept], [index[kept] for index in labels]
        found += Passed(table or RowSums(), *_count(plan, batch, labels, number))
        seen, number = seen + len(kept), number + len(batch)
    return found


def _count(
    plan: Plan, batch: pd.DataFrame, labels: Sequence[NDArray[Any]], number: int
) -> tuple[RowSums, Counts]:
    codes = encode_table(batch, plan.sensors)
    facts = [Labels("", i, range(k)) for i, k in zip(labels, plan.classes, strict=True)]
    counts = count_codes(codes, plan.sizes, facts, np.arange(number, number + len(codes)))
    return code_sums(codes, plan.sizes, labels, plan.classes), counts


def _nothing(plan: Plan) -> Passed:
    none = np.empty((0, len(plan.sizes)), dtype=np.int64)
    facts = [Labels("", np.empty(0, dtype=np.int64), range(k)) for k in plan.classes]
    return Passed(RowSums(), RowSums(), count_codes(none, plan.sizes, facts))


Run = Callable[[Plan, Iterable[Part]], Iterable[Passed]]
"""Goes over parts, here or elsewhere; what it finds may come in any order."""


def in_turn(plan: Plan, parts: Iterable[Part]) -> Iterator[Passed]:
    """Go over one part after the other, here."""
    for part in parts:
        yield pass_over(plan, part)


def add_up(plan: Plan, found: Iterable[Passed]) -> Passed:
    """Return what all parts have together."""
    return sum(found, start=_nothing(plan))
