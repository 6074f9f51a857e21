import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from discreet.auditing.bounds.intervals import (
    bernoulli_kl,
    clopper_pearson_lower,
    clopper_pearson_upper,
    kl_lower,
    kl_upper,
    two_points,
)

probabilities = st.floats(0, 1)
levels = st.floats(1e-6, 5)


@given(n=st.integers(1, 60), share=probabilities, alpha=st.floats(0.001, 0.5))
def test_clopper_pearson_inverts_the_binomial_tail(n, share, alpha):
    k = round(share * n)
    low = float(clopper_pearson_lower(k, n, alpha))
    high = float(clopper_pearson_upper(k, n, alpha))
    assert low <= k / n <= high
    if k:
        assert binom.sf(k - 1, n, low) == pytest.approx(alpha, rel=1e-6)
    else:
        assert low == 0
    if k < n:
        assert binom.cdf(k, n, high) == pytest.approx(alpha, rel=1e-6)
    else:
        assert high == 1


@given(mean=probabilities, level=levels)
def test_kl_bounds_lie_just_outside_the_level(mean, level):
    low, high = float(kl_lower(mean, level)), float(kl_upper(mean, level))
    assert 0 <= low <= mean <= high <= 1
    for bound, inward in ((low, 1e-9), (high, -1e-9)):
        if 0 < bound < 1 and abs(bound - mean) > 1e-6:
            assert bernoulli_kl(mean, bound) >= level * (1 - 1e-9)  # outside, or on it
            assert bernoulli_kl(mean, bound * (1 + inward) + inward) <= level * (1 + 1e-3)


def test_kl_bounds_agree_with_a_fine_grid():
    grid = np.linspace(0, 1, 200_001)
    for mean in (0.0, 0.01, 0.3, 0.97, 1.0):
        inside = grid[bernoulli_kl(mean, grid) <= 0.02]
        assert float(kl_lower(mean, 0.02)) == pytest.approx(inside.min(), abs=1e-5)
        assert float(kl_upper(mean, 0.02)) == pytest.approx(inside.max(), abs=1e-5)


def bisected(mean, level, end, middle_of):
    """The slow twin of the inverses of kl: halve, from the mean to the far end."""
    inside, outside = mean.copy(), np.full(mean.shape, end)
    for _ in range(80):
        middle = middle_of(inside, outside)
        beyond = bernoulli_kl(mean, middle) > level
        inside, outside = np.where(beyond, inside, middle), np.where(beyond, middle, outside)
    return outside


def test_kl_bounds_are_those_of_bisection_or_just_outside(rng):
    small = 10.0 ** rng.uniform(-12, 0, 3000)
    mean = np.concatenate([rng.random(3000), small, 1 - small, [0.0, 1.0, 1e-300, 1 - 1e-16]])
    level = 10.0 ** rng.uniform(-7, 1, len(mean))
    upper = kl_upper(mean, level) - bisected(mean, level, 1.0, lambda a, b: 0.5 * (a + b))
    assert upper.min() >= 0.0 and upper.max() <= 4e-12
    slow = bisected(mean, level, 1e-300, lambda a, b: np.sqrt(a) * np.sqrt(b))
    lower, possible = kl_lower(mean, level), slow > 1.01e-300
    assert (lower[~possible] == 0).all()
    ratio = lower[possible] / slow[possible]
    assert ratio.min() >= 1 - 4e-12 and ratio.max() <= 1.0


def test_kl_bounds_promise_nothing_where_nothing_is_known():
    for mean, level in ((0.3, np.inf), (np.nan, 0.1), (0.0, np.inf)):
        assert float(kl_lower(mean, level)) == 0
        assert float(kl_upper(mean, level)) == 1


def test_relative_entropy_is_right_for_tiny_probabilities():
    # Against the series: kl = q - p + p log(p/q) + (q^2 - 2pq + p^2)/2 + ..., up to q^3.
    p, q = 3e-9, 1e-9
    expected = q - p + p * np.log(p / q) + (q - p) ** 2 / 2
    assert float(bernoulli_kl(p, q)) == pytest.approx(expected, rel=1e-12)


def test_kl_bounds_at_the_ends_have_a_closed_form():
    assert float(kl_upper(0.0, 0.1)) == pytest.approx(1 - np.exp(-0.1))
    assert float(kl_lower(1.0, 0.1)) == pytest.approx(np.exp(-0.1))
    assert float(kl_lower(0.0, 0.1)) == 0
    assert float(kl_upper(1.0, 0.1)) == 1


@given(mean=probabilities, level=levels, more=st.floats(1, 10))
def test_a_larger_level_is_looser(mean, level, more):
    assert kl_upper(mean, level * more) >= kl_upper(mean, level)
    assert kl_lower(mean, level * more) <= kl_lower(mean, level)


@given(
    values=st.lists(st.floats(0, 1), min_size=2, max_size=20),
    bet=st.floats(0.01, 0.95),
    centre=st.floats(0.01, 1),
)
def test_two_points_bound_every_log_wealth_from_below(values, bet, centre):
    sample = np.array(values)
    mass, place = two_points(sample.mean(), np.mean(sample**2))
    wealth = np.mean(np.log1p(bet * (sample / centre - 1)))
    floor = (1 - mass) * np.log1p(-bet) + mass * np.log1p(bet * (place / centre - 1))
    assert floor <= wealth + 1e-9
    # The two points have the moments that they stand for.
    assert mass * place == pytest.approx(sample.mean(), abs=1e-12)
    assert mass * place**2 == pytest.approx(np.mean(sample**2), abs=1e-9)


LAWS = {
    "coin": lambda rng, shape: (rng.random(shape) < 0.05).astype(float),
    "skewed": lambda rng, shape: rng.beta(0.1, 1.9, shape),
    "narrow": lambda rng, shape: rng.uniform(0.04, 0.06, shape),
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_bounds_of_means_hold_as_often_as_promised(law, rng):
    alpha, n, trials = 0.1, 60, 2000
    sample = law(rng, (trials, n))
    mean, level = sample.mean(axis=1), np.log(1 / alpha) / n
    fails = [
        np.mean(kl_lower(mean, level) > 0.05),
        np.mean(kl_upper(mean, level) < 0.05),
    ]
    # 2000 trials of a bound that fails with probability 0.1 show more than 0.125 in one of
    # 10,000 runs; the seed is fixed besides.
    assert max(fails) <= 0.125


def test_groups_count_once_in_kl_bounds(rng):
    # Rows of a group are copies. Sizes differ, so 1/max share is less than their number.
    alpha, sizes = 0.1, np.array([1, 2, 3, 4, 5] * 8)
    weights = sizes / sizes.sum()
    draws = rng.random((4000, len(sizes))) < 0.2
    level = np.log(1 / alpha) * weights.max()
    assert np.mean(kl_lower(draws @ weights, level) > 0.2) <= alpha
    assert np.mean(kl_upper(draws @ weights, level) < 0.2) <= alpha
