"""The fusion centre judges its site as doctor and dashboard do, and checks its database."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from discreet.network.fusion.intake import Registry
from discreet.network.fusion.state import State
from discreet.network.fusion.upkeep import FusionSettings
from discreet.network.health import examine, lateness
from discreet.network.observed import Deployed, Plan, Stored, noted_plan
from discreet.network.store.connection import StoreError
from discreet.network.store.rows import (
    CLONED,
    COPIED,
    RESTORED,
    UNBOUNDED,
    StoredMessage,
    note_name,
)
from discreet.network.store.writing import Store

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
        self._standing: set[tuple[str, str]] = set()
        self._noticed: dict[str, float] = {}
        self._alarms: dict[tuple[str, str], str] = {}  # to be noted; without words, to be settled

    def begin(self) -> None:
        """Learn how far each device had come."""
        clients = self._store.clients()
        self._latest = {each.client: (each.boot, each.seq, each.spent) for each in clients}
        self.messages = sum(each.messages for each in clients)
        self._standing = {(each.client, each.kind) for each in self._store.alarms()}

    def notice(self, messages: Iterable[StoredMessage]) -> None:
        """Compare new messages with those before: what a device has spent never falls."""
        for each in {each.client: each for each in messages}.values():  # the last of each
            boot, seq, spent = self._latest.get(each.client, (-1, 0, 0))
            if (each.boot, each.seq) <= (boot, seq):
                continue
            self._latest[each.client] = each.boot, each.seq, max(spent, each.spent)
            if each.spent < spent:
                self.alarm(
                    each.client,
                    RESTORED,
                    f"it had spent {_nats(spent)}, and now reports {_nats(each.spent)}. What it "
                    "tells from here on is beyond its budget.",
                )
            elif (each.client, RESTORED) in self._standing:
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
        """Judge what is stored."""
        self._begin_check()
        self._note_alarms(now)
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
    names = ("queue", "lag_seconds", "shed", "parts", "suspended", "clock_offset_seconds")
    return {name: summary[name] for name in names}


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
