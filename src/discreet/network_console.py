"""What ``discreet sensor`` and ``discreet serve`` do and say."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.errors import InputError
from discreet.network.site.finding import find_site, need_network

if TYPE_CHECKING:
    from discreet.network.fusion.service import FusionSettings

NOT_DELIVERED = 3
_DAY = 86_400.0


@dataclass(frozen=True)
class SensorCommand:
    """What was asked of ``discreet sensor``."""

    enrolment: Path
    state: Path
    read: list[str]
    hold: float
    drain: float
    quiet: bool


def run_sensor_command(asked: SensorCommand) -> int:
    """Send readings until they end or a signal comes, and return the exit code.

    Raises
    ------
    InputError
    """
    need_network()
    from discreet.network.sensor.running import SensorTask, run_sensor
    from discreet.network.sensor.sources import STDIN, open_sources
    from discreet.network.site.enrolment import load_enrolment

    _speak(asked.quiet)
    enrolment = load_enrolment(asked.enrolment)
    sources = open_sources(
        asked.read or [STDIN],
        enrolment.sensors,
        interval=enrolment.interval,
        hold=asked.hold,
    )
    stop = threading.Event()
    _on_signals(stop.set)
    if not asked.quiet:
        _say(
            f"{enrolment.client} of site {enrolment.site}: a message every "
            f"{enrolment.batch * enrolment.interval:g} s to {enrolment.broker.host}"
        )
    try:
        task = SensorTask(enrolment, asked.state, drain=asked.drain)
        waiting = run_sensor(task, sources, stop)
    finally:
        sources.close()
    if waiting and not asked.quiet:
        _say(f"{waiting} messages wait in {asked.state}; the next start sends them")
    return NOT_DELIVERED if waiting else 0


@dataclass(frozen=True)
class ServeCommand:
    """What was asked of ``discreet serve``."""

    folder: Path | None
    worker: int
    keep: float | None
    quiet: bool


def run_serve(asked: ServeCommand) -> None:
    """Run a worker of the fusion centre until a signal comes.

    Raises
    ------
    InputError
    MappingFileError
    """
    need_network()
    from discreet.mapping import Mapping
    from discreet.network.fusion.pages import Pages
    from discreet.network.fusion.registry import Registry
    from discreet.network.fusion.service import FusionService
    from discreet.network.site.settings import SiteFiles, load_site
    from discreet.network.store.opening import open_store

    _speak(asked.quiet)
    folder = find_site(asked.folder)
    site, files = load_site(folder), SiteFiles(folder)
    if not 1 <= asked.worker <= site.workers:
        raise InputError(
            f"--worker must be from 1 to {site.workers}, which is how many {folder} has; got "
            f"{asked.worker}. Make a site with more: discreet init --workers"
        )
    mapping = Mapping.load(folder / site.mapping)
    registry = Registry(files.clients, site.site, mapping)
    store = open_store(site.database, folder, site.site)
    service = FusionService(_settings(asked, folder), mapping, registry, store)
    _on_signals(service.stop)
    with Pages(service.state, site.metrics.host, site.metrics.port + asked.worker - 1) as pages:
        if not asked.quiet:
            _say(
                f"site {site.site}: {len(mapping.sensors)} sensors, {len(registry.by_name)} "
                f"clients; metrics at http://{site.metrics.host}:{pages.port}/metrics"
            )
        service.run()


def _settings(asked: ServeCommand, folder: Path) -> FusionSettings:
    from discreet.network.connecting import BrokerAddress
    from discreet.network.fusion.rounds import RoundClock
    from discreet.network.fusion.service import FusionSettings
    from discreet.network.site.settings import SiteFiles, load_site, worker_name

    site, files = load_site(folder), SiteFiles(folder)
    broker = site.broker
    certificate, key = files.fusion_certificate(asked.worker)
    ca = folder / "fusion" / "ca.crt"
    tls = {"ca": ca, "certificate": certificate, "key": key} if broker.tls else {}
    return FusionSettings(
        site=site.site,
        clock=RoundClock(float(site.epoch), site.interval, site.deadline),
        broker=BrokerAddress(broker.host, broker.port, mqtt5=broker.mqtt == "5", **tls),
        name=worker_name(asked.worker),
        shared=site.workers > 1,
        keep=None if asked.keep is None else asked.keep * _DAY,
    )


def _speak(quiet: bool) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.ERROR if quiet else logging.INFO,
        format="%(asctime)s discreet: %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
    )


def _on_signals(stop: Callable[[], None]) -> None:
    """End in order on Ctrl-C and on what systemd sends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop())


def _say(text: str) -> None:
    # Not by ``console``, which brings along all that learns: a small device starts this.
    print(text, flush=True)
