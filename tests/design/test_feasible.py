import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from discreet.design.feasible import (
    DELTA_1,
    DELTA_2,
    SidedSet,
    mix_to_epsilon,
    project_rows,
    project_simplex,
    sided_start,
    structural_epsilon,
)
from discreet.errors import InputError
from discreet.mapping.mapping import round_rows

seeds = st.integers(0, 2**32 - 1)


@given(seed=seeds, codes=st.integers(2, 6), symbols=st.integers(2, 8))
def test_a_sided_start_meets_both_of_algorithm_1s_conditions(seed, codes, symbols):
    table = sided_start(codes, symbols, np.random.default_rng(seed))
    assert SidedSet.around(table).contains(table)
    assert np.all(table.sum(axis=0) >= DELTA_1)
    assert np.all(np.abs(table - 1 / symbols) >= DELTA_2 - 1e-9)


@given(seed=seeds)
@pytest.mark.slow
def test_projection_is_the_nearest_table_of_the_set(seed):
    rng = np.random.default_rng(seed)
    allowed = SidedSet.around(sided_start(3, 3, rng))
    point = rng.normal(size=(3, 3))
    found = allowed.project(point)
    assert allowed.contains(found)
    for row, target, low, high in zip(found, point, allowed.low, allowed.high, strict=True):
        twin = minimize(
            lambda q, target=target: np.sum((q - target) ** 2),
            np.clip(np.full(3, 1 / 3), low, high),
            bounds=list(zip(low, high, strict=True)),
            constraints={"type": "eq", "fun": lambda q: q.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-14},
        )
        np.testing.assert_allclose(row, twin.x, atol=1e-5)


@given(seed=seeds, symbols=st.integers(2, 6))
def test_both_projections_on_the_simplex_agree(seed, symbols):
    point = np.random.default_rng(seed).normal(size=(4, symbols))
    np.testing.assert_allclose(project_simplex(point), project_rows(point), atol=1e-12)


@given(seed=seeds)
def test_projection_on_the_simplex_leaves_its_points_alone(seed):
    table = np.random.default_rng(seed).dirichlet(np.ones(4), size=3)
    np.testing.assert_allclose(project_rows(table), table, atol=1e-12)


def test_structural_epsilon_is_the_largest_log_ratio_of_two_rows(rng):
    table = rng.dirichlet(np.ones(3), size=5)
    twin = max(
        np.log(table[a, z] / table[b, z]) for a in range(5) for b in range(5) for z in range(3)
    )
    assert structural_epsilon(table) == pytest.approx(twin)


def test_structural_epsilon_of_a_certain_row_is_infinite():
    assert structural_epsilon(np.array([[1.0, 0.0], [0.5, 0.5]])) == np.inf


def test_a_symbol_that_is_never_sent_says_nothing():
    assert structural_epsilon(np.array([[0.4, 0.6, 0.0], [0.6, 0.4, 0.0]])) < 1


@given(seed=seeds, epsilon=st.floats(0.01, 15), sharp=st.sampled_from([1e-3, 1e-9]))
def test_mixing_reaches_epsilon_in_the_integers_and_no_less_than_needed(seed, epsilon, sharp):
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(3, 0.3), size=4) * (1 - sharp) + sharp / 3
    mixed = mix_to_epsilon(table, epsilon)
    shipped = structural_epsilon(round_rows(mixed) / 2**32)
    assert shipped <= epsilon
    if structural_epsilon(round_rows(table) / 2**32) > epsilon:
        # One unit more or less in the smallest weight moves the ratio by its inverse.
        assert shipped == pytest.approx(epsilon, abs=4 / round_rows(mixed).min())
    else:
        assert mixed is table


@pytest.mark.parametrize("shape", [(1, 2), (3, 1), (3, 250)])
def test_alphabets_that_algorithm_1_cannot_serve_are_refused(shape):
    with pytest.raises(InputError):
        sided_start(*shape, np.random.default_rng(0))
