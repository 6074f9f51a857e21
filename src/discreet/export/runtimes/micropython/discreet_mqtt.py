"""Connect a device to its site, over ``umqtt.simple`` or a client like it.

    from discreet_client import Device
    from discreet_mqtt import Client
    from umqtt.simple import MQTTClient

    device = Device("hall.enrolment", "/state", read)  # make_new=True the first time
    Client(device, MQTTClient).run()

``read(name)`` returns the reading of a sensor at the end of a round, None if there is none. Set the
clock first, by ``ntptime`` say: without the time nothing is drawn and nothing sent.

SPDX-License-Identifier: Apache-2.0
"""

import os
import time
from binascii import a2b_base64

from discreet_client import Device, Enrolment, utc

from discreet_sensor import SensorError


class Client:
    """Keeps a connection and publishes what is due. ``mqtt``: the class of ``umqtt.simple``."""

    def __init__(self, device: Device, mqtt: object) -> None:
        self.device, self._mqtt = device, mqtt
        self._line, self._pause, self._next, self._pinged = None, 200, 0, 0
        self.problem = ""

    def run(self) -> None:
        """Work until the site stops this device; print what goes wrong when it begins."""
        said = ""
        while not self.device.stopped:
            time.sleep_ms(self.step())
            if self.problem != said:
                said = self.problem
                print("discreet:", said or "connected")
        print("discreet: another device sends as " + self.device.enrolment.client + "; stopped")

    def step(self) -> int:
        """Do what is due; return after how many milliseconds to come again."""
        device, now = self.device, utc()
        try:
            if now:
                device.rounds(now, time.ticks_ms())
        except (SensorError, OSError) as error:
            self.problem = "nothing is drawn (" + str(error) + ")"
        ticks = time.ticks_ms()
        try:
            self._speak(now, ticks)
        # No narrower: MQTTException derives from Exception and cannot be named where only the class
        # of a client is given; umqtt.simple also fails assertions and indexes what did not come.
        except Exception as error:
            self._hang_up(_why(error))
        # To the millisecond: how long the work took must not show in when the message leaves.
        return max(1, min(device.wait(utc()), 20))

    def _speak(self, now: int, ticks: int) -> None:
        if self._line is None:
            if time.ticks_diff(self._next, ticks) <= 0:
                self._connect(ticks)
            return
        self._line.check_msg()
        if getattr(self._line, "pid", 0) > 60000:
            self._line.pid = 0  # umqtt.simple counts on, and waits for an answer that cannot come
        for slot in self.device.due(now, ticks):
            self._line.publish(self.device.topic, self.device.payload(slot, ticks), False, 1)
        if time.ticks_diff(ticks, self._pinged) > 15000:
            self._pinged = ticks
            self._line.ping()

    def _connect(self, ticks: int) -> None:
        device, e = self.device, self.device.enrolment
        self._next = time.ticks_add(ticks, self._pause // 2 + os.urandom(1)[0] * self._pause // 512)
        self._pause = min(10000, 2 * self._pause)
        context = _context(e) if e.flags & 1 else None
        line = self._mqtt(e.client, e.host, port=e.port, keepalive=30, ssl=context)
        line.set_callback(lambda topic, data: self._hear(bytes(data)))
        self._line = line  # at once, so that its socket is closed whatever happens
        line.connect()
        line.subscribe(device.ack_topic)
        device.connected()
        self._pause, self._pinged, self.problem = 200, ticks, ""

    def _hear(self, data: bytes) -> None:
        try:
            self.device.heard(data)
        except OSError as error:  # the storage, not the line; the site will answer again
            self.problem = "the state cannot be written (" + str(error) + ")"

    def _hang_up(self, problem: str) -> None:
        self.problem = problem
        line, self._line = self._line, None
        self.device.disconnected()
        try:
            if line is not None:
                line.sock.close()
        except (OSError, AttributeError):
            pass


def _why(error: Exception) -> str:
    """Return what ended a connection. A line that closes early is an IndexError of umqtt.simple."""
    kind = type(error).__name__
    if kind == "MQTTException":
        return (
            "the broker refuses (code " + str(error) + "); trying again (was this device revoked?)"
        )
    return "no connection (" + kind + " " + str(error) + "); trying again"


def _context(e: Enrolment) -> object:
    import tls

    context = tls.SSLContext(tls.PROTOCOL_TLS_CLIENT)
    context.verify_mode = tls.CERT_REQUIRED
    context.load_verify_locations(_der(e.ca))
    context.load_cert_chain(_der(e.certificate), _der(e.private_key))
    return context


def _der(pem: bytes) -> bytes:
    """Return what PEM holds: not every port reads it."""
    lines = pem.decode().split("-----")
    return a2b_base64(lines[2].replace("\n", ""))
