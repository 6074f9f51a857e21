"""For Linux gateways: one signed bundle per sensor, and the runtime to read them with."""

from __future__ import annotations

from collections.abc import Mapping as Dict

from discreet.errors import InputError
from discreet.export.body import bundle_body, runtime
from discreet.export.neutral import SensorTable
from discreet.export.signing import SigningKey


def files(tables: Dict[str, SensorTable], key: SigningKey | None) -> dict[str, bytes]:
    """Return the files of an export.

    ``tables``: by the name that the sensor's files get. Raises InputError: if there is no key.
    """
    if key is None:
        raise InputError("bundles for Python are signed. Give a key.")
    found = {f"{name}.bundle": key.sign(bundle_body(table)) for name, table in tables.items()}
    found["public_key.txt"] = f"{key.public_hex}\n".encode()
    for file in ("discreet_sensor.py", "discreet_gateway.py"):
        found[file] = runtime(f"python/{file}")
    return found
