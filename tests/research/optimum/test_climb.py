import numpy as np
import pytest
from support.optimum_cases import correlated, random_problem

from research.optimum.climb import (
    climb,
    climb_with_few,
    fit_to_rule,
    settle,
    step_by_sensor,
    tidy,
)
from research.optimum.limits import Wishes, ceilings_from
from research.optimum.program import Problem, stand, take_step
from research.optimum.starts import allow, constant_tables, draw_rule, draw_start, hop_from

WISHES = [Wishes(risk=0.44), Wishes(epsilon=0.2), Wishes(risk=0.42, epsilon=0.4), Wishes(risk=0.5)]
each_wish = pytest.mark.parametrize("wishes", WISHES, ids=str)


def pose(distribution, wishes, symbols=2, ldp=np.inf):
    n = len(distribution.sizes)
    return Problem(distribution, (symbols,) * n, ceilings_from(wishes, distribution), (ldp,) * n)


def random_tables(problem, rng):
    sizes = zip(problem.distribution.sizes, problem.n_symbols, strict=True)
    return [rng.dirichlet(np.ones(z), x) for x, z in sizes]


@each_wish
@pytest.mark.parametrize("symbols", [2, 3])
def test_a_step_of_one_sensor_never_worsens(wishes, symbols, rng):
    problem = pose(correlated(0.2), wishes, symbols)
    here = settle(problem, wishes, stand(problem, random_tables(problem, rng)))
    for sensor in (0, 1, 2, 3, 0, 1):
        there = step_by_sensor(problem, wishes, here, sensor)
        assert there.accuracy >= here.accuracy
        assert wishes.kept_by(problem.distribution, there.joint)
        pairs = zip(here.tables, there.tables, strict=True)
        moved = [not np.allclose(a, b, atol=1e-6) for a, b in pairs]
        assert not any(m for t, m in enumerate(moved) if t != sensor)
        here = there


def test_the_program_of_one_sensor_expects_what_comes_true_or_less(rng):
    wishes = Wishes(risk=0.44)
    problem = pose(correlated(0.2), wishes)
    for _ in range(5):
        here = stand(problem, random_tables(problem, rng))
        there, expected = take_step(problem, here, 20.0, sensor=1)
        # The rule that fits the new tables best can only add to what was expected.
        assert there.merit(20.0) >= expected - 1e-7
        assert expected >= here.merit(20.0) - 1e-7


@pytest.mark.slow
def test_no_step_of_one_sensor_does_better_than_the_program(rng):
    wishes = Wishes(risk=0.45)
    problem = pose(random_problem(0), wishes)
    here = settle(problem, wishes, stand(problem, random_tables(problem, rng)))
    rule = np.argmax(problem.public_rows @ here.joint, axis=0)
    best = step_by_sensor(problem, wishes, here, 0)
    for _ in range(3000):
        tried = stand(problem, [rng.dirichlet([0.3, 0.3], 3), here.tables[1]])
        if wishes.kept_by(problem.distribution, tried.joint):
            answers = (problem.public_rows @ tried.joint)[rule, np.arange(4)]
            assert answers.sum() <= best.accuracy + 1e-9


@each_wish
def test_mixing_keeps_the_wishes_and_hardly_more(wishes, rng):
    problem = pose(correlated(0.2), wishes)
    start = stand(problem, random_tables(problem, rng))
    settled = settle(problem, wishes, start)
    assert wishes.kept_by(problem.distribution, settled.joint)
    assert settled.accuracy <= start.accuracy + 1e-12
    assert settle(problem, wishes, settled) is settled


@each_wish
@pytest.mark.slow
def test_a_climb_ends_within_the_wishes(wishes, rng):
    problem = pose(correlated(0.2), wishes)
    top = climb(problem, draw_start(problem, 0, rng))
    assert top.excess < 1e-6
    assert top.accuracy > 0.7


def test_a_hopeless_climb_is_given_up(rng):
    problem = pose(correlated(0.2), Wishes(risk=0.5))
    start = draw_start(problem, 1, rng)
    assert climb(problem, start, to_beat=1.0).accuracy <= 1.0


def test_tables_that_suit_a_rule_make_it_right_more_often(rng):
    problem = pose(random_problem(2), Wishes())
    tables = draw_start(problem, 0, rng)
    for _ in range(5):
        rule = draw_rule(problem, tables, rng)
        suited = fit_to_rule(problem, tables, rule)
        before, after = (
            (problem.public_rows @ stand(problem, q).joint)[rule, np.arange(4)].sum()
            for q in (tables, suited)
        )
        assert after >= before - 1e-9


def test_starts_let_the_rule_decide_something(rng):
    problem = pose(correlated(0.2), Wishes())
    for turn in range(12):
        assert stand(problem, draw_start(problem, turn, rng)).accuracy > 0.5 + 1e-3


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
def test_starts_and_hops_keep_local_privacy(epsilon, rng):
    problem = pose(correlated(0.2), Wishes(), symbols=3, ldp=epsilon)
    tables = constant_tables(problem)
    for turn in range(8):
        tables = hop_from(problem, draw_start(problem, turn, rng), rng)
        for table in tables:
            assert np.all(table.max(axis=0) <= np.exp(epsilon) * table.min(axis=0) + 1e-12)
            np.testing.assert_allclose(table.sum(axis=1), 1)
    assert allow(problem, tables)[0] is tables[0] or epsilon == 0


def test_tidying_clears_what_a_solver_leaves_behind(rng):
    wishes = Wishes(risk=0.3)
    problem = pose(correlated(0.2), wishes)
    here = settle(problem, wishes, stand(problem, draw_start(problem, 0, rng)))
    dirty = [np.maximum(table, 1e-9) for table in here.tables]
    dirty = [table / table.sum(axis=1, keepdims=True) for table in dirty]
    cleaned = tidy(problem, wishes, stand(problem, dirty))
    assert not any(np.any((table > 0) & (table < 1e-8)) for table in cleaned.tables)


def test_a_few_speak_where_outputs_are_too_many(rng, monkeypatch):
    monkeypatch.setattr("research.optimum.program._MAX_ROWS", 8)
    wishes = Wishes(risk=0.5)
    problem = pose(correlated(0.0), wishes)
    assert not problem.exact
    tables = climb_with_few(problem, rng)
    silent = [np.ptp(table, axis=0).max() == 0 for table in tables]
    assert sum(silent) == 1
    assert stand(problem, tables).excess < 1e-9
