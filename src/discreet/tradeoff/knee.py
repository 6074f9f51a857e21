"""Where in a trade-off to look first: the lower left hull, its knee, and what is dominated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_TIE = 1e-12


class Place(NamedTuple):
    """Where a mapping stands: to the left it leaks less, further down it errs less."""

    advantage: float
    error: float


def lower_left(places: Sequence[Place]) -> list[int]:
    """Return the corners of the lower left hull, from the least leak to the least error.

    Of points in the same place the first counts; points on a straight line between two
    corners are none.
    """
    order = sorted(range(len(places)), key=lambda i: (*places[i], i))
    hull: list[int] = []
    for i in order:
        if hull and places[i].error >= places[hull[-1]].error:
            continue  # leaks as much or more and errs no less
        while len(hull) > 1 and _turn(*(places[j] for j in (hull[-2], hull[-1], i))) <= _TIE:
            hull.pop()
        hull.append(i)
    return hull


def _turn(a: Place, b: Place, c: Place) -> float:
    """Return how far b lies below the line from a to c, times a positive number."""
    return (b.advantage - a.advantage) * (c.error - a.error) - (b.error - a.error) * (
        c.advantage - a.advantage
    )


def find_knee(places: Sequence[Place]) -> int | None:
    """Return the point farthest below the chord between the ends of the lower left hull.

    Both axes are scaled so that the ends are (0, 1) and (1, 0), which makes the answer
    independent of units: there the distance below the chord is (1 - x - y)/sqrt(2). Of
    equals the one that leaks less. None if the hull has fewer than three corners: then
    no point is a better bargain than a coin tossed between the ends.
    """
    hull = lower_left(places)
    if len(hull) < 3:
        return None
    first, last = places[hull[0]], places[hull[-1]]

    def depth(i: int) -> float:
        x = (places[i].advantage - first.advantage) / (last.advantage - first.advantage)
        y = (places[i].error - last.error) / (first.error - last.error)
        return 1.0 - x - y

    return max(hull[1:-1], key=depth)


def dominated(places: Sequence[Place]) -> list[bool]:
    """Return for each point whether another one is better in one way and no worse in the other."""
    return [any(_beats(other, own) for other in places) for own in places]


def _beats(other: Place, own: Place) -> bool:
    no_worse = other.advantage <= own.advantage and other.error <= own.error
    return no_worse and other != own
