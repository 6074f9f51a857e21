"""What the outputs may tell, as conditions that are convex in p(cell, z).

One form covers every wish: a *ceiling*, sum_z max(0, max_j steps_j p(., z)) <= room.

- min R >= theta: one for every two classes, with the step p(z|b) - p(z|a) and room
  1 - 2 theta. The sum is the total variation.
- Advantage over guessing: one more for all classes of a fact, with steps p(z|g) - p(z|0).
- e^-eps p(z) <= p(z|g) <= e^eps p(z): one for every fact, with steps p(z|g) - e^eps p(z) and
  e^-eps p(z) - p(z|g), and no room.

Local differential privacy is a condition on the tables themselves and is kept beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from discreet.design.model.distribution import Distribution
from discreet.errors import InputError
from discreet.leakage.exact import advantage, information_epsilon, pair_risk

Floats = NDArray[np.float64]

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
