"""The trade-off as a picture: where each point and the running mapping stand, in SVG units.

Drawn by hand rather than by a plotting library: a few dozen dots need none, the page's own colours
apply in light and dark, and it is there without a script.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.mapping import Mapping
from discreet.network.dashboard.audits import AuditSummary
from discreet.tradeoff.points import describe
from discreet.tradeoff.results import Frontier

WIDTH, HEIGHT = 360.0, 250.0
_PARTS = {1: 5, 2: 4, 3: 3, 4: 4, 5: 5, 6: 3, 8: 4, 10: 5}
"""Where an axis may end, and in how many parts it is then cut."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 12.0, 12.0, 40.0


@dataclass(frozen=True)
class Dot:
    """A mapping in the picture and in the table beside it."""

    x: float
    y: float
    kind: str
    name: str
    leak: float
    error: float
    bound: float | None


@dataclass(frozen=True)
class Tick:
    """A number on an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class FrontierPicture:
    """The whole picture.

    Attributes
    ----------
    dots : tuple of Dot
    here : Dot or None
        The mapping that runs.
    line : str
        Through the points that no other beats, as SVG wants it.
    """

    dots: tuple[Dot, ...]
    here: Dot | None
    line: str
    across: tuple[Tick, ...]
    upwards: tuple[Tick, ...]


def draw(
    frontier: Frontier, mapping: Mapping, audit: AuditSummary | None
) -> FrontierPicture | None:
    """Return the picture, or None if there is nothing to draw."""
    if not frontier.points:
        return None
    own = _own_place(frontier, mapping, audit)
    leaks = [point.advantage.value for point in frontier.points] + ([own[0]] if own else [])
    errors = [point.public_error.value for point in frontier.points] + ([own[1]] if own else [])
    most_leak, most_error = _round_up(max(leaks)), _round_up(max(errors))

    def place(leak: float, error: float) -> tuple[float, float]:
        x = _LEFT + leak / most_leak * (WIDTH - _LEFT - _RIGHT)
        y = HEIGHT - _BOTTOM - error / most_error * (HEIGHT - _TOP - _BOTTOM)
        return round(x, 1), round(y, 1)

    dots = tuple(
        Dot(
            *place(point.advantage.value, point.public_error.value),
            "knee" if point.knee else "beaten" if point.dominated else "point",
            describe(point),
            point.advantage.value,
            point.public_error.value,
            point.bound_if_chosen.value if point.bound_if_chosen else None,
        )
        for point in frontier.points
    )
    best = sorted((dot.x, dot.y) for dot in dots if dot.kind != "beaten")
    return FrontierPicture(
        dots=dots,
        here=Dot(*place(*own), "here", "the mapping that runs", *own, None) if own else None,
        line=" ".join(f"{x},{y}" for x, y in best),
        across=tuple(Tick(place(each, 0)[0], f"{each:g}") for each in _ticks(most_leak)),
        upwards=tuple(Tick(place(0, each)[1], f"{each:g}") for each in _ticks(most_error)),
    )


def _own_place(
    frontier: Frontier, mapping: Mapping, audit: AuditSummary | None
) -> tuple[float, float] | None:
    """Return leak and error of the running mapping: as a point of the frontier, else as audited."""
    for point in frontier.points:
        if point.mapping == mapping.id:
            return point.advantage.value, point.public_error.value
    if audit is None or audit.mapping_id != mapping.id or not audit.private:
        return None
    return max(fact.estimate for fact in audit.private), audit.public.error


def _round_up(value: float) -> float:
    """Return the end of an axis: a round number that is not much larger."""
    if value <= 0:
        return 0.01
    unit = 10.0 ** math.floor(math.log10(value))
    return next(end * unit for end in _PARTS if value <= end * unit * (1 + 1e-9))


def _ticks(end: float) -> list[float]:
    unit = 10.0 ** math.floor(math.log10(end * (1 + 1e-9)))
    parts = _PARTS[round(end / unit)]
    return [round(end * k / parts, 12) for k in range(parts + 1)]
