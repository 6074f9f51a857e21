"""Figures in words: a bound is never quoted better than it is."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import rounding

SHARES = st.floats(0, 1)
NOISE = 2e-9  # of the arithmetic


def quoted(text):
    return float(re.match(r"[\d.]+", text)[0]) / 100


@given(SHARES, SHARES)
def test_a_most_is_never_rounded_down_and_a_least_never_up(share, limit):
    assert quoted(rounding.at_most(share, limit)) >= share - NOISE
    assert quoted(rounding.at_least(share, limit)) <= share + NOISE
    assert rounding.up(share) >= share - NOISE and rounding.down(share) <= share + NOISE


@given(SHARES)
def test_a_confidence_is_never_rounded_up(share):
    assert float(rounding.confidence(share)) <= 100 * share + 1e-6


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.95, "95"), (1 - 0.05 / 3, "98.3"), (0.9875, "98.75"), (0.999, "99.9"), (1.0, "100")],
)
def test_a_confidence_has_few_digits(share, said):
    assert rounding.confidence(share) == said


@given(st.floats(0, 700))
def test_a_factor_is_rounded_up(epsilon):
    assert float(rounding.factor(epsilon)) >= math.exp(epsilon) * (1 - 1e-7)


@pytest.mark.parametrize(
    ("share", "limit", "most", "least"),
    [
        (0.10327, 0.2, "10.4 points", "10.3 points"),
        (0.0122, 0.0123, "1.22 points", "1.2 points"),  # 1.3 would be beyond the limit
        (0.10004, 0.1, "10.1 points", "10.004 points"),  # 10.0 would be within it
        (0.0, 0.1, "0.0 points", "0.0 points"),
    ],
)
def test_a_bound_reads_on_the_side_of_the_limit_that_it_is_on(share, limit, most, least):
    assert rounding.at_most(share, limit) == most
    assert rounding.at_least(share, limit) == least


@given(st.floats(0.001, 0.99), st.floats(0.001, 0.99))
def test_an_interval_is_rounded_outwards(one, other):
    low, high = min(one, other), max(one, other)
    ends = [float(each) / 100 for each in rounding.percents(low, high).split(" to ")]
    assert ends[0] <= low + NOISE and ends[1] >= high - NOISE


def test_both_ends_of_an_interval_are_rounded_outwards():
    assert rounding.percents(0.68787, 0.99049) == "68.7 to 99.1"
    assert rounding.gains(-0.01234, 0.0201) == "−1.3 to 2.1"


@pytest.mark.parametrize("value", [1e306, -1e306, 1.7e308, math.inf, -math.inf])
def test_what_is_too_large_to_be_scaled_stays_as_it_is(value):
    assert rounding.up(value) == rounding.down(value) == value
