"""What ``NAME.enrol`` holds: all that a device knows of its site; docs/protocol.md has every key.

Anybody may have written the file: nothing of it is used before all of it is checked.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from discreet_sensor.errors import InputError
from discreet_sensor.files import read_whole
from discreet_sensor.wire import MAX_BOOT, MAX_SYMBOLS

NAME = r"[a-z0-9][a-z0-9-]{0,31}"
MAX_BYTES = 64 * 2**20
_REMEDY = "Have the device enrolled again: discreet enroll."
_MOST_SENSORS, _LONGEST_NAME, _LONGEST_PEM = 10_000, 1000, 20_000

Check = Callable[[Any], bool]


def is_host(host: object) -> bool:
    """Whether a text is a host name or an address."""
    return _matches(r"[A-Za-z0-9]([A-Za-z0-9.:-]{0,252})?|::1?")(host)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens on the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _matches(pattern: str) -> Check:
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _whole(least: int, most: int) -> Check:
    return lambda value: type(value) is int and least <= value <= most


def _is_seconds(value: object) -> bool:
    return type(value) in (int, float) and 0 < value <= 86_400  # type: ignore[operator]


def _is_pem(value: object) -> bool:
    return isinstance(value, str) and value[:11] == "-----BEGIN " and len(value) <= _LONGEST_PEM


def _are_sensors(value: object) -> bool:
    return (
        isinstance(value, (list, tuple))
        and 0 < len(value) <= _MOST_SENSORS
        and all(isinstance(each, str) and 0 < len(each) <= _LONGEST_NAME for each in value)
        and len(set(value)) == len(value)
    )


def _are_bundles(value: object) -> bool:
    try:
        return isinstance(value, (list, tuple)) and len(_decoded(value)) == len(value)
    except (TypeError, ValueError):
        return False


def _decoded(bundles: Any) -> list[bytes]:
    return [base64.b64decode(each, validate=True) for each in bundles]


_HEX = "64 hexadecimal digits"
_is_hex_key = _matches("[0-9a-f]{64}")
_BROKER: dict[str, tuple[Check, str]] = {
    "host": (is_host, "a host name or an address"),
    "port": (_whole(1, 65535), "a port"),
    "tls": (lambda value: isinstance(value, bool), "true or false"),
    "mqtt": (lambda value: value in ("5", "3.1.1"), "5 or 3.1.1"),
}
_FIELDS: dict[str, tuple[Check, str]] = {
    "format": (lambda value: value == "discreet-enrolment", "discreet-enrolment"),
    "version": (lambda value: type(value) is int and value == 1, "1"),
    "site": (_matches(NAME), "a name of a-z, 0-9 and -"),
    "client": (_matches(NAME), "a name of a-z, 0-9 and -"),
    "sensors": (_are_sensors, "names of sensors, each once"),
    "batch": (_whole(1, MAX_SYMBOLS), "a number of rounds"),
    "epoch": (_whole(0, 2**40 - 1), "a unix time"),
    "interval": (_is_seconds, "a number of seconds, at most a day"),
    "boot": (_whole(0, MAX_BOOT), "a number below 2^63"),
    "spent": (_whole(0, 2**32 - 1), "a number below 2^32"),
    "mapping": (_matches("sha256:[0-9a-f]{64}"), f"sha256: and {_HEX}"),
    "certificate": (_is_pem, "PEM"),
    "key": (_is_pem, "PEM"),
    "ca": (_is_pem, "PEM"),
    "mac_key": (_is_hex_key, _HEX),
    "previous_key": (lambda value: value is None or _is_hex_key(value), _HEX),
    "public_key": (_is_hex_key, _HEX),
    "bundles": (_are_bundles, "bundles in base64"),
}


def _check(content: Any, wanted: dict[str, tuple[Check, str]], place: str = "") -> None:
    """Refuse the first value that does not fit, without showing it: it may be a key."""
    for name, (fits, words) in wanted.items():
        if not fits(getattr(content, name)):
            raise InputError(f"{place}{name}: must be {words}.")


@dataclass(frozen=True)
class BrokerPlace:
    """Where the broker is found, and how to connect to it.

    ``tls``: false on this machine only, for the demo and tests. ``mqtt``: "5", or "3.1.1" for the
    embedded broker of the demo.
    """

    host: str
    port: int
    tls: bool = True
    mqtt: str = "5"

    def __post_init__(self) -> None:
        _check(self, _BROKER, "broker.")
        if not self.tls and not is_loopback(self.host):
            raise InputError(
                f"broker: tls is false, which is for this machine only, not for {self.host}."
            )


@dataclass(frozen=True)
class Enrolment:
    """What a ``NAME.enrol`` file holds.

    ``sensors``: names as in the mapping, in the order of the symbols in a message. ``batch``:
    rounds in one message. ``certificate``, ``key``, ``ca``: in PEM. ``mac_key``: key of the
    messages' authentication codes, 64 hexadecimal digits. ``previous_key``: the one before, for
    messages that wait on the device. ``public_key``: ed25519 key that has signed the bundles.
    ``mapping``: id of the mapping that the bundles are of. ``bundles``: a bundle per sensor, as
    ``discreet export --to python`` writes it, in base64. ``boot``: the first start of the device
    counts from here; later enrolments have larger numbers, so that a device whose state was lost is
    not taken for a replay. ``spent``: what its sensors have released at least, in millionths of a
    nat, by what the fusion centre has seen.
    """

    site: str
    client: str
    sensors: tuple[str, ...]
    epoch: int
    interval: float
    broker: BrokerPlace
    boot: int
    mapping: str
    certificate: str
    key: str = field(repr=False)
    ca: str = field(repr=False)
    mac_key: str = field(repr=False)
    public_key: str
    bundles: tuple[str, ...] = field(repr=False)
    previous_key: str | None = field(default=None, repr=False)
    batch: int = 1
    spent: int = 0
    format: str = "discreet-enrolment"
    version: int = 1

    def __post_init__(self) -> None:
        _check(self, _FIELDS)
        if len(self.bundles) != len(self.sensors):
            raise InputError(f"{len(self.bundles)} bundles for {len(self.sensors)} sensors.")
        if self.symbols > MAX_SYMBOLS:
            raise InputError(f"batch: {self.symbols} symbols are too many for a message.")

    @property
    def symbols(self) -> int:
        """How many symbols a message has."""
        return self.batch * len(self.sensors)

    @property
    def bundle_bytes(self) -> list[bytes]:
        """The signed bundles, in the order of the sensors."""
        return _decoded(self.bundles)

    def as_json(self) -> bytes:
        """Return the file."""
        first = {"format": self.format, "version": self.version}
        return (json.dumps({**first, **asdict(self)}, indent=1) + "\n").encode()


def parse_enrolment(data: bytes) -> Enrolment:
    """Return what some bytes enrol.

    Raises InputError: naming the first key that is wrong, never its value.
    """
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        problem = str(error) if isinstance(error, json.JSONDecodeError) else "no UTF-8 JSON"
        raise InputError(f"is not JSON ({problem}).") from None
    values = _known(content, Enrolment)
    values["broker"] = BrokerPlace(**_known(values["broker"], BrokerPlace))
    for name in ("sensors", "bundles"):
        if not isinstance(values[name], list):
            raise InputError(f"{name}: must be a list.")
        values[name] = tuple(values[name])
    return Enrolment(**values)


def _known(content: Any, kind: type) -> dict[str, Any]:
    """Return the keys of an object if all of them are there, and no others."""
    if not isinstance(content, dict):
        raise InputError("is no JSON object where one should be.")
    needed = [each.name for each in fields(kind)]
    for name in content:
        if name not in needed:
            raise InputError(f"{str(name)[:40]!r} is no key of an enrolment.")
    for name in needed:
        if name not in content:
            raise InputError(f"{name}: is missing.")
    return dict(content)


def load_enrolment(file: Path) -> Enrolment:
    """Return what an enrolment file holds.

    Raises InputError: if it cannot be read or used.
    """
    data = read_whole(file, MAX_BYTES, "Is it the right file?")
    try:
        return parse_enrolment(data)
    except InputError as error:
        raise InputError(f"{file}: {error} {_REMEDY}") from None
