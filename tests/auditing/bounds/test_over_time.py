import numpy as np
import pytest

from discreet.auditing.audit_file import INDEPENDENT_RELEASES
from discreet.auditing.bounds.certificates import ONE_RELEASE, Certificate, NotCertifiable
from discreet.auditing.bounds.over_time import compose
from discreet.errors import InputError
from discreet.leakage.exact import advantage, pairwise_epsilon, total_variation


def some(value, confidence=0.95):
    return Certificate("a bound", value, confidence, (10, 10), (ONE_RELEASE,), "")


def product(world, times):
    """The law of independent releases, output by output."""
    found = world
    for _ in range(times - 1):
        found = np.stack(
            [np.multiply.outer(*pair).ravel() for pair in zip(found, world, strict=True)]
        )
    return found


def test_releases_add_up():
    time = compose(some(0.1), some(0.05), some(0.7, 1.0), 10, periods=2)
    assert time.independent.bound == pytest.approx(1.0)
    assert time.any_readings.bound == pytest.approx(7.0)
    assert time.memoised.bound == pytest.approx(1.4)
    assert time.independent.confidence == 0.95 and time.any_readings.confidence == 1
    assert ONE_RELEASE not in time.independent.assumptions
    assert INDEPENDENT_RELEASES in time.independent.assumptions
    assert INDEPENDENT_RELEASES in time.independent_advantage.assumptions
    assert not any("independent" in each for each in time.any_advantage.assumptions)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_no_known_world_is_beyond_what_its_releases_add_up_to(classes, times, rng):
    for _ in range(20):
        world = 0.8 / 4 + 0.2 * rng.dirichlet(np.ones(4), size=classes)
        over = product(world, times)
        epsilon, distance = pairwise_epsilon(world), total_variation(world)
        found = compose(some(epsilon), some(distance), some(epsilon, 1.0), times, n_classes=classes)
        assert pairwise_epsilon(over) == pytest.approx(found.independent.bound)
        assert advantage(over) <= found.independent_advantage.bound
        assert advantage(over) <= found.any_advantage.bound
        if times == 1 and classes == 2:
            assert advantage(over) == pytest.approx(found.independent_advantage.bound)


def test_nothing_times_many_is_nothing():
    reason = NotCertifiable("no rows")
    time = compose(some(reason), some(reason), some(reason), 3)
    for each in (time.independent, time.independent_advantage, time.any_advantage):
        assert each.value == reason
        assert "no rows" in each.words


def test_an_advantage_near_certainty_is_no_promise():
    time = compose(some(0.1), some(0.4), some(3.0, 1.0), 40)
    assert "so many reports" in time.any_advantage.value.reason
    assert time.independent_advantage.bound is None


def test_bounds_on_a_group_drawn_at_random_do_not_add_up():
    time = compose(some(0.1), some(0.05), some(0.7, 1.0), 3, unit="home")
    assert "share that home" in time.independent.value.reason
    assert time.independent_advantage.bound is None
    assert time.any_readings.bound == pytest.approx(2.1)


@pytest.mark.parametrize(
    ("kind", "independent", "name"),
    [
        ("epsilon", False, "epsilon of 3 releases"),
        ("epsilon", True, "epsilon of 3 independent releases"),
        ("advantage", True, "advantage of 3 independent releases"),
        ("advantage", False, "advantage of 3 releases"),
        ("advantage beyond the answer", True, "advantage of 3 releases"),
    ],
)
def test_a_limit_rests_on_independence_only_if_that_is_declared(kind, independent, name):
    time = compose(some(0.1), some(0.05), some(0.2, 1.0), 3)
    assert time.certificate(kind, independent).name == name


@pytest.mark.parametrize(("releases", "periods"), [(0, 1), (3, 4), (3, 0)])
def test_impossible_numbers_of_releases_are_refused(releases, periods):
    with pytest.raises(InputError):
        compose(some(1.0), some(1.0), some(1.0), releases, periods=periods)
