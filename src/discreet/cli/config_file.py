"""A file of options: what `learn --write-config` writes and `learn --config` reads, in TOML.

Its keys are the options' names, such as ``max-advantage``; ``table`` lists the tables. What is
typed counts more than what the file says. A key that is no option is refused.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import typer

from discreet.errors import InputError, shown
from discreet.files import write_whole

_ARGUMENTS = {"tables": "table"}  # what the file calls them
_ABOUT_THE_FILE = ("config", "config_out", "help")
_MOST_BYTES = 1 << 20
_ADVICE = "Name a file that `discreet learn --write-config` wrote."


def read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Let a file say what was not typed: the callback of `--config`."""
    if path is not None:
        names = [each.name for each in context.command.params if each.name]
        known = {_key(name): name for name in names if name not in _ABOUT_THE_FILE}
        found = _load(path)
        for key, value in found.items():
            if key not in known:
                raise InputError(
                    f"--config {path}: {shown(key)} is no option of {context.command_path}, which "
                    f"has {', '.join(known)}."
                )
            if not isinstance(value, str | int | float | list):
                raise InputError(
                    f"--config {path}: {key} must be a text, a number, true, false or a list of "
                    f"texts, got {shown(value)}."
                )
        context.default_map = {known[key]: value for key, value in found.items()}
    return path


def _load(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()[: _MOST_BYTES + 1]
        if len(data) > _MOST_BYTES:
            raise InputError(f"--config {path} is larger than 1 MiB. Name a file of options.")
        return tomllib.loads(data.decode())
    except OSError as error:
        raise InputError(f"--config {path}: cannot be read ({error.strerror}). {_ADVICE}") from None
    except ValueError as error:  # of TOML or of UTF-8
        raise InputError(f"--config {path} is no TOML file: {error}. {_ADVICE}") from None


def write_config(context: typer.Context, path: Path) -> None:
    """Write the options that were given, typed or by another file."""
    given = {}
    for each in context.command.params:
        source = context.get_parameter_source(each.name or "")
        if source is not None and source.name in ("COMMANDLINE", "DEFAULT_MAP"):
            given[each.name or ""] = context.params[each.name or ""]
    lines = [
        f"{_key(name)} = {_in_toml(value)}\n"
        for name, value in given.items()
        if name not in _ABOUT_THE_FILE
    ]
    write_whole(path, "".join(lines))


def _key(name: str | None) -> str:
    return _ARGUMENTS.get(name or "", (name or "").removeprefix("as_").replace("_", "-"))


def _in_toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_in_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    # A JSON string is one of TOML, but for the one control character that JSON leaves as it is.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
