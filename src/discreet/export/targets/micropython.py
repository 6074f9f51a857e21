"""For MicroPython: one folder per sensor that ``mip`` installs."""

from __future__ import annotations

import json
from collections.abc import Mapping as Dict

from discreet import __version__
from discreet.export.body import bundle_body, runtime
from discreet.export.neutral import SensorTable
from discreet.export.signing import SigningKey


def files(tables: Dict[str, SensorTable], key: SigningKey | None) -> dict[str, bytes]:
    """Return the files of an export; nothing is signed, whatever the key.

    ``tables``: by the name that the sensor's files get.
    """
    found: dict[str, bytes] = {}
    for name, table in tables.items():
        found[f"{name}/{name}.table"] = bundle_body(table)
        found[f"{name}/discreet_sensor.py"] = runtime("micropython/discreet_sensor.py")
        found[f"{name}/package.json"] = _package(name)
    return found


def _package(name: str) -> bytes:
    parts = ("discreet_sensor.py", f"{name}.table")
    content = {"urls": [[part, part] for part in parts], "deps": [], "version": __version__}
    return (json.dumps(content, indent=1) + "\n").encode()
