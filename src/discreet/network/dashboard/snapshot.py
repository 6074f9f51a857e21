"""One moment of a site: decision, devices, traffic, store and guarantee, with what is wrong.

Everything is read in one go and kept for a second, however many pages ask for it. A database that
does not answer is a state to show; what was seen last stays on the page and is called old.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from discreet.network.dashboard.guarantee import Guarantee
from discreet.network.dashboard.levels import BAD, GOOD, WARN, Finding, worst
from discreet.network.dashboard.sensors import SILENT, Device, describe_devices
from discreet.network.dashboard.site_view import SiteView
from discreet.network.store.errors import StoreError
from discreet.network.store.rows import ClientState, Decision, Refusal, Sample

RATE_WINDOW = 60.0
_KEPT_SECONDS = 1.0
_LITTLE_DISK = 0.05
_LITTLE_BYTES = 200 * 2**20
_LATE_ROUNDS = 3
_RECENT = 900.0
_LISTED = 20
_MOST_DECISIONS = 10_000


class Readings(Protocol):
    """What the dashboard asks of the store."""

    def latest(self) -> Decision | None: ...
    def decisions(self, since_round: int = -1, limit: int = 1000) -> list[Decision]: ...
    def clients(self) -> list[ClientState]: ...
    def refused(self) -> list[Refusal]: ...
    def rate(self, window: float = 60.0) -> float | None: ...
    def health(self) -> dict[str, Sample]: ...
    def history(self, name: str, window: float) -> list[Sample]: ...


@dataclass(frozen=True)
class StoreState:
    """How the database and its disk are.

    Attributes
    ----------
    kind : str
        What it is, without any password.
    took : float or None
        Seconds that reading took, None if it failed.
    size, free, total : int or None
        Bytes of the file, and of the disk that it is on.
    """

    kind: str
    finding: Finding
    disk: Finding | None
    took: float | None
    size: int | None
    free: int | None
    total: int | None


@dataclass(frozen=True)
class Stored:
    """What was read from the database."""

    decision: Decision | None = None
    recent: tuple[Decision, ...] = ()
    clients: tuple[ClientState, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    rate: float | None = None
    health: tuple[tuple[str, Sample], ...] = ()

    def sample(self, name: str) -> Any:
        """Return the last value of that name, or None."""
        return next((each.value for key, each in self.health if key == name), None)


@dataclass(frozen=True)
class Snapshot:
    """Everything the pages show, at one moment."""

    at: float
    site: str
    public: str
    classes: tuple[str, ...]
    interval: float
    stored: Stored
    devices: tuple[Device, ...]
    store: StoreState
    guarantee: Guarantee
    findings: tuple[Finding, ...]

    @property
    def level(self) -> str:
        """The worst of all findings."""
        return worst(each.level for each in self.findings)

    @property
    def silent(self) -> int:
        """How many devices have stopped reporting."""
        return sum(each.state == SILENT for each in self.devices)

    @property
    def refused(self) -> int:
        """How many messages were refused so far."""
        return sum(count for _, _, count, _ in self.stored.refusals)


class Snapshots:
    """Takes snapshots, at most one a second.

    Parameters
    ----------
    view : SiteView
    reader : Readings
    clock : callable, optional
        Returns the time; for tests.
    """

    def __init__(
        self, view: SiteView, reader: Readings, clock: Callable[[], float] = time.time
    ) -> None:
        self.view, self.reader, self._clock = view, reader, clock
        self._lock = threading.Lock()
        self._last: Snapshot | None = None
        self._stored = Stored()

    def now(self) -> Snapshot:
        """Return the snapshot of this second."""
        with self._lock:
            now = self._clock()
            if self._last is None or not 0 <= now - self._last.at < _KEPT_SECONDS:
                self._last = self._take(now)
            return self._last

    def decisions(self, window: float) -> list[Decision]:
        """Return the decisions of the last seconds, oldest first and not too many.

        Raises
        ------
        StoreError
        """
        with self._lock:  # the reader serves one thread at a time
            found = self.reader.decisions(limit=_MOST_DECISIONS)
        since = self._clock() - window
        return [each for each in found if each.closed >= since]

    def history(self, name: str, window: float) -> list[Sample]:
        """Return what the fusion centre noted about itself in the last seconds.

        Raises
        ------
        StoreError
        """
        with self._lock:
            return self.reader.history(name, window)

    def _take(self, now: float) -> Snapshot:
        begun, failure = time.perf_counter(), None
        try:
            self._stored = self._read()
        except StoreError as error:
            failure = error
        took = None if failure else time.perf_counter() - begun
        settings, stored = self.view.settings, self._stored
        devices = describe_devices(
            settings,
            self.view.clients().clients,
            stored.clients,
            stored.refusals,
            self.view.costs,
            now,
        )
        store = _store_state(self.view, stored, failure, took)
        guarantee = self.view.guarantee(now)
        return Snapshot(
            at=now,
            site=settings.site,
            public=self.view.mapping.public.name,
            classes=self.view.classes,
            interval=settings.interval,
            stored=stored,
            devices=devices,
            store=store,
            guarantee=guarantee,
            findings=tuple(_findings(self.view, stored, devices, store, guarantee, now)),
        )

    def _read(self) -> Stored:
        latest = self.reader.latest()
        return Stored(
            decision=latest,
            recent=tuple(self.reader.decisions(limit=_LISTED)),
            clients=tuple(self.reader.clients()),
            refusals=tuple(self.reader.refused()),
            rate=self.reader.rate(RATE_WINDOW),
            health=tuple(self.reader.health().items()),
        )


# --- What is wrong -------------------------------------------------------------------------


def _findings(
    view: SiteView,
    stored: Stored,
    devices: Sequence[Device],
    store: StoreState,
    guarantee: Guarantee,
    now: float,
) -> list[Finding]:
    """Return everything that needs a look, the worst first."""
    found = [store.finding, *view.problems(), *_fusion(view, stored, now), *_devices(devices)]
    found += [guarantee.certificate, guarantee.canary, *_refusals(stored, now)]
    found += [store.disk] if store.disk else []
    wrong = [each for each in found if each.level != GOOD]
    return sorted(wrong, key=lambda each: (BAD, WARN).index(each.level))


def _fusion(view: SiteView, stored: Stored, now: float) -> list[Finding]:
    settings = view.settings
    if stored.decision is None:
        words = "No round has been closed yet. Is `discreet serve` running?"
        return [Finding(WARN, "No decision yet", words, "system")]
    late = now - stored.decision.closed
    if late > _LATE_ROUNDS * settings.interval + settings.deadline + 5.0:
        words = "The fusion centre has stopped closing rounds. Is `discreet serve` running?"
        return [Finding(BAD, "The decision is old", words, "system")]
    return []


def _devices(devices: Sequence[Device]) -> list[Finding]:
    found = []
    for state, level, words in (
        (SILENT, BAD, "Decisions are made without them."),
        ("never seen", WARN, "Enrolled, but nothing has arrived."),
    ):
        names = [each.name for each in devices if each.state == state]
        if names:
            short = f"{len(names)} device{'s'[: len(names) > 1]} {state}"
            found.append(Finding(level, short, f"{_some(names)}. {words}", "sensors"))
    gone = [each.name for each in devices if each.budget_level == BAD and each.state != "revoked"]
    if gone:
        short = f"{len(gone)} budget{'s'[: len(gone) > 1]} spent"
        words = f"{_some(gone)}. What they send no longer depends on what they read."
        found.append(Finding(BAD, short, words, "sensors"))
    return found


def _refusals(stored: Stored, now: float) -> list[Finding]:
    fresh = [each for each in stored.refusals if now - each.last < _RECENT]
    if not fresh:
        return []
    names = _some(sorted({each.client for each in fresh}))
    words = f"In the last 15 minutes messages of {names} were not accepted."
    return [Finding(WARN, "Messages are refused", words, "system")]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more


# --- The store -----------------------------------------------------------------------------


def _store_state(
    view: SiteView, stored: Stored, failure: StoreError | None, took: float | None
) -> StoreState:
    url = view.files.database(view.settings)
    file = Path(url.removeprefix("sqlite:")) if url.startswith("sqlite:") else None
    usage = _disk(view.folder if file is None else file.parent)
    finding = Finding(GOOD, "Database answers", "", "system")
    if failure is not None:
        short = "The disk is full" if failure.state == "full" else "The database does not answer"
        finding = Finding(BAD, short, f"{failure} What is shown is old.", "system")
    return StoreState(
        kind="SQLite" if file else "PostgreSQL",
        finding=finding,
        disk=_disk_finding(usage),
        took=took,
        size=_size(file),
        free=usage[1] if usage else None,
        total=usage[0] if usage else None,
    )


def _size(file: Path | None) -> int | None:
    """Return the bytes of a database with its write-ahead log."""
    if file is None:
        return None
    found = (file, file.with_name(file.name + "-wal"))
    try:
        return sum(each.stat().st_size for each in found if each.exists())
    except OSError:
        return None


def _disk(folder: Path) -> tuple[int, int] | None:
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None
    return usage.total, usage.free


def _disk_finding(usage: tuple[int, int] | None) -> Finding | None:
    if usage is None:
        return Finding(WARN, "The disk cannot be looked at", "", "system")
    total, free = usage
    if free < _LITTLE_BYTES or free < _LITTLE_DISK * total:
        words = f"{free / 2**20:,.0f} MiB are left. A full disk stops the fusion centre."
        return Finding(BAD if free < _LITTLE_BYTES else WARN, "Little disk left", words, "system")
    return None
