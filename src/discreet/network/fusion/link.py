"""The fusion centre's connection to the broker, in a loop of its own.

Everything that touches the connection happens in the thread that runs the loop. Messages are
acknowledged on request and not before; as many as the receive maximum may be unacknowledged, and
then the broker holds the rest: that is the back-pressure. Mosquitto 2.0.11 sends on beyond it when
much is acknowledged at a time, and so nothing is read while more is held than was asked for.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from paho.mqtt.client import Client
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from discreet.network.fusion.stream import Stream, StreamingClient, acknowledgement, message_packet
from discreet_sensor.connecting import KEEPALIVE, Backoff, BrokerAddress, make_client

logger = logging.getLogger(__name__)

_SHORT = 2.0  # seconds
_QOS = 1
_TOPICS = 50  # in one packet, which the broker limits

Ticket = tuple[int, int]
"""Names a message that waits for its acknowledgement: the connection it came by, and its number."""


class Link:
    """A connection that is made again whenever it is lost.

    ``name``: of the client, as in its certificate. ``subscriptions``: what to read; ``follow``
    changes them. ``on_message``: called with topic, payload and ticket; must not block.
    ``on_turn``: called with whether a connection stands, and else with what is wrong, when that
    changes. ``receive_maximum``: how many messages may wait for their acknowledgement. ``on_cut``:
    called when a connection is lost right after it was made.
    """

    def __init__(
        self,
        address: BrokerAddress,
        name: str,
        subscriptions: Iterable[str],
        on_message: Callable[[str, bytes, Ticket], None],
        on_turn: Callable[[bool, str], None],
        receive_maximum: int,
        on_cut: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_cut, self._since = on_cut, 0.0
        self._address, self._wanted = address, frozenset(subscriptions)
        self._on_message, self._on_turn = on_message, on_turn
        self._receive_maximum = receive_maximum
        self._client = make_client(address, name, StreamingClient)
        self._client.on_packet = self._arrived
        self._client.on_connect = self._connected
        self._client.on_disconnect = self._lost
        self._client.on_subscribe = self._subscribed
        # Asked for so that packets are queued, and written many at a time by the loop.
        self._client.on_socket_register_write = lambda *_: None
        self._generation = 0
        self._followed: frozenset[str] = frozenset()  # asked for on this connection
        self._unanswered: set[int] = set()
        self._held = 0  # messages passed on whose tickets have not come back
        self._tasks: deque[tuple[list[Ticket], list[tuple[str, bytes, bool]]]] = deque()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self.up = False
        self.problem = ""

    # -- from any thread --

    def send(self, tickets: list[Ticket], messages: list[tuple[str, bytes, bool]]) -> None:
        """Acknowledge messages and publish others (topic, payload, retained), in the loop.

        Every ticket has to come back once, or in the end nothing is read any more.
        """
        self._tasks.append((tickets, messages))
        self.wake()

    def follow(self, subscriptions: Iterable[str]) -> None:
        """Read these and no others from now on, also on later connections."""
        wanted = frozenset(subscriptions)
        if wanted != self._wanted:
            self._wanted = wanted
            self.wake()

    @property
    def listening(self) -> bool:
        """Whether the broker has answered every subscription; what comes earlier is lost."""
        return self.up and self._followed == self._wanted and not self._unanswered

    def wake(self) -> None:
        with suppress(BlockingIOError):  # it is awake anyway
            os.write(self._wake_write, b"\0")

    # -- in the loop's thread --

    def run(self, stop: threading.Event) -> None:
        """Keep a connection until ``stop`` is set; then write what is left and close it."""
        backoff = Backoff(0.1, 5.0)
        while not stop.is_set():
            if self._connect():
                self._serve(stop, backoff)
            self._work(None)  # or decisions would pile up here while the broker is unreachable
            if not stop.is_set():
                stop.wait(backoff.wait())
        self._finish()

    def _connect(self) -> bool:
        options: dict[str, Any] = {}
        if self._address.mqtt5:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.ReceiveMaximum = self._receive_maximum
            options = {"clean_start": True, "properties": properties}
        try:
            self._client.connect(
                self._address.host, self._address.port, keepalive=KEEPALIVE, **options
            )
        except (OSError, ValueError) as error:
            self._note(f"the broker does not answer ({error})")
            return False
        return True

    def _serve(self, stop: threading.Event, backoff: Backoff) -> None:
        misc = 0.0
        while not stop.is_set():
            stream = self._client.stream
            if self._client.socket() is None or stream is None:
                return
            self._client.loop_write()  # into the stream
            writing = [stream] if stream.writing else []
            full = self.up and self._held > self._receive_maximum
            watched: list[Any] = [self._wake_read] if full else [self._wake_read, stream]
            readable, writable = _ready(watched, writing, 1.0)
            if self._wake_read in readable:
                self._work(stream)
            if stream in readable:
                stream.fill()
            if writable or stream.writing:
                stream.flush()
            while stream.reading and self._client.socket() is not None:
                self._client.loop_read()
            if (now := time.monotonic()) > misc:
                misc = now + 1.0
                if full or stream.heard:
                    self._client.spare()
                stream.heard = False
                self._client.loop_misc()
            if self.up:
                backoff.reset()

    def _work(self, stream: Stream | None) -> None:
        """Do the queued work; drop it if there is no stream."""
        try:
            os.read(self._wake_read, 65536)
        except BlockingIOError:
            return
        if stream is not None and self.up:
            self._subscribe()
        while self._tasks:
            tickets, messages = self._tasks.popleft()
            self._held -= len(tickets)
            if stream is None:
                continue
            now = self._generation
            due = [acknowledgement(number) for age, number in tickets if number and age == now]
            stream.send(b"".join(due))
            if self.up:
                self._publish(stream, messages)

    def _publish(self, stream: Stream, messages: list[tuple[str, bytes, bool]]) -> None:
        for topic, payload, retained in messages:
            if retained:
                self._client.publish(topic, payload, qos=1, retain=True)
            else:
                properties = self._address.mqtt5
                stream.send(message_packet(topic.encode(), payload, properties=properties))

    def _finish(self) -> None:
        stream, end = self._client.stream, time.monotonic() + 2.0
        if stream is not None and self._client.socket() is not None:
            self._work(stream)
            self._client.loop_write()
            while stream.writing and not stream.ended and time.monotonic() < end:
                _ready([], [stream], 0.1)
                stream.flush()
        self.up = False  # what follows is no loss
        self._client.disconnect()
        self._client.loop_write()

    def close(self) -> None:
        """Free what the loop used, after it has ended."""
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _subscribe(self) -> None:
        """Tell the broker what has changed in what is wanted."""
        wanted, before = self._wanted, self._followed
        for some in _packets(wanted - before):
            _, number = self._client.subscribe([(topic, _QOS) for topic in some])
            self._unanswered.add(number or 0)
        for some in _packets(before - wanted):
            self._client.unsubscribe(some)
        self._followed = wanted

    def _subscribed(self, _: Client, __: Any, number: int, ___: Any, ____: Any) -> None:
        self._unanswered.discard(number)

    def _connected(self, _: Client, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        if reason.is_failure:
            self._note(f"the broker refuses the connection ({reason})")
            return
        self._generation += 1
        self._followed = frozenset()
        self._unanswered.clear()
        self._subscribe()
        self.up, self.problem, self._since = True, "", time.monotonic()
        logger.info("connected to the broker")
        self._on_turn(True, "")

    def _arrived(self, topic: bytes, payload: bytes, number: int) -> None:
        try:
            name = topic.decode()
        except UnicodeDecodeError:
            name = ""
        self._held += 1
        self._on_message(name, payload, (self._generation, number))

    def _lost(self, _: Client, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        self._generation += 1  # numbers of messages mean nothing on the next connection
        if self.up:
            self._note(f"the connection to the broker is lost ({reason})")
            if time.monotonic() - self._since < _SHORT:
                self._on_cut()

    def _note(self, problem: str) -> None:
        self.up = False
        if problem != self.problem:
            self.problem = problem
            logger.warning("%s; trying again", problem)
            self._on_turn(False, problem)


def _ready(reading: list[Any], writing: list[Any], seconds: float) -> tuple[list[Any], list[Any]]:
    """Wait until something can be read or written; ``select`` knows the first 1,024 files only."""
    poll = select.poll()
    wanted: dict[int, tuple[Any, int]] = {}
    for things, event in ((reading, select.POLLIN), (writing, select.POLLOUT)):
        for each in things:
            number = each if isinstance(each, int) else each.fileno()
            wanted[number] = each, wanted.get(number, (each, 0))[1] | event
    for number, (_, events) in wanted.items():
        poll.register(number, events)
    # An error or an end shows when it is read or written.
    found = {number: events for number, events in poll.poll(1000 * seconds) if events}
    ended = ~(select.POLLIN | select.POLLOUT)
    readable = [wanted[k][0] for k, events in found.items()
                if wanted[k][1] & select.POLLIN and events & (select.POLLIN | ended)]  # fmt: skip
    writable = [wanted[k][0] for k, events in found.items()
                if wanted[k][1] & select.POLLOUT and events & (select.POLLOUT | ended)]  # fmt: skip
    return readable, writable


def _packets(topics: Iterable[str]) -> Iterator[list[str]]:
    """Yield topics in lists that fit one packet."""
    some = sorted(topics)
    for start in range(0, len(some), _TOPICS):
        yield some[start : start + _TOPICS]
