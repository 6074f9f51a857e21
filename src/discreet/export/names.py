"""Names that files and C identifiers can have, one for each sensor."""

from __future__ import annotations

import re
from collections.abc import Sequence

_TAKEN = {"discreet", "discreet_node", "discreet_radio", "discreet_sensor", "discreet_gateway"}
_TAKEN |= {"examples"}
_TAKEN |= {"con", "prn", "aux", "nul"}  # names that Windows keeps for devices
_TAKEN |= {f"{port}{number}" for port in ("com", "lpt") for number in range(10)}
# A header of this name would stand before the system's: signal.h, time.h, string.h.
_TAKEN |= {
    "assert", "complex", "ctype", "errno", "fenv", "float", "inttypes", "iso646", "limits",
    "locale", "math", "memory", "setjmp", "signal", "stdalign", "stdarg", "stdatomic", "stdbool",
    "stddef", "stdint", "stdio", "stdlib", "stdnoreturn", "string", "strings", "tgmath",
    "threads", "time", "uchar", "wchar", "wctype", "arduino", "preferences", "esp_random",
    "esp_timer", "nvs", "nvs_flash", "random", "sched", "unistd", "wifi", "esp_wifi", "esp_event",
}  # fmt: skip


def file_names(names: Sequence[str]) -> list[str]:
    """Return lower-case names of ASCII letters, digits and underscores, all different.

    ``names``: the sensors' names, which may be any text.
    """
    found: dict[str, None] = {}
    numbers: dict[str, int] = {}  # ten thousand names may have the same base
    for name in names:
        base = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:40] or "sensor"
        if base[0].isdigit() or base in _TAKEN:
            base = f"sensor_{base}"
        candidate = base
        while candidate in found:
            numbers[base] = numbers.get(base, 1) + 1
            candidate = f"{base}_{numbers[base]}"
        found[candidate] = None
    return list(found)
