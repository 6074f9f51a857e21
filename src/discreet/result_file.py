"""Reading files with results: frontiers, reproductions, benchmarks. Nothing in them is trusted."""

from __future__ import annotations

import stat
from os import PathLike
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from discreet.errors import InputError
from discreet.values import Model, explain

_Result = TypeVar("_Result", bound=Model)


def load_result(
    kind: type[_Result], path: str | PathLike[str], *, command: str, most: int, mend: str
) -> _Result:
    """Read a result that a command wrote.

    Parameters
    ----------
    kind : type
        What to read; its field ``format`` has a default that every such file names.
    path : path
    command : str
        The command that writes such files.
    most : int
        Most bytes that are read.
    mend : str
        What to do about a file that is not sound.

    Raises
    ------
    InputError
        If there is no such file, or it is not a sound result.
    """
    data = _read(Path(path), most, mend)
    if f'"{kind.model_fields["format"].default}"'.encode() not in data:
        raise InputError(f"{path}: is not a file that `{command}` wrote. {mend}")
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise InputError(f"{path}: {_explain_json(error)}. {mend}") from None


def _read(file: Path, most: int, mend: str) -> bytes:
    try:
        about = file.stat()
        if not stat.S_ISREG(about.st_mode):  # a pipe or device may never end
            raise InputError(f"{file}: is not a regular file. {mend}")
        if about.st_size > most:
            raise InputError(f"{file}: has {about.st_size} bytes; at most {most} are read.")
        return file.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{file}: no such file. Check the path.") from None
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{file}: cannot be read ({reason}).") from None


def _explain_json(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] != "json_invalid":
        return explain(error)
    return "is not JSON: " + str(first.get("ctx", {}).get("error", "it cannot be read"))
