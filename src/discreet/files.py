"""Folders are written whole or not at all, and synced; so are files, as devices do it."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from discreet.errors import InputError
from discreet_sensor.files import PRIVATE as PRIVATE
from discreet_sensor.files import create as create
from discreet_sensor.files import read_whole as read_whole
from discreet_sensor.files import reason_of as reason_of
from discreet_sensor.files import replacing as replacing
from discreet_sensor.files import sync_folder
from discreet_sensor.files import write_whole as write_whole


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
        write_tree(draft, files, mode)
        if out.exists():
            out.rmdir()  # it is empty: rename does not replace a folder everywhere
        draft.rename(out)
        sync_folder(out.parent)
    except (OSError, ValueError) as error:
        raise _refused(folder, error, option) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def write_tree(folder: Path, files: Mapping[str, bytes], mode: int | None) -> None:
    """Write files into a folder, which is made, and wait until they are on the disk.

    As ``write_folder``, but what was written stays if there is no more room. Raises OSError.
    """
    make_folder(folder, mode)
    for name, data in files.items():
        inner, _, last = name.rpartition("/")
        for above in (*reversed(Path(inner).parents), Path(inner)):
            make_folder(folder / above, mode)
        if last:
            with create(folder / name, mode) as stream:
                stream.write(data)
    for each in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        sync_folder(each)


def make_folder(folder: Path, mode: int | None = None) -> None:
    """Make a folder, unless it is there, for whoever may read files of a mode."""
    folder.mkdir(mode=0o777 if mode is None else mode | (mode & 0o444) >> 2, exist_ok=True)


def _refused(folder: Path, error: Exception, option: str) -> InputError:
    return InputError(
        f"{option}{folder}: cannot be written ({reason_of(error)}). Name another place."
    )
