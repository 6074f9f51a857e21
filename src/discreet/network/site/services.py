"""What the services of a site read: Mosquitto's files, systemd units, a Compose file, the page.

Services run as a user of their own, see the site and little else of the machine, and never
see ``keys/``: whoever breaks into the broker or the fusion centre cannot enrol devices. The broker
grants rights by name; its paths are relative to ``broker/``, so that a site can be moved.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from discreet import __version__
from discreet.errors import InputError, shown
from discreet.network.site.settings import BrokerEndpoint, Site, worker_names
from discreet_sensor.enrolment import is_loopback
from discreet_sensor.wire import (
    BROKER_NOTICES,
    DROPPED,
    MAX_SYMBOLS,
    ack_topic,
    decision_topic,
    message_topic,
)

USER = "discreet"
_DISCOVERY = "homeassistant/#"
BRIDGE_FOLDER = "/etc/mosquitto/discreet"
_AROUND = 2048  # bytes of a packet besides the symbols of a message


def service_files(folder: Path, site: Site, broker_program: Path | None) -> dict[str, bytes]:
    """Return units, the Compose file and the page by their path inside the site.

    ``folder``: where the site will be. ``broker_program``: where Mosquitto is installed. By default
    where Debian has it.
    """
    for path in (folder.absolute(), broker_program, sys.executable):
        if not str(path).isprintable():  # it would end a line of a unit, and begin another
            raise InputError(
                f"the path {shown(str(path))} has a character that cannot be printed. Choose "
                "another folder."
            )
    workers = [{"number": k, "name": name} for k, name in enumerate(worker_names(site), 1)]
    about = {"site": site, "home": folder.absolute(), "workers": workers, "user": USER}
    owner = os.getuid() if hasattr(os, "getuid") and os.getuid() else 1000
    program = broker_program or Path("/usr/sbin/mosquitto")
    texts = {
        "compose.yaml": _filled("compose.yaml", **about, version=__version__, owner=owner),
        "README.md": _filled("README.md", **about),
        "alerts.yaml": _filled("alerts.yaml", **about),
    } | {f"systemd/{name}.service": text for name, text in _units(about, program).items()}
    return {name: text.encode() for name, text in texts.items()}


def _units(about: dict[str, Any], broker_program: Path) -> dict[str, str]:
    home, start = str(about["home"]), [sys.executable, "-m", "discreet"]
    prefix = f"discreet-{about['site'].key}"
    found = {
        f"{prefix}-broker": _filled(
            "broker.service",
            **about,
            command=[str(broker_program), "-c", "mosquitto.conf"],
            hidden=["keys", "fusion", "dashboard", "data", "site.json", "devices.json"],
        ),
        f"{prefix}-dashboard": _filled(
            "python.service",
            **about,
            what="Dashboard",
            command=[*start, "dashboard", home],
            writable=["data", "dashboard"],
            hidden=["keys", "broker", "fusion"],
        ),
        "discreet-sensor@": _filled("sensor.service", python=sys.executable, devices=True),
    }
    for worker in about["workers"]:
        which = ["--worker", str(worker["number"])] if len(about["workers"]) > 1 else []
        found[f"{prefix}-{worker['name']}"] = _filled(
            "python.service",
            **about,
            what="Fusion centre",
            command=[*start, "serve", home, *which],
            writable=["data"],
            hidden=["keys", "broker", "dashboard"],
        )
    return found


def mosquitto_config(broker: BrokerEndpoint) -> str:
    """Return the configuration of the broker.

    It listens on loopback only if that is where it is to be found.
    """
    loopback, longest = is_loopback(broker.host), MAX_SYMBOLS + _AROUND
    return _filled("mosquitto.conf", broker=broker, loopback=loopback, longest_packet=longest)


def bridge_config(site: str, name: str, broker: BrokerEndpoint) -> str:
    """Return what lets another Mosquitto hear the decision as an observer of this name."""
    return _filled(
        "bridge.conf", site=site, observer=name, broker=broker, folder=BRIDGE_FOLDER,
        decision=decision_topic(site), discovery=_DISCOVERY,
    )  # fmt: skip


def access_list(site: str, rights: Mapping[str, str]) -> str:
    """Return the rights of every client.

    ``rights``: role by name.
    """
    topics = {each.__name__: each for each in (message_topic, ack_topic, decision_topic)}
    names = {"discovery": _DISCOVERY, "dropped": DROPPED, "broker_notices": BROKER_NOTICES}
    return _filled("acl", site=site, rights=rights, **topics, **names)


# --- Templates -----------------------------------------------------------------------------


@cache
def _templates() -> Environment:
    found = Environment(
        loader=PackageLoader("discreet.network.site"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters |= {
        "quoted": lambda path: f'"{_escaped(str(path))}"',
        "path": lambda path: str(path).replace("%", "%%"),  # to the end of a line, without quotes
        "words": _words,
    }
    return found


def _filled(name: str, **values: object) -> str:
    return _templates().get_template(name).render(values)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")


def _words(words: list[str]) -> str:
    return " ".join(f'"{_escaped(word).replace("$", "$$")}"' for word in words)
