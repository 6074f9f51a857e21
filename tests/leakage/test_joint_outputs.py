from itertools import product

import numpy as np

from discreet.leakage import joint_outputs as module
from discreet.leakage.joint_outputs import (
    output_probabilities,
    pull_back,
    scatter_rows,
    weighted_outputs,
)

SIZES, SYMBOLS = (3, 4, 2), (2, 3, 2)


def random_tables(rng):
    tables = [rng.dirichlet(np.ones(z), size=x) for x, z in zip(SIZES, SYMBOLS, strict=True)]
    return tables, np.stack([rng.integers(size, size=6) for size in SIZES], axis=1)


def test_outputs_are_products_with_the_first_sensor_slowest(rng):
    tables, codes = random_tables(rng)
    found = output_probabilities(tables, codes)
    for i, row in enumerate(codes):
        for k, z in enumerate(product(*(range(n) for n in SYMBOLS))):
            twin = np.prod([tables[t][row[t], z[t]] for t in range(3)])
            np.testing.assert_allclose(found[i, k], twin)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_pull_back_is_the_numerical_gradient(rng):
    tables, codes = random_tables(rng)
    slope = rng.normal(size=(6, 12))
    gradients = pull_back(tables, codes, slope)
    for t, gradient in enumerate(gradients):
        for x, z in np.ndindex(gradient.shape):
            ends = []
            for sign in (1, -1):
                moved = [table.copy() for table in tables]
                moved[t][x, z] += sign * 1e-6
                ends.append(np.sum(slope * output_probabilities(moved, codes)))
            np.testing.assert_allclose(gradient[x, z], (ends[0] - ends[1]) / 2e-6, atol=1e-7)


def test_scatter_adds_rows_of_the_same_index(rng):
    values, index = rng.normal(size=(7, 2)), rng.integers(3, size=7)
    twin = np.zeros((4, 2))
    np.add.at(twin, index, values)
    np.testing.assert_allclose(scatter_rows(values, index, 4), twin)


def test_weighted_outputs_are_added_up_some_rows_at_a_time(rng, monkeypatch):
    tables = [rng.dirichlet(np.ones(z), size=4) for z in (2, 3)]
    codes, weights = rng.integers(4, size=(25, 2)), rng.random((3, 25))
    expected = weights @ output_probabilities(tables, codes)
    np.testing.assert_array_equal(weighted_outputs(tables, codes, weights), expected)
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 7)
    np.testing.assert_allclose(weighted_outputs(tables, codes, weights), expected, atol=1e-14)
