import time

import pytest
from support.replays import TOPICS, Fusion, _message, refusals, replayed, stored
from support.sites import broker_of, eventually, make_site, needs_mosquitto, visitor_of

from discreet.network.site import removing_devices
from discreet.network.site.joining import EnrolmentRequest, enroll
from discreet.network.site.removing_devices import revoke
from discreet_sensor.enrolment import load_enrolment

pytestmark = pytest.mark.slow


@needs_mosquitto
def test_a_capture_played_back_is_stored_by_nobody(tmp_path):
    tried, reasons = replayed(tmp_path, 20)
    assert tried.attempts == 7 * 20 and tried.accepted == 0
    # Each way was judged by somebody: this is no test of messages that never arrived.
    assert reasons["door", "mac"] == 20  # the topic is part of what is signed
    assert reasons["hall", "mac"] == 20  # a number cannot be changed
    # The third time by a fusion centre that was restarted.
    assert reasons["hall", "replay"] == 60


@needs_mosquitto
def test_the_fusion_centre_believes_a_revoked_device_nothing_even_if_the_broker_lets_it_in(
    tmp_path, monkeypatch
):
    site = make_site(tmp_path, interval=0.05, deadline=60.0)
    enroll(site, EnrolmentRequest("hall"), tmp_path / "hall.enrol")
    content = load_enrolment(tmp_path / "hall.enrol")
    monkeypatch.setattr(removing_devices, "_PATIENCE", 0.2)
    time.sleep(1.0)
    with broker_of(site) as broker, Fusion(site) as fusion:
        (site / "broker/mosquitto.pid").unlink()  # as if it ran elsewhere
        hall = visitor_of(site, content, tmp_path)
        assert hall.connect(broker.port)
        hall.publish(f"{TOPICS}/hall/z", _message(content, 0))
        assert eventually(lambda: len(stored(site)) == 1)
        assert revoke(site, "hall").outcome == "pending"
        again = visitor_of(site, content, tmp_path)
        assert again.connect(broker.port)
        assert eventually(lambda: fusion.service._registry.by_name["hall"].revoked)
        for number in range(1, 6):
            again.publish(f"{TOPICS}/hall/z", _message(content, number))
        assert eventually(lambda: refusals(site).get(("hall", "revoked")) == 5)
        assert len(stored(site)) == 1
        for each in (hall, again):
            each.leave()
