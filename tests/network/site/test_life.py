"""What happens to a site in its life: other mappings, hosts and machines, ends, deletion."""

import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
from paho.mqtt.client import Client as ClientOfPaho
from support.commands import clean_environment, run
from support.helpers import make_mapping, refused
from support.network_samples import additive_mapping
from support.network_sites import wait_for
from support.sites import broker_of, eventually, make_site, needs_mosquitto

from discreet.export.neutral import Policy
from discreet.mapping.parts import Fact
from discreet.network.doctor import examine
from discreet.network.health import BAD, WARN
from discreet.network.health import examine as judge
from discreet.network.observed import Certificate, Deployed, DeployedFiles, Stored
from discreet.network.site.backups import back_up, restore
from discreet.network.site.joining import EnrolmentRequest, enroll
from discreet.network.site.making import renew_site
from discreet.network.site.mappings import change_mapping, load_mappings
from discreet.network.site.removing_devices import forget_device, revoke
from discreet.network.site.settings import load_clients, load_site
from discreet.network.store import open_store
from discreet.network.store.rows import Batch, Refused, Sample, StoredMessage, mapping_number
from discreet_sensor.connecting import BrokerAddress, make_client
from discreet_sensor.enrolment import load_enrolment
from discreet_sensor.running import SensorTask, run_sensor
from discreet_sensor.sources import Source, Sources

NAMES = ["hall", "door"]
LONG = 240.0  # seconds; the machine may be loaded


class Always(Source):
    def __init__(self, name):
        self.name = name

    def take(self):
        return {self.name: 1}


@contextmanager
def device(enrolment, state):
    """``discreet sensor`` in a thread."""
    stop = threading.Event()
    task = SensorTask(enrolment, state, retry=0.3)
    thread = threading.Thread(
        target=run_sensor, args=(task, Sources([Always(enrolment.client)]), stop)
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(LONG)


@contextmanager
def serving(site):
    command = [sys.executable, "-m", "discreet", "serve", str(site), "--quiet"]
    process = subprocess.Popen(command, env=clean_environment())
    try:
        yield
    finally:
        process.terminate()
        assert process.wait(LONG) == 0


@pytest.fixture
def site(tmp_path):
    site = make_site(tmp_path, additive_mapping(names=NAMES), interval=1.0, deadline=4.0)
    for name in NAMES:
        enroll(site, EnrolmentRequest(name), tmp_path / f"{name}.enrol")
    return site


@pytest.fixture
def other(tmp_path):
    """Another mapping for the same question, in a file."""
    file = tmp_path / "other.json"
    make_mapping(names=NAMES).save(file)
    return file


def store_of(site):
    settings = load_site(site)
    store = open_store(settings.database, site, settings.key)
    store.prepare()
    return closing(store)


# --- Another mapping -----------------------------------------------------------------------


def test_a_mapping_is_changed_whole_and_the_old_one_kept(site, other):
    old = load_mappings(site, load_site(site))[0]
    done = change_mapping(site, other)
    assert done.left == tuple(NAMES)
    assert [each.id for each in load_mappings(site, load_site(site))] == [done.mapping.id, old.id]
    assert change_mapping(site, other) == done  # once more changes nothing
    old.save(other.with_name("back.json"))
    assert change_mapping(site, other.with_name("back.json")).left == ()
    assert [each.id for each in load_mappings(site, load_site(site))] == [old.id, done.mapping.id]


def test_mappings_that_no_device_has_are_dropped(site, other, tmp_path):
    change_mapping(site, other)
    for name in NAMES:
        enroll(site, EnrolmentRequest(name, renew=True), tmp_path / f"{name}2.enrol")
    third = additive_mapping(names=[*NAMES, "bed"])
    third.save(tmp_path / "third.json")
    change_mapping(site, tmp_path / "third.json")
    kept = [each.id for each in load_mappings(site, load_site(site))]
    assert len(kept) == 2 and kept[0] == third.id


def test_another_question_is_another_site(site, tmp_path):
    make_mapping(names=NAMES, public=Fact(name="fire", classes=[False, True])).save(
        tmp_path / "fire.json"
    )
    refused("'fire'.*discreet init", change_mapping, site, tmp_path / "fire.json")
    assert not (site / "mappings").exists()


def numbers_of(store):
    """Of which mappings the last messages of both devices are."""
    last = {each[0]: each[5] for each in store.messages(0, 2**32)}
    return [last["hall"], last["door"]]


@needs_mosquitto
@pytest.mark.slow
def test_devices_change_one_by_one_and_all_are_heard(site, other, tmp_path, monkeypatch, capsys):
    enrolments = {name: load_enrolment(tmp_path / f"{name}.enrol") for name in NAMES}
    with store_of(site) as store, broker_of(site), serving(site):

        def heard(seconds):
            """Whether both are heard in a round that ends after a moment."""
            found = store.decisions(limit=50)
            return [each for each in found if each.closed > seconds and each.reported == 2]

        with device(enrolments["door"], tmp_path / "door"):
            with device(enrolments["hall"], tmp_path / "hall"):
                wait_for(lambda: heard(0), LONG)
                code, printed, _ = run(monkeypatch, capsys, "change-mapping", other, "--site", site)
                assert code == 0 and "hall, door" in printed  # the worker runs it already
                changed = time.time()
                wait_for(lambda: heard(changed + 1), LONG)
            enroll(site, EnrolmentRequest("hall", renew=True), tmp_path / "new.enrol")
            with device(load_enrolment(tmp_path / "new.enrol"), tmp_path / "hall"):
                renewed = time.time()
                ids = [mapping_number(each.id) for each in load_mappings(site, load_site(site))]
                # A round that was open when the old one ended is decided on its message.
                wait_for(lambda: numbers_of(store) == ids and heard(renewed + 1), LONG)
    found = {each.subject: each for each in examine(site)}
    assert found["devices"].level == "warning" and "door" in found["devices"].words
    assert not [each for each in store_refusals(site) if each.reason == "mapping"]


def store_refusals(site):
    with store_of(site) as store:
        return store.refused()


def judged(site, deployed, *runs, now=1000.0):
    """What is judged of a site whose workers note what they run."""
    noted = {f"worker {each['name']}": Sample(now, {"runs": each}) for each in runs}
    settings = load_site(site).model_copy(update={"workers": max(1, len(runs))})
    stored = Stored(health=tuple(noted.items()))
    found = judge(settings, {}, stored, now, deployed=deployed)
    return [(each.level, each.short) for each in found if "worker" in each.short]


def test_a_worker_that_goes_on_with_what_was_is_named(site):
    good = {"name": "fusion", "mapping": "new", "certificate": "aa"}
    certificates = (
        Certificate("fusion", "fusion", "a0", 1e9),
        Certificate("fusion", "fusion", "aa", 1e9),
    )
    deployed = Deployed("new", certificates=certificates)
    assert judged(site, deployed, good) == []
    stale = good | {"name": "fusion-2", "mapping": "old"}
    assert judged(site, deployed, good, stale) == [(BAD, "1 worker with another mapping")]
    shown = good | {"certificate": "a0"}
    assert judged(site, deployed, shown) == [(BAD, "1 worker with an old certificate")]


# --- Certificates --------------------------------------------------------------------------


def test_everybody_is_told_of_certificates_that_end(site):
    now = time.time()
    deployed = DeployedFiles(site)()
    names = {each.name for each in deployed.certificates}
    assert names == {"authority", "broker", "fusion", *NAMES}
    for days, wanted in ((600, []), (700, [WARN]), (800, [BAD]), (4000, [BAD])):
        then = now + days * 86_400.0  # devices have theirs for two years, the site for ten
        found = judge(load_site(site), {}, Stored(), then, deployed=deployed)
        assert [each.level for each in found if each.subject == "certificates"] == wanted
    soon = Deployed("", certificates=(Certificate("broker", "broker", "1", now + 86_400 * 30),))
    (found,) = [each for each in judge(load_site(site), {}, Stored(), now, deployed=soon)
                if each.subject == "certificates"]  # fmt: skip
    assert found.level == WARN and "discreet renew-site" in found.fix


def try_handshake(ca, port, server="localhost"):
    """Return why a client of ours would refuse the broker, or nothing."""
    context = make_client(BrokerAddress(server, port, ca), "nobody", ClientOfPaho)._ssl_context
    with socket.create_connection((server, port), timeout=LONG) as line:
        try:
            with context.wrap_socket(line, server_hostname=server):
                return ""
        except ssl.SSLCertVerificationError as error:
            return error.verify_message


@needs_mosquitto
@pytest.mark.slow
def test_the_old_certificate_of_the_broker_ends(site, tmp_path):
    port = load_site(site).broker.port
    thief = tmp_path / "thief"
    back_up(site, thief)
    renew_site(site)
    enroll(site, EnrolmentRequest("hall", renew=True), tmp_path / "new.enrol")
    (tmp_path / "ca.crt").write_text(load_enrolment(tmp_path / "new.enrol").ca)
    anchors = (site / "fusion" / "ca.crt", tmp_path / "ca.crt")
    with broker_of(thief):
        assert {try_handshake(each, port) for each in anchors} == {"certificate revoked"}
        found = {each.subject: each for each in examine(site)}["TLS"]
        assert found.level == "failure" and "revoked" in found.words and "reload" in found.fix
    with broker_of(site):
        assert {try_handshake(each, port) for each in anchors} == {""}


# --- Another host, another machine ---------------------------------------------------------


@needs_mosquitto
@pytest.mark.slow
def test_a_site_that_moves_keeps_its_devices(site, tmp_path):
    hall = load_enrolment(tmp_path / "hall.enrol")
    running = (broker_of(site), serving(site), device(hall, tmp_path / "hall"))
    with store_of(site) as store, running[0], running[1], running[2]:
        wait_for(lambda: len(store.messages(0, 2**32)) >= 2, LONG)
    back_up(site, tmp_path / "saved")
    before = {each[:3] for each in _messages(site)}
    site.rename(tmp_path / "gone")
    moved = tmp_path / "attic"
    restore(tmp_path / "saved", moved)
    done = renew_site(moved, host="127.0.0.1")
    assert done.services and load_site(moved).broker.host == "127.0.0.1"
    (unit,) = (moved / "systemd").glob("*-broker.service")
    assert str(moved) in unit.read_text() and str(site) not in unit.read_text()
    # As it was enrolled, and with the host changed in its file: both reach the broker.
    elsewhere = replace(hall, broker=load_site(moved).broker.place)
    with store_of(moved) as store, broker_of(moved), serving(moved):
        for each in (hall, elsewhere):
            count = len(store.messages(0, 2**32))
            with device(each, tmp_path / "hall"):
                wait_for(lambda count=count: len(store.messages(0, 2**32)) >= count + 2, LONG)
    assert before <= {each[:3] for each in _messages(moved)}


def _messages(site):
    with store_of(site) as store:
        return store.messages(0, 2**32)


def test_a_host_keeps_its_old_names(site):
    renew_site(site, host="gateway.local")
    renew_site(site, host="attic.local")
    assert load_site(site).aliases == ("gateway.local",)
    listens = (site / "broker/mosquitto.conf").read_text()
    assert "127.0.0.1" not in listens.split("\n")[0] and "attic.local" not in listens
    refused("--host", renew_site, site, host="0.0.0.0")


# --- Deletion ------------------------------------------------------------------------------


@pytest.fixture
def filled(site):
    with store_of(site) as store:
        rows = [
            StoredMessage(name, 5, k, k, b"\1", 10 * k, 100.0 + k)
            for name in NAMES
            for k in range(9)
        ]
        store.commit(Batch(rows, quarantine=[Refused("hall", "mac", 100.0, b"a wrong message")]))
    return site


def test_one_device_is_forgotten_and_its_budget_is_not(filled):
    done = forget_device(filled, "hall")
    assert (done.messages, done.live, done.postgres) == (9, True, False)
    with store_of(filled) as store:
        assert {each[0] for each in store.messages(0, 99)} == {"door"}
        assert {each.client: each.spent for each in store.clients()} == {"hall": 80, "door": 80}
        assert store._base.query("SELECT count(*) FROM quarantine") == [(0,)]
    for file in (filled / "data").glob("fusion.db*"):
        assert b"a wrong message" not in file.read_bytes()
    assert load_clients(filled).clients["hall"].forgotten == (5, 8)
    refused("no device", forget_device, filled, "attic")


def test_a_backup_does_not_bring_back_what_was_forgotten(filled, tmp_path):
    back_up(filled, tmp_path / "saved")
    forget_device(filled, "hall")
    restore(tmp_path / "saved", filled)
    assert {each[0] for each in _messages(filled)} == {"door"}
    for file in (filled / "data").glob("fusion.db*"):
        file.unlink()  # and the whole database
    restore(tmp_path / "saved", filled)
    assert {each[0] for each in _messages(filled)} == {"door"}


def test_what_was_forgotten_stays_so_when_a_device_is_enrolled_again(filled, tmp_path):
    forget_device(filled, "hall")
    revoke(filled, "hall")
    enroll(filled, EnrolmentRequest("hall"), tmp_path / "again.enrol")
    assert load_clients(filled).clients["hall"].forgotten == (5, 8)
    assert load_enrolment(tmp_path / "again.enrol").spent == 80


def test_what_is_left_of_a_budget_is_told_when_a_device_is_enrolled_again(filled, tmp_path):
    with store_of(filled) as store:
        store.commit(Batch([StoredMessage("hall", 5, 9, 9, b"\1", 19_000_000, 110.0)]))
    revoke(filled, "hall")
    policy = Policy(budget=20.0, repeat="period")
    done = enroll(filled, EnrolmentRequest("hall", policy=policy), tmp_path / "again.enrol")
    assert done.spent == 19_000_000
    assert "of which 19 were spent before, lasts 0 days" in done.lasting.lines()[1]


def test_a_program_learns_what_was_forgotten(filled, monkeypatch, capsys):
    code, printed, words = run(monkeypatch, capsys, "forget", "hall", "--site", filled, "--json")
    assert code == 0 and "deleted 9 messages of hall" in words
    assert json.loads(printed) == {"device": "hall", "messages": 9, "live": True}
    revoke(filled, "hall")
    _, printed, _ = run(monkeypatch, capsys, "forget", "hall", "--site", filled, "--json")
    assert json.loads(printed) == {"device": "hall", "messages": 0, "live": False}


@pytest.mark.slow
def test_on_postgresql_it_says_what_stays(tmp_path, postgres, monkeypatch, capsys):
    site = make_site(tmp_path, additive_mapping(names=NAMES), database=postgres.url)
    enroll(site, EnrolmentRequest("hall"), tmp_path / "hall.enrol")
    with store_of(site) as store:
        store.commit(Batch([StoredMessage("hall", 5, 0, 0, b"\1", 10, 100.0)]))
    code, printed, _ = run(monkeypatch, capsys, "forget", "hall", "--site", site)
    assert code == 0 and "deleted 1 messages" in printed
    assert "write-ahead log" in printed and "backups" in printed and "revoke" in printed
    with store_of(site) as store:
        assert store.messages(0, 9) == [] and eventually(lambda: store.clients()[0].spent == 10)
