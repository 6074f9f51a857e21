"""Distributions that several tests of the optimum share."""

import numpy as np

from research.optimum.distribution import Distribution


def four_sensors(prior):
    """The paper's synthetic case, with p(h, g) given for (h, g) = 00, 01, 10, 11."""
    given = np.zeros((4, 9))
    for cell in range(4):
        given[cell, 2 * cell : 2 * cell + 3] = 1 / 3
    return Distribution.independent(
        [given] * 4, np.array(prior), np.array([0, 0, 1, 1]), [np.array([0, 1, 0, 1])]
    )


def correlated(correlation):
    same, other = (1 + correlation) / 4, (1 - correlation) / 4
    return four_sensors([same, other, other, same])


def with_classes(m):
    """The paper's case with m private classes, without the sensors that only see G."""
    given = np.zeros((2 * m, 4 * m + 1))
    for cell in range(2 * m):
        given[cell, 2 * cell : 2 * cell + 3] = 1 / 3
    public, private = np.indices((2, m)).reshape(2, -1)
    return Distribution.independent([given] * 4, np.full(2 * m, 0.5 / m), public, [private])


def random_problem(seed, sensors=2, codes=3, classes=2):
    """Sensors that depend on h and g, and on each other through both."""
    rng = np.random.default_rng(seed)
    public, private = np.indices((2, classes)).reshape(2, -1)
    given = [rng.dirichlet(np.full(codes, 0.7), 2 * classes) for _ in range(sensors)]
    prior = rng.dirichlet(np.full(2 * classes, 5.0))
    return Distribution.independent(given, prior, public, [private])


# Three sensors of different sizes.
SIZES, SYMBOLS = (3, 2, 4), (2, 3, 2)


def random_tables(rng):
    return [rng.dirichlet(np.ones(z), x) for x, z in zip(SIZES, SYMBOLS, strict=True)]


def random_rows(rng, n=40):
    codes = np.column_stack([rng.integers(size, size=n) for size in SIZES])
    return codes, rng.integers(2, size=n), [rng.integers(3, size=n), rng.integers(2, size=n)]


def independent(rng):
    given = [rng.dirichlet(np.ones(size), 4) for size in SIZES]
    return Distribution.independent(
        given, rng.dirichlet(np.ones(4)), np.array([0, 0, 1, 1]), [np.array([0, 1, 0, 1])]
    )
