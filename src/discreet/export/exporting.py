"""The job behind ``discreet export``: a mapping file to a folder of bundles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from discreet.choices import TARGETS
from discreet.errors import InputError
from discreet.export.lasting import Lasting, lasting
from discreet.export.neutral import Policy, SensorTable, neutral_form
from discreet.export.signing import SigningKey, load_or_make_key
from discreet.files import check_folder, write_folder
from discreet.mapping.mapping import Mapping

_TAKEN = {"discreet", "discreet_node", "discreet_radio", "discreet_sensor", "discreet_gateway"}
_TAKEN |= {"examples"}
_TAKEN |= {"con", "prn", "aux", "nul"}  # names that Windows keeps for devices
_TAKEN |= {f"{port}{number}" for port in ("com", "lpt") for number in range(10)}
# A header of this name would stand before the system's: signal.h, time.h, string.h.
_TAKEN |= {
    "assert", "complex", "ctype", "errno", "fenv", "float", "inttypes", "iso646", "limits",
    "locale", "math", "memory", "setjmp", "signal", "stdalign", "stdarg", "stdatomic", "stdbool",
    "stddef", "stdint", "stdio", "stdlib", "stdnoreturn", "string", "strings", "tgmath",
    "threads", "time", "uchar", "wchar", "wctype", "arduino", "preferences", "esp_random",
    "esp_timer", "nvs", "nvs_flash", "random", "sched", "unistd", "wifi", "esp_wifi", "esp_event",
}  # fmt: skip


def file_names(names: Sequence[str]) -> list[str]:
    """Return lower-case names of ASCII letters, digits and underscores, all different.

    ``names``: the sensors' names, which may be any text.
    """
    found: dict[str, None] = {}
    numbers: dict[str, int] = {}  # ten thousand names may have the same base
    for name in names:
        base = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:40] or "sensor"
        if base[0].isdigit() or base in _TAKEN:
            base = f"sensor_{base}"
        candidate = base
        while candidate in found:
            numbers[base] = numbers.get(base, 1) + 1
            candidate = f"{base}_{numbers[base]}"
        found[candidate] = None
    return list(found)


@dataclass(frozen=True)
class ExportTask:
    """What to export, for what, and where to.

    ``key``: the signing key, outside of ``out``; made if there is no such file. Bundles for Python
    are signed by default with the key beside the mapping, ``home.key`` for ``home.json``.
    ``interval``: seconds between two releases. ``anyway``: also if a budget lasts less than a day.
    """

    mapping: Path
    to: str
    out: Path
    key: Path | None = None
    policy: Policy = field(default_factory=Policy)
    interval: float = 60.0
    anyway: bool = False


@dataclass(frozen=True)
class Exported:
    """The tables by the name of their files, and the key that signed them, with its file."""

    tables: dict[str, SensorTable]
    key: SigningKey | None
    key_path: Path | None
    lasting: Lasting


def export(task: ExportTask) -> Exported:
    """Write one bundle per sensor; the folder appears whole or not at all."""
    if task.to not in TARGETS:
        raise InputError(f"--to must be one of {', '.join(TARGETS)}, got {task.to!r}.")
    check_folder(task.out, "--out ")
    mapping = Mapping.load(task.mapping)
    forms = neutral_form(mapping, task.policy)
    span = lasting(forms, task.interval, task.anyway)
    tables = dict(zip(file_names(mapping.names), forms, strict=True))
    path = _key_path(task)
    key = None if path is None else load_or_make_key(path)
    try:
        write_folder(task.out, TARGETS[task.to](tables, key), "--out ")
    except BaseException:  # also when somebody presses Ctrl-C
        there = task.out.is_dir() and any(task.out.iterdir())
        if path is not None and key is not None and key.made and not there:
            path.unlink(missing_ok=True)  # nothing was signed with it
        raise
    return Exported(tables, key, path, span)


def _key_path(task: ExportTask) -> Path | None:
    if task.to != "python":
        if task.key is None:
            return None
        raise InputError(
            f"--key was given, but only bundles for Python are signed, not those for {task.to}. "
            "Leave it out."
        )
    path = task.mapping.with_suffix(".key") if task.key is None else task.key
    if task.out.absolute() in path.absolute().parents:
        raise InputError(f"--key {path} lies in --out, which goes to devices. Keep it apart.")
    return path
