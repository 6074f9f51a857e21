import numpy as np
import pytest
from support.optimum_cases import correlated, random_problem

from discreet.leakage.exact import bayes_error
from research.optimum.distribution import Distribution
from research.optimum.limits import Wishes, ceilings_from, lower_bound


def bound(distribution, ldp_total=np.inf, **wishes):
    return lower_bound(distribution, ceilings_from(Wishes(**wishes), distribution), ldp_total)


def raw_error(distribution):
    joint = distribution.joint_outputs([np.eye(size) for size in distribution.sizes])
    public = distribution.class_rows(distribution.public) @ joint
    prior = public.sum(axis=1)
    return bayes_error(public / prior[:, None], prior)


def test_without_wishes_it_is_the_error_of_the_raw_readings():
    for distribution in (correlated(0.2), random_problem(0), random_problem(1, classes=3)):
        assert bound(distribution) == pytest.approx(raw_error(distribution), abs=1e-9)


def test_perfect_privacy_at_correlation_0_costs_no_more_than_the_mathematics_says():
    assert bound(correlated(0.0), risk=0.5) == pytest.approx(1 / 162, abs=1e-9)


def test_one_sensor_with_a_symbol_per_answer_reaches_it(rng):
    """With a single sensor the curator and the sensor are the same."""
    from research.optimum.search import find_optimum

    for seed in range(4):
        distribution = random_problem(seed, sensors=1, codes=5)
        for wishes in ({"risk": 0.46}, {"epsilon": 0.1}, {"risk": 0.45, "ldp_epsilon": 1.0}):
            found = find_optimum(distribution, 2, n_restarts=4, rng=0, **wishes)
            assert found.public_error == pytest.approx(found.bound, abs=1e-6)


def test_stricter_wishes_never_lower_it():
    errors = [bound(correlated(0.2), risk=risk) for risk in (0.3, 0.4, 0.44, 0.48, 0.5)]
    assert errors == sorted(errors)
    errors = [bound(correlated(0.2), ldp_total=total) for total in (8.0, 2.0, 0.5, 0.0)]
    assert errors == sorted(errors)
    assert errors[-1] == pytest.approx(0.5)


def test_with_too_many_codes_the_profile_stands_in_for_them(monkeypatch):
    distribution = correlated(0.2)
    listed = bound(distribution, risk=0.42)
    monkeypatch.setattr("research.optimum.limits._MAX_CODES", 100)
    assert bound(distribution, risk=0.42) <= listed


def test_a_table_of_rows_is_listed_whatever_its_alphabet(rng):
    codes = rng.integers(50, size=(30, 12))
    public, private = rng.integers(2, size=30), rng.integers(2, size=30)
    distribution = Distribution.from_rows(codes, public, [private], [50] * 12)
    assert bound(distribution) == pytest.approx(0, abs=1e-9)
    assert bound(distribution, risk=0.5) >= 0
