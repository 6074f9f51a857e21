"""How much leaks at least: the best attacker's advantage bounded from below, from all rows.

Attackers on drawn symbols toss the dice of the tables once more and learn from some of the
rows. Here nothing is drawn. One half of the rows chooses an attacker: the classes to tell
apart, k of them, and for every output the class that it names, so that A_g are the outputs
taken for class g. The other half bounds what that attacker reaches,

    S = sum of p(A_g|g) over the k classes,    advantage = (S - 1)/k,

from the known chances Y_i = Q(A_g|x_i) of its rows. Then the halves change places. Each bound
spends half of alpha, so the larger one holds with 1 - alpha: whatever is reached by one
attacker, the best one reaches.

**Validity.** What the first half chose is fixed as far as the second is concerned: sets,
centres t_g and the stake C. Let class g have N_g rows in the second half, c_g = C/N_g, and

    W = product over classes and rows of (1 + c_g (Y_i - t_g)),    c_g (t_g - low_g) < 1,

low_g being the least that the tables allow Q(A_g|x) to be, so that no factor is negative.
Given the classes the rows are independent and E Y_i = p(A_g|g), hence

    E W = product (1 + c_g (p(A_g|g) - t_g))^N_g <= exp(C (S - sum t_g)),

and by Markov's inequality log W >= log(1/a) + C (S - sum t_g) has probability at most a.
Otherwise S > sum t_g + (log W - log(1/a))/C, which is the bound. log(1 + u) is about
u - u^2/2, so the loss is about C/2 times the variance of the estimate, plus log(1/a)/C: a stake
near the root of 2 log(1/a)/variance is the best, and a poor one costs tightness alone.

**Groups.** An observation is a group and Y the mean of Q(A_g|x) over its rows of class g; each
group that has the class weighs the same. Given which groups have class g, their means are
independent draws. Which groups have another class may depend on the same readings, so nothing
is said given both: every class gets a W and a stake of its own and a k-th part of the error
probability, and the k bounds are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Floats, Ints
from discreet.auditing.bounds.intervals import check_alpha
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.leakage.joint_outputs import set_probabilities, smallest_and_largest

HALVES = "halves"
"""What the attacker that is chosen on one half of the rows is called."""
_LARGEST_BET = 0.95
_DOUBT = 0.25  # variance of a coin, counted as one observation more than the first half has seen
_ENOUGH = 2_000  # observations of the first half that say what the variance is
_ROUNDING = 1e-12  # outweighs rounding errors in sums of logarithms


@dataclass(frozen=True)
class LowerBound:
    """What an attacker gains at least.

    ``advantage``: with probability ``confidence`` the best attacker's advantage,
    ``exact.advantage``, is at least this; 0 if nothing is shown to leak. ``classes``: the classes
    that are distinguished: all of them, or two. ``estimate``: the advantage of the same attacker on
    the rows that bounded it, without bias.
    """

    advantage: float
    classes: tuple[int, ...]
    estimate: float
    confidence: float


def certify_lower(rows: AuditRows, alpha: float, seed: int) -> LowerBound | None:
    """Bound the best attacker's advantage from below, at confidence 1 - alpha.

    ``seed``: of the split into halves. It is to be fixed before the audit: the best of several
    splits holds less often than promised. Returns none where the outputs are too many to list, or
    some half lacks all but one class.
    """
    check_alpha(alpha)
    if not rows.listable:
        return None
    first, second = (_Half(part) for part in rows.split(0.5, seed))
    found = []
    for teacher, judge in ((first, second), (second, first)):
        attacker = _choose(teacher, judge.counts, alpha / 2)
        if attacker is not None:
            found.append(_judge(attacker, judge, alpha))
    return max(found, key=lambda bound: bound.advantage, default=None)


class _Half:
    """Half of the rows as independent observations: rows, or those of one class in a group."""

    def __init__(self, rows: AuditRows) -> None:
        self.rows = rows
        self.cell, self.owner = np.arange(len(rows.index)), rows.index
        if rows.groups is not None:
            number = np.unique(rows.groups, return_inverse=True)[1]
            cells = rows.index * (len(rows.index) + 1) + number
            seen, self.cell = np.unique(cells, return_inverse=True)
            self.owner = seen // (len(rows.index) + 1)

    @cached_property
    def counts(self) -> Ints:
        """Observations of each class."""
        return np.bincount(self.owner, minlength=self.rows.n_classes)

    def chances(self, k: int, inside: NDArray[np.bool_], most: int | None = None) -> Floats:
        """Return the mean of Q(A|x) over each observation of class k, or over the first ones."""
        own = self.rows.index == k
        if most is not None:
            first = np.flatnonzero(self.owner == k)[:most]
            own &= self.cell <= first[-1]
        values = set_probabilities(self.rows.tables, self.rows.codes[own], inside)
        if self.rows.groups is None:
            return values
        _, cell = np.unique(self.cell[own], return_inverse=True)
        means: Floats = np.bincount(cell, values) / np.bincount(cell)
        return means


@dataclass(frozen=True)
class _Attacker:
    """What one half chose: which class every output is taken for, and what to expect of it."""

    classes: tuple[int, ...]
    named: Ints
    centres: Floats
    variances: Floats


def _choose(half: _Half, counts: Ints, alpha: float) -> _Attacker | None:
    """Choose the classes that promise the largest bound where there are ``counts`` to test."""
    present = np.flatnonzero((half.counts > 0) & (counts > 0)).tolist()
    asked: list[tuple[int, ...]] = list(combinations(present, 2))
    if len(present) == half.rows.n_classes > 2:
        asked.append(tuple(present))
    if not asked:
        return None
    classes = max(asked, key=lambda each: _promise(half, each, counts, alpha))
    named = np.array(classes)[half.rows.average[list(classes)].argmax(axis=0)]
    sample = [half.chances(k, named == k, _ENOUGH) for k in classes]
    return _Attacker(
        classes,
        named,
        np.array([half.rows.average[k, named == k].sum() for k in classes]),
        np.array([each.var() + _DOUBT / len(each) for each in sample]),
    )


def _promise(half: _Half, classes: Sequence[int], counts: Ints, alpha: float) -> float:
    """Return about the bound that these classes will get; it only ranks them."""
    given = half.rows.average[list(classes)]
    reached = np.bincount(given.argmax(axis=0), given.max(axis=0), minlength=len(classes))
    reached = np.minimum(reached, 1.0)  # up to rounding it is
    # A chance with mean p has at most the variance of a coin, and a range of at most eta.
    variances = np.minimum(reached * (1.0 - reached), half.rows.eta**2 / 4)
    loss = np.sqrt(2.0 * np.log(1.0 / alpha) * np.sum(variances / counts[list(classes)]))
    return float((reached.sum() - 1.0 - loss) / len(classes))


def _judge(attacker: _Attacker, half: _Half, alpha: float) -> LowerBound:
    """Bound what an attacker reaches who was chosen elsewhere, with half of alpha."""
    classes = attacker.classes
    sample = [half.chances(k, attacker.named == k) for k in classes]
    lows = _least(half.rows, attacker)
    if half.rows.groups is None:
        parts = [np.arange(len(classes))]
    else:
        parts = [np.array([place]) for place in range(len(classes))]
    total = sum(
        bound_sum(
            [sample[place] for place in part],
            attacker.centres[part],
            lows[part],
            attacker.variances[part],
            alpha / 2 / len(parts),
        )
        for part in parts
    )
    estimate = sum(float(each.mean()) for each in sample)
    return LowerBound(
        max(0.0, (total - 1.0) / len(classes)),
        classes,
        (estimate - 1.0) / len(classes),
        1.0 - alpha,
    )


def _least(rows: AuditRows, attacker: _Attacker) -> Floats:
    """Return the least that the tables allow Q(A_g|x) to be, or less, by class."""
    smallest, largest = smallest_and_largest(rows.tables)
    sets = [attacker.named == k for k in attacker.classes]
    return np.array(
        [max(float(smallest[each].sum()), 1.0 - float(largest[~each].sum())) for each in sets]
    )


def bound_sum(
    sample: Sequence[Floats], centres: Floats, lows: Floats, variances: Floats, alpha: float
) -> float:
    """Bound a sum of means from below at confidence 1 - alpha.

    ``sample``: independent observations of each variable. ``centres``, ``variances``: what means
    and variances are thought to be, without a look at the sample. ``lows``: numbers that the
    variables are never below.
    """
    sizes = np.array([len(each) for each in sample], dtype=np.float64)
    need = float(np.log(1.0 / alpha))
    stake = float(np.sqrt(2.0 * need / np.sum(variances / sizes)))
    # Every factor stays positive; a little is kept off the lows for rounding.
    room = np.maximum(centres - lows, 0.0) + _ROUNDING
    stake = min(stake, float(np.min(_LARGEST_BET * sizes / room)))
    wealth = sum(
        float(np.log1p(stake / size * (each - centre)).sum())
        for each, size, centre in zip(sample, sizes, centres, strict=True)
    )
    return float(centres.sum()) + (wealth - need) / stake - _ROUNDING
