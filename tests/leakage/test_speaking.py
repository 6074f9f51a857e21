"""Ways to speak, against every sequence of symbols and against single rounds."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from support.helpers import home, make_mapping, refused

from discreet.data.series import read_series
from discreet.leakage.chains import Chain
from discreet.leakage.speaking import (
    AnsweringWay,
    LivedRounds,
    Way,
    answer,
    answering_ways,
    best_for_all,
    joint_of_rows,
    tell,
    ways_to_speak,
)
from discreet.mapping.parts import Fact, mix_evenly

PRIVATE = Chain.constant([0.5, 0.5])


def world(seed=0, shape=(2, 2)):
    """p(public, private, symbols), both facts even and independent, telling more of the public."""
    rng = np.random.default_rng(seed)
    given = [rng.dirichlet(np.full(n, 3.0), size=2) for n in shape]
    joint = np.zeros((2, 2, *shape))
    for h, g in product((0, 1), repeat=2):
        rows = [0.85 * own[h] + 0.15 * own[g] for own in given]
        joint[h, g] = 0.25 * np.multiply.outer(*rows)
    return joint


def mixed_slowly(joint, kept):
    """Each sensor by itself keeps its symbol, or draws one evenly."""
    found = np.zeros_like(joint)
    for place in product(*map(range, joint.shape[2:])):
        for sent in product(*map(range, joint.shape[2:])):
            chance = 1.0
            for size, before, now in zip(joint.shape[2:], place, sent, strict=True):
                chance *= kept * (before == now) + (1 - kept) / size
            found[:, :, *sent] += chance * joint[:, :, *place]
    return found


def test_symbols_are_kept_or_drawn_evenly():
    joint = world(shape=(2, 3))
    np.testing.assert_allclose(
        mix_evenly(joint, 0.7, first=2), mixed_slowly(joint, 0.7), atol=1e-12
    )
    np.testing.assert_allclose(mix_evenly(joint, 1.0, first=2), joint)


def enumerated(laws):
    """Advantage after rounds with these laws p(seen | private), from every sequence."""
    total = 0.0
    for seen in product(*(range(law.shape[1]) for law in laws)):
        chances = np.prod([law[:, z] for law, z in zip(laws, seen, strict=True)], axis=0)
        total += abs(chances[1] - chances[0])
    return total / 4


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize(("every", "in_turn"), [(1, False), (2, False), (1, True), (2, True)])
def test_what_is_told_is_the_sum_over_all_sequences(told, every, in_turn):
    joint, laws = mixed_slowly(world(), 0.8), []
    for i in range(4 // every):
        law = joint.sum(axis=3 - i % 2) if in_turn else joint.reshape(2, 2, -1)
        # Both facts are even and independent, so that being told the public one tells nothing.
        seen = np.hstack(list(law)) if told else law.sum(axis=0)
        laws.append(seen / seen.sum(axis=1, keepdims=True))
    found = tell(world(), Way(every, in_turn, 0.8, 0.0), PRIVATE, 4, beyond=told)
    assert found.advantage == pytest.approx(enumerated(laws), abs=1e-4)


def test_who_is_told_the_public_fact_learns_no_less():
    for seed in range(5):
        way = Way(1, False, 0.7, 0.0)
        least, most = (
            tell(world(seed), way, PRIVATE, 50, beyond=told).advantage for told in (False, True)
        )
        assert least <= most + 1e-4


def test_a_fact_that_is_drawn_afresh_is_answered_like_one_round():
    joint, fresh = world(), Chain(np.full((2, 2), 0.5), np.array([0.5, 0.5]))
    alone = joint.sum(axis=1).reshape(2, -1).min(axis=0).sum()
    for every in (1, 4):
        found = answer(joint, Way(every, False, 1.0, 0.0), fresh, PRIVATE)
        expected = alone / every + 0.5 * (1 - 1 / every)
        assert abs(found.error - expected) < 4 * found.deviation + 2e-3


def test_a_fact_that_lasts_is_answered_better():
    joint, way = world(), Way(1, False, 1.0, 0.0)
    errors = [
        answer(joint, way, Chain.of_stay(stay, [0.5, 0.5]), PRIVATE).error
        for stay in (0.6, 0.9, 0.99)
    ]
    assert errors == sorted(errors, reverse=True)


def lived_world(joint, stay, rng, stretches=400, rounds=100):
    """Rounds drawn one by one from the law that ways are simulated by."""
    fact = np.zeros((rounds, stretches), dtype=np.int64)
    symbols = np.zeros((rounds, stretches, joint.ndim - 2), dtype=np.int64)
    for j in range(stretches):
        h, g = rng.integers(2, size=2)
        for i in range(rounds):
            law = joint[h, g].ravel() / joint[h, g].sum()
            place = np.unravel_index(rng.choice(len(law), p=law), joint.shape[2:])
            symbols[i, j], fact[i, j] = place, h
            h = h if rng.random() < stay else 1 - h
    return LivedRounds(symbols, fact)


@pytest.mark.slow
@pytest.mark.parametrize("way", [Way(1, False, 0.7, 0.0), Way(2, True, 1.0, 0.0)])
def test_rounds_lived_under_the_law_are_answered_as_simulated_ones(way):
    joint, public = world(), Chain.of_stay(0.9, [0.5, 0.5])
    lived = lived_world(joint, 0.9, np.random.default_rng(1))
    simulated = answer(joint, way, public, PRIVATE)
    found = answer(joint, way, public, PRIVATE, lived=lived)
    assert abs(found.error - simulated.error) < 4 * (found.deviation + simulated.deviation) + 2e-3


def test_a_series_is_lived_in_stretches_of_rows_that_follow_one_another():
    mapping, rows = make_mapping(), home(7)
    times = pd.Series([180, 0, 60, 1000, 120, 1060, 5000.0])
    series = read_series(times, None, "at", 60.0)
    codes, fact = mapping.encode(rows), np.array([0, 1, 1, 0, 1, 1, 0])
    found = LivedRounds.of_codes(mapping, codes, fact, series)
    assert found.fact.T.tolist() == [[1, 1, 1, 0], [0, 1, -1, -1], [0, -1, -1, -1]]
    assert found.symbols.shape == (4, 3, 2)


@pytest.mark.slow
def test_the_way_that_is_chosen_keeps_the_limit_and_no_other_way_answers_better():
    joint, public, most = world(), Chain.of_stay(0.99, [0.5, 0.5]), 0.06
    chosen = answering_ways(joint, public, PRIVATE, 40, most)[0]
    ways = ways_to_speak(joint, PRIVATE, 40, most)
    assert {way.in_turn for way in ways} == {False, True}
    assert all(way.advantage <= most for way in (*ways, chosen))
    # Less noise than this and a way would tell too much.
    for way in ways:
        if way.kept < 1.0:
            clearer = Way(way.every, way.in_turn, way.kept + 0.01, 0.0)
            assert tell(joint, clearer, PRIVATE, 40).advantage > most
    assert chosen.error == min(answer(joint, way, public, PRIVATE).error for way in ways)


def test_the_law_of_a_round_is_summed_over_the_rows():
    mapping, rows = make_mapping(), home(60).query("who != 'cid'")
    found, expected = joint_of_rows(mapping, rows, mapping.private[0]), np.zeros((2, 2, 2, 3))
    for fall, who, codes in zip(rows["fall"], rows["who"], mapping.encode(rows), strict=True):
        sent = np.multiply.outer(mapping.tables[0][codes[0]], mapping.tables[1][codes[1]])
        expected[int(fall), int(who == "bob")] += sent / len(rows)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_law_that_rows_do_not_show_is_refused():
    mapping, rows = make_mapping(), home(60).query("who != 'cid'")
    some = rows.query("not fall or who == 'ann'")
    refused("no row has some combination", joint_of_rows, mapping, some, mapping.private[0])
    many = make_mapping(private=[Fact(name="who", classes=["ann", "bob", "cid"])])
    refused("'who' has 3 classes", joint_of_rows, many, rows, many.private[0])


def test_where_every_way_tells_too_much_none_is_chosen():
    joint = np.zeros((2, 2, 2))
    joint[:, [0, 1], [0, 1]] = 0.25  # the symbol is the private fact
    assert answering_ways(joint, PRIVATE, PRIVATE, 2, 1e-6) == []


def test_what_the_answer_itself_tells_does_not_count():
    joint = np.array([[0.4, 0.1], [0.1, 0.4]])[:, :, None] * np.array([0.3, 0.7])
    assert tell(joint, Way(1, False, 1.0, 0.0), PRIVATE, 9).advantage == pytest.approx(0, abs=1e-6)


def speaking(every, kept, error, in_turn=False):
    return AnsweringWay(every, in_turn, kept, 0.1, error, 0.001)


def test_the_best_way_keeps_the_limits_of_all_facts_with_all_sensors_at_once():
    of_who = [speaking(1, 0.6, 0.10), speaking(4, 1.0, 0.05), speaking(1, 1.0, 0.01, in_turn=True)]
    of_what = [speaking(1, 0.4, 0.20), speaking(4, 0.7, 0.30), speaking(8, 1.0, 0.02)]
    assert best_for_all([of_who]) == of_who[1]
    assert best_for_all([of_who, of_what]) == of_what[0]
    assert best_for_all([of_who, [speaking(8, 1.0, 0.02)]]) is None
    assert best_for_all([of_who, []]) is None
