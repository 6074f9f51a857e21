"""Start a site inside Home Assistant: its broker, fusion centre, dashboard, and played devices.

The site is made at the first start, from ``mapping.json`` in the add-on's folder, and devices are
enrolled when they are named. The add-on ends, and with it all of them, as soon as one of them ends:
Home Assistant restarts it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.errors import InputError
from discreet.network.broker import Broker
from discreet.network.site.services import BRIDGE_FOLDER
from discreet.network.site.settings import load_clients

SUPERVISOR = "172.30.32.2"
INGRESS_PORT = 8099  # where Home Assistant asks for pages, by default
BROKER_PORT, METRICS_PORT = 8883, 9464  # the first is in config.yaml, the other stays inside
USER, OBSERVER = "admin", "home-assistant"
HOLD = 3600  # seconds that the last message of a topic stands for
COMMAND = [sys.executable, "-m", "discreet"]


@dataclass(frozen=True)
class Places:
    """Folders of the add-on: its own, the user's, and the one shared with other add-ons."""

    data: Path = Path("/data")
    config: Path = Path("/config")
    share: Path = Path("/share")

    @property
    def site(self) -> Path:
        """The site, with its keys."""
        return self.data / "site"


def prepare(places: Places, options: dict[str, Any]) -> None:
    """Make the site and enrol devices, as far as that has not been done."""
    if not places.site.is_dir():
        make_site(places, options)
    _run("dashboard", places.site, "--add-user", USER, given=options["dashboard_password"])
    known = load_clients(places.site).clients
    for device in options["devices"]:
        if device["name"] not in known:
            folder = places.data if device.get("read") else places.config
            out = folder / f"{device['name']}.enrol"
            _run("enroll", device["name"], "--sensor", device["sensor"], "--site", places.site,
                 "--out", out)  # fmt: skip
    if options["bridge"]:
        make_bridge(places)


def make_site(places: Places, options: dict[str, Any]) -> None:
    """Make the site from the mapping that the user has put into the add-on's folder."""
    mapping, audit = places.config / "mapping.json", places.config / "audit.json"
    if not mapping.is_file():
        raise InputError(f"{mapping}: no such file. Put a mapping there and start again.")
    more = ["--audit", audit] if audit.is_file() else []
    _run("init", places.site, "--mapping", mapping, "--host", options["host"], "--port",
         BROKER_PORT, "--metrics-port", METRICS_PORT, "--interval", options["interval"],
         "--deadline", options["deadline"], *more)  # fmt: skip


def make_bridge(places: Places) -> None:
    """Write what lets the Mosquitto add-on show the decision."""
    folder = places.share / "mosquitto" / "discreet"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        _run("enroll", OBSERVER, "--observer", "--site", places.site, "--out", folder)
        for each in folder.iterdir():  # the broker runs as a user of its own
            each.chmod(0o644)
        folder.chmod(0o755)
    text = (folder / "bridge.conf").read_text().replace(BRIDGE_FOLDER, str(folder))
    (folder.parent / "discreet.conf").write_text(text)


def commands(places: Places, options: dict[str, Any]) -> list[list[str]]:
    """Return what runs beside the broker."""
    played = [
        ["sensor", str(places.data / f"{each['name']}.enrol"), "--state",
         str(places.data / f"state-{each['name']}"), "--read", each["read"], "--hold", str(HOLD)]
        for each in options["devices"] if each.get("read")
    ]  # fmt: skip
    site = str(places.site)
    dashboard = ["dashboard", site, "--host", "0.0.0.0", "--remote", "--port", str(INGRESS_PORT)]
    return [["serve", site], [*dashboard, "--ingress", SUPERVISOR], *played]


def run(places: Places, options: dict[str, Any]) -> int:
    """Run all of it until something ends or a signal comes; return the exit code."""
    prepare(places, options)
    environment = os.environ | {"DISCREET_MQTT_PASSWORD": options.get("mqtt_password") or ""}
    stopped: list[int] = []
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda number, _: stopped.append(number))
    with Broker.of_site(places.site) as broker:
        running = [
            subprocess.Popen([*COMMAND, *words], env=environment)
            for words in commands(places, options)
        ]
        while not stopped and broker.running and all(each.poll() is None for each in running):
            time.sleep(0.2)
        for each in running:
            each.terminate()
        for each in running:
            each.wait()
    return 0 if stopped else 1


def _run(*words: object, given: str | None = None) -> None:
    done = subprocess.run([*COMMAND, *map(str, words)], input=given, text=True, check=False)
    if done.returncode:
        raise InputError(f"discreet {words[0]} failed; the reason is above.")


def main() -> int:
    """Read the options and run; a mistake ends in one line."""
    places = Places()
    try:
        return run(places, json.loads((places.data / "options.json").read_text()))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
