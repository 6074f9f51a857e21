from itertools import combinations, product

import numpy as np
import pytest

from discreet.choices import LOSSES
from discreet.data.labels import Labels
from discreet.design import held_out
from discreet.design.folds import Sample
from discreet.design.fusion import draw_symbols
from discreet.design.held_out import rule_advantage, score_held_out
from discreet.design.kernels import CountKernel
from discreet.design.problem import Settings
from discreet.leakage.exact import advantage
from discreet.leakage.joint_outputs import output_probabilities


def random_rows(rng, n=40, sizes=(3, 4, 2), n_symbols=(2, 3, 2), classes=3):
    codes = np.stack([rng.integers(size, size=n) for size in sizes], axis=1)
    tables = [rng.dirichlet(np.ones(z), size=x) for x, z in zip(sizes, n_symbols, strict=True)]
    index = rng.integers(classes, size=n)
    index[:classes] = np.arange(classes)
    return codes, tables, Labels("g", index, range(classes))


def test_the_rule_in_hindsight_has_the_exact_advantage(rng):
    for classes in (2, 3):
        given_class = rng.dirichlet(np.ones(6), size=classes)
        assert rule_advantage(given_class, given_class) == pytest.approx(advantage(given_class))
        other = rng.dirichlet(np.ones(6), size=classes)
        assert rule_advantage(other, given_class) <= advantage(given_class) + 1e-12


def test_scores_of_single_rows_give_the_same_advantage_as_their_distribution(rng):
    given_class = rng.dirichlet(np.ones(6), size=3)
    rows = [rng.choice(6, size=20_000, p=p) for p in given_class]
    scores = np.log(given_class)[:, np.concatenate(rows)]
    found = held_out._score_advantage(scores, np.repeat(np.arange(3), 20_000))
    assert found == pytest.approx(advantage(given_class), abs=0.01)


def test_the_best_pair_of_sensors_is_that_of_a_search_through_all_pairs(rng):
    codes, tables, fact = random_rows(rng)
    best = 0.0
    for t, u in combinations(range(3), 2):
        joint = output_probabilities([tables[t], tables[u]], codes[:, [t, u]])
        given_class = np.stack([joint[fact.index == k].mean(axis=0) for k in range(3)])
        best = max(best, advantage(given_class))
    # Learned from the very rows it is tried on, both ends of the estimate are the best pair.
    assert held_out._pair_advantage(tables, codes, fact, codes, fact) == pytest.approx(best)


def test_mixture_scores_are_the_averages_of_q(rng):
    codes, tables, fact = random_rows(rng)
    symbols = np.array(list(product(range(2), range(3), range(2))))
    outputs = output_probabilities(tables, codes)  # in the order of ``symbols``
    twin = np.log([outputs[fact.index == k].mean(axis=0) for k in range(3)])
    found = held_out._mixture_scores(tables, codes, fact.index, 3, symbols)
    np.testing.assert_allclose(found, twin)


def test_a_row_left_out_does_not_vouch_for_itself(rng):
    codes, tables, fact = random_rows(rng, n=12)
    symbols = draw_symbols(tables, codes, rng)
    found = held_out._mixture_scores(
        tables, codes, fact.index, 3, symbols, left_out=np.arange(len(codes))
    )
    for i in range(len(codes)):
        others = np.arange(len(codes)) != i
        for k in range(3):
            rows = others & (fact.index == k)
            q = [
                np.prod([tables[t][codes[j, t], symbols[i, t]] for t in range(3)])
                for j in np.flatnonzero(rows)
            ]
            twin = np.log(np.mean(q)) if q else -np.inf
            assert found[k, i] == pytest.approx(twin)


def test_a_leak_in_two_sensors_of_twelve_is_seen_where_outputs_cannot_be_listed(rng):
    n = 1000
    codes = rng.integers(2, size=(n, 12))
    secret = codes[:, 2] ^ codes[:, 9]
    private, public = Labels("g", secret, range(2)), Labels("h", codes[:, 0], range(2))
    sample = Sample(codes, (2,) * 12, public, (private,))
    settings = Settings((2,) * 12, CountKernel(), LOSSES["logistic"], 1e-3, 1e-3)
    assert not settings.lists_outputs
    noisy = [np.array([[0.9, 0.1], [0.1, 0.9]])] * 12
    score = score_held_out(
        settings, noisy, sample.take(np.arange(800)), sample.take(np.arange(800, n)), rng
    )
    # Both bits come through together with probability 0.82; each alone says nothing.
    assert score.advantage == pytest.approx(0.32, abs=0.05)
    silent = [np.full((2, 2), 0.5)] * 12
    nothing = score_held_out(
        settings, silent, sample.take(np.arange(800)), sample.take(np.arange(800, n)), rng
    )
    assert nothing.advantage < 0.03
