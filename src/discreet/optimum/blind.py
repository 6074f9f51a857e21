"""A start for every sensor by itself: speak of the public fact, whatever the private ones are.

If a sensor's symbol has the same distribution in all cells of a public class, it tells nothing
about the private facts beyond what the public one does, and so do all sensors together. How
near to that a table comes, and how much it then says, is one small linear program.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from discreet.optimum.program import Problem
from discreet.optimum.starts import allow

Floats = NDArray[np.float64]

WAYS = ((20.0, 0.2), (20.0, -0.2), (2.0, 0.2), (2.0, -0.2))
"""The price of a difference within a side, in units of difference between the sides, and which
side is rather the quiet one: two solutions may be as good for one sensor, but for several
together only if all take the same. The most blind come first."""


def blind_start(problem: Problem, turn: int, rng: np.random.Generator) -> list[Floats]:
    """Return tables that hardly look at the private facts, as far as local privacy allows."""
    weights = problem.distribution.weights
    present = np.flatnonzero(weights.sum(axis=0) > 0)
    given = (weights / np.maximum(weights.sum(axis=0), 1e-300))[:, present].T
    side = _draw_sides(problem.distribution.public[present], rng)
    tables = []
    for profile, n_symbols in zip(problem.distribution.profiles, problem.n_symbols, strict=True):
        speaks = _most_telling(given @ profile, side, *WAYS[turn % len(WAYS)])
        table = np.zeros((len(speaks), n_symbols))
        table[:, 0], table[:, 1] = 1.0 - speaks, speaks
        tables.append(table)
    return allow(problem, tables)


def _draw_sides(public: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return which cells are to be told from the others: some public classes, not all."""
    classes = rng.permutation(np.unique(public))
    return np.isin(public, classes[: max(len(classes) // 2, 1)])


def _most_telling(given: Floats, side: NDArray[np.bool_], price: float, lean: float) -> Floats:
    """Return P(symbol 1|code): far apart between the sides, close together within each.

    Variables are that probability of each code, then what each side sends, and how far any
    cell may be from its side.
    """
    n_cells, n_codes = given.shape
    own = np.column_stack([side, ~side]).astype(np.float64)
    within = np.vstack(
        [
            np.hstack([given, -own, -np.ones((n_cells, 1))]),
            np.hstack([-given, own, -np.ones((n_cells, 1))]),
        ]
    )
    cost = np.concatenate([np.zeros(n_codes), [lean - 1.0, lean + 1.0, price]])
    found = linprog(cost, A_ub=within, b_ub=np.zeros(2 * n_cells), bounds=(0, 1))
    if found.x is None:  # the constant table is always allowed, so this is numerical trouble
        return np.full(n_codes, 0.5)
    return np.asarray(np.clip(found.x[:n_codes], 0.0, 1.0))
