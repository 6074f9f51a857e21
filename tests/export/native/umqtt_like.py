"""A small MQTT 3.1.1 client with the interface of umqtt.simple, for the tests."""

import socket
import struct


class MQTTClient:
    def __init__(self, client_id, server, port=1883, keepalive=0, ssl=None):
        self.client_id, self.server, self.port = client_id, server, port
        self.keepalive, self.ssl = keepalive, ssl
        self.sock, self.callback, self.pid = None, None, 0

    def set_callback(self, callback):
        self.callback = callback

    def connect(self):
        plain = socket.socket()
        plain.connect(socket.getaddrinfo(self.server, self.port)[0][-1])
        self.plain = self.sock = plain
        if self.ssl is not None:
            self.sock = self.ssl.wrap_socket(plain, server_hostname=self.server)
        name = self.client_id.encode()
        body = b"\x00\x04MQTT\x04\x02" + struct.pack(">HH", self.keepalive, len(name)) + name
        self._send(0x10, body)
        if self._packet() != (0x20, b"\x00\x00"):
            raise OSError("the broker refuses the connection")

    def _send(self, kind, body):
        size, head = len(body), bytearray([kind])
        while True:
            head.append(size & 127 | (128 if size > 127 else 0))
            size >>= 7
            if not size:
                break
        self.sock.write(bytes(head) + body)

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.sock.read(count - len(data))
            if not more:
                raise OSError("the connection is closed")
            data += more
        return data

    def _packet(self):
        kind, size, shift = self._exactly(1)[0], 0, 0
        while True:
            byte = self._exactly(1)[0]
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return kind, self._exactly(size)

    def wait_msg(self):
        kind, body = self._packet()
        if kind >> 4 == 3:
            length = struct.unpack(">H", body[:2])[0]
            self.callback(body[2 : 2 + length], body[2 + length + (2 if kind & 6 else 0) :])
        return kind, body

    def check_msg(self):
        import select

        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        while poll.poll(0):
            self.wait_msg()

    def publish(self, topic, message, retain=False, qos=0):
        self.pid = self.pid % 65535 + 1
        pid = struct.pack(">H", self.pid)
        head = struct.pack(">H", len(topic)) + topic + (pid if qos else b"")
        self._send(0x32 if qos else 0x30, head + message)
        while qos:
            kind, body = self.wait_msg()
            if kind == 0x40 and body[:2] == pid:
                return

    def subscribe(self, topic, qos=0):
        self.pid = self.pid % 65535 + 1
        self._send(0x82, struct.pack(">HH", self.pid, len(topic)) + topic + bytes([qos]))
        while self.wait_msg()[0] != 0x90:
            pass

    def ping(self):
        self._send(0xC0, b"")
