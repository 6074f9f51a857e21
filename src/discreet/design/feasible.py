"""What a design hands over, and the sets that its tables must stay in.

- Every row of a table lies on the simplex.
- Algorithm 1 of the paper adds: no symbol is nearly unused (column sums of at least
  Delta_1) and no entry is nearly 1/|Z| (at least Delta_2 away). The second set is not
  convex. ``SidedSet`` fixes, entry by entry, the side of 1/|Z| that the start lies on;
  what is left is a box cut with the simplex, row by row. A start in which every symbol
  is favoured by some code then meets the first condition by itself.
- Local differential privacy: log Q(z|x) - log Q(z|x') <= epsilon for all x, x', z.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from discreet.arrays import Floats
from discreet.errors import InputError
from discreet.mapping.mapping import round_rows
from discreet.mapping.parts import Fusion

DELTA_1 = DELTA_2 = 0.005  # as in the paper's experiments


def uniform_tables(sizes: tuple[int, ...], n_symbols: tuple[int, ...]) -> list[Floats]:
    """Return the tables that say nothing."""
    return [np.full((x, z), 1.0 / z) for x, z in zip(sizes, n_symbols, strict=True)]


def project_rows(table: Floats, low: Floats | float = 0.0, high: Floats | float = 1.0) -> Floats:
    """Return the nearest table with rows that sum to 1 and entries in [low, high].

    Each row is shifted by one number and clipped; the number is found by bisection,
    since the clipped sum is increasing in it.
    """
    low, high = np.broadcast_to(low, table.shape), np.broadcast_to(high, table.shape)
    below = np.min(low - table, axis=1) - 1.0
    above = np.max(high - table, axis=1) + 1.0
    for _ in range(60):
        middle = 0.5 * (below + above)
        too_small = np.clip(table + middle[:, None], low, high).sum(axis=1) < 1.0
        below, above = np.where(too_small, middle, below), np.where(too_small, above, middle)
    return np.asarray(np.clip(table + above[:, None], low, high))


def project_simplex(table: Floats) -> Floats:
    """Return the nearest table with rows on the simplex, by sorting each row."""
    ordered = -np.sort(-table, axis=1)
    excess = np.cumsum(ordered, axis=1) - 1.0
    counts = np.arange(1, table.shape[1] + 1)
    kept = np.sum(ordered * counts > excess, axis=1)
    shift = excess[np.arange(len(table)), kept - 1] / kept
    return np.asarray(np.maximum(table - shift[:, None], 0.0))


@dataclass(frozen=True)
class SidedSet:
    """Tables with entries at least ``DELTA_2`` from 1/|Z|, each on a given side."""

    low: Floats
    high: Floats

    @classmethod
    def around(cls, table: Floats) -> SidedSet:
        """Return the set of tables on the same sides of 1/|Z| as ``table``."""
        level = 1.0 / table.shape[1]
        above = table >= level
        low = np.where(above, level + DELTA_2, 0.0)
        return cls(low, np.where(above, 1.0, level - DELTA_2))

    def project(self, table: Floats) -> Floats:
        """Return the nearest table of the set."""
        return project_rows(table, self.low, self.high)

    def contains(self, table: Floats, tolerance: float = 1e-9) -> bool:
        """Say whether the table meets both of Algorithm 1's conditions."""
        level = 1.0 / table.shape[1]
        return bool(
            np.all(table >= self.low - tolerance)
            and np.all(table <= self.high + tolerance)
            and np.allclose(table.sum(axis=1), 1.0, atol=tolerance)
            and np.all(table.sum(axis=0) >= DELTA_1 - tolerance)
            and np.all(np.abs(table - level) >= DELTA_2 - tolerance)
        )


def sided_start(n_codes: int, n_symbols: int, rng: np.random.Generator) -> Floats:
    """Return a random table whose sides of 1/|Z| admit Algorithm 1's conditions.

    Codes take turns in favouring one half of the symbols or the other, in random
    order, so that every symbol is favoured by some code.
    """
    if n_codes < 2 or n_symbols < 2:
        raise InputError(
            f"Algorithm 1 needs at least 2 codes and 2 symbols, got {n_codes} and {n_symbols}."
        )
    level = 1.0 / n_symbols
    if level <= DELTA_2:
        raise InputError(
            f"Algorithm 1 allows fewer than {int(1 / DELTA_2)} symbols, got {n_symbols}."
        )
    half = rng.permutation(n_symbols) < (n_symbols + 1) // 2
    turns = rng.permutation(n_codes) % 2 == 0
    above = np.where(turns[:, None], half, ~half)
    table = np.where(above, level + DELTA_2 + rng.random((n_codes, n_symbols)), 0.0)
    return SidedSet.around(np.where(above, 1.0, 0.0)).project(table)


def structural_epsilon(table: Floats) -> float:
    """Return max over z of log(max_x Q(z|x) / min_x Q(z|x)), one sensor's share of C1.

    A symbol that no code ever sends says nothing and is left out.
    """
    used = table.max(axis=0) > 0
    most, least = table.max(axis=0)[used], table.min(axis=0)[used]
    if np.any(least == 0):
        return float("inf")
    return float(np.max(np.log(most / least)))


def mix_to_epsilon(table: Floats, epsilon: float) -> Floats:
    """Mix a table with its average row just enough for a structural epsilon.

    The measure is taken on the integers that the mapping file will hold: rounding moves
    a small probability by much in proportion. Mixing with a constant brings all ratios
    towards 1, so the least share that suffices is found by bisection, on the safe side.
    """
    if _shipped_epsilon(table) <= epsilon:
        return table
    centre = table.mean(axis=0)
    least, most = 0.0, 1.0
    for _ in range(60):
        share = 0.5 * (least + most)
        if _shipped_epsilon((1 - share) * table + share * centre) <= epsilon:
            most = share
        else:
            least = share
    mixed: Floats = (1 - most) * table + most * centre
    return mixed


def _shipped_epsilon(table: Floats) -> float:
    return structural_epsilon(round_rows(table).astype(np.float64))


@dataclass
class Designed:
    """A mapping and the risks it has on the training rows.

    ``fusion`` is the fusion rule where it comes with the tables. ``leak`` is an attacker's
    advantage under the model that was designed on, where there is one; ``over_draws`` says whether
    it allows for what the rows might as well have shown.
    """

    tables: list[Floats]
    public_risk: float
    private_risks: Floats
    floors: Floats
    evaluations: int = 0
    stopped: bool = False
    history: list[float] = field(default_factory=list)
    fusion: Fusion | None = None
    leak: float = 0.0
    over_draws: bool = False
