import numpy as np
import pytest
from scipy.optimize import minimize
from support.problems import random_problem

from discreet.choices import KERNELS, LOSSES
from discreet.data.columns import Labels
from discreet.design.kernels import ProductKernel, output_gram
from discreet.design.risks import CountRisks, GramRisks, OutputRisks, make_risks
from discreet.design.solvers import head_value
from discreet.design.training_rows import collapse, public_heads
from discreet.errors import InputError
from discreet.leakage.joint_outputs import output_probabilities

REG = 0.05


def forms(kernel, loss, rows, heads, n_symbols):
    """Every form that applies to a kernel, with whether it is the relaxed risk."""
    regs = [REG] * len(heads)
    found = [
        ("outputs", OutputRisks(rows, heads, n_symbols, kernel, loss, regs, relaxed=False)),
        ("relaxed outputs", OutputRisks(rows, heads, n_symbols, kernel, loss, regs, relaxed=True)),
        ("gram", GramRisks(rows, heads, kernel, loss, regs)),
    ]
    if kernel.name == "count":
        found.append(("count", CountRisks(rows, heads, loss, regs)))
    return found


@pytest.mark.parametrize("kernel_name", KERNELS)
@pytest.mark.parametrize("loss_name", LOSSES)
def test_gradient_in_the_tables_is_the_numerical_slope(kernel_name, loss_name, rng):
    rows, public, private, tables = random_problem(rng)
    kernel, loss = KERNELS[kernel_name](), LOSSES[loss_name]
    heads, n_symbols = public + private, [t.shape[1] for t in tables]
    weights = rng.normal(size=len(heads))
    step = 1e-5
    for name, risks in forms(kernel, loss, rows, heads, n_symbols):
        gradient = risks.gradient(tables, risks.evaluate(tables), weights)
        for t, table in enumerate(tables):
            for _ in range(3):
                # Rows stay on the simplex: move mass between two symbols of one code.
                x, (a, b) = rng.integers(len(table)), rng.choice(table.shape[1], 2, replace=False)
                ends = []
                for sign in (1, -1):
                    moved = [q.copy() for q in tables]
                    moved[t][x, a] += sign * step
                    moved[t][x, b] -= sign * step
                    ends.append(weights @ risks.evaluate(moved).values)
                slope = (ends[0] - ends[1]) / (2 * step)
                expected = gradient[t][x, a] - gradient[t][x, b]
                # The hinge's minimum has kinks: its slope may jump within the step.
                tolerance = 2e-3 if loss_name == "hinge" else 1e-6
                assert expected == pytest.approx(slope, abs=tolerance), name


@pytest.mark.parametrize("kernel_name", KERNELS)
@pytest.mark.parametrize("loss_name", LOSSES)
def test_all_forms_of_the_relaxed_risk_agree(kernel_name, loss_name, rng):
    rows, public, private, tables = random_problem(rng)
    heads, n_symbols = public + private, [t.shape[1] for t in tables]
    kernel, loss = KERNELS[kernel_name](), LOSSES[loss_name]
    weights = rng.normal(size=len(heads))
    values, gradients = [], []
    for name, risks in forms(kernel, loss, rows, heads, n_symbols):
        if name != "outputs":
            found = risks.evaluate(tables)
            values.append(found.values)
            gradients.append(risks.gradient(tables, found, weights))
    for other in values[1:]:
        np.testing.assert_allclose(other, values[0], atol=1e-8)
    if loss.smooth:  # the hinge's dual variables need not be unique
        for other in gradients[1:]:
            for a, b in zip(other, gradients[0], strict=True):
                centred = [g - g.mean(axis=1, keepdims=True) for g in (a, b)]
                np.testing.assert_allclose(*centred, atol=1e-5)


@pytest.mark.parametrize("kernel_name", ["product", "anova", "inverse-multiquadric"])
def test_pairs_of_rows_in_blocks_give_what_all_at_once_give(kernel_name, rng, monkeypatch):
    """Beyond a size, one block at a time is held in memory: 100 sensors once took 21 GB."""
    rows, public, private, tables = random_problem(rng)
    heads, kernel, weights = public + private, KERNELS[kernel_name](), rng.normal(size=2)

    def value_and_gradient():
        risks = GramRisks(rows, heads, kernel, LOSSES["logistic"], [REG] * 2)
        found = risks.evaluate(tables)
        return [found.values, *risks.gradient(tables, found, weights)]

    whole = value_and_gradient()
    monkeypatch.setattr("discreet.design.kernels._BLOCK", 4 * rows.codes.size)
    for a, b in zip(value_and_gradient(), whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss_name", LOSSES)
def test_relaxed_risk_is_the_minimum_over_explicit_features(loss_name, rng):
    rows, public, private, tables = random_problem(rng, n=12)
    kernel, loss = ProductKernel(), LOSSES[loss_name]
    if not loss.smooth:
        pytest.skip("the twin below is a smooth minimisation; the dual's test covers the hinge")
    gram = output_gram(kernel, [t.shape[1] for t in tables])
    features = output_probabilities(tables, rows.codes) @ np.linalg.cholesky(gram)
    risks = GramRisks(rows, public + private, kernel, loss, [REG] * 2)
    for value, head in zip(risks.evaluate(tables).values, public + private, strict=True):
        twin = minimize(
            lambda w, head=head: (
                head_value(features @ w, head.pos, head.neg, loss) + REG / 2 * w @ w
            ),
            np.zeros(features.shape[1]),
            options={"gtol": 1e-10},
        )
        assert value == pytest.approx(twin.fun, abs=1e-7)


@pytest.mark.parametrize("loss_name", ["logistic", "exponential", "square"])
def test_unrelaxed_risk_is_the_expectation_over_sampled_symbols(loss_name, rng):
    """risk = sum over rows and outputs of c_i Q(z|x_i) phi(y_i gamma(z)), spelled out."""
    rows, public, private, tables = random_problem(rng, n=12)
    loss, n_symbols = LOSSES[loss_name], [t.shape[1] for t in tables]
    gram = output_gram(ProductKernel(), n_symbols)
    heads = public + private
    risks = OutputRisks(rows, heads, n_symbols, ProductKernel(), loss, [REG] * 2, relaxed=False)
    outputs = output_probabilities(tables, rows.codes)
    inverse = np.linalg.inv(gram)

    def spelled_out(rule, head):
        total = REG / 2 * rule @ inverse @ rule
        for i in range(len(rows.codes)):
            for z in range(len(rule)):
                u = np.array([rule[z]])
                total += head.pos[i] * outputs[i, z] * loss.value(u)[0]
                total += head.neg[i] * outputs[i, z] * loss.value(-u)[0]
        return total

    for value, head, solution in zip(
        *(lambda f: (f.values, heads, f.solutions))(risks.evaluate(tables)), strict=True
    ):
        assert value == pytest.approx(spelled_out(solution.scores, head), abs=1e-9)
        for _ in range(20):  # and no other rule does better
            other = solution.scores + 0.1 * np.linalg.cholesky(gram) @ rng.normal(size=len(gram))
            assert spelled_out(other, head) >= value - 1e-9


def test_the_relaxation_never_reports_more_risk_than_the_symbols_have(rng):
    for _ in range(10):
        rows, public, private, tables = random_problem(rng)
        n_symbols = [t.shape[1] for t in tables]
        for loss in LOSSES.values():
            args = (rows, public + private, n_symbols, ProductKernel(), loss, [REG] * 2)
            exact = OutputRisks(*args, relaxed=False).evaluate(tables).values
            relaxed = OutputRisks(*args, relaxed=True).evaluate(tables).values
            assert np.all(relaxed <= exact + 1e-8)


def test_collapsed_rows_give_the_same_risk_as_all_rows(rng):
    codes = rng.integers(2, size=(60, 2))
    labels = Labels("h", rng.integers(2, size=60), range(2))
    tables = [rng.dirichlet(np.ones(2), size=2) for _ in range(2)]
    few = collapse(codes, (2, 2))
    many = type(few)(codes, np.arange(60), (2, 2))
    assert len(few.codes) == 4
    values = [
        GramRisks(rows, public_heads(rows, labels), ProductKernel(), LOSSES["logistic"], [REG])
        .evaluate(tables)
        .values
        for rows in (few, many)
    ]
    np.testing.assert_allclose(*values, atol=1e-9)


def test_a_constant_mapping_reaches_the_largest_private_risk(rng):
    rows, public, private, tables = random_problem(rng)
    n_symbols = [t.shape[1] for t in tables]
    silent = [np.full(t.shape, 1 / t.shape[1]) for t in tables]
    for loss in LOSSES.values():
        args = (rows, public + private, n_symbols, ProductKernel(), loss, [REG] * 2)
        for relaxed in (True, False):
            found = OutputRisks(*args, relaxed=relaxed).evaluate(silent).values[1]
            assert found == pytest.approx(loss.value(np.zeros(1))[0], abs=1e-9)


def test_the_cheapest_form_is_chosen(rng):
    rows, public, _, _ = random_problem(rng)
    loss = LOSSES["logistic"]

    def kind(n_symbols, kernel, relaxed):
        return type(make_risks(rows, public, n_symbols, kernel, loss, [REG], relaxed=relaxed))

    assert kind((2, 2, 2), ProductKernel(), False) is OutputRisks
    assert kind((2, 2, 2), ProductKernel(), True) is OutputRisks
    assert kind((2, 2, 2), KERNELS["count"](), True) is CountRisks
    assert kind((20, 20, 20), ProductKernel(), True) is GramRisks
    with pytest.raises(InputError, match="8000 outputs"):
        kind((20, 20, 20), ProductKernel(), False)
