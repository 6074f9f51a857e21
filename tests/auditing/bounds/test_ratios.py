from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from discreet.auditing.bounds import epsilon
from discreet.auditing.bounds.deviations import capped_deviation
from discreet.auditing.bounds.epsilon import bound_ratios
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.leakage.joint_outputs import output_probabilities, smallest_and_largest

NOISY = np.array([[0.8, 0.2], [0.3, 0.7]])
TELLING = np.array([[0.999, 0.001], [0.0, 1.0]])


def coins(table, ones, n, groups=None):
    """Rows of one binary sensor; class g reads code 1 ``ones[g]`` times in n."""
    codes = np.concatenate([np.arange(n) < k for k in ones]).astype(int)[:, None]
    return AuditRows((table,), codes, np.repeat(np.arange(len(ones)), n), len(ones), groups)


def true_logs(table, shares):
    given = np.array([[1 - p, p] for p in shares]) @ table
    return np.log(given[:, None] / given[None])


@pytest.mark.parametrize("table", [NOISY, TELLING], ids=["noisy", "telling"])
@pytest.mark.parametrize("pilot_ones", [(4, 4), (0, 6)], ids=["good pilot", "bad pilot"])
@pytest.mark.slow
def test_every_bound_fails_at_most_with_probability_alpha(table, pilot_ones):
    # No simulation: all outcomes of 12 rows per class, with their probabilities.
    n, alpha, pilot = 12, 0.2, coins(table, pilot_ones, 8)
    numbers = np.arange(n + 1)
    bounds = {
        ones: bound_ratios(pilot, coins(table, ones, n), alpha).logs
        for ones in product(numbers, repeat=2)
    }
    for shares in [(0.1, 0.1), (0.5, 0.5), (0.05, 0.4), (0.9, 0.3), (0.0, 0.15), (0.01, 0.02)]:
        truth = true_logs(table, shares)
        fails = np.zeros(truth.shape)
        for ones, logs in bounds.items():
            chance = np.prod([binom.pmf(k, n, p) for k, p in zip(ones, shares, strict=True)])
            fails += chance * (logs < truth - 1e-9)
        assert fails.max() <= alpha


def random_rows(rng, n=60, classes=2, groups=None):
    tables = tuple(rng.dirichlet(np.ones(2) * 2, size=4) for _ in range(3))
    codes = rng.integers(4, size=(classes * n, 3))
    return AuditRows(tables, codes, np.repeat(np.arange(classes), n), classes, groups)


def test_bounds_lie_between_what_rows_show_and_what_tables_allow(rng):
    rows = random_rows(rng, classes=3, n=200)
    low, high = smallest_and_largest(rows.tables)
    pilot, main = rows.split(0.2, 0)
    logs = bound_ratios(pilot, main, 0.05).logs
    shown = np.log(main.average[:, None] / main.average[None])
    assert (logs <= np.log(high / low) + 1e-12).all()
    assert (logs >= shown - 1e-9).all()
    assert (logs[np.arange(3), np.arange(3)] == 0).all()


def test_the_product_really_is_large_at_the_bound(rng, monkeypatch):
    # Recompute E(r) row by row at the reported ratio, for each pair and output.
    rows = random_rows(rng, n=300)
    pilot, main = rows.split(0.2, 0)
    used = {}
    from discreet.auditing.bounds import epsilon

    plain = epsilon._RatioTest.solve

    def spying(self, a, b, bets, **options):
        if len(bets) > 1:
            used[a, b] = (self, bets)
        return plain(self, a, b, bets, **options)

    monkeypatch.setattr(epsilon._Side, "__hash__", lambda side: id(side))
    monkeypatch.setattr(epsilon._Side, "__eq__", lambda one, two: one is two)
    monkeypatch.setattr(epsilon._RatioTest, "solve", spying)
    logs = bound_ratios(pilot, main, 0.05).logs
    values = output_probabilities(main.tables, main.codes)
    assert len(used) == 2
    for (a, b), (test, bets) in zip([(0, 1), (1, 0)], used.values(), strict=True):
        above, below = values[main.index == b], values[main.index == a]
        total = 0.0
        for bet, weight in bets:
            bet = np.minimum(bet, test.largest)
            other = bet * len(above) / len(below)
            up = np.log1p(bet * (above - test.centre)).sum(axis=0)
            down = np.log1p(other * (test.centre - below / np.exp(logs[a, b]))).sum(axis=0)
            total += weight * np.exp(up + down)
        certified = logs[a, b] < test.limit
        assert certified.any()
        assert (total[certified] >= 20 * (1 - 1e-9)).all()


def log_product(test, a, b, bets, logs):
    """log E(r), the products written out with the two points of either class."""
    terms = []
    for bet, weight in bets:
        bet = np.minimum(bet, test.largest)
        other = bet * b.size / a.size
        least = other * (test.centre - test.high / np.exp(logs))
        allowed = least > -1
        more = other * (test.centre - (test.high - a.below[1]) / np.exp(logs))
        wealth = b.size * (
            (1 - b.above[0]) * np.log1p(bet * (test.low - test.centre))
            + b.above[0] * np.log1p(bet * (test.low + b.above[1] - test.centre))
        ) + a.size * (
            (1 - a.below[0]) * np.log1p(np.where(allowed, least, 0.0))
            + a.below[0] * np.log1p(np.where(allowed, more, 0.0))
        )
        terms.append(np.log(weight) + test.scale * np.where(allowed, wealth, -np.inf))
    return np.logaddexp.reduce(terms)


def bisected(test, a, b, bets):
    """The slow twin of ``solve``: halve the interval until nothing is left to halve."""
    top = np.minimum(test.limit, 60.0)
    lower, upper = np.broadcast_arrays(-top, top * np.ones(bets[0][0].shape))
    for _ in range(60):
        middle = 0.5 * (lower + upper)
        enough = log_product(test, a, b, bets, middle) >= test.need
        lower, upper = np.where(enough, lower, middle), np.where(enough, middle, upper)
    return np.where((upper < top) & ~test.constant, upper, test.limit)


SHARP = np.array([[1.0, 0.0], [0.98, 0.02], [0.0, 1.0], [0.5, 0.5]])


@pytest.mark.parametrize("sharp", [False, True])
@pytest.mark.parametrize("n", [6, 60, 5000])
@pytest.mark.parametrize("classes", [2, 3])
def test_every_solution_is_that_of_bisection_or_just_above(sharp, n, classes, rng, monkeypatch):
    from discreet.auditing.bounds import epsilon

    rows = random_rows(rng, n=n, classes=classes)
    if sharp:
        rows = replace(rows, tables=(SHARP, *rows.tables[1:]))
    plain, solved = epsilon._RatioTest.solve, []

    def comparing(self, a, b, bets, close=epsilon._CLOSE):
        found = plain(self, a, b, bets, close)
        slow = bisected(self, a, b, bets)
        known = np.isfinite(slow)
        assert (np.isfinite(found) == known).all()
        above = found[known] - np.broadcast_to(slow, found.shape)[known]
        # Bisection ends within 120/2^60 above the solution, and both round E.
        assert above.min(initial=0.0) >= -1e-12
        assert above.max(initial=0.0) <= (1e-9 if close < 1e-9 else 3 * close)
        solved.append((known & (slow < self.limit)).sum())
        return found

    monkeypatch.setattr(epsilon._RatioTest, "solve", comparing)
    bound_ratios(*rows.split(0.2, 0), 0.05)
    assert sum(solved) or n == 6


def test_bounds_below_one_are_those_of_bisection_too(rng, monkeypatch):
    # Class 1 hardly ever sends what class 0 sends: log p(z|1)/p(z|0) is bounded below 0.
    from discreet.auditing.bounds import epsilon

    plain, least = epsilon._RatioTest.solve, []

    def comparing(self, a, b, bets, **options):
        found = plain(self, a, b, bets, **options)
        if len(bets) > 1:
            least.append(found.min())
            np.testing.assert_allclose(found, bisected(self, a, b, bets), rtol=0, atol=1e-9)
        return found

    monkeypatch.setattr(epsilon._RatioTest, "solve", comparing)
    codes = np.concatenate([rng.random(900) < share for share in (0.1, 0.9)]).astype(int)
    rows = AuditRows((NOISY,), codes[:, None], np.repeat([0, 1], 900), 2)
    bound_ratios(*rows.split(0.2, 0), 0.05)
    assert min(least) < -0.5


def test_more_rows_and_more_alpha_are_not_looser(rng):
    rows = random_rows(rng, n=100)
    pilot, main = rows.split(0.2, 0)
    doubled = AuditRows(
        main.tables, np.tile(main.codes, (2, 1)), np.tile(main.index, 2), main.n_classes
    )
    base = bound_ratios(pilot, main, 0.05).logs
    assert (bound_ratios(pilot, doubled, 0.05).logs.max()) <= base.max()
    assert (bound_ratios(pilot, main, 0.2).logs.max()) <= base.max()


def test_groups_cost_more_than_rows_and_copies_of_rows_bring_nothing(rng):
    rows = random_rows(rng, n=200)
    alone = replace(rows, groups=np.arange(len(rows.index)))
    copied = AuditRows(
        rows.tables,
        np.repeat(rows.codes, 3, axis=0),
        np.repeat(rows.index, 3),
        2,
        np.repeat(np.arange(len(rows.index)), 3),
    )
    plain, single, triple = (
        bound_ratios(*one.split(0.2, 0), 0.05).logs for one in (rows, alone, copied)
    )
    assert plain.max() < single.max()
    np.testing.assert_allclose(triple, single)


def test_the_stake_does_not_depend_on_how_many_groups_have_a_class(rng):
    # c N_b must be fixed by the pilot: the bound may not look at the main rows to choose it.
    rows = replace(random_rows(rng, n=200), groups=np.arange(400) % 200)
    pilot, main = rows.split(0.2, 0)
    fewer = main.take((main.index == 1) | (main.group % 3 > 0))
    assert fewer.observations[0] < main.observations[0]
    stakes = [epsilon._foreseen_sizes(pilot, each) for each in (main, fewer)]
    np.testing.assert_array_equal(*stakes)


def test_with_a_cap_upper_ends_are_divided_by_lower_ends(rng):
    rows = replace(random_rows(rng, n=200), groups=np.arange(400) % 200, cap=1)
    pilot, main = rows.split(0.2, 0)
    low, high = smallest_and_largest(rows.tables)
    stray = [capped_deviation(held, 1, 0.025) for held in main.held]
    found = bound_ratios(pilot, main, 0.05).logs
    for z in range(rows.n_outputs):
        top = min(high[z], main.average[1, z] + stray[1] * (high[z] - low[z]))
        bottom = max(low[z], main.average[0, z] - stray[0] * (high[z] - low[z]))
        assert found[1, 0, z] == pytest.approx(np.log(top / bottom))


@pytest.mark.slow
def test_copies_in_groups_do_not_fool_the_bound(rng):
    # 15 groups of 20 copies each: as rows they would promise far too much.
    fails, alpha = 0, 0.1
    truth = true_logs(NOISY, (0.3, 0.6))[1, 0].max()
    for _ in range(300):
        ones = [np.repeat(rng.random(15) < p, 20) for p in (0.3, 0.6)]
        codes = np.concatenate(ones).astype(int)[:, None]
        rows = AuditRows((NOISY,), codes, np.repeat([0, 1], 300), 2, np.arange(600) // 20)
        pilot, main = rows.split(0.2, 0)
        fails += bound_ratios(pilot, main, alpha).logs.max() < truth
    assert fails <= 300 * alpha


def test_a_constant_table_allows_no_ratio_and_a_sharp_one_any():
    constant = coins(np.full((2, 2), 0.5), (3, 5), 10)
    assert (bound_ratios(constant, constant, 0.05).logs == 0).all()
    sharp = coins(np.eye(2), (0, 5), 10)  # class 0 never sends 1
    logs = bound_ratios(sharp, sharp, 0.05).logs
    assert logs[1, 0, 1] == np.inf
    assert np.isfinite(bound_ratios(sharp, coins(np.eye(2), (50, 50), 100), 0.05).logs).all()


def test_an_impossible_output_bounds_nothing():
    rows = coins(np.array([[1.0, 0.0], [1.0, 0.0]]), (3, 5), 10)
    assert (bound_ratios(rows, rows, 0.05).logs == 0).all()


def test_a_class_without_rows_leaves_the_tables():
    rows = AuditRows((NOISY,), np.zeros((20, 1), int), np.zeros(20, int), 2)
    pilot, main = rows.split(0.2, 0)
    expected = np.log(NOISY.max(axis=0) / NOISY.min(axis=0))
    np.testing.assert_allclose(bound_ratios(pilot, main, 0.05).logs[0, 1], expected)
