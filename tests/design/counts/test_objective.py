"""What is maximised is exact where outputs are listed, drawn without bias beyond, and sloped."""

import numpy as np
import pytest
from support.count_problems import HALVES, SIZES, SYMBOLS, pose
from support.count_worlds import random_model, random_tables

from discreet.design.counts import objective
from discreet.design.counts.objective import Duals, Limits, Problem
from discreet.leakage.exact import advantage, balanced_accuracy, information_epsilon

PRICE = 4.0


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
        return worth - PRICE * problem.leaks(look.gains).sum() - objective._WITHIN * within

    slope = problem.slope(weights, lambda gains: np.full(gains.shape, PRICE))
    for place in [(0, 0), (3, 1), (7, 2), (11, 3)]:
        ahead, behind = weights.copy(), weights.copy()
        ahead[place] += 1e-7
        behind[place] -= 1e-7
        assert slope[place] == pytest.approx((value(ahead) - value(behind)) / 2e-7, abs=1e-4)


def test_drawn_outputs_estimate_the_listed_figures(monkeypatch):
    tables, listed = random_tables(SIZES, SYMBOLS), pose(0.1)
    monkeypatch.setattr(objective, "MAX_LISTED", 1)
    drawn, exact = pose(0.1), listed.judge(tables)
    assert drawn.listed is None
    judged = drawn.judge(tables, 100_000)
    assert judged.worth == pytest.approx(exact.worth, abs=0.004)
    assert judged.advantage == pytest.approx(exact.advantage, abs=0.004)


def test_a_price_lasts_while_a_limit_is_kept_exactly():
    duals = Duals(0.05, 2)
    before = duals(np.array([0.05, 0.05]))
    above = [duals(np.array([0.06, 0.04])) for _ in range(50)]
    after = duals(np.array([0.05, 0.05]))
    assert np.all(np.diff([each[0] for each in above]) > 0)
    assert after[0] > before[0] > after[1]
    np.testing.assert_array_equal(duals(np.array([0.05, 0.05])), after)
    assert duals(np.array([0.5, 0.0])).tolist() == [objective._DEAREST, 0.0]


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
            worth -= objective._WITHIN * share * told
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
