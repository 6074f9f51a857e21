"""Rounds are closed once, in order, on their deadline, with what came."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.network_samples import (
    additive_mapping,
    classes_mapping,
    rare_fall_mapping,
    table_mapping,
)
from support.network_sites import PlainSite

from discreet.mapping.parts import PublicChain
from discreet.network.fusion.closing import MISSING, Closer, posterior, rule_of
from discreet.network.fusion.intake import Registry
from discreet.network.store import open_store
from discreet.network.store.rows import Batch, Seen, StoredMessage, mapping_number
from discreet_sensor.wire import RoundClock

NAMES = ["sensor 0", "sensor 1", "sensor 2"]


class Bench:
    """A closer, a store and two clients: "one" for the first sensor, "two" for the others."""

    def __init__(self, folder, mapping=None):
        self.mapping = mapping or table_mapping()
        self.site = PlainSite(folder, self.mapping, 1, interval=1.0, deadline=2.0)
        self.site.enrol("one", NAMES[:1])
        self.site.enrol("two", [NAMES[2], NAMES[1]], batch=3)
        self.store = open_store("sqlite:fusion.db", folder, "home")
        self.store.prepare()
        self.registry = Registry(self.site.file, "home", self.mapping)
        self.clock = self.site.clock
        self.seq = 0

    def closer(self, at):
        closer = Closer(self.store, self.mapping, self.registry, self.clock)
        closer.lead(at)
        return closer

    def put(self, client, number, symbols, mapping=None):
        self.seq += 1
        drawn_by = mapping_number(mapping.id) if mapping else 0
        received = self.clock.end(number)
        message = StoredMessage(client, 1, self.seq, number, symbols, 0, received, drawn_by)
        self.store.commit(Batch([message]))

    def expect(self, *row):
        (found,) = posterior(rule_of(self.mapping).scores(np.array([row])))
        return tuple(np.round(found, 6))


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    yield bench
    bench.store.close()


def test_a_round_is_decided_on_what_came_by_its_deadline(bench):
    closer = bench.closer(bench.clock.end(19))
    bench.put("one", 20, b"\1")
    bench.put("two", 19, b"\0\1\1\0\0\0")
    assert closer.close(bench.clock.closes(20) - 0.01) == []
    (decision,) = closer.close(bench.clock.closes(20) + 0.01)
    # The second row of the batch is for round 20, with sensor 2 before sensor 1.
    assert decision.probabilities == bench.expect(1, 0, 1)
    assert (decision.round, decision.reported, decision.expected) == (20, 3, 3)
    assert decision.decision == str(bool(np.argmax(decision.probabilities)))
    assert not closer.due(bench.clock.closes(20) + 0.02)


def test_a_round_is_decided_by_the_rule_that_the_mapping_states(tmp_path):
    """Every output once: the rare class is decided, though it is never the likelier."""
    mapping = rare_fall_mapping()
    bench = Bench(tmp_path, mapping)
    closer = bench.closer(bench.clock.end(19))
    for i in range(8):
        bench.put("one", 20 + i, bytes([i >> 2]))
    for first in (20, 23, 26):
        rounds = [(first + k - 20) % 8 for k in range(3)]
        bench.put("two", first, bytes(b for i in rounds for b in (i & 1, i >> 1 & 1)))
    decisions = closer.close(bench.clock.closes(27) + 0.01)
    bench.store.close()
    wanted = mapping.fuse([[i >> 2, i >> 1 & 1, i & 1] for i in range(8)])
    assert [each.decision for each in decisions] == [str(each) for each in wanted]
    assert all(each.probabilities[0] > 0.5 for each in decisions) and 0 < wanted.sum() < 8


def test_the_silent_are_summed_out_and_told(bench):
    closer = bench.closer(bench.clock.end(19))
    bench.put("one", 20, b"\1")
    decisions = closer.close(bench.clock.closes(21) + 0.01)
    assert [each.reported for each in decisions] == [1, 0]
    assert decisions[0].probabilities == bench.expect(1, MISSING, MISSING)
    assert decisions[1].probabilities == bench.expect(MISSING, MISSING, MISSING)


def test_a_round_has_one_symbol_per_sensor(bench):
    closer = bench.closer(bench.clock.end(19))
    bench.put("one", 20, b"\1")
    bench.put("one", 20, b"\0")
    (decision,) = closer.close(bench.clock.closes(20) + 0.01)
    assert decision.probabilities == bench.expect(1, MISSING, MISSING)


def test_symbols_of_an_earlier_mapping_are_as_good_as_silence(tmp_path):
    bench = Bench(tmp_path, additive_mapping())
    bench.put("one", 18, b"\7")
    closer = bench.closer(bench.clock.end(19))  # counts what came before
    bench.put("one", 20, b"\2")
    bench.put("two", 20, b"\0\1\1\0\0\0")
    decision = closer.close(bench.clock.closes(20) + 0.01)[-1]
    assert decision.probabilities == bench.expect(MISSING, 1, 0)
    bench.store.close()


def test_nothing_is_decided_on_what_came_under_another_mapping(tmp_path):
    bench = Bench(tmp_path, table_mapping())
    bench.closer(bench.clock.end(19))
    bench.put("one", 20, b"\1")
    bench.mapping = additive_mapping(names=NAMES)
    bench.registry = Registry(bench.registry._file, "home", bench.mapping)
    change = bench.clock.end(20) + 0.5
    new = Closer(bench.store, bench.mapping, bench.registry, bench.clock, started=change)
    new.lead(bench.clock.end(20))
    bench.put("one", 21, b"\1")
    silent, heard = new.close(bench.clock.closes(21) + 0.01)
    assert (silent.round, silent.reported) == (20, 0)
    assert (heard.round, heard.reported) == (21, 1)
    # A later start with the same mapping still knows when it came.
    again = Closer(bench.store, bench.mapping, bench.registry, bench.clock, started=change + 9)
    again.lead(bench.clock.end(22))
    assert (again.symbols(20, 21) != MISSING).sum() == 1
    bench.store.close()


def test_after_a_start_it_waits_before_it_closes_what_is_overdue(bench):
    closer = bench.closer(bench.clock.end(19))
    closer.close(bench.clock.closes(20) + 0.01)
    back = bench.clock.end(1000)
    again = bench.closer(back)
    assert again.closed == 20
    assert not again.due(back + bench.clock.deadline - 0.1)
    bench.put("one", 500, b"\1")
    decisions = again.close(back + bench.clock.deadline + 0.1)
    # Nobody spoke in the other rounds; they are passed over, up to the last one.
    assert [each.round for each in decisions] == [500, 1000]


def test_told_to_wait_it_gives_what_is_overdue_one_more_deadline(bench):
    closer = bench.closer(bench.clock.end(19))
    closer.close(bench.clock.closes(20) + 0.01)
    back = bench.clock.end(40)
    assert closer.due(back)
    closer.wait(back)
    assert closer.close(back + bench.clock.deadline - 0.1) == []
    closer.wait(back + bench.clock.deadline - 0.1)  # it has waited
    bench.put("one", 30, b"\1")
    decisions = closer.close(back + bench.clock.deadline + 0.1)
    assert [(each.round, each.reported) for each in decisions] == [(30, 1), (40, 0)]


def test_after_a_pause_it_goes_on_where_another_worker_stopped(bench):
    closer, other = bench.closer(bench.clock.end(19)), bench.closer(bench.clock.end(19))
    closer.close(bench.clock.closes(20) + 0.01)
    closer.pause()
    assert not closer.due(bench.clock.end(1000))
    other.close(bench.clock.closes(22) + 0.01)
    closer.lead(bench.clock.closes(22) + 0.02)
    bench.put("one", 23, b"\1")
    (decision,) = closer.close(bench.clock.closes(23) + 2.0)[:1]
    assert decision.round == 23


def remembering(mapping):
    """The mapping with a public fact that lasts, and how that moves in a round of the bench."""
    n = len(mapping.public.classes)
    moves = np.full((n, n), 0.1 / (n - 1)) + np.eye(n) * (0.9 - 0.1 / (n - 1))
    chain = PublicChain(moves=moves.tolist(), interval=0.5, steps=99)
    return mapping.with_chain(chain), np.linalg.matrix_power(moves, 2)


def summed_over_paths(mapping, moves, Z):
    """P(class of the last round | all symbols), from every way the fact may have gone."""
    rule, found = rule_of(mapping), np.zeros(len(moves))
    (prior,) = posterior(rule.scores(np.full((1, Z.shape[1]), MISSING)))
    given = posterior(rule.scores(Z)) / prior
    for path in itertools.product(range(len(moves)), repeat=len(Z)):
        chance = (prior @ moves)[path[0]]
        for before, now in itertools.pairwise(path):
            chance *= moves[before, now]
        found[path[-1]] += chance * np.prod(given[range(len(Z)), path])
    return found / found.sum()


@pytest.mark.parametrize("make", [table_mapping, classes_mapping, additive_mapping])
@pytest.mark.parametrize("interrupted", ["never", "restart", "another worker"])
def test_a_fact_that_lasts_is_decided_on_all_rounds_so_far(tmp_path, make, interrupted):
    mapping, moves = remembering(make())
    bench = Bench(tmp_path, mapping)
    Z = np.array([[1, 0, 0], [MISSING] * 3, [1, 0, 1], [0, MISSING, MISSING], [1, 1, 1]])
    Z = np.vstack([Z, [MISSING] * 3])
    closer, other = bench.closer(bench.clock.end(19)), bench.closer(bench.clock.end(19))
    for first in (0, 3):
        bench.put("two", 20 + first, Z[first : first + 3, [2, 1]].astype(np.uint8).tobytes())
    for number in (20, 22, 23, 24):
        bench.put("one", number, bytes([Z[number - 20, 0]]))
    decisions, now = [], bench.clock.closes(20) + 0.01
    while len(decisions) < 5:
        if made := closer.close(now):
            decisions += made
            if interrupted == "restart":
                closer = bench.closer(now)
            elif interrupted == "another worker":
                closer.pause()
                closer, other = other, closer
                closer.pause()
                closer.lead(now)
        now += 1.0
    for i, decision in enumerate(decisions[:5]):
        expected = summed_over_paths(mapping, moves, Z[: i + 1])
        np.testing.assert_allclose(decision.probabilities, expected, atol=1e-5)
        wanted = mapping.fusion.choose(np.log([expected]))[0]
        assert decision.decision == str(mapping.public.classes[wanted])
    bench.store.close()


def test_a_long_silence_is_a_walk_of_the_fact_to_its_own_law(tmp_path):
    mapping, _ = remembering(table_mapping())
    bench = Bench(tmp_path, mapping)
    closer = bench.closer(bench.clock.end(19))
    bench.put("one", 20, b"\1")
    first = closer.close(bench.clock.closes(20) + 0.01)[-1]
    last = closer.close(bench.clock.closes(300) + 0.01)[-1]
    assert (last.round, last.probabilities) == (300, (0.5, 0.5)) != first.probabilities
    bench.store.close()


def test_nothing_is_remembered_of_another_mapping(tmp_path):
    bench = Bench(tmp_path, remembering(classes_mapping())[0])
    bench.closer(bench.clock.end(19)).close(bench.clock.closes(20) + 0.01)
    mapping, moves = remembering(table_mapping())
    new = Closer(bench.store, mapping, bench.registry, bench.clock, bench.clock.closes(21))
    new.lead(bench.clock.closes(21))
    decision = new.close(bench.clock.closes(22) + 2.0)[0]
    expected = summed_over_paths(mapping, moves, np.full((1, 3), MISSING))
    np.testing.assert_allclose(decision.probabilities, expected, atol=1e-6)
    bench.store.close()


def test_what_comes_late_does_not_change_a_decision(bench):
    closer = bench.closer(bench.clock.end(19))
    closer.close(bench.clock.closes(20) + 0.01)
    bench.put("one", 20, b"\1")
    assert closer.close(bench.clock.closes(20) + 0.02) == []
    assert closer.closed == 20


def test_an_old_enrolment_with_another_length_is_passed_over(bench):
    closer = bench.closer(bench.clock.end(19))
    bench.put("one", 20, b"\1\1")
    bench.put("gone", 20, b"\1")
    (decision,) = closer.close(bench.clock.closes(20) + 0.01)
    assert decision.reported == 0


def test_after_the_time_went_back_rounds_are_decided_on_what_comes_then(bench):
    closer = bench.closer(bench.clock.end(19))
    bench.put("one", 500, b"\0")  # by clocks that were ahead, as was this one
    bench.put("one", 20, b"\1")
    assert closer.close(bench.clock.closes(500) + 0.01)[-1].reported == 1
    back = bench.clock.end(30)
    bench.store.turn_back(Seen(back), 30)
    closer.lead(back)
    assert closer.closed == 20  # decided when its time had come
    bench.put("one", 31, b"\1")
    decision = closer.close(bench.clock.closes(31) + 0.01)[-1]
    assert (decision.round, decision.probabilities) == (31, bench.expect(1, MISSING, MISSING))
    for number in range(100, 510, 100):
        closer.close(bench.clock.closes(number))
    (found,) = [each for each in bench.store.decisions(499, 2) if each.round == 500]
    assert (found.reported, found.closed) == (0, bench.clock.closes(500))
    assert [each[3] for each in bench.store.messages(0, 999)] == [500, 20, 31]  # none is deleted


def test_a_follower_closes_nothing(bench):
    closer = Closer(bench.store, bench.mapping, bench.registry, bench.clock)
    closer.follow(bench.clock.end(19))
    assert not closer.due(bench.clock.end(1000))
    assert closer.close(bench.clock.end(1000)) == []


cells = st.dictionaries(st.integers(20, 25), st.integers(0, 1))


@given(
    one=cells, two=st.dictionaries(st.sampled_from([18, 21, 24]), st.binary(min_size=6, max_size=6))
)
@pytest.mark.slow
def test_any_pattern_of_arrivals_is_decided_like_its_matrix(tmp_path_factory, one, two):
    bench = Bench(tmp_path_factory.mktemp("bench"), additive_mapping())
    Z = np.full((6, 3), MISSING)
    closer = bench.closer(bench.clock.end(19))
    for number, symbol in one.items():
        bench.put("one", number, bytes([symbol]))
        Z[number - 20, 0] = symbol
    for number, raw in two.items():
        symbols = bytes(each & 1 for each in raw)
        bench.put("two", number, symbols)
        for i in range(3):
            if 20 <= number + i <= 25:
                Z[number + i - 20, [2, 1]] = list(symbols[2 * i : 2 * i + 2])
    decisions = closer.close(bench.clock.closes(25) + 0.01)
    expected = posterior(rule_of(bench.mapping).scores(Z))
    np.testing.assert_allclose([each.probabilities for each in decisions], expected, atol=1e-6)
    assert [each.reported for each in decisions] == (Z != MISSING).sum(axis=1).tolist()
    bench.store.close()


@given(st.floats(0, 2e9), st.floats(0.01, 1e4), st.floats(0, 1e4), st.integers(0, 10**6))
def test_rounds_end_where_the_next_begins(epoch, interval, deadline, number):
    clock = RoundClock(epoch, interval, deadline)
    middle = clock.end(number) - interval / 2
    assert clock.number(middle) == number
    assert clock.last_due(clock.closes(number) + interval / 2) == number


# --- Two mappings at a time ----------------------------------------------------------------


def likelihoods(mapping, row):
    """Logarithms of what some symbols say about the classes, by a mapping."""
    rule, silent = rule_of(mapping), np.full((1, len(mapping.sensors)), MISSING)
    return (rule.scores(np.array([row])) - rule.scores(silent))[0]


def test_both_mappings_are_decided_on(tmp_path):
    bench = Bench(tmp_path, additive_mapping(names=NAMES))
    new, old = table_mapping(), bench.mapping
    registry = Registry(bench.site.file, "home", new, [old])
    closer = Closer(bench.store, new, registry, bench.clock, earlier=[old])
    closer.lead(bench.clock.end(19))
    bench.put("one", 20, b"\1", new)
    bench.put("two", 20, b"\0\1" * 3, old)
    bench.put("one", 21, b"\1", old)  # its device changed in the middle of a round: it counts once
    bench.put("one", 21, b"\0", new)
    both, once, rest = closer.close(bench.clock.closes(22) + 0.01)
    prior = rule_of(new).scores(np.full((1, 3), MISSING))[0]
    said = prior + likelihoods(new, [1, MISSING, MISSING]) + likelihoods(old, [MISSING, 1, 0])
    assert both.probabilities == pytest.approx(posterior(said[None])[0], abs=1e-6)
    said = prior + likelihoods(new, [0, MISSING, MISSING]) + likelihoods(old, [MISSING, 1, 0])
    assert once.probabilities == pytest.approx(posterior(said[None])[0], abs=1e-6)
    assert [each.reported for each in (both, once, rest)] == [3, 3, 2]
    assert {each.expected for each in (both, once, rest)} == {3}
    assert (closer.symbols(20, 22) != MISSING).sum(axis=1).tolist() == [1, 1, 0]
    bench.store.close()


def test_a_sensor_that_the_new_mapping_has_not_is_heard_by_the_old_one(tmp_path):
    bench = Bench(tmp_path, additive_mapping(names=NAMES))
    new, old = additive_mapping(names=[NAMES[2], NAMES[1]]), bench.mapping
    registry = Registry(bench.site.file, "home", new, [old])
    closer = Closer(bench.store, new, registry, bench.clock, earlier=[old])
    closer.lead(bench.clock.end(19))
    bench.put("one", 20, b"\1", old)
    (found,) = closer.close(bench.clock.closes(20) + 0.01)
    assert (found.reported, found.expected) == (0, 2)
    prior = rule_of(new).scores(np.full((1, 2), MISSING))[0]
    said = prior + likelihoods(old, [1, MISSING, MISSING])
    assert found.probabilities == pytest.approx(posterior(said[None])[0], abs=1e-6)
    bench.store.close()
