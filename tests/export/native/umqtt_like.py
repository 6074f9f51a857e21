"""A small MQTT 3.1.1 client for the tests, which fails in the ways in which umqtt.simple does.

A line that closes between packets is an OSError; one that closes inside of a packet, or instead of
the first, leaves nothing to index; a refusal is an exception of its own, no OSError; and whatever
else a broker should not send fails an assertion. One packet is read at a time.
"""

import select
import socket
import struct


class MQTTException(Exception):  # noqa: N818 - the name that the library has
    pass


class MQTTClient:
    def __init__(self, client_id, server, port=1883, keepalive=0, ssl=None):
        self.client_id, self.server, self.port = client_id, server, port
        self.keepalive, self.ssl = keepalive, ssl
        self.sock, self.callback, self.pid = None, None, 0

    def set_callback(self, callback):
        self.callback = callback

    def connect(self):
        self.sock = socket.socket()
        self.sock.connect(socket.getaddrinfo(self.server, self.port)[0][-1])
        if self.ssl is not None:
            self.sock = self.ssl.wrap_socket(self.sock, server_hostname=self.server)
        name = self.client_id.encode()
        body = b"\x00\x04MQTT\x04\x02" + struct.pack(">HH", self.keepalive, len(name)) + name
        self._send(0x10, body)
        answer = self.sock.read(4)
        assert answer[0] == 0x20 and answer[1] == 2
        if answer[3] != 0:
            raise MQTTException(answer[3])

    def _send(self, kind, body):
        size, head = len(body), bytearray([kind])
        while True:
            head.append(size & 127 | (128 if size > 127 else 0))
            size >>= 7
            if not size:
                break
        self.sock.write(bytes(head) + body)

    def wait_msg(self):
        first = self.sock.read(1)
        if first == b"":
            raise OSError(-1)
        kind, size, shift, byte = first[0], 0, 0, 128
        while byte > 127:
            byte = self.sock.read(1)[0]
            size |= (byte & 127) << shift
            shift += 7
        body = self.sock.read(size)
        if kind >> 4 == 3:
            length = body[0] << 8 | body[1]
            self.callback(body[2 : 2 + length], body[2 + length + (2 if kind & 6 else 0) :])
        return kind, body

    def check_msg(self):
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        if poll.poll(0):
            self.wait_msg()

    def publish(self, topic, message, retain=False, qos=0):
        self.pid += 1  # never back to 1: after 65535 the answer is never the one awaited
        pid = struct.pack(">H", self.pid & 0xFFFF)
        head = struct.pack(">H", len(topic)) + topic + (pid if qos else b"")
        self._send(0x32 if qos else 0x30, head + message)
        while qos:
            kind, body = self.wait_msg()
            if kind == 0x40 and body[0] << 8 | body[1] == self.pid:
                return

    def subscribe(self, topic, qos=0):
        self.pid += 1
        self._send(0x82, struct.pack(">HH", self.pid, len(topic)) + topic + bytes([qos]))
        kind = 0
        while kind != 0x90:
            kind, body = self.wait_msg()
        if body[2] == 0x80:
            raise MQTTException(body[2])

    def ping(self):
        self._send(0xC0, b"")
