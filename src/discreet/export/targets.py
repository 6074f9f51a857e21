"""One section per language: the neutral form in, the files of an export out.

To add a target, write a ``Target`` and list it in ``discreet.choices``. Only bundles for Python are
signed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from textwrap import wrap

from discreet import __version__
from discreet.errors import InputError
from discreet.export.neutral import NONE, SensorTable, bundle_body
from discreet.export.signing import SigningKey

Tables = Mapping[str, SensorTable]
"""By the name that the sensor's files get."""
Files = dict[str, bytes]
Target = Callable[[Tables, SigningKey | None], Files]

_RUNTIMES = files("discreet.export") / "runtimes"


def _runtime(path: str) -> bytes:
    return _RUNTIMES.joinpath(path).read_bytes()


def _runtime_folder(path: str) -> dict[str, bytes]:
    """Return every file below a folder under ``runtimes/``, by its path there."""
    return dict(_walk(_RUNTIMES.joinpath(path), ""))


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
    for file in ("discreet_sensor.py", "discreet_gateway.py"):
        found[file] = _runtime(f"python/{file}")
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
    "{{\n    return discreet_bin(t, reading); /* NAN: no reading */\n}}\n",
    1: "static inline uint32_t {name}_row(const discreet_table *t, const char *reading)\n"
    "{{\n    return discreet_category(t, reading); /* NULL: no reading */\n}}\n",
    2: "static inline uint32_t {name}_row(const discreet_table *t, long reading)\n"
    "{{\n    /* Below 0: no reading. */\n"
    "    return reading < 0 ? discreet_missing(t) : discreet_code(t, reading);\n}}\n",
}


def c_files(tables: Tables, _: SigningKey | None) -> Files:
    """For C and C++: one header per sensor, with a checksum, the runtime's header, and examples."""
    found = {f"{name}.h": sensor_header(name, table).encode() for name, table in tables.items()}
    found["discreet.h"] = _runtime("c/discreet.h")
    first = next(iter(tables))
    for path, data in _runtime_folder("c/examples").items():
        found[f"examples/{path}"] = _example(data.decode(), first, tables[first]).encode()
    return found


def _example(text: str, name: str, table: SensorTable) -> str:
    if table.kind == 1:  # text instead of numbers
        text = text.replace("double read_sensor", "const char *read_sensor")
        text = text.replace("return 0.0;", "return NULL;").replace("NAN if", "NULL if")
    if table.kind == 2:  # whole numbers: a fraction or NAN made into one would be a false code
        text = text.replace("double read_sensor", "long read_sensor")
        text = text.replace("return 0.0;", "return -1;").replace("NAN if", "-1 if")
    return text.replace("SENSOR", name)


def sensor_header(name: str, table: SensorTable) -> str:
    """Return the header of one sensor: its bundle as words, and how to read for it."""
    body = bundle_body(table)
    words = [f"0x{word:08X}u," for word in struct.unpack(f"<{len(body) // 4}I", body)]
    lines = wrap(" ".join(words), 96, initial_indent="    ", subsequent_indent="    ")
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
            f"static const uint32_t {name}_bundle[{len(words)}] = {{",
            *lines,
            "};",
            "",
            _READERS[table.kind].format(name=name),
            "#endif",
            "",
        ]
    )


def comment_text(name: str) -> str:
    """Return a sensor's name so that it cannot end a comment or continue a line."""
    return "".join(c if c.isascii() and (c.isalnum() or c in " -_.") else "_" for c in name)


# --- ESPHome -------------------------------------------------------------------------------


_NUMBER = """\
  - platform: adc
    id: reading
    pin: GPIO34
    internal: true # stays inside the node
    update_interval: 10s

"""
_TEXT = """\
text_sensor:
  - platform: template
    id: reading
    internal: true # stays inside the node
    lambda: 'return {"your reading"};'
    update_interval: 10s

"""


def esphome_files(tables: Tables, _: SigningKey | None) -> Files:
    """For ESPHome: per sensor, a configuration and a component around the C header."""
    found: Files = {}
    component = _runtime_folder("esphome/components/discreet")
    component["discreet.h"] = _runtime("c/discreet.h")
    for name, table in tables.items():
        own = component | {f"{name}.h": sensor_header(name, table).encode()}
        found |= {f"{name}/components/discreet/{path}": data for path, data in own.items()}
        found[f"{name}/{name}.yaml"] = _configuration(name, table).encode()
    return found


def _label(name: str) -> str:
    """Return a sensor's name as ESPHome takes it: 120 bytes, and nothing that it would run."""
    quiet = "".join("_" if each in "$<>%#{}" else each for each in name)
    label = quiet.encode()[:120].decode(errors="ignore").strip()
    return "" if label.lower() == "none" else label  # it would stand for the node


def _configuration(name: str, table: SensorTable) -> str:
    text = table.kind == 1
    parts = {
        "NODE": name.replace("_", "-")[:31].strip("-"),
        "READING\n": _TEXT if text else "",
        "SOURCE": "" if text else _NUMBER,
        "KEY": "text_source_id" if text else "source_id",
        "SENSOR": name,
        "LABEL": json.dumps(_label(table.name) or f"sensor {name}", ensure_ascii=False),
    }
    found = _runtime("esphome/node.yaml").decode()
    for word, value in parts.items():
        found = found.replace(word, value)
    return found
