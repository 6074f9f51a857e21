"""The rows of an audit, and the class-conditional distributions of their outputs, p(z|g).

The tables are known, so Q(z|x) is averaged over rows instead of drawing symbols:
p^(z|g) = (1/n_g) sum of Q(z|x_i) over the rows of class g. ``joint_outputs`` has the sums. The same
holds for the second moments, with squared tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Floats, Ints
from discreet.errors import InputError
from discreet.leakage.joint_outputs import (
    BLOCK_NUMBERS,
    average_outputs,
    count_outputs,
    dobrushin,
    row_products,
)

MAX_AUDIT_OUTPUTS = 2**20  # beyond this many nobody lists them; fewer with many classes
_GROUP_NUMBERS = 2**27  # rows times outputs for which the mean of every group is worth its time


@dataclass(frozen=True)
class AuditRows:
    """The rows of an audit: codes, private classes and the tables they go through.

    They say what is drawn when the bounds speak of p(z|g):

    * without groups, a row of class g;
    * with groups, a group that has class g, and then one of its rows of class g. Groups are
      independent draws, each weighs the same, and nothing is assumed about what happens
      inside: how many rows of which class a group has may depend on what it reads;
    * with groups and a cap c, a row of class g, where a group of N such rows counts as
      min(N, c) of them. Without a cap nothing could be promised: one group in ten thousand
      might hold nearly all rows, and no sample would show it.

    ``tables``: the shipped weights over 2**32, so that they are exact. ``codes`` is of shape
    (n_rows, n_sensors). ``index`` of shape (n_rows,): the class of every row, 0 to n_classes - 1.
    ``groups`` of shape (n_rows,): rows of one group (a day, a home) may depend on one another in
    any way. ``cap``: most rows of a class that a group counts with, where rows are drawn and not
    groups. ``unit``: what a group is called in a sentence. ``sensors``: names for messages.
    """

    tables: tuple[Floats, ...]
    codes: Ints
    index: Ints
    n_classes: int
    groups: Ints | None = None
    cap: int | None = None
    unit: str = "group"
    sensors: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        rows = len(self.codes)
        if rows != len(self.index):
            given = f"{rows} rows of codes and {len(self.index)} labels were given"
            raise InputError(f"{given}. Give one label per row.")
        if self.groups is not None and len(self.groups) != rows:
            given = f"{rows} rows and {len(self.groups)} groups were given"
            raise InputError(f"{given}. Give one group per row.")
        if self.cap is not None and (self.groups is None or self.cap < 1):
            raise InputError(
                "cap, the most rows that a group counts with, must be at least 1 and needs groups, "
                f"got {self.cap}."
            )
        if self.codes.shape[1:] != (len(self.tables),):
            raise InputError(
                f"codes have shape {self.codes.shape} for {len(self.tables)} tables. "
                "Give one column of codes per sensor."
            )
        if self.n_classes < 2:
            raise InputError(f"a private fact has at least two classes, got {self.n_classes}.")
        if len(self.index) and not 0 <= self.index.min() <= self.index.max() < self.n_classes:
            raise InputError(f"classes must be 0 to {self.n_classes - 1}.")

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Rows per class."""
        return tuple(np.bincount(self.index, minlength=self.n_classes).tolist())

    @cached_property
    def spreads(self) -> dict[int, float]:
        """What ``deviations`` has measured, by class; kept here because it is asked for often."""
        return {}

    @cached_property
    def compared(self) -> dict[int, Any]:
        """The same rows, as ``kernel_rows`` compares them with one another, by seed."""
        return {}

    @cached_property
    def eta(self) -> float:
        """The Dobrushin coefficient of all sensors together."""
        return dobrushin(self.tables)

    @property
    def n_outputs(self) -> int:
        return count_outputs(self.tables)

    @property
    def listable(self) -> bool:
        """Whether the outputs are few enough to be listed, for every pair of classes."""
        return self.n_outputs * self.n_classes**2 <= 4 * MAX_AUDIT_OUTPUTS

    @property
    def group(self) -> Ints:
        """The group of every row, numbered from 0; without groups a row is its own."""
        return np.arange(len(self.index)) if self.groups is None else self._numbered

    @cached_property
    def _numbered(self) -> Ints:
        assert self.groups is not None
        return np.unique(self.groups, return_inverse=True)[1].astype(np.int64)

    @property
    def n_groups(self) -> int:
        """Independent draws in all: groups, or rows without groups."""
        if self.groups is None or not len(self.index):
            return len(self.index)
        return int(self._numbered.max()) + 1

    @cached_property
    def held(self) -> Floats:
        """Rows of every class in every group as they count: at most ``cap``, if there is one."""
        cells = np.bincount(
            self.index * self.n_groups + self.group, minlength=self.n_classes * self.n_groups
        )
        held = cells.reshape(self.n_classes, self.n_groups).astype(np.float64)
        return held if self.cap is None else np.minimum(held, self.cap)

    @cached_property
    def observations(self) -> tuple[int, ...]:
        """Independent observations of every class: rows, or groups that have the class."""
        if self.groups is None:
            return self.counts
        return tuple(np.count_nonzero(self.held, axis=1).tolist())

    @property
    def means_listable(self) -> bool:
        """Whether the outputs of every group may be listed by themselves."""
        return self.listable and len(self.index) * self.n_outputs <= _GROUP_NUMBERS

    @cached_property
    def shares(self) -> Floats:
        """How frequent every class is in what is drawn: a row, or a row of a drawn group."""
        if self.groups is None or not len(self.index):
            return np.array(self.counts) / max(1, len(self.index))
        if self.cap is not None:
            return np.asarray(self.held.sum(axis=1) / self.held.sum())
        return np.asarray((self.held / self.held.sum(axis=0)).mean(axis=1))

    @property
    def drawn(self) -> str:
        """What the bounds speak of, for a sentence."""
        if self.groups is None:
            return "a row drawn at random"
        if self.cap is None:
            return (
                f"a {self.unit} drawn at random among those with the class, then one of its rows "
                "of that class"
            )
        return (
            f"a row drawn at random, a {self.unit} counting with at most {self.cap} rows of a class"
        )

    @property
    def drawn_first(self) -> str:
        """What is drawn where the class is not given."""
        grouped = self.groups is not None and self.cap is None
        return f"a {self.unit} drawn at random, then any of its rows" if grouped else self.drawn

    @property
    def counted(self) -> str:
        """How many independent observations there are, for a sentence."""
        by_class = ", ".join(map(str, self.observations))
        if self.groups is None:
            return f"{len(self.index)} rows ({by_class} by class)"
        return f"{self.n_groups} {self.unit}s ({by_class} with rows of each class)"

    def take(self, chosen: NDArray[np.bool_]) -> AuditRows:
        """Return some of the rows."""
        groups = None if self.groups is None else self.groups[chosen]
        return replace(self, codes=self.codes[chosen], index=self.index[chosen], groups=groups)

    def split(self, share: float, seed: int) -> tuple[AuditRows, AuditRows]:
        """Split rows at random, within each class, or whole groups if there are any.

        The first part holds about this share of the rows. What is learned from it may
        be used on the second as if it had been known beforehand.
        """
        rng = np.random.default_rng(seed)
        first = np.zeros(len(self.index), dtype=bool)
        if self.groups is None:
            for k in range(self.n_classes):
                own = np.flatnonzero(self.index == k)
                first[rng.permutation(own)[: round(share * len(own))]] = True
        else:
            picked = np.zeros(self.n_groups, dtype=bool)
            picked[rng.permutation(self.n_groups)[: round(share * self.n_groups)]] = True
            first = picked[self.group]
        parts = self.take(first), self.take(~first)
        if "average" not in vars(self):
            self.parts.append(parts)
        return parts

    @cached_property
    def parts(self) -> list[tuple[AuditRows, AuditRows]]:
        """Splits that were made, until the averages of one have been added up."""
        return []

    @cached_property
    def average(self) -> Floats:
        """p^(z|g), one row per class; an empty class has zeros."""
        if self.groups is None:
            for parts in self.parts:  # no pass over the rows, if the parts have made theirs
                if all("average" in vars(part) for part in parts):
                    held = np.maximum(self.counts, 1)
                    first, second = (
                        np.divide(part.counts, held)[:, None] * part.average for part in parts
                    )
                    self.parts.clear()
                    return first + second
        self.parts.clear()
        return average_outputs(self.tables, self.codes, self._by_class(self.row_weights))

    @cached_property
    def joint(self) -> Floats:
        """p^(g, z) of what is drawn: a row, or a group and then any of its rows."""
        if self.groups is None or self.cap is not None:
            return self.shares[:, None] * self.average
        weights = 1.0 / (self.n_groups * self.held.sum(axis=0)[self.group])
        return average_outputs(self.tables, self.codes, self._by_class(weights))

    @cached_property
    def moments(self) -> Moments:
        """What the bounds need to know about the values Q(z|x), or their means over a group."""
        size = np.array(self.observations, dtype=np.float64)
        if self.groups is not None and self.means_listable:
            return Moments(size, self.average, self._group_squares())
        squares = [table**2 for table in self.tables]
        weights = self._by_class(self.row_weights)
        return Moments(size, self.average, average_outputs(squares, self.codes, weights))

    def group_means(self, k: int, chosen: Ints) -> Iterator[Floats]:
        """Yield the means of Q(z|x) over the rows of class k of these groups, in blocks.

        The groups come in the order given; each must have rows of the class.
        """
        place = np.full(self.n_groups, -1)
        place[chosen] = np.arange(len(chosen))
        own = np.flatnonzero((self.index == k) & (place[self.group] >= 0))
        own = own[np.argsort(place[self.group[own]], kind="stable")]
        starts = np.flatnonzero(np.diff(self.group[own], prepend=-1))
        ends = np.append(starts[1:], len(own))
        block = max(1, BLOCK_NUMBERS // self.n_outputs)
        for first, last in _blocks(starts, ends, block):
            rows = own[starts[first] : ends[last - 1]]
            products = row_products(self.tables, self.codes[rows])
            sums = np.add.reduceat(products, starts[first:last] - starts[first], axis=0)
            yield sums / (ends - starts)[first:last, None]

    def _group_squares(self) -> Floats:
        """Return the mean over groups of the square of their mean, by class and output."""
        found = np.zeros((self.n_classes, self.n_outputs))
        for k in range(self.n_classes):
            groups = np.flatnonzero(self.held[k])
            for means in self.group_means(k, groups):
                found[k] += np.square(means).sum(axis=0) / len(groups)
        return found

    @property
    def row_weights(self) -> Floats:
        """Weight of every row in the average of its class."""
        if self.groups is None:
            return 1.0 / np.maximum(self.counts, 1)[self.index]
        cell = self.index * self.n_groups + self.group
        rows = np.bincount(cell)[cell]
        if self.cap is None:
            return np.asarray(1.0 / (np.array(self.observations)[self.index] * rows))
        return np.asarray(np.minimum(1.0, self.cap / rows) / self.held.sum(axis=1)[self.index])

    def _by_class(self, own: Floats) -> Floats:
        """Return weights of rows as one line per class, zero for the rows of others."""
        weights = np.zeros((self.n_classes, len(self.index)))
        weights[self.index, np.arange(len(self.index))] = own
        return weights


@dataclass(frozen=True)
class Moments:
    """What the rows show of Q(z|x), or of its means over groups, by class and output.

    ``size`` of shape (n_classes,): independent observations: rows, or groups that have the class.
    ``mean``, ``square`` of shape (n_classes, n_outputs): averages of Q(z|x_i) and of its square.
    Where groups are too many to list their means the square is that of single rows, which is larger
    and makes every bound wider.
    """

    size: Floats
    mean: Floats
    square: Floats


def _blocks(starts: Ints, ends: Ints, rows: int) -> Iterator[tuple[int, int]]:
    """Cut groups that lie one after the other into runs of about so many rows."""
    first = 0
    while first < len(starts):
        last = int(np.searchsorted(ends, starts[first] + rows, "right"))
        last = max(last, first + 1)
        yield first, last
        first = last
