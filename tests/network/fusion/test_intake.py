"""Only what an enrolled client has sent, as it must be, is taken in."""

import time
from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.network_samples import additive_mapping
from support.network_sites import PlainSite

from discreet.network.fusion.intake import NOBODY, Intake, Registry
from discreet.network.store.rows import mapping_number
from discreet_sensor import wire

NAMES = ["hall", "door", "bed"]


class Desk:
    """An intake with two clients, and what it takes to send to it."""

    def __init__(self, folder):
        self.site = PlainSite(folder, additive_mapping(names=NAMES), 1)
        self.site.enrol("one", ["hall"])
        self.site.enrol("two", ["door", "bed"], batch=2)
        self.registry = Registry(self.site.file, "home", self.site.mapping)
        self.closed = -1
        self.tag = wire.mapping_tag(self.site.mapping.id)
        self.intake = Intake(self.registry, self.site.clock, lambda: self.closed)
        self.now = self.site.clock.end(40)

    def sealed(self, client="one", key_of=None, topic=None, **changes):
        topic = topic or f"discreet/v1/home/{client}/z"
        size = self.registry.by_name[client].symbols
        message = wire.Message(9, 0, 30, 0, bytes(size), self.tag)._replace(**changes)
        key = self.registry.by_name[key_of or client].key
        return f"discreet/v1/home/{client}/z", wire.encode(message, key, topic)

    def send(self, client="one", **changes):
        return self.intake.take(*self.sealed(client, **changes), self.now)

    def refusals(self):
        batch, rejected = self.intake.drain()
        return dict(batch.refusals), rejected


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def test_a_good_message_is_taken_in(desk):
    message = desk.send("two", seq=3, spent=7, symbols=b"\1\0\1\1")
    assert message[:7] == ("two", 9, 3, 30, b"\1\0\1\1", 7, desk.now)
    assert message.mapping == mapping_number(desk.site.mapping.id)
    assert desk.refusals() == ({}, [])


@pytest.mark.parametrize(
    ("changes", "reason", "told"),
    [
        ({"mapping": bytes(8)}, "mapping", True),
        ({"symbols": b"\2"}, "symbol", True),
        ({"symbols": b"\0\0"}, "length", False),
        ({"key_of": "two"}, "mac", False),
        ({"topic": "discreet/v1/home/two/z"}, "mac", False),
        ({"round": 5000}, "early", False),
        ({"round": 2**32 - 1}, "early", False),
    ],
)
def test_anything_else_is_refused_counted_and_kept_aside(desk, changes, reason, told):
    assert desk.send(**changes) is None
    batch, rejected = desk.intake.drain()
    assert batch.refusals == Counter({("one", reason): 1})
    assert [(each.client, each.reason) for each in batch.quarantine] == [("one", reason)]
    # Only who is known to have sent it is told, and only when sending again would not help.
    assert rejected == ([("one", 9, 0)] if told else [])
    assert desk.send() is not None


def test_a_batch_whose_last_round_has_not_begun_is_early(desk):
    desk.now = desk.site.clock.end(30)
    assert desk.send("two", round=30) is not None
    ahead = 30 + int(10 / desk.site.clock.interval)
    assert desk.send("two", round=ahead, seq=1) is not None
    assert desk.send("two", round=ahead + 2, seq=2) is None


def test_what_is_numbered_against_the_rounds_is_refused(desk):
    assert desk.send(seq=5, round=35)
    assert desk.send(seq=4, round=34)  # a retry that comes after its successor
    assert desk.send(seq=3, round=36) is None
    assert desk.send(seq=7, round=34) is None
    assert desk.send(boot=10, seq=0, round=36)  # another boot counts from the start
    assert desk.refusals() == ({("one", "reordered"): 2}, [("one", 9, 3), ("one", 9, 7)])


def test_a_round_within_a_batch_is_refused(desk):
    assert desk.send("two", round=31) is None
    assert desk.refusals() == ({("two", "numbers"): 1}, [("two", 9, 0)])
    assert desk.send("two", round=32)


def test_a_boot_from_before_the_enrolment_is_refused_unless_it_is_under_the_previous_key(desk):
    old = desk.sealed(boot=9, seq=0)
    client = desk.site.clients["one"]
    until = datetime.fromtimestamp(desk.now + 60, UTC)
    renewed = {"boot": 10, "key": "ab" * 32, "previous": client.key, "previous_until": until}
    desk.site.clients["one"] = client.model_copy(update=renewed)
    desk.site.save()
    assert desk.registry.refresh()
    assert desk.send(boot=9, seq=1, round=31) is None
    assert desk.refusals() == ({("one", "numbers"): 1}, [("one", 9, 1)])
    assert desk.intake.take(*old, desk.now)  # it waited on the device
    assert desk.send(boot=10, seq=0, round=32)


def test_late_messages_are_taken_in_and_counted(desk):
    desk.closed = 31
    assert desk.send(round=31)
    assert desk.send("two", round=32)  # its rounds are still open
    desk.closed = 32
    assert desk.send("two", round=32)  # its second round is
    assert desk.refusals() == ({("one", "late"): 1}, [])


def test_rounds_that_were_forgotten_stay_so(desk):
    desk.intake.floor = 31
    assert desk.send(round=30) is None
    assert desk.refusals()[0] == {("one", "forgotten"): 1}


def test_a_revoked_client_is_shut_out_at_once(desk):
    assert desk.send()
    desk.site.revoke("one")
    assert desk.registry.refresh()
    assert desk.send(seq=1, round=31) is None
    assert desk.refusals()[0] == {("one", "revoked"): 1}
    assert desk.send("two")


def test_a_damaged_file_of_clients_changes_nothing(desk):
    desk.site.file.write_text('{"clients": {"one": {}}}')
    assert not desk.registry.refresh()
    assert desk.registry.problem
    assert desk.send()
    desk.site.save()
    assert desk.registry.refresh()
    assert desk.registry.problem is None


def test_a_deleted_file_of_clients_is_told_and_changes_nothing(desk):
    desk.site.file.unlink()
    assert not desk.registry.refresh()
    assert "no such file" in desk.registry.problem
    assert desk.send()
    desk.site.save()
    assert desk.registry.refresh() and desk.registry.problem is None


def test_what_waited_under_the_key_before_counts_for_a_while(desk):
    old, sealed = desk.site.clients["one"], desk.sealed()
    for until, taken in ((desk.now + 60, True), (desk.now - 60, False)):
        desk.site.clients["one"] = old.model_copy(
            update={
                "key": "ab" * 32,
                "previous": old.key,
                "previous_until": datetime.fromtimestamp(until, UTC),
            }
        )
        desk.site.save()
        assert desk.registry.refresh()
        assert (desk.intake.take(*sealed, desk.now) is not None) == taken


def test_strangers_share_one_name(desk):
    for name in ("x", "y", "../../etc", "", "one/z/z"):
        assert desk.intake.take(f"discreet/v1/home/{name}/z", b"x", time.time()) is None
    assert desk.refusals()[0] == {(NOBODY, "unknown-client"): 5}


def test_a_flood_keeps_a_few_samples_only(desk):
    for _ in range(1000):
        desk.intake.take("discreet/v1/home/one/z", bytes(10_000), desk.now)
    batch, _ = desk.intake.drain()
    assert batch.refusals["one", "length"] + batch.refusals["one", "suspended"] == 1000
    assert batch.refusals["one", "suspended"] > 500
    assert len(batch.quarantine) <= 20
    assert all(len(each.payload) <= 4096 for each in batch.quarantine)


@given(data=st.data())
@pytest.mark.slow
def test_no_mutation_is_taken_in(tmp_path_factory, data):
    desk = Desk(tmp_path_factory.mktemp("desk"))
    topic, payload = desk.sealed()
    kind = data.draw(st.sampled_from(["flip", "cut", "grow", "swap"]))
    changed = bytearray(payload)
    place = data.draw(st.integers(0, len(payload) - 1))
    if kind == "flip":
        changed[place] ^= data.draw(st.integers(1, 255))
    elif kind == "cut":
        del changed[place:]
    elif kind == "grow":
        changed[place:place] = data.draw(st.binary(min_size=1, max_size=9))
    else:
        changed = changed[place:] + changed[:place]
    if bytes(changed) != payload:
        assert desk.intake.take(topic, bytes(changed), desk.now) is None
    assert desk.intake.take(topic, payload, desk.now) is not None


def test_the_last_refused_of_each_client_are_kept_whatever_others_send(desk):
    for i in range(50):
        desk.intake.take("discreet/v1/home/one/z", b"%d" % i, desk.now)
    desk.intake.take("discreet/v1/home/two/z", b"x", desk.now)
    batch, _ = desk.intake.drain()
    kept = [(each.client, each.payload) for each in batch.quarantine]
    assert kept == [*(("one", b"%d" % i) for i in range(30, 50)), ("two", b"x")]
    assert desk.intake.drain()[0].quarantine == []


def test_of_two_that_send_at_the_same_time_the_one_that_started_later_is_refused(desk):
    assert desk.send(boot=3, seq=0, round=20)
    assert desk.send(boot=7, seq=0, round=25)  # as after a restart
    assert desk.send(boot=3, seq=1, round=24)  # what waited
    assert desk.refusals() == ({}, [])
    assert desk.send(boot=3, seq=2, round=26)  # it is still there
    assert desk.send(boot=7, seq=1, round=27) is None
    assert desk.refusals() == ({("one", "clone"): 1}, [("one", 7, 1)])
    assert desk.intake.clones == {("one", 7): 3}
    assert desk.send(boot=9, seq=0, round=30)  # a later start is another matter
    assert desk.send(boot=3, seq=3, round=29)
