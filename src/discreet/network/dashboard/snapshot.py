"""One moment of a site: decision, devices, traffic, store and guarantee, with what is wrong.

Everything is read in one go and kept for a second, however many pages ask for it. A database that
does not answer is a state to show; what was seen last stays on the page and is called old. So is a
file of the site that cannot be read: all of them are read again when they change.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, TypeVar

from discreet.auditing.audit_file import AuditSummary, load_audit
from discreet.auditing.recheck import load_state, load_watch
from discreet.data.columns import written
from discreet.errors import DiscreetError
from discreet.export.neutral import MICRO, Policy, sensor_table
from discreet.frontiers.results import Frontier
from discreet.mapping.mapping import Mapping
from discreet.network.dashboard.charts import Strip, StripPlan
from discreet.network.dashboard.guarantee import Guarantee, assess, assess_drift
from discreet.network.dashboard.sensors import (
    Device,
    Marginals,
    Sent,
    check_marginals,
    describe_devices,
)
from discreet.network.health import BAD, GOOD, REVOKED, WARN, Finding, examine, some, worst
from discreet.network.observed import QUIET, DeployedFiles, Stored
from discreet.network.site.settings import (
    Client,
    Clients,
    Site,
    SiteFiles,
    file_stamp,
    load_devices,
    load_site,
)
from discreet.network.store.database import StoreError
from discreet.network.store.reading import Reader
from discreet.network.store.rows import ABSENT, UNBOUNDED, Decision, Sample, mapping_number

_T = TypeVar("_T")
_KEPT_SECONDS = 1.0
_LITTLE_DISK = 0.05
_LITTLE_BYTES = 200 * 2**20
_FULL_BYTES = 2**20
_LOOK_SECONDS = 600.0
_STRIP_SECONDS = 10.0
MOST_DECISIONS = 10_000
UNSURE = 0.75
"""A decision that is less certain than this is called unsure."""


# --- The files of the site -------------------------------------------------------------------


class SiteView:
    """What the dashboard knows of a site besides its database.

    Raises InputError, MappingFileError: if the settings or the mapping cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.files = SiteFiles(folder)
        self.folder = self.files.folder
        self.deployed = DeployedFiles(folder)
        self._read()
        there = self.files.devices.exists()  # not in a site of an earlier version
        file = self.files.devices if there else self.files.clients
        self._clients = _Watched(file, lambda _: load_devices(folder), needed=True)
        self._audit = _Watched(self.files.audit, load_audit)
        self._recheck = _Watched(self.files.recheck, load_state)
        self._drift = _Watched(self.files.drift, load_watch)
        self._frontier = _Watched(self.files.frontier, Frontier.load)

    def _read(self) -> None:
        self._runs = self.deployed()
        self.settings = load_site(self.folder)
        self.mapping = Mapping.load(self.folder / self.settings.mapping)
        self.classes = tuple(written(each) for each in self.mapping.public.classes)
        self.tables = {
            each.name: sensor_table(self.mapping.id, each, Policy())
            for each in self.mapping.sensors
        }

    def refresh(self) -> bool:
        """Read settings and mapping again if they have changed; return whether they have."""
        if self.deployed().runs_as(self._runs):
            return False
        with suppress(DiscreetError):  # changed once more meanwhile
            self._read()
        return True

    @property
    def clients(self) -> dict[str, Client]:
        """The clients; none if the file cannot be read (see ``problems``)."""
        return (self._clients.value or Clients()).clients

    @property
    def audit(self) -> AuditSummary | None:
        """The audit that the certificate rests on."""
        return self._audit.value

    @property
    def frontier(self) -> Frontier | None:
        """The trade-off that the mapping was chosen from."""
        return self._frontier.value

    def guarantee(self, now: float) -> Guarantee:
        today = datetime.fromtimestamp(now, UTC).date()
        damaged = next((each for each in (self._audit, self._recheck) if each.problem), None)
        problem = f"The file {damaged.path.name} cannot be read." if damaged else ""
        known = self._audit.value, self._recheck.value, self.mapping
        return assess(*known, self.settings.expires, today, problem)

    def drift(self) -> Finding:
        """Return what days of symbols show without labels."""
        return assess_drift(self._drift.value, self._recheck.value, self.mapping.id)

    def problems(self) -> list[Finding]:
        found = {"Settings or mapping": self.deployed.problem}
        for each in (self._clients, self._audit, self._recheck, self._frontier):
            # Where the site lies is of no interest on a page.
            found[each.path.name] = each.problem.removeprefix(f"{each.path}: ")
        return [
            Finding(BAD, f"{what} cannot be read", why, "system")
            for what, why in found.items()
            if why
        ]


class _Watched(Generic[_T]):
    """A file's content, read again when the file is another one.

    ``needed``: whether it is a problem if there is none.
    """

    def __init__(
        self, path: Path, load: Callable[[Path], _T | None], *, needed: bool = False
    ) -> None:
        self.path, self._load, self._needed = path, load, needed
        self._stamp: tuple[int, ...] | None = ()
        self._held: tuple[_T | None, str] = (None, "")

    @property
    def value(self) -> _T | None:
        return self._current()[0]

    @property
    def problem(self) -> str:
        return self._current()[1]

    def _current(self) -> tuple[_T | None, str]:
        stamp = file_stamp(self.path)
        if stamp != self._stamp:
            there = stamp is not None or self._needed
            self._held = self._read() if there else (None, "")
            self._stamp = stamp  # last: until then other threads read as well
        return self._held

    def _read(self) -> tuple[_T | None, str]:
        try:
            return self._load(self.path), ""
        except DiscreetError as error:
            return None, str(error)
        except Exception as error:  # what nobody foresaw must not pass for a missing file
            return None, f"{self.path}: is not sound ({type(error).__name__})."


# --- A moment -------------------------------------------------------------------------------


@dataclass(frozen=True)
class StoreState:
    """State of the database and its disk.

    ``kind``: what it is, without any password. ``took``: seconds that reading took, None if it
    failed. ``size``, ``free``, ``total``: bytes of the file, and of the disk that it is on.
    """

    kind: str
    finding: Finding
    disk: Finding | None
    took: float | None
    size: int | None
    free: int | None
    total: int | None


@dataclass(frozen=True)
class Snapshot:
    """Everything the pages show, at one moment.

    ``weights``: of the classes in the rule that decides. ``decisions``: the latest, oldest first.
    ``unread``: whether nothing is known of the database, because it never answered.
    """

    at: float
    settings: Site
    public: str
    classes: tuple[str, ...]
    weights: tuple[float, ...]
    stored: Stored
    decisions: tuple[Decision, ...]
    strip: Strip
    devices: tuple[Device, ...]
    store: StoreState
    guarantee: Guarantee
    drift: Finding
    marginals: Marginals
    findings: tuple[Finding, ...]
    unread: bool = False

    @property
    def level(self) -> str:
        return worst(each.level for each in self.findings)

    @property
    def shortest(self) -> Device | None:
        """The device whose budget is spent first, if any has one that can be counted."""
        limited = [(each.days_left, each.name, each) for each in self.devices
                   if each.days_left is not None and not each.revoked]  # fmt: skip
        return min(limited)[2] if limited else None

    @property
    def begun(self) -> bool:
        """Whether the site has ever run; before, its pages show the first steps."""
        damaged = self.store.finding.level == BAD
        return damaged or self.stored.decision is not None or self.stored.noted is not None

    @property
    def present(self) -> Decision | None:
        """The last decision, if a sensor was heard for it and the fusion centre is not silent."""
        last, noted = self.stored.decision, self.stored.noted
        silent = noted is not None and self.at - noted > QUIET
        return None if silent or last is None or not last.reported else last

    @property
    def last_heard(self) -> Decision | None:
        """The last decision for which any sensor was heard, of those that are kept here."""
        return next((each for each in reversed(self.decisions) if each.reported), None)

    def answer(self, decided: str) -> str:
        """Return the sentence for a class, or how the class is written."""
        return self.settings.answers.get(decided, decided)

    def certainty(self, decision: Decision) -> float:
        """Return the probability of what was decided, classes weighed as the rule weighs them."""
        weighed = [p * w for p, w in zip(decision.probabilities, self.weights, strict=False)]
        chosen = dict(zip(self.classes, weighed, strict=False)).get(decision.decision, 0.0)
        return chosen / sum(weighed) if chosen else 0.0

    def is_sure(self, decision: Decision) -> bool:
        return self.certainty(decision) >= UNSURE

    @property
    def likely_right(self) -> tuple[float, int] | None:
        """How often decisions with as many sensors as the last are right, by their probabilities.

        And of how many of the latest rounds that is the mean.
        """
        last = self.stored.decision
        alike = [each for each in self.stored.recent if last and each.reported == last.reported]
        found = [
            dict(zip(self.classes, each.probabilities, strict=False)).get(each.decision, 0.0)
            for each in alike
        ]
        return (sum(found) / len(found), len(found)) if found else None

    @property
    def refused(self) -> int:
        return sum(each.times for each in self.stored.refusals if each.kept_out)


class Snapshots:
    """Takes snapshots, at most one a second.

    ``clock``: returns the time; for tests.
    """

    def __init__(
        self, view: SiteView, reader: Reader, clock: Callable[[], float] = time.time
    ) -> None:
        self.view, self.reader, self._clock = view, reader, clock
        self._lock = threading.Lock()
        self._last: Snapshot | None = None
        self._taken = 0.0
        self._stored = Stored()
        self._decisions: tuple[Decision, ...] = ()
        self._strip: tuple[float, Strip] | None = None
        self._marginals: tuple[float, Marginals] | None = None

    def now(self) -> Snapshot:
        with self._lock:
            now = self._clock()
            if self._last is None or not 0 <= now - self._taken < _KEPT_SECONDS:
                self._last, self._taken = self._take(now), now
            return self._last

    def history(self, name: str, window: float) -> list[Sample]:
        with self._lock:  # the reader serves one thread at a time
            return self.reader.history(name, window)

    def _follow(self, latest: Decision | None) -> None:
        """Read the decisions that are not known yet; all of them, where rounds went back."""
        newest = latest.round if latest else -1
        known = self._decisions[-1].round if self._decisions else -1
        if newest != known:
            kept = self._decisions if known < newest else ()
            more = self.reader.decisions(known if kept else -1, MOST_DECISIONS, newest)
            self._decisions = (*kept, *more)[-MOST_DECISIONS:]

    def _draw_strip(self, now: float) -> Strip:
        """Return who was heard when, counted again every few seconds."""
        if self._strip is None or not 0 <= now - self._strip[0] < _STRIP_SECONDS:
            plan = StripPlan(self.view.settings, now)
            try:
                heard = self.reader.heard(plan.first_round, plan.rounds, plan.site.interval)
                shut = self.reader.history("suspended", now - plan.time(0))
            except StoreError:  # which does not make anybody silent
                return self._strip[1] if self._strip else plan.draw({}, (), ())
            self._strip = now, plan.draw(self.view.clients, heard, shut)
        return self._strip[1]

    def _take(self, now: float) -> Snapshot:
        if self.view.refresh():
            self._marginals = None
        begun, failure = time.perf_counter(), None
        try:
            self._stored = Stored.read(self.reader, self.view.settings)
            self._follow(self._stored.decision)
        except StoreError as error:
            failure = error
        took = None if failure else time.perf_counter() - begun
        settings, clients, stored = self.view.settings, self.view.clients, self._stored
        now = stored.time(now)
        devices = describe_devices(
            settings, clients, stored, self.view.tables, self.view.mapping.id, now
        )
        marginals = self._check_marginals(devices, now)
        store = _store_state(self.view, stored, failure, took)
        guarantee, drift = self.view.guarantee(now), self.view.drift()
        rule = self.view.mapping.fusion.decide
        unread = store.finding.level == BAD and stored.noted is None
        found = [store.finding, *self.view.problems()]
        if not unread:
            found += examine(settings, clients, stored, now, deployed=self.view.deployed())
        found += [*_spent(devices), *guarantee.findings, drift, marginals.finding]
        found += [store.disk] if store.disk else []
        return Snapshot(
            at=now,
            settings=settings,
            public=self.view.mapping.public.name,
            classes=self.view.classes,
            weights=tuple(rule.weights) if rule else (1.0,) * len(self.view.classes),
            stored=stored,
            decisions=self._decisions,
            strip=self._draw_strip(now),
            devices=devices,
            store=store,
            guarantee=guarantee,
            drift=drift,
            marginals=marginals,
            unread=unread,
            findings=tuple(each for level in (BAD, WARN) for each in found if each.level == level),
        )

    def _check_marginals(self, devices: Sequence[Device], now: float) -> Marginals:
        """Return the test of the symbols, repeated every ten minutes: it is slow."""
        if self._marginals is None or not 0 <= now - self._marginals[0] < _LOOK_SECONDS:
            try:
                sent = [self._sent(each) for each in devices if each.state != REVOKED]
            except StoreError:
                sent = []
            self._marginals = now, check_marginals(self.view.mapping, sent)
        return self._marginals[1]

    def _sent(self, device: Device) -> Sent:
        drawn_by = mapping_number(self.view.mapping.id)
        rows = self.reader.symbols(device.name, mapping=drawn_by)
        counted = [spent for _, spent in rows if spent < UNBOUNDED]
        spent = (max(counted) - min(counted)) / MICRO if len(counted) == len(rows) > 1 else None
        symbols = tuple(symbols for symbols, _ in rows)
        return Sent(device.name, device.sensors, symbols, spent, device.cost)


# --- What is wrong -------------------------------------------------------------------------


def _spent(devices: Sequence[Device]) -> list[Finding]:
    """Return which budgets are spent; ``health`` knows whether devices report."""
    names = [each.name for each in devices if each.is_spent and not each.revoked]
    short = f"{len(names)} budget{'s'[: len(names) > 1]} spent"
    words = "What they send depends on no reading, from the next period at the latest."
    return [Finding(BAD, short, f"{some(names)}. {words}", "sensors")] if names else []


# --- The store -----------------------------------------------------------------------------


def _store_state(
    view: SiteView, stored: Stored, failure: StoreError | None, took: float | None
) -> StoreState:
    url = view.files.database(view.settings)
    file = Path(url.removeprefix("sqlite:")) if url.startswith("sqlite:") else None
    total = free = None
    with suppress(OSError):
        usage = shutil.disk_usage(view.folder if file is None else file.parent)
        total, free = usage.total, usage.free
    return StoreState(
        kind="SQLite" if file else "PostgreSQL",
        finding=_store_finding(view, stored, failure),
        disk=_disk_finding(total, free),
        took=took,
        size=_size(file),
        free=free,
        total=total,
    )


def _store_finding(view: SiteView, stored: Stored, failure: StoreError | None) -> Finding:
    if failure is None:
        return Finding(GOOD, "Database answers", "", "system")
    ran = stored.noted is not None or view.files.drift.exists()
    if failure.state == ABSENT and not ran:
        return Finding("", "Not made yet", "`discreet serve` makes it.", "system")
    short = "The disk is full" if failure.state == "full" else "The database does not answer"
    place = view.folder / view.settings.database.removeprefix("sqlite:")
    why = str(failure).removeprefix(f"{place}: ")  # which is of no interest on a page
    old = "" if stored.noted is None else " What is shown is old."
    return Finding(BAD, short, f"{why[:1].upper()}{why[1:]}{old}", "system")


def _size(file: Path | None) -> int | None:
    """Return the bytes of a database with its write-ahead log."""
    if file is None:
        return None
    found = (file, file.with_name(file.name + "-wal"))
    try:
        return sum(each.stat().st_size for each in found if each.exists())
    except OSError:
        return None


def _disk_finding(total: int | None, free: int | None) -> Finding | None:
    if total is None or free is None:
        return Finding(WARN, "The disk cannot be checked", "", "system")
    if free < _FULL_BYTES:
        words = "Nothing can be stored; devices keep their messages until there is room."
        return Finding(BAD, "The disk is full", words, "system")
    if free < _LITTLE_BYTES or free < _LITTLE_DISK * total:
        words = f"{free / 2**20:,.0f} MiB are left. A full disk stops the fusion centre."
        return Finding(BAD if free < _LITTLE_BYTES else WARN, "Little disk left", words, "system")
    return None
