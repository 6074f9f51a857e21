"""A sensor whose clock was ahead goes on with the present round by itself."""

import threading
import time

import pytest
from support.network_samples import additive_mapping
from support.network_sites import PlainSite

from discreet_sensor import running
from discreet_sensor.courier import Courier
from discreet_sensor.outbox import Outbox
from discreet_sensor.running import Releaser, SensorTask, _Schedule, broker_address
from discreet_sensor.sources import Source, Sources


class Endless(Source):
    """A reading each round, and an end when there is enough in the outbox."""

    def __init__(self, outbox, enough):
        self.outbox, self.enough = outbox, enough

    @property
    def finished(self):
        return self.enough(self.outbox)

    def take(self):
        return {"hall": 1}


class Clock:
    """Stands in for the module ``time`` of the sensor: ahead by some seconds."""

    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    def __init__(self):
        self.ahead = 0.0

    def time(self):
        return time.time() + self.ahead


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("restart", [False, True])
def test_a_clock_that_was_ahead_is_followed_back_and_logged_once(
    tmp_path, monkeypatch, caplog, batch, restart
):
    site = PlainSite(tmp_path, additive_mapping(names=["hall", "door", "bed"]), 1, interval=0.05)
    task = SensorTask(site.enrol("hall", ["hall"], batch=batch), tmp_path / "hall")
    clock = Clock()
    monkeypatch.setattr(running, "time", clock)

    def send(outbox, enough, ahead):
        clock.ahead = ahead
        key = bytes.fromhex(task.enrolment.mac_key)
        address = broker_address(task.enrolment, task.folder)
        courier = Courier(address, "home", "hall", key, outbox)  # never started: nobody answers
        releaser = Releaser(task.enrolment, task.folder, outbox)
        sources = Sources([Endless(outbox, enough)])
        _Schedule(task.enrolment, releaser, outbox, courier, sources).run(threading.Event())
        releaser.close()

    def jump_back(outbox):
        if outbox.waiting >= 2 and not restart:
            clock.ahead = 0.0
        return outbox.boot > first if not restart else outbox.waiting >= 2

    with Outbox(task.folder) as outbox:
        first = outbox.boot
        send(outbox, jump_back, 3600.0)
    with Outbox(task.folder) as outbox:
        send(
            outbox,
            lambda box: box.boot > first + 1 and box.seq >= 3 if restart else box.seq >= 3,
            0.0,
        )
        present = site.clock.number(time.time())
        rounds = [each.round for each in outbox.after(-1, -1, 99)]
        assert rounds == sorted(set(rounds)) and max(rounds) <= present
    assert caplog.text.count("the clock went back by 3600 s") == 1
