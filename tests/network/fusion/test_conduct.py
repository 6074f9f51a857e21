import pytest

from discreet.network.fusion.conduct import (
    ALLOWANCE,
    LONGEST_PAUSE,
    PAUSE,
    PROBATION,
    Conduct,
    Turns,
    noticed,
)
from discreet.network.store.rows import StoredMessage


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def suspend(conduct, name="door"):
    conduct.charge(name, "mac", int(ALLOWANCE))


def test_a_flood_is_suspended_and_others_are_not(clock):
    conduct = Conduct(clock)
    conduct.charge("hall", "replay", int(ALLOWANCE))
    suspend(conduct)
    assert list(conduct.suspended) == ["door"] and "mac" in conduct.suspended["door"]


def test_what_comes_slowly_is_never_too_much(clock):
    conduct = Conduct(clock)
    for _ in range(int(3 * ALLOWANCE)):
        clock.now += 0.25
        conduct.charge("door", "mac")
    assert not conduct.suspended


def test_a_pause_ends_and_the_next_one_is_twice_as_long_up_to_an_hour(clock):
    conduct, pauses = Conduct(clock), []
    suspend(conduct)
    for _ in range(9):
        begun = clock.now
        while conduct.suspended:
            clock.now += 1.0
            conduct.release()
        pauses.append(clock.now - begun)
        conduct.charge("door", "replay", int(PROBATION) + 1)  # less than at first
    assert pauses[:3] == [PAUSE, 2 * PAUSE, 4 * PAUSE] and pauses[-1] == LONGEST_PAUSE


def test_repeats_are_free_after_an_outage(clock):
    conduct = Conduct(clock)
    conduct.be_lenient(20.0)
    conduct.charge("hall", "replay", int(3 * ALLOWANCE))
    assert not conduct.suspended
    clock.now += 21.0
    conduct.charge("hall", "replay", int(3 * ALLOWANCE))
    assert conduct.suspended


def test_each_device_gets_its_turn_and_keeps_its_order():
    turns = Turns()
    for seq in range(1000):
        waiting = turns.put((1, seq), StoredMessage("door", 1, seq, seq, b"", 0, 0.0))
    turns.put((1, 5000), StoredMessage("hall", 1, 0, 0, b"", 0, 0.0))
    turns.put((1, 5001), None)
    assert waiting == 1000 and len(turns) == 1001
    tickets, messages = turns.take()
    assert {each.client for each in messages} == {"door", "hall"} and len(messages) < 500
    assert (1, 5001) in tickets
    while len(turns):
        more = turns.take()
        tickets, messages = tickets + more[0], messages + more[1]
    assert [each.seq for each in messages if each.client == "door"] == list(range(1000))
    assert len(tickets) == len(set(tickets)) == 1002


@pytest.mark.parametrize(
    ("notice", "found"),
    [
        (b"1: Client door disconnected due to oversize packet.", ("door", "oversize")),
        (
            b"1: New client connected from ::1:80 as door (p5, c1, k600, u'door').",
            ("door", "connection"),
        ),
        (b"1: Client door closed its connection.", None),
        (b"\xff", None),
    ],
)
def test_notices_of_the_broker_name_the_device(notice, found):
    assert noticed(notice) == found
