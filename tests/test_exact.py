from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.exact import (
    advantage,
    balanced_accuracy,
    bayes_error,
    information_epsilon,
    pair_risk,
)

cases = {"seed": st.integers(0, 2**32 - 1), "classes": st.integers(2, 4)}


def random_given(seed, classes, outputs=4):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(outputs), size=classes), rng.dirichlet(np.ones(classes))


def all_rules(classes, outputs):
    return (np.array(rule) for rule in product(range(classes), repeat=outputs))


@given(**cases)
def test_errors_are_those_of_the_best_of_all_rules(seed, classes):
    conditional, prior = random_given(seed, classes)
    z = np.arange(4)
    error = min(
        1 - sum(prior[rule[k]] * conditional[rule[k], k] for k in z)
        for rule in all_rules(classes, 4)
    )
    accuracy = max(
        sum(conditional[rule[k], k] for k in z) / classes for rule in all_rules(classes, 4)
    )
    assert bayes_error(conditional, prior) == pytest.approx(error)
    assert balanced_accuracy(conditional) == pytest.approx(accuracy)


@given(**cases)
def test_pair_risk_is_the_worst_pairs_average_error(seed, classes):
    conditional, _ = random_given(seed, classes)
    worst = 1.0
    for a, b in combinations(range(classes), 2):
        for rule in all_rules(2, 4):
            missed = conditional[a, rule == 1].sum() + conditional[b, rule == 0].sum()
            worst = min(worst, missed / 2)
    assert pair_risk(conditional) == pytest.approx(worst)


@given(**cases)
def test_advantage_counts_the_worst_pair(seed, classes):
    conditional, _ = random_given(seed, classes)
    assert advantage(conditional) >= 0.5 - pair_risk(conditional)
    assert advantage(conditional) >= balanced_accuracy(conditional) - 1 / classes
    if classes == 2:
        assert advantage(conditional) == pytest.approx(0.5 - pair_risk(conditional))


@given(**cases)
def test_epsilon_is_the_largest_change_of_a_posterior(seed, classes):
    conditional, prior = random_given(seed, classes)
    joint = prior[:, None] * conditional
    posterior = joint / joint.sum(axis=0)
    twin = np.max(np.abs(np.log(posterior / prior[:, None])))
    assert information_epsilon(conditional, prior) == pytest.approx(twin)


def test_an_output_that_rules_a_class_out_has_infinite_epsilon():
    assert information_epsilon(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([0.5, 0.5])) == np.inf


def test_an_impossible_output_does_not_count():
    conditional = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])
    assert information_epsilon(conditional, np.array([0.3, 0.7])) == 0.0
