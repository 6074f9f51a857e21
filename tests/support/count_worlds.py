"""Small worlds for the design from counts: random rows, and models to enumerate."""

from itertools import product

import numpy as np

from discreet.data.columns import Labels
from discreet.design.counts.estimate import Block, CountModel
from discreet.design.training_rows import Sample


def draw_sample(n_rows, seed=0, sizes=(3, 4, 2)):
    """Rows of sensors that lean to the public fact, the private one, and neither."""
    rng = np.random.default_rng(seed)
    h, g = rng.integers(2, size=n_rows), rng.integers(3, size=n_rows)
    lean = np.column_stack([2 * h, h + g, 0 * h])
    noise = rng.integers(0, 3, size=(n_rows, len(sizes)))
    codes = np.minimum(lean + noise, np.array(sizes) - 1).astype(np.int64)
    facts = Labels("h", h, [0, 1]), Labels("g", g, [0, 1, 2])
    return Sample(codes, tuple(sizes), facts[0], (facts[1],), tuple(sizes))


def random_model(sizes, *, block=(), seed=0):
    """Two public and two private classes; the sensors in ``block`` depend."""
    rng = np.random.default_rng(seed)
    facts = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    given = [rng.dirichlet(np.ones(size), size=4) for size in sizes]
    blocks = []
    if block:
        joint = np.array(list(product(*(range(sizes[t]) for t in block))))
        law = rng.dirichlet(np.full(len(joint), 0.3), size=4)
        for k, t in enumerate(block):
            given[t] = np.stack([np.bincount(joint[:, k], row, sizes[t]) for row in law])
        blocks = [Block(tuple(block), joint, law)]
    return CountModel(facts, rng.dirichlet(np.full(4, 5.0)), given, blocks)


def random_tables(sizes, n_symbols, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.dirichlet(np.ones(z), size=k) for k, z in zip(sizes, n_symbols, strict=True)]
