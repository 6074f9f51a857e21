"""A publisher that costs next to nothing: MQTT 5 packets by hand, many to a system call.

A load generator in an ordinary client would take more of the machine than what it measures.
"""

import select
import socket
import ssl
import struct
import time

from discreet_sensor.wire import ENTRY

UNDER_WAY = 500  # below the broker's receive maximum


def _text(text):
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def _packet(kind, body):
    length, size = b"", len(body)
    while True:
        size, low = divmod(size, 128)
        length += bytes([low | 128 if size else low])
        if not size:
            return bytes([kind]) + length + body


def publish_packet(topic, payload, number):
    """Return a message; at QoS 0 if the number is 0."""
    kind, name = (0x32, struct.pack(">H", number)) if number else (0x30, b"")
    return _packet(kind, b"".join((_text(topic), name, b"\0", payload)))


class RawClient:
    """A connection; ``on_publish`` is called with topic and payload of what arrives."""

    def __init__(self, port, name, subscription=None, context=None, host="127.0.0.1"):
        self._sock = socket.create_connection((host, port))
        if context is not None:
            self._sock = context.wrap_socket(self._sock, server_hostname=host)
        else:
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        body = _text("MQTT") + bytes([5, 2]) + struct.pack(">H", 600) + b"\0" + _text(name)
        self._sock.sendall(_packet(0x10, body))
        self._rest, self._number, self.under_way = b"", 0, 0
        self._wait_for(0x20)
        if subscription:
            self._sock.sendall(_packet(0x82, b"\0\1\0" + _text(subscription) + b"\0"))
            self._wait_for(0x90)
        self._sock.setblocking(False)

    def _wait_for(self, kind):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if any(found & 0xF0 == kind for found, _ in self._read()):
                return
        raise RuntimeError("the broker does not answer")

    def _read(self):
        try:
            data = self._sock.recv(1 << 20)
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        if not data:
            raise ConnectionError("the broker has closed the connection")
        data, at = self._rest + data, 0
        while (end := _whole(data, at)) is not None:
            start, stop = end
            yield data[at], data[start:stop]
            at = stop
        self._rest = data[at:]

    def publish(self, messages):
        """Send some pairs of topic and payload at QoS 1."""
        packets = []
        for topic, payload in messages:
            self._number = self._number % 65535 + 1
            packets.append(publish_packet(topic, payload, self._number))
        self.under_way += len(packets)
        self.send(b"".join(packets))

    def send(self, packets):
        self._sock.setblocking(True)
        self._sock.sendall(packets)
        self._sock.setblocking(False)

    def poll(self, seconds=0.0):
        """Wait for something to arrive; return topics and payloads of what did."""
        if seconds and not (hasattr(self._sock, "pending") and self._sock.pending()):
            select.select([self._sock], [], [], seconds)
        found = []
        for kind, body in self._read():
            if kind & 0xF0 == 0x40:
                self.under_way -= 1
            elif kind & 0xF0 == 0x30:
                size = int.from_bytes(body[:2], "big")
                found.append((body[2 : 2 + size].decode(), body[3 + size :]))
        return found

    def fileno(self):
        return self._sock.fileno()

    def close(self):
        self._sock.close()


def _whole(data, at):
    """Return where the content of the packet begins and ends, or None if it is not all there."""
    length, factor, place = 0, 1, at + 1
    while place < len(data):
        length += (data[place] & 127) * factor
        factor *= 128
        place += 1
        if not data[place - 1] & 128:
            return (place, place + length) if place + length <= len(data) else None
    return None


def acknowledged(payload):
    """How many messages an acknowledgement is for."""
    return sum(fields[2] for fields in ENTRY.iter_unpack(payload[5:-9]))
