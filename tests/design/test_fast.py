import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.problems import paper_rows, random_problem

from discreet.choices import LOSSES
from discreet.data.columns import Labels
from discreet.design.fast import (
    BARRIER_STEPS,
    SOFTNESS,
    Limits,
    PrivateClasses,
    _Work,
    design_fast,
)
from discreet.design.feasible import structural_epsilon, uniform_tables
from discreet.design.kernels import ProductKernel
from discreet.design.risks import make_risks
from discreet.design.training_rows import collapse, private_heads, public_heads
from discreet.leakage.exact import information_epsilon
from discreet.leakage.joint_outputs import output_probabilities


def prepared(rng, ratio=0.95, classes=2, epsilon=None, ldp_epsilon=None, relaxed=False):
    rows, public, private, tables = random_problem(rng, n=40, classes=classes)
    n_symbols = tuple(table.shape[1] for table in tables)
    risks = make_risks(
        rows,
        public + private,
        n_symbols,
        ProductKernel(),
        LOSSES["logistic"],
        [0.01] * (1 + len(private)),
        relaxed=relaxed,
    )
    reachable = risks.evaluate(uniform_tables(rows.sizes, n_symbols)).values[1:]
    index = (rows.codes[rows.inverse][:, 1] + np.arange(rows.n_rows)) % 2
    fact = PrivateClasses(rows.class_weights(Labels("g", index, range(2))), np.bincount(index) / 40)
    limits = Limits(ratio * reachable, reachable, epsilon, [fact] if epsilon else [], ldp_epsilon)
    return risks, limits, n_symbols


@pytest.mark.parametrize("relaxed", [True, False])
@pytest.mark.parametrize(
    "extra", [{}, {"epsilon": 0.3}, {"ldp_epsilon": 0.8}, {"epsilon": 0.5, "ldp_epsilon": 1.0}]
)
def test_gradient_of_the_barrier_objective_is_its_numerical_slope(extra, relaxed, rng):
    risks, limits, n_symbols = prepared(rng, relaxed=relaxed, **extra)
    work = _Work(risks, limits, n_symbols, SOFTNESS, None)
    # Small logits lie inside every limit, large ones beyond: the slope must hold in both.
    for scale in (0.05, 1.0):
        logits = rng.normal(scale=scale, size=int(work._used.sum()))
        _, gradient = work.objective(logits, BARRIER_STEPS[0])
        for k in rng.choice(len(logits), 8, replace=False):
            moved = [logits.copy(), logits.copy()]
            moved[0][k] += 1e-5
            moved[1][k] -= 1e-5
            ends = [work.objective(point, BARRIER_STEPS[0])[0] for point in moved]
            slope = (ends[0] - ends[1]) / 2e-5
            assert gradient[k] == pytest.approx(slope, rel=2e-4, abs=1e-6)


@settings(max_examples=8)
@given(
    seed=st.integers(0, 2**32 - 1),
    ratio=st.sampled_from([0.5, 0.9, 0.99]),
    classes=st.sampled_from([2, 3]),
    relaxed=st.booleans(),
)
@pytest.mark.slow
def test_every_result_keeps_every_floor(seed, ratio, classes, relaxed):
    rng = np.random.default_rng(seed)
    risks, limits, n_symbols = prepared(rng, ratio=ratio, classes=classes, relaxed=relaxed)
    found = design_fast(risks, limits, n_symbols, rng=rng, n_restarts=2)
    again = risks.evaluate(found.tables).values
    assert np.all(again[1:] > limits.floors)
    silent = risks.evaluate(uniform_tables(risks.rows.sizes, n_symbols)).values[0]
    assert found.public_risk <= silent + 1e-9  # saying nothing is always possible
    np.testing.assert_allclose(again[0], found.public_risk, atol=1e-8)


@settings(max_examples=6)
@given(seed=st.integers(0, 2**32 - 1), epsilon=st.sampled_from([0.05, 0.3, 1.0]))
@pytest.mark.slow
def test_epsilon_limits_every_log_ratio_on_the_training_rows(seed, epsilon):
    rng = np.random.default_rng(seed)
    risks, limits, n_symbols = prepared(rng, ratio=0.5, epsilon=epsilon)
    found = design_fast(risks, limits, n_symbols, rng=rng, n_restarts=2)
    outputs = output_probabilities(found.tables, risks.rows.codes)
    fact = limits.classes[0]
    assert information_epsilon(fact.weights @ outputs, fact.prior) <= epsilon + 1e-9


@settings(max_examples=6)
@given(seed=st.integers(0, 2**32 - 1), epsilon=st.sampled_from([0.1, 0.5, 2.0]))
@pytest.mark.slow
def test_ldp_epsilon_limits_every_sensors_structural_epsilon(seed, epsilon):
    rng = np.random.default_rng(seed)
    risks, limits, n_symbols = prepared(rng, ratio=0.5, ldp_epsilon=epsilon)
    found = design_fast(risks, limits, n_symbols, rng=rng, n_restarts=2)
    for table, seen in zip(found.tables, risks.rows.seen(), strict=True):
        assert structural_epsilon(table[seen]) <= epsilon + 1e-9


@pytest.mark.slow
def test_a_looser_floor_never_costs_public_risk(rng):
    codes, h, g = paper_rows(100, 0.5, rng)
    rows = collapse(codes, (9,) * 4)
    public = public_heads(rows, Labels("h", h, range(2)))
    private = private_heads(rows, Labels("g", g, range(2)))
    risks = make_risks(
        rows,
        public + private,
        (2,) * 4,
        ProductKernel(),
        LOSSES["logistic"],
        [1e-3] * 2,
        relaxed=True,
    )
    reachable = risks.evaluate(uniform_tables((9,) * 4, (2,) * 4)).values[1:]
    found, starts = [], []
    for ratio in (0.999, 0.98, 0.9, 0.5):
        limits = Limits(ratio * reachable, reachable)
        seed = np.random.default_rng(1)
        designed = design_fast(risks, limits, (2,) * 4, rng=seed, starts=starts, n_restarts=2)
        starts = [designed.tables]
        found.append(designed.public_risk)
    assert np.all(np.diff(found) < 0)


def test_a_stop_keeps_the_best_mapping_so_far(rng):
    risks, limits, n_symbols = prepared(rng)
    seen = []

    def report(progress):
        seen.append(progress)
        return len(seen) == 30

    found = design_fast(risks, limits, n_symbols, rng=rng, report=report)
    assert found.stopped
    assert len(seen) == 30
    assert np.all(found.private_risks > limits.floors)
    assert seen[-1].public_risk == found.public_risk
    assert seen[-1].private_risk > seen[-1].floor
    assert all(0 <= progress.done <= 1 for progress in seen)


@pytest.mark.slow
def test_one_seed_gives_one_mapping(rng):
    risks, limits, n_symbols = prepared(rng)
    first, second = (
        design_fast(risks, limits, n_symbols, rng=np.random.default_rng(3), n_restarts=2)
        for _ in range(2)
    )
    # The inner solvers remember where they ended, so the second run starts them elsewhere.
    for a, b in zip(first.tables, second.tables, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)
