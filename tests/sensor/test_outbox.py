"""What is in the outbox stays there, byte for byte, until it is acknowledged."""

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InputError
from discreet_sensor.outbox import Outbox, OutboxError
from discreet_sensor.wire import STORED, Entry


def fill(outbox, rounds):
    return [outbox.append(i, 1, lambda boot, seq: b"%d/%d" % (boot, seq)) for i in rounds]


def test_messages_survive_a_restart_and_numbers_are_never_used_twice(tmp_path):
    with Outbox(tmp_path, first_boot=5) as outbox:
        first = fill(outbox, range(3))
    with Outbox(tmp_path) as outbox:
        assert outbox.boot > first[0].boot
        assert outbox.after(-1, -1, 10) == first
        second = fill(outbox, range(3, 5))
        assert outbox.after(-1, -1, 10) == first + second
        assert len({(each.boot, each.seq) for each in first + second}) == 5


def test_a_lost_folder_does_not_begin_at_the_same_number(tmp_path, monkeypatch):
    with Outbox(tmp_path / "a") as outbox:
        boot = outbox.boot
    shutil.rmtree(tmp_path / "a")
    later = boot + 60
    monkeypatch.setattr("discreet_sensor.outbox.time.time", lambda: later)
    with Outbox(tmp_path / "a") as outbox:
        assert outbox.boot == later


def test_a_clock_that_goes_back_gives_no_second_message_for_a_round(tmp_path):
    with Outbox(tmp_path) as outbox:
        outbox.append(10, 4, lambda *_: b"x")
        with pytest.raises(OutboxError, match="clock went back"):
            outbox.append(13, 4, lambda *_: b"y")
        outbox.append(14, 4, lambda *_: b"z")


def test_turning_back_gives_up_what_is_for_later_and_uses_no_number_twice(tmp_path):
    with Outbox(tmp_path) as outbox:
        first = fill(outbox, [7, 8, 5000, 5001])
        assert outbox.turn_back(9) == 2
        assert (outbox.waiting, outbox.given_up, outbox.last_round) == (2, 2, 8)
        second = fill(outbox, [9, 10])
        assert outbox.after(-1, -1, 9) == first[:2] + second
        assert len({each[:2] for each in first + second}) == 6
    with Outbox(tmp_path) as outbox:
        assert outbox.boot > second[0].boot and outbox.last_round == 10


def test_one_process_at_a_time(tmp_path):
    with Outbox(tmp_path), pytest.raises(InputError, match="another sensor runs"):
        Outbox(tmp_path)


def test_the_oldest_are_given_up_and_counted_when_there_is_no_room(tmp_path):
    with Outbox(tmp_path, most=3) as outbox:
        fill(outbox, range(5))
        assert [each.round for each in outbox.after(-1, -1, 9)] == [2, 3, 4]
        assert (outbox.waiting, outbox.given_up) == (3, 2)


def test_nobody_else_can_read_it(tmp_path):
    with Outbox(tmp_path / "state") as outbox:
        fill(outbox, range(1))
        files = [tmp_path / "state", *(tmp_path / "state").iterdir()]
        assert all(file.stat().st_mode & 0o077 == 0 for file in files)


def test_a_write_that_fails_changes_nothing(tmp_path):
    with Outbox(tmp_path) as outbox:
        fill(outbox, range(2))
        size = outbox._base.execute("PRAGMA page_count").fetchone()[0]
        outbox._base.execute(f"PRAGMA max_page_count = {size}")  # as a full disk would
        with pytest.raises(OutboxError, match="full"):
            for i in range(2, 50):
                outbox.append(i, 1, lambda *_: bytes(5000))
        before = outbox.after(-1, -1, 100)
        outbox._base.execute("PRAGMA max_page_count = 100000")
        (more,) = fill(outbox, [before[-1].round + 1])
        assert outbox.after(-1, -1, 100) == [*before, more]
        assert more.seq == before[-1].seq + 1  # the failed one has used up no number
        assert outbox.waiting == len(before) + 1


actions = st.lists(
    st.one_of(
        st.just("append"), st.just("reopen"), st.tuples(st.integers(0, 12), st.integers(1, 4))
    ),
    max_size=20,
)


@given(actions)
@pytest.mark.slow
def test_any_history_leaves_what_was_not_acknowledged(tmp_path_factory, history):
    folder = tmp_path_factory.mktemp("outbox")
    outbox, kept, number = Outbox(folder), {}, 0
    for action in history:
        if action == "append":
            message = outbox.append(number, 1, lambda boot, seq: b"%d.%d" % (boot, seq))
            kept[message.boot, message.seq] = message.payload
            number += 1
        elif action == "reopen":
            outbox.close()
            outbox = Outbox(folder)
        else:
            first, length = action
            gone = [key for key in kept if key[0] == outbox.boot and 0 <= key[1] - first < length]
            assert outbox.acknowledge([Entry(outbox.boot, first, length, STORED)]) == len(gone)
            for key in gone:
                del kept[key]
    found = {(each.boot, each.seq): each.payload for each in outbox.after(-1, -1, 99)}
    assert found == kept
    assert outbox.waiting == len(kept)
    outbox.close()
