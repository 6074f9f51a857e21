import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.leakage.exact import (
    extreme_probability,
    information_epsilon,
    pair_risk,
    proposition_budget,
    theorem_budget,
)

COIN = np.array([[0.6, 0.4], [0.3, 0.7]])
LOGISTIC = {"at_zero": np.log(2), "a": 0.5**0.5, "r": 2}


@given(seed=st.integers(0, 2**32 - 1), classes=st.integers(2, 4))
def test_the_proposition_bounds_the_true_epsilon(seed, classes):
    rng = np.random.default_rng(seed)
    world = 0.9 / 4 + 0.1 * rng.dirichlet(np.ones(4), size=classes)
    world /= world.sum(axis=1, keepdims=True)
    prior = rng.dirichlet(np.ones(classes))
    assert proposition_budget(world).epsilon >= information_epsilon(world, prior) - 1e-12


def test_the_coin_by_hand():
    # The ratio is least at output 0, 0.6 in class 0, and largest at output 1, 0.7 in class 1.
    assert extreme_probability(COIN) == pytest.approx(0.6)
    found = proposition_budget(COIN)
    assert found.theta == pytest.approx(pair_risk(COIN)) == pytest.approx(0.35)
    assert found.epsilon == pytest.approx(np.log(0.6 / 0.3))
    assert not found.asymptotic


def test_equal_ratios_count_together():
    assert extreme_probability(np.array([[0.2, 0.2, 0.6], [0.1, 0.1, 0.8]])) == pytest.approx(0.4)
    assert extreme_probability(np.full((2, 4), 0.25)) == pytest.approx(1.0)


def test_more_classes_pay_twice():
    world = np.stack([*COIN, COIN.mean(axis=0)])
    c = extreme_probability(world)
    assert proposition_budget(world, 0.4).epsilon == pytest.approx(2 * np.log(c / (c - 0.2)))
    two, three = (theorem_budget(w, 0.69, 0.001, **LOGISTIC) for w in (COIN, world))
    assert two.asymptotic and three.asymptotic
    lost = 2 * 0.5**0.5 * (np.log(2) - 0.689) ** 0.5
    assert two.epsilon == pytest.approx(np.log(0.6 / (0.6 - lost)))
    assert three.epsilon == pytest.approx(2 * np.log(c / (c - lost)))


def test_a_weak_floor_promises_nothing():
    assert proposition_budget(COIN, 0.1).epsilon == np.inf
    assert theorem_budget(COIN, 0.2, 0.01, **LOGISTIC).epsilon == np.inf
    assert proposition_budget(np.array([[1.0, 0.0], [0.5, 0.5]])).epsilon == np.inf


def test_a_perfect_floor_promises_everything():
    same = np.full((2, 3), 1 / 3)
    assert proposition_budget(same).epsilon == pytest.approx(0, abs=1e-12)
    assert theorem_budget(same, np.log(2), 0.0, **LOGISTIC).epsilon == 0
