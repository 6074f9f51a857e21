"""Files of a site: private from the first moment, read within limits, replaced whole.

Whatever is read may have been written by somebody else; whatever is written may be a key.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from discreet.errors import InputError

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
MAX_BYTES = 64 * 2**20
_Model = TypeVar("_Model", bound=BaseModel)


def read_bytes(file: Path, limit: int = MAX_BYTES) -> bytes:
    """Return what a regular file holds.

    Raises
    ------
    InputError
        If there is no such file, or it is larger than the limit or cannot be read.
    """
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb") as stream:  # no waiting pipe
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise InputError(f"{file}: is not a regular file. Name another.")
            data = stream.read(limit + 1)
    except FileNotFoundError:
        raise InputError(f"{file}: no such file. Check the path.") from None
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{file}: cannot be read ({reason}).") from None
    if len(data) > limit:
        raise InputError(f"{file}: has more than {limit} bytes. Is it the right file?")
    return data


def read_model(file: Path, model: type[_Model], mend: str) -> _Model:
    """Return the checked content of a JSON file.

    Parameters
    ----------
    file : Path
    model : type of BaseModel
    mend : str
        What to do about a damaged file; ends the message.

    Raises
    ------
    InputError
    """
    data = read_bytes(file)
    try:
        return model.model_validate(json.loads(data))
    except ValidationError as error:
        raise InputError(f"{file}: {first_problem(error)}. {mend}") from None
    except (ValueError, RecursionError) as error:
        words = str(error) if isinstance(error, json.JSONDecodeError) else "no UTF-8 JSON"
        raise InputError(f"{file}: is not JSON ({words}). {mend}") from None


def first_problem(error: ValidationError) -> str:
    """Return where a file is wrong first and why, never what stands there: it may be a key."""
    found = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part)[:40] for part in found["loc"])
    return f"{place}: {found['msg']}" if place else str(found["msg"])


def model_bytes(content: BaseModel) -> bytes:
    """Return a model as readable JSON."""
    return (json.dumps(content.model_dump(mode="json"), indent=1) + "\n").encode()


def write_private(file: Path, data: bytes) -> None:
    """Replace a file whole or not at all; nobody but its owner can ever read it.

    Raises
    ------
    InputError
    """
    draft = file.with_name(f".{secrets.token_hex(8)}.part")
    try:
        write_new(draft, data, like=file)
        draft.replace(file)
        sync_folder(file.parent)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{file}: cannot be written ({reason}).") from None
    finally:
        draft.unlink(missing_ok=True)


def _keep_owner(handle: int, file: Path) -> None:
    """Have a file that root replaces stay readable for the service that it belongs to.

    By its handle: that service may change names in its folder, and could have another file
    given to itself by putting a link in the place.
    """
    if os.name != "posix" or os.geteuid() != 0:
        return
    about = (file if file.exists() else file.parent).stat()
    os.fchown(handle, about.st_uid, about.st_gid)


def write_new(file: Path, data: bytes, like: Path | None = None) -> None:
    """Write a private file that must not be there yet, and wait until it is safe.

    Parameters
    ----------
    file : Path
    data : bytes
    like : Path, optional
        Whose owner it gets if root writes it.
    """
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    with open(handle, "wb") as stream:
        if like is not None:
            _keep_owner(handle, like)
        stream.write(data)
        stream.flush()
        os.fsync(handle)


def write_tree(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files by their path inside a new folder, all of it private.

    A path that ends in a slash is an empty folder.
    """
    folder.mkdir(mode=PRIVATE_FOLDER)
    for name, data in files.items():
        inner, _, last = name.rpartition("/")
        if inner:
            (folder / inner).mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        if last:
            write_new(folder / name, data)
    for each in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        sync_folder(each)


def new_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a private folder whole or not at all.

    Parameters
    ----------
    folder : Path
        Absolute; one that does not exist or is empty.
    files : dict of str to bytes
        Contents by path inside the folder.

    Raises
    ------
    InputError
    """
    draft = folder.with_name(f".{secrets.token_hex(8)}.part")
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(f"{folder} is not an empty folder. Name a new one.")
        write_tree(draft, files)
        if folder.exists():
            folder.rmdir()  # rename does not replace a folder everywhere
        draft.rename(folder)
        sync_folder(folder.parent)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{folder}: cannot be written ({reason}). Name another place.") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are safe."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep two commands from changing one site at the same time.

    Raises
    ------
    InputError
        If another command holds the lock, or it cannot be taken.
    """
    import fcntl

    file = folder / ".lock"
    try:
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE_FILE)
        _keep_owner(handle, folder)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{folder}: the site cannot be changed ({reason}).") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"{folder}: another command is changing this site. Try again when it is done."
            ) from None
        yield
    finally:
        os.close(handle)
