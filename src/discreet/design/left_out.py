"""Which rows are left out of a design, to tell what it delivers.

Of many rows some are left out for good: the tables designed without them are the ones that are
kept, and what is said of them is true of these very tables. Of few rows, each fold is left out in
turn, and the tables kept are designed on all rows, at the level that the folds chose.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from discreet.arrays import Ints
from discreet.design.training_rows import Fold, Sample, split_folds
from discreet.errors import InputError

MANY_ROWS = 8_000
"""From so many on, some rows are left out for good."""
MANY_DEPENDENT_ROWS = 1_500
"""From so many on where dependence is hidden, or rows come in groups: no design knows what it
tells there, and two may leak quite different amounts, so that the very tables have to be tried."""
MANY_GROUPS = 100
"""Of rows in groups, from so many groups on only."""
# One in so many rows, where some are left out for good, and so many at most unless rows abound.
_LEFT_OUT, _MOST_LEFT_OUT = 3, 20_000
_FOLDS_DRAWN = 3  # at most, where outputs are drawn, which takes longer
_GROUPS_EACH = 5  # of every class, for each fold: it is pairs of groups that show a leak


@dataclass(frozen=True)
class Parts:
    """What is left out in turn, or for good; ``too_few`` says why nothing can be."""

    folds: list[Fold] = field(default_factory=list)
    for_good: bool = False
    too_few: InputError | None = None

    @property
    def left_out(self) -> Ints | None:
        """The rows that no design ever sees."""
        return self.folds[0][1] if self.for_good else None


def leave_out(
    sample: Sample,
    groups: Ints | None,
    rng: np.random.Generator,
    *,
    n_folds: int,
    listed: bool = True,
    for_good: bool = True,
    hidden: bool = False,
    sampled: bool = False,
) -> Parts:
    """Choose which rows to leave out.

    ``listed``: whether outputs are few enough to be listed: each row then shows all of them.
    ``for_good``: whether rows may be left out for good, where they are many. ``hidden``: whether
    dependence is; fewer are then many. ``sampled``: whether these are some of many more rows to
    design on, which do not miss a third of them.
    """
    for_good = for_good and has_many(sample, groups, hidden=hidden)
    if for_good:
        n_folds = _LEFT_OUT
        if listed or not sampled:
            n_folds = max(n_folds, -(-len(sample.codes) // _MOST_LEFT_OUT))
    elif groups is not None:
        n_folds = min(n_folds, max(2, _fewest_groups(sample, groups) // _GROUPS_EACH))
    if not (listed or for_good):
        n_folds = min(n_folds, _FOLDS_DRAWN)
    try:
        folds = split_folds(sample, n_folds, groups, rng)
    except InputError as error:
        return Parts(too_few=error)
    return Parts(folds[:1] if for_good else folds, for_good)


def _fewest_groups(sample: Sample, groups: Ints) -> int:
    """Return how many groups the class has that is in fewest of them."""
    return min(
        len(np.unique(groups[fact.index == k]))
        for fact in sample.facts
        for k in range(fact.n_classes)
    )


def has_many(sample: Sample, groups: Ints | None, *, hidden: bool) -> bool:
    """Tell whether rows are so many, and groups enough, that some may be left out for good."""
    if groups is not None and len(np.unique(groups)) < MANY_GROUPS:
        return False
    depends = hidden or groups is not None
    return len(sample.codes) >= (MANY_DEPENDENT_ROWS if depends else MANY_ROWS)
