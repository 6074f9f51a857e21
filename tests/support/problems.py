"""Small random design problems, shared by the tests of the solvers."""

import numpy as np

from discreet.data.columns import Labels
from discreet.design.training_rows import collapse, private_heads, public_heads
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
