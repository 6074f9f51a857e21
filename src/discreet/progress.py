"""What long work reports while it runs, the same for learning, frontiers and audits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """How things stand.

    ``phase``: what is being done, in a word or two. ``done``: share of the planned work, 0 to 1; a
    plan, not a promise. ``public_risk``: F of the best mapping so far, None before there is one.
    ``private_risk``, ``floor``: the private risk nearest to its floor, and that floor.
    """

    phase: str
    done: float
    public_risk: float | None = None
    private_risk: float | None = None
    floor: float | None = None


Report = Callable[[Progress], bool]
"""Called now and then; returns True to stop and keep the best so far, where there is one."""
