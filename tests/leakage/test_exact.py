from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.leakage.exact import (
    advantage,
    balanced_accuracy,
    bayes_error,
    epsilon_beyond,
    information_epsilon,
    maximal_leakage,
    mutual_information,
    pair_risk,
    pairwise_epsilon,
    total_variation,
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


@given(**cases)
def test_total_variation_is_that_of_the_best_set(seed, classes):
    conditional, _ = random_given(seed, classes)
    sets = [np.array(chosen, dtype=bool) for chosen in product((0, 1), repeat=4)]
    best = max(
        conditional[a, chosen].sum() - conditional[b, chosen].sum()
        for a, b in combinations(range(classes), 2)
        for chosen in sets
    )
    assert total_variation(conditional) == pytest.approx(best)
    assert total_variation(conditional) == pytest.approx(1 - 2 * pair_risk(conditional))


@given(**cases)
def test_pairwise_epsilon_bounds_every_priors(seed, classes):
    conditional, prior = random_given(seed, classes)
    ratios = np.log(conditional[:, None] / conditional[None])
    assert pairwise_epsilon(conditional) == pytest.approx(ratios.max())
    assert pairwise_epsilon(conditional) >= information_epsilon(conditional, prior)


def information_delta(conditional, prior, epsilon):
    """Return the probability of outputs that move some class by more than epsilon, in full."""
    overall = prior @ conditional
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.abs(np.log(conditional / overall)).max(axis=0) > epsilon + 1e-12
    return overall[moved].sum()


@given(**cases)
def test_epsilon_beyond_is_the_smallest_that_keeps_delta(seed, classes):
    conditional, prior = random_given(seed, classes, outputs=6)
    assert epsilon_beyond(conditional, prior, 0.0) == information_epsilon(conditional, prior)
    assert epsilon_beyond(conditional, prior, 1.0) == 0
    for delta in (0.05, 0.2, 0.6):
        epsilon = epsilon_beyond(conditional, prior, delta)
        assert information_delta(conditional, prior, epsilon) <= delta
        assert epsilon == 0 or information_delta(conditional, prior, epsilon - 1e-9) > delta
        # The paper counts a pair (class, output) only if the true class moved that much.
        joint = prior[:, None] * conditional
        moved = np.abs(np.log(joint / joint.sum(axis=0) / prior[:, None])) > epsilon + 1e-9
        assert joint[moved].sum() <= delta + 1e-12


@given(**cases)
def test_mutual_information_is_the_expected_change(seed, classes):
    conditional, prior = random_given(seed, classes)
    joint = prior[:, None] * conditional
    twin = (joint * np.log(joint / joint.sum(axis=0) / prior[:, None])).sum()
    assert mutual_information(conditional, prior) == pytest.approx(twin, abs=1e-12)
    assert mutual_information(conditional, prior) <= maximal_leakage(conditional) + 1e-12


@given(**cases)
def test_maximal_leakage_is_the_gain_of_a_guess_under_a_uniform_prior(seed, classes):
    conditional, _ = random_given(seed, classes)
    gain = balanced_accuracy(conditional) * classes
    assert maximal_leakage(conditional) == pytest.approx(np.log(gain))
    assert maximal_leakage(conditional) <= pairwise_epsilon(conditional)


def test_zeros_are_no_trouble():
    conditional, half = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]), np.array([0.5, 0.5])
    assert pairwise_epsilon(conditional) == np.inf
    assert information_delta(conditional, half, 10.0) == 0.25
    assert epsilon_beyond(conditional, half, 0.25) == pytest.approx(np.log(1.5))
    assert mutual_information(np.eye(2), half) == pytest.approx(np.log(2))
    assert maximal_leakage(np.eye(3)) == pytest.approx(np.log(3))
