"""Small random design problems, shared by the tests of solvers and answers."""

import numpy as np

from discreet.data.columns import Labels
from discreet.design.training_rows import Sample, collapse, private_heads, public_heads
from research.paper.synthetic import draw_readings


def paper_rows(n, correlation, rng):
    """Draw the paper's synthetic case as codes 0..8 for readings 1..9."""
    readings, h, g = draw_readings(n, correlation, rng)
    return readings - 1, h, g


def random_problem(rng, n=30, sizes=(3, 4, 2), n_symbols=(2, 3, 2), classes=2):
    """Return (rows, public heads, private heads, tables) with labels that codes predict."""
    codes = np.stack([rng.integers(size, size=n) for size in sizes], axis=1)
    h = (codes[:, 0] + rng.integers(2, size=n) > sizes[0] / 2).astype(np.int64)
    g = (codes[:, 1] + rng.integers(2, size=n)) % classes
    h[:2], g[:classes] = (0, 1), np.arange(classes)  # every class occurs
    rows = collapse(codes, sizes)
    tables = [rng.dirichlet(np.ones(z), size=x) for x, z in zip(sizes, n_symbols, strict=True)]
    public = public_heads(rows, Labels("h", h, range(2)))
    private = private_heads(rows, Labels("g", g, range(classes)))
    return rows, public, private, tables


def census_like(rng, n=2000, positives=0.24):
    """Two sensors that say a little about a public fact that a quarter of the rows have."""
    h = (rng.random(n) < positives).astype(np.int64)
    codes = np.stack([rng.binomial(3, 0.3 + 0.2 * h), rng.binomial(3, 0.35 + 0.15 * h)], axis=1)
    g = Labels("g", rng.integers(2, size=n), range(2))
    return Sample(codes.astype(np.int64), (4, 4), Labels("h", h, range(2)), (g,))
