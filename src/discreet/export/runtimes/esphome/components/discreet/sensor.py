"""The ``discreet`` sensor platform: a reading inside the node, a symbol on the network."""

from pathlib import Path
from typing import Any

import esphome.codegen as cg
import esphome.config_validation as cv
from esphome.components import sensor, text_sensor
from esphome.const import CONF_SOURCE_ID

from . import CHIPS, discreet_ns, has_noise, stays_inside

AUTO_LOAD = ["binary_sensor", "text_sensor"]
CONF_BUNDLE = "bundle"
CONF_NEW_LEDGER = "new_ledger"
CONF_TEXT_SOURCE_ID = "text_source_id"
DiscreetNode = discreet_ns.class_("DiscreetNode", sensor.Sensor, cg.PollingComponent)


def _bundle(value: Any) -> str:
    """Accept the name of a bundle that lies beside this file."""
    name = str(cv.valid_name(value))
    found = sorted(each.stem for each in Path(__file__).parent.glob("*.h"))
    found = [each for each in found if not each.startswith("discreet")]
    if name not in found:
        raise cv.Invalid(f"no bundle {name!r} in the component. There are: {', '.join(found)}.")
    return name


CONFIG_SCHEMA = cv.All(
    cv.only_on(CHIPS),
    sensor.sensor_schema(DiscreetNode, accuracy_decimals=0)
    .extend(
        {
            cv.Required(CONF_BUNDLE): _bundle,
            cv.Exclusive(CONF_SOURCE_ID, "source"): cv.use_id(sensor.Sensor),
            cv.Exclusive(CONF_TEXT_SOURCE_ID, "source"): cv.use_id(text_sensor.TextSensor),
            cv.Optional(CONF_NEW_LEDGER, default=False): cv.boolean,
        }
    )
    .extend(cv.polling_component_schema("60s")),
    cv.has_exactly_one_key(CONF_SOURCE_ID, CONF_TEXT_SOURCE_ID),
)


def _final_validate(config: Any) -> None:
    has_noise()
    stays_inside(config.get(CONF_SOURCE_ID) or config[CONF_TEXT_SOURCE_ID])


FINAL_VALIDATE_SCHEMA = _final_validate


async def to_code(config: Any) -> None:
    """Write the C++ that sets the node up."""
    node = await sensor.new_sensor(config)
    await cg.register_component(node, config)
    name = config[CONF_BUNDLE]
    cg.add_global(cg.RawStatement(f'#include "esphome/components/discreet/{name}.h"'))
    cg.add(node.set_bundle(cg.RawExpression(f'"{name}", {name}_bundle, sizeof {name}_bundle')))
    for key, setter in ((CONF_SOURCE_ID, node.set_source), (CONF_TEXT_SOURCE_ID, node.set_text)):
        if key in config:
            cg.add(setter(await cg.get_variable(config[key])))
    cg.add(node.set_new_ledger(config[CONF_NEW_LEDGER]))
