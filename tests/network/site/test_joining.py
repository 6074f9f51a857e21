import json
import os
import re
import shutil
import signal
import ssl
import stat
import time

import pytest
from cryptography import x509
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from support.commands import run
from support.helpers import make_mapping, refused
from support.ports import free_port
from support.sites import (
    Visitor,
    broker_of,
    eventually,
    fusion_visitor,
    make_site,
    needs_mosquitto,
    visitor_of,
)

from discreet.export.neutral import Policy
from discreet.network.broker import Broker
from discreet.network.site import authority, joining, removing_devices
from discreet.network.site.authority import load_register
from discreet.network.site.joining import EnrolmentRequest, enroll, enroll_observer
from discreet.network.site.removing_devices import revoke
from discreet.network.site.services import BRIDGE_FOLDER
from discreet.network.site.settings import (
    SiteFiles,
    load_clients,
    load_site,
    worker_group,
    worker_name,
)
from discreet_sensor import runtime
from discreet_sensor.enrolment import load_enrolment
from discreet_sensor.wire import shared


@pytest.fixture
def site(tmp_path):
    return make_site(tmp_path)


def enrolled(site, name="hall", **asked):
    file = site.parent / f"{name}.enrol"
    enroll(site, EnrolmentRequest(name, **asked), file)
    return load_enrolment(file)


def state_of(site):
    return {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}


# --- Enrol ---------------------------------------------------------------------------------


def test_one_file_holds_all_that_a_device_needs(site, tmp_path):
    content = enrolled(site, "gateway", sensors=["door", "hall"], batch=3)
    assert stat.S_IMODE((tmp_path / "gateway.enrol").stat().st_mode) == 0o600
    settings, client = load_site(site), load_clients(site).clients["gateway"]
    assert (content.site, content.client, content.batch) == ("home", "gateway", 3)
    assert (content.epoch, content.interval) == (settings.epoch, settings.interval)
    assert content.broker == settings.broker.place
    assert content.sensors == client.sensors == ("door", "hall")
    assert content.mac_key == client.key
    assert content.public_key == (site / "keys/bundle.pub").read_text().strip()
    assert content.mapping == client.mapping == make_mapping().id
    for name, bundle in zip(content.sensors, content.bundle_bytes, strict=True):
        file = tmp_path / "one.bundle"
        file.write_bytes(bundle)
        table = runtime.read_bundle(file, content.public_key)
        assert table.name == name
    assert load_register(site).rights["gateway"] == "sensor"


def test_the_policy_goes_into_the_bundles(tmp_path):
    mapping = make_mapping(names=["hall"], **_one_sensor())
    site = make_site(tmp_path, mapping)
    policy = Policy(budget=2.5, period=60, repeat="period")
    content = enrolled(site, policy=policy, anyway=True)
    (tmp_path / "b").write_bytes(content.bundle_bytes[0])
    table = runtime.read_bundle(tmp_path / "b", content.public_key)
    assert (table.budget, table.period, table.repeat) == (2_500_000, 60, 1)


def _one_sensor():
    from discreet.data.encoders import CodesEncoder
    from discreet.mapping.parts import AdditiveFusion

    return {
        "encoders": [CodesEncoder(size=2)],
        "tables": [[[0.75, 0.25], [0.25, 0.75]]],
        "fusion": AdditiveFusion(weights=[[-1.0, 1.0]], bias=0.0),
    }


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (EnrolmentRequest("Hall"), "'Hall' .*lower-case|'Hall'.*a-z"),
        (EnrolmentRequest("fusion"), "kept for the site itself"),
        (EnrolmentRequest("fusion-2", ["hall"]), "kept for the site itself"),
        (EnrolmentRequest("kitchen"), "no sensor 'kitchen'.*There are: 'hall', 'door'.*--sensor"),
        (EnrolmentRequest("a", ["halls"]), "no sensor 'halls'.*Did you mean 'hall'"),
        (EnrolmentRequest("a", ["hall", "hall"]), "twice"),
        (EnrolmentRequest("a", ["hall"], batch=65_536), "a message holds 65535"),
        (EnrolmentRequest("hall", renew=True), "no device 'hall' is enrolled"),
        (EnrolmentRequest("hall", policy=Policy(budget=1.0)), "no budget"),
    ],
)
def test_a_wrong_request_changes_nothing(site, tmp_path, asked, words):
    before = state_of(site)
    refused(words, enroll, site, asked, tmp_path / "x.enrol")
    after = state_of(site)
    after.pop(site / ".lock", None)
    assert after == before and not (tmp_path / "x.enrol").exists()


def test_names_and_sensors_are_given_once(site, tmp_path):
    enrolled(site)
    refused(
        "'hall' is enrolled already",
        enroll,
        site,
        EnrolmentRequest("hall"),
        tmp_path / "again.enrol",
    )
    refused(
        "belongs to 'hall' already",
        enroll,
        site,
        EnrolmentRequest("b", ["hall"]),
        tmp_path / "b.enrol",
    )
    refused("there already", enroll, site, EnrolmentRequest("door"), tmp_path / "hall.enrol")
    assert list(load_clients(site).clients) == ["hall"]


def test_a_device_does_not_become_an_observer_nor_an_observer_a_device(site, tmp_path):
    enrolled(site)
    enroll_observer(site, "reader", tmp_path / "reader")
    before = state_of(site)
    words = "'hall' is enrolled already, as a device. Take another name, or revoke it first"
    refused(words, enroll_observer, site, "hall", tmp_path / "hall")
    words = "'reader' is enrolled already, as an observer. Take another name, or revoke it first"
    for renew in (False, True):
        asked = EnrolmentRequest("reader", ["door"], renew=renew)
        refused(words, enroll, site, asked, tmp_path / "x.enrol")
    refused(words, enroll_observer, site, "reader", tmp_path / "again")
    assert state_of(site) == before
    assert not any((tmp_path / name).exists() for name in ("hall", "x.enrol", "again"))
    for name in ("hall", "reader"):
        revoke(site, name)
    enroll_observer(site, "hall", tmp_path / "hall")
    enrolled(site, "reader", sensors=["hall"])
    rights = load_register(site).rights
    assert (rights["hall"], rights["reader"]) == ("observer", "sensor")


def test_an_enrolment_that_fails_late_leaves_no_file(site, tmp_path, monkeypatch):
    def full_disk(*_args, **_more):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(joining, "save_register", full_disk)
        with pytest.raises(OSError, match="No space"):
            enroll(site, EnrolmentRequest("hall"), tmp_path / "hall.enrol")
    assert not (tmp_path / "hall.enrol").exists()
    assert enrolled(site)  # the same command again is all it takes


def test_two_commands_do_not_change_a_site_at_once(site, tmp_path):
    from discreet.network.site.settings import locked

    with locked(site):
        refused("another command", enroll, site, EnrolmentRequest("hall"), tmp_path / "hall.enrol")


def test_a_renewed_device_keeps_its_policy_unless_told_otherwise(tmp_path, monkeypatch, capsys):
    mapping = make_mapping(names=["hall"], **_one_sensor())
    site = make_site(tmp_path, mapping)
    policy = ["--budget", "20", "--period", "60", "--repeat", "period", "--batch", "3"]

    def table_of(name, *options):
        out = tmp_path / f"{name}.enrol"
        words = ["enroll", "hall", "--site", site, "--out", out, "--anyway", *options]
        assert run(monkeypatch, capsys, *words)[0] == 0
        content = load_enrolment(out)
        (tmp_path / "b").write_bytes(content.bundle_bytes[0])
        table = runtime.read_bundle(tmp_path / "b", content.public_key)
        return table.budget, table.period, table.repeat, content.batch

    assert table_of("first", *policy) == (20_000_000, 60, 1, 3)
    assert table_of("second", "--renew") == (20_000_000, 60, 1, 3)
    changed = table_of("third", "--renew", "--budget", "5", "--repeat", "code", "--batch", "1")
    assert changed == (5_000_000, 60, 0, 1)
    assert load_clients(site).clients["hall"].budget == 5.0


def test_root_gives_no_file_away_by_a_link(site, tmp_path, monkeypatch):
    """Who holds the service's user can put links into the folder, and root runs the commands."""
    from discreet.files import PRIVATE, write_whole

    given, prize = [], tmp_path / "not-of-the-site"
    prize.write_text("")

    def chown(name, *_):
        given.append(name)

    def fchown(handle, *_):
        given.append(os.fstat(handle).st_ino)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", chown)
    monkeypatch.setattr(os, "fchown", fchown)
    write_whole(site / "fusion/clients.json", b"{}", PRIVATE)
    assert given == [(site / "fusion/clients.json").stat().st_ino]
    (site / ".lock").symlink_to(prize)
    refused("cannot be changed", enroll, site, EnrolmentRequest("hall"), tmp_path / "hall.enrol")
    assert len(given) == 1


def test_a_renewed_device_has_another_key_and_certificate(site, tmp_path):
    first = enrolled(site)
    enroll(site, EnrolmentRequest("hall", renew=True), tmp_path / "new.enrol")
    second = load_enrolment(tmp_path / "new.enrol")
    assert second.mac_key != first.mac_key and second.certificate != first.certificate
    assert second.previous_key == first.mac_key == load_clients(site).clients["hall"].previous
    assert second.sensors == first.sensors
    *old, new = [each for each in load_register(site).issued if each.name == "hall"]
    assert all(each.revoked is not None for each in old) and new.revoked is None


@needs_mosquitto
@pytest.mark.slow
def test_a_renewed_site_has_other_keys_and_the_old_ones_end(site, tmp_path, monkeypatch, capsys):
    hall, port = enrolled(site), load_site(site).broker.port
    old, shown = tmp_path / "old", tmp_path / "broker.crt"
    shutil.copytree(site / "fusion", old)
    before = {each.serial for each in load_register(site).issued if each.role != "sensor"}
    with broker_of(site):
        assert Visitor(site, "fusion", old / "fusion.crt", old / "fusion.key").connect(port)
        code, printed, _ = run(monkeypatch, capsys, "renew-site", "--site", site)
        assert code == 0 and "broker, fusion" in printed and "by themselves" in printed
        thief = Visitor(site, "fusion", old / "fusion.crt", old / "fusion.key")
        assert eventually(lambda: not thief.connect(port))
        shown.write_text(ssl.get_server_certificate(("localhost", port)))
        # A device that trusts the authority as it was enrolled goes on, and so does the new key.
        for visitor in (fusion_visitor(site), visitor_of(site, hall, tmp_path)):
            assert visitor.connect(port)
            visitor.leave()
    register = load_register(site)
    assert before <= {serial for serial, _ in register.revoked}
    live = {each.role: each.serial for each in register.issued if each.revoked is None}
    serial = x509.load_pem_x509_certificate(shown.read_bytes()).serial_number
    assert live["broker"] == f"{serial:x}"


@needs_mosquitto
@pytest.mark.slow
def test_renewing_ends_the_session_of_the_old_file(site, tmp_path):
    old = enrolled(site)
    port = load_site(site).broker.port
    with broker_of(site):
        holder = visitor_of(site, old, tmp_path)
        assert holder.connect(port)
        done = enroll(site, EnrolmentRequest("hall", renew=True), tmp_path / "new.enrol")
        assert done.old.outcome == "out"
        assert eventually(holder.closed.is_set), "the old file goes on"
        assert not visitor_of(site, old, tmp_path).connect(port)
        device = visitor_of(site, load_enrolment(tmp_path / "new.enrol"), tmp_path)
        assert device.connect(port)
        for visitor in (holder, device):
            visitor.leave()


@needs_mosquitto
@pytest.mark.slow
def test_renewing_says_so_if_the_broker_could_not_be_told(site, tmp_path, monkeypatch, capsys):
    enrolled(site)
    monkeypatch.setattr(removing_devices, "_PATIENCE", 0.5)
    arguments = ("hall", "--site", site, "--out", tmp_path / "new.enrol", "--renew")
    with broker_of(site):
        (site / "broker/mosquitto.pid").unlink()
        code, printed, _ = run(monkeypatch, capsys, "enroll", *arguments)
    assert code == 3 and "THE OLD FILE STILL COUNTS" in printed


def test_a_device_that_comes_back_has_a_new_key_and_counts_on(site, tmp_path, monkeypatch):
    first = enrolled(site)
    assert revoke(site, "hall").outcome == "stopped"
    later = joining.now().replace(year=2040)
    monkeypatch.setattr(joining, "now", lambda: later)
    enroll(site, EnrolmentRequest("hall"), tmp_path / "new.enrol")
    second = load_enrolment(tmp_path / "new.enrol")
    assert second.mac_key != first.mac_key and second.boot > first.boot
    assert load_clients(site).live["hall"].key == second.mac_key


@pytest.mark.parametrize(
    "change",
    [
        {"client": "Hall"},
        {"bundles": []},
        {"bundles": ["!!"]},
        {"mac_key": "00"},
        {"interval": 0},
        {"broker": {"host": "a b", "port": 1}},
        {"more": 1},
        {"sensors": ["hall", "hall"], "bundles": ["", ""]},
    ],
)
def test_a_hostile_enrolment_is_refused_without_its_secrets(site, tmp_path, change):
    content = enrolled(site)
    text = json.dumps({**json.loads(content.as_json()), **change})
    (tmp_path / "bad.enrol").write_text(text)
    message = refused("bad.enrol", load_enrolment, tmp_path / "bad.enrol")
    assert content.mac_key not in message and "PRIVATE KEY" not in message
    assert content.mac_key not in repr(content) and "PRIVATE KEY" not in repr(content)


def test_an_enrolment_that_lacks_a_key_is_refused(site, tmp_path):
    content, file = json.loads(enrolled(site).as_json()), tmp_path / "bad.enrol"
    parts = [(content, name) for name in content]
    parts += [(content["broker"], name) for name in content["broker"]]
    for part, name in parts:
        value = part.pop(name)
        file.write_text(json.dumps(content))
        refused(f"{name}: is missing", load_enrolment, file)
        part[name] = value


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_root_changes_stays_readable_for_the_services(site, tmp_path):
    for path in [site, *site.rglob("*")]:
        os.chown(path, 12_345, 12_345)
    enrolled(site)
    revoke(site, "hall")
    assert {path.stat().st_uid for path in [site, *site.rglob("*")]} == {12_345}


# --- Revoke --------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", ["save_clients", "access_list"])
def test_a_revocation_that_is_cut_short_is_completed_by_any_command(
    site, tmp_path, monkeypatch, cut
):
    watcher = enroll_observer(site, "watcher", tmp_path / "watcher")
    enrolled(site, "hall")

    class Killed(BaseException):
        pass

    def killed(*_):
        raise Killed

    for name in ("watcher", "hall"):
        with monkeypatch.context() as patched, pytest.raises(Killed):
            patched.setattr(authority, cut, killed)
            revoke(site, name)
    enrolled(site, "door")
    assert watcher.name == "watcher"
    rights = (site / "broker/acl").read_text()
    assert "user door" in rights and "user hall" not in rights and "user watcher" not in rights
    listed = x509.load_pem_x509_crl((site / "broker/ca.crl").read_bytes())
    serials = {f"{each.serial_number:x}" for each in listed}
    assert serials == {serial for serial, _ in load_register(site).revoked}
    assert list(load_clients(site).live) == ["door"]


def test_an_enrolment_that_was_killed_is_made_again(site, tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    def killed(*_):
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(authority, "save_clients", killed)
        enroll(site, EnrolmentRequest("hall"), tmp_path / "hall.enrol")
    assert enrolled(site, "hall").mac_key == load_clients(site).live["hall"].key


@needs_mosquitto
@pytest.mark.slow
def test_the_broker_takes_the_longest_message_and_no_longer_packet(site, tmp_path):
    gateway = enrolled(site, "gateway", sensors=["door"], batch=65_535)
    topic, port = "discreet/v1/home/gateway/z", load_site(site).broker.port
    with broker_of(site):
        fusion, device = fusion_visitor(site), visitor_of(site, gateway, tmp_path)
        assert fusion.connect(port) and device.connect(port)
        fusion.subscribe(topic)
        device.publish(topic, bytes(65_535 + 47))
        assert eventually(lambda: fusion.messages)
        device.publish(topic, bytes(200_000))
        assert eventually(device.closed.is_set)
        for each in (fusion, device):
            each.leave()


def test_workers_share_messages_under_a_name_that_no_device_can_guess(tmp_path):
    folders = [tmp_path / str(i) for i in range(2)]
    for each in folders:
        each.mkdir()
    sites = [make_site(each, workers=2) for each in folders]
    names = {worker_group(each) for each in sites}
    assert len(names) == 2 and all(re.fullmatch("[0-9a-f]{32}", each) for each in names)


@needs_mosquitto
@pytest.mark.slow
def test_an_offline_device_cannot_join_the_workers(tmp_path):
    """A member that the broker may not send to would take its share of the messages with it."""
    site = make_site(tmp_path, workers=2)
    hall, door = enrolled(site), enrolled(site, "door")
    port, topic = load_site(site).broker.port, "discreet/v1/home/door/z"
    known = worker_group(site)
    files = [SiteFiles(site).fusion_certificate(worker) for worker in (1, 2)]
    with broker_of(site):
        workers = [Visitor(site, worker_name(i + 1), *pair) for i, pair in enumerate(files)]
        device = visitor_of(site, door, tmp_path)
        assert all(each.connect(port) for each in (*workers, device))

        def heard(group, guesses, count=20):
            """How many messages reach a worker, while the thief waits in some groups."""
            stays = Properties(PacketTypes.CONNECT)
            stays.SessionExpiryInterval = 600
            thief = visitor_of(site, hall, tmp_path)
            assert thief.connect(port, clean_start=True, properties=stays)
            for each in guesses:
                thief.subscribe(shared(each, topic))
            thief.leave()
            for each in workers:
                each.subscribe(shared(group, topic))
                each.messages.clear()
            for k in range(count):
                device.publish(topic, f"{group} {k}".encode())
            came = lambda: sum(len(each.messages) for each in workers)  # noqa: E731
            eventually(lambda: came() >= count, 3.0)
            for each in workers:
                each.client.unsubscribe(shared(group, topic))
            return came()

        guesses = ["discreet", "fusion", "workers", "home", load_site(site).key, "+"]
        assert heard(known, guesses) == 20
        assert heard("discreet", ["discreet"]) < 20, "the attack does not work: nothing is tested"
        for each in (*workers, device):
            each.leave()


def test_nobody_unknown_is_revoked(site):
    enrolled(site)
    for name in ("hal", "fusion", "broker", "../hall"):
        refused("was ever enrolled", revoke, site, name)


@needs_mosquitto
@pytest.mark.slow
def test_a_revoked_device_is_cut_and_kept_out_while_others_go_on(site, tmp_path):
    hall, door = enrolled(site), enrolled(site, "door")
    port = load_site(site).broker.port
    with broker_of(site):
        fusion, other = fusion_visitor(site), visitor_of(site, door, tmp_path)
        thief = visitor_of(site, hall, tmp_path)
        assert fusion.connect(port) and other.connect(port) and thief.connect(port)
        fusion.subscribe("discreet/v1/home/+/z")
        thief.subscribe("discreet/v1/home/hall/ack")
        thief.publish("discreet/v1/home/hall/z", b"before")
        assert eventually(lambda: ("discreet/v1/home/hall/z", b"before") in fusion.messages)

        assert revoke(site, "hall").outcome == "out"

        assert load_clients(site).clients["hall"].revoked is not None
        assert eventually(thief.closed.is_set), "the live session goes on"
        again = visitor_of(site, hall, tmp_path)
        assert not again.connect(port)
        fusion.publish("discreet/v1/home/hall/ack", b"not for a thief")
        other.publish("discreet/v1/home/door/z", b"after")
        assert eventually(lambda: ("discreet/v1/home/door/z", b"after") in fusion.messages)
        assert (fusion.drops, other.drops) == (0, 0)
        assert thief.messages == again.messages == []
        for visitor in (fusion, other, thief, again):
            visitor.leave()


@needs_mosquitto
@pytest.mark.slow
def test_a_thief_who_reconnects_and_publishes_all_the_time_gets_nothing_through(site, tmp_path):
    hall = enrolled(site)
    port = load_site(site).broker.port
    with broker_of(site):
        fusion = fusion_visitor(site)
        assert fusion.connect(port)
        fusion.subscribe("discreet/v1/home/+/z")
        thief = visitor_of(site, hall, tmp_path)
        thief.client._reconnect_on_failure = True
        thief.client.reconnect_delay_set(1, 1)
        assert thief.connect(port)
        thief.publish("discreet/v1/home/hall/z", b"before")
        assert eventually(lambda: fusion.messages)
        assert revoke(site, "hall").outcome == "out"
        seen = len(fusion.messages)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            thief.publish("discreet/v1/home/hall/z", b"after")
            time.sleep(0.02)
        assert len(fusion.messages) == seen
        thief.leave()
        fusion.leave()


@needs_mosquitto
def test_a_broker_that_cannot_be_told_is_not_said_to_refuse(site, tmp_path, monkeypatch):
    hall = enrolled(site)
    monkeypatch.setattr(removing_devices, "_PATIENCE", 0.5)
    with broker_of(site) as broker:
        # The port is open before the list is read; once a device gets in, it has been.
        assert eventually(lambda: visitor_of(site, hall, tmp_path).connect(broker.port))
        (site / "broker/mosquitto.pid").unlink()
        assert revoke(site, "hall").outcome == "pending"
        broker.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: not visitor_of(site, hall, tmp_path).connect(broker.port))
        # Done again, it can be seen to be in force.
        assert revoke(site, "hall").outcome == "out"


def test_a_broker_that_cannot_be_reached_may_still_run(site, monkeypatch):
    enrolled(site)
    silent = removing_devices.Attempt("unreachable", "timed out")
    monkeypatch.setattr(removing_devices, "try_connection", lambda *_: silent)
    assert revoke(site, "hall") == removing_devices.Revoked("pending", "timed out")


def test_a_stale_process_number_is_not_hung_up_on(site):
    from discreet.network.broker import reload_broker

    asked = []
    old = signal.signal(signal.SIGHUP, lambda *_: asked.append(1))
    try:
        (site / "broker/mosquitto.pid").write_text(f"{os.getpid()}\n")
        assert not reload_broker(site)
    finally:
        signal.signal(signal.SIGHUP, old)
    assert asked == []


@needs_mosquitto
@pytest.mark.slow
def test_an_observer_reads_the_decision_and_nothing_else(site, tmp_path):
    hall = enrolled(site)
    enroll_observer(site, "watcher", tmp_path / "watcher")
    names = sorted(path.name for path in (tmp_path / "watcher").iterdir())
    assert names == ["bridge.conf", "ca.crt", "watcher.crt", "watcher.key"]
    port = load_site(site).broker.port
    with broker_of(site):
        folder = tmp_path / "watcher"
        watcher = Visitor(site, "watcher", folder / "watcher.crt", folder / "watcher.key")
        sensor, fusion = visitor_of(site, hall, tmp_path), fusion_visitor(site)
        assert watcher.connect(port) and sensor.connect(port) and fusion.connect(port)
        for topic in ("#", "homeassistant/#", "discreet/v1/home/#"):
            watcher.subscribe(topic)
        fusion.subscribe("discreet/v1/home/+/z")
        watcher.publish("discreet/v1/home/decision", b"forged")
        sensor.publish("discreet/v1/home/hall/z", b"symbols")
        assert eventually(lambda: fusion.messages)
        fusion.publish("discreet/v1/home/hall/ack", b"ack")
        fusion.publish("discreet/v1/home/decision", b"true")
        assert eventually(lambda: watcher.messages)
        assert {message for message in watcher.messages} == {("discreet/v1/home/decision", b"true")}
        assert revoke(site, "watcher").outcome == "out"
        assert eventually(watcher.closed.is_set)
        for visitor in (watcher, sensor, fusion):
            visitor.leave()


@needs_mosquitto
@pytest.mark.slow
def test_a_bridge_brings_the_decision_to_the_broker_of_a_household(site, tmp_path):
    for name in ("household", "watcher"):
        enroll_observer(site, name, tmp_path / name)
    files, port = tmp_path / "watcher", load_site(site).broker.port
    decision = "discreet/v1/home/decision"
    with broker_of(site):
        watcher = Visitor(site, "watcher", files / "watcher.crt", files / "watcher.key")
        fusion = fusion_visitor(site)
        assert fusion.connect(port) and watcher.connect(port)
        watcher.subscribe(decision)
        own = Broker.plain(tmp_path / "own", free_port())
        bridge = (tmp_path / "household" / "bridge.conf").read_text()
        bridge = bridge.replace(BRIDGE_FOLDER, str(tmp_path / "household"))
        with (tmp_path / "own" / "mosquitto.conf").open("a") as config:
            config.write(bridge)
        with own:
            resident = Visitor(site, "resident", tls=False)
            assert resident.connect(own.port)
            resident.subscribe("#")

            def heard():
                fusion.publish(decision, b"true")
                fusion.publish("homeassistant/binary_sensor/x/config", b"{}")
                return len({topic for topic, _ in resident.messages}) == 2

            assert eventually(heard)
            resident.publish(decision, b"forged")
            assert eventually(lambda: (decision, b"forged") in resident.messages)
            fusion.publish(decision, b"last")
            assert eventually(lambda: (decision, b"last") in resident.messages)
            assert eventually(lambda: (decision, b"last") in watcher.messages)
            resident.leave()
        assert (decision, b"forged") not in watcher.messages  # nothing goes the other way
        for visitor in (fusion, watcher):
            visitor.leave()
    told = {(decision, b"true"), ("homeassistant/binary_sensor/x/config", b"{}")}
    assert told <= set(resident.messages)
