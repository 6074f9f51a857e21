"""Which sensors carry the leak and which the use: leave one out and look again.

The figures are plug-in estimates on the audited rows: they rank sensors and promise
nothing. With few outputs the best attacker is computed exactly from p^(z|class), and a
sensor is left out by summing over its symbols. With too many to list, the attacker is the
one that looks at each sensor by itself, and the figures say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from discreet.exact import advantage

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Contribution:
    """What one sensor adds to an advantage over guessing.

    Attributes
    ----------
    alone : float
        The advantage with this sensor only.
    lost : float or None
        By how much the advantage of all sensors falls without it; None where the outputs
        are too many to list.
    """

    sensor: str
    alone: float
    lost: float | None


def contributions(given: Floats, sizes: Sequence[int], names: Sequence[str]) -> list[Contribution]:
    """Return what each sensor adds, from p(z|class) with one row per class."""
    cube = given.reshape(len(given), *sizes)
    axes = range(1, cube.ndim)
    everything = advantage(given)
    found = []
    for t, name in enumerate(names):
        without = cube.sum(axis=t + 1).reshape(len(given), -1)
        alone = cube.sum(axis=tuple(a for a in axes if a != t + 1))
        found.append(Contribution(name, advantage(alone), everything - advantage(without)))
    return found


def separate_contributions(
    tables: Sequence[Floats], codes: Ints, index: Ints, n_classes: int, names: Sequence[str]
) -> list[Contribution]:
    """Return each sensor's advantage alone, where outputs are too many to list.

    What is lost without a sensor takes the joint distribution; here it is not known.
    """
    given = [outputs_of((t,), tables, codes, index, n_classes) for t in range(len(names))]
    return [Contribution(n, advantage(each), None) for n, each in zip(names, given, strict=True)]


def outputs_of(
    sensors: Sequence[int], tables: Sequence[Floats], codes: Ints, index: Ints, n_classes: int
) -> Floats:
    """Return p^(z|class) of a few sensors by themselves, from counts of their codes."""
    sizes = [len(tables[t]) for t in sensors]
    label = index
    for t, size in zip(sensors, sizes, strict=True):
        label = label * size + codes[:, t]
    counts = np.bincount(label, minlength=n_classes * prod(sizes)).reshape(n_classes, *sizes)
    held = np.bincount(index, minlength=n_classes).reshape(-1, *[1] * len(sizes))
    given: Floats = counts / np.maximum(held, 1)
    for t in sensors:  # the first axis of codes becomes the last one of symbols
        given = np.tensordot(given, tables[t], axes=(1, 0))
    return given.reshape(n_classes, -1)


def telling_pair(
    tables: Sequence[Floats], codes: Ints, index: Ints, n_classes: int
) -> tuple[int, int, float] | None:
    """Return the two sensors that tell most beyond what each tells alone, if any do.

    The gain is the pair's advantage less the larger of the two: large for a secret that
    shows only in the combination.
    """
    alone = [
        advantage(outputs_of((t,), tables, codes, index, n_classes)) for t in range(len(tables))
    ]
    best: tuple[int, int, float] | None = None
    for t, u in combinations(range(len(tables)), 2):
        together = advantage(outputs_of((t, u), tables, codes, index, n_classes))
        gain = together - max(alone[t], alone[u])
        if best is None or gain > best[2]:
            best = t, u, gain
    return best
