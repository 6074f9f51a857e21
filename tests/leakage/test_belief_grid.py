import numpy as np
import pytest
from scipy.stats import binom
from support.rounds import HALF, law_of_sequences, random_law, skewed_chain

from discreet.leakage.chains import Chain, figures_between
from discreet.leakage.exact import advantage, mutual_information


@pytest.mark.parametrize(("stay", "exact"), [(0.9, 0.0343), (0.99, 0.1093), (0.999, 0.2846)])
@pytest.mark.slow
def test_a_day_of_a_chain_is_known_to_four_digits(stay, exact):
    ((low, high),) = figures_between(HALF, Chain.of_stay(stay, [0.5, 0.5]), [1441])
    assert low.advantage <= high.advantage <= low.advantage + 2e-5
    assert high.advantage == pytest.approx(exact, abs=1e-4)


@pytest.mark.slow
def test_a_fact_that_never_changes_is_that_of_the_binomial_law():
    ((low, high),) = figures_between(HALF, Chain.constant([0.5, 0.5]), [1440])
    counts = np.arange(1441)
    exact = advantage(np.stack([binom.pmf(counts, 1440, p) for p in (0.48, 0.52)]))
    assert low.advantage - 1e-9 <= exact <= high.advantage <= exact + 2e-5
    assert exact == pytest.approx(0.4355, abs=1e-4)


@pytest.mark.parametrize(
    ("share", "stay", "exact"), [(0.5, 0.9, 0.034), (0.2, 0.9, 0.041), (0.2, 0.6, 0.022)]
)
def test_fresh_draws_of_fifteen_rounds_are_those_of_all_sequences(share, stay, exact):
    chain = skewed_chain(share, stay)
    ((low, high),) = figures_between(HALF, chain, [15])
    listed = advantage(law_of_sequences(HALF, chain, 15))
    assert listed == pytest.approx(exact, abs=5e-4)
    assert low.advantage - 1e-9 <= listed <= high.advantage + 1e-9
    assert high.advantage - low.advantage < 1e-4


@pytest.mark.slow
def test_any_table_and_chain_lies_between_the_two_sides(rng):
    for k in range(150):
        given, n = random_law(rng), int(rng.integers(1, 8))
        stay = 1.0 if k % 5 == 0 else rng.uniform(0, 1, 2)
        chain = Chain.of_stay(stay, rng.dirichlet([3, 3]))
        law = law_of_sequences(given, chain, n)
        ((low, high),) = figures_between(given, chain, [n])
        assert low.advantage - 1e-9 <= advantage(law) <= high.advantage + 1e-9
        told = mutual_information(law, chain.prior)
        assert low.information - 1e-9 <= told <= high.information + 1e-9
        assert high.advantage - low.advantage < 1e-4
        assert high.information - low.information < 1e-3


def test_no_round_loses_much_more_than_the_middle_one(rng):
    for _ in range(150):
        given, n = random_law(rng), int(rng.integers(2, 7))
        chain = Chain.of_stay(rng.uniform(0, 1, 2), [0.5, 0.5])
        lost = [advantage(law_of_sequences(given, chain, n, at)) for at in range(n)]
        assert max(lost) < lost[n // 2] + 1e-3


def test_many_outputs_are_merged_and_still_bracketed(rng):
    given = rng.dirichlet(np.full(300, 5.0), 2)
    chain = Chain.of_stay(0.8, [0.5, 0.5])
    ((low, high),) = figures_between(given, chain, [2])
    exact = advantage(law_of_sequences(given, chain, 2))
    assert low.advantage <= exact <= high.advantage < low.advantage + 1e-3


def test_several_numbers_of_rounds_are_those_of_each_alone():
    chain = Chain.of_stay([0.9, 0.8], [0.5, 0.5])
    both = figures_between(HALF, chain, [3, 12])
    for n, (low, high) in zip((3, 12), both, strict=True):
        exact = advantage(law_of_sequences(HALF, chain, n))
        assert low.advantage - 1e-9 <= exact <= high.advantage + 1e-9


def test_a_round_that_tells_nothing_tells_nothing_in_a_thousand():
    ((_, high),) = figures_between(np.full((2, 2), 0.5), Chain.constant([0.3, 0.7]), [1000])
    assert high.advantage == pytest.approx(0.0, abs=1e-12)
    assert high.information == pytest.approx(0.0, abs=1e-12)
