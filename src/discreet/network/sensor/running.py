"""The sensor at work: one message each round, whether or not there is a reading.

The message of a round is drawn and written at its end and sent at a fixed moment after, so that
neither the time it takes to read nor the reading shows in when it is sent.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from discreet.errors import InputError
from discreet.network.connecting import BrokerAddress
from discreet.network.sensor.courier import Courier
from discreet.network.sensor.outbox import MOST_MESSAGES, Outbox, OutboxError
from discreet.network.sensor.release import Readings, Releaser
from discreet.network.sensor.sources import Sources
from discreet.network.site.enrolment import Enrolment
from discreet.network.site.files import write_private
from discreet.network.site.settings import message_topic
from discreet.network.wire import WireError, decode

logger = logging.getLogger(__name__)

_SLOT = 0.25  # share of a round after its end at which its message is sent,
_LONGEST_SLOT = 0.2  # and most seconds


@dataclass(frozen=True)
class SensorTask:
    """What a sensor runs with.

    Attributes
    ----------
    enrolment : Enrolment
    folder : Path
        State that survives a reboot: outbox, ledgers, certificates.
    retry : float
        Seconds without an acknowledgement after which a message is sent again.
    drain : float
        Seconds to wait for acknowledgements after the last reading.
    most : int
        How many messages may wait in the outbox.
    """

    enrolment: Enrolment
    folder: Path
    retry: float = 2.0
    drain: float = 30.0
    most: int = MOST_MESSAGES


def run_sensor(task: SensorTask, sources: Sources, stop: threading.Event) -> int:
    """Send until told to stop or until the readings end; return how many messages wait.

    Raises
    ------
    InputError
        If the folder, a bundle or a certificate cannot be used.
    """
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
            _Schedule(task.enrolment, releaser, courier, sources).run(stop)
            _drain(outbox, task.drain, stop)
        finally:
            courier.close()
            releaser.close()
        return outbox.waiting


def _give_up_strange(enrolment: Enrolment, outbox: Outbox) -> None:
    """Give up messages from before an enrolment with another key, name or number of symbols.

    The fusion centre cannot tell whose they are, so that it would never acknowledge them; they
    would be sent for ever, and take the places of those that it can.
    """
    topic = message_topic(enrolment.site, enrolment.client).encode()
    key, symbols = bytes.fromhex(enrolment.mac_key), enrolment.batch * len(enrolment.sensors)

    def fits(payload: bytes) -> bool:
        try:
            decode(payload, symbols, key, topic)
        except WireError:
            return False
        return True

    try:
        count = outbox.keep_only(fits)
    except OutboxError as error:
        raise InputError(f"{error} Make room, or name another folder with --state.") from None
    if count:
        logger.warning("%d messages from before the last enrolment are given up", count)


def broker_address(enrolment: Enrolment, folder: Path) -> BrokerAddress:
    """Return where the broker is, with certificate and key in files that TLS can read."""
    broker = enrolment.broker
    if not broker.tls:
        return BrokerAddress(broker.host, broker.port, mqtt5=broker.mqtt == "5")
    files = {
        "ca.crt": enrolment.ca,
        "client.crt": enrolment.certificate,
        "client.key": enrolment.key,
    }
    for name, text in files.items():
        write_private(folder / name, text.encode())
    return BrokerAddress(
        broker.host,
        broker.port,
        ca=folder / "ca.crt",
        certificate=folder / "client.crt",
        key=folder / "client.key",
        mqtt5=broker.mqtt == "5",
    )


def _drain(outbox: Outbox, seconds: float, stop: threading.Event) -> None:
    end = time.monotonic() + seconds
    while outbox.waiting and time.monotonic() < end and not stop.is_set():
        time.sleep(0.05)


class _Schedule:
    """Rounds one after the other; a message when a batch of them is full."""

    def __init__(
        self, enrolment: Enrolment, releaser: Releaser, courier: Courier, sources: Sources
    ) -> None:
        self._epoch, self._interval = float(enrolment.epoch), enrolment.interval
        self._batch = enrolment.batch
        self._releaser, self._courier, self._sources = releaser, courier, sources
        self._slot = min(_SLOT * self._interval, _LONGEST_SLOT)
        self._found: dict[int, Readings] = {}
        self._problem = ""

    def _number(self) -> int:
        return int((time.time() - self._epoch) // self._interval)

    def _end(self, number: int) -> float:
        return self._epoch + (number + 1) * self._interval

    def run(self, stop: threading.Event) -> None:
        number = max(0, self._number())
        while not stop.is_set() and not self._sources.finished:
            if _wait_until(self._end(number) - self._sources.lead, stop):
                return
            self._found[number] = self._sources.take()
            first = number - number % self._batch
            if number + 1 == first + self._batch or self._sources.finished:
                _wait_until(self._end(number), stop)
                self._send(first, self._end(number) + self._slot, stop)
            following = max(number + 1, self._number())
            if following >= first + self._batch and self._found:
                self._send(first, 0.0, stop)  # the device slept through the end of the batch
            number = following

    def _send(self, first: int, at: float, stop: threading.Event) -> None:
        rounds = [self._found.get(first + i, {}) for i in range(self._batch)]
        self._found = {}
        try:
            message = self._courier.change(lambda: self._releaser.release(first, rounds))
        except OutboxError as error:
            if str(error) != self._problem:
                logger.warning("nothing can be sent now: %s", error)
            self._problem = str(error)
            return
        self._problem = ""
        _wait_until(at, stop)
        self._courier.dispatch(message)


def _wait_until(at: float, stop: threading.Event) -> bool:
    """Wait for a moment by the clock; return whether told to stop."""
    while (left := at - time.time()) > 0:
        if stop.wait(min(left, 60.0)):  # the clock may be set meanwhile
            return True
    return stop.is_set()
