"""The fusion centre as its clients meet it: acknowledgements, replays, revocation, workers."""

import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from contextlib import ExitStack
from types import SimpleNamespace

import paho.mqtt.client as mqtt
import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.network_samples import additive_mapping, classes_mapping
from support.network_sites import PlainSite, Running, wait_for
from support.sites import needs_mosquitto

from discreet.auditing.recheck import Standing
from discreet.errors import InputError
from discreet.network.broker import Broker
from discreet.network.fusion import link
from discreet.network.fusion import service as service_module
from discreet.network.fusion.closing import discovery_message
from discreet.network.fusion.state import Pages, State
from discreet.network.fusion.timekeeping import Timekeeper
from discreet.network.health import BAD, GOOD, Finding
from discreet.network.store.database import StoreError
from discreet.network.store.rows import Decision, latest_notes, silent_workers
from discreet_sensor import wire
from discreet_sensor.wire import ack_topic, message_topic

pytestmark = pytest.mark.slow

NAMES = ["hall", "door", "bed"]


class Device:
    """A client by hand: sends what it is told to, and notes what it is told back."""

    def __init__(self, site, name):
        self.name, self.key = name, bytes.fromhex(site.clients[name].key)
        self.topic, self.ack_topic = message_topic("home", name), ack_topic("home", name)
        self.tag, self.entries = wire.mapping_tag(site.mapping.id), []
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, name, protocol=mqtt.MQTTv5)
        self._client.on_message = self._heard
        ready = threading.Event()
        self._client.on_subscribe = lambda *_: ready.set()
        self._client.connect("127.0.0.1", site.port)
        self._client.subscribe(self.ack_topic)
        self._client.loop_start()
        assert ready.wait(60)

    def _heard(self, _client, _data, message):
        self.entries += wire.decode_acknowledgement(message.payload, self.key, self.ack_topic)

    def sealed(self, seq, number, symbols=b"\1", mapping=None):
        message = wire.Message(1, seq, number, 0, symbols, mapping or self.tag)
        return wire.encode(message, self.key, self.topic)

    def send(self, payload, qos=1):
        self._client.publish(self.topic, payload, qos=qos)

    def statuses(self):
        return [(each.first, each.length, each.status) for each in self.entries]

    def close(self):
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture
def broker(tmp_path):
    with Broker.plain(tmp_path / "broker") as broker:
        yield broker


@pytest.fixture
def site(broker, tmp_path):
    site = PlainSite(tmp_path, additive_mapping(names=NAMES), broker.port)
    for name in NAMES:
        site.enrol(name, [name])
    return site


def refusals(site):
    reader = site.reader()
    found = {(each.client, each.reason): each.times for each in reader.refused()}
    reader.close()
    return {key: times for key, times in found.items() if key[1] != "late"}


@needs_mosquitto
def test_a_replay_is_acknowledged_again_and_counted_once(site):
    now = site.clock.number(time.time())
    with Running(site.service()) as service:
        wait_for(lambda: service.listening)
        device = Device(site, "hall")
        capture = device.sealed(0, now)
        device.send(capture)
        wait_for(lambda: len(device.entries) == 1)
        for _ in range(3):
            device.send(capture)
        wait_for(lambda: sum(each.length for each in device.entries) >= 2)
        wait_for(lambda: refusals(site).get(("hall", "replay")) == 3)
        device.close()
    assert {each.status for each in device.entries} == {wire.STORED}
    assert site.stored() == [("hall", 1, 0, now, b"\1")]
    reader = site.reader()
    assert [each.messages for each in reader.clients()] == [1]
    reader.close()


@needs_mosquitto
def test_a_contradiction_and_a_foreign_mapping_are_refused_and_told(site):
    now = site.clock.number(time.time())
    with Running(site.service()) as service:
        wait_for(lambda: service.listening)
        device = Device(site, "hall")
        for payload, status in (
            (device.sealed(0, now), (0, 1, wire.STORED)),
            (device.sealed(0, now, b"\0"), (0, 1, wire.REFUSED)),
            (device.sealed(1, now + 1, mapping=bytes(8)), (1, 1, wire.REFUSED)),
        ):
            before = len(device.entries)
            device.send(payload)
            wait_for(lambda before=before: len(device.entries) > before)
            assert device.statuses()[-1] == status
        device.send(device.sealed(2, now + 1), qos=0)  # nothing would hold it back
        device.send(b"nonsense")  # nobody can be told
        wait_for(lambda: refusals(site).get(("hall", "length")) == 1)
        device.close()
    assert len(device.entries) == 3
    assert refusals(site) == {
        ("hall", "conflict"): 1,
        ("hall", "mapping"): 1,
        ("hall", "length"): 1,
        ("hall", "qos"): 1,
    }
    assert site.stored() == [("hall", 1, 0, now, b"\1")]


@needs_mosquitto
def test_a_revoked_client_is_shut_out_while_the_service_runs(site):
    now = site.clock.number(time.time())
    with Running(site.service()) as service:
        wait_for(lambda: service.listening)
        device, other = Device(site, "hall"), Device(site, "door")
        device.send(device.sealed(0, now))
        wait_for(lambda: device.entries)
        site.revoke("hall")
        wait_for(lambda: service._registry.by_name["hall"].revoked)
        device.send(device.sealed(1, now + 1))
        other.send(other.sealed(0, now))
        wait_for(lambda: other.entries)
        wait_for(lambda: refusals(site).get(("hall", "revoked")) == 1)
        device.close()
        other.close()
    assert sorted(each[0] for each in site.stored()) == ["door", "hall"]


def _away(service):
    """Have the store away until the event that is returned is cleared."""
    away, real = threading.Event(), service._store.commit
    away.set()

    def commit(batch):
        if away.is_set():
            raise StoreError("not now")
        return real(batch)

    service._store.commit = commit
    return away


@needs_mosquitto
def test_nothing_is_acknowledged_and_nothing_piles_up_while_the_store_is_away(site):
    service = site.service(receive_maximum=50)
    away = _away(service)
    now = site.clock.number(time.time()) - 400
    with Running(service):
        wait_for(lambda: service.listening)
        device = Device(site, "hall")
        for i in range(300):
            device.send(device.sealed(i, now + i))
        wait_for(lambda: _states(service).get("database") == "away")
        time.sleep(1.0)  # in which more could pile up
        assert device.entries == []
        assert len(service._waiting) <= 50
        away.clear()
        wait_for(lambda: sum(each.length for each in device.entries) == 300)
        wait_for(lambda: _states(service)["database"] == "here")
        device.close()
    assert len(site.stored()) == 300


def _states(service):
    return {part: each["state"] for part, each in service.state.summary()["parts"].items()}


@needs_mosquitto
def test_a_broker_that_goes_while_the_store_is_away_is_told(site, broker):
    service = site.service()
    away = _away(service)
    with Running(service):
        wait_for(lambda: service.listening)
        device = Device(site, "hall")
        device.send(device.sealed(0, site.clock.number(time.time())))
        wait_for(lambda: _states(service).get("database") == "away")
        broker.kill()
        wait_for(lambda: _states(service)["broker"] == "away")
        assert service.state.value("broker_up") == 0
        device.close()
        away.clear()


@needs_mosquitto
def test_messages_at_qos_0_do_not_use_up_the_room_for_others(site):
    now = site.clock.number(time.time())
    with Running(site.service(receive_maximum=50)) as service:
        wait_for(lambda: service.listening)
        device, other = Device(site, "hall"), Device(site, "door")
        for _ in range(60):
            device.send(b"nothing", qos=0)
        wait_for(lambda: refusals(site).get(("hall", "qos")) == 60)
        other.send(other.sealed(0, now))
        wait_for(lambda: other.entries)
        device.close()
        other.close()


def _come_at_once(service, device, number, count):
    """Have more come than was asked for, as Mosquitto does, while the store is away."""
    for i in range(count):
        payload = device.sealed(i, number + i)
        service._link._arrived(device.topic.encode(), payload, 1000 + i)
        if not i:
            wait_for(lambda: _states(service).get("database") == "away")  # it is being tried


@needs_mosquitto
def test_a_broker_that_is_lost_while_much_waits_is_read_again(site, broker, monkeypatch):
    monkeypatch.setattr(link, "KEEPALIVE", 1)
    service = site.service(receive_maximum=5)
    away, now = _away(service), site.clock.number(time.time()) - 400
    with Running(service):
        wait_for(lambda: service.listening)
        device = Device(site, "hall")
        _come_at_once(service, device, now, 20)
        device.close()
        broker.kill()
        wait_for(lambda: not service._link.up)
        broker.start()
        wait_for(lambda: service._link.up)
        away.clear()
        wait_for(lambda: service.listening)
        device = Device(site, "hall")
        device.send(device.sealed(20, now + 20))
        wait_for(lambda: (20, 1, wire.STORED) in device.statuses())
        device.close()
    assert len(site.stored()) == 21


@needs_mosquitto
def test_a_line_that_is_not_read_for_long_is_not_given_up(site, monkeypatch):
    monkeypatch.setattr(link, "KEEPALIVE", 2)
    service = site.service(receive_maximum=5)
    away, now = _away(service), site.clock.number(time.time()) - 400
    with Running(service):
        wait_for(lambda: service.listening)
        first = service._link._generation
        device = Device(site, "hall")
        _come_at_once(service, device, now, 20)
        time.sleep(5.0)  # the broker would give up after 3 s, the library after 4
        away.clear()
        wait_for(lambda: sum(each.length for each in device.entries) == 20)
        assert service._link._generation == first
        device.close()


def test_an_unforeseen_failure_at_the_store_ends_the_service(tmp_path):
    service = PlainSite(tmp_path, additive_mapping(names=NAMES), 1).service()
    service._store.lead = lambda: 1 / 0
    late = threading.Timer(60, service.stop)
    late.start()
    with pytest.raises(ZeroDivisionError):
        service.run()
    late.cancel()


def test_decisions_do_not_pile_up_while_the_broker_is_away(tmp_path):
    service = PlainSite(tmp_path, additive_mapping(names=NAMES), 1).service()
    with Running(service):
        wait_for(lambda: service.state.value("decisions") > 3)
        wait_for(lambda: not service._link._tasks)


def test_what_is_overdue_after_standing_still_waits_for_messages(tmp_path):
    site = PlainSite(tmp_path, additive_mapping(names=NAMES), 1, interval=0.5, deadline=30.0)
    begin, ahead = time.time(), 0.0
    keeper = Timekeeper(site.clock, lambda: begin + ahead, lambda: ahead)
    service = site.service(keeper)
    service._store.prepare()
    service._look_after()
    for ahead in (32.0, 32.2):  # one look waits out the start, the next one closes
        service._looked = begin + ahead
        service._look_after()
    closed = service._closer.closed
    assert closed >= 0
    ahead = 92.0  # asleep for a minute
    service._look_after()
    assert service._closer.closed == closed
    service._store.close()
    service._link.close()


def test_a_broker_that_comes_back_is_told_the_decision_that_still_holds(tmp_path):
    site = PlainSite(tmp_path, additive_mapping(names=NAMES), 1, interval=600.0)
    service, now = site.service(), site.clock.last_due(time.time())
    for number, count in ((now, 2), (now - 1, 1)):
        service._herald.announce([Decision(number, 0.0, 3, 3, (0.1, 0.9), "True")])
        service._herald.greet(service._time.now())
        said = service._link._tasks[-1][1]
        assert len(said) == count and all(retained for *_, retained in said)
        assert said[0][0].startswith("homeassistant/")
    service._store.close()
    service._link.close()


def test_a_broken_list_of_clients_is_complained_of_once(tmp_path, caplog):
    site = PlainSite(tmp_path, additive_mapping(names=NAMES), 1)
    with Running(site.service()) as service:
        site.file.write_text("nothing")
        wait_for(lambda: service._registry.problem)
        time.sleep(1.0)
        assert sum("clients.json" in line for line in caplog.messages) == 1
        site.save()
        wait_for(lambda: not service._registry.problem)


@needs_mosquitto
def test_workers_share_the_messages_and_one_closes_the_rounds(broker, tmp_path, postgres):
    database = _new_database(postgres)
    site = PlainSite(
        tmp_path, additive_mapping(names=NAMES), broker.port, database=database, deadline=0.5
    )
    for name in NAMES:
        site.enrol(name, [name])
    workers = [site.service(name=f"fusion-{i}", group="secret") for i in range(2)]
    threads = {each: Running(each) for each in workers}
    with ExitStack() as stack:
        for each in threads.values():
            stack.enter_context(each)
        wait_for(lambda: all(each.listening for each in workers))
        wait_for(lambda: sum(each._closer._next is not None for each in workers) == 1)
        devices = [Device(site, name) for name in NAMES]
        start = site.clock.number(time.time()) - 30
        for seq in range(30):
            for device in devices:
                device.send(device.sealed(seq, start + seq))
        wait_for(lambda: all(sum(e.length for e in d.entries) == 30 for d in devices))
        wait_for(lambda: sum(each.state.value("messages") for each in workers) == 90)
        assert min(each.state.value("messages") for each in workers) > 10
        leader, other = sorted(workers, key=lambda each: each._closer._next is None)
        reader = site.reader()
        names = [f"fusion-{i}" for i in range(2)]
        wait_for(lambda: not silent_workers(names, reader.health(), time.time() - 60))
        notes = latest_notes(reader.health(), time.time() - 60)
        assert len(notes) == 2 and all("queue" in each for each in notes)
        last = wait_for(reader.latest).round
        leader.stop()
        # The other one takes over where it was.
        wait_for(lambda: other._closer._next is not None)
        wait_for(lambda: reader.latest().round > last + 2)
        rounds = [each.round for each in reader.decisions(limit=10_000)]
        assert len(rounds) == len(set(rounds))
        # Also of the one that is away the last word is there.
        wait_for(lambda: len(silent_workers(names, reader.health(), time.time() - 3)) == 1)
        assert silent_workers(names, reader.health(), 0.0) == ()
        reader.close()
        for device in devices:
            device.close()


def _new_database(server):
    import psycopg

    name = f"test_{os.urandom(8).hex()}"
    with psycopg.connect(server.url, autocommit=True) as base:
        base.execute(f"CREATE DATABASE {name}")
    return server.url.rsplit("/", 1)[0] + f"/{name}"


def test_home_assistant_is_told_of_the_decision_and_nothing_else(tmp_path):
    for mapping, kind in ((additive_mapping(), "binary_sensor"), (classes_mapping(), "sensor")):
        clock = PlainSite(tmp_path, mapping, 1).clock
        topic, payload = discovery_message("home", "home_12", mapping, clock)
        content = json.loads(payload)
        assert topic == f"homeassistant/{kind}/discreet_home_12/decision/config"
        assert content["state_topic"] == "discreet/v1/home/decision"
        text = payload.decode()
        assert not any(each.name in text for each in (*mapping.sensors, *mapping.private))
    assert content["options"] == ["a", "b", "c"]


@needs_mosquitto
def test_the_one_state_of_the_certificate_is_part_of_the_health(site, caplog, monkeypatch):
    monkeypatch.setattr(service_module, "_STANDING_EVERY", 0.01)
    states = [
        SimpleNamespace(standing=Standing(state, words), certificate=Finding(level, state, words))
        for state, level, words in (("valid", GOOD, "Fine."), ("broken", BAD, "Withdrawn."))
    ]
    running = site.service()
    running._guarantee = lambda: states[0]

    def shown():
        return running.state.summary()["parts"].get("certificate", {}).get("state")

    with Running(running):
        for wanted in ("valid", "broken"):
            wait_for(lambda wanted=wanted: shown() == wanted)
            assert running.state.value("certificate_valid") == (wanted == "valid")
            withdrawn = ["Withdrawn."] if wanted == "broken" else []
            wait_for(lambda w=withdrawn: [e.words for e in running.state.findings()
                                          if e.view == "guarantee"] == w)  # fmt: skip
            assert (running.state.health()[0] == BAD) >= (wanted == "broken")
            states.pop(0) if len(states) > 1 else None
    assert "the certificate is broken. Withdrawn." in caplog.text


SHOWN = [
    ("discreet_messages", "counter", "Messages stored."),
    ("discreet_readings", "counter", "Symbols stored."),
    ("discreet_commits", "counter", "Commits to the database."),
    ("discreet_decisions", "counter", "Rounds closed."),
    (
        "discreet_shed",
        "counter",
        "Messages that the broker dropped for want of room; each worker counts all.",
    ),
    ("discreet_queue", "gauge", "Messages that wait for their commit."),
    ("discreet_lag_seconds", "gauge", "Mean time from arrival to acknowledgement, lately."),
    ("discreet_broker_up", "gauge", "Whether the broker is there."),
    ("discreet_database_up", "gauge", "Whether the database is there."),
    ("discreet_reported", "gauge", "Sensors heard in the last closed round."),
    ("discreet_expected", "gauge", "Sensors of the mapping."),
    ("discreet_last_round", "gauge", "The last closed round."),
    (
        "discreet_certificate_valid",
        "gauge",
        "Whether a certificate stands and a re-check agrees with it.",
    ),
    (
        "discreet_clock_offset_seconds",
        "gauge",
        "How far this machine's clock is ahead of the time that counts.",
    ),
    ("discreet_decision_age_seconds", "gauge", "Time since the last round was closed."),
    ("discreet_resident_bytes", "gauge", "Largest resident memory so far."),
    ("discreet_refused", "counter", "Messages refused, by reason."),
    ("discreet_suspended", "gauge", "Devices that are not heard for a while."),
    ("discreet_findings", "gauge", "What is wrong with the site, by level."),
]
"""Names that dashboards are built on: they stay as they are."""


def test_pages_tell_counts_and_never_symbols():
    state = State()
    state.add(messages=3, readings=12)
    state.suspend({"hall": "qos, for 60 s"})
    state.refuse(Counter(stale=2, forged=1))
    state.turn("database", "away", "no route")
    with Pages(state, "127.0.0.1", 0) as pages:
        base = f"http://127.0.0.1:{pages.port}"
        metrics = urllib.request.urlopen(f"{base}/metrics").read().decode()
        with pytest.raises(urllib.error.HTTPError) as unwell:
            urllib.request.urlopen(f"{base}/health")
        health = json.load(unwell.value)
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{base}/../etc/passwd")
        assert caught.value.code == 404
        caught.value.close()
        with pytest.raises(InputError, match="cannot listen"):
            Pages(state, "127.0.0.1", pages.port)
    assert unwell.value.code == 503 and health["level"] == "bad"
    assert health["parts"]["database"]["state"] == "away"
    found = list(text_string_to_metric_families(metrics))
    by_device = [each for each in found if each.name.startswith("discreet_device_")]
    shown = [(each.name, each.type, each.documentation) for each in found]
    assert shown[: len(SHOWN)] == SHOWN and len(shown) == len(SHOWN) + len(by_device)
    samples = {
        (each.name, *each.labels.items()): each.value for one in found for each in one.samples
    }
    assert samples["discreet_messages_total",] == 3 and samples["discreet_readings_total",] == 12
    assert samples["discreet_refused_total", ("reason", "stale")] == 2
    assert samples["discreet_suspended", ("device", "hall")] == 1
    assert {name for key in samples for name, _ in key[1:]} == {"reason", "level", "device"}
    assert len(samples) == len(SHOWN) + 2  # two reasons, two levels
