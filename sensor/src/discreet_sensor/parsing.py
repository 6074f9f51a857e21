"""From the output of a source to a reading that a sensor's table knows."""

from __future__ import annotations

import json
import math
from typing import Any, Union

from discreet_sensor.runtime import CATEGORIES, Table
from discreet_sensor.words import MISSING, OFF, ON

Value = Union[bool, int, float, str, None]
MAX_TEXT = 65536
"""Longest value of a source, in characters."""


def row_of(table: Table, value: object) -> int:
    """Return the row of a table for anything that a source may give.

    What cannot be read has a row of its own, as a missing reading has: a sensor that falls silent
    over a strange reading would reveal that it was strange.
    """
    try:
        return table.row(_fitted(table, value))
    except (TypeError, ValueError, OverflowError):
        return table.rows - 1


def problem_of(table: Table, value: object) -> str:
    """Return why a reading counts as missing though there is one; never the reading itself."""
    if isinstance(value, float) and math.isnan(value):
        return "is not a number (nan)"
    try:
        table.row(_fitted(table, value))
    except (TypeError, ValueError, OverflowError):
        comma = isinstance(value, str) and "," in value
        return "is no number: write 3.5, not 3,5" if comma else "cannot be understood"
    text = isinstance(value, str) and table.kind != CATEGORIES
    return "is not a number (nan)" if text and str(value).strip().lower() == "nan" else ""


def _fitted(table: Table, value: object) -> Value:
    if isinstance(value, float) and math.isnan(value):
        return None
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if not isinstance(value, str):
        raise TypeError("neither a number nor text")
    text = value.strip()
    if table.kind == CATEGORIES:
        return None if text.lower() in MISSING and text not in table.categories else text
    return _number(text)


def _number(text: str) -> Value:
    word = text.lower()
    if word in MISSING:
        return None
    if word in ON or word in OFF:
        return int(word in ON)
    number = float(text)
    return None if math.isnan(number) else number


def parse(text: str) -> Any:
    """Return the value of a line or a payload: JSON if it is JSON, else the text."""
    if len(text) > MAX_TEXT:
        return {}
    try:
        return json.loads(text, parse_constant=lambda word: math.nan if word == "NaN" else None)
    except (ValueError, RecursionError):
        return text


def pick_field(content: Any, path: str) -> Any:
    """Return a part of a JSON object, by names with points between; None if it is not there."""
    for name in path.split("."):
        if not isinstance(content, dict):
            return None
        content = content.get(name)
    return content


def has_field(content: dict[str, Any], path: str) -> bool:
    """Whether a payload names the value that is looked for, even if it is missing now."""
    *before, last = (path or "state").split(".")
    inner = pick_field(content, ".".join(before)) if before else content
    return isinstance(inner, dict) and last in inner


def home_value(content: Any, path: str) -> Any:
    """Return the reading in a payload of Zigbee2MQTT or Home Assistant.

    Both send JSON objects with many values, of which one is named; Home Assistant also sends
    the bare state, or an object with a ``state``.
    """
    if path:
        return pick_field(content, path)
    if isinstance(content, dict):
        return content.get("state")
    return content
