"""The fusion centre at work: accept, commit, acknowledge, close rounds.

Two threads share the work. One keeps the connection to the broker and checks what arrives; the
other owns the database. A message is acknowledged, to the broker and to its sensor, after the
commit that holds it and never before. While the database cannot be used nothing is acknowledged,
so that the broker delivers no more than the receive maximum and the rest waits there or in the
sensors' outboxes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from discreet.auditing.recheck import BROKEN, DUE, NONE, VALID
from discreet.mapping.mapping import Mapping
from discreet.network.fusion.closing import Closer, Herald
from discreet.network.fusion.conduct import (
    ALONE,
    LOST,
    MOST_WAITING,
    Conduct,
    Contest,
    Turns,
    noticed,
)
from discreet.network.fusion.intake import Hearing, Intake, Registry, answers
from discreet.network.fusion.link import Link, Ticket
from discreet.network.fusion.state import FusionSettings, State
from discreet.network.fusion.timekeeping import Timekeeper, Upkeep
from discreet.network.fusion.watching import ALARM, DailyDrift, Notes, Watch
from discreet.network.observed import Deployed
from discreet.network.store.database import StoreError
from discreet.network.store.rows import REPLACED, Batch, Decision, Outcome
from discreet.network.store.writing import Store
from discreet_sensor.connecting import Backoff
from discreet_sensor.wire import BROKER_NOTICES, DROPPED

if TYPE_CHECKING:
    from discreet.network.dashboard.guarantee import Guarantee

# --- The store, tried again -----------------------------------------------------------------

logger = logging.getLogger(__name__)

_LENIENT = 20.0  # seconds

_T = TypeVar("_T")


class StoreAccess:
    """``stop``: ends every wait."""

    def __init__(
        self,
        store: Store,
        state: State,
        closer: Closer,
        conduct: Conduct,
        watch: Watch,
        stop: threading.Event,
    ) -> None:
        self._store, self._state, self._closer = store, state, closer
        self._conduct, self._watch, self._stop = conduct, watch, stop
        self._replaced = ""

    def persist(self, work: Callable[[], _T]) -> _T | None:
        """Retry something with the store until it works; None if stopped before."""
        backoff = Backoff(0.1, 2.0)
        while True:
            try:
                if self._replaced:  # and perhaps there are no tables in it
                    self._store.prepare()
                    self._replaced = ""
                outcome = work()
            except StoreError as error:
                self.report(error)
                if self._stop.wait(backoff.wait()):
                    return None
            else:
                self.report(None)
                return outcome

    def attempt(self, work: Callable[[], None]) -> None:
        """Try something with the store; it will be due again."""
        if self._replaced:
            self.persist(self._store.prepare)
        try:
            work()
        except StoreError as error:
            self.report(error)
            self._stop.wait(0.2)

    def report(self, error: StoreError | None) -> None:
        """Note whether the store can be used."""
        state, problem = ("here", "") if error is None else (error.state, str(error))
        self._state.put(database_up=int(error is None))
        if error is not None:
            self._closer.pause()  # another worker may lead meanwhile
            if error.state == REPLACED:
                self._replaced = str(error)
                self._watch.alarm("", REPLACED, str(error))
            self._conduct.be_lenient(_LENIENT)  # what is not acknowledged is sent again
        if self._state.turn("database", state, problem):
            if error is None:
                logger.info("the database can be used")
            else:
                logger.warning("%s Nothing is acknowledged until it is back.", error)


# --- The service ----------------------------------------------------------------------------

_GATHER = 0.005  # seconds to wait for more before a commit
_LEAST_PACE, _LONGEST_PACE = 0.05, 1.0  # seconds between looks
_NOTE_EVERY, _NOTE_AT_LEAST = 2.0, 10.0  # seconds, by the length of a round
_LOOK_EVERY = 0.25  # seconds, for changes of the clients
_SUSPENDED_AFTER = 5.0  # seconds between polls: the machine was suspended, or overloaded
_LONGEST_WAIT = 3600.0  # seconds; the time was set back
_FLOOR_EVERY = 60.0  # seconds; whoever leads raises it
_STANDING_EVERY = 60.0  # seconds
_LAST_COMMITS = 10  # once stopped, however much still comes
_CERTIFICATE = {NONE: "not re-checked", VALID: "valid", DUE: "due", BROKEN: "broken"}


class FusionService:
    """A worker of the fusion centre.

    ``on_decision``: called with each decision, from the thread of the database. ``guarantee``: is
    called now and then for what the site promises today. ``drift``: where days of symbols are
    watched, if they are. ``timekeeper``: knows the time. ``check``: returns what is
    wrong with the database. ``deployed``: returns what the files of the site hold now; if that is
    no longer what this worker runs, it ends in order and is ``outdated``. ``earlier``: mappings
    that some devices may still send by.
    """

    def __init__(
        self,
        settings: FusionSettings,
        mapping: Mapping,
        registry: Registry,
        store: Store,
        on_decision: Callable[[Decision], None] | None = None,
        guarantee: Callable[[], Guarantee] | None = None,
        drift: Path | None = None,
        timekeeper: Timekeeper | None = None,
        check: Callable[[], str] | None = None,
        deployed: Callable[[], Deployed] | None = None,
        earlier: Sequence[Mapping] = (),
    ) -> None:
        self._mapping = mapping
        self.outdated = False
        self._registry, self._store = registry, store
        self._time = timekeeper or Timekeeper(settings.clock)
        self._closer = Closer(store, mapping, registry, settings.clock, self._time.now(), earlier)
        self.state = State()
        self.state.put(expected=len(mapping.sensors))
        self.state.turn("broker", "away", "it has not answered yet")
        self._conduct = Conduct(time.monotonic)
        self._hearing = Hearing(registry, self._conduct, self.state, settings.group)
        self._intake = Intake(
            registry,
            settings.clock,
            lambda: self._closer.closed,
            self._time.heard,
            self._conduct,
        )
        self._link = Link(
            settings.broker,
            settings.name,
            self._hearing.subscriptions(),
            self._arrived,
            self._turned,
            settings.receive_maximum,
            self._cut,
        )
        self._herald = Herald(settings, mapping, self._link, self.state, on_decision)
        self._guarantee = guarantee
        self._drift = None if drift is None else DailyDrift(
            drift, mapping, settings.clock, self._closer.symbols
        )  # fmt: skip
        self._waiting = Turns()
        self._something = threading.Event()
        self._stop, self._ended = threading.Event(), threading.Event()
        self._failure: BaseException | None = None
        self._dropped_before: int | None = None
        self._complained: str | None = None
        self._looked = self._time.now()
        self._contest = Contest(settings.site, settings.probation)
        self._done: dict[str, float] = {}  # when each thing was done last
        self._forget_at = 0.0
        # Long rounds need no haste: many sites may share a machine.
        self._pace = min(_LONGEST_PACE, max(_LEAST_PACE, settings.interval / 60))
        self._note_every = min(_NOTE_AT_LEAST, max(_NOTE_EVERY, settings.interval / 6))
        self._next_look = 0.0
        self._upkeep = Upkeep(settings, registry, store, self._closer, self._time, self.state)
        self._notes = Notes(settings, registry, store, self.state, deployed)
        self._watch = Watch(settings, registry, store, self.state, check, deployed)
        self._access = StoreAccess(
            store, self.state, self._closer, self._conduct, self._watch, self._stop
        )

    @property
    def about(self) -> str:
        """How large the site is, in words."""
        return f"{len(self._mapping.sensors)} sensors, {len(self._registry.by_name)} clients"

    def run(self) -> None:
        """Work until ``stop`` is called; what has arrived by then is still committed."""
        keeper = threading.Thread(target=self._keep_or_end, name="database")
        keeper.start()
        try:
            self.connect()
        finally:
            self._stop.set()
            self._something.set()
            keeper.join()
        self.close()

    def connect(self) -> None:
        """Keep the connection to the broker, until the thread of the database has ended."""
        self._link.run(self._ended)

    def stop(self) -> None:
        """Have ``run`` end; once is enough."""
        if not self._stop.is_set():
            self._stop.set()
            self._something.set()
            self._link.wake()

    # -- in the thread of the connection --

    def _arrived(self, topic: str, payload: bytes, ticket: Ticket) -> None:
        message = None
        if topic == DROPPED:
            self._note_dropped(payload)
        elif topic == BROKER_NOTICES:
            self._note_noticed(payload)
        elif ticket[1]:
            message = self._intake.take(topic, payload, *self._time.times())
        else:
            # QoS 0 has no back-pressure; discreet's sensors do not use it.
            self._intake.refuse(topic, payload, "qos", self._time.now())
        if self._waiting.put(ticket, message) > MOST_WAITING and message is not None:
            self._conduct.charge(message.client, "crowd")
        if self._hearing.changed:
            self._link.follow(self._hearing.subscriptions())
        if not self._something.is_set():
            self._something.set()

    def _note_dropped(self, payload: bytes) -> None:
        if not payload.isdigit() or len(payload) > 18:
            return
        total, before = int(payload), self._dropped_before
        self._dropped_before = total
        if before is not None:
            # A restarted broker counts from 0.
            self.state.add(shed=total - before if total >= before else total)

    def _note_noticed(self, payload: bytes) -> None:
        found = noticed(payload)
        if found is not None and found[0] in self._registry.by_name:
            self._conduct.charge(*found)

    def _turned(self, up: bool, problem: str) -> None:
        self.state.put(broker_up=int(up))
        if self.state.turn("broker", "here" if up else "away", problem):
            self._done.pop("note", None)  # so that all are told at once
        if up:
            self._herald.greet(self._time.now())

    def _cut(self) -> None:
        verdict = self._contest.cut()
        if verdict != ALONE:
            self._watch.notice_copy()
        if verdict == LOST:
            self._failure = self._contest.reason
            self.stop()

    # -- for whoever runs many of them, see hosting.py: in one thread for the database --

    @property
    def store(self) -> Store:
        return self._store

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def begin(self, something: threading.Event) -> None:
        """Prepare; ``something``: is set when there is work."""
        self._something = something
        self._access.persist(self._begin)

    def turn(self) -> None:
        """Do what there is to do now; a failure ends this worker."""
        try:
            self._turn()
        except Exception as failure:
            self._failure = failure
            self.stop()

    def finish(self) -> None:
        """Commit what has arrived, and let the connection end."""
        try:
            self._finish()
        finally:
            self._stop.set()
            self._ended.set()
            self._link.wake()

    def close(self, shared: bool = False) -> None:
        """Free everything; ``shared``: but the connection to the database.

        Raises BaseException: what the worker has failed for.
        """
        self._link.close()
        if not shared:
            self._store.close()
        if self._failure is not None:
            raise self._failure

    # -- in the thread of the database --

    def _keep_or_end(self) -> None:
        # Without this thread nothing would be stored, and no state would show it.
        try:
            self._keep()
        except BaseException as failure:
            self._failure = failure
        finally:  # what was committed last has been handed over by now
            self._stop.set()
            self._ended.set()
            self._link.wake()

    def _keep(self) -> None:
        self._access.persist(self._begin)
        while not self._stop.is_set():
            if self._something.wait(_LEAST_PACE):
                time.sleep(_GATHER)
                self._something.clear()
            self._turn()
        self._finish()

    def _turn(self) -> None:
        """Do what there is to do now."""
        if self._contest.on_probation:
            self._contest.settle(self._link.up, lambda: self._access.persist(self._store.settle_in))
            self._access.attempt(self._introduce)
            return
        self._commit_all()
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + self._pace
            self._access.attempt(self._look_after)
        if len(self._waiting):
            self._something.set()

    def _finish(self) -> None:
        for _ in range(0 if self._contest.on_probation else _LAST_COMMITS):
            if not self._commit_all() or not len(self._waiting):
                break

    def _begin(self) -> None:
        self._store.prepare()
        self._contest.begin(self._store.is_at_home)
        self._upkeep.begin()
        self._watch.begin()
        self._looked = self._time.now()

    def _commit_all(self) -> bool:
        """Commit and acknowledge what waits; return whether the store took it."""
        # What arrives meanwhile stays for the next commit, and so does more than a device's share.
        tickets, messages = self._waiting.take()
        aside, rejected = self._intake.drain()
        if not tickets and not aside.refusals:
            return True
        batch = Batch(messages, aside.refusals, aside.quarantine, self._time.now())
        self.state.put(queue=len(messages))
        outcome = self._access.persist(lambda: self._store.commit(batch))
        if outcome is None:
            return False
        self._acknowledge(batch, outcome, tickets, rejected)
        return True

    def _acknowledge(
        self,
        batch: Batch,
        outcome: Outcome,
        tickets: list[Ticket],
        rejected: list[tuple[str, int, int]],
    ) -> None:
        clones = self._intake.clones
        self._link.send(tickets, list(answers(self._registry, batch, outcome, rejected, clones)))
        self._count(batch, outcome)

    def _count(self, batch: Batch, outcome: Outcome) -> None:
        known = outcome.repeated | outcome.refused
        fresh = batch.messages
        if known:
            fresh = [each for i, each in enumerate(batch.messages) if i not in known]
        self._watch.notice(fresh)
        twice = {batch.messages[place].client for place in outcome.conflicting}
        for client in twice | {name for name, reason in batch.refusals if reason == "clone"}:
            self._watch.notice_clone(client)
        reasons: Counter[str] = Counter()
        for (_, reason), count in batch.refusals.items():
            reasons[reason] += count
        for (client, reason), count in outcome.reasons(batch.messages).items():
            reasons[reason] += count
            self._conduct.charge(client, reason, count)
        self.state.refuse(reasons)
        symbols = sum([len(each.symbols) for each in fresh])
        self.state.add(messages=len(fresh), readings=symbols, commits=1)
        if batch.messages:
            now = self._time.now()
            received = sum([each.received for each in batch.messages]) / len(batch.messages)
            self.state.put(lag_seconds=now - received)

    def _look_after(self) -> None:
        self._upkeep.keep_time()
        now = self._time.now()
        if now - self._looked > _SUSPENDED_AFTER:
            self._closer.wait(now)
        self._looked = now
        if self._is_due("look", now, _LOOK_EVERY):
            if self._registry.refresh():
                logger.info("the clients have changed: %d known", len(self._registry.by_name))
                self._link.follow(self._hearing.subscriptions())
            problem = self._registry.problem
            if problem not in (None, self._complained):
                logger.warning("%s", problem)
            self._complained = problem
            if self._notes.is_outdated:
                logger.info("the site has changed: starting again with what it has now")
                self.outdated = True
                self.stop()
            self.state.turn("clients", "damaged" if problem else "known", problem or "")
            self._take_turns(now)
        self._conduct.release()
        if self._hearing.changed:
            self._link.follow(self._hearing.subscriptions())
        self._hearing.tell()
        if self._closer.due(now):  # after a long absence it takes several turns
            self._herald.announce(self._closer.close(now, self._time.unsure))
        if self._guarantee is not None and self._is_due("guarantee", now, _STANDING_EVERY):
            self._show(self._guarantee())
            self._watch_drift(now)
        if self._is_due("note", now, self._note_every):
            self._note(now)
        if now >= self._forget_at or now < self._forget_at - _LONGEST_WAIT:
            self._forget_at = now + self._upkeep.forget(now)
            self._done.pop("floor", None)
        self._access.report(None)

    def _is_due(self, what: str, now: float, every: float) -> bool:
        last = self._done.get(what)  # the connection's thread may take it away meanwhile
        due = last is None or not 0 <= now - last < every
        if due:
            self._done[what] = now
        return due

    def _show(self, guarantee: Guarantee) -> None:
        found = guarantee.standing
        self.state.promise(guarantee.certificate, found.state == VALID)
        if self.state.turn("certificate", found.state, found.words):
            level = logging.INFO if found.state == VALID else logging.WARNING
            logger.log(level, "the certificate is %s. %s", _CERTIFICATE[found.state], found.words)

    def _watch_drift(self, now: float) -> None:
        if self._drift is None or not self._closer.leads:
            return
        state, words = self._drift.look(now)
        if self.state.turn("symbols by day", state, words) and state == ALARM:
            logger.warning("%s", words)

    def _take_turns(self, now: float) -> None:
        if self._store.lead():
            self._closer.lead(now)
        else:
            self._closer.follow(now)
        if not self._closer.leads or self._is_due("floor", now, _FLOOR_EVERY):
            self._intake.floor = self._store.floor()

    def _introduce(self) -> None:
        """Note that this worker is there, and whether it has a broker, on probation as well."""
        now = self._time.now()
        if self._is_due("note", now, self._note_every):
            self._notes.write(self._watch.messages, now)
            self._watch.judge(now)
            self._access.report(None)

    def _note(self, now: float) -> None:
        self.state.put(queue=len(self._waiting))
        self._notes.write(self._watch.messages, now)
        if self._closer.leads:
            self._store.see(self._time.seen())
        self._watch.look(now)
