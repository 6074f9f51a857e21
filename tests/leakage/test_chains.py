import numpy as np
import pytest
from support.helpers import refused
from support.rounds import law_of_sequences, random_law

from discreet.leakage.chains import Chain, epsilon_over_rounds, epsilon_recursion, split_rounds
from discreet.leakage.exact import pairwise_epsilon, squared_information


def test_the_printed_line_of_the_recursion_is_reproduced():
    found = epsilon_recursion(np.array([[0.8, 0.2], [0.0, 1.0]]), 0.1, 10)
    printed = [0.10, 0.18, 0.25, 0.30, 0.35, 0.39, 0.42, 0.45, 0.48, 0.50]
    np.testing.assert_allclose(found, printed, atol=0.005)


@pytest.mark.parametrize("stay", [0.6, 0.9, 0.99])
def test_for_two_classes_alike_the_recursion_is_the_formula(stay):
    told = 0.0
    for found in epsilon_recursion(np.array([[stay, 1 - stay], [1 - stay, stay]]), 0.3, 50):
        up, down = stay * np.exp(told), (1 - stay) * np.exp(told)
        assert found == pytest.approx(0.3 + np.log((up + 1 - stay) / (down + stay)))
        told = found


@pytest.mark.parametrize("classes", [2, 3])
def test_epsilon_is_never_below_that_of_all_sequences(rng, classes):
    for _ in range(60):
        given = rng.dirichlet(np.full(3, 3.0), classes)
        chain = Chain.of_stay(rng.dirichlet(np.ones(classes), classes), np.ones(classes) / classes)
        n = int(rng.integers(1, 6))
        exact = pairwise_epsilon(law_of_sequences(given, chain, n))
        assert epsilon_over_rounds(chain, pairwise_epsilon(given), n) >= exact - 1e-9


def test_epsilon_is_reached_by_two_symbols_and_two_classes_alike():
    given = np.array([[0.6, 0.4], [0.4, 0.6]])
    for stay in (0.7, 0.95, 1.0):
        chain = Chain.of_stay(stay, [0.5, 0.5])
        exact = pairwise_epsilon(law_of_sequences(given, chain, 7))
        assert epsilon_over_rounds(chain, pairwise_epsilon(given), 7) == pytest.approx(exact)


def test_a_chain_has_the_law_that_a_step_leaves_and_its_way_back(rng):
    for classes in (2, 3, 5):
        chain = Chain.of_stay(rng.uniform(0.1, 0.9, classes), np.ones(classes) / classes)
        np.testing.assert_allclose(chain.prior @ chain.moves, chain.prior)
        joint = chain.prior[:, None] * chain.moves
        np.testing.assert_allclose(chain.prior[:, None] * chain.back, joint.T)
        np.testing.assert_allclose(chain.every(3).moves, chain.moves @ chain.moves @ chain.moves)


def test_a_step_leaves_no_more_than_the_share_that_is_kept(rng):
    largest = 0.0
    for _ in range(2000):
        chain = Chain.of_stay(rng.uniform(0.0, 1.0, 2), [0.5, 0.5])
        given = random_law(rng)
        left = squared_information(chain.moves @ given)
        assert left <= chain.kept * squared_information(given) + 1e-12
        largest = max(largest, left / max(chain.kept * squared_information(given), 1e-9))
    assert largest > 0.95  # the share is no looser than it has to be
    assert Chain.of_stay(0.9, [0.5, 0.5]).kept == pytest.approx(0.8**2)


def test_the_middle_has_the_past_first():
    assert [split_rounds(n) for n in (1, 2, 3, 1441)] == [(0, 0), (1, 0), (1, 1), (720, 720)]


@pytest.mark.parametrize(
    ("stay", "words"),
    [
        ([0.9, 0.9, 0.9], "3 probabilities; the fact has 2 classes"),
        ([[0.9, 0.1]], r"shape \(1, 2\)"),
        (1.2, "must hold probabilities"),
        ([[0.9, 0.2], [0.5, 0.5]], "must sum to 1"),
        ([0.9, 1.0], r"reach every class again.*got \[0.9, 1.0\]"),
    ],
)
def test_what_is_no_chain_is_refused(stay, words):
    refused(words, Chain.of_stay, stay, [0.5, 0.5])
