"""What ``discreet export`` does: a mapping file to a folder of bundles, a section per language.

To add a target, write a ``Target`` and list it in ``discreet.choices``. Only bundles for Python are
signed.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Sequence
from collections.abc import Mapping as Named
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from textwrap import wrap

from discreet import __version__
from discreet.choices import TARGETS
from discreet.data.columns import written
from discreet.data.encoders import CategoriesEncoder
from discreet.errors import InputError
from discreet.export.lasting import Lasting, lasting
from discreet.export.neutral import NONE, Policy, SensorTable, bundle_body, neutral_form
from discreet.export.signing import SigningKey, load_or_make_key
from discreet.files import check_folder, write_folder
from discreet.mapping.mapping import Mapping

Tables = Named[str, SensorTable]
"""By the name that the sensor's files get."""
Files = dict[str, bytes]
Target = Callable[[Tables, SigningKey | None], Files]
_TAKEN = {
    "discreet",
    "discreet_noise",
    "discreet_site",
    "discreet_sensor",
    "discreet_gateway",
}
_TAKEN |= {"examples", "discreet_random", "discreet_sha256"}
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


# --- The files of a runtime ---------------------------------------------------------------


_RUNTIMES = files("discreet.export") / "runtimes"


def _runtime(path: str) -> bytes:
    return _RUNTIMES.joinpath(path).read_bytes()


def runtime_folder(path: str) -> dict[str, bytes]:
    """Return every file below a folder under ``runtimes/``, by its path there."""
    return dict(_walk(_RUNTIMES.joinpath(path), ""))


def runtime_files(path: str) -> Files:
    """Return the files of a folder under ``runtimes/``, without those of folders in it."""
    return {name: data for name, data in runtime_folder(path).items() if "/" not in name}


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if each.is_dir() and each.name != "__pycache__":
            found += _walk(each, f"{prefix}{each.name}/")
        elif each.is_file() and not each.name.endswith(".pyc"):
            found.append((prefix + each.name, each.read_bytes()))
    return found


# --- Python and MicroPython ----------------------------------------------------------------


def python_files(tables: Tables, key: SigningKey | None) -> Files:
    """For Linux gateways: one signed bundle per sensor, and the runtime to read them with."""
    if key is None:
        raise InputError("bundles for Python are signed. Give a key.")
    found = {f"{name}.bundle": key.sign(bundle_body(table)) for name, table in tables.items()}
    found["public_key.txt"] = f"{key.public_hex}\n".encode()
    found["discreet_sensor.py"] = files("discreet_sensor").joinpath("runtime.py").read_bytes()
    found["discreet_gateway.py"] = _runtime("python/discreet_gateway.py")
    return found


def micropython_files(tables: Tables, _: SigningKey | None) -> Files:
    """For MicroPython: one folder per sensor that ``mip`` installs."""
    found: Files = {}
    for name, table in tables.items():
        found[f"{name}/{name}.table"] = bundle_body(table)
        found[f"{name}/discreet_sensor.py"] = _runtime("micropython/discreet_sensor.py")
        found[f"{name}/package.json"] = _package(name)
    return found


def _package(name: str) -> bytes:
    parts = ("discreet_sensor.py", f"{name}.table")
    content = {"urls": [[part, part] for part in parts], "deps": [], "version": __version__}
    return (json.dumps(content, indent=1) + "\n").encode()


# --- C -------------------------------------------------------------------------------------


_READERS = {
    0: "static inline uint32_t {name}_row(const discreet_table *t, double reading)\n"
    "{{\n    return discreet_bin(t, reading); /* NAN, of math.h: no reading */\n}}\n",
    1: "/* A text takes this room, with zeros behind it: all of it is compared. */\n"
    "enum {{ {name}_room = {room} }};\n\n"
    "static inline uint32_t {name}_row(const discreet_table *t, const char reading[{name}_room])\n"
    "{{\n    return discreet_category(t, reading, {name}_room); /* DISCREET_NO_TEXT: none */\n}}\n",
    2: "static inline uint32_t {name}_row(const discreet_table *t, long reading)\n"
    "{{\n    return discreet_code_or_none(t, reading); /* below 0: no reading */\n}}\n",
}


def c_files(tables: Tables, _: SigningKey | None) -> Files:
    """For C and C++: a header per sensor, the runtime's, examples, and what makes it a package."""
    found = {f"{name}.h": sensor_header(name, table).encode() for name, table in tables.items()}
    found |= runtime_files("c") | package_files()
    first = next(iter(tables))
    for path, data in runtime_folder("c/examples").items():
        found[f"examples/{path}"] = _example(data.decode(), first, tables[first]).encode()
    return found


def package_files() -> Files:
    """Return what ESP-IDF, Arduino, PlatformIO, Zephyr and CMake know a package by."""
    version = __version__.encode()
    parts = runtime_folder("c/package").items()
    return {path: data.replace(b"@VERSION@", version) for path, data in parts}


def _example(text: str, name: str, table: SensorTable) -> str:
    if table.kind == 1:  # text instead of numbers
        text = text.replace("double read_sensor", "const char *read_sensor")
        text = text.replace("return NAN;", "static char text[SENSOR_room] = DISCREET_NO_TEXT;\n"
                            "    return text;")  # fmt: skip
        text = text.replace("NAN if there", "DISCREET_NO_TEXT if there")
    if table.kind == 2:  # whole numbers: a fraction or NAN made into one would be a false code
        text = text.replace("double read_sensor", "long read_sensor")
        text = text.replace("return NAN;", "return -1;").replace("NAN if", "-1 if")
    return text.replace("SENSOR", name)


def sensor_header(name: str, table: SensorTable) -> str:
    """Return the header of one sensor: its bundle as words, and how to read for it."""
    guard = f"DISCREET_{name.upper()}_H"
    epsilon = "none" if table.micro_epsilon == NONE else f"{table.micro_epsilon} millionths"
    return "\n".join(
        [
            f"/* Sensor {comment_text(table.name)} of mapping {table.mapping_id}:",
            f" * {len(table.tops) - 1} codes, {table.symbols} symbols; epsilon of one release, "
            f"by C1: {epsilon}. */",
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            '#include "discreet.h"',
            "",
            *words_in_c(f"{name}_bundle", bundle_body(table)),
            "",
            _READERS[table.kind].format(name=name, room=_room(table)),
            "#endif",
            "",
        ]
    )


def words_in_c(name: str, data: bytes) -> list[str]:
    """Return the lines of an array that holds some bytes as 32-bit words."""
    words = [f"0x{word:08X}u," for word in struct.unpack(f"<{len(data) // 4}I", data)]
    lines = wrap(" ".join(words), 96, initial_indent="    ", subsequent_indent="    ")
    return [f"static const uint32_t {name}[{len(words)}] = {{", *lines, "};"]


def _room(table: SensorTable) -> int:
    """Return the bytes of the longest category with its end."""
    texts = table.encoder.categories if isinstance(table.encoder, CategoriesEncoder) else ()
    return 1 + max((len(written(each).encode()) for each in texts), default=0)


def comment_text(name: str) -> str:
    """Return a sensor's name so that it cannot end a comment or continue a line."""
    return "".join(c if c.isascii() and (c.isalnum() or c in " -_.") else "_" for c in name)
