"""For ESPHome: per sensor, a configuration and a component around the C header."""

from __future__ import annotations

import json
from collections.abc import Mapping as Dict

from discreet.export.body import runtime, runtime_folder
from discreet.export.neutral import SensorTable
from discreet.export.signing import SigningKey
from discreet.export.targets.c import sensor_header

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


def files(tables: Dict[str, SensorTable], key: SigningKey | None) -> dict[str, bytes]:
    """Return the files of an export; nothing is signed, whatever the key.

    ``tables``: by the name that the sensor's files get.
    """
    found: dict[str, bytes] = {}
    component = runtime_folder("esphome/components/discreet")
    component["discreet.h"] = runtime("c/discreet.h")
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
    found = runtime("esphome/node.yaml").decode()
    for word, value in parts.items():
        found = found.replace(word, value)
    return found
