import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.problems import paper_rows, random_problem

from discreet.choices import KERNELS, LOSSES
from discreet.data.columns import Labels
from discreet.design.fast import Limits, design_fast
from discreet.design.feasible import SidedSet, uniform_tables
from discreet.design.npo import Setting, design_gauss_seidel, feasible_start, find_threshold
from discreet.design.risks import make_risks
from discreet.design.training_rows import collapse, private_heads, public_heads

pytestmark = pytest.mark.slow

SLACK = 1e-10  # rounding in sums of a hundred terms near 1


def make_setting(rows, tables, kernel, loss, reg=0.02):
    n_symbols = tuple(table.shape[1] for table in tables)
    return Setting(rows, n_symbols, KERNELS[kernel](), LOSSES[loss], reg, reg)


problems = {
    "seed": st.integers(0, 2**32 - 1),
    "kernel": st.sampled_from(sorted(KERNELS)),
    "loss": st.sampled_from(sorted(LOSSES)),
    "classes": st.sampled_from([2, 3]),
}


@settings(max_examples=12)
@given(**problems)
def test_algorithm_1_never_makes_the_private_risk_smaller(seed, kernel, loss, classes):
    rng = np.random.default_rng(seed)
    rows, _, private, tables = random_problem(rng, n=15, classes=classes)
    setting = make_setting(rows, tables, kernel, loss)
    found = find_threshold(setting, private[0], rng=rng, max_sweeps=6)
    assert np.all(np.diff(found.history) >= -SLACK)
    # phi(0) is what a constant mapping reaches; nothing can lie above it.
    assert 0 < found.value <= LOSSES[loss].value(np.zeros(1))[0] + 1e-9
    for table in found.tables:
        assert SidedSet.around(table).contains(table)


@settings(max_examples=12)
@given(**problems, ratio=st.sampled_from([0.8, 0.95, 0.99]))
def test_algorithm_2_never_makes_its_objective_larger(seed, kernel, loss, classes, ratio):
    rng = np.random.default_rng(seed)
    rows, public, private, tables = random_problem(rng, n=15, classes=classes)
    setting = make_setting(rows, tables, kernel, loss)
    thresholds = [find_threshold(setting, head, rng=rng, max_sweeps=4) for head in private]
    floors = np.full(len(private), ratio * min(found.value for found in thresholds))
    start = feasible_start(setting, private, thresholds, floors)
    result = design_gauss_seidel(setting, public, private, floors, start, max_sweeps=6)
    assert np.all(np.diff(result.history) <= SLACK)
    assert np.all(result.private_risks > floors)
    for table in result.tables:
        assert np.all(table >= 0)
        np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-9)


def test_algorithm_1_comes_close_to_the_risk_of_saying_nothing(rng):
    codes, _, g = paper_rows(80, 0.0, rng)
    rows = collapse(codes, (9,) * 4)
    private = private_heads(rows, Labels("g", g, range(2)))
    setting = Setting(rows, (2,) * 4, KERNELS["count"](), LOSSES["logistic"], 0.01, 0.01)
    found = find_threshold(setting, private[0], rng=rng)
    assert found.value == pytest.approx(np.log(2), abs=1e-3)


@pytest.mark.parametrize(("kernel", "loss"), list(zip(KERNELS, LOSSES, strict=True)))
def test_going_on_from_the_reference_never_ends_worse(kernel, loss):
    """What solver='thorough' promises; research/benchmarks/solvers.py has 'fast' alone.

    Each kernel meets one loss: ``test_risks`` compares the slopes of every pair.
    """
    rng = np.random.default_rng(1)
    rows, public, private, tables = random_problem(rng, n=20)
    setting = make_setting(rows, tables, kernel, loss)
    threshold = find_threshold(setting, private[0], rng=rng, max_sweeps=5)
    floors = np.array([0.97 * threshold.value])
    start = feasible_start(setting, private, [threshold], floors)
    slow = design_gauss_seidel(setting, public, private, floors, start, max_sweeps=30)
    regs = [setting.public_reg, setting.private_reg]
    risks = make_risks(
        rows,
        public + private,
        setting.n_symbols,
        setting.kernel,
        setting.loss,
        regs,
        relaxed=True,
    )
    reachable = risks.evaluate(uniform_tables(rows.sizes, setting.n_symbols)).values[1:]
    limits = Limits(floors, reachable)
    onwards = design_fast(
        risks,
        limits,
        setting.n_symbols,
        rng=rng,
        n_restarts=0,
        starts=[slow.tables],
        max_iter=30,
        softness=0.0,
    )
    assert onwards.private_risks[0] > floors[0]
    assert onwards.public_risk <= slow.public_risk + 1e-9


def test_several_private_heads_start_inside_every_floor(rng):
    rows, _, private, tables = random_problem(rng, n=40, classes=3)
    assert len(private) == 3
    setting = make_setting(rows, tables, "product", "logistic")
    thresholds = [find_threshold(setting, head, rng=rng, max_sweeps=3) for head in private]
    floors = np.full(3, 0.999 * min(found.value for found in thresholds))
    start = feasible_start(setting, private, thresholds, floors)
    risks = make_risks(
        rows, private, setting.n_symbols, setting.kernel, setting.loss, [0.02] * 3, relaxed=True
    )
    assert np.all(risks.evaluate(start).values > floors)


def test_both_solvers_agree_on_what_the_public_risk_is(rng):
    codes, h, g = paper_rows(40, 0.2, rng)
    rows = collapse(codes, (9,) * 4)
    public = public_heads(rows, Labels("h", h, range(2)))
    private = private_heads(rows, Labels("g", g, range(2)))
    setting = Setting(rows, (2,) * 4, KERNELS["count"](), LOSSES["logistic"], 0.01, 0.01)
    floors = np.array([0.6])
    result = design_gauss_seidel(
        setting, public, private, floors, uniform_tables(rows.sizes, (2,) * 4), max_sweeps=3
    )
    risks = make_risks(
        rows, public + private, (2,) * 4, setting.kernel, setting.loss, [0.01] * 2, relaxed=True
    )
    values = risks.evaluate(result.tables).values
    np.testing.assert_allclose(values, [result.public_risk, *result.private_risks], atol=1e-9)
