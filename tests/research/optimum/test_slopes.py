import numpy as np
import pytest
from support.optimum_cases import SIZES, SYMBOLS, independent, random_rows, random_tables

from research.optimum.distribution import Distribution
from research.optimum.slopes import Slopes, free_entries, tables_from


def distributions(rng):
    model = independent(rng)
    codes, public, private = random_rows(rng)
    rows = Distribution.from_rows(codes, public, private[1:], SIZES)
    return [model, rows, model.mixed_with(rows, 0.4)]


@pytest.mark.parametrize("n_lead", range(4))
def test_slopes_are_those_of_the_values(n_lead, rng):
    for distribution in distributions(rng):
        tables = random_tables(rng)
        n_cells, n_blocks = distribution.weights.shape[1], int(np.prod(SYMBOLS[:n_lead]))
        patterns = rng.normal(size=(2, n_cells, int(np.prod(SYMBOLS))))

        def by_block(tables, patterns=patterns, of=distribution, n_blocks=n_blocks):
            cells = patterns * of.joint_outputs(tables)
            return cells.sum(axis=1).reshape(2, n_blocks, -1).sum(axis=2)

        values, slopes = Slopes(distribution, tables).of_blocks(patterns, n_lead)
        np.testing.assert_allclose(values, by_block(tables), atol=1e-14)
        free, h = free_entries(tables), 1e-4
        for k in range(len(free)):
            move = h * (np.arange(len(free)) == k)
            up, down = tables_from(free + move, tables), tables_from(free - move, tables)
            twin = (by_block(up) - by_block(down)) / (2 * h)
            np.testing.assert_allclose(slopes[:, :, k], twin, atol=1e-9)


def test_free_entries_give_the_tables_back(rng):
    tables = random_tables(rng)
    for found, table in zip(tables_from(free_entries(tables), tables), tables, strict=True):
        np.testing.assert_allclose(found, table)
