from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import xlogy
from support.helpers import refused

from discreet import Mapping
from discreet.design.feasible import mix_to_epsilon, structural_epsilon
from discreet.errors import MissingPrivateError, UninformativeMappingWarning
from discreet.mappers.randomized_response import (
    RandomizedResponseMapper,
    _best_cuts,
    group_codes,
    response_table,
)
from discreet.mapping.mapping import round_rows
from research.paper.synthetic import draw_table, exact_figures, tables_by_reading


def home(n=300, seed=0):
    return draw_table(n, 0.0, seed)


# -- the table -----------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 7])
def test_the_truth_is_told_as_often_as_the_definition_says(k):
    table = response_table(np.arange(k), k, 1.5)
    np.testing.assert_allclose(np.diag(table), np.exp(1.5) / (np.exp(1.5) + k - 1), atol=1e-8)
    lies = table[~np.eye(k, dtype=bool)]
    np.testing.assert_allclose(lies, 1 / (np.exp(1.5) + k - 1), atol=1e-8)


@given(
    groups=st.lists(st.integers(-1, 9), min_size=1, max_size=12).filter(lambda g: max(g) >= 0),
    epsilon=st.floats(1e-12, 1000.0),
)
def test_the_integers_that_ship_keep_to_the_budget(groups, epsilon):
    table = response_table(np.array(groups), 10, epsilon)
    weights = round_rows(table)
    assert structural_epsilon(weights.astype(float)) <= epsilon
    np.testing.assert_array_equal(weights[:, max(groups) + 1 :], 0)
    np.testing.assert_array_equal(round_rows(mix_to_epsilon(table, epsilon)), weights)


def test_a_code_without_a_group_says_nothing():
    table = response_table(np.array([0, -1, 1]), 3, 2.0)
    np.testing.assert_array_equal(table[1], [0.5, 0.5, 0.0])


# -- the groups ----------------------------------------------------------------------


def information(counts, groups):
    """Return I(group; class), by the definition."""
    joint = np.stack([counts[groups == k].sum(axis=0) for k in np.unique(groups)]) / counts.sum()
    expected = joint.sum(axis=1)[:, None] * joint.sum(axis=0)
    return float((xlogy(joint, joint) - xlogy(joint, expected)).sum())


@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_no_grouping_says_more_about_a_public_fact_of_two_classes(n_groups, seed):
    counts = np.random.default_rng(seed).integers(0, 12, size=(6, 2)) + 1.0
    every = (np.array(groups) for groups in product(range(n_groups), repeat=6))
    best = max(information(counts, groups) for groups in every if len(set(groups)) == n_groups)
    assert information(counts, group_codes(counts, n_groups)) == pytest.approx(best)


def test_the_cuts_are_the_best_of_all_cuts(rng):
    counts = rng.integers(0, 12, size=(9, 3)) + 1.0
    tried = []
    for inner in combinations(range(1, 9), 3):
        tried.append(information(counts, np.searchsorted(inner, np.arange(9), side="right")))
    found = np.zeros(9, dtype=int)
    for k, (begin, end) in enumerate(_best_cuts(counts, 4)):
        assert end > begin
        found[begin:end] = k
    assert information(counts, found) == pytest.approx(max(tried))


def test_three_public_classes_get_groups_of_their_own(rng):
    """Nine codes, three for each class, in no order."""
    classes = rng.permutation(np.arange(9) % 3)
    counts = np.where(classes[:, None] == np.arange(3), 30.0, 2.0)
    groups = group_codes(counts, 3)
    assert len(set(zip(groups, classes, strict=True))) == 3


def test_enough_symbols_leave_every_code_its_own_and_the_unseen_none():
    counts = np.array([[3, 1], [0, 0], [2, 2], [1, 0]], dtype=float)
    for n_groups in (3, 4, 200):
        assert group_codes(counts, n_groups).tolist() == [0, -1, 1, 2]


# -- the mapper ----------------------------------------------------------------------


def test_a_missing_private_fact_is_an_error():
    X, h, _ = home()
    with pytest.raises(MissingPrivateError, match="private="):
        RandomizedResponseMapper().fit(X, h)


def test_the_private_fact_does_not_influence_the_tables():
    X, h, g = home()
    shuffled = g.sample(frac=1, random_state=1).reset_index(drop=True)
    first, second = (
        RandomizedResponseMapper(random_state=0).fit(X, h, private=fact).mapping_.weights
        for fact in (g, shuffled)
    )
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.filterwarnings("ignore::discreet.errors.UninformativeMappingWarning")  # at 0.3
@pytest.mark.parametrize("n_symbols", [2, 3, 9, 20])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.slow
def test_the_mapping_keeps_to_the_budget_of_every_sensor(n_symbols, epsilon, tmp_path):
    X, h, g = home()
    X = X.astype(float)
    X.iloc[3::10] = np.nan  # gaps too
    mapper = RandomizedResponseMapper(n_symbols, ldp_epsilon=epsilon, random_state=0)
    mapper.fit(X, h, private=g)
    mapper.mapping_.save(tmp_path / "home.json")
    for weights in Mapping.load(tmp_path / "home.json").weights:
        assert weights.shape == (10, n_symbols)
        used = weights[:, weights.max(axis=0) > 0]
        assert used.shape[1] == min(n_symbols, 10)
        assert np.log(used.max(axis=0) / used.min(axis=0)).max() <= epsilon
    assert mapper.structural_epsilon_ <= 4 * epsilon
    assert mapper.structural_epsilon_ == pytest.approx(4 * epsilon, rel=1e-6)


def test_the_budget_is_1_unless_another_is_given():
    X, h, g = home()
    mapper = RandomizedResponseMapper(random_state=0).fit(X, h, private=g)
    assert mapper.ldp_epsilon_ == 1.0
    assert mapper.mapping_.design.method == "randomized-response"
    assert mapper.mapping_.design.parameters["ldp_epsilon"] == 1.0
    assert "loss" not in mapper.mapping_.design.parameters
    twice = mapper.set_params(ldp_epsilon=2.0).fit(X, h, private=g)
    assert twice.ldp_epsilon_ == 2.0
    assert twice.structural_epsilon_ == pytest.approx(8.0, rel=1e-6)


@pytest.mark.parametrize(
    "asked", [{"privacy_ratio": 0.9}, {"max_advantage": 0.1}, {"epsilon": 1.0}]
)
def test_wishes_about_the_private_fact_are_refused(asked):
    X, h, g = home()
    said = refused("does not look at", RandomizedResponseMapper(**asked).fit, X, h, private=g)
    assert said.startswith(next(iter(asked)))
    refused("ldp_epsilon", RandomizedResponseMapper(ldp_epsilon=0.0).fit, X, h, private=g)
    refused("do not know", RandomizedResponseMapper(solver="thorough").fit, X, h, private=g)


@pytest.mark.slow
def test_symbols_come_as_often_as_the_tables_say():
    X, h, g = home(200)
    mapper = RandomizedResponseMapper(3, ldp_epsilon=1.0).fit(X, h, private=g)
    row = X.iloc[[0]]
    codes = mapper.mapping_.encode(row)[0]
    drawn = mapper.transform(pd.concat([row] * 20_000, ignore_index=True))
    for t, table in enumerate(mapper.mapping_.tables):
        seen = np.bincount(drawn[:, t], minlength=3) / len(drawn)
        np.testing.assert_allclose(seen, table[codes[t]], atol=0.02)


def test_what_it_expects_on_new_rows_is_what_comes():
    X, h, g = home(1000)
    mapper = RandomizedResponseMapper(ldp_epsilon=2.0, random_state=0).fit(X, h, private=g)
    figures = exact_figures(tables_by_reading(mapper.mapping_), 0.0)
    assert mapper.expected_.met is None
    assert mapper.expected_.advantage == pytest.approx(0.5 - figures.risk, abs=0.04)
    assert mapper.expected_.public_error == pytest.approx(figures.public_error, abs=0.04)
    assert mapper.useful_
    assert mapper.score(X, h) == pytest.approx(1 - figures.public_error, abs=0.04)


def test_a_tighter_budget_tells_less_of_either_fact():
    X, h, g = home(1000)
    found = [
        exact_figures(
            tables_by_reading(
                RandomizedResponseMapper(ldp_epsilon=e, random_state=0)
                .fit(X, h, private=g)
                .mapping_
            ),
            0.0,
        )
        for e in (4.0, 2.0, 1.0)
    ]
    assert found[0].public_error < found[1].public_error < found[2].public_error
    assert found[0].risk < found[1].risk < found[2].risk


def test_categories_are_grouped_by_the_public_fact_and_strange_ones_say_little():
    rng = np.random.default_rng(0)
    h, g = rng.integers(2, size=(2, 600))
    colours = np.array([["red", "blue", "ochre"], ["green", "black", "white"]])
    X = pd.DataFrame({"colour": colours[h, rng.integers(3, size=600)]})
    mapper = RandomizedResponseMapper(ldp_epsilon=3.0, random_state=0).fit(X, h, private=g)
    sent = pd.DataFrame({"colour": [*colours.ravel(), "violet", None]})
    codes = mapper.mapping_.encode(sent)[:, 0]
    shares = mapper.mapping_.tables[0][codes][:, 0]
    assert len(set(shares[:3])) == len(set(shares[3:6])) == 1
    assert abs(shares[0] - shares[3]) > 0.9
    np.testing.assert_allclose(shares[6:], 0.5, atol=0.05)


def test_more_outputs_than_can_be_listed():
    rng = np.random.default_rng(0)
    h, g = rng.integers(2, size=(2, 150))
    X = pd.DataFrame({f"s{k}": 2 * h + g + rng.integers(2, size=150) for k in range(11)})
    fitted = RandomizedResponseMapper(ldp_epsilon=3.0, random_state=0).fit(X, h, private=g)
    assert fitted.mapping_.fusion.kind == "additive"
    assert fitted.expected_.epsilon is None
    assert fitted.score(X, h) > 0.8


def test_rows_that_cannot_be_halved_leave_the_expectation_open():
    X, h, _ = home(40)
    mapper = RandomizedResponseMapper(ldp_epsilon=3.0, random_state=0)
    mapper.fit(X, h, private=np.arange(40) == 0)
    assert mapper.expected_ is None
    assert mapper.useful_


def test_a_budget_too_small_to_say_anything_is_told():
    X, h, g = home()
    with pytest.warns(UninformativeMappingWarning, match="no better than guessing"):
        mapper = RandomizedResponseMapper(ldp_epsilon=1e-3, random_state=0).fit(X, h, private=g)
    assert not mapper.useful_
