"""The filter against every sequence of classes, and the chain against the series it came from."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from support.helpers import make_mapping, refused

from discreet.data.series import read_series
from discreet.errors import InputError, MappingFileError
from discreet.leakage.chains import estimate_chain, filter_rounds, moves_over
from discreet.mapping.mapping import Mapping
from discreet.mapping.parts import PublicChain

STICKY = ((0.97, 0.03), (0.2, 0.8))


def chain(moves=STICKY, interval=60.0, steps=100):
    return PublicChain(moves=moves, interval=interval, steps=steps)


# --- The filter ----------------------------------------------------------------------------


def enumerated(belief, moves, likelihoods):
    """What is known after the last round, summed over every way the fact may have gone."""
    found = np.zeros(len(belief))
    for path in itertools.product(range(len(belief)), repeat=len(likelihoods) + 1):
        chance = belief[path[0]]
        for before, now, likelihood in zip(path, path[1:], likelihoods, strict=False):
            chance *= moves[before, now] * likelihood[now]
        found[path[-1]] += chance
    return found / found.sum()


@given(st.integers(2, 3), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_the_filter_is_the_sum_over_all_sequences_of_classes(classes, rounds, seed):
    rng = np.random.default_rng(seed)
    belief, moves = rng.dirichlet(np.ones(classes)), rng.dirichlet(np.ones(classes), classes)
    likelihoods = rng.uniform(0.01, 1, (rounds, classes))
    likelihoods[rng.random(rounds) < 0.3] = 1.0  # nobody was heard
    found = filter_rounds(belief, moves, np.log(likelihoods))
    for n in range(1, rounds + 1):
        expected = enumerated(belief, moves, likelihoods[:n])
        np.testing.assert_allclose(found[n - 1], expected, atol=1e-9)


def test_series_side_by_side_are_filtered_like_each_alone():
    rng = np.random.default_rng(0)
    evidence, start = rng.normal(size=(6, 4, 2)), rng.dirichlet([1, 1], 4)
    found = filter_rounds(start, np.array(STICKY), evidence)
    for i in range(4):
        alone = filter_rounds(start[i], np.array(STICKY), evidence[:, i])
        # Products of other shapes may add up in another order: a few units in the last place.
        np.testing.assert_allclose(found[:, i], alone, rtol=1e-13)


def test_what_was_called_impossible_can_still_be_seen():
    evidence = np.log([[1.0, 1e-30], [1e-30, 1.0]])
    found = filter_rounds(np.array([1.0, 0.0]), np.eye(2), evidence)
    assert np.isfinite(found).all() and found[1, 1] > 0.5


def test_silent_rounds_are_steps_of_the_chain():
    start, moves = np.array([0.1, 0.9]), np.array(STICKY)
    found = filter_rounds(start, moves, np.zeros((7, 2)))[-1]
    np.testing.assert_allclose(found, start @ np.linalg.matrix_power(moves, 7), atol=1e-12)


# --- Other intervals -----------------------------------------------------------------------


def test_rounds_that_are_further_apart_are_powers_of_the_chain():
    np.testing.assert_allclose(
        moves_over(chain(), 240.0), np.linalg.matrix_power(np.array(STICKY), 4), atol=1e-12
    )


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_shorter_rounds_are_roots_of_a_chain_in_continuous_time(parts):
    rates = np.array([[-0.3, 0.2, 0.1], [0.0, -0.2, 0.2], [0.5, 0.1, -0.6]])
    found = moves_over(chain(expm(rates).tolist()), 60.0 / parts)
    np.testing.assert_allclose(found, expm(rates / parts), atol=1e-8)


@settings(max_examples=20)
@given(st.integers(2, 4), st.floats(0.05, 20), st.integers(0, 2**32 - 1))
@pytest.mark.slow
def test_moves_over_any_interval_are_distributions(classes, times, seed):
    moves = np.random.default_rng(seed).dirichlet(np.ones(classes), classes)
    found = moves_over(chain(moves.tolist()), 60.0 * times)
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-9)


def test_a_fact_that_is_drawn_afresh_has_moves_over_half_a_round():
    found = moves_over(chain([[0.5, 0.5], [0.5, 0.5]]), 30.0)
    np.testing.assert_allclose(found, 0.5, atol=1e-3)


# --- Learning it ---------------------------------------------------------------------------


def series(n=4000, seed=0):
    rng, moves = np.random.default_rng(seed), np.array(STICKY)
    fact = [0]
    for uniform in rng.random(n - 1):
        fact.append(int(uniform < moves[fact[-1], 1]))
    return np.array(fact)


def learn(fact, times, groups=None, kept=None, **options):
    n = len(fact)
    kept = np.ones(n, bool) if kept is None else kept
    found = read_series(pd.Series(times), groups, "at", **options)
    return estimate_chain(fact, 2, found, kept)


def counted(pairs):
    counts = np.full((2, 2), 0.5)
    for before, now in pairs:
        counts[before, now] += 1
    return counts / counts.sum(axis=1, keepdims=True)


def test_the_chain_of_a_series_is_counted_in_the_order_of_its_times():
    fact = series()
    times = 60.0 * np.arange(len(fact))
    found = learn(fact, times)
    assert (found.interval, found.steps) == (60.0, len(fact) - 1)
    np.testing.assert_allclose(found.moves, counted(itertools.pairwise(fact)))
    np.testing.assert_allclose(found.moves, STICKY, atol=0.03)
    order = np.random.default_rng(1).permutation(len(fact))
    assert learn(fact[order], times[order]) == found


def test_only_rows_to_learn_from_one_step_apart_in_one_group_are_pairs():
    rng, fact = np.random.default_rng(0), series(600)
    times = 60.0 * np.arange(600) + rng.integers(-2, 3, 600)
    times[300:] += 5000.0
    groups, kept = np.arange(600) // 50, rng.random(600) < 0.8
    pairs = [
        (fact[i], fact[i + 1])
        for i in range(599)
        if groups[i] == groups[i + 1] and kept[i] and kept[i + 1] and i != 299
    ]
    found = learn(fact, times, groups, kept)
    assert found.steps == len(pairs) and abs(found.interval - 60) <= 1
    np.testing.assert_allclose(found.moves, counted(pairs))


def test_seconds_finer_than_seconds_are_told_by_their_size():
    fact, times = series(100), 1_700_000_000 + 60 * np.arange(100)
    for scale in (1, 1000, 10**6):
        assert learn(fact, times * scale).interval == 60.0


def test_a_move_that_was_never_seen_is_not_impossible():
    found = learn(np.r_[np.zeros(50, int), np.ones(50, int)], np.arange(100.0))
    assert 0 < found.moves[1][0] < 0.02


def test_rows_that_do_not_follow_one_another_are_refused():
    fact = series(100)
    refused("50 rows have the time of another", learn, fact, np.arange(100) // 2)
    refused("0 rows .* 7 s later; at least 30", learn, fact, 60.0 * np.arange(100), step=7.0)
    refused("no two rows at different times", learn, fact, np.arange(100), groups=np.arange(100))
    refused("0 rows to learn from", learn, fact, np.arange(100), kept=np.zeros(100, bool))


# --- The file ------------------------------------------------------------------------------


def test_a_chain_is_kept_in_the_file_and_changes_the_id_alone():
    plain = make_mapping()
    mapping = plain.with_chain(chain())
    assert mapping.id != plain.id and mapping.sensors == plain.sensors
    assert Mapping.loads(mapping.dumps()).chain == chain()
    assert "chain" not in plain.dumps() and Mapping.loads(plain.dumps()).chain is None


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"moves": [[0.9, 0.2], [0.5, 0.5]]}, r"chain.moves\[0\] must sum to 1"),
        ({"moves": [[1.5, -0.5], [0.5, 0.5]]}, r"chain.moves\[0\]\[0\] must be less"),
        ({"moves": [[1.0], [0.5, 0.5]]}, r"chain.moves\[0\] has 1 entries; there are 2 rows"),
        ({"moves": [[1.0]]}, "chain.moves has 1 rows; there are 2 public classes"),
        ({"moves": [["1", 0.0], [0.5, 0.5]]}, r"chain.moves\[0\]\[0\] must be a valid number"),
        ({"interval": 0.0}, "chain.interval must be greater than 0"),
        ({"interval": 1e9}, "chain.interval must be less"),
        ({"steps": 0}, "chain.steps must be greater"),
        ({"more": 1}, "chain.more is not a known key"),
    ],
)
def test_a_chain_that_is_none_is_named(wrong, match):
    content = json.loads(make_mapping().with_chain(chain()).dumps())
    content["chain"] |= wrong
    with pytest.raises(MappingFileError, match=match):
        Mapping.loads(json.dumps(content))
    with pytest.raises(InputError, match=r"chain\.moves has 3 rows"):
        make_mapping().with_chain(chain(np.eye(3).tolist()))
