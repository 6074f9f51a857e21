"""The sensor at work: one message each round, whether or not there is a reading.

The message of a round is drawn and written at its end and sent at a fixed moment after, so that
neither the time it takes to read nor the reading shows in when it is sent.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from discreet_sensor.connecting import BrokerAddress
from discreet_sensor.courier import Courier
from discreet_sensor.enrolment import Enrolment
from discreet_sensor.errors import InputError
from discreet_sensor.files import PRIVATE, write_whole
from discreet_sensor.outbox import MOST_MESSAGES, Outbox, OutboxError, PendingMessage
from discreet_sensor.parsing import problem_of, row_of
from discreet_sensor.runtime import SIGNED_AS, LedgerError, Sensor, SensorError, Table, verify
from discreet_sensor.sources import Sources
from discreet_sensor.wire import (
    Message,
    RoundClock,
    WireError,
    decode,
    encode,
    mapping_tag,
    message_topic,
)

logger = logging.getLogger(__name__)

# --- From readings to messages -------------------------------------------------------------


Readings = Mapping[str, object]


def check_bundles(enrolment: Enrolment) -> None:
    """Check that each bundle is signed, and of its sensor and the enrolment's mapping.

    Raises InputError: if one is not. Nothing is written before that is known.
    """
    key = bytes.fromhex(enrolment.public_key)
    for name, bundle in zip(enrolment.sensors, enrolment.bundle_bytes):
        body, signature = bundle[:-64], bundle[-64:]
        if len(bundle) <= 64 or not verify(key, signature, SIGNED_AS + body):
            raise InputError(
                f"the bundle for {name!r} is not signed with the key of the enrolment. Enrol again."
            )
        try:
            table = Table(body)
        except SensorError as error:
            raise InputError(str(error)) from None
        if table.name != name or table.mapping_id != enrolment.mapping:
            raise InputError(
                f"the bundle for {name!r} is of another sensor or mapping. Enrol again."
            )


class Releaser:
    """Draws the symbols of all sensors of a client and writes them to the outbox.

    ``folder``: holds the bundles and ledgers; never copied to another device. Raises InputError: if
    a bundle or a ledger cannot be used.
    """

    def __init__(self, enrolment: Enrolment, folder: Path, outbox: Outbox) -> None:
        self._enrolment, self._outbox = enrolment, outbox
        self._topic = message_topic(enrolment.site, enrolment.client)
        self._key = bytes.fromhex(enrolment.mac_key)
        self._tag = mapping_tag(enrolment.mapping)
        pairs = zip(enrolment.sensors, enrolment.bundle_bytes)
        self._problems: dict[str, str] = {}
        self._sensors = [self._open(folder, name, bundle) for name, bundle in pairs]
        if self.spent < enrolment.spent:
            self._spend(enrolment.spent)

    def _spend(self, floor: int) -> None:
        """Count what was told before the state of the device was lost: it stays told.

        Which of the sensors has told it is not known: all count it.
        """
        logger.warning(
            "the ledgers are behind what was released: going on from %.3g nats", floor / 1e6
        )
        try:
            for sensor in self._sensors:
                sensor.ledger.store(sensor.ledger.record._replace(spent=floor))
        except SensorError as error:
            raise InputError(str(error)) from None

    def _open(self, folder: Path, name: str, bundle: bytes) -> Sensor:
        stem = hashlib.sha256(name.encode()).hexdigest()[:16]
        file, note = folder / f"{stem}.bundle", f"ledger {stem}"
        write_whole(file, bundle, PRIVATE)
        try:
            sensor = Sensor(
                file,
                public_key=self._enrolment.public_key,
                ledger=folder / f"{stem}.ledger",
                make_new=not self._outbox.note(note),
                name=name,
                mapping_id=self._enrolment.mapping,
            )
            if not os.path.exists(sensor.ledger.path):
                sensor.ledger.store(sensor.ledger.record)
            self._outbox.set_note(note, 1)
        except (SensorError, OutboxError) as error:
            raise InputError(str(error)) from None
        return sensor

    @property
    def spent(self) -> int:
        """The most that any of the ledgers has counted, in millionths of a nat."""
        return max(sensor.spent for sensor in self._sensors)

    def release(self, number: int, rounds: Sequence[Readings]) -> PendingMessage:
        """Draw and store the message for some rounds.

        ``number``: the first of the rounds. ``rounds``: for each round, the readings by sensor; a
        sensor that is not named has none. Raises OutboxError: if nothing can be released now;
        nothing is sent then.
        """
        try:
            symbols = self._draw(rounds)
        except (LedgerError, SensorError) as error:
            raise OutboxError(str(error)) from None
        return self._outbox.append(
            number, len(rounds), lambda boot, seq: self._sealed(boot, seq, number, symbols)
        )

    def _draw(self, rounds: Sequence[Readings]) -> bytes:
        width = len(self._sensors)
        symbols = bytearray(width * len(rounds))
        for t, sensor in enumerate(self._sensors):
            found = [each.get(sensor.table.name) for each in rounds]
            rows = [row_of(sensor.table, value) for value in found]
            self._complain(sensor.table.name, problem_of(sensor.table, found[-1]))
            symbols[t::width] = bytes(sensor.release_rows(rows))
        return bytes(symbols)

    def _complain(self, name: str, problem: str) -> None:
        if problem and problem != self._problems.get(name):
            logger.warning("the reading of %s %s; it counts as missing", name, problem)
        self._problems[name] = problem

    def _sealed(self, boot: int, seq: int, number: int, symbols: bytes) -> bytes:
        message = Message(boot, seq, number, self.spent, symbols, self._tag)
        return encode(message, self._key, self._topic)

    def close(self) -> None:
        for sensor in self._sensors:
            sensor.close()


# --- The service ---------------------------------------------------------------------------


_SLOT = 0.25  # share of a round after its end at which its message is sent,
_LONGEST_SLOT = 0.2  # and most seconds
_BACK = 3  # rounds by which the clock may go back, and it is waited for
_LOOK = 10.0  # seconds between looks at the clock
_GLANCE = 0.5  # seconds between looks at a clock that is wrong
_ANSWERS = 5  # rounds in which the site may take what waits, while the clock is in doubt,
_OFFLINE = 600.0  # and seconds for a connection to it
_LAST_SECONDS = 5.0  # to deliver what waits, once stopped


@dataclass(frozen=True)
class SensorTask:
    """What a sensor runs with.

    ``folder``: state that survives a reboot: outbox, ledgers, certificates. ``retry``: seconds
    without an acknowledgement after which a message is sent again. ``drain``: seconds to wait for
    acknowledgements after the last reading. ``most``: how many messages may wait in the outbox.
    """

    enrolment: Enrolment
    folder: Path
    retry: float = 2.0
    drain: float = 30.0
    most: int = MOST_MESSAGES


def run_sensor(
    task: SensorTask,
    sources: Sources,
    stop: threading.Event,
    hurry: threading.Event | None = None,
) -> int:
    """Send until ``stop`` is set or the readings end; return how many messages wait.

    What waits is delivered before the end, for some seconds, unless ``hurry`` is set.

    Raises InputError: if the folder, a bundle or a certificate cannot be used.
    """
    check_bundles(task.enrolment)
    with Outbox(task.folder, task.enrolment.boot, task.most) as outbox:
        _give_up_strange(task.enrolment, outbox)
        releaser = Releaser(task.enrolment, task.folder, outbox)
        courier = Courier(
            broker_address(task.enrolment, task.folder),
            task.enrolment.site,
            task.enrolment.client,
            bytes.fromhex(task.enrolment.mac_key),
            outbox,
            retry=task.retry,
        )
        courier.start()
        try:
            _Schedule(task.enrolment, releaser, outbox, courier, sources).run(stop)
            _drain(outbox, task.drain, stop, hurry or threading.Event())
        finally:
            courier.close()
            releaser.close()
        return outbox.waiting


def _give_up_strange(enrolment: Enrolment, outbox: Outbox) -> None:
    """Give up messages from before an enrolment with another key, name or number of symbols.

    Those under the key that was renewed stay: the fusion centre knows it for a while.
    The fusion centre cannot authenticate them and would never acknowledge them; they
    would be sent for ever, and take the places of those that it can.
    """
    topic = message_topic(enrolment.site, enrolment.client).encode()
    symbols = enrolment.batch * len(enrolment.sensors)
    known = [enrolment.mac_key, *([enrolment.previous_key] if enrolment.previous_key else [])]

    def fits(payload: bytes) -> bool:
        for key in known:
            with suppress(WireError):
                decode(payload, symbols, bytes.fromhex(key), topic)
                return True
        return False

    try:
        count = outbox.keep_only(fits)
    except OutboxError as error:
        raise InputError(f"{error} Make room, or name another folder with --state.") from None
    if count:
        logger.warning("%d messages from before the last enrolment are given up", count)


def broker_address(enrolment: Enrolment, folder: Path) -> BrokerAddress:
    """Return where the broker is, with certificate and key in files that TLS can read."""
    texts = {
        folder / "ca.crt": enrolment.ca,
        folder / "client.crt": enrolment.certificate,
        folder / "client.key": enrolment.key,
    }
    for file, text in texts.items() if enrolment.broker.tls else ():
        write_whole(file, text, PRIVATE)
    return BrokerAddress.of(enrolment.broker, *texts)


def _drain(outbox: Outbox, seconds: float, stop: threading.Event, hurry: threading.Event) -> None:
    end, stopped = time.monotonic() + seconds, False
    while outbox.waiting and time.monotonic() < end and not hurry.is_set():
        if stop.is_set() and not stopped:
            end, stopped = min(end, time.monotonic() + _LAST_SECONDS), True
        time.sleep(0.05)


class _Schedule:
    """Rounds one after the other; a message when a batch of them is full."""

    def __init__(
        self,
        enrolment: Enrolment,
        releaser: Releaser,
        outbox: Outbox,
        courier: Courier,
        sources: Sources,
    ) -> None:
        self._clock, self._batch = RoundClock(enrolment.epoch, enrolment.interval), enrolment.batch
        self._releaser, self._outbox = releaser, outbox
        self._courier, self._sources = courier, sources
        self._client = enrolment.client
        self._slot = min(_SLOT * enrolment.interval, _LONGEST_SLOT)
        self._found: dict[int, Readings] = {}
        self._problem = ""

    def run(self, stop: threading.Event) -> None:
        self._await_time(stop)
        number = self._present()
        while not stop.is_set() and not self._sources.finished:
            if self._courier.stopped:
                raise InputError(
                    f"another device sends as {self._client!r}, and was there before this one. "
                    "Stop one of them. If the other is not yours, give this one a new file: "
                    f"discreet enroll {self._client} --renew."
                )
            self._await_time(stop)
            number = self._follow_clock(number, stop)
            if not self._wait_until(self._clock.end(number) - self._sources.lead, stop):
                continue
            self._found[number] = self._sources.take()
            first = number - number % self._batch
            if number + 1 == first + self._batch or self._sources.finished:
                self._wait_until(self._clock.end(number), stop)
                self._send(first, self._clock.end(number) + self._slot, stop)
            following = max(number + 1, self._present())
            if following >= first + self._batch and self._found:
                self._send(first, 0.0, stop)  # the device was suspended at the end of the batch
            number = following

    def _present(self) -> int:
        return max(0, self._clock.number(time.time()))

    def _await_time(self, stop: threading.Event) -> None:
        """Wait while the clock shows a time before the site was made: it is not set yet."""
        if self._clock.number(time.time()) >= 0:
            return
        logger.warning("the clock is not set: it shows a time before the site was made")
        while self._clock.number(time.time()) < 0 and not stop.wait(_GLANCE):
            pass

    def _ahead(self, number: int) -> int:
        """Return how many rounds the messages so far are ahead of the clock."""
        return max(number, self._outbox.last_round + 1) - self._present()

    def _follow_clock(self, number: int, stop: threading.Event) -> int:
        """Return the round to wait for; an earlier one if the clock was ahead and no longer is."""
        most = self._batch + _BACK
        if self._ahead(number) > most:
            self._found = {}
            self._await_answers(number, stop)
            number = max(number, self._present())
        if stop.is_set() or self._ahead(number) <= most:
            return max(number, self._outbox.last_round + 1)
        return self._turn_back(self._ahead(number))

    def _await_answers(self, number: int, stop: threading.Event) -> None:
        """Keep what waits for later rounds until the clock, or the site, shows what is wrong.

        The clock of a machine that has just started may be behind: then the site takes what waits.
        It does not if the clock was ahead before.
        """
        left, end = _ANSWERS * self._clock.interval, time.monotonic() + _OFFLINE
        pause = min(_GLANCE, self._clock.interval)
        while left > 0 and time.monotonic() < end and not stop.wait(pause):
            waiting = self._courier.waits_from(self._present())
            if not waiting or self._ahead(number) <= self._batch + _BACK:
                return
            left -= pause if self._courier.up else 0.0

    def _turn_back(self, ahead: int) -> int:
        present = self._present()
        try:
            given_up = self._courier.turn_back(present)
        except OutboxError as error:
            self._complain(error)
        else:
            logger.warning(
                "the clock went back by %.0f s: going on with round %d; %d messages for later "
                "rounds are given up",
                ahead * self._clock.interval, present, given_up,
            )  # fmt: skip
        return present

    def _send(self, first: int, at: float, stop: threading.Event) -> None:
        rounds = [self._found.get(first + i, {}) for i in range(self._batch)]
        self._found = {}
        if self._courier.stopped or first <= self._outbox.last_round:
            return  # or the clock went back into a batch, which may have a message
        try:
            message = self._courier.change(lambda: self._releaser.release(first, rounds))
        except OutboxError as error:
            self._complain(error)
            return
        self._problem = ""
        self._wait_until(at, stop)
        self._courier.dispatch(message)

    def _complain(self, error: OutboxError) -> None:
        if str(error) != self._problem:
            logger.warning("nothing can be sent now: %s", error)
        self._problem = str(error)

    def _wait_until(self, at: float, stop: threading.Event) -> bool:
        """Wait for a moment by the clock; return whether it came before a stop or a set-back."""
        longest = (self._batch + _BACK + 1) * self._clock.interval
        while 0 < (left := at - time.time()) <= longest:
            if stop.wait(min(left, _LOOK)):  # the clock may be set meanwhile
                return False
        return left <= 0 and not stop.is_set()
