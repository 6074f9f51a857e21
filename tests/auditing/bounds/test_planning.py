import numpy as np
import pytest
from support.sensor_worlds import kernel_advantage

from discreet.auditing.bounds.certificates import certify_advantage
from discreet.auditing.bounds.deviations import deviation, pair_spread
from discreet.auditing.bounds.kernel_rows import KernelRows
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.auditing.bounds.rows_needed import (
    MOST_ROWS,
    Plan,
    Shown,
    expected_advantage,
    expected_largest,
    folded_mean,
    listed_deviation,
    planned,
    rows_for,
    rows_needed,
    sketch_tables,
)
from discreet.errors import InputError
from discreet.leakage.joint_outputs import output_probabilities

ALPHA, LIMIT = 0.05, 0.05
EVEN = (0.5, 0.5)


def uniform_rows(tables, n, rng, shares=EVEN, groups=None):
    index = np.repeat(np.arange(len(shares)), np.round(n * np.array(shares)).astype(int))
    codes = rng.integers(0, [len(t) for t in tables], (len(index), len(tables)))
    return AuditRows(tuple(tables), codes, index, len(shares), groups)


def smaller_spread(rows, k):
    """What the rows show of both bounds on the variance, in units of eta^2/2."""
    return min(pair_spread(rows, k), KernelRows.of(rows).variances[k] / (2 * rows.eta**2))


# --- The parts, each against a slow twin -----------------------------------------------------


def test_deviation_is_that_of_the_certificates(rng):
    rows = uniform_rows(sketch_tables(3, 2, 0.3), 600, rng, (0.7, 0.3))
    spreads = np.array([smaller_spread(rows, k) for k in range(2)])
    counts = np.array(rows.counts, dtype=float)
    found = listed_deviation(rows.eta, spreads, counts, ALPHA)
    # A twentieth of the rows only chooses the law of the kernel, which a plan leaves aside.
    assert found == pytest.approx(deviation(rows, ALPHA, np.ones(2)), rel=0.05)


def test_groups_deviate_class_by_class_as_the_certificates_say(rng):
    rows = uniform_rows(sketch_tables(2, 2, 0.2), 400, rng, groups=np.arange(400) % 50)
    expected = sum(
        listed_deviation(rows.eta, np.array([smaller_spread(rows, k)]), np.array([50.0]), ALPHA / 2)
        for k in range(2)
    )
    assert deviation(rows, ALPHA, np.ones(2)) == pytest.approx(expected, rel=0.05)


def test_foreseen_moments_and_spread_are_those_of_all_rows_of_codes(rng):
    tables = [rng.dirichlet(np.ones(3), 2), rng.dirichlet(np.ones(2), 3)]
    plan = Plan(tuple(tables), EVEN, ALPHA)
    every = np.array([(a, b) for a in range(2) for b in range(3)])
    sent = output_probabilities(tables, every)
    np.testing.assert_allclose(plan._outputs[0], sent.mean(axis=0))
    np.testing.assert_allclose(plan._outputs[1], sent.std(axis=0))
    halves = [0.5 * np.abs(t[:, None] - t[None]).sum(axis=2) for t in tables]
    pairs = [(1 - (1 - halves[0][a, c]) * (1 - halves[1][b, d])) ** 2
             for a, b in every for c, d in every]  # fmt: skip
    by_kernel = plan._kernel[2] / (2 * plan.eta**2)
    assert plan._spread == pytest.approx(min(np.mean(pairs) / plan.eta**2, by_kernel))


def test_means_of_folded_and_of_largest_normals_are_those_of_draws(rng):
    draws = rng.normal(size=(200_000, 4))
    # Means of 200,000 draws of spread at most two are right to 0.005 each, three times over.
    found = folded_mean(np.array([0.0, 1.0, 3.0]), np.array([1.0, 2.0, 0.0]))
    expected = [np.abs(draws[:, 0]).mean(), np.abs(1 + 2 * draws[:, 1]).mean(), 3.0]
    np.testing.assert_allclose(found, expected, atol=0.015)
    for m in (2, 3, 4):
        assert expected_largest(m) == pytest.approx(draws[:, :m].max(axis=1).mean(), abs=0.015)
    assert expected_largest(2) == pytest.approx(1 / np.sqrt(np.pi), rel=1e-6)


# --- Plans against simulated audits ----------------------------------------------------------


def median_bound(tables, n, rng, shares=EVEN):
    rows = (uniform_rows(tables, n, rng, shares) for _ in range(9))
    return np.median([certify_advantage(each, ALPHA).bound for each in rows])


@pytest.mark.parametrize("noise", [0.02, 0.25])
@pytest.mark.parametrize("sensors", [1, 5])
@pytest.mark.slow
def test_planned_rows_are_those_that_audits_need(rng, sensors, noise):
    tables = sketch_tables(sensors, 2, noise)
    count = rows_for(Plan(tables, EVEN, ALPHA), LIMIT)
    assert median_bound(tables, 1.5 * count, rng) <= LIMIT <= median_bound(tables, count / 1.5, rng)


@pytest.mark.slow
def test_three_classes_and_a_rare_one_are_foreseen(rng):
    tables, shares = sketch_tables(3, 2, 0.1), (0.6, 0.25, 0.15)
    count = rows_for(Plan(tables, shares, ALPHA), LIMIT)
    assert median_bound(tables, 1.5 * count, rng, shares) <= LIMIT
    assert median_bound(tables, count / 1.5, rng, shares) >= LIMIT


@pytest.mark.slow
def test_more_sensors_than_outputs_can_be_listed_for_are_foreseen(rng):
    plan = Plan(sketch_tables(30, 2, 0.4), EVEN, ALPHA)
    assert not plan.listable
    for n in (400, 1600):
        found = kernel_advantage(KernelRows.of(uniform_rows(plan.tables, n, rng)), ALPHA)
        assert expected_advantage(plan, n) == pytest.approx(found, rel=0.15)


def test_where_only_so_many_rows_are_compared_no_number_may_do():
    plan = Plan(sketch_tables(30, 2, 0.2), EVEN, ALPHA)
    assert rows_for(plan, LIMIT) is None
    assert expected_advantage(plan, 10**5) == expected_advantage(plan, 10**6)


def test_plans_grow_with_what_is_asked():
    tables = sketch_tables(4, 2, 0.1)
    base = rows_for(Plan(tables, EVEN, ALPHA), LIMIT)
    assert base < rows_for(Plan(tables, EVEN, ALPHA), LIMIT / 2)
    assert base < rows_for(Plan(tables, EVEN, ALPHA / 4), LIMIT)
    assert base < rows_for(Plan(tables, (0.9, 0.1), ALPHA), LIMIT)
    assert base < rows_for(Plan(tables, EVEN, ALPHA, leak=0.02), LIMIT)
    assert base < rows_for(Plan(sketch_tables(8, 2, 0.1), EVEN, ALPHA), LIMIT)
    groups = rows_for(Plan(tables, EVEN, ALPHA, group_size=20), LIMIT)
    assert groups < base < 20 * groups


def test_a_leak_above_the_limit_needs_no_rows_that_there_are():
    found = planned(Plan(sketch_tables(2, 2, 0.1), EVEN, ALPHA, leak=0.06), LIMIT)
    assert (found.count, found.rarest) == (None, None)


def test_the_rarest_class_is_counted():
    found = planned(Plan(sketch_tables(2, 2, 0.1), (0.75, 0.25), ALPHA), LIMIT)
    assert found.rarest == int(np.ceil(found.count * 0.25))


@pytest.mark.parametrize("shares", [(1.0,), (0.5, 0.6), (1.0, 0.0)])
def test_shares_must_be_those_of_classes(shares):
    with pytest.raises(InputError, match="shares must be two or more"):
        Plan(sketch_tables(1, 2, 0.1), shares, ALPHA)


def test_limits_and_leaks_must_be_shares():
    with pytest.raises(InputError, match="a limit must be strictly between 0 and 1, got 1"):
        rows_for(Plan(sketch_tables(1, 2, 0.1), EVEN, ALPHA), 1.0)
    with pytest.raises(InputError, match="leak must be at least 0"):
        Plan(sketch_tables(1, 2, 0.1), EVEN, ALPHA, leak=-0.1)


# --- After an audit --------------------------------------------------------------------------


@pytest.mark.parametrize(("sensors", "noise"), [(1, 0.02), (5, 0.25)])
@pytest.mark.slow
def test_an_audit_of_too_few_rows_says_how_many_more(rng, sensors, noise):
    tables = sketch_tables(sensors, 2, noise)
    needed = rows_for(Plan(tables, EVEN, ALPHA), LIMIT)  # held against audits above
    n = 0.3 * needed
    answers = [rows_needed(uniform_rows(tables, n, rng), LIMIT, ALPHA) for _ in range(15)]
    total = n + np.median([MOST_ROWS if more is None else more for more in answers])
    assert needed / 1.5 <= total <= 1.5 * needed


def test_rows_that_suffice_need_no_more_and_a_leak_cannot_be_helped(rng):
    tables = sketch_tables(1, 2, 0.1)
    assert rows_needed(uniform_rows(tables, 20_000, rng), LIMIT, ALPHA) == 0
    leaky = AuditRows(tables, np.repeat([0, 1], 300)[:, None], np.repeat([0, 1], 300), 2)
    assert rows_needed(leaky, LIMIT, ALPHA) is None
    lonely = AuditRows(tables, np.zeros((3, 1), int), np.array([0, 0, 1]), 2)
    assert rows_needed(lonely, LIMIT, ALPHA) is None


def test_more_groups_are_counted_in_groups(rng):
    tables = sketch_tables(2, 2, 0.1)
    rows = uniform_rows(tables, 4_000, rng, groups=rng.permutation(4_000) % 200)
    more = rows_needed(rows, 0.02, ALPHA)
    shown = certify_advantage(rows, ALPHA).bound
    assert shown > 0.02
    # Bias and deviation shrink like the root of the groups, so that the square is about right.
    assert 200 * ((shown / 0.02) ** 2 - 1) / 1.5 < more < 200 * ((shown / 0.02) ** 2 - 1) * 1.5


def test_unlisted_outputs_of_three_classes_are_extrapolated_too(rng):
    shares = (0.4, 0.3, 0.3)
    rows = uniform_rows(sketch_tables(30, 2, 0.42), 600, rng, shares)
    assert not rows.listable
    bound = kernel_advantage(KernelRows.of(rows), ALPHA)
    more = rows_needed(rows, bound / 2, ALPHA)
    again = uniform_rows(rows.tables, 600 + more, rng, shares)
    assert kernel_advantage(KernelRows.of(again), ALPHA) == pytest.approx(bound / 2, rel=0.2)
    assert rows_needed(rows, bound / 50, ALPHA) is None  # more rows than are compared


def test_leak_noise_and_chance_are_told_apart():
    assert Shown(0.05, 0.04, 0.0, ALPHA).leak == pytest.approx(0.03)
    assert Shown(0.05, 0.06, 0.01, ALPHA).leak == 0.0
    assert Shown(0.05, 0.04, 0.02, ALPHA).bound(1.0) <= 0.07
    assert Shown(0.05, 0.04, 0.02, ALPHA).bound(1e12) == pytest.approx(
        Shown(0.05, 0.04, 0.02, ALPHA).leak, abs=1e-6
    )
