from itertools import chain, combinations

import numpy as np
import pytest

from discreet.auditing.outputs_given import AuditRows, dobrushin
from discreet.auditing.spread import deviation, variance_bound
from discreet.outputs import output_probabilities


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


def test_groups_are_treated_by_range_alone(rng):
    rows = skewed_rows(rng, n=40)
    grouped = AuditRows(rows.tables, rows.codes, rows.index, 2, np.arange(80) // 4)
    squares = 2 * 10 * (1 / 10) ** 2
    hoeffding = dobrushin(rows.tables) * np.sqrt(0.5 * np.log(20) * squares)
    assert deviation(grouped, 0.05, np.ones(2)) == pytest.approx(hoeffding)


@pytest.mark.parametrize("rows_per_class", [0, 1])
def test_too_few_rows_leave_the_range(rows_per_class):
    index = np.repeat([0, 1], rows_per_class)
    rows = AuditRows((np.eye(2),), np.zeros((len(index), 1), int), index, 2)
    assert variance_bound(rows, 0, 0.05) == 0.25
