"""Write a folder whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping as Dict
from pathlib import Path

from discreet.errors import InputError


def check_folder(out: Path, option: str = "--out ") -> None:
    """Refuse, before the work, a folder that holds something or has nowhere to be.

    Parameters
    ----------
    out : Path
    option : str
        What stands before the folder in the command, for the message.

    Raises
    ------
    InputError
    """
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise InputError(f"{option}{out} is not an empty folder. Name a new one.")
        if not out.absolute().parent.is_dir():
            raise InputError(
                f"{option}{out}: there is no directory {out.absolute().parent}. Make it first."
            )
    except InputError:
        raise
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        raise _refused(out, error, option) from None


def write_folder(out: Path, files: Dict[str, bytes]) -> None:
    """Write files beside the folder and rename, so that nothing is ever half there.

    Parameters
    ----------
    out : Path
        A folder that does not exist or is empty.
    files : dict of str to bytes
        Contents by path inside the folder.

    Raises
    ------
    InputError
    """
    check_folder(out)
    out = out.absolute()
    draft = out.with_name(f".{secrets.token_hex(8)}.part")
    try:
        for name, data in files.items():
            file = draft / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        if out.exists():
            out.rmdir()  # it is empty: rename does not replace a folder everywhere
        draft.rename(out)
    except (OSError, ValueError) as error:
        raise _refused(out, error) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _refused(out: Path, error: Exception, option: str = "--out ") -> InputError:
    reason = getattr(error, "strerror", None) or error
    return InputError(f"{option}{out}: cannot be written ({reason}). Name another place.")
