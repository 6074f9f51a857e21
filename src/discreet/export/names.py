"""Names that files and C identifiers can have, one for each sensor."""

from __future__ import annotations

import re
from collections.abc import Sequence

_TAKEN = {"discreet", "discreet_node", "discreet_sensor", "discreet_gateway", "examples"}
_TAKEN |= {"con", "prn", "aux", "nul"}  # names that Windows keeps for devices


def file_names(names: Sequence[str]) -> list[str]:
    """Return lower-case names of ASCII letters, digits and underscores, all different.

    Parameters
    ----------
    names : sequence of str
        The sensors' names, which may be any text.
    """
    found: list[str] = []
    for name in names:
        base = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:40] or "sensor"
        if base[0].isdigit() or base in _TAKEN:
            base = f"sensor_{base}"
        candidate, number = base, 2
        while candidate in found:
            candidate, number = f"{base}_{number}", number + 1
        found.append(candidate)
    return found
