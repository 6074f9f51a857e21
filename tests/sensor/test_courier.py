"""Nothing that happens to a device keeps its courier from delivering what can be delivered."""

import socket
import sqlite3
import threading
import time
from contextlib import suppress
from dataclasses import replace

import pytest
from support.network_samples import additive_mapping
from support.network_sites import PlainSite, Running, wait_for
from support.sites import needs_mosquitto

from discreet.errors import InputError
from discreet.network.broker import Broker
from discreet_sensor import courier as couriers
from discreet_sensor.courier import WINDOW, Courier
from discreet_sensor.outbox import Outbox
from discreet_sensor.running import SensorTask, broker_address, run_sensor
from discreet_sensor.sources import open_sources
from discreet_sensor.wire import Message, encode, mapping_tag, message_topic

pytestmark = [pytest.mark.slow, needs_mosquitto]


@pytest.fixture
def site(tmp_path):
    with Broker.plain(tmp_path / "broker") as broker:
        yield PlainSite(tmp_path, additive_mapping(names=["hall", "door"]), broker.port)


def fill(outbox, enrolment, count, key):
    """Write messages for some rounds of the last hour."""
    tag, topic = mapping_tag(enrolment.mapping), message_topic("home", enrolment.client)
    for number in range(count):
        last = outbox.append(
            number,
            1,
            lambda boot, seq, number=number: encode(
                Message(boot, seq, number, 0, b"\1", tag), key, topic
            ),
        )
    return last


class Line:
    """A line to a broker that can stand still: nothing is lost, but nothing comes."""

    def __init__(self, port):
        self._port, self._server = port, socket.create_server(("127.0.0.1", 0))
        self.port, self.gates, self._ends = self._server.getsockname()[1], [], []
        self.on_connection = lambda: None
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with suppress(OSError):
            while True:
                near, gate = self._server.accept()[0], threading.Event()
                self.on_connection()
                far = socket.create_connection(("127.0.0.1", self._port))
                gate.set()
                self.gates.append(gate)
                self._ends += [near, far]
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=(*ends, gate), daemon=True).start()

    def _pump(self, source, sink, gate):
        with suppress(OSError):
            while data := source.recv(4096):
                gate.wait()
                sink.sendall(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for gate in self.gates:
            gate.set()
        for end in (self._server, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@pytest.fixture
def held(site, tmp_path):
    """Return a courier whose line stands still before its messages have got through."""
    enrolment = site.enrol("hall", ["hall"])
    key = bytes.fromhex(enrolment.mac_key)
    with (
        Line(site.port) as line,
        Running(site.service()) as service,
        Outbox(tmp_path / "hall") as outbox,
    ):
        address = replace(broker_address(enrolment, tmp_path), port=line.port)
        courier = Courier(address, "home", "hall", key, outbox, retry=0.2)
        courier.start()
        wait_for(lambda: courier.up)
        line.gates[0].clear()
        courier.dispatch(fill(outbox, enrolment, 5, key))
        yield line, outbox, service
        courier.close()


def test_a_line_that_stands_still_gets_no_second_copy(held):
    line, outbox, service = held
    time.sleep(2.0)  # ten times as long as a retry takes
    line.gates[0].set()
    wait_for(lambda: not outbox.waiting)
    wait_for(lambda: service.state.value("messages") == 5)
    time.sleep(0.5)  # in which a second copy would come
    assert service.state.value("messages") == 5
    assert "replay" not in service.state.summary()["refused"]
    assert len(line.gates) == 1


def test_a_line_that_stands_still_for_long_is_given_up(held, monkeypatch, caplog):
    line, outbox, service = held
    # The next connection may be as slow as the machine is.
    line.on_connection = lambda: monkeypatch.setattr(couriers, "_STUCK", 60.0)
    monkeypatch.setattr(couriers, "_STUCK", 0.5)
    wait_for(lambda: not outbox.waiting)  # by another connection
    wait_for(lambda: service.state.value("messages") == 5)
    assert len(line.gates) == 2
    said = [each for each in caplog.messages if each.endswith("trying again")]
    assert said == ["the broker no longer answers; trying again"]


def test_what_waited_under_another_key_does_not_stop_what_comes_after(site, tmp_path):
    enrolment = site.enrol("hall", ["hall"])
    with Outbox(tmp_path / "hall") as outbox:
        fill(outbox, enrolment, WINDOW + 20, b"\0" * 32)
    (tmp_path / "hall.csv").write_text("hall\n1\n0\n")
    sources = open_sources([f"csv:{tmp_path / 'hall.csv'}"], ["hall"], interval=0.2, hold=0)
    with Running(site.service()):
        task = SensorTask(enrolment, tmp_path / "hall", retry=0.5, drain=300)
        assert run_sensor(task, sources, threading.Event()) == 0
    sources.close()
    assert len(site.stored()) == 2
    with Outbox(tmp_path / "hall") as outbox:
        assert outbox.given_up == WINDOW + 20


@pytest.mark.parametrize("what", ["outbox", "certificates"])
def test_a_passing_error_does_not_end_it(site, tmp_path, monkeypatch, what):
    enrolment, real = site.enrol("hall", ["hall"]), couriers.make_client
    key, fails = bytes.fromhex(enrolment.mac_key), [True, True]

    def make_client(*arguments):
        if what == "certificates" and fails and fails.pop():
            raise InputError("the certificates cannot be read.")
        return real(*arguments)

    class Base:
        """The database of the outbox, out of order for a while."""

        def __init__(self, base):
            self._base = base

        def __getattr__(self, name):
            return getattr(self._base, name)

        def execute(self, sql, *parameters):
            if what == "outbox" and sql.startswith("SELECT boot, seq") and fails and fails.pop():
                raise sqlite3.OperationalError("disk I/O error")
            return self._base.execute(sql, *parameters)

    with Running(site.service()), Outbox(tmp_path / "hall") as outbox:
        fill(outbox, enrolment, 3, key)
        outbox._base = Base(outbox._base)
        address = broker_address(enrolment, tmp_path)
        courier = Courier(address, "home", "hall", key, outbox, retry=0.5)
        outbox.boot += 1  # as if restarted
        monkeypatch.setattr(couriers, "make_client", make_client)
        courier.start()
        wait_for(lambda: not outbox.waiting)
        courier.close()
    assert len(site.stored()) == 3
    assert not fails
