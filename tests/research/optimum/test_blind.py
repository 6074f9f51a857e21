from itertools import product

import numpy as np
import pytest
from support.optimum_cases import correlated

from research.optimum.limits import Wishes, leaks
from research.optimum.search import _pose
from research.optimum.starts import WAYS, _most_telling, blind_start


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
