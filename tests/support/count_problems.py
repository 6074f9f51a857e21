"""A small problem of a design from counts, with what it maximises at hand."""

import numpy as np

from discreet.design.counts.objective import Limits, Problem
from support.count_worlds import random_model

SIZES, SYMBOLS = (3, 2, 4), (2, 3, 2)
HALVES = np.array([0.5, 0.5])


def pose(limit=None, epsilon=None, *, beyond=False, block=(), seed=0):
    model = random_model(SIZES, block=block, seed=seed)
    limits = Limits(limit, epsilon, [0.002] * len(SIZES), beyond)
    return Problem(model, SYMBOLS, limits, HALVES)
