import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from discreet.choices import LOSSES
from discreet.design.solvers import fit_primal, head_value, solve_dual

each_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def test_the_four_losses_of_the_paper_are_there():
    assert set(LOSSES) == {"logistic", "exponential", "hinge", "square"}


@each_loss
def test_gradient_is_the_slope_of_the_value(loss, rng):
    u, h = rng.uniform(-4, 4, 50), 1e-6
    slope = (loss.value(u + h) - loss.value(u - h)) / (2 * h)
    np.testing.assert_allclose(loss.gradient(u), slope, rtol=1e-6, atol=1e-6)


@each_loss
def test_curvature_is_the_slope_of_the_gradient(loss, rng):
    u, h = rng.uniform(-4, 4, 50), 1e-6
    slope = (loss.gradient(u + h) - loss.gradient(u - h)) / (2 * h)
    np.testing.assert_allclose(loss.curvature(u), slope, rtol=1e-6, atol=1e-6)


@each_loss
def test_conjugate_is_the_largest_gap_to_a_line(loss):
    low, high = (max(loss.dual_interval[0], -3.0), min(loss.dual_interval[1], 3.0))
    for x in np.linspace(low + 0.05, high - 0.05, 9):
        # phi*(-x) = sup_u (-x u - phi(u)); every sup here is attained in [-40, 40].
        found = minimize_scalar(
            lambda u, x=x: x * u + float(loss.value(np.array([u]))[0]),
            bounds=(-40, 40),
            method="bounded",
            options={"xatol": 1e-10},
        )
        assert loss.conjugate(np.array([x]))[0] == pytest.approx(-found.fun, abs=1e-6)


@each_loss
def test_conjugate_derivatives_are_slopes(loss):
    low, high = (max(loss.dual_interval[0], -3.0), min(loss.dual_interval[1], 3.0))
    x, h = np.linspace(low + 0.05, high - 0.05, 20), 1e-6
    slope = (loss.conjugate(x + h) - loss.conjugate(x - h)) / (2 * h)
    np.testing.assert_allclose(loss.conjugate_gradient(x), slope, rtol=1e-6, atol=1e-6)
    bend = (loss.conjugate_gradient(x + h) - loss.conjugate_gradient(x - h)) / (2 * h)
    np.testing.assert_allclose(loss.conjugate_curvature(x), bend, rtol=1e-5, atol=1e-6)


@each_loss
def test_constants_a_and_r_satisfy_the_papers_assumption(loss):
    # a^r (phi(0) - R*(eta)) >= |1/2 - eta|^r, R* the least risk of any score.
    scores = np.linspace(-30, 30, 60001)
    values, mirrored = loss.value(scores), loss.value(-scores)
    at_zero = loss.value(np.zeros(1))[0]
    for eta in np.linspace(0.01, 0.99, 50):
        best = np.min(eta * values + (1 - eta) * mirrored)
        assert loss.a**loss.r * (at_zero - best) >= abs(0.5 - eta) ** loss.r - 1e-6


def weighted_rows(rng, n=40, p=5):
    features = rng.normal(size=(n, p))
    pos, neg = rng.random(n) * (rng.random(n) < 0.6), rng.random(n) * (rng.random(n) < 0.6)
    return features, pos / (pos.sum() + neg.sum()), neg / (pos.sum() + neg.sum())


def slow_minimum(features, pos, neg, loss, reg):
    """Minimise the primal with slack variables: smooth for every loss, hinge included."""
    n, p = features.shape
    if loss.smooth:
        found = minimize(
            lambda w: head_value(features @ w, pos, neg, loss) + reg / 2 * w @ w,
            np.zeros(p),
            method="BFGS",
            options={"gtol": 1e-9},
        )
        return found.fun
    signed = np.concatenate([features, -features])
    cost = np.concatenate([pos, neg])
    found = minimize(
        lambda v: cost @ v[p:] + reg / 2 * v[:p] @ v[:p],
        np.concatenate([np.zeros(p), np.ones(2 * n)]),
        jac=lambda v: np.concatenate([reg * v[:p], cost]),
        constraints={
            "type": "ineq",
            "fun": lambda v: v[p:] - 1 + signed @ v[:p],
            "jac": lambda v: np.hstack([signed, np.eye(2 * n)]),
        },
        bounds=[(None, None)] * p + [(0, None)] * (2 * n),
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    return found.fun


@each_loss
@pytest.mark.parametrize("reg", [0.3, 0.03])
@pytest.mark.slow
def test_dual_maximum_is_the_primal_minimum(loss, reg, rng):
    features, pos, neg = weighted_rows(rng)
    dual = solve_dual(features @ features.T, pos, neg, loss, reg)
    assert dual.value == pytest.approx(slow_minimum(features, pos, neg, loss, reg), abs=1e-6)


@each_loss
def test_w_carries_the_factor_one_over_reg(loss, rng):
    features, pos, neg = weighted_rows(rng)
    reg = 0.07
    dual = solve_dual(features @ features.T, pos, neg, loss, reg)
    w = features.T @ dual.residual / reg
    np.testing.assert_allclose(dual.scores, features @ w, atol=1e-9)
    primal = head_value(features @ w, pos, neg, loss) + reg / 2 * w @ w
    assert primal == pytest.approx(dual.value, abs=1e-6)
    # As printed, without 1/reg, the same vector is not the minimiser.
    printed = features.T @ dual.residual
    off = head_value(features @ printed, pos, neg, loss) + reg / 2 * printed @ printed
    assert off > primal + 1e-3


@pytest.mark.parametrize("name", [name for name, loss in LOSSES.items() if loss.smooth])
def test_newton_finds_the_same_minimum_and_residual_as_the_dual(name, rng):
    loss = LOSSES[name]
    for reg in (1.0, 1e-2, 1e-4):
        features, pos, neg = weighted_rows(rng)
        primal = fit_primal(features, pos, neg, loss, reg)
        dual = solve_dual(features @ features.T, pos, neg, loss, reg)
        assert primal.value == pytest.approx(dual.value, abs=1e-9)
        np.testing.assert_allclose(primal.residual, dual.residual, atol=1e-5)


@each_loss
def test_separable_rows_with_a_tiny_regulariser_still_solve(loss):
    features = np.array([[1.0], [1.0], [-1.0]])
    pos, neg = np.array([0.4, 0.1, 0.0]), np.array([0.0, 0.0, 0.5])
    dual = solve_dual(features @ features.T, pos, neg, loss, 1e-8)
    w = features.T @ dual.residual / 1e-8
    primal = head_value(features @ w, pos, neg, loss) + 1e-8 / 2 * w @ w
    assert primal == pytest.approx(dual.value, abs=1e-6)
    assert 0 <= dual.value < 1e-5
