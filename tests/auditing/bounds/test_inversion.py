import numpy as np
import pytest

from discreet.auditing.bounds.intervals import last_positive

CLOSE = 1e-10


def steep(x, end):
    """Falls without bound before its end, and is minus infinity from there on."""
    inside = x < end
    gap = np.where(inside, end - x, 1.0)
    return np.where(inside, 1 + 1e-3 * np.log(gap), -np.inf), np.where(inside, -1e-3 / gap, np.nan)


# Each with its zero, by the number a of the function.
FAMILIES = {
    "straight": (lambda x, a: (a - x, np.full_like(x, -1.0)), lambda a: a),
    "concave": (lambda x, a: (a**3 - x**3, -3 * x**2), lambda a: a),
    "convex": (lambda x, a: (1 / x - 1 / a, -1 / x**2), lambda a: a),
    "broken": (
        lambda x, a: (np.where(x < a, a - x, 1e-6 * (a - x)), np.where(x < a, -1.0, -1e-6)),
        lambda a: a,
    ),
    "flat at its zero": (lambda x, a: ((a - x) ** 3, -3 * (a - x) ** 2), lambda a: a),
    "steep before its end": (steep, lambda a: a - np.exp(-1000.0)),
    "a wrong slope": (lambda x, a: (a - x, np.full_like(x, 1.0)), lambda a: a),
}


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize("start", [1e-9, 0.3, 1e9])
def test_points_lie_just_below_the_zero(family, start, rng):
    function, zero = family
    number = 10.0 ** rng.uniform(-3, 3, (4, 50))
    low, high = np.full(number.shape, 1e-6), np.full(number.shape, 1e6)
    found = last_positive(
        lambda x, which: function(x, number[which]), np.full_like(low, start), low, high, CLOSE
    )
    assert (function(found, number)[0] >= 0).all()
    # Two shares of a point by Newton's estimate of its distance, which errs where the function
    # is flat: a cubic zero looks three times as near as it is.
    assert (found >= zero(number) * (1 - 7 * CLOSE)).all()


def test_a_function_that_stays_positive_is_followed_to_the_end():
    low, high = np.array([1.0]), np.array([5.0])
    found = last_positive(lambda x, _: (10 - x, np.full_like(x, -1.0)), low, low, high, CLOSE)
    assert found[0] == pytest.approx(5.0, rel=2 * CLOSE)


def test_an_empty_bracket_is_its_own_answer():
    low = np.array([2.0, 3.0])
    found = last_positive(lambda x, _: (-x, -np.ones_like(x)), low, low, low, CLOSE)
    assert found.tolist() == [2.0, 3.0]


def test_a_single_number_will_do():
    found = last_positive(
        lambda x, _: (2 - x, -np.ones_like(x)), np.float64(1), np.float64(1), np.float64(9), CLOSE
    )
    assert float(found) == pytest.approx(2.0, rel=2 * CLOSE)
