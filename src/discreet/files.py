"""Files are read within a limit; files and folders are written whole or not at all, and synced."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from discreet.errors import DiscreetError, InputError

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
        raise refusal(f"{file}: cannot be read ({_reason(error)}).") from None
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
        raise InputError(f"{path}: cannot be written ({_reason(error)}).") from None


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
        _sync_folder(file.parent)
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


def check_folder(folder: Path, option: str = "") -> None:
    """Refuse, before the work, a folder that holds something or has nowhere to be.

    ``option``: what stands before the folder in the command, for the message.
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(f"{option}{folder} is not an empty folder. Name a new one.")
        parent = folder.absolute().parent
        if not parent.is_dir():
            raise InputError(f"{option}{folder}: there is no directory {parent}. Make it first.")
    except InputError:
        raise
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        raise _refused(folder, error, option) from None


def write_folder(
    folder: Path, files: Mapping[str, bytes], option: str = "", mode: int | None = None
) -> None:
    """Write a folder whole or not at all.

    ``folder``: one that does not exist or is empty. ``files``: contents by path inside the folder.
    A path that ends in a slash is an empty folder. ``option``: what stands before the folder in the
    command, for the message. ``mode``: of each file; folders can be entered by whoever may read the
    files.
    """
    check_folder(folder, option)
    out = folder.absolute()
    draft = out.with_name(f".{secrets.token_hex(8)}.part")
    try:
        _write_tree(draft, files, mode)
        if out.exists():
            out.rmdir()  # it is empty: rename does not replace a folder everywhere
        draft.rename(out)
        _sync_folder(out.parent)
    except (OSError, ValueError) as error:
        raise _refused(folder, error, option) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _write_tree(folder: Path, files: Mapping[str, bytes], mode: int | None) -> None:
    make_folder(folder, mode)
    for name, data in files.items():
        inner, _, last = name.rpartition("/")
        for above in (*reversed(Path(inner).parents), Path(inner)):
            make_folder(folder / above, mode)
        if last:
            with create(folder / name, mode) as stream:
                stream.write(data)
    for each in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        _sync_folder(each)


def make_folder(folder: Path, mode: int | None = None) -> None:
    """Make a folder, unless it is there, for whoever may read files of a mode."""
    folder.mkdir(mode=0o777 if mode is None else mode | (mode & 0o444) >> 2, exist_ok=True)


def _sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    if os.name != "posix":
        return
    with suppress(PermissionError):  # one may write to a folder that one may not list
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _refused(folder: Path, error: Exception, option: str) -> InputError:
    return InputError(
        f"{option}{folder}: cannot be written ({_reason(error)}). Name another place."
    )


def _reason(error: Exception) -> object:
    return getattr(error, "strerror", None) or error
