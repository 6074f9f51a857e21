"""What the charts draw: a few hundred points of any window, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from discreet.network.dashboard.snapshot import Snapshots
from discreet.network.store.rows import Decision, Sample

WINDOWS = {900: "15 min", 3600: "1 h", 21_600: "6 h", 86_400: "1 day"}
DEFAULT_WINDOW = 3600
MOST_POINTS = 600
MOST_CLASSES = 6


def decision_series(snapshots: Snapshots, window: int) -> dict[str, Any]:
    """Return probability and participation over time.

    Raises
    ------
    StoreError
    """
    found = thinned(snapshots.decisions(window))
    classes = charted(snapshots.view.classes)
    return {
        "at": [each.closed for each in found],
        "classes": [snapshots.view.classes[k] for k in classes],
        "probabilities": [[_probability(each, k) for each in found] for k in classes],
        "reported": [each.reported / each.expected if each.expected else None for each in found],
    }


def traffic_series(snapshots: Snapshots, window: int) -> dict[str, Any]:
    """Return messages a second and the lag over time.

    Raises
    ------
    StoreError
    """
    counts = thinned(snapshots.history("messages", window))
    lags = thinned(snapshots.history("lag_seconds", window))
    rates = [_rate(before, after) for before, after in pairwise(counts)]
    return {
        "at": [each.at for each in counts[1:]],
        "rate": rates,
        "lag_at": [each.at for each in lags],
        "lag": [_number(each.value) for each in lags],
    }


def charted(classes: Sequence[str]) -> list[int]:
    """Return which classes get a line: of two the second says all."""
    return [1] if len(classes) == 2 else list(range(min(len(classes), MOST_CLASSES)))


def thinned(points: Sequence[Any]) -> list[Any]:
    """Return every so manieth point, the last one always."""
    step = -(-len(points) // MOST_POINTS)
    return list(points[::-1][:: max(step, 1)])[::-1]


def _probability(decision: Decision, k: int) -> float | None:
    return decision.probabilities[k] if k < len(decision.probabilities) else None


def _rate(before: Sample, after: Sample) -> float | None:
    first, last = _number(before.value), _number(after.value)
    if first is None or last is None or after.at <= before.at:
        return None
    return max(0.0, (last - first) / (after.at - before.at))


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
