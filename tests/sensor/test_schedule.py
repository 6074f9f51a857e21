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
from discreet_sensor.wire import STORED, Entry


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
        self.ahead, self.asked = 0.0, []

    def time(self):
        self.asked.append(self.ahead)
        return time.time() + self.ahead


class Bench:
    """A sensor with a clock that can be set, whose courier is connected to nobody."""

    def __init__(self, folder, monkeypatch, batch=1):
        mapping = additive_mapping(names=["hall", "door", "bed"])
        self.site = PlainSite(folder, mapping, 1, interval=0.05)
        self.task = SensorTask(self.site.enrol("hall", ["hall"], batch=batch), folder / "hall")
        self.clock = Clock()
        monkeypatch.setattr(running, "time", self.clock)

    def send(self, outbox, enough, ahead, up=True):
        self.clock.ahead = ahead
        task = self.task
        key = bytes.fromhex(task.enrolment.mac_key)
        address = broker_address(task.enrolment, task.folder)
        courier = Courier(address, "home", "hall", key, outbox)  # never started: nobody answers
        courier.up = up
        releaser = Releaser(task.enrolment, task.folder, outbox)
        sources = Sources([Endless(outbox, enough)])
        _Schedule(task.enrolment, releaser, outbox, courier, sources).run(threading.Event())
        releaser.close()

    def make_messages(self):
        with Outbox(self.task.folder) as outbox:
            self.send(outbox, lambda box: box.waiting >= 8, 0.0)
            return [each.payload for each in outbox.after(-1, -1, 99)]


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("restart", [False, True])
def test_a_clock_that_was_ahead_is_followed_back_and_logged_once(
    tmp_path, monkeypatch, caplog, batch, restart
):
    bench = Bench(tmp_path, monkeypatch, batch)
    clock, task, site = bench.clock, bench.task, bench.site

    def jump_back(outbox):
        if outbox.waiting >= 2 and not restart:
            clock.ahead = 0.0
        return outbox.boot > first if not restart else outbox.waiting >= 2

    with Outbox(task.folder) as outbox:
        first = outbox.boot
        bench.send(outbox, jump_back, 3600.0)
    with Outbox(task.folder) as outbox:
        bench.send(
            outbox,
            lambda box: box.boot > first + 1 and box.seq >= 3 if restart else box.seq >= 3,
            0.0,
        )
        present = site.clock.number(time.time())
        rounds = [each.round for each in outbox.after(-1, -1, 99)]
        assert rounds == sorted(set(rounds)) and max(rounds) <= present
    assert caplog.text.count("the clock went back by ") == 1  # 3600 s less what passed meanwhile


def test_a_clock_that_starts_behind_costs_no_message_that_waits(tmp_path, monkeypatch, caplog):
    bench = Bench(tmp_path, monkeypatch)
    before = bench.make_messages()
    with Outbox(bench.task.folder) as outbox:
        setting = threading.Timer(0.3, lambda: setattr(bench.clock, "ahead", 0.0))
        setting.start()
        bench.send(outbox, lambda box: box.seq >= 3, -3600.0, up=False)  # as after a power cut
        found = outbox.after(-1, -1, 99)
        assert [each.payload for each in found[: len(before)]] == before
        assert [each.round for each in found] == sorted({each.round for each in found})
    assert "given up" not in caplog.text


def test_what_the_site_takes_while_the_clock_is_behind_is_not_given_up(
    tmp_path, monkeypatch, caplog
):
    bench = Bench(tmp_path, monkeypatch)
    bench.make_messages()
    with Outbox(bench.task.folder) as outbox:
        taken = [Entry(each.boot, each.seq, 1, STORED) for each in outbox.after(-1, -1, 99)]
        answer = threading.Timer(0.05, outbox.acknowledge, [taken])
        answer.start()
        bench.send(outbox, lambda box: box.seq >= 1, -3600.0)
        assert outbox.given_up == 0
    assert caplog.text.count("0 messages for later rounds are given up") == 1


def test_a_clock_from_before_the_site_is_waited_for(tmp_path, monkeypatch, caplog):
    bench = Bench(tmp_path, monkeypatch)
    before = bench.make_messages()
    looks = []
    with Outbox(bench.task.folder) as outbox:
        boot = outbox.boot

        def set_clock():
            looks.append(len(bench.clock.asked))
            bench.clock.ahead = 0.0

        setting = threading.Timer(1.2, set_clock)
        setting.start()
        bench.clock.asked.clear()
        bench.send(outbox, lambda box: box.seq >= 3, -time.time())  # 1970
        found = outbox.after(-1, -1, 99)
        assert [each.payload for each in found[: len(before)]] == before
        assert outbox.boot == boot and outbox.given_up == 0
    assert looks[0] < 50  # it sleeps between looks
    assert caplog.text.count("the clock is not set") == 1
