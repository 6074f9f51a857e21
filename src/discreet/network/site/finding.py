"""Which site a command is about, and whether what it needs is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from discreet.errors import InputError


def find_site(folder: Path | None) -> Path:
    """Return the site that a command is about: the one named, this folder, or ``site`` in it."""
    if folder is not None:
        return folder
    return Path() if Path("site.json").is_file() else Path("site")


def need_network() -> None:
    """Say in one message what is not installed.

    Raises
    ------
    InputError
    """
    missing = [
        name for name in ("cryptography", "paho.mqtt") if find_spec(name.split(".")[0]) is None
    ]
    if missing:
        raise InputError(f"the network needs {' and '.join(missing)}. Install discreet[network].")
