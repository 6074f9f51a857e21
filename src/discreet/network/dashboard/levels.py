"""Good, warning, bad: the three levels that everything on the dashboard has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

GOOD, WARN, BAD = "good", "warn", "bad"
_ORDER = (GOOD, WARN, BAD)


@dataclass(frozen=True)
class Finding:
    """A state as a label and as a sentence, and the view that shows more."""

    level: str
    short: str
    words: str
    view: str = "guarantee"


def worst(levels: Iterable[str]) -> str:
    """Return the worst of some levels; good if there are none."""
    return max(levels, key=_ORDER.index, default=GOOD)
