"""For C and C++: one header per sensor, the runtime's header, and examples."""

from __future__ import annotations

import struct
from collections.abc import Mapping as Dict
from textwrap import wrap

from discreet.export.body import bundle_body, runtime, runtime_folder
from discreet.export.neutral import NONE, SensorTable
from discreet.export.signing import SigningKey

_READERS = {
    0: "static inline uint32_t {name}_row(const discreet_table *t, double reading)\n"
    "{{\n    return discreet_bin(t, reading); /* NAN: no reading */\n}}\n",
    1: "static inline uint32_t {name}_row(const discreet_table *t, const char *reading)\n"
    "{{\n    return discreet_category(t, reading); /* NULL: no reading */\n}}\n",
    2: "static inline uint32_t {name}_row(const discreet_table *t, long reading)\n"
    "{{\n    /* Below 0: no reading. */\n"
    "    return reading < 0 ? discreet_missing(t) : discreet_code(t, reading);\n}}\n",
}


def files(tables: Dict[str, SensorTable], key: SigningKey | None) -> dict[str, bytes]:
    """Return the files of an export; the header carries a checksum and no signature.

    ``tables``: by the name that the sensor's files get.
    """
    found = {f"{name}.h": sensor_header(name, table).encode() for name, table in tables.items()}
    found["discreet.h"] = runtime("c/discreet.h")
    first = next(iter(tables))
    for path, data in runtime_folder("c/examples").items():
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
