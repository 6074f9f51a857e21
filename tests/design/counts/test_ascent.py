"""What is maximised is exact where outputs are listed, drawn without bias beyond, and kept."""

import numpy as np
import pytest
from support.count_worlds import random_model, random_tables

from discreet.design.counts import ascent
from discreet.design.counts.ascent import (
    WAYS,
    Duals,
    Limits,
    Problem,
    climb,
    find_starts,
    hop_from,
    settle,
    solve_programs,
)
from discreet.leakage.exact import advantage, balanced_accuracy, information_epsilon

SIZES, SYMBOLS, PRICE = (3, 2, 4), (2, 3, 2), 4.0
HALVES = np.array([0.5, 0.5])


def pose(limit=None, epsilon=None, *, beyond=False, block=(), seed=0):
    model = random_model(SIZES, block=block, seed=seed)
    limits = Limits(limit, epsilon, [0.002] * len(SIZES), beyond)
    return Problem(model, SYMBOLS, limits, HALVES)


def outputs_of(problem, tables):
    chances, _ = problem.units.chances(problem.units.pad(tables))
    return problem.weigh(chances, 0, np.random.default_rng(0))[1].T


def test_judged_figures_are_the_exact_ones():
    problem, tables = pose(0.1, 0.5), random_tables(SIZES, SYMBOLS)
    judged, given = problem.judge(tables), outputs_of(problem, tables)
    model = problem.units.model
    private = model.class_rows(1)
    shares = [model.prior[model.facts[:, 1] == k].sum() for k in (0, 1)]
    assert judged.worth == pytest.approx(balanced_accuracy(model.class_rows(0) @ given.T))
    assert judged.advantage == pytest.approx(advantage(private @ given.T))
    epsilon = information_epsilon(private @ given.T, np.array(shares))
    assert judged.epsilon == pytest.approx(epsilon)


def test_beyond_the_answer_is_the_worst_public_class():
    problem, tables = pose(0.1, beyond=True), random_tables(SIZES, SYMBOLS)
    given = outputs_of(problem, tables)  # cells are (h, g) = 00, 01, 10, 11
    told = [advantage(given[:, [0, 1]].T), advantage(given[:, [2, 3]].T)]
    assert problem.judge(tables).advantage == pytest.approx(max(told))


def draw_models(count=3):
    return [random_model(SIZES, block=(), seed=k) for k in range(1, count + 1)]


def test_what_leaks_is_the_root_of_the_mean_square_over_draws_of_the_model():
    tables, draws = random_tables(SIZES, SYMBOLS), draw_models()
    limits = Limits(0.05, None, [0.002] * len(SIZES))
    problem = Problem(random_model(SIZES, block=()), SYMBOLS, limits, HALVES, draws)
    alone = [Problem(each, SYMBOLS, limits, HALVES).judge(tables) for each in draws]
    judged = problem.judge(tables)
    squares = [each.advantage**2 for each in alone]
    assert judged.advantage == pytest.approx(np.sqrt(np.mean(squares)))
    assert judged.within == pytest.approx(np.mean([each.within for each in alone]))


def test_slope_over_draws_is_that_of_what_is_maximised():
    tables, draws = random_tables(SIZES, SYMBOLS), draw_models()
    limits = Limits(0.01, None, [0.002] * len(SIZES))
    problem = Problem(random_model(SIZES, block=()), SYMBOLS, limits, HALVES, draws)
    weights = outputs_of(problem, tables).T

    def value(weights):
        look = problem.attackers.look(weights)
        worth = (problem.public @ weights).max(axis=0).sum()
        own = zip(problem.within, problem.attackers.of[len(problem.guarded) :], strict=True)
        within = sum(share * look.gains[each].max() for (share, _), each in own)
        return worth - PRICE * problem.leaks(look.gains).sum() - ascent._WITHIN * within

    slope = problem.slope(weights, lambda gains: np.full(gains.shape, PRICE))
    for place in [(0, 0), (3, 1), (7, 2), (11, 3)]:
        ahead, behind = weights.copy(), weights.copy()
        ahead[place] += 1e-7
        behind[place] -= 1e-7
        assert slope[place] == pytest.approx((value(ahead) - value(behind)) / 2e-7, abs=1e-4)


def test_a_hop_redraws_some_codes_of_one_or_two_sensors(rng):
    tables = random_tables(SIZES, SYMBOLS)
    for _ in range(50):
        changed = []
        for table, other in zip(tables, hop_from(tables, rng), strict=True):
            np.testing.assert_allclose(other.sum(axis=1), 1.0)
            changed.append(bool((table != other).any()))
        assert sum(changed) <= 2


def test_drawn_outputs_estimate_the_listed_figures(monkeypatch):
    tables, listed = random_tables(SIZES, SYMBOLS), pose(0.1)
    monkeypatch.setattr(ascent, "MAX_LISTED", 1)
    drawn, exact = pose(0.1), listed.judge(tables)
    assert drawn.listed is None
    judged = drawn.judge(tables, 100_000)
    assert judged.worth == pytest.approx(exact.worth, abs=0.004)
    assert judged.advantage == pytest.approx(exact.advantage, abs=0.004)


def test_tables_whose_outputs_are_drawn_are_mixed_with_little_noise(monkeypatch):
    """As little as a row of shares allows: the next smaller share leaks too much."""
    tables, listed = random_tables(SIZES, SYMBOLS), pose(0.1)
    monkeypatch.setattr(ascent, "MAX_LISTED", 1)
    limit = 0.8 * listed.judge(tables).advantage
    drawn, listed = pose(limit), pose(limit)
    settled = settle(drawn, tables)
    assert drawn.judge(settled.tables, ascent._SETTLED).advantage <= limit
    first, k = tables[0][0], 0
    noise = (settled.tables[0][0, k] - first[k]) / (1.0 / len(first) - first[k])
    place = np.flatnonzero(np.isclose(ascent._SHARES_OF_NOISE, noise, atol=1e-6))
    assert len(place) == 1
    less = ascent._SHARES_OF_NOISE[place[0] - 1]
    noisier = [(1 - less) * table + less / table.shape[1] for table in tables]
    assert drawn.judge(noisier, ascent._SETTLED).advantage > limit


def test_a_price_lasts_while_a_limit_is_kept_exactly():
    duals = Duals(0.05, 2)
    before = duals(np.array([0.05, 0.05]))
    above = [duals(np.array([0.06, 0.04])) for _ in range(50)]
    after = duals(np.array([0.05, 0.05]))
    assert np.all(np.diff([each[0] for each in above]) > 0)
    assert after[0] > before[0] > after[1]
    np.testing.assert_array_equal(duals(np.array([0.05, 0.05])), after)
    assert duals(np.array([0.5, 0.0])).tolist() == [ascent._DEAREST, 0.0]


@pytest.mark.parametrize("kind", [{"limit": 0.01}, {"epsilon": 0.05}])
def test_slope_is_the_slope_of_what_is_maximised(kind):
    problem, tables = pose(**kind), random_tables(SIZES, SYMBOLS)
    weights = outputs_of(problem, tables)
    frozen = weights @ problem.bases[0]

    def value(weights):
        worth = (weights @ problem.public.T).max(axis=1).sum()
        for share, rows in problem.within:  # two private classes
            inside = weights @ rows.T
            told = 0.25 * np.abs(inside[:, 0] - inside[:, 1]).sum()
            worth -= ascent._WITHIN * share * told
        given = weights @ problem.guarded[0].T
        if problem.limits.advantage is not None:
            return worth - PRICE * 0.25 * np.abs(given[:, 0] - given[:, 1]).sum()
        ratios = np.abs(np.log(given / (weights @ problem.bases[0])[:, None]))
        over = np.maximum(ratios - problem.limits.epsilon, 0.0)
        return worth - (frozen[:, None] * over).sum()

    slope = problem.slope(weights.T, lambda gains: np.full(len(gains), PRICE)).T
    for place in [(0, 0), (3, 1), (7, 2), (11, 3)]:
        ahead, behind = weights.copy(), weights.copy()
        ahead[place] += 1e-7
        behind[place] -= 1e-7
        assert slope[place] == pytest.approx((value(ahead) - value(behind)) / 2e-7, abs=1e-4)


def test_a_short_climb_asks_whether_to_stop(rng):
    """Many short climbs are screened: a limit of time has to be seen among them."""
    problem, asked = pose(0.05), []
    start = [np.full((k, n), 1.0 / n) for k, n in zip(SIZES, SYMBOLS, strict=True)]
    climb(problem, [start], rng, 5, lambda share: bool(asked.append(share)))
    assert asked == [1.0]


@pytest.mark.parametrize("block", [(), (0, 2)])
def test_a_climb_gains_within_the_limits(block):
    for seed in range(3):
        problem = pose(0.03, 0.5, block=block, seed=seed)
        (solved,) = find_starts(problem.units.model, SYMBOLS, WAYS[:1])
        start = settle(problem, problem.above_floors(solved))
        (ended,) = climb(problem, [start.tables], np.random.default_rng(0))
        found = settle(problem, ended)
        assert found.advantage <= 0.03 + 1e-8
        assert found.epsilon <= 0.5 + 1e-8
        assert found.worth > start.worth - 0.005
        assert min(table.min() for table in found.tables) >= 0.002 - 1e-12
        np.testing.assert_allclose([t.sum(axis=1).mean() for t in found.tables], 1.0)


@pytest.mark.parametrize("kind", [{}, {"epsilon": 0.5}, {"beyond": True}, {"block": (0, 2)}])
@pytest.mark.parametrize("at_once", [2, 5])
def test_climbs_that_take_steps_together_end_where_they_end_alone(kind, at_once, monkeypatch, rng):
    problem = pose(0.03, **kind)
    starts = [random_tables(SIZES, SYMBOLS, seed=k) for k in range(5)]
    each = problem.listed.shape[1] * len(problem.units.model.prior)
    monkeypatch.setattr(ascent, "_AT_ONCE_CHANCES", at_once * each)
    asked = []
    together = climb(problem, starts, rng, 30, lambda share: bool(asked.append(share)))
    assert asked == sorted(asked)
    assert asked[-1] == 1.0
    for start, found in zip(starts, together, strict=True):
        (alone,) = climb(problem, [start], rng, 30)
        for table, other in zip(found, alone, strict=True):
            np.testing.assert_allclose(table, other, atol=1e-9)


def test_programs_of_single_sensors_beat_a_search_at_random():
    rng = np.random.default_rng(0)
    use, shown = rng.normal(size=(4, 5)), rng.normal(size=(4, 3, 5))

    def value(q):
        leak = np.einsum("tjk,...tk->...tj", shown, q)
        return np.sum(use * q, axis=-1) - 2.0 * np.sum(leak**2, axis=-1)

    best = value(solve_programs(use, np.sqrt(2.0) * shown))
    assert np.all(best >= value(rng.random((20_000, 4, 5))).max(axis=0) - 1e-6)


def test_starts_that_are_found_together_are_those_found_alone():
    model = random_model(SIZES, block=(), seed=0)
    together = find_starts(model, SYMBOLS, WAYS)
    for way, tables in zip(WAYS, together, strict=True):
        (alone,) = find_starts(model, SYMBOLS, [way])
        for table, other, n in zip(tables, alone, SYMBOLS, strict=True):
            np.testing.assert_allclose(table, other, atol=1e-6)
            assert table.shape[1] == n
            np.testing.assert_allclose(table.sum(axis=1), 1.0)
