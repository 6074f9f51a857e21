"""What the charts draw: columns of a few hundred points, and the frontier as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from discreet.auditing.summary import AuditSummary
from discreet.frontiers.points import describe
from discreet.frontiers.results import Frontier
from discreet.mapping.mapping import Mapping
from discreet.network.dashboard.snapshot import Snapshots
from discreet.network.store.rows import Decision, slope

# --- Lines over time -----------------------------------------------------------------------


WINDOWS = {900: "15 min", 3600: "1 h", 21_600: "6 h", 86_400: "1 day"}
DEFAULT_WINDOW = 3600
MOST_POINTS = 600
MOST_CLASSES = 6


def decision_series(snapshots: Snapshots, window: int) -> dict[str, Any]:
    """Return probability and participation over time."""
    found = thinned(snapshots.decisions(window))
    classes = charted(snapshots.view.classes)
    return {
        "at": [each.closed for each in found],
        "classes": [snapshots.view.classes[k] for k in classes],
        "probabilities": [[_probability(each, k) for each in found] for k in classes],
        "reported": [each.reported / each.expected if each.expected else None for each in found],
    }


def traffic_series(snapshots: Snapshots, window: int) -> dict[str, Any]:
    """Return messages a second and the lag over time."""
    counts = thinned(snapshots.history("messages", window))
    lags = thinned(snapshots.history("lag_seconds", window))
    return {
        "at": [each.at for each in counts[1:]],
        "rate": [slope(before, after) for before, after in pairwise(counts)],
        "lag_at": [each.at for each in lags],
        "lag": [_number(each.value) for each in lags],
    }


def charted(classes: Sequence[str]) -> list[int]:
    """Return which classes get a line: of two the second is enough."""
    return [1] if len(classes) == 2 else list(range(min(len(classes), MOST_CLASSES)))


def thinned(points: Sequence[Any]) -> list[Any]:
    """Return every n-th point, the last one always."""
    step = -(-len(points) // MOST_POINTS)
    return list(points[::-1][:: max(step, 1)])[::-1]


def _probability(decision: Decision, k: int) -> float | None:
    return decision.probabilities[k] if k < len(decision.probabilities) else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


# --- The frontier --------------------------------------------------------------------------


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

    ``here``: the mapping that runs. ``line``: through the points that no other beats, as SVG wants
    it. ``levels``: the errors of guessing and from raw readings.
    """

    dots: tuple[Dot, ...]
    here: Dot | None
    line: str
    across: tuple[Tick, ...]
    upwards: tuple[Tick, ...]
    levels: tuple[Tick, ...]


def draw(
    frontier: Frontier, mapping: Mapping, audit: AuditSummary | None
) -> FrontierPicture | None:
    """Return the picture, or None if there is nothing to draw."""
    if not frontier.points:
        return None
    own = _own_place(frontier, mapping, audit)
    about, rule = frontier.about, frontier.about.rule
    beside = {"guessing": about.guessing.judged(rule), "raw readings": about.raw.judged(rule)}
    leaks = [point.advantage.value for point in frontier.points] + ([own[0]] if own else [])
    errors = [point.judged(rule).value for point in frontier.points] + ([own[1]] if own else [])
    errors += beside.values()
    most_leak, most_error = _round_up(max(leaks)), _round_up(max(errors))

    def place(leak: float, error: float) -> tuple[float, float]:
        x = _LEFT + leak / most_leak * (WIDTH - _LEFT - _RIGHT)
        y = HEIGHT - _BOTTOM - error / most_error * (HEIGHT - _TOP - _BOTTOM)
        return round(x, 1), round(y, 1)

    dots = tuple(
        Dot(
            *place(point.advantage.value, point.judged(rule).value),
            "knee" if point.knee else "beaten" if point.dominated else "point",
            describe(point),
            point.advantage.value,
            point.judged(rule).value,
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
        levels=tuple(Tick(place(0, each)[1], name) for name, each in beside.items()),
    )


def _own_place(
    frontier: Frontier, mapping: Mapping, audit: AuditSummary | None
) -> tuple[float, float] | None:
    """Return leak and error of the running mapping: as a point of the frontier, else as audited."""
    rule = frontier.about.rule
    for point in frontier.points:
        if point.mapping == mapping.id:
            return point.advantage.value, point.judged(rule).value
    if audit is None or audit.mapping_id != mapping.id or not audit.private:
        return None
    error = _audited_error(audit, rule)
    return None if error is None else (max(fact.estimate for fact in audit.private), error)


def _audited_error(audit: AuditSummary, rule: str) -> float | None:
    """Return the error that the frontier compares by, if the audit has it."""
    if rule == "balanced" and audit.public.balanced is not None:
        return 1.0 - audit.public.balanced.estimate
    return audit.public.error if rule == "likely" else None


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
