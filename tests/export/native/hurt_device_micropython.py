"""Run a connection for a device of one message until it is acknowledged."""

import sys

from discreet_mqtt import Client
from umqtt_like import MQTTClient


class Enrolment:
    client, host, port, flags = "hall", "127.0.0.1", int(sys.argv[1]), 0


class Device:
    enrolment, topic, ack_topic, stopped = Enrolment, b"z", b"ack", False

    def rounds(self, now, ticks):
        pass

    def wait(self, now):
        return 1

    def connected(self):
        self.sent = False

    def disconnected(self):
        pass

    def due(self, now, ticks):
        return [] if self.sent else [0]

    def payload(self, slot, ticks):
        self.sent = True
        return b"symbols"

    def heard(self, data):
        self.stopped = data == b"stored"


class Counted(MQTTClient):
    """Begins to count packets where it is told to."""

    def connect(self):
        super().connect()
        self.pid = int(sys.argv[2])


Client(Device(), Counted).run()
