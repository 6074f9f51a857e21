"""Carry messages from the outbox to the broker until the fusion centre acknowledges them."""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from paho.mqtt.client import Client, MQTTMessage

from discreet_sensor.connecting import KEEPALIVE, Backoff, BrokerAddress, make_client
from discreet_sensor.errors import InputError
from discreet_sensor.outbox import Outbox, OutboxError, PendingMessage
from discreet_sensor.wire import (
    STOPPED,
    STORED,
    WINDOW,
    WireError,
    ack_topic,
    decode_acknowledgement,
    message_topic,
)

logger = logging.getLogger(__name__)

_PATIENCE = 20.0  # seconds for the broker to accept a connection
_STUCK = 10.0  # seconds without an answer from the broker while one is due
_NEVER = float("inf")
_THIN_LINEAR_TIMEOUTS = 16  # of Linux, see tcp(7); the module socket does not name it


class _Flight:
    """A message under way, and when to send it: never while the connection itself carries it."""

    def __init__(self, message: PendingMessage, first: float) -> None:
        self.message, self.due, self.pause = message, 0.0, Backoff(first, 30 * first)


class Courier:
    """A thread that keeps a connection and sends what waits, oldest first, in a window.

    ``key``: of the MACs. ``retry``: seconds without an acknowledgement after which a message is
    sent again; doubled each time. ``up``: whether the broker is there. ``refused``: how many
    messages the fusion centre has refused since the start. ``stopped``: whether it refuses this
    device for good, because another one sends with its name.
    """

    def __init__(
        self,
        address: BrokerAddress,
        site: str,
        client: str,
        key: bytes,
        outbox: Outbox,
        *,
        retry: float = 2.0,
    ) -> None:
        self._address, self._outbox, self._key, self._retry = address, outbox, key, retry
        self._topic, self._ack_topic = message_topic(site, client), ack_topic(site, client)
        self._name = client
        self._client = self._new_client()
        self._flights: dict[tuple[int, int], _Flight] = {}
        self._loaded = self._allowed = (-1, -1)
        self._alone = threading.RLock()  # guards the outbox and the flights
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._carry, name="courier", daemon=True)
        self.up = False
        self.refused, self.stopped = 0, False
        self._problem = ""
        self._dead, self._give_up_at = False, 0.0
        self._on_the_line: dict[int, _Flight] = {}
        self._taken: deque[int] = deque()  # numbers of messages that the broker has
        self._last_answer = 0.0

    def _new_client(self) -> Client:
        client = make_client(self._address, self._name, Client)
        client.on_connect = self._connected
        client.on_message = self._heard
        client.on_disconnect = self._lost
        client.on_publish = self._published
        client.on_socket_open = _hurry
        return client

    def start(self) -> None:
        """Begin with what waits from earlier starts."""
        self._allowed = (self._outbox.boot, -1)
        self._thread.start()

    def change(self, work: Callable[[], PendingMessage]) -> PendingMessage:
        """Run something that writes to the outbox while nothing else does."""
        with self._alone:
            return work()

    def waits_from(self, number: int) -> bool:
        """Whether a message for some round, or for a later one, is not acknowledged."""
        with self._alone:
            return self._outbox.waits_from(number)

    def turn_back(self, number: int) -> int:
        """Have the outbox go on with an earlier round; what it gives up is not sent again."""
        with self._alone:
            given_up = self._outbox.turn_back(number)
            self._flights = {
                key: each for key, each in self._flights.items() if each.message.round < number
            }
        return given_up

    def dispatch(self, message: PendingMessage) -> None:
        """Send everything up to a message, now."""
        self._allowed = message[:2]
        self._wake.set()

    def close(self) -> None:
        self._stop.set()
        self._wake.set()
        self._thread.join()

    # -- in the courier's thread --

    def _carry(self) -> None:
        backoff = Backoff(0.2, 10.0)
        while not self._stop.is_set():
            if self._connect():
                self._client.loop_start()
                while not self._stop.is_set() and self._send_due():
                    self._wake.wait(0.1)
                    self._wake.clear()
                    if self.up:
                        backoff.reset()
                self._client.on_disconnect = None  # a disconnection of our own needs no message
                self._client.disconnect()
                self._client.loop_stop()
                self.up = False
            self._stop.wait(backoff.wait())

    def _connect(self) -> bool:
        self._dead, self._give_up_at = False, time.monotonic() + _PATIENCE
        self._on_the_line.clear()
        self._taken.clear()
        options: dict[str, Any] = {"clean_start": True} if self._address.mqtt5 else {}
        try:
            # A new one each time: the library would keep what it has not delivered, and send it
            # twice.
            self._client = self._new_client()
            self._client.connect(
                self._address.host, self._address.port, keepalive=KEEPALIVE, **options
            )
        except InputError as error:  # the certificates; this thread has to outlive anything
            self._note(str(error))
            return False
        except (OSError, ValueError) as error:
            self._note(f"the broker does not answer ({error})")
            return False
        return True

    def _send_due(self) -> bool:
        """Send what is due; return whether the connection is still worth keeping."""
        if not self.up:
            return not self._dead and time.monotonic() < self._give_up_at
        now = time.monotonic()
        self._note_taken(now)
        if self.stopped:
            return True
        with self._alone:
            try:
                self._load()
            except OutboxError as error:
                self._complain(str(error))
            due = [each for each in self._flights.values() if each.due <= now]
        for flight in due:
            # TCP retransmits what is lost; a second copy would only slow it down.
            flight.due = _NEVER
            sent = self._client.publish(self._topic, flight.message.payload, qos=1)
            if not self._on_the_line:
                self._last_answer = now  # from now on an answer is due
            self._on_the_line[sent.mid] = flight
        if self._on_the_line and now > self._last_answer + _STUCK:
            self._note("the broker no longer answers")
            return False
        return True

    def _note_taken(self, now: float) -> None:
        """Have what the broker took sent again if the fusion centre stays silent about it."""
        while self._taken:
            flight = self._on_the_line.pop(self._taken.popleft(), None)
            if flight is not None:
                flight.due = now + flight.pause.wait()

    def _load(self) -> None:
        """Put messages under way while there is room; never one before its time."""
        room = WINDOW - len(self._flights)
        if room <= 0 or self._loaded >= self._allowed:
            return
        for message in self._outbox.after(*self._loaded, room):
            if message[:2] > self._allowed:
                return
            self._loaded = message[:2]
            self._flights[message[:2]] = _Flight(message, self._retry)

    # -- in the thread of the MQTT library --

    def _connected(self, client: Client, _: Any, __: Any, reason: Any, ___: Any) -> None:
        if reason.is_failure:
            self._note(f"the broker refuses the connection ({reason})")
            self._dead = True
            return
        client.subscribe(self._ack_topic, qos=0)
        with self._alone:
            for flight in self._flights.values():
                flight.due = 0.0
        self.up, self._problem = True, ""
        logger.info("connected to the broker")
        self._wake.set()

    def _published(self, _: Client, __: Any, number: int, ___: Any, ____: Any) -> None:
        # The library holds a lock here that publishing needs: no lock of ours may be taken.
        self._last_answer = time.monotonic()
        self._taken.append(number)
        self._wake.set()

    def _lost(self, _: Client, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        self._dead = True
        if self._stop.is_set():
            return
        if self.up:
            self._note(f"the connection to the broker is lost ({reason})")
        else:  # with TLS 1.3 a certificate is refused by closing the connection
            self._note(
                f"the broker hangs up on us ({reason}): was this device revoked, or given a newer "
                "file?"
            )

    def _heard(self, _: Client, __: Any, message: MQTTMessage) -> None:
        self._last_answer = time.monotonic()
        try:
            entries = decode_acknowledgement(bytes(message.payload), self._key, self._ack_topic)
        except WireError:
            logger.warning("an acknowledgement that is not for us was ignored")
            return
        with self._alone:
            try:
                self._outbox.acknowledge(each for each in entries if each.status == STORED)
                refused = [each for each in entries if each.status != STORED]
                count = self._outbox.acknowledge(refused) if refused else 0
            except OutboxError as error:
                logger.warning("%s It will be acknowledged again.", error)
                return
            for key in [key for key in self._flights if _covers(entries, key)]:
                del self._flights[key]
        self.stopped |= any(
            each.status == STOPPED and each.boot == self._outbox.boot for each in entries
        )
        if count:
            self.refused += count
            logger.warning("the fusion centre refused %d messages; enrol again?", count)
        self._wake.set()

    def _note(self, problem: str) -> None:
        self.up = False
        self._complain(problem)

    def _complain(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            logger.warning("%s; trying again", problem.rstrip("."))


def _hurry(_: Client, __: Any, line: Any) -> None:
    """Have Linux repeat lost packets at a steady pace: they are too few to cause congestion."""
    if sys.platform == "linux":
        with suppress(OSError):
            line.setsockopt(socket.IPPROTO_TCP, _THIN_LINEAR_TIMEOUTS, 1)


def _covers(entries: Any, key: tuple[int, int]) -> bool:
    boot, seq = key
    return any(
        each.boot == boot and each.first <= seq < each.first + each.length for each in entries
    )
