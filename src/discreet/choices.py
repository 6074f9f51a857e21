"""What may be chosen column by column, for the command line and the library: imports nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ByColumn:
    """One choice for all the sensors, but for those that have their own."""

    common: Any
    own: dict[str, Any]
