"""What the demo's network needs, looked for without importing it."""

from __future__ import annotations

from importlib.util import find_spec

from discreet.network.broker import find_mosquitto

_NEEDED = {
    "paho-mqtt": "paho",
    "cryptography": "cryptography",
    "starlette": "starlette",
    "uvicorn": "uvicorn",
}


def missing_parts() -> str:
    """Return what is not installed and how to have it; empty if all is there."""
    missing = [name for name, module in _NEEDED.items() if find_spec(module) is None]
    if missing:
        return f"{', '.join(missing)}: install discreet[demo]"
    if find_mosquitto() is None and find_spec("amqtt") is None:
        return "a broker: install Mosquitto 2 (Debian: apt install mosquitto), or discreet[demo]"
    return ""
