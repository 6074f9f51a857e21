"""Files that only their owner may read: password hashes and the key of the sessions."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from discreet.errors import InputError
from discreet.network.site.files import PRIVATE_FOLDER, read_bytes, write_private

_MOST_BYTES = 2**20


def read_secret(path: Path) -> bytes | None:
    """Return what a file holds, or None if there is none.

    Raises
    ------
    InputError
        If others may read it, or it cannot be read.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from None
    if os.name == "posix" and mode & 0o077:
        raise InputError(f"{path}: others may read it (mode {mode:o}). Say: chmod 600 {path}")
    return read_bytes(path, _MOST_BYTES)


def write_secret(path: Path, data: bytes) -> None:
    """Write a file for its owner only, whole or not at all; its folder is made if need be.

    Raises
    ------
    InputError
    """
    try:
        path.parent.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error}).") from None
    write_private(path, data)
