"""The fusion centre watches its site: judged as doctor and dashboard do, and for drift by day."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.auditing.recheck import REFERENCE_DAYS, DriftWatch, begin_watch, load_watch
from discreet.errors import InputError
from discreet.files import write_whole
from discreet.mapping.mapping import Mapping
from discreet.network.fusion.intake import Registry
from discreet.network.fusion.state import FusionSettings, State
from discreet.network.health import examine, lateness
from discreet.network.observed import Deployed, Plan, Stored, noted_plan
from discreet.network.store.database import StoreError
from discreet.network.store.rows import (
    CLONED,
    COPIED,
    RESTORED,
    UNBOUNDED,
    StoredMessage,
    note_name,
)
from discreet.network.store.writing import Store
from discreet_sensor.wire import RoundClock

# --- The site -------------------------------------------------------------------------------

logger = logging.getLogger(__name__)

_LASTS = 3600.0  # seconds for which a clone is shown after it was seen last
_CHECK_EVERY, _CHECK_SHARE = 10.0, 20  # seconds, and times what a check takes


class Watch:
    """Looks at what is stored, and puts the verdict into the state.

    ``check``: returns what is wrong with the database, or nothing; runs in a thread of its own.
    ``deployed``: returns what the files of the site hold. ``messages``: how many are stored.
    """

    def __init__(
        self,
        plan: Plan,
        registry: Registry,
        store: Store,
        state: State,
        check: Callable[[], str] | None = None,
        deployed: Callable[[], Deployed] | None = None,
    ) -> None:
        self._deployed = deployed
        self._plan, self._registry, self._store, self._state = plan, registry, store, state
        self._check, self._checking = check, threading.Event()
        self._next_check = 0.0
        self.messages = 0
        self._latest: dict[str, tuple[int, int, int]] = {}
        self._fallen: dict[str, int] = {}  # by client: the boot in which it had spent less
        self._standing: set[tuple[str, str]] = set()
        self._noticed: dict[str, float] = {}
        self._alarms: dict[tuple[str, str], str] = {}  # to be noted; without words, to be settled

    def begin(self) -> None:
        """Learn how far each device had come."""
        clients = self._store.clients()
        self._latest = {each.client: (each.boot, each.seq, each.spent) for each in clients}
        self.messages = sum(each.messages for each in clients)
        self._standing = {(each.client, each.kind) for each in self._store.alarms()}
        self._fallen = {
            name: boot
            for name, (boot, *_) in self._latest.items()
            if (name, RESTORED) in self._standing
        }

    def notice(self, messages: Iterable[StoredMessage]) -> None:
        """Compare new messages with those before: what a device has spent never falls.

        A device that fell spends as much again within a while: only a later start, with what it
        had spent handed back, settles the alarm.
        """
        for each in {each.client: each for each in messages}.values():  # the last of each
            boot, seq, spent = self._latest.get(each.client, (-1, 0, 0))
            if (each.boot, each.seq) <= (boot, seq):
                continue
            self._latest[each.client] = each.boot, each.seq, max(spent, each.spent)
            standing = (each.client, RESTORED) in self._standing
            if each.spent < spent:
                self._fallen[each.client] = each.boot
                self.alarm(
                    each.client,
                    RESTORED,
                    f"it had spent {_nats(spent)}, and now reports {_nats(each.spent)}. What it "
                    "tells from here on is beyond its budget.",
                )
            elif standing and each.boot > self._fallen.get(each.client, -1):
                self._alarms[each.client, RESTORED] = ""

    def notice_clone(self, client: str) -> None:
        """Note that two devices send with one name; an hour later it is settled."""
        self._noticed[client] = time.monotonic()
        self.alarm(
            client,
            CLONED,
            "two devices send with its name: one file used twice, or a copied state. The one that "
            "started last is refused.",
        )

    def notice_copy(self) -> None:
        """Note that another fusion centre has connected with our name."""
        self._noticed[""] = time.monotonic()
        self.alarm(
            "",
            COPIED,
            "Another fusion centre has taken over the connection to the broker: a copy of this "
            "site is served somewhere.",
        )

    def alarm(self, client: str, kind: str, words: str) -> None:
        """Have an alarm noted with the next look, and logged once."""
        if (client, kind) not in self._standing:
            self._standing.add((client, kind))
            self._alarms[client, kind] = words
            logger.warning("%s%s", f"{client}: " if client else "", words)

    def _note_alarms(self, now: float) -> None:
        for client, kind in self._standing:
            last = self._noticed.setdefault(client, time.monotonic())
            if kind in (CLONED, COPIED) and time.monotonic() - last > _LASTS:
                self._alarms[client, kind] = ""
        for (client, kind), words in list(self._alarms.items()):
            if words:
                self._store.alarm(client, kind, words, now)
            else:
                self._store.settle(client, kind)
                self._standing.discard((client, kind))
            del self._alarms[client, kind]

    def look(self, now: float) -> None:
        """Note alarms, and judge what is stored."""
        self._begin_check()
        self._note_alarms(now)
        self.judge(now)

    def judge(self, now: float) -> None:
        """Judge what is stored."""
        stored = Stored.read(self._store, self._plan)
        devices = self._registry.by_name
        deployed = None if self._deployed is None else self._deployed()
        found = examine(self._plan, devices, stored, now, deployed=deployed)
        self._state.judge(found, self._figures(stored, now))
        if stored.decision is not None:
            self._state.put(decision_age_seconds=max(0.0, now - stored.decision.closed))
        self.messages = sum(each.messages for each in stored.clients)

    def _figures(self, stored: Stored, now: float) -> dict[str, dict[str, float]]:
        """Return figures by device, for the metrics."""
        refused: Counter[str] = Counter()
        for each in stored.refusals:
            refused[each.client] += each.times * each.kept_out
        found = {}
        for client in stored.clients:
            known = self._registry.by_name.get(client.client)
            if known is not None and not known.revoked:
                found[client.client] = {
                    "silence_seconds": max(0.0, now - client.last_seen),
                    "lateness_seconds": lateness(self._plan, known, client),
                    "messages": float(client.messages),
                    "refused": float(refused[client.client]),
                }
        return found

    def _begin_check(self) -> None:
        if self._check is None or self._checking.is_set() or time.monotonic() < self._next_check:
            return
        self._checking.set()
        threading.Thread(target=self._run_check, args=(self._check,), daemon=True).start()

    def _run_check(self, check: Callable[[], str]) -> None:
        begun = time.monotonic()
        try:
            words = check()
            self._state.turn("integrity", "damaged" if words else "sound", words)
        except StoreError:
            pass  # the state of the database shows it
        finally:
            took = time.monotonic() - begun
            self._next_check = time.monotonic() + max(_CHECK_EVERY, _CHECK_SHARE * took)
            self._checking.clear()


def _nats(spent: int) -> str:
    return "without bound" if spent >= UNBOUNDED else f"{spent / 1e6:.3g} nats"


def own_notes(state: State) -> dict[str, Any]:
    """Return what a worker notes about itself."""
    summary = state.summary()
    names = ("queue", "lag_seconds", "shed", "parts", "suspended", "trailing")
    return {name: summary[name] for name in (*names, "clock_offset_seconds")}


# --- What a worker notes of itself, for doctor, dashboard and fleet -----------------------


class Notes:
    """``deployed``: see ``FusionService``."""

    def __init__(
        self,
        settings: FusionSettings,
        registry: Registry,
        store: Store,
        state: State,
        deployed: Callable[[], Deployed] | None,
    ) -> None:
        self._settings, self._registry, self._store, self._state = settings, registry, store, state
        self._deployed = deployed
        self._runs = None if deployed is None else deployed()
        self._planned: dict[str, Any] | None = None

    @property
    def is_outdated(self) -> bool:
        """Whether the site has other settings, mappings or certificates than at the start."""
        if self._deployed is None or self._runs is None:
            return False
        return not self._deployed().runs_as(self._runs)

    def write(self, messages: int, now: float) -> None:
        """Note how this worker is; ``messages``: how many are stored."""
        own = own_notes(self._state)
        if self._runs is not None:
            own["runs"] = {
                "name": self._settings.name,
                "mapping": self._runs.mapping,
                "certificate": self._runs.own,
            }
        values = own | {"messages": messages}
        if self._settings.group is not None:  # under common names each would hide the others' notes
            values[note_name(self._settings.name)] = own
        self._store.note(values, now)
        self._write_plan()

    def _write_plan(self) -> None:
        """Note, for `discreet fleet`, what a judgement needs besides what is stored."""
        deployed = None if self._deployed is None else self._deployed()
        plan = noted_plan(self._settings, self._registry.by_name, deployed)
        if plan != self._planned:
            self._store.plan(plan)
            self._planned = plan


# --- Drift from day to day ------------------------------------------------------------------

LEARNING, QUIET, ALARM = "learning", "quiet", "alarm"
UNSEEN = "Who causes the symbols does not show in their frequencies: labelled rows show it."
_DAY = timedelta(days=1)
_ANEW_AFTER = 30  # days after an alarm
_HEARD = 0.5  # share of the rounds of a day that every sensor must have been heard in
_AT_ONCE = 2  # days; the rest wait for the next look


class DailyDrift:
    """The watch of one site. The day on which it begins is not whole and does not count.

    ``symbols``: returns those of some rounds, rounds by sensors, negative where missing.
    """

    def __init__(
        self,
        file: Path,
        mapping: Mapping,
        clock: RoundClock,
        symbols: Callable[[int, int], NDArray[np.int64]],
    ) -> None:
        self._file, self._mapping, self._clock, self._symbols = file, mapping, clock, symbols

    def look(self, now: float) -> tuple[str, str]:
        """Watch the days that have ended since the last look; return the state and its words."""
        today = datetime.fromtimestamp(now, UTC).date()
        kept, watch = self._load(today)
        ended = 0 if watch.last is None else (today - watch.last).days - 1
        for _ in range(min(ended, _AT_ONCE)):
            assert watch.last is not None
            self._add(watch, watch.last + _DAY)
        try:
            if ended > 0 or not kept:
                write_whole(self._file, watch.model_dump_json())
        except InputError as error:  # the same days are looked at again then
            return LEARNING, str(error)
        return describe(watch)

    def _load(self, today: date) -> tuple[bool, DriftWatch]:
        """Return the watch, and whether it is the one that the file has."""
        try:
            watch = load_watch(self._file) if self._file.exists() else None
        except InputError:  # it promises nothing that would be lost with it
            watch = None
        if watch is not None and watch.mapping_id == self._mapping.id and (
            watch.alarmed is None or (today - watch.alarmed).days <= _ANEW_AFTER
        ):  # fmt: skip
            return True, watch
        watch = begin_watch(self._mapping.id)
        watch.last = today
        return False, watch

    def _add(self, watch: DriftWatch, day: date) -> None:
        midnight = datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
        first, after = (self._clock.number(midnight + k * 86_400) for k in (0, 1))
        Z = self._symbols(max(0, first), after - 1)
        counts = [
            np.bincount(column[column >= 0], minlength=size).tolist()
            for column, size in zip(Z.T, self._mapping.n_symbols, strict=True)
        ]
        if min(map(sum, counts)) >= _HEARD * max(1, after - first):
            watch.add(day, counts)
        else:
            watch.last = day


def describe(watch: DriftWatch) -> tuple[str, str]:
    """Return the state of a watch, and what it means."""
    if watch.alarmed is not None:
        words = (
            f"Since about {watch.alarmed} symbols are not as frequent as before. That is no proof "
            "of a leak, but the certificate is of another time: re-check it by labelled rows."
        )
        return ALARM, f"{words} {UNSEEN}"
    days = len(watch.reference)
    if days < REFERENCE_DAYS:
        words = f"{days} of {REFERENCE_DAYS} whole days have been seen to compare with."
        return LEARNING, f"{words} {UNSEEN}"
    return QUIET, f"The last {len(watch.scores)} days are like the {days} before. {UNSEEN}"
