"""A life of the test vectors, lived by ``discreet_sensor`` in a time that only the test moves.

The schedule runs in a thread of its own, and only while the test waits for it: its waits end when
the test has moved the time far enough. The courier's turns are taken by the test, and what it
publishes is accepted by the broker at once.
"""

import json
import sqlite3
import threading
from types import SimpleNamespace

from paho.mqtt.client import MQTTMessage

from discreet_sensor import courier, outbox, running
from discreet_sensor.courier import Courier
from discreet_sensor.enrolment import parse_enrolment
from discreet_sensor.errors import InputError
from discreet_sensor.outbox import Outbox
from discreet_sensor.running import Releaser, _give_up_strange, _Schedule
from discreet_sensor.sources import Sources
from support.lives import ACK, VECTORS, numbers_of, step_of, with_answers


class Killed(BaseException):
    """Ends the thread of a schedule wherever it waits."""


class Time:
    """What the modules see as ``time``."""

    def __init__(self):
        self.clock = self.steady = 0

    def time(self):
        return self.clock / 1000

    def monotonic(self):
        return self.steady / 1000


class Stop:
    """An event that is never set; waiting for it takes the time of the test."""

    def __init__(self, moving):
        self.moving, self.wake, self.killed = moving, 0.0, False
        self.go, self.idle = threading.Semaphore(0), threading.Semaphore(0)

    def is_set(self):
        return False

    def wait(self, seconds):
        self.wake = self.moving.steady + 1000 * seconds
        self.idle.release()
        self.go.acquire()
        if self.killed:
            raise Killed
        return False


class Line:
    """Stands for the client of the MQTT library."""

    def __init__(self, carrier):
        self.carrier, self.published = carrier, []

    def publish(self, _topic, payload, qos):
        assert qos == 1
        self.published.append(payload)
        self.carrier._taken.append(len(self.published))
        return SimpleNamespace(mid=len(self.published))

    def subscribe(self, *_, **__):
        pass


class Run:
    """A start of the device, until it is killed."""

    def __init__(self, folder, slots, enrolment, moving):
        self.moving, self.outbox = moving, Outbox(folder, enrolment.boot, slots)
        _give_up_strange(enrolment, self.outbox)
        self.releaser = Releaser(enrolment, folder, self.outbox)
        key = bytes.fromhex(enrolment.mac_key)
        names = (enrolment.site, enrolment.client, key, self.outbox)
        self.courier = Courier(running.broker_address(enrolment, folder), *names)
        self.courier._client = self.line = Line(self.courier)
        self.courier._allowed = (self.outbox.boot, -1)  # as its thread begins
        schedule = _Schedule(enrolment, self.releaser, self.outbox, self.courier, Sources([]))
        self.stop, self.problem = Stop(moving), None
        self.thread = threading.Thread(target=self._run, args=(schedule,), daemon=True)
        self.thread.start()
        self.stop.idle.acquire()

    def _run(self, schedule):
        try:
            schedule.run(self.stop)
        except (Killed, InputError) as end:
            self.problem = end
        self.stop.wake = float("inf")
        self.stop.idle.release()

    def look(self):
        """Have the schedule do what is due, then the courier."""
        while self.stop.wake <= self.moving.steady:
            self.stop.go.release()
            self.stop.idle.acquire()
        if self.courier.up:
            self.courier._send_due()
            self.courier._note_taken(self.moving.monotonic())

    def connect(self):
        reason = SimpleNamespace(is_failure=False)
        self.courier._on_the_line.clear()
        self.courier._connected(self.line, None, None, reason, None)

    def hear(self, data):
        message = MQTTMessage(topic=ACK.encode())
        message.payload = data
        self.courier._heard(self.line, None, message)

    def kill(self):
        if self.problem is None:
            self.stop.killed = True
            self.stop.go.release()
        self.thread.join()
        self.releaser.close()
        self.outbox.close()


class PythonLife:
    """A device and its folder through all of its starts."""

    def __init__(self, folder, slots, monkeypatch):
        self.folder, self.slots, self.moving, self.run = folder, slots, Time(), None
        self.works, self.given_up, self.open = True, 0, Outbox._open
        monkeypatch.setattr(Outbox, "_open", staticmethod(self._opened))
        for module in (running, courier, outbox):
            monkeypatch.setattr(module, "time", self.moving)

    def live(self, life):
        """Return what each step has led to, as ``compare`` takes it."""
        try:
            return [self.step(step) for step in with_answers(life)]
        finally:
            if self.run is not None:
                self.run.kill()

    def step(self, step):
        before = self.run.courier.refused if self.run and step["do"] != "start" else 0
        getattr(self, "_" + step["do"])(step)
        if self.run is None:
            return None
        given_up, self.given_up = self.given_up, self.run.outbox.given_up
        published, self.run.line.published[:] = list(self.run.line.published), []
        waiting = [numbers_of(each.payload) for each in self.run.outbox.after(-1, -1, 999)]
        courier = self.run.courier
        counts = self.given_up - given_up, courier.refused - before, courier.stopped
        return (waiting, published, *counts)

    def _start(self, step):
        if self.run is not None:
            self.run.kill()
        self.moving.clock = step["clock"]
        content = VECTORS["life_enrolments"][step["enrolment"]]["json"]
        enrolment, self.run = parse_enrolment(json.dumps(content).encode()), None
        try:
            self.run = Run(self.folder, self.slots, enrolment, self.moving)
        except InputError:
            assert not self.works

    def _wait(self, step):
        pause = step_of(step["ms"])
        for _ in range(step["ms"] // pause):
            self.moving.clock += pause
            self.moving.steady += pause
            self.run.look()

    def _set_clock(self, step):
        self.moving.clock = step["clock"]

    def _connect(self, _):
        self.run.connect()

    def _disconnect(self, _):
        self.run.courier.up = False

    def _answer(self, step):
        self.run.hear(bytes.fromhex(step["bytes"]))

    def _storage(self, step):
        self.works = step["works"]
        if self.run is not None:
            self._limit(self.run.outbox._base)

    def _opened(self, file):
        return self._limit(self.open(file))

    def _limit(self, base: sqlite3.Connection):
        base.execute(f"PRAGMA query_only = {int(not self.works)}")
        return base
