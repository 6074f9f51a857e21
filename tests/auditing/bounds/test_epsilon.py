from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from discreet.auditing.bounds.certificates import PRIOR_GIVEN, NotCertifiable, share_assumption
from discreet.auditing.bounds.epsilon import PointwiseAudit, _information_cells
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.errors import InputError
from discreet.leakage.exact import (
    epsilon_beyond,
    information_epsilon,
    pairwise_epsilon,
    structural_epsilons,
)

NOISY = np.array([[0.8, 0.2], [0.3, 0.7]])
seeds = st.integers(0, 2**32 - 1)


def random_rows(rng, n=100, classes=2, sensors=3):
    tables = tuple(rng.dirichlet(np.ones(2) * 2, size=3) for _ in range(sensors))
    codes = rng.integers(3, size=(classes * n, sensors))
    return AuditRows(tables, codes, np.repeat(np.arange(classes), n), classes)


def all_certificates(audit, alpha=0.05):
    return [audit.pairwise(alpha), audit.information(alpha), *audit.nested(alpha)]


@given(seed=seeds, classes=st.integers(2, 4))
def test_ratios_and_priors_give_the_exact_epsilon_back(seed, classes):
    rng = np.random.default_rng(seed)
    world, prior = rng.dirichlet(np.ones(5), size=classes), rng.dirichlet(np.ones(classes))
    logs = np.log(world[:, None] / world[None])
    cells = _information_cells(logs, (prior, prior))
    assert cells.max() == pytest.approx(information_epsilon(world, prior))


@given(seed=seeds, classes=st.integers(2, 4))
@pytest.mark.slow
def test_the_worst_prior_in_a_box_is_a_linear_programs(seed, classes):
    rng = np.random.default_rng(seed)
    logs = rng.normal(size=(classes, classes, 1))
    logs[np.arange(classes), np.arange(classes)] = 0
    prior = rng.dirichlet(np.ones(classes))
    low, high = prior * rng.random(classes), np.minimum(1, prior * (1 + rng.random(classes)))
    worst = 0.0
    for g, sign in product(range(classes), (1, -1)):
        costs = np.exp(-logs[g, :, 0]) if sign == 1 else -np.exp(logs[:, g, 0])
        found = linprog(
            costs,
            A_eq=np.ones((1, classes)),
            b_eq=[1.0],
            bounds=list(zip(low, high, strict=True)),
        )
        worst = max(worst, -np.log(found.fun) if sign == 1 else np.log(-found.fun))
    assert _information_cells(logs, (low, high))[0] == pytest.approx(worst)


@settings(max_examples=30)
@given(seed=seeds, classes=st.integers(2, 3))
@pytest.mark.slow
def test_no_certificate_is_below_the_rows_or_above_the_tables(seed, classes):
    rows = random_rows(np.random.default_rng(seed), classes=classes)
    audit = PointwiseAudit(rows, 0, np.full(classes, 1 / classes))
    shown = audit.main.average
    limit = structural_epsilons(rows.tables).sum()
    assert pairwise_epsilon(shown) <= audit.pairwise(0.05).bound <= limit * (1 + 1e-8)
    information = audit.information(0.05).bound
    assert information_epsilon(shown, audit.prior) <= information
    assert information <= limit * (1 + 1e-8)
    for found in audit.nested(0.05):
        assert found.bound <= limit * (1 + 1e-8)


@settings(max_examples=30)
@given(seed=seeds, classes=st.integers(2, 3), n=st.integers(20, 400))
@pytest.mark.slow
def test_leaving_more_outputs_aside_never_raises_epsilon(seed, classes, n):
    rows = random_rows(np.random.default_rng(seed), n=n, classes=classes)
    bounds = [np.inf if c.bound is None else c.bound for c in PointwiseAudit(rows, 0).nested(0.05)]
    # Each certificate is rounded up once more than the one it repeats.
    assert all(later <= former * (1 + 1e-8) for former, later in pairwise(bounds))


def test_more_alpha_and_more_rows_are_not_looser(rng):
    rows = random_rows(rng)
    more = AuditRows(rows.tables, np.tile(rows.codes, (9, 1)), np.tile(rows.index, 9), 2)
    for audit, loose, other in (
        (PointwiseAudit(rows, 0), 0.05, PointwiseAudit(rows, 0)),
        (PointwiseAudit(rows, 0), 0.3, PointwiseAudit(more, 0)),
    ):
        assert other.pairwise(0.3).bound <= audit.pairwise(loose).bound
        assert other.information(0.3).bound <= audit.information(loose).bound


def test_a_known_prior_is_tighter_than_an_estimated_one(rng):
    rows = random_rows(rng, n=200)
    known, estimated = PointwiseAudit(rows, 0, np.array([0.5, 0.5])), PointwiseAudit(rows, 0)
    assert known.information(0.05).bound < estimated.information(0.05).bound
    assert PRIOR_GIVEN in known.information(0.05).assumptions
    shares = share_assumption(rows, None)
    assert "in a row drawn at random" in shares
    assert shares in estimated.information(0.05).assumptions
    assert shares not in estimated.pairwise(0.05).assumptions


def test_setting_rare_outputs_aside_helps():
    # Output 3 is rare and tells much; the others tell nothing.
    table = np.array([[0.33, 0.33, 0.339, 0.001], [0.1, 0.1, 0.1, 0.7], [1 / 3, 1 / 3, 1 / 3, 0]])
    codes = np.zeros((8000, 1), int)
    codes[:8] = 1
    rows = AuditRows((table,), codes, np.repeat([0, 1], 4000), 2)
    audit = PointwiseAudit(rows, 0)
    assert audit.pairwise(0.05).bound > 0.7
    whole, small, large = audit.nested(0.05, (0.001, 0.02))
    assert large.bound < 0.1 < small.bound <= whole.bound * (1 + 1e-8)
    assert "2.000%" in large.words


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.slow
def test_bounds_hold_as_often_as_promised(classes, rng):
    alpha, delta, trials, n = 0.2, 0.1, 100, 150
    tables = (np.array([[0.9, 0.07, 0.03], [0.05, 0.9, 0.05]]), np.array([[0.9, 0.1], [0.2, 0.8]]))
    ones = np.linspace(0.2, 0.6, classes)
    shares = np.array([0.3, 0.7]) if classes == 2 else np.array([0.2, 0.5, 0.3])
    world = []
    for p in ones:  # both sensors read the same code
        parts = [w * np.multiply.outer(tables[0][x], tables[1][x]).ravel()
                 for x, w in enumerate((1 - p, p))]  # fmt: skip
        world.append(sum(parts))
    world = np.stack(world)
    truths = [pairwise_epsilon(world), *[information_epsilon(world, shares)] * 2]
    truths.append(epsilon_beyond(world, shares, delta))
    fails = np.zeros(4)
    for seed in range(trials):
        index = rng.choice(classes, n, p=shares)
        codes = np.repeat((rng.random(n) < ones[index]).astype(int)[:, None], 2, axis=1)
        rows = AuditRows(tables, codes, index, classes)
        known, estimated = PointwiseAudit(rows, seed, shares), PointwiseAudit(rows, seed)
        found = [
            known.pairwise(alpha),
            known.information(alpha),
            estimated.information(alpha),
            estimated.nested(alpha, (delta,))[1],
        ]
        fails += [c.bound < truth for c, truth in zip(found, truths, strict=True)]
    # At exactly 0.2 more than 34 of 100 fail in fewer than one of 2,000 runs.
    assert fails.max() <= 34


def test_ten_rows_of_a_sharp_table_are_not_certifiable():
    codes = np.arange(10)[:, None] % 2
    rows = AuditRows((np.eye(2),), codes, np.repeat([0, 1], 5), 2, sensors=("hall",))
    for found in all_certificates(PointwiseAudit(rows, 0)):
        assert isinstance(found.value, NotCertifiable)
        assert "hall=" in found.value.reason
        assert "too rare" in found.value.reason and "10 rows (5, 5 by class)" in found.value.reason
        assert found.as_dict()["certifiable"] is False


def test_one_class_only_leaves_the_tables():
    rows = AuditRows((NOISY,), np.zeros((10, 1), int), np.zeros(10, int), 2)
    assert PointwiseAudit(rows, 0).pairwise(0.05).bound == pytest.approx(np.log(3.5))
    sharp = replace(rows, tables=(np.eye(2),))
    assert PointwiseAudit(sharp, 0).pairwise(0.05).bound is None


def test_no_rows_at_all_leave_the_tables():
    rows = AuditRows((NOISY,), np.zeros((0, 1), int), np.zeros(0, int), 2)
    for found in all_certificates(PointwiseAudit(rows, 0)):
        assert found.bound == pytest.approx(np.log(3.5), rel=1e-6)


def test_too_many_outputs_leave_the_tables(rng):
    rows = AuditRows((NOISY,) * 21, rng.integers(2, size=(60, 21)), np.repeat([0, 1], 30), 2)
    for found in all_certificates(PointwiseAudit(rows, 0)):
        assert found.bound <= 21 * np.log(3.5) * (1 + 1e-8)
    assert PointwiseAudit(rows, 0).pairwise(0.05).bound == pytest.approx(21 * np.log(3.5))
    sharp = PointwiseAudit(replace(rows, tables=(np.eye(2),) * 21), 0).pairwise(0.05)
    assert "too many to list" in sharp.value.reason


def test_silent_tables_certify_zero(rng):
    rows = replace(random_rows(rng), tables=(np.full((3, 2), 0.5),) * 3)
    for found in all_certificates(PointwiseAudit(rows, 0)):
        assert found.bound == pytest.approx(0, abs=1e-12)


def test_the_seed_decides_the_split(rng):
    rows = random_rows(rng)
    assert PointwiseAudit(rows, 1).pairwise(0.05) == PointwiseAudit(rows, 1).pairwise(0.05)
    assert PointwiseAudit(rows, 1).pairwise(0.05) != PointwiseAudit(rows, 2).pairwise(0.05)


@pytest.mark.parametrize("prior", [[0.5, 0.6], [1.0]])
def test_a_prior_that_is_none_is_refused(prior, rng):
    with pytest.raises(InputError, match="prior"):
        PointwiseAudit(random_rows(rng), 0, np.array(prior))


@pytest.mark.parametrize("deltas", [(0.0, 0.1), (0.1, 0.01)])
def test_a_delta_out_of_range_or_order_is_refused(deltas, rng):
    with pytest.raises(InputError, match="delta"):
        PointwiseAudit(random_rows(rng), 0).nested(0.05, deltas)
