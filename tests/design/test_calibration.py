import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from discreet.design.calibration import Expected, _chance, _least_strict
from discreet.design.heads import Labels


@given(first=st.integers(0, 9))
def test_bisection_finds_the_least_strict_level_that_keeps_the_request(first):
    levels = list(range(9))
    found = _least_strict(levels, lambda level: level >= first)
    assert found == (first if first < 9 else None)


def test_chance_is_what_a_coin_exceeds_once_in_twenty(rng):
    index = np.repeat([0, 1], [30, 90])
    coin = rng.integers(2, size=(20_000, 120)) == index
    gain = 0.5 * (coin[:, :30].mean(axis=1) + coin[:, 30:].mean(axis=1)) - 0.5
    # Standard error of the share over 20,000 trials: 0.0015; steps of 1/60 add as much again.
    assert abs(np.mean(gain > _chance(Labels("h", index, 2))) - 0.05) < 0.01


def test_useful_takes_more_than_chance_and_more_than_next_to_nothing():
    def expected(gain, noise):
        return Expected(0.0, 0.0, None, None, 0.5, gain, noise, 2, None)

    assert expected(0.2, 0.1).useful
    assert not expected(0.08, 0.1).useful
    assert not expected(0.04, 0.01).useful
