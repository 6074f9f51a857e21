"""Clocks that jump end no decisions and delete nothing."""

import itertools

import pytest
from support.jumping_sites import NAMES, Judges, SimulatedSite
from support.matrices import crossed
from support.network_samples import additive_mapping

from discreet.network.fusion.timekeeping import RIGHT, UNSURE, WRONG, Timekeeper
from discreet.network.health import BAD
from discreet.network.store.rows import Seen
from discreet_sensor.wire import RoundClock

JUMPS = [sign * size for size in (60.0, 3600.0, 3 * 86_400.0) for sign in (1, -1)]
CLOCKS = crossed(
    ["fusion", "one", "all"],
    JUMPS,
    [False, True],
    kept=[
        ("fusion", 3600.0, False),
        ("fusion", -3 * 86_400.0, True),
        ("one", -60.0, True),
        ("one", 3 * 86_400.0, False),
        ("all", 60.0, True),
        ("all", -3600.0, False),
    ],
)


@pytest.fixture
def site(tmp_path):
    site = SimulatedSite(tmp_path, additive_mapping(names=NAMES), keep=1)
    yield site
    site.stop()


@pytest.fixture
def judges(site):
    judges = Judges(site)
    yield judges
    judges.close()


def check_all_is_well(site, judges, told=frozenset()):
    """Nobody finds more than told, and what is shown and published is of the last due round."""
    assert judges.verdicts() == [(False, told)] * 3
    fleet = judges.fleet()
    assert {each.short.lower() for each in fleet.findings} == told and fleet.age < 5.0
    last, snapshot = site.clock.last_due(site.true), judges.snapshot()
    assert snapshot.stored.decision.round == snapshot.decisions[-1].round == last
    assert site.published["round"] == site.service.state.value("last_round") == last
    assert site.service.state.value("decision_age_seconds") < 5.0


def check_nothing_is_lost(site):
    """What was acknowledged as stored is stored, but for what is older than a day."""
    stored = {each[:4] for each in site.service._store.messages(0, 2**40)}
    told = {
        (device.name, *key, number)
        for device in site.devices
        for key, number in device.stored.items()
        if number > site.clock.number(site.true) - 86_000
    }
    assert told <= stored and len(told) > 60


@pytest.mark.slow
@pytest.mark.parametrize(("who", "jump", "restart"), CLOCKS)
def test_after_a_jump_of_any_clock_decisions_resume_within_ten_rounds(
    site, judges, who, jump, restart
):
    site.run(12)
    assert site.heard(5) == [3] * 5 and site.told == {RIGHT}
    site.set_clocks(who, jump)
    if restart:
        site.start()
    site.run(12)
    if who == "fusion":  # the devices are right, and are believed
        assert site.heard(5) == [3] * 5
    site.set_clocks(who, 0.0)
    if restart:
        site.start()
    site.run(10)
    assert site.heard(1) == [3]
    # What was sent for rounds that are deleted was refused, which is told for 15 minutes.
    forgotten = who == "one" and jump < -86_400.0
    check_all_is_well(site, judges, {"messages are refused"} if forgotten else set())
    site.run(5)
    assert site.heard(5) == [3] * 5
    assert site.service._time.state.state == RIGHT
    assert (site.told == {RIGHT}) == (who == "one")
    check_nothing_is_lost(site)


@pytest.mark.slow
def test_a_jump_of_all_clocks_without_forgetting(tmp_path):
    site = SimulatedSite(tmp_path, additive_mapping(names=NAMES))
    for ahead in (0.0, 3 * 86_400.0, 0.0):
        site.set_clocks("all", ahead)
        site.run(12)
    assert site.heard(5) == [3] * 5 and site.service._store.floor() == 0
    stored = site.service._store.messages(0, 2**40)
    assert len(stored) == sum(len(device.stored) for device in site.devices)
    site.stop()


@pytest.mark.slow
def test_nothing_is_deleted_by_a_clock_that_no_device_confirms(site):
    site.run(8)
    site.set_clocks("fusion", 30 * 86_400.0)
    site.start()
    site.service._forget_at = 0.0
    for device in site.devices:
        device.act = lambda: None  # all are silent
    site.run(30)
    assert site.service._store.floor() <= site.clock.number(site.true) - 86_000
    check = len(site.service._store.messages(0, 2**40))
    assert check == sum(len(device.stored) for device in site.devices)


@pytest.mark.slow
def test_a_floor_that_an_earlier_version_raised_falls_again(site):
    site.run(8)
    store, number = site.service._store, site.clock.number(site.true)
    store._base.change("DELETE FROM clocks")
    store._base.change("UPDATE decisions SET round = round + 3600, closed = closed + 3600")
    store._base.change("UPDATE floors SET round = ?", (number + 1000,))
    site.start()
    site.run(10)
    assert site.heard(2) == [3, 3] and store.floor() <= number + 10


@pytest.mark.slow
def test_the_clock_is_believed_at_once_if_somebody_says_so(site):
    site.run(8)
    site.service._store.see(Seen(site.true + 5000))
    for device in site.devices:
        device.act = lambda: None
    site.start()
    site.run(2)
    assert site.service._time.state.state == UNSURE
    site.start(trust_clock=True)
    site.run(3)
    assert site.service._time.state.state == RIGHT
    assert site.service._closer.closed == site.clock.last_due(site.true)
    assert site.service._store.seen().at <= site.true


@pytest.mark.slow
def test_after_a_long_absence_what_waited_is_stored_and_decided_on(site):
    site.run(8)
    site.true += 7200.0
    for device in site.devices:  # they have gone on meanwhile
        device.next = site.clock.number(site.true) - 40
        for _ in range(40):
            site.true += 1.0
            site.service._waiting.take()
            device.act()
        site.true -= 40.0
    site.true += 40.0
    site.start()
    site.run(6)
    assert site.service._time.state.state == RIGHT
    assert min(site.heard(30)) == 3


class Hands:
    """A clock and a steady count, both set by hand."""

    def __init__(self, interval=1.0, devices=3):
        self.wall, self.ticks, self.devices = 1e6, 1e6, devices
        self.keeper = Timekeeper(RoundClock(0.0, interval), lambda: self.wall, lambda: self.ticks)
        self.keys = itertools.count()

    def pass_by(self, seconds, *devices):
        self.wall += seconds
        self.ticks += seconds
        for name, ahead in devices:
            number = int(self.wall + ahead) - 1
            self.keeper.heard(name, (1, next(self.keys)), number, 1)
        return self.keeper.settle(self.devices)


def test_late_messages_are_counted_one_by_one():
    hands = Hands()
    hands.pass_by(1.0, *((name, -1.5) for name in NAMES))
    for k in range(100):  # a backlog
        hands.keeper.heard("hall", (2, k), int(hands.wall) - 100 + k, 1)
    hands.pass_by(1.0, ("hall", -1.5), ("door", -1.5), ("bed", 0.5))
    assert hands.keeper.trailing == []
    hands.pass_by(1.0, ("door", -1.5), ("bed", -1.5))
    assert hands.keeper.trailing == ["door"]
    hands.pass_by(1.0, ("door", 1.0))
    assert hands.keeper.trailing == []


def test_small_steps_are_followed_and_a_suspended_machine_is_no_jump():
    hands = Hands()
    for leap in (-1.0, 1.0, 1.9):
        hands.wall += leap
        hands.pass_by(1.0)
        assert hands.keeper.now() == hands.wall and hands.keeper.state.state == RIGHT
    hands.pass_by(86_400.0)  # the steady count has it, too
    assert hands.keeper.now() == hands.wall


def test_many_small_steps_add_up_to_a_jump():
    hands = Hands()
    for _ in range(20):
        hands.wall += 1.0
        hands.pass_by(1.0)
    assert hands.keeper.state.state == UNSURE
    assert hands.wall - hands.keeper.now() == pytest.approx(20.0)


def test_one_device_of_three_moves_nothing_until_it_has_spoken_long():
    hands = Hands()
    hands.wall += 3600.0
    for _ in range(3):
        assert hands.pass_by(1.0, ("hall", 0.0)) == 0.0
        assert hands.keeper.state.state == UNSURE
    assert hands.pass_by(1.0, ("hall", 0.0)) == pytest.approx(3600.0)
    assert hands.keeper.state.state == RIGHT


def test_most_devices_are_believed_against_the_clock_and_against_one_that_is_wrong():
    hands = Hands()
    hands.wall -= 86_400.0
    says = [("hall", 90_000.0), ("door", 90_000.0), ("bed", 7.0)]
    moved = [hands.pass_by(1.0, *says) for _ in range(4)]
    assert sum(moved) == pytest.approx(3600.0, abs=2.0)
    assert hands.keeper.now() - hands.wall == pytest.approx(90_000.0, abs=2.0)
    found = hands.keeper.state
    assert found.state == WRONG and "25 hours behind the devices' clocks" in found.words


def test_a_backlog_is_no_evidence():
    hands = Hands()
    hands.keeper.begin(Seen(hands.wall - 7200.0))
    start = int(hands.wall) - 7200
    for k in range(1000):
        for name in NAMES:
            hands.keeper.heard(name, (1, k), start + k, 1)
        assert hands.keeper.settle(3) == 0.0


def test_a_clock_a_little_more_than_the_deadline_ahead_is_told_by_all(site, judges):
    site.run(12)
    check_all_is_well(site, judges)
    site.set_clocks("fusion", 1.0)
    site.run(5)
    assert site.heard(3) == [0] * 3
    for bad, found in judges.verdicts():
        assert bad and found == {"decisions without any sensor", "3 devices late"}
    assert judges.fleet().level == BAD
    site.run(12)  # the devices agree, and are believed
    assert site.heard(3) == [3] * 3
    for bad, found in judges.verdicts():
        assert bad and found == {"the clock has jumped"}
    site.set_clocks("fusion", 0.0)
    site.run(12)
    assert site.heard(5) == [3] * 5
    check_all_is_well(site, judges)
    check_nothing_is_lost(site)


@pytest.mark.parametrize("who", ["fusion", "devices"])
def test_several_devices_are_believed_against_a_clock_that_was_wrong_from_the_start(tmp_path, who):
    site = SimulatedSite(tmp_path, additive_mapping(names=NAMES), keep=1)
    wrong = [site] if who == "fusion" else site.devices
    for each in wrong:
        each.ahead = 3 * 86_400.0 if who == "fusion" else -600.0
    site.start()
    site.run(20)
    last = site.clock.last_due(site.service._time.now())
    found = {each.round: each.reported for each in site.service._store.decisions(limit=9000)}
    assert [found[last - k] for k in range(5)] == [3] * 5
    assert site.service.state.summary()["parts"]["clock"]["state"] == WRONG
    for each in wrong:
        each.ahead = 0.0
    site.run(20)
    assert site.heard(5) == [3] * 5
    assert site.service.state.summary()["parts"]["clock"]["state"] == RIGHT
    site.stop()


def test_devices_that_are_not_all_late_move_nothing():
    hands = Hands()
    for k in range(40):
        says = [("hall", -1.5), ("door", -1.5), ("bed", 0.5 if k % 5 == 0 else -1.5)]
        assert hands.pass_by(1.0, *says) == 0.0
    for _ in range(40):
        assert hands.pass_by(1.0, ("hall", -1.5)) == 0.0
    assert hands.keeper.now() == hands.wall and hands.keeper.state.state == RIGHT


def test_two_late_devices_of_five_do_not_move_the_time():
    hands = Hands(devices=5)
    for _ in range(40):
        assert hands.pass_by(1.0, ("hall", -1.5), ("door", -1.5)) == 0.0
    assert hands.keeper.now() == hands.wall and hands.keeper.state.state == RIGHT


def test_devices_that_have_overruled_a_clock_do_not_lead_the_time_beyond_it():
    hands = Hands()
    for _ in range(20):
        hands.pass_by(1.0, ("hall", -30.0), ("door", -30.0))
    assert hands.keeper.now() < hands.wall - 20.0 and hands.keeper.state.state == WRONG
    for _ in range(40):
        hands.pass_by(1.0, ("hall", 86_400.0), ("door", 86_400.0))
        assert hands.keeper.now() <= hands.wall + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("reboot", [False, True])
def test_a_stop_every_night_does_not_put_off_forgetting(tmp_path, reboot):
    site = SimulatedSite(tmp_path, additive_mapping(names=NAMES), keep=1, interval=1800.0)
    kept = []
    for _ in range(6):
        site.run(32)  # sixteen hours
        rounds = [each[3] for each in site.service._store.messages(0, 2**40)]
        kept.append((site.clock.number(site.true) - min(rounds)) * 1800.0 / 86_400.0)
        site.true += 8 * 3600.0
        site.start(reboot=reboot)
    # By the night a machine that is switched off may lack one day, in which clocks are observed.
    assert max(kept) < (3.1 if reboot else 1.1), kept
    site.stop()


@pytest.mark.slow
def test_what_was_refused_is_forgotten_too(site):
    site.run(8)
    site.service._arrived(site.devices[0].topic, b"nonsense", (1, 1))
    site.run(4)
    store = site.service._store
    count = lambda: store._base.query("SELECT count(*) FROM quarantine")[0][0]  # noqa: E731
    assert count() == 1 and {each.reason for each in store.refused()} >= {"length"}
    store.forget(0, site.true + 1)
    assert count() == 0 and store.refused() == []


def test_time_that_has_passed_since_the_start_of_the_machine_is_believed():
    hands = Hands()
    hands.keeper = Timekeeper(
        RoundClock(0.0, 1.0), lambda: hands.wall, lambda: hands.ticks, "this start", lambda: 9e5
    )
    seen = hands.keeper.seen()
    hands.pass_by(7200.0)
    hands.keeper.begin(seen)
    assert hands.keeper.state.state == RIGHT
    hands.keeper.begin(seen._replace(boot="another start"))
    assert hands.keeper.state.state == UNSURE


def test_no_more_time_passes_than_the_machine_has_run():
    """Under faketime, the steady count of a process is the seconds since 1970."""
    hands = Hands()
    hands.keeper = Timekeeper(
        RoundClock(0.0, 1.0), lambda: hands.wall, lambda: hands.ticks, "this start", lambda: 600.0
    )
    seen = hands.keeper.seen()
    hands.wall += 3600.0
    hands.ticks += 1.8e9
    hands.keeper.begin(seen)
    assert hands.keeper.now() == seen.at
    assert "60 minutes ahead of what was last seen" in hands.keeper.state.words


@pytest.mark.slow
def test_no_empty_round_is_closed_while_the_time_is_doubted(site):
    site.run(8)
    store = site.service._store
    store.see(Seen(site.true + 5000.0))
    acts = [device.act for device in site.devices]
    for device in site.devices:
        device.act = lambda: None
    site.start()
    site.run(30)
    store, present = site.service._store, site.clock.number(site.true)
    assert site.service._time.unsure and max(each.round for each in store.decisions()) < present
    for device, act in zip(site.devices, acts, strict=True):
        device.act = act
    site.run(10)
    assert not site.service._time.unsure and site.heard(5) == [3] * 5
