import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.design.calibration import Expected, Request, least_strict
from discreet.design.held_out import Score


@given(first=st.integers(0, 9))
def test_bisection_finds_theleast_strict_level_that_keeps_the_request(first):
    levels = list(range(9))
    found = least_strict(levels, lambda level: level >= first)
    assert found == (first if first < 9 else None)


def scores(*advantages, epsilon=None):
    return [Score(each, epsilon) for each in advantages]


@given(st.lists(st.floats(0, 0.5), min_size=2, max_size=5), st.floats(0.01, 0.4))
def test_met_is_estimate_plus_one_standard_error_within_the_limit(advantages, limit):
    upper = np.mean(advantages) + np.std(advantages, ddof=1) / np.sqrt(len(advantages))
    if abs(upper - limit) > 1e-9:
        assert Request(max_advantage=limit).met_by(scores(*advantages)) == (upper <= limit)


@pytest.mark.parametrize(
    ("middle", "error"), [(0.075, 0.015), (0.061, 0.012), (0.060, 0.008), (0.045, 0.006)]
)
def test_what_goes_beyond_the_limit_by_its_standard_error_is_not_met(middle, error):
    three = scores(middle - error * np.sqrt(3), middle, middle + error * np.sqrt(3))
    assert not Request(max_advantage=0.05).met_by(three)


def test_both_limits_have_to_be_met():
    found = scores(0.03, 0.03, epsilon=1.0)
    assert Request(0.05, 1.0).met_by(found) and Request(None, 1.0).met_by(found)
    assert not Request(0.05, 0.9).met_by(found) and not Request(0.02, 1.0).met_by(found)
    # Where the outputs are too many to list, epsilon holds by construction.
    assert Request(0.05, 0.1).met_by(scores(0.03, 0.03))
    assert not Request(None, 5.0).met_by(scores(0.0, 0.0, epsilon=float("inf")))


def expected(low, decided):
    middle = low + 0.05
    return Expected(
        advantage=0.0,
        advantage_error=0.0,
        epsilon=None,
        epsilon_error=None,
        public_error=0.5,
        balanced_accuracy=middle,
        balanced_low=low,
        balanced_high=middle + 0.05,
        decided=decided,
        guessing_error=0.4,
        raw_error=0.1,
        raw_balanced_accuracy=0.9,
        folds=2,
        met=None,
    )


def test_useful_is_an_interval_above_guessing_and_decisions_that_differ():
    assert expected(0.501, (0.6, 0.4)).useful
    assert not expected(0.5, (0.6, 0.4)).useful
    assert not expected(0.7, (1.0, 0.0)).useful
    assert expected(0.35, (0.6, 0.4, 0.0)).useful  # guessing among three
    assert expected(0.35, (0.6, 0.4, 0.0)).public_advantage == pytest.approx(0.4 - 1 / 3)
