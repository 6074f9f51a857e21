"""Small random design problems, shared by the tests of the solvers."""

import numpy as np

from discreet.design.heads import Labels, collapse, private_heads, public_heads


def paper_rows(n, correlation, rng):
    """Draw the paper's synthetic case: codes 0..8 for readings 1..9, h and g in {0, 1}."""
    h = rng.integers(2, size=n)
    g = np.where(rng.random(n) < (1 + correlation) / 2, h, 1 - h)
    level = 1 + 4 * h + 2 * g  # readings 2, 4, 6, 8 as codes
    return level[:, None] + rng.integers(-1, 2, (n, 4)), h, g


def paper_outputs(tables, correlation):
    """Return p(z, h, g) of the paper's case exactly, as a 2 x 2 x outputs array."""
    joint = []
    for h in (0, 1):
        for g in (0, 1):
            level = 1 + 4 * h + 2 * g
            outputs = np.ones(1)
            for table in tables:
                outputs = np.multiply.outer(outputs, table[level - 1 : level + 2].mean(axis=0))
            share = (1 + correlation) / 4 if h == g else (1 - correlation) / 4
            joint.append(share * outputs.ravel())
    return np.array(joint).reshape(2, 2, -1)


def random_problem(rng, n=30, sizes=(3, 4, 2), n_symbols=(2, 3, 2), classes=2):
    """Return (rows, public heads, private heads, tables) with labels that codes predict."""
    codes = np.stack([rng.integers(size, size=n) for size in sizes], axis=1)
    h = (codes[:, 0] + rng.integers(2, size=n) > sizes[0] / 2).astype(np.int64)
    g = (codes[:, 1] + rng.integers(2, size=n)) % classes
    h[:2], g[:classes] = (0, 1), np.arange(classes)  # every class occurs
    rows = collapse(codes, sizes)
    tables = [rng.dirichlet(np.ones(z), size=x) for x, z in zip(sizes, n_symbols, strict=True)]
    public = public_heads(rows, Labels("h", h, 2))
    private = private_heads(rows, Labels("g", g, classes))
    return rows, public, private, tables
