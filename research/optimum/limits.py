"""What the outputs may tell, as conditions that are convex in p(cell, z).

One form covers every wish: a *ceiling*, sum_z max(0, max_j steps_j p(., z)) <= room.

- min R >= theta: one for every two classes, with the step p(z|b) - p(z|a) and room
  1 - 2 theta. The sum is the total variation.
- Advantage over guessing: one more for all classes of a fact, with steps p(z|g) - p(z|0).
- e^-eps p(z) <= p(z|g) <= e^eps p(z): one for every fact, with steps p(z|g) - e^eps p(z) and
  e^-eps p(z) - p(z|g), and no room.

Local differential privacy is a condition on the tables themselves and is kept beside.

What no tables can beat is here too: whatever tables and rule are used, the rule's answer is a
random function of all codes and tells no more than the symbols did. So the best random answer of
a curator who sees all readings at once, a linear program, errs no more than any tables. Where the
codes together are too many to list, the curator is told the profile instead, which says more still.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.optimize import linprog

from discreet.arrays import Floats
from discreet.errors import InputError
from discreet.leakage.exact import advantage, information_epsilon, pair_risk
from research.optimum.distribution import Distribution

_MAX_CODES = 100_000  # joint codes to list
_MAX_MEANINGS = 2_000  # distinct posteriors that the program is worth its time for


def lower_bound(
    distribution: Distribution, ceilings: Sequence[Ceiling], ldp_total: float = np.inf
) -> float:
    """Return a public error that no tables within the ceilings go below.

    ``ldp_total``: sum of the sensors' local epsilons: the answer to all codes keeps that sum.
    """
    answers = _Answers(distribution, ceilings, _meanings(distribution))
    answers.add_ceilings()
    if np.isfinite(ldp_total):
        answers.add_local(np.exp(ldp_total))
    return answers.least_error()


def _meanings(distribution: Distribution) -> Floats:
    """Return p(cell, meaning), where codes with the same posterior mean the same."""
    n_codes = float(np.prod([float(size) for size in distribution.sizes]))
    if all(np.isin(profile, (0.0, 1.0)).all() for profile in distribution.profiles):
        return _merged(distribution.weights.T)
    if n_codes * len(distribution.weights) <= 50 * _MAX_CODES and n_codes <= _MAX_CODES:
        merged = _merged(distribution.joint_outputs([np.eye(size) for size in distribution.sizes]))
        if merged.shape[1] <= _MAX_MEANINGS:
            return merged
    return _merged(distribution.weights.T)


def _merged(joint: Floats) -> Floats:
    """Add up columns that are the same up to a factor."""
    joint = joint[:, joint.sum(axis=0) > 0]
    posterior = np.round(joint / joint.sum(axis=0), 12)
    _, group = np.unique(posterior, axis=1, return_inverse=True)
    merged = np.zeros((int(group.max()) + 1, len(joint)))
    np.add.at(merged, group.ravel(), joint.T)
    return np.ascontiguousarray(merged.T)


class _Answers:
    """The program in q(answer|meaning); an answer is a public class.

    Columns: q, answer by answer; then one per ceiling and answer; then one per answer for
    its least probability.
    """

    def __init__(
        self, distribution: Distribution, ceilings: Sequence[Ceiling], meanings: Floats
    ) -> None:
        self._ceilings, self._meanings = ceilings, meanings
        self._public = distribution.class_rows(distribution.public)
        self._n, self._m = meanings.shape[1], len(self._public)
        self._after_q = self._n * self._m
        self._least = self._after_q + len(ceilings) * self._m
        self._n_columns = self._least + self._m
        self._rows: list[Floats] = []
        self._bounds: list[Floats] = []

    def _new_rows(self, count: int, bounds: float) -> Floats:
        self._rows.append(np.zeros((count, self._n_columns)))
        self._bounds.append(np.full(count, bounds))
        return self._rows[-1]

    def _q(self, answer: int) -> slice:
        return slice(answer * self._n, (answer + 1) * self._n)

    def add_ceilings(self) -> None:
        for k, ceiling in enumerate(self._ceilings):
            price = self._after_q + k * self._m + np.arange(self._m)
            for answer in range(self._m):
                rows = self._new_rows(len(ceiling.steps), 0.0)
                rows[:, self._q(answer)] = ceiling.steps @ self._meanings
                rows[:, price[answer]] = -1.0
            self._new_rows(1, ceiling.room)[0, price] = 1.0

    def add_local(self, factor: float) -> None:
        each = np.arange(self._n)
        for answer in range(self._m):
            for sign, scale in ((1.0, factor), (-1.0, 1.0)):
                rows = self._new_rows(self._n, 0.0)
                rows[each, self._q(answer).start + each] = sign
                rows[:, self._least + answer] = -sign * scale

    def least_error(self) -> float:
        cost = np.zeros(self._n_columns)
        cost[: self._after_q] = -(self._public @ self._meanings).ravel()
        one = np.zeros((self._n, self._n_columns))
        for answer in range(self._m):
            one[:, self._q(answer)] = np.eye(self._n)
        self._new_rows(1, 0.0)  # a program without wishes needs some row too
        rows, bounds = np.concatenate(self._rows), np.concatenate(self._bounds)
        found = linprog(cost, rows, bounds, one, np.ones(self._n))
        return max(0.0, 1.0 + float(cost @ found.x)) if found.success else 0.0


TOLERANCE = 1e-9  # of the same size as the rounding of tables to integers in a mapping file


@dataclass(frozen=True)
class Wishes:
    """What was asked for; None asks for nothing.

    ``risk``: least R, the average error over any two classes of a private fact, in [0, 0.5].
    ``max_advantage``: how far any attacker may beat guessing. ``epsilon``: largest |log
    p(g|z)/p(g)|.
    """

    risk: float | None = None
    max_advantage: float | None = None
    epsilon: float | None = None

    def __post_init__(self) -> None:
        if self.risk is not None and not 0 <= self.risk <= 0.5:
            raise InputError(
                f"risk must lie between 0 and 0.5, since guessing already errs half the time, "
                f"got {self.risk:g}."
            )
        _check_not_negative("max_advantage", self.max_advantage)
        _check_not_negative("epsilon", self.epsilon)

    def kept_by(self, distribution: Distribution, joint: Floats) -> bool:
        """Say whether p(cell, z) keeps the wishes, as ``discreet.leakage.exact`` counts."""
        found = leaks(distribution, joint)
        return (
            (self.risk is None or found.risk >= self.risk - TOLERANCE)
            and (self.max_advantage is None or found.advantage <= self.max_advantage + TOLERANCE)
            and (self.epsilon is None or found.epsilon <= self.epsilon + TOLERANCE)
        )


@dataclass(frozen=True)
class Leaks:
    """What the outputs tell about the private fact that they tell most about."""

    risk: float
    advantage: float
    epsilon: float


@dataclass(frozen=True)
class Ceiling:
    """sum_z max(0, max_j steps_j p(., z)) <= room."""

    steps: Floats
    room: float

    def excess(self, joint: Floats) -> float:
        """Return by how much the sum exceeds the room, 0 if it does not."""
        total = float(np.maximum(np.max(self.steps @ joint, axis=0), 0.0).sum())
        return max(total - self.room, 0.0)

    def guesses(self, joint: Floats) -> Floats:
        """Return the step that the best attacker takes at each output, cells x outputs."""
        gains = self.steps @ joint
        best = np.argmax(gains, axis=0)
        taken = gains[best, np.arange(joint.shape[1])] > 0
        return np.asarray(np.where(taken, self.steps[best].T, 0.0))


def leaks(distribution: Distribution, joint: Floats) -> Leaks:
    """Measure p(cell, z) with the exact formulas."""
    prior = distribution.weights.sum(axis=0)
    risk, gain, epsilon = 0.5, 0.0, 0.0
    for fact in distribution.private:
        rows = distribution.class_rows(fact)
        if len(rows) < 2:
            continue  # a fact that is certain has nothing left to tell
        given = distribution.given_rows(fact) @ joint
        risk, gain = min(risk, pair_risk(given)), max(gain, advantage(given))
        epsilon = max(epsilon, information_epsilon(given, rows @ prior))
    return Leaks(risk, gain, epsilon)


def ceilings_from(wishes: Wishes, distribution: Distribution) -> tuple[Ceiling, ...]:
    """Write the wishes down as ceilings for this distribution."""
    facts = [distribution.given_rows(fact) for fact in distribution.private]
    return tuple(
        ceiling for given in facts if len(given) > 1 for ceiling in _ceilings(given, wishes)
    )


def _ceilings(given: Floats, wishes: Wishes) -> list[Ceiling]:
    n_classes = len(given)
    if wishes.risk == 0.5 or wishes.max_advantage == 0 or wishes.epsilon == 0:
        return [Ceiling(given[1:] - given[0], 0.0)]  # all classes alike: one says it all
    rooms = []
    if wishes.risk is not None:
        rooms.append(1.0 - 2.0 * wishes.risk)
    if wishes.max_advantage is not None:
        rooms.append(2.0 * wishes.max_advantage)
    found = []
    for a, b in combinations(range(n_classes), 2) if rooms else ():
        found.append(Ceiling(given[b : b + 1] - given[a], min(rooms)))
    if wishes.max_advantage is not None and n_classes > 2:
        found.append(Ceiling(given[1:] - given[0], n_classes * wishes.max_advantage))
    if wishes.epsilon is not None:
        factor = np.exp(wishes.epsilon)
        found.append(Ceiling(np.concatenate([given - factor, 1.0 / factor - given]), 0.0))
    return found


def ldp_tuple(ldp_epsilon: float | Sequence[float] | None, n_sensors: int) -> tuple[float, ...]:
    """Return one epsilon per sensor from one for all or a list; infinite if none is asked."""
    if ldp_epsilon is None:
        return (float("inf"),) * n_sensors
    given = np.broadcast_to(ldp_epsilon, n_sensors) if np.ndim(ldp_epsilon) == 0 else ldp_epsilon
    values = tuple(float(value) for value in np.asarray(given))
    if len(values) != n_sensors:
        raise InputError(
            f"ldp_epsilon must be one number or one for each of {n_sensors} sensors, "
            f"got {len(values)}."
        )
    for value in values:
        _check_not_negative("ldp_epsilon", value)
    return values


def _check_not_negative(name: str, value: float | None) -> None:
    if value is not None and not value >= 0:
        raise InputError(f"{name} must be 0 or more, got {value:g}.")
