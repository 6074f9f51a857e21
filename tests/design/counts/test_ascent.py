"""Climbs gain within the limits, alone or together, and tables take as little noise as it takes."""

import numpy as np
import pytest
from support.count_problems import SIZES, SYMBOLS, pose
from support.count_worlds import random_tables

from discreet.design.counts import ascent, objective
from discreet.design.counts.ascent import climb, settle
from discreet.design.counts.starts import WAYS, find_starts


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
    monkeypatch.setattr(objective, "_AT_ONCE_CHANCES", at_once * each)
    asked = []
    together = climb(problem, starts, rng, 30, lambda share: bool(asked.append(share)))
    assert asked == sorted(asked)
    assert asked[-1] == 1.0
    for start, found in zip(starts, together, strict=True):
        (alone,) = climb(problem, [start], rng, 30)
        for table, other in zip(found, alone, strict=True):
            np.testing.assert_allclose(table, other, atol=1e-9)


def test_tables_whose_outputs_are_drawn_are_mixed_with_little_noise(monkeypatch):
    """As little as a row of shares allows: the next smaller share leaks too much."""
    tables, listed = random_tables(SIZES, SYMBOLS), pose(0.1)
    monkeypatch.setattr(objective, "MAX_LISTED", 1)
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
