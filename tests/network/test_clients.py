"""Devices of every kind on a real site: kills, lost answers, reboots, revocation."""

import time
from types import SimpleNamespace

import pytest
from support.matrices import sparing
from support.network_figures.clients import KINDS, MixedHome, needs_kind, survive
from support.network_figures.home import wait_until
from support.sites import needs_mosquitto

from discreet.network.site.removing_devices import revoke

pytestmark = [pytest.mark.slow, needs_mosquitto]
EACH = [pytest.param(kind, marks=needs_kind(kind)) for kind in KINDS]


# The one in Python is killed in test_faults_kills.py.
@pytest.mark.parametrize("kind", sparing(EACH, "c", "micropython"))
def test_kills_and_lost_answers_lose_nothing(tmp_path, kind):
    home = survive(tmp_path, rounds=60, kills=2, kinds=(kind,), seed=1)
    tally = home.tally()
    assert tally.clean and tally.stored >= 60, str(tally)
    assert home.undelivered == 0
    assert home.observer.differing == 0 and home.observer.repeated > 0
    boots = {boot for _, boot, _ in home.written()}
    assert len(boots) >= 2  # the first start, and those after kills that lived to send


def test_what_a_device_gave_up_is_undelivered():
    home = object.__new__(MixedHome)
    home.names, home.settings = [], SimpleNamespace(epoch=0, interval=1.0)
    message = SimpleNamespace(round=1)
    kept = {("c", 7, seq): (message, False) for seq in (0, 1, 3)}  # 2 was given up unseen
    home.written = lambda: kept
    home.stored = lambda: ([("c", 7, 0), ("c", 7, 3), ("c", 8, 0)], 3)  # and 1 after it was sent
    home.settle(0)
    assert home.undelivered == 2


BEHIND = 6  # seconds


def start_behind(home, kind):
    """Have messages wait while the broker is away, then start the device with its clock behind.

    Returns the numbers of all messages from before.
    """
    wait_until(lambda: home.least_stored() >= 5, "traffic")
    home.broker.kill()
    wait_until(lambda: home.waiting(time.time()) > 4, "messages that wait")
    # A time before the epoch would be none at all.
    wait_until(lambda: time.time() > home.settings.epoch + BEHIND + 2, "some rounds")
    home.kill(kind)
    home.broker.start()
    wait_until(lambda: "connected" in home.fusion_says().rsplit("lost", 1)[1], "the site")
    home.clock.write_text(f"-{BEHIND}")
    written = set(home.written())
    home.start_sensor(kind)
    return written


# One site for both, since most of the time goes into starting it. ESPHome has the code in C.
@pytest.mark.parametrize("kind", sparing(EACH, "python", "c", "micropython", "node-red"))
def test_a_clock_that_starts_behind_costs_nothing_and_revocation_everything(tmp_path, kind):
    with MixedHome(tmp_path, kinds=(kind,), interval=0.5) as home:
        before = start_behind(home, kind)
        wait_until(lambda: before <= {row[:3] for row in home.stored()[0]}, "what had waited")
        home.clock.unlink()
        goal = home.count_stored() + 3
        wait_until(lambda: home.count_stored() >= goal, "messages with the clock set")
        assert home.vanished() == 0 and home.observer.differing == 0

        assert revoke(home.site, kind).outcome == "out"
        later = time.time() + 600
        wait_until(lambda: home.waiting(later) > 2, "messages that nobody takes")
        stored = home.count_stored()
        wait_until(lambda: home.waiting(later) > 6, "more of them")
        assert home.count_stored() == stored
        assert home.processes[kind].poll() is None


@pytest.mark.parametrize("kind", sparing(EACH[1:3], "c"))
def test_of_two_devices_with_one_enrolment_the_later_stops_and_says_so(tmp_path, kind):
    with MixedHome(tmp_path, kinds=(kind,)) as home:
        wait_until(lambda: home.least_stored() >= 5, "traffic")
        first, home.state = home.processes[kind], tmp_path / "twin"
        home.state.mkdir()
        home.start_sensor(kind)
        wait_until(lambda: home.processes[kind].poll() is not None, "the end of the second")
        assert f"another device sends as {kind}" in (tmp_path / f"{kind}.log").read_text()
        stored = home.least_stored()
        wait_until(lambda: home.least_stored() > stored + 5, "messages of the first")
        assert first.poll() is None
        home.processes[kind] = first
