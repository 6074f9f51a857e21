"""What tables leak, estimated on rows that they were not designed on.

The best rule in hindsight seems to gain even where nothing leaks, the more so the fewer the rows
and the more the outputs. So what is estimated is a squared distance between classes, of what rows
are expected to send, which is without bias and averages over folds (``class_distances``): for all
classes that may be told apart, and whatever attackers look at to do so (``attacker_views``). The
most of several estimates, which is what is told in the end, errs upwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import combinations

import numpy as np

from discreet.arrays import Floats, Ints
from discreet.design.attacker_views import Look, Shown, Taught, present_classes, views
from discreet.design.class_distances import estimate_distance
from discreet.design.kinds import Kinds
from discreet.design.training_rows import Sample, rows_of


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
    n_rows = len(known.codes) + len(unseen.codes)
    look = Look(n_rows, fitted=False, blocks=blocks, hidden=hidden, over=over)
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
    look = Look(len(sample.codes), fitted=True, blocks=(), hidden=hidden, over=over)
    return _estimate_all(tables, sample, sample, groups, beyond, look)


def _estimate_all(
    tables: Sequence[Floats],
    known: Sample,
    unseen: Sample,
    groups: Ints | None,
    beyond: bool,
    look: Look,
) -> Leaks:
    found = []
    kinds = Kinds(known, unseen)
    for inside, rows in _audiences(known, unseen, beyond):
        shown = Shown(tables, rows_of(unseen.codes, rows))
        own = None if groups is None else groups[rows]
        for held, fact in zip(known.private, unseen.private, strict=True):
            index = fact.index[rows]
            taught = Taught(
                shown, rows_of(known.codes, inside), held.index[inside], kinds.taught(inside, held)
            )
            strata = kinds.strata(inside, taught.index, rows, index, whole=own is not None)
            found += [
                estimate_distance(view, [strata.get(k) for k in classes], own, fitted=look.fitted)
                for classes in _questions(present_classes(taught.index, index))
                for view in views(taught, classes, look)
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


def _questions(classes: Ints) -> list[tuple[int, ...]]:
    """Return which of the classes that occur to tell apart: any two, and all of more than two."""
    found: list[tuple[int, ...]] = list(combinations(classes.tolist(), 2))
    return found if len(classes) <= 2 else [*found, tuple(classes.tolist())]
