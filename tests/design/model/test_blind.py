from itertools import product

import numpy as np
import pytest
from design.model.cases import correlated, random_problem, with_classes

from discreet.design.model.limits import Wishes, leaks
from discreet.design.model.search import _pose, find_blind
from discreet.design.model.starts import WAYS, _most_telling, blind_start


def posed(distribution, **wishes):
    return _pose(distribution, 2, Wishes(**wishes), None, None)


def test_at_correlation_0_it_is_the_known_solution():
    """Perfect privacy with a public error of 1/162 (every sensor silent in two thirds)."""
    problem = posed(correlated(0.0), risk=0.4)
    for turn in (0, 1):
        tables = blind_start(problem, turn, np.random.default_rng(0))
        joint = problem.distribution.joint_outputs(tables)
        assert leaks(problem.distribution, joint).risk == pytest.approx(0.5)
        assert 1 - (problem.public_rows @ joint).max(axis=0).sum() == pytest.approx(1 / 162)


@pytest.mark.parametrize("m", [3, 4, 5])
def test_it_is_so_for_any_number_of_private_classes(m):
    assert find_blind(with_classes(m), risk=0.5, rng=0)[0].public_error == pytest.approx(1 / 162)


@pytest.mark.parametrize("seed", range(5))
def test_no_table_on_a_grid_is_better(seed):
    rng = np.random.default_rng(seed)
    given, side = rng.dirichlet(np.ones(3), 4), np.array([True, True, False, False])

    def value(speaks, price, lean):
        sent = given @ speaks
        loud, quiet = sent[side], sent[~side]
        # With a price of 2 or more, nothing is gained by being further off than one must be.
        off = max(np.ptp(loud), np.ptp(quiet)) / 2
        a, b = min(loud.min() + off, 1.0), max(quiet.max() - off, 0.0)
        return (1 - lean) * a - (1 + lean) * b - price * off

    grid = [np.array(q) for q in product(np.linspace(0, 1, 11), repeat=3)]
    for price, lean in WAYS:
        found = value(_most_telling(given, side, price, lean), price, lean)
        assert found >= max(value(q, price, lean) for q in grid) - 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_what_is_found_keeps_every_wish(seed):
    distribution = random_problem(seed, sensors=3, codes=4, classes=3)
    for found in find_blind(distribution, risk=0.45, epsilon=0.6, ldp_epsilon=2.0, rng=seed):
        assert found.risk >= 0.45 - 1e-9 and found.epsilon <= 0.6 + 1e-9
        for table in found.tables:
            used = table[:, table.max(axis=0) > 0]
            assert np.log(used.max(axis=0) / used.min(axis=0)).max() <= 2.0 + 1e-9
