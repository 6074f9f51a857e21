from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from discreet.auditing.rounds import Rounds, attack_windows, watch, window_statistics

MOVES = np.array([[0.8, 0.2], [0.3, 0.7]])
LAW = np.array([0.6, 0.4])  # stationary
GIVEN = np.array([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]])


STICKY = np.array([[0.96, 0.04], [0.06, 0.94]])  # with the same law


def series(rng, days, length, given=GIVEN, moves=MOVES):
    facts = np.empty((days, length), dtype=np.int64)
    facts[:, 0] = rng.random(days) < LAW[1]
    for k in range(1, length):
        facts[:, k] = rng.random(days) < moves[facts[:, k - 1], 1]
    facts = facts.ravel()
    symbols = (rng.random((len(facts), 1)) > given[facts].cumsum(axis=1)).sum(axis=1)
    day = np.repeat(np.arange(days), length)
    return Rounds(symbols[:, None], given[:, symbols].T, facts, day, day)


def enumerated(rounds, place, window):
    """P(symbols of the window | class of the round in its middle), over all paths."""
    here = [
        k
        for k in range(place - (window - 1) // 2, place + window // 2 + 1)
        if 0 <= k < len(rounds.fact) and rounds.stretch[k] == rounds.stretch[place]
    ]
    found = np.zeros(2)
    for path in product(range(2), repeat=len(here)):
        chance = LAW[path[0]] * np.prod([MOVES[a, b] for a, b in pairwise(path)])
        chance *= np.prod([rounds.given[k, state] for k, state in zip(here, path, strict=True)])
        found[path[here.index(place)]] += chance
    return found / LAW


@pytest.mark.parametrize("window", [1, 2, 5])
def test_a_window_is_weighed_as_all_its_paths_are(window):
    rounds = series(np.random.default_rng(0), 3, 6)
    seen = watch(rounds, MOVES, window)
    for place in range(len(rounds.fact)):
        expected = enumerated(rounds, place, window)
        np.testing.assert_allclose(seen[place], expected / expected.max(), rtol=1e-9)


def test_statistics_count_symbols_and_rounds_within_a_stretch():
    rounds = series(np.random.default_rng(4), 2, 5)
    found = window_statistics(rounds, 3)
    assert found.shape == (10, 2 * 3)  # lengths 1 and 3; symbols 1 and 2, and the rounds
    assert found[5, 5] == 2  # a day begins: the round and the one after it
    inside = rounds.symbols[1:4, 0]
    assert found[2, 3:].tolist() == [np.sum(inside == 1), np.sum(inside == 2), 3]


def test_the_silence_of_one_sensor_is_a_symbol_of_its_own():
    """A sensor that falls silent with the fact gives it away, whatever else it sends."""
    rng, quiet = np.random.default_rng(5), np.full((2, 3), 1 / 3)
    rounds = series(rng, 12, 100, quiet, STICKY)
    told = attack_windows(rounds, np.arange(6), STICKY, (9,))[1]
    assert told.name == "boosted trees" and told.advantage < 0.1
    silent = (rounds.fact == 1) & (rng.random(len(rounds.fact)) < 0.5)
    symbols = np.where(silent[:, None], -1, rounds.symbols)
    found = window_statistics(replace(rounds, symbols=symbols), 1)
    assert found[:, 0].tolist() == silent.tolist()
    told = attack_windows(replace(rounds, symbols=symbols), np.arange(6), STICKY, (9,))[1]
    assert told.advantage > 0.3


@pytest.mark.slow
def test_longer_windows_tell_more_and_noise_tells_nothing():
    rng = np.random.default_rng(2)
    found = attack_windows(series(rng, 40, 200, moves=STICKY), np.arange(20), STICKY, (1, 9))
    reached = {(each.name, each.window): each for each in found}
    one, nine = (reached["forward-backward", k] for k in (1, 9))
    exact = 0.5 * np.abs(np.diff(GIVEN, axis=0)).sum() / 2
    assert abs(one.advantage - exact) < 4 * one.error
    assert nine.advantage > one.advantage + 4 * one.error
    assert reached["boosted trees", 9].advantage > one.advantage
    silent = series(rng, 40, 200, np.full((2, 3), 1 / 3))
    for each in attack_windows(silent, np.arange(20), MOVES, (1, 9)):
        assert abs(each.advantage) <= 4 * each.error + 1e-9
