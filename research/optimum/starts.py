"""Where to start: tables that send a code's symbol by what the code says about the facts.

Each symbol draws a random direction in the space of the cells, and a code gets the symbol
whose direction fits its posterior best. So codes that mean the same start with the same
symbol, and no order among codes is assumed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from discreet.arrays import Floats, Ints
from research.optimum.program import Problem, stand

Tables = Sequence[Floats]

_KINDS = ("shared", "own", "related")
_MAX_DRAWS, _SOMETHING = 10, 1e-3
_NO_DIFFERENCE, _ROUNDING = 1e-9, 1e-14


def constant_tables(problem: Problem) -> list[Floats]:
    """Return the tables that say nothing."""
    sizes = zip(problem.distribution.sizes, problem.n_symbols, strict=True)
    return [np.full((n_codes, z), 1.0 / z) for n_codes, z in sizes]


def draw_start(problem: Problem, turn: int, rng: np.random.Generator) -> list[Floats]:
    """Return tables without chance in them, as far as local privacy allows.

    Turns take it in turn to give all sensors the same directions, directions of their own,
    and something between. Tables that leave the rule nothing to decide are drawn again:
    with one answer to everything no step improves on anything.
    """
    guess = float(np.max(problem.public_rows @ problem.distribution.weights.sum(axis=0)))
    for _ in range(_MAX_DRAWS):
        tables = _draw(problem, _KINDS[turn % len(_KINDS)], rng)
        if stand(problem, tables).accuracy > guess + _SOMETHING:
            break
    return tables


def _draw(problem: Problem, kind: str, rng: np.random.Generator) -> list[Floats]:
    n_cells = problem.distribution.weights.shape[1]
    shared = rng.normal(size=(n_cells + 1, max(problem.n_symbols)))
    tables = []
    for t, n_symbols in enumerate(problem.n_symbols):
        own = rng.normal(size=shared.shape)
        direction = {"shared": shared, "own": own, "related": shared + 0.5 * own}[kind]
        tables.append(_by_meaning(problem, t, direction[:, :n_symbols]))
    return allow(problem, tables)


def hop_from(problem: Problem, tables: Tables, rng: np.random.Generator) -> list[Floats]:
    """Return tables near good ones: one sensor started afresh or copied, or all shaken."""
    hopped, t = [table.copy() for table in tables], int(rng.integers(len(tables)))
    kind = rng.integers(4)
    if kind == 0:
        n_codes, n_symbols = tables[t].shape
        hopped[t] = np.eye(n_symbols)[rng.integers(n_symbols, size=n_codes)]
    elif kind == 1:
        alike = [table for table in tables if table.shape == tables[t].shape]
        hopped[t] = alike[int(rng.integers(len(alike)))].copy()
    elif kind == 2:
        hopped = [_shaken(table, rng) for table in tables]
    else:
        hopped[t] = draw_start(problem, 1, rng)[t]
    return allow(problem, hopped)


def draw_rule(problem: Problem, tables: Tables, rng: np.random.Generator) -> Ints:
    """Return the best rule for these tables with some answers changed, or any rule at all."""
    right = problem.public_rows @ problem.distribution.joint_outputs(tables)
    drawn = rng.integers(len(right), size=right.shape[1])
    share = rng.choice([0.1, 0.3, 1.0])
    changed = rng.random(right.shape[1]) < share
    changed[rng.integers(right.shape[1])] = True
    return np.where(changed, drawn, np.argmax(right, axis=0)).astype(np.int64)


def wake(problem: Problem, tables: Tables, rng: np.random.Generator) -> list[Floats]:
    """Make silent sensors lean a little: where all are silent alike, no slope tells them apart."""
    lean = draw_start(problem, 0, rng)
    woken = [
        0.8 * table + 0.2 * lean[t] if np.ptp(table, axis=0).max() == 0 else table
        for t, table in enumerate(tables)
    ]
    return allow(problem, woken)


def allow(problem: Problem, tables: Tables) -> list[Floats]:
    """Mix tables with their average rows just enough for local privacy."""
    pairs = zip(tables, problem.ldp_epsilon, strict=True)
    return [_allow_one(table, epsilon) for table, epsilon in pairs]


def _allow_one(table: Floats, epsilon: float) -> Floats:
    if np.isinf(epsilon):
        return table
    used = table.max(axis=0) > 0
    mean = table.mean(axis=0)
    over = table.max(axis=0)[used] - np.exp(epsilon) * table.min(axis=0)[used]
    if np.all(over <= _ROUNDING):
        return table
    if epsilon < _NO_DIFFERENCE:
        return np.tile(mean, (len(table), 1))
    # (1 - share) over <= share mean (e^epsilon - 1), for every symbol.
    odds = float(np.max(over / (mean[used] * np.expm1(epsilon))))
    return np.asarray((table + odds * mean) / (1.0 + odds))


def _by_meaning(problem: Problem, sensor: int, direction: Floats) -> Floats:
    distribution = problem.distribution
    joint = distribution.profiles[sensor].T @ distribution.weights
    likely = joint / distribution.weights.sum(axis=0)  # the prior would drown rare cells
    posterior = likely / np.maximum(likely.sum(axis=1, keepdims=True), 1e-300)
    score = posterior @ direction[:-1]
    score += 0.3 * direction[-1] - score.mean(axis=0)  # so that most symbols get some codes
    return np.asarray(np.eye(direction.shape[1])[np.argmax(score, axis=1)])


def _shaken(table: Floats, rng: np.random.Generator) -> Floats:
    moved = np.maximum(table + 0.4 * rng.normal(size=table.shape), 1e-3)
    return np.asarray(moved / moved.sum(axis=1, keepdims=True))


# --- A start for every sensor by itself -----------------------------------------------------
# A start for every sensor by itself: speak of the public fact, whatever the private ones are.
#
# If a sensor's symbol has the same distribution in all cells of a public class, it tells nothing
# about the private facts beyond what the public one does, and so do all sensors together. How
# near to that a table comes, and how much it then says, is one small linear program.


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
