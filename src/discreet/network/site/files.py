"""Files of a site: read within limits, since others may have written them, and locked to change."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from discreet.errors import InputError
from discreet.files import PRIVATE, make_folder, read_whole, write_whole
from discreet_sensor.files import hold

MAX_BYTES = 64 * 2**20
_MOST_SECRET = 2**20
_Model = TypeVar("_Model", bound=BaseModel)


def read_bytes(file: Path, limit: int = MAX_BYTES) -> bytes:
    """Return what a regular file of a site holds; see ``read_whole``."""
    return read_whole(file, limit, "Is it the right file?")


def file_stamp(file: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file does; None if it is not there."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def read_model(file: Path, model: type[_Model], remedy: str) -> _Model:
    """Return the checked content of a JSON file.

    ``remedy``: what to do about a damaged file; ends the message.
    """
    data = read_bytes(file)
    try:
        return model.model_validate(json.loads(data))
    except ValidationError as error:
        raise InputError(f"{file}: {first_problem(error)}. {remedy}") from None
    except (ValueError, RecursionError) as error:
        problem = str(error) if isinstance(error, json.JSONDecodeError) else "no UTF-8 JSON"
        raise InputError(f"{file}: is not JSON ({problem}). {remedy}") from None


def first_problem(error: ValidationError) -> str:
    """Return where a file is wrong first and why, never its content: it may be a key."""
    found = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part)[:40] for part in found["loc"])
    return f"{place}: {found['msg']}" if place else str(found["msg"])


def model_bytes(content: BaseModel) -> bytes:
    """Return a model as readable JSON."""
    return (json.dumps(content.model_dump(mode="json"), indent=1) + "\n").encode()


def read_secret(path: Path) -> bytes | None:
    """Return what a file holds, or None if there is none.

    Raises InputError: if others may read it, or it cannot be read.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from None
    if os.name == "posix" and mode & 0o077:
        raise InputError(f"{path}: others may read it (mode {mode:o}). Run: chmod 600 {path}")
    return read_bytes(path, _MOST_SECRET)


def write_secret(path: Path, data: bytes) -> None:
    """Write a file for its owner only, whole or not at all; its folder is made if need be."""
    try:
        make_folder(path.parent, PRIVATE)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error}).") from None
    write_whole(path, data, PRIVATE)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep two commands from changing one site at the same time.

    Raises InputError: if another command holds the lock, or it cannot be taken.
    """
    held = f"{folder}: another command is changing this site. Try again when it is done."
    try:
        lock = hold(folder / ".lock", held)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"{folder}: the site cannot be changed ({reason}). Name a site that you own: --site."
        ) from None
    try:
        yield
    finally:
        lock.release()
