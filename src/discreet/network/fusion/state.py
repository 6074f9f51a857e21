"""What the fusion centre knows about itself: settings, and counters and states for its pages.

The pages are ``/metrics`` and ``/health``. Nothing here depends on symbols, readings or decisions.
``/health`` answers with 503 if something has to be fixed.
"""

from __future__ import annotations

import json
import resource
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol, Self

from prometheus_client import Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from discreet.errors import InputError
from discreet.network.health import BAD, WARN, Finding, worst
from discreet_sensor.connecting import BrokerAddress
from discreet_sensor.wire import RoundClock


@dataclass(frozen=True)
class FusionSettings:
    """How a worker of a site runs.

    ``key``: what the site is called where others are; its name by default. ``name``: of this
    worker, as in its certificate. ``group``: of the workers that share the messages, which nobody
    else may guess; none if it is alone. ``receive_maximum``: how many messages may wait for a
    commit. ``keep``: seconds for which symbols and decisions are kept; for ever by default.
    ``trust_clock``: take this machine's clock for right at the start, whatever was seen before.
    ``probation``: seconds for which nothing is stored in a database that is new or was copied, see
    ``FusionService``.
    """

    site: str
    clock: RoundClock
    broker: BrokerAddress
    key: str | None = None
    name: str = "fusion"
    group: str | None = None
    receive_maximum: int = 2000
    keep: float | None = None
    trust_clock: bool = False
    workers: int = 1
    probation: float = 0.0

    @property
    def epoch(self) -> float:
        return self.clock.epoch

    @property
    def interval(self) -> float:
        return self.clock.interval

    @property
    def deadline(self) -> float:
        return self.clock.deadline


_METRICS: dict[str, tuple[type[CounterMetricFamily | GaugeMetricFamily], str]] = {
    "messages": (CounterMetricFamily, "Messages stored."),
    "readings": (CounterMetricFamily, "Symbols stored."),
    "commits": (CounterMetricFamily, "Commits to the database."),
    "decisions": (CounterMetricFamily, "Rounds closed."),
    "shed": (
        CounterMetricFamily,
        "Messages that the broker dropped for want of room; each worker counts all.",
    ),
    "queue": (GaugeMetricFamily, "Messages that wait for their commit."),
    "lag_seconds": (GaugeMetricFamily, "Mean time from arrival to acknowledgement, lately."),
    "broker_up": (GaugeMetricFamily, "Whether the broker is there."),
    "database_up": (GaugeMetricFamily, "Whether the database is there."),
    "reported": (GaugeMetricFamily, "Sensors heard in the last closed round."),
    "expected": (GaugeMetricFamily, "Sensors of the mapping."),
    "last_round": (GaugeMetricFamily, "The last closed round."),
    "certificate_valid": (
        GaugeMetricFamily,
        "Whether a certificate stands and a re-check agrees with it.",
    ),
    "clock_offset_seconds": (
        GaugeMetricFamily,
        "How far this machine's clock is ahead of the time that counts.",
    ),
    "decision_age_seconds": (GaugeMetricFamily, "Time since the last round was closed."),
    "resident_bytes": (GaugeMetricFamily, "Largest resident memory so far."),
}


_BY_DEVICE: dict[str, tuple[type[CounterMetricFamily | GaugeMetricFamily], str]] = {
    "silence_seconds": (GaugeMetricFamily, "Time since the last message of a device."),
    "lateness_seconds": (
        GaugeMetricFamily,
        "Time from the end of its rounds to the last message of a device.",
    ),
    "messages": (CounterMetricFamily, "Messages of a device that are stored."),
    "refused": (CounterMetricFamily, "Messages of a device that were not accepted."),
}
_OLD = 30.0  # seconds after which a verdict no longer counts


class State(Collector):
    """Counters and states, changed by several threads."""

    def __init__(self) -> None:
        self._alone = threading.Lock()
        self._values: dict[str, float] = dict.fromkeys(_METRICS, 0)
        self._refused: Counter[str] = Counter()
        self._states: dict[str, dict[str, Any]] = {}
        self._findings: Sequence[Finding] = ()
        self._promise: Sequence[Finding] = ()
        self._devices: dict[str, dict[str, float]] = {}
        self._judged, self._looked = time.monotonic(), False
        self._suspended: dict[str, str] = {}
        self._trailing: list[str] = []
        self.started = time.time()

    def add(self, **amounts: float) -> None:
        with self._alone:
            for name, amount in amounts.items():
                self._values[name] += amount

    def put(self, **values: float) -> None:
        with self._alone:
            self._values.update(values)

    def refuse(self, counts: Counter[str]) -> None:
        with self._alone:
            self._refused.update(counts)

    def suspend(self, devices: dict[str, str]) -> None:
        """Note which devices are not heard now, and why."""
        with self._alone:
            self._suspended = dict(devices)

    def trail(self, devices: Sequence[str]) -> None:
        """Note whose last messages all missed the deadline."""
        with self._alone:
            self._trailing = list(devices)

    def turn(self, part: str, state: str, words: str = "") -> bool:
        """Note the state of a part, such as the database; return whether it is a new one."""
        with self._alone:
            old = self._states.get(part, {})
            if old.get("state") == state:
                old["words"] = words
                return False
            self._states[part] = {"state": state, "since": time.time(), "words": words}
            return True

    def judge(self, findings: Sequence[Finding], devices: dict[str, dict[str, float]]) -> None:
        """Note what is wrong with the site, and figures by device."""
        with self._alone:
            self._findings, self._devices = findings, devices
            self._judged, self._looked = time.monotonic(), True

    def promise(self, certificate: Finding, valid: bool) -> None:
        """Note what the certificate of the site is worth."""
        self.put(certificate_valid=int(valid))
        with self._alone:
            self._promise = [certificate] if certificate.level in (WARN, BAD) else []

    def findings(self) -> list[Finding]:
        """Return what is wrong now, the fusion centre itself included."""
        with self._alone:
            found = [*self._findings, *self._promise]
            database = self._states.get("database", {})
            old, looked = time.monotonic() - self._judged > _OLD, self._looked
        if database.get("state", "here") != "here":
            found.append(Finding(BAD, "The database cannot be used", database["words"], "system"))
        elif old:
            words = "It has not looked at the site for half a minute."
            found.append(Finding(BAD, "The fusion centre is stuck", words, "system"))
        elif not looked:
            words = "It has not looked at the site yet."
            found.append(Finding(BAD, "The fusion centre starts", words, "system"))
        return found

    def value(self, name: str) -> float:
        with self._alone:
            return self._values[name]

    def summary(self) -> dict[str, Any]:
        """Return everything, for ``/health`` and the store."""
        with self._alone:
            return {
                "started": self.started,
                "parts": {part: dict(state) for part, state in self._states.items()},
                "refused": dict(self._refused),
                "suspended": dict(self._suspended),
                "trailing": list(self._trailing),
                **self._values,
            }

    def health(self) -> tuple[str, bytes]:
        """Return how the site is, and everything about it."""
        found = self.findings()
        level = worst(each.level for each in found)
        about = {"level": level, "findings": [asdict(each) for each in found]}
        return level, json.dumps(about | self.summary()).encode()

    def metrics(self) -> bytes:
        self.put(resident_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
        return generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        with self._alone:
            values, refused = dict(self._values), sorted(self._refused.items())
            devices = sorted(self._devices.items())
            suspended = sorted(self._suspended)
        for name, (kind, words) in _METRICS.items():
            yield kind(f"discreet_{name}", words, value=values[name])
        by_reason = CounterMetricFamily(
            "discreet_refused", "Messages refused, by reason.", labels=["reason"]
        )
        for reason, count in refused:
            by_reason.add_metric([reason], count)
        yield by_reason
        by_device = GaugeMetricFamily(
            "discreet_suspended", "Devices that are not heard for a while.", labels=["device"]
        )
        for name in suspended:
            by_device.add_metric([name], 1)
        yield by_device
        wrong = GaugeMetricFamily(
            "discreet_findings", "What is wrong with the site, by level.", labels=["level"]
        )
        levels = Counter(each.level for each in self.findings())
        for level in (WARN, BAD):
            wrong.add_metric([level], levels[level])
        yield wrong
        for name, (kind, words) in _BY_DEVICE.items():
            family = kind(f"discreet_device_{name}", words, labels=["device"])
            for device, figures in devices:
                family.add_metric([device], figures[name])
            yield family


# --- Pages ---------------------------------------------------------------------------------


class Shown(Protocol):
    """What the pages show."""

    def metrics(self) -> bytes: ...
    def health(self) -> tuple[str, bytes]:
        """Return a level, and everything behind it as JSON."""


class Pages:
    """A small server in a thread of its own.

    ``port``: 0 for any that is free. Raises InputError: if the port is taken.
    """

    def __init__(self, state: Shown, host: str, port: int) -> None:
        handler = type("Handler", (_Handler,), {"state": state})
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
        except OSError as error:
            raise InputError(
                f"the metrics cannot listen on {host}:{port} ({error.strerror}). Stop what does, "
                "or change metrics in site.json."
            ) from None
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    state: Shown
    timeout = 5.0  # seconds, for a client that sends no request
    server_version, sys_version = "discreet", ""

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self._answer(200, CONTENT_TYPE_PLAIN_0_0_4, self.state.metrics())
        elif self.path == "/health":
            level, about = self.state.health()
            self._answer(503 if level == BAD else 200, "application/json", about)
        else:
            self._answer(404, "text/plain", b"There are /metrics and /health.\n")

    def _answer(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing: a scrape is no event."""
