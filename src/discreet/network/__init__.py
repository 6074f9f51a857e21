"""Sensors, fusion centre, store and dashboard; here: what they need, and which site is meant."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from discreet.errors import InputError

_NEEDED = {
    "paho-mqtt": "paho",
    "cryptography": "cryptography",
    "prometheus-client": "prometheus_client",
    "starlette": "starlette",
    "uvicorn": "uvicorn",
    "itsdangerous": "itsdangerous",
    "argon2-cffi": "argon2",
}


def missing_packages() -> list[str]:
    """Return what the network needs and is not installed, looked for without importing it."""
    return [name for name, module in _NEEDED.items() if find_spec(module) is None]


def find_site(folder: Path | None) -> Path:
    """Return the site that a command is about: the one named, this folder, or ``site`` in it."""
    if folder is not None:
        return folder
    return Path() if Path("site.json").is_file() else Path("site")


def need_network() -> None:
    """Raise one message that names what is not installed."""
    missing = missing_packages()
    if missing:
        raise InputError(
            f'the network needs {" and ".join(missing)}. Run: pip install "discreet[network]"'
        )
