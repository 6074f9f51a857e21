import numpy as np
import pytest

from research.paper.synthetic import (
    SENSORS,
    draw_readings,
    draw_table,
    exact_figures,
    exact_joint,
)


def test_perfect_privacy_with_a_small_public_error_exists_at_correlation_0():
    table = np.array([[1, 0]] * 5 + [[0, 1]] * 2 + [[0.5, 0.5]] * 2, dtype=float)
    figures = exact_figures([table] * 4, 0.0)
    assert figures.risk == pytest.approx(0.5)
    assert figures.public_error == pytest.approx(1 / 162)
    assert figures.epsilon == pytest.approx(0.0, abs=1e-12)


def test_raw_readings_have_the_known_errors():
    figures = exact_figures([np.eye(9)] * 4, 0.0)
    assert figures.public_error == pytest.approx(0.0031, abs=5e-5)
    assert figures.risk == pytest.approx(0.0093, abs=5e-5)


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_the_exact_joint_is_what_draws_converge_to(correlation, rng):
    tables = [rng.dirichlet(np.ones(2), size=9) for _ in SENSORS]
    readings, h, g = draw_readings(200_000, correlation, rng)
    joint = exact_joint(tables, correlation)
    assert joint.sum() == pytest.approx(1.0)
    sent = [table[readings[:, t] - 1] for t, table in enumerate(tables)]
    outputs = np.einsum("na,nb,nc,nd->nabcd", *sent).reshape(len(h), -1)
    for a in (0, 1):
        for b in (0, 1):
            rows = (h == a) & (g == b)
            mean = outputs[rows].sum(axis=0) / len(h)
            np.testing.assert_allclose(mean, joint[a, b], atol=0.003)


def test_a_seed_draws_the_same_table():
    first, second = draw_table(50, 0.2, 3), draw_table(50, 0.2, 3)
    for a, b in zip(first, second, strict=True):
        assert a.equals(b)
    assert list(first[0].columns) == list(SENSORS)
    assert first[0].to_numpy().min() >= 1
    assert first[0].to_numpy().max() <= 9
