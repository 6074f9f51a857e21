"""The fusion centre's connection to the broker, in a loop of its own.

Everything that touches the connection happens in the thread that runs the loop. Messages are
acknowledged on request and not before; as many as the receive maximum may be unacknowledged, and
then the broker holds the rest: that is the back-pressure. Mosquitto 2.0.11 sends on beyond it when
much is acknowledged at a time, and so nothing is read while more is held than was asked for.

*The bytes between the broker and the MQTT library, with a short way for messages.* The library
reads a packet in three system calls and makes a dozen objects of it, several times what the fusion
centre itself has to do for a message. So its socket is this one. Everything but messages goes
through to the library, which keeps the session: connection, TLS, subscriptions, keepalive.
Messages are taken out of the stream here, many to a system call, and their acknowledgements are
put into it. docs/decisions/0012-messages-beside-the-library.md has figures.
"""

from __future__ import annotations

import logging
import os
import select
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from paho.mqtt.client import Client
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from discreet_sensor.connecting import KEEPALIVE, Backoff, BrokerAddress, make_client

# --- Bytes ----------------------------------------------------------------------------------

_ROOM = 1 << 18  # bytes read at once
_PUBLISH = 0x30
_QOS_BITS = 0x06
_QOS_1 = 0x02
_MOST_LENGTH_BYTES = 4
_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

OnMessage = Callable[[bytes, bytes, int], None]


class StreamError(OSError):
    """What the broker sends is no MQTT."""


class Stream:
    """A socket as the MQTT library uses it, that keeps messages to itself.

    ``sock``: connected, with TLS if any. ``on_message``: called with topic, payload and number; the
    number is 0 if nothing is to be acknowledged. ``properties``: whether packets have properties,
    as in MQTT 5. ``ended``: whether the connection is of no more use; the library learns it by an
    empty read. ``heard``: set when anything comes.
    """

    def __init__(self, sock: Any, on_message: OnMessage, *, properties: bool) -> None:
        self._sock, self._on_message, self._properties = sock, on_message, properties
        self._rest = b""  # the beginning of a packet that is not all there
        self._others = bytearray()  # for the library
        self._out = bytearray()
        self.ended = self.heard = False

    # -- for the library --

    def recv(self, size: int) -> bytes:
        """Return what is there of packets that are no messages."""
        if not self._others:
            if self.ended:
                return b""
            raise BlockingIOError
        found = bytes(self._others[:size])
        del self._others[:size]
        return found

    def send(self, data: bytes | bytearray) -> int:
        """Put something into the next write."""
        self._out += data
        return len(data)

    def close(self) -> None:
        self.flush()
        self._sock.close()

    def fileno(self) -> int:
        return int(self._sock.fileno())

    def setblocking(self, flag: bool) -> None:
        self._sock.setblocking(flag)

    # -- for the loop --

    @property
    def writing(self) -> bool:
        return bool(self._out)

    @property
    def reading(self) -> bool:
        """Whether there is something for the library to read, or the end."""
        return bool(self._others) or self.ended

    def fill(self) -> None:
        """Read what there is and pass on its messages; an error ends the stream."""
        try:
            while data := self._sock.recv(_ROOM):
                self.heard = True
                self._take_apart(self._rest + data if self._rest else data)
                # select does not see what TLS has read already.
                if not isinstance(self._sock, ssl.SSLSocket) or not self._sock.pending():
                    return
            self.ended = True
        except _LATER:
            return
        except OSError:
            self.ended = True

    def flush(self) -> None:
        """Write what the socket takes; an error ends the stream."""
        try:
            if self._out:
                del self._out[: self._sock.send(self._out)]
        except _LATER:
            return
        except OSError:
            self.ended = True

    def _take_apart(self, data: bytes) -> None:
        at, size = 0, len(data)
        while size - at >= 2:
            start, length = at + 2, data[at + 1]
            if length > 127:
                found = _length(data, at + 1)
                if found is None:
                    break
                start, length = found
            end = start + length
            if end > size:
                break
            if data[at] & 0xF0 == _PUBLISH:
                self._message(data[at], data[start:end])
            else:
                self._others += data[at:end]
            at = end
        self._rest = data[at:]

    def _message(self, flags: int, body: bytes) -> None:
        at = 2 + (body[0] << 8 | body[1]) if len(body) > 1 else 2
        topic, number = body[2:at], 0
        if flags & _QOS_BITS:
            if flags & _QOS_BITS != _QOS_1:
                raise StreamError("the broker sends more than was asked for")
            number = int.from_bytes(body[at : at + 2], "big")
            at += 2
        if self._properties and body[at : at + 1] == b"\0":
            at += 1  # there are none, as nearly always
        elif self._properties:
            found = _length(body, at)
            if found is None:
                raise StreamError("the broker sends a message without an end")
            at, length = found
            at += length
        if at > len(body):
            raise StreamError("the broker sends a message without an end")
        self._on_message(topic, body[at:], number)


class StreamingClient(Client):
    """The library's client, on a ``Stream``; ``on_packet`` and ``stream`` are set on connection."""

    on_packet: OnMessage
    stream: Stream | None = None

    def _create_socket(self) -> Any:
        sock = super()._create_socket()
        self.stream = Stream(sock, self.on_packet, properties=self._protocol == 5)
        return self.stream

    def spare(self) -> None:
        """Stop waiting for the answer to a ping.

        It comes behind all messages that are under way. While these are not read, or take longer
        than the keepalive, the library would give up a connection that is well, and the broker
        would drop what waits for us.
        """
        self._ping_t = 0.0


def _length(data: bytes, at: int) -> tuple[int, int] | None:
    """Return where something begins whose length stands at a place, and the length."""
    length = 0
    for place in range(_MOST_LENGTH_BYTES):
        if at + place >= len(data):
            return None
        byte = data[at + place]
        length |= (byte & 127) << (7 * place)
        if byte < 128:
            return at + place + 1, length
    raise StreamError("the broker sends a length without an end")


def _encoded(length: int) -> bytes:
    found = bytearray()
    while length > 127:
        found.append(length & 127 | 128)
        length >>= 7
    found.append(length)
    return bytes(found)


def acknowledgement(number: int) -> bytes:
    """Return the packet that acknowledges a message to the broker."""
    return b"\x40\x02" + number.to_bytes(2, "big")


def message_packet(topic: bytes, payload: bytes, *, properties: bool) -> bytes:
    """Return the packet that publishes a message at QoS 0."""
    head = len(topic).to_bytes(2, "big") + topic + b"\0" * properties
    return b"".join((b"\x30", _encoded(len(head) + len(payload)), head, payload))


# --- The connection -------------------------------------------------------------------------

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
        # A service may be stopped while it closes, also by a signal within the same thread; the
        # number of the pipe may be another file's by then.
        self._closing, self._closed = threading.RLock(), False
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
        """Have the loop look at what there is to do; nothing happens once it is closed."""
        with self._closing, suppress(BlockingIOError):  # it is awake anyway
            if not self._closed:
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
        with self._closing:
            if not self._closed:
                self._closed = True
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
