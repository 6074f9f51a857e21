"""Files are read within a limit, written whole or not at all and synced, and locked."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from discreet_sensor.errors import DiscreetError, InputError

PRIVATE = 0o600
"""The mode of a file that may hold a key."""


def read_whole(
    file: Path, most: int, remedy: str, refusal: type[DiscreetError] = InputError
) -> bytes:
    """Return what a regular file holds, which others may have written.

    ``most``: bytes that it may have. ``remedy``: what to do about a file that cannot be meant; ends
    the message. Raises ``refusal``: if it is no such file, larger, or cannot be read.
    """
    try:
        with open(file, "rb", opener=_without_waiting) as stream:
            regular = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
            data = stream.read(most + 1) if regular else None
    except IsADirectoryError:
        raise refusal(f"{file}: is a directory and is not a regular file. {remedy}") from None
    except FileNotFoundError:
        raise refusal(f"{file}: no such file. Check the path.") from None
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        raise refusal(f"{file}: cannot be read ({reason_of(error)}).") from None
    if data is None:
        raise refusal(f"{file}: is not a regular file. {remedy}")
    if len(data) > most:
        raise refusal(f"{file}: has too many bytes; at most {most} are read. {remedy}")
    return data


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to is opened at once."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def write_whole(path: str | os.PathLike[str], data: str | bytes, mode: int | None = None) -> None:
    """Replace a file whole or not at all; see ``replacing``.

    Raises InputError: if the file cannot be written.
    """
    try:
        with replacing(Path(path), mode) as stream:
            stream.write(data.encode() if isinstance(data, str) else data)
    except (OSError, RuntimeError, ValueError) as error:  # the latter two: odd paths
        raise InputError(f"{path}: cannot be written ({reason_of(error)}).") from None


@contextmanager
def replacing(file: Path, mode: int | None = None) -> Iterator[BinaryIO]:
    """Write beside a file and rename at the end, so that a reader sees the old or the new one.

    ``mode``: given, the file never has any other, takes the place of a link, and belongs to whoever
    the old one, or the folder, belongs to. By default a link keeps pointing to the file, which
    keeps its mode.
    """
    if mode is None:
        file = file.resolve()
    draft = file.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with create(draft, mode, like=file) as stream:
            yield stream
        draft.replace(file)
        sync_folder(file.parent)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def create(file: Path, mode: int | None = None, like: Path | None = None) -> Iterator[BinaryIO]:
    """Write a file that must not be there yet, and wait until it is on the disk.

    ``mode``: as the process makes files by default. ``like``: whose owner it gets if root writes it
    with a mode, and whose mode it gets without one.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(file, flags, 0o666 if mode is None else mode)
    try:
        with open(handle, "w+b") as stream:
            if like is not None and mode is not None:
                _keep_owner(handle, like)
            yield stream
            stream.flush()
            os.fsync(handle)
        if like is not None and mode is None and like.is_file():
            file.chmod(stat.S_IMODE(like.stat().st_mode))
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def _keep_owner(handle: int, file: Path) -> None:
    """Have a file that root replaces stay readable for the service that it belongs to.

    By its handle: that service may change names in its folder, and could have another file
    given to itself by putting a link in the place.
    """
    if os.name != "posix" or os.geteuid() != 0:
        return
    about = (file if file.exists() else file.parent).stat()
    os.fchown(handle, about.st_uid, about.st_gid)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    if os.name != "posix":
        return
    with suppress(PermissionError):  # one may write to a folder that one may not list
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def reason_of(error: Exception) -> object:
    """Return why the system refused, in its words."""
    return getattr(error, "strerror", None) or error


class Lock:
    """A lock on a file; it ends when it is released, or with the process."""

    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def hold(file: Path, refusal: str) -> Lock:
    """Lock a file, which is made if it is not there.

    Raises InputError: with the refusal, if another process holds it. Raises OSError: if the file
    cannot be made or locked.
    """
    with suppress(FileExistsError), create(file, PRIVATE, like=file.parent):
        pass
    handle = os.open(file, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    try:
        _lock(handle)
    except (BlockingIOError, PermissionError):
        os.close(handle)
        raise InputError(refusal) from None
    except OSError:
        os.close(handle)
        raise
    return Lock(handle)


def _lock(handle: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
