"""Devices of every kind on a real site: kills, lost answers, reboots, revocation."""

import time
from collections import Counter
from types import SimpleNamespace

import pytest
from support.matrices import sparing
from support.network_figures.clients import KINDS, MixedHome, needs_kind, survive, why_not
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


def fewest_kept(home):
    """Return how many messages wait on the device that has the fewest."""
    stored = {row[:3] for row in home.stored()[0]}
    kept = Counter(key[0] for key in home.written() if key not in stored)
    return min(kept[name] for name in home.names)


def start_behind(home):
    """Have messages wait while the broker is away, then start the devices with clocks behind.

    Returns the numbers of all messages from before.
    """
    wait_until(lambda: home.least_stored() >= 3, "traffic")
    home.broker.kill()
    wait_until(lambda: fewest_kept(home) > 4, "messages that wait")
    # A time before the epoch would be none at all.
    wait_until(lambda: time.time() > home.settings.epoch + BEHIND + 2, "some rounds")
    for name in home.names:
        home.kill(name)
    home.broker.start()
    wait_until(lambda: "connected" in home.fusion_says().rsplit("lost", 1)[1], "the site")
    home.clock.write_text(f"-{BEHIND}")
    written = set(home.written())
    for name in home.names:
        home.start_sensor(name)
    return written


# One site for all, since most of the time goes into starting it. ESPHome has the code in C.
HERE = [kind for kind in KINDS if not why_not(kind) and kind != "esphome"]
TOGETHER = [pytest.param(("esphome",), marks=needs_kind("esphome")), pytest.param(tuple(HERE))]


@pytest.mark.parametrize("kinds", sparing(TOGETHER, tuple(HERE)), ids="+".join)
def test_clocks_that_start_behind_cost_nothing_and_revocation_everything(tmp_path, kinds):
    with MixedHome(tmp_path, kinds=kinds, interval=0.5) as home:
        before = start_behind(home)
        wait_until(lambda: before <= {row[:3] for row in home.stored()[0]}, "what had waited")
        home.clock.unlink()
        goal = home.least_stored() + 3
        wait_until(lambda: home.least_stored() >= goal, "messages with the clock set")
        assert home.vanished() == 0 and home.observer.differing == 0

        assert all(revoke(home.site, name).outcome == "out" for name in kinds)
        wait_until(lambda: fewest_kept(home) > 2, "messages that nobody takes")
        stored = home.count_stored()
        wait_until(lambda: fewest_kept(home) > 6, "more of them")
        assert home.count_stored() == stored
        assert [home.processes[name].poll() for name in kinds] == [None] * len(kinds)


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
