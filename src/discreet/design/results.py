"""What a design hands over at its end."""

from __future__ import annotations

from dataclasses import dataclass, field

from discreet.arrays import Floats
from discreet.mapping.parts import Fusion


@dataclass
class Designed:
    """A mapping and the risks it has on the training rows.

    ``fusion`` is the fusion rule where it comes with the tables. ``leak`` is an attacker's
    advantage under the model that was designed on, where there is one.
    """

    tables: list[Floats]
    public_risk: float
    private_risks: Floats
    floors: Floats
    evaluations: int = 0
    stopped: bool = False
    history: list[float] = field(default_factory=list)
    fusion: Fusion | None = None
    leak: float = 0.0
