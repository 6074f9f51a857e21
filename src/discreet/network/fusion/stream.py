"""The bytes between the broker and the MQTT library, with a short way for messages.

The library reads a packet in three system calls and makes a dozen objects of it, several times
what the fusion centre itself has to do for a message. So its socket is this one. Everything but
messages goes through to the library, which keeps the session: connection, TLS, subscriptions,
keepalive. Messages are taken out of the stream here, many to a system call, and their
acknowledgements are put into it. docs/decisions/0012-messages-beside-the-library.md has figures.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any

from paho.mqtt.client import Client

_ROOM = 1 << 18  # bytes read at once
_PUBLISH = 0x30
_QOS = 0x06
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
        if flags & _QOS:
            if flags & _QOS != _QOS_1:
                raise StreamError("the broker sends more than was asked for")
            number = int.from_bytes(body[at : at + 2], "big")
            at += 2
        if self._properties:
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
