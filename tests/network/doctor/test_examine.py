import json
import math
import os
import ssl
import time
from datetime import UTC, date, datetime, timedelta

import pytest
from support.commands import run
from support.dashboards import make_audit
from support.helpers import make_mapping, refused
from support.sites import broker_of, make_site, needs_mosquitto

from discreet.auditing.audit_file import AuditSummary
from discreet.auditing.recheck import Withdrawal, begin, begin_watch, claims_of
from discreet.network import doctor
from discreet.network.broker import Broker
from discreet.network.doctor import examine, ok, warning
from discreet.network.site import authority as authority_module
from discreet.network.site import removing_devices
from discreet.network.site.authority import Authority, make_authority
from discreet.network.site.joining import EnrolmentRequest, enroll, enroll_observer
from discreet.network.site.removing_devices import revoke
from discreet.network.site.settings import (
    SiteFiles,
    load_clients,
    load_site,
    model_bytes,
    save_clients,
)
from discreet.network.store import open_store
from discreet.network.store.rows import Batch, Decision, StoredMessage


@pytest.fixture
def site(tmp_path):
    return make_site(tmp_path)


def findings(checks):
    return {each.subject: each for each in checks}


def by_subject(site):
    return findings(examine(site))


def change_settings(site, **changes):
    settings = load_site(site).model_copy(update=changes)
    (site / "site.json").write_bytes(model_bytes(settings))
    return settings


def test_every_finding_that_is_not_well_says_what_to_do(site):
    for each in examine(site):
        assert bool(each.fix) == (each.level != "ok"), each
        assert each.words and "Traceback" not in each.words


@needs_mosquitto
def test_a_site_that_runs_is_well(site, tmp_path):
    for name in ("hall", "door"):
        enroll(site, EnrolmentRequest(name), tmp_path / f"{name}.enrol")
    settings = load_site(site)
    store = open_store(settings.database, site, settings.key)
    store.prepare()
    now = time.time()
    number = max(0, math.floor((now - settings.epoch) / settings.interval) - 1)
    rows = [StoredMessage(name, 1, 0, number, b"\0", 0, now) for name in ("hall", "door")]
    store.commit(Batch(rows))
    store.decide([Decision(number, now, 2, 2, (0.5, 0.5), "no")])
    store.note({"queue": 0}, now)
    store.close()
    with broker_of(site):
        found = by_subject(site)
    unwell = {name for name, each in found.items() if each.level != "ok"}
    assert unwell <= {"guarantee", "re-check", "clock", "disk"}  # the latter two are this machine's
    assert "refuses clients without a certificate" in found["TLS"].words


def test_a_folder_that_is_no_site_is_one_message(tmp_path):
    refused("is no site", lambda: list(examine(tmp_path)))


# --- The machine ---------------------------------------------------------------------------


def test_a_clock_before_the_site_was_made(site):
    settings = change_settings(site, epoch=int(datetime.now(UTC).timestamp()) + 10_000)
    assert findings(doctor.clock(settings))["clock"].level == "failure"


@pytest.mark.parametrize(("said", "level"), [(True, "ok"), (False, "warning"), (None, "ok")])
def test_a_clock_that_nobody_keeps(site, monkeypatch, said, level):
    monkeypatch.setattr(doctor, "_is_synchronised", lambda: said)
    assert findings(doctor.clock(load_site(site)))["clock"].level == level


def test_a_stuck_random_source(monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda size: b"\1" * size)
    found = findings(doctor.randomness())["randomness"]
    assert found.level == "failure" and "Do not run sensors" in found.fix


def test_randomness_that_is_not_there_yet(monkeypatch):
    def not_yet(*_):
        raise BlockingIOError

    monkeypatch.setattr(os, "getrandom", not_yet)
    assert findings(doctor.randomness())["randomness"].level == "failure"


@pytest.mark.parametrize(
    ("free", "level"), [(5e10, "ok"), (9e8, "warning"), (4e9, "warning"), (9e7, "failure")]
)
def test_room_on_the_disk(site, monkeypatch, free, level):
    usage = type("Usage", (), {"free": free, "total": 1e11 if free > 1e9 else 1e10})
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: usage)
    assert findings(doctor.disk(site))["disk"].level == level


def test_a_disk_that_cannot_be_written(site, monkeypatch):
    def full(*_args, **_more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", full)
    found = findings(doctor.disk(site))["disk"]
    assert found.level == "failure" and "No space left" in found.words


def test_keys_that_others_can_read(site):
    (site / "keys/ca.key").chmod(0o644)
    assert findings(doctor.privacy(site))["privacy"].level == "ok"  # the folder is closed
    site.chmod(0o755)
    found = findings(doctor.privacy(site))["privacy"]
    assert found.level == "failure" and "ca.key" in found.words and "chmod" in found.fix


def test_a_file_that_is_taken_away_meanwhile_is_not_an_error(site, monkeypatch):
    gone = [*site.rglob("*"), site / "data/fusion.db-wal"]
    monkeypatch.setattr(type(site), "rglob", lambda *_: iter(gone))
    assert findings(doctor.privacy(site))["privacy"].level == "ok"


# --- Certificates --------------------------------------------------------------------------


@pytest.mark.parametrize(("days", "level"), [(3000, "ok"), (30, "warning"), (-1, "failure")])
def test_certificates_and_the_revocation_list_grow_old(tmp_path, monkeypatch, days, level):
    past = datetime.now(UTC).replace(microsecond=0) - timedelta(days=3652 - days)
    with monkeypatch.context() as patched:
        patched.setattr(authority_module, "now", lambda: past)
        site = make_site(tmp_path)
    found = findings(doctor.certificates(site, load_site(site)))
    for subject in ("certificate of the authority", "certificate of the broker", "revocation list"):
        assert found[subject].level == level, subject
    if level == "failure":
        assert "refuses every connection" in found["revocation list"].words


def test_foreign_and_damaged_certificates(site):
    other = Authority(*make_authority("home"))
    (site / "broker/broker.crt").write_bytes(
        other.issue_server("broker", ["localhost"]).certificate
    )
    (site / "broker/ca.crl").write_bytes(other.revocation_list([]))
    (site / "fusion/fusion.crt").write_text("nothing")
    found = findings(doctor.certificates(site, load_site(site)))
    assert "not of this site's authority" in found["certificate of the broker"].words
    assert "not of this site's authority" in found["revocation list"].words
    assert found["certificate of the fusion"].level == "failure"
    (site / "broker/ca.crt").unlink()
    assert findings(doctor.certificates(site, load_site(site)))["certificates"].fix


def test_devices_whose_certificates_end(site, tmp_path):
    enroll(site, EnrolmentRequest("hall", days=10), tmp_path / "hall.enrol")
    found = findings(doctor.devices(site))["devices' certificates"]
    assert found.level == "warning" and "discreet enroll hall --renew" in found.fix
    revoke(site, "hall")
    assert findings(doctor.devices(site))["devices' certificates"].level == "ok"
    for file in (site / "keys").glob("*.json"):
        file.unlink()  # as where keys are kept elsewhere
    assert "not here" in findings(doctor.devices(site))["devices' certificates"].words


def test_an_observer_is_told_how_to_get_a_new_certificate(site, tmp_path):
    enroll_observer(site, "watcher", tmp_path / "watcher", days=10)
    found = findings(doctor.devices(site))["devices' certificates"]
    assert "discreet revoke watcher, then discreet enroll watcher --observer" in found.fix


# --- The broker ----------------------------------------------------------------------------


def test_no_mosquitto_and_an_old_one(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "find_mosquitto", lambda: None)
    assert findings(doctor.program())["Mosquitto"].level == "warning"
    old = tmp_path / "mosquitto"
    old.write_text("#!/bin/sh\necho mosquitto version 1.6.9\n")
    old.chmod(0o755)
    monkeypatch.setattr(doctor, "find_mosquitto", lambda: old)
    found = findings(doctor.program())["Mosquitto"]
    assert found.level == "failure" and "1.6.9" in found.words


def test_a_broker_that_does_not_run(site):
    found = findings(doctor.broker(site, load_site(site)))
    assert found["broker"].level == "failure" and "systemctl start" in found["broker"].fix


@needs_mosquitto
def test_the_broker_of_somebody_else(site, tmp_path):
    (tmp_path / "other").mkdir()
    other = make_site(tmp_path / "other")
    with broker_of(other):
        settings = change_settings(site, broker=load_site(other).broker)
        found = findings(doctor.broker(site, settings))["TLS"]
    assert found.level == "failure" and "not good for localhost" in found.words


@needs_mosquitto
@pytest.mark.slow
def test_a_broker_without_tls_and_one_that_asks_for_no_certificate(site, tmp_path):
    settings = load_site(site)
    with Broker.plain(tmp_path / "plain", settings.broker.port):
        assert findings(doctor.broker(site, settings))["TLS"].level == "failure"
    config = site / "broker/mosquitto.conf"
    text = config.read_text().replace("require_certificate true", "require_certificate false")
    text = text.replace("use_identity_as_username true", "").replace("acl_file acl", "")
    text = text.replace("use_username_as_clientid true", "").replace("crlfile ca.crl", "")
    config.write_text(text.replace("allow_anonymous false", "allow_anonymous true"))
    with broker_of(site):
        found = findings(doctor.broker(site, settings))["TLS"]
    assert found.level == "failure" and "whoever comes" in found.words


@needs_mosquitto
@pytest.mark.slow
def test_a_broker_that_has_not_taken_the_revocation(site, tmp_path, monkeypatch):
    enroll(site, EnrolmentRequest("hall"), tmp_path / "hall.enrol")
    monkeypatch.setattr(removing_devices, "_PATIENCE", 0.2)
    settings = load_site(site)
    with broker_of(site) as broker:
        (site / "broker/mosquitto.pid").unlink()
        assert revoke(site, "hall").outcome == "pending"
        found = findings(doctor.broker(site, settings))
        assert found["revocation"].level == "failure" and "reload" in found["revocation"].fix
        broker.reload()
        assert revoke(site, "hall").outcome == "out"
        assert findings(doctor.broker(site, settings))["revocation"].level == "ok"


@needs_mosquitto
@pytest.mark.slow
def test_the_last_revocation_is_the_one_that_is_tried(tmp_path, monkeypatch):
    site = make_site(tmp_path)
    for name in ("z1", "z2", "z3", "a"):
        enroll(site, EnrolmentRequest(name, ["hall"]), tmp_path / f"{name}.enrol")
        if name != "a":
            revoke(site, name)
    monkeypatch.setattr(removing_devices, "_PATIENCE", 0.2)
    with broker_of(site):
        (site / "broker/mosquitto.pid").unlink()
        assert revoke(site, "a").outcome == "pending"
        found = findings(doctor.broker(site, load_site(site)))["revocation"]
    assert found.level == "failure" and "on which a is" in found.words


def test_a_revocation_that_cannot_be_tried_is_not_said_to_hold(site):
    for suffix in ("crt", "key"):
        (site / "keys/probes" / f"hall.{suffix}").write_text("nothing")
    found = findings(doctor._list_in_force(load_site(site), SiteFiles(site)))["revocation"]
    assert found.level == "warning" and "could not be tried" in found.words


@needs_mosquitto
def test_a_probe_that_has_expired_proves_nothing(site):
    past, day = datetime.now(UTC) - timedelta(days=30), timedelta(days=1)
    probe = authority_module.load_authority(site).issue_client("hall", start=past, valid=day)
    (site / "keys/probes/hall.crt").write_bytes(probe.certificate)
    (site / "keys/probes/hall.key").write_bytes(probe.key)
    with broker_of(site):
        found = findings(doctor.broker(site, load_site(site)))["revocation"]
    assert found.level == "warning" and "could not be tried" in found.words


@needs_mosquitto
def test_looking_at_the_broker_cuts_nobodys_session(site):
    from support.sites import fusion_visitor

    settings = load_site(site)
    with broker_of(site):
        fusion = fusion_visitor(site)
        assert fusion.connect(settings.broker.port)
        assert findings(doctor.broker(site, settings))["TLS"].level == "ok"
        assert fusion.drops == 0
        fusion.leave()


def test_a_host_that_hangs_up_at_once_is_a_refusal(site, monkeypatch):
    class Line:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    def broken(*_args, **_more):
        raise ssl.SSLError("alert")

    monkeypatch.setattr(doctor.socket, "create_connection", lambda *_: Line())
    monkeypatch.setattr(ssl.SSLContext, "wrap_socket", broken)
    assert doctor.knock(load_site(site), site / "broker/ca.crt") == "refused"


# --- What runs -----------------------------------------------------------------------------


def test_a_silent_fusion_centre_and_a_damaged_database(site):
    settings = load_site(site)
    store = open_store(settings.database, site, settings.key)
    store.prepare()
    assert findings(doctor.database(site, settings))["fusion centre"].level == "failure"
    store.note({"queue": 0}, datetime.now(UTC).timestamp() - 7200)
    store.close()
    found = findings(doctor.database(site, settings))["fusion centre"]
    assert found.level == "failure" and "2 hours" in found.words
    for file in (site / "data").glob("fusion.db*"):
        file.write_bytes(b"not a database" * 1000)
    assert findings(doctor.database(site, settings))["database"].level == "failure"


def test_a_silent_worker_among_others(site):
    settings = change_settings(site, workers=2)
    store = open_store(settings.database, site, settings.key)
    store.prepare()
    store.note({"worker fusion": 0}, time.time())
    found = findings(doctor.database(site, settings))["fusion centre"]
    assert found.level == "warning" and "silent. fusion-2" in found.words
    assert f"discreet-{settings.key}-fusion-2" in found.fix
    store.note({"worker fusion-2": 0}, time.time())
    assert findings(doctor.database(site, settings))["fusion centre"].level == "ok"
    store.close()


def test_a_database_server_that_is_away_and_no_password_shown(site):
    url = "postgresql://me:hunter2@127.0.0.1:1/home?connect_timeout=2"
    found = findings(doctor.database(site, change_settings(site, database=url)))["database"]
    assert found.level == "failure" and "hunter2" not in found.words


def test_devices_that_fit_the_mapping(site, tmp_path):
    settings = load_site(site)
    assert "'hall', 'door'" in findings(doctor.mapping(site, settings))["devices"].words
    for name in ("hall", "door"):
        enroll(site, EnrolmentRequest(name), tmp_path / f"{name}.enrol")
    assert findings(doctor.mapping(site, settings))["devices"].level == "ok"
    clients = load_clients(site)
    stale = clients.clients["hall"].model_copy(update={"mapping": "sha256:" + "0" * 64})
    save_clients(site, clients.with_client("hall", stale))
    found = findings(doctor.mapping(site, settings))["devices"]
    assert found.level == "failure" and "discreet enroll hall --renew" in found.fix
    (site / "fusion/clients.json").write_text("{")
    assert findings(doctor.mapping(site, settings))["devices"].level == "failure"
    (site / "mapping.json").write_text("{}")
    assert findings(doctor.mapping(site, settings))["mapping"].level == "failure"


def test_a_guarantee_that_has_ended_or_is_damaged(site):
    settings = load_site(site)
    assert findings(doctor.mapping(site, settings))["guarantee"].level == "warning"
    (site / "audit.json").write_text(json.dumps({"private": []}))
    assert findings(doctor.mapping(site, settings))["guarantee"].level == "failure"
    running = make_mapping()
    facts = tuple(fact.name for fact in running.private)
    audit = make_audit(running, date(2026, 1, 1), facts=facts)
    today = datetime.now(UTC).date()
    # Not green before somebody has re-checked it.
    for day, expires, level, fix in (
        (today, today + timedelta(days=90), "warning", "discreet recheck"),
        (date(2026, 1, 1), today + timedelta(days=90), "failure", "discreet recheck"),
        (today + timedelta(days=1), today + timedelta(days=90), "failure", "Audit it on fresh"),
        (date(2026, 1, 1), date(2026, 2, 1), "failure", "Audit it on fresh"),
    ):
        (site / "audit.json").write_text(json.dumps(audit | {"date": day.isoformat()}))
        settings = change_settings(site, expires=expires)
        seen = findings(doctor.mapping(site, settings))
        assert seen["guarantee"].level == level and fix in seen["guarantee"].fix
        assert "re-check" not in seen  # one cause, one finding
    claims, _ = claims_of(AuditSummary.model_validate(audit))
    found = begin(running, claims, date(2026, 1, 1))
    found.rows, found.supported = 300, today
    for withdrawn, level in (
        (None, "ok"),
        (Withdrawal(on=today, rows=300, words="too much"), "failure"),
    ):
        found.withdrawn = withdrawn
        found.save(site / "recheck.json")
        settings = change_settings(site, expires=today + timedelta(days=90))
        seen = findings(doctor.mapping(site, settings))
        assert seen["guarantee"].level == level
        assert ("re-check" in seen) == (level == "ok")
    assert "discreet change-mapping" in seen["guarantee"].fix  # rows do not bring it back
    (site / "recheck.json").write_text("{")
    assert findings(doctor.mapping(site, settings))["guarantee"].level == "failure"


def test_drift_without_labels_is_shown_with_what_it_cannot_see(site):
    def look():
        return findings(doctor.mapping(site, load_site(site)))["drift"]

    assert look().level == "ok" and "no whole day" in look().words
    watch = begin_watch(make_mapping().id)
    for alarmed, level in ((None, "ok"), (date(2026, 3, 1), "warning")):
        watch.alarmed = alarmed
        SiteFiles(site).drift.write_text(watch.model_dump_json())
        found = look()
        assert found.level == level and "Who causes the symbols does not show" in found.words
    assert "discreet recheck" in found.fix


# --- The command ---------------------------------------------------------------------------


def test_the_command_tells_and_its_exit_code_counts(site, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, printed, error = run(monkeypatch, capsys, "doctor")
    assert (code, error) == (3, "")
    assert "FAILURE  broker" in printed and "-> Start it" in printed and "to fix" in printed
    code, printed, _ = run(monkeypatch, capsys, "doctor", "--site", "site", "--json")
    assert code == 3 and any(each["subject"] == "broker" for each in json.loads(printed))

    for seen, options, expected in (
        ([ok("a", "b")], (), 0),
        ([warning("a", "b", "c")], (), 0),
        ([warning("a", "b", "c")], ("--strict",), 3),
    ):
        monkeypatch.setattr(doctor, "examine", lambda _, seen=seen: seen)
        code, printed, _ = run(monkeypatch, capsys, "doctor", *options)
        assert code == expected and ("all 1 well" in printed) == (seen[0].level == "ok")
