from dataclasses import replace
from itertools import chain, combinations

import numpy as np
import pytest

from discreet.auditing.bounds.deviations import (
    capped_deviation,
    class_deviation,
    deviation,
    mean_lower,
    mean_upper,
    overall_lower,
    overall_upper,
    pair_spread,
    variance_bound,
)
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.leakage.joint_outputs import dobrushin, output_probabilities


def subsets(k):
    return chain.from_iterable(combinations(range(k), r) for r in range(k + 1))


def skewed_rows(rng, n=400):
    """Code 0 nine times in ten; the codes are far apart."""
    tables = (np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]))
    codes = (rng.random((2 * n, 2)) < 0.1).astype(int)
    return AuditRows(tables, codes, np.repeat([0, 1], n), 2)


def test_variance_bound_covers_every_set_of_outputs(rng):
    rows = skewed_rows(rng)
    every = output_probabilities(rows.tables, np.array([[0, 0], [0, 1], [1, 0], [1, 1]]))
    chance = np.array([0.81, 0.09, 0.09, 0.01])
    bound = variance_bound(rows, 0, 0.01)
    for chosen in subsets(6):
        sent = every[:, list(chosen)].sum(axis=1)
        assert chance @ sent**2 - (chance @ sent) ** 2 <= bound
    assert bound < dobrushin(rows.tables) ** 2 / 4  # and is better than the range alone


def test_deviation_is_never_much_above_hoeffdings(rng):
    rows = skewed_rows(rng, n=50)
    eta = dobrushin(rows.tables)
    hoeffding = eta * np.sqrt(0.5 * np.log(1 / (0.95 * 0.05)) * (2 / 50))
    assert deviation(rows, 0.05, np.ones(2)) <= hoeffding
    assert deviation(rows, 0.05, np.ones(2)) > deviation(rows, 0.2, np.ones(2))
    assert deviation(rows, 0.05, np.ones(2)) > deviation(rows, 0.05, np.array([1.0, 0.0]))


@pytest.mark.slow
def test_deviation_holds_for_the_set_that_strays_most(rng):
    alpha, fails, trials = 0.1, 0, 400
    truth = np.array([0.81, 0.09, 0.09, 0.01]) @ output_probabilities(
        skewed_rows(rng).tables, np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    )
    chosen = [0, 1, 3]
    for _ in range(trials):
        rows = skewed_rows(rng, n=60)
        strayed = truth[chosen].sum() - rows.average[0, chosen].sum()
        fails += strayed > deviation(rows, alpha, np.array([1.0, 0.0]))
    assert fails <= alpha * trials


def test_classes_of_groups_share_alpha(rng):
    rows = replace(skewed_rows(rng, n=40), groups=np.arange(80) // 4)
    apart = sum(class_deviation(rows, k, 0.025) for k in range(2))
    assert deviation(rows, 0.05, np.ones(2)) == pytest.approx(apart)
    hoeffding = dobrushin(rows.tables) * np.sqrt(0.5 * np.log(1 / (0.95 * 0.025)) / 10)
    assert apart <= 2 * hoeffding * (1 + 1e-12)


def test_groups_that_are_alike_inside_vary_less_than_rows(rng):
    # Every group reads the same mixture, so that their means hardly differ.
    codes = np.tile(np.array([[0, 0], [1, 1]]), (400, 1))
    tables = skewed_rows(rng).tables
    rows = AuditRows(tables, codes, np.repeat([0, 1], 400), 2, np.arange(800) // 4)
    assert variance_bound(rows, 0, 0.05) < variance_bound(replace(rows, groups=None), 0, 0.05) / 4


def test_without_lists_one_row_of_each_group_is_compared(rng, monkeypatch):
    rows = replace(skewed_rows(rng), groups=np.arange(800) // 4)
    exact = pair_spread(rows, 0)
    monkeypatch.setattr("discreet.auditing.bounds.outputs_given._GROUP_NUMBERS", 10)
    assert pair_spread(replace(rows), 0) > exact


def test_capped_deviation_is_what_the_smallest_step_says():
    held = np.array([3.0, 1.0, 2.0, 0.0])
    found = min(
        (np.log(7 / 0.05) + (-np.log1p(-u) - u) / u**2 * (u / 3) ** 2 * 14) / (u / 3 * 6)
        for u in np.geomspace(0.8, 0.0125, 7)
    )
    assert capped_deviation(held, 3, 0.05) == pytest.approx(found)
    assert capped_deviation(np.zeros(3), 3, 0.05) == np.inf


def test_capped_deviation_holds_where_large_groups_read_differently(rng):
    # A group in ten has ten rows, and those read 1; the others have one row that reads 0.
    alpha, fails, trials = 0.1, 0, 400
    for _ in range(trials):
        held = np.where(rng.random(300) < 0.1, 10.0, 1.0)
        found = held[held > 1].sum() / held.sum()
        fails += 1.0 / 1.9 - found > capped_deviation(held, 10, alpha)
    assert fails <= alpha * trials


@pytest.mark.parametrize("cap", [None, 5])
def test_means_are_bounded_from_both_sides(cap, rng):
    rows = replace(skewed_rows(rng), groups=np.arange(800) // 4, cap=cap)
    found = rows.average[0]
    low, high = mean_lower(rows, 0, found, 0.05), mean_upper(rows, 0, found, 0.05)
    assert (low < found).all() and (found < high).all()
    assert (mean_upper(rows, 0, found, 0.01) > high).all()
    shares = rows.shares
    assert (overall_lower(rows, shares, 0.05) < shares).all()
    assert (overall_upper(rows, shares, 0.05) > shares).all()


@pytest.mark.parametrize("rows_per_class", [0, 1])
def test_too_few_rows_leave_the_range(rows_per_class):
    index = np.repeat([0, 1], rows_per_class)
    rows = AuditRows((np.eye(2),), np.zeros((len(index), 1), int), index, 2)
    assert variance_bound(rows, 0, 0.05) == 0.25
