"""What the solvers report while they work, and what they hand over at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from discreet.arrays import Floats
from discreet.mapping.parts import Fusion


@dataclass(frozen=True)
class Progress:
    """How things stand.

    ``phase``: what is being done, in a word or two. ``done``: share of the planned work, 0 to 1; a
    plan, not a promise. ``public_risk``: F of the best mapping so far. ``private_risk``, ``floor``:
    the private risk nearest to its floor, and that floor.
    """

    phase: str
    done: float
    public_risk: float
    private_risk: float | None = None
    floor: float | None = None


# Called now and then; returns True to stop and keep the best mapping so far.
Report = Callable[[Progress], bool]


@dataclass
class Designed:
    """A mapping and the risks it has on the training rows.

    ``passes`` is the number of sweeps over all rows, None where rows are few and not swept.
    ``kernel_error`` is the share of the kernel that an approximation left out. ``fusion`` is the
    fusion rule where it comes with the tables.
    """

    tables: list[Floats]
    public_risk: float
    private_risks: Floats
    floors: Floats
    evaluations: int = 0
    stopped: bool = False
    history: list[float] = field(default_factory=list)
    passes: float | None = None
    kernel_error: float = 0.0
    fusion: Fusion | None = None
