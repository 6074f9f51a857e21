"""Devices whose state was lost, restored or copied are noticed and named."""

import time
from dataclasses import replace

import pytest
from support.jumping_sites import NAMES, SimulatedSite
from support.network_samples import additive_mapping
from support.sites import make_site

from discreet.network.site.joining import EnrolmentRequest, enroll
from discreet.network.site.removing_devices import revoke
from discreet.network.site.settings import load_site
from discreet.network.store import open_store
from discreet.network.store.rows import RESTORED, Batch, StoredMessage
from discreet_sensor.enrolment import load_enrolment
from discreet_sensor.outbox import Outbox
from discreet_sensor.running import Releaser


@pytest.fixture
def site(tmp_path):
    site = SimulatedSite(tmp_path, additive_mapping(names=NAMES))
    yield site
    site.stop()


def alarms(site):
    return [(each.client, each.kind) for each in site.service._store.alarms()]


def known(site, name):
    return next(each for each in site.service._store.clients() if each.client == name)


@pytest.mark.slow
@pytest.mark.parametrize("restart", [False, True])
def test_a_device_that_has_spent_less_than_before_is_noticed(site, restart):
    hall = site.devices[0]
    hall.spent = 3_000_000
    site.run(4)
    assert alarms(site) == []
    if restart:
        site.start()
    hall.boot, hall.seq, hall.spent = hall.boot + 1, 0, 100_000  # a card was restored
    site.run(4)
    assert alarms(site) == [("hall", RESTORED)]
    (found,) = site.service._store.alarms()
    assert "had spent 3 nats, and now reports 0.1 nats" in found.words
    assert "discreet enroll hall --renew" in found.fix
    assert known(site, "hall").spent == 3_000_000
    hall.spent = 3_000_000  # as much again, which settles nothing
    site.run(4)
    if restart:
        site.start()
        site.run(2)
    assert alarms(site) == [("hall", RESTORED)]
    hall.boot, hall.seq, hall.spent = hall.boot + 1, 0, 3_100_000  # the floor was handed back
    site.run(4)
    assert alarms(site) == [] and known(site, "hall").spent == 3_100_000


@pytest.mark.slow
def test_what_waited_from_before_a_restart_is_no_fall(site):
    hall = site.devices[0]
    site.run(4)
    first, hall.spent = hall.spent, 500_000
    late = StoredMessage("hall", 0, 0, 1, b"\1", first, site.true)
    site.run(2)
    site.service._watch.notice([late])
    site.run(2)
    assert alarms(site) == []


@pytest.mark.slow
def test_a_quiet_hour_raises_no_alarm(tmp_path):
    site = SimulatedSite(tmp_path, additive_mapping(names=NAMES), interval=30.0)
    site.run(2)
    seen = []
    for _ in range(120):
        site.run(1)
        seen += site.service.state.findings()
    site.stop()
    assert seen == [] and site.service.state.value("decisions") >= 120


@pytest.fixture
def real(tmp_path):
    return make_site(tmp_path, additive_mapping(names=NAMES))


def hear(site, name, spent, boot):
    store = open_store(load_site(site).database, site, load_site(site).key)
    store.prepare()
    store.commit(Batch([StoredMessage(name, boot, 0, 5, b"\1", spent, time.time())]))
    store.close()


def start(enrolment, folder):
    """Start a device and return what its ledgers have counted, and the number of the start."""
    with Outbox(folder, enrolment.boot) as outbox:
        releaser = Releaser(enrolment, folder, outbox)
        found = releaser.spent, outbox.boot
        releaser.close()
    return found


@pytest.mark.slow
def test_renewing_hands_a_device_what_it_had_spent(real, tmp_path):
    enroll(real, EnrolmentRequest("hall"), tmp_path / "a.enrol")
    assert load_enrolment(tmp_path / "a.enrol").spent == 0
    far = int(time.time()) + 10**9  # by a clock that was ahead
    hear(real, "hall", 2_500_000, far)
    done = enroll(real, EnrolmentRequest("hall", renew=True), tmp_path / "b.enrol")
    assert done.spent == 2_500_000
    renewed = load_enrolment(tmp_path / "b.enrol")
    assert start(renewed, tmp_path / "lost") == (2_500_000, far + 1)
    # A device that has lost nothing keeps its own count, and starts are never numbered twice.
    assert start(replace(renewed, spent=0), tmp_path / "lost") == (2_500_000, far + 2)


@pytest.mark.slow
def test_a_device_that_takes_the_place_of_another_goes_on_from_what_was_spent(real, tmp_path):
    enroll(real, EnrolmentRequest("hall"), tmp_path / "a.enrol")
    hear(real, "hall", 700_000, 5)
    revoke(real, "hall")
    done = enroll(real, EnrolmentRequest("hall2", ["hall"]), tmp_path / "b.enrol")
    assert done.spent == load_enrolment(tmp_path / "b.enrol").spent == 700_000
    other = enroll(real, EnrolmentRequest("door"), tmp_path / "c.enrol")
    assert other.spent == 0


@pytest.mark.slow
def test_a_database_that_cannot_be_read_is_told_by_whoever_enrols(real, tmp_path):
    (real / "data/fusion.db").write_bytes(b"not a database" * 1000)
    assert enroll(real, EnrolmentRequest("hall"), tmp_path / "a.enrol").spent is None
