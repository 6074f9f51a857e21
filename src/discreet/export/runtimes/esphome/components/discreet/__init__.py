"""ESPHome: a node that is a device of a discreet site.

Symbols of its sensors go to the site; readings stay inside the node.
"""

import struct
import zlib
from pathlib import Path
from typing import Any

import esphome.codegen as cg
import esphome.config_validation as cv
import esphome.final_validate as fv
from esphome.components import binary_sensor, sensor, text_sensor
from esphome.const import (
    CONF_ID,
    CONF_INTERNAL,
    CONF_LEVEL,
    CONF_NAME,
    ENTITY_CATEGORY_DIAGNOSTIC,
    PLATFORM_ESP32,
    PLATFORM_HOST,
    STATE_CLASS_MEASUREMENT,
    UNIT_PERCENT,
)

AUTO_LOAD = ["binary_sensor", "sensor", "text_sensor"]
CONF_ENROLMENT, CONF_SENSORS, CONF_NEW_LEDGER = "enrolment", "sensors", "new_ledger"
CONF_BUDGET_LEFT = "budget_left"
SOURCES = {
    "sensor": sensor.Sensor,
    "binary_sensor": binary_sensor.BinarySensor,
    "text_sensor": text_sensor.TextSensor,
}
# ESPHome has other chips, but there its random bytes are not from a cryptographic source.
CHIPS = [PLATFORM_ESP32, PLATFORM_HOST]
_QUIET = ("NONE", "ERROR", "WARN", "INFO", "CONFIG")
_HEAD, _TABLE_HEAD = 36, 17
_MOST_SYMBOLS = 4000  # what a preference holds, less the frame of a message

discreet_ns = cg.esphome_ns.namespace("discreet")
DiscreetSite = discreet_ns.class_("DiscreetSite", cg.Component)


# --- What must hold for readings to stay inside ---------------------------------------------


def stays_inside(source: Any) -> None:
    """Refuse a source whose readings would leave the node, by themselves or in the log."""
    full = fv.full_config.get()
    entity = full.get_config_for_path(full.get_path_for_id(source)[:-1])
    if not entity.get(CONF_INTERNAL):
        raise cv.Invalid(f"{source} would publish its readings. Set `internal: true` there.")
    level = str(full.get("logger", {}).get(CONF_LEVEL, "NONE"))
    if level not in _QUIET:
        raise cv.Invalid(f"at level {level} the log shows readings. Set `logger: level: INFO`.")


def has_noise() -> None:
    """Refuse a node whose chip would have no randomness: see docs/devices.md."""
    full = fv.full_config.get()
    if "esp32" not in full:
        return
    if "wifi" in full and str(full["wifi"].get("power_save_mode")).upper() != "NONE":
        raise cv.Invalid("a sleeping radio has no noise. Set `wifi: power_save_mode: none`.")
    adc = any(each.get("platform") == "adc" for each in full.get("sensor", []))
    if "wifi" not in full and adc:
        raise cv.Invalid(
            "without Wi-Fi the converter's noise makes the random bytes, and the `adc` platform "
            "would take it away. Read another way, or use Wi-Fi."
        )


# --- The enrolment --------------------------------------------------------------------------


def read_enrolment(data: bytes) -> "tuple[list[str], int]":
    """Return the sensors of a binary enrolment and the symbols of a message, or refuse it."""
    words = struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4])
    if len(data) % 4 or len(words) <= _HEAD or words[:2] != (0x31455344, len(words)):
        raise cv.Invalid("this is no enrolment that `discreet enroll --to esphome` wrote.")
    if zlib.crc32(data[:-4]) != words[-1]:
        raise cv.Invalid("the enrolment is damaged. Enrol the node again.")
    at = _HEAD + sum(length // 4 + 1 for length in words[30:36])
    names = []
    for _ in range(words[7]):
        if at + _TABLE_HEAD >= len(words) or at + words[at + 1] >= len(words):
            raise cv.Invalid("the enrolment is damaged. Enrol the node again.")
        size, length = words[at + 1], words[at + 16]
        begin = 4 * (at + size - 1) - (length + 3) // 4 * 4
        names.append(data[begin : begin + length].decode())
        at += size
    return names, words[6] * words[7]


def quiet(name: str) -> str:
    """Return a sensor's name without what ESPHome would take for a program."""
    return "".join("_" if each in "$<>%#{}" else each for each in name)


def _complete(config: Any) -> Any:
    names, symbols = read_enrolment(Path(config[CONF_ENROLMENT]).read_bytes())
    if symbols > _MOST_SYMBOLS:
        raise cv.Invalid(
            f"a message of {symbols} symbols does not fit in a node's storage. Enrol it with a "
            f"--batch of at most {_MOST_SYMBOLS // len(names)}."
        )
    names = [quiet(name) for name in names]
    given = [each[CONF_NAME] for each in config[CONF_SENSORS]]
    if sorted(given) != sorted(names):
        raise cv.Invalid(
            f"the enrolment is for the sensors {', '.join(map(repr, names))}; give each of them "
            f"once under `sensors`. There are: {', '.join(map(repr, given))}."
        )
    return config


_SENSOR = cv.All(
    cv.Schema(
        {
            cv.Required(CONF_NAME): cv.string_strict,
            **{cv.Optional(key): cv.use_id(kind) for key, kind in SOURCES.items()},
        }
    ),
    cv.has_exactly_one_key(*SOURCES),
)

CONFIG_SCHEMA = cv.All(
    cv.only_on(CHIPS),
    cv.Schema(
        {
            cv.GenerateID(): cv.declare_id(DiscreetSite),
            cv.Required(CONF_ENROLMENT): cv.file_,
            cv.Required(CONF_SENSORS): cv.ensure_list(_SENSOR),
            cv.Optional(CONF_NEW_LEDGER, default=False): cv.boolean,
            cv.Optional(CONF_BUDGET_LEFT): sensor.sensor_schema(
                unit_of_measurement=UNIT_PERCENT,
                accuracy_decimals=1,
                state_class=STATE_CLASS_MEASUREMENT,
                entity_category=ENTITY_CATEGORY_DIAGNOSTIC,
            ),
        }
    ).extend(cv.COMPONENT_SCHEMA),
    _complete,
)


def _final_validate(config: Any) -> None:
    has_noise()
    for each in config[CONF_SENSORS]:
        for key in SOURCES:
            if key in each:
                stays_inside(each[key])


FINAL_VALIDATE_SCHEMA = _final_validate


# --- Code -----------------------------------------------------------------------------------


def add_headers() -> None:
    """Have the compiler find the C headers: beside this file, or in the repository it is from."""
    here = Path(__file__).parent
    if not (here / "discreet.h").exists():
        for folder in (here.parents[2] / "c", here.parents[2] / "c" / "client"):
            cg.add_build_flag(f"-I{folder}")


async def to_code(config: Any) -> None:
    """Write the C++ that sets the node up."""
    site = cg.new_Pvariable(config[CONF_ID])
    await cg.register_component(site, config)
    cg.add_define("USE_DISCREET_SITE")
    add_headers()
    _add_mqtt()
    data = Path(config[CONF_ENROLMENT]).read_bytes()
    words = ", ".join(f"0x{word:08X}u" for word in struct.unpack(f"<{len(data) // 4}I", data))
    array = f"{config[CONF_ID]}_enrolment"
    cg.add_global(cg.RawStatement(f"static const uint32_t {array}[] = {{{words}}};"))
    cg.add(site.set_enrolment(cg.RawExpression(f"{array}, sizeof {array}")))
    names, _ = read_enrolment(data)
    for each in config[CONF_SENSORS]:
        for key in SOURCES:
            if key in each:
                source = await cg.get_variable(each[key])
                place = [quiet(name) for name in names].index(each[CONF_NAME])
                cg.add(site.set_source(place, source))
    for place, name in enumerate(names):
        cg.add(site.set_name(place, name))
    cg.add(site.set_new_ledger(config[CONF_NEW_LEDGER]))
    if CONF_BUDGET_LEFT in config:
        left = await sensor.new_sensor(config[CONF_BUDGET_LEFT])
        cg.add(site.set_budget_left(left))


def _add_mqtt() -> None:
    """Have ESP-IDF's own MQTT client compiled in, as ESPHome's ``mqtt`` does."""
    from esphome.core import CORE

    if not CORE.is_esp32:
        return
    from esphome.components import esp32

    if esp32.idf_version() >= cv.Version(6, 0, 0):  # which has it elsewhere
        esp32.add_idf_component(name="espressif/mqtt", ref="1.0.0")
    elif hasattr(esp32, "include_builtin_idf_component"):
        esp32.include_builtin_idf_component("mqtt")
