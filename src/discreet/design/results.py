"""What a design hands over at its end."""

from __future__ import annotations

from dataclasses import dataclass, field

from discreet.arrays import Floats
from discreet.mapping.parts import Fusion


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
