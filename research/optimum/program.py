"""One step towards the optimum: a linear program in all tables, or in one sensor's.

Around given tables p(cell, z) is replaced by its linear part, which is exact if only one
sensor's table may move. The fusion rule is held fixed, so that the public accuracy is linear
too. A ceiling becomes a few rows with one more variable per block of outputs: the blocks are
single outputs while these are few, and the program is exact. Above, a block is priced at what
known attackers gain in it, and steps that a new attacker spoils teach the next program.
A slack keeps the program solvable from tables that do not keep the wishes yet; its price
decides how much they count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from discreet.arrays import Floats, Ints
from research.optimum.distribution import Distribution
from research.optimum.limits import Ceiling
from research.optimum.slopes import Slopes, free_entries, tables_from

Tables = Sequence[Floats]

_MAX_ROWS = 800  # steps of all ceilings, times outputs, to list
_MAX_BLOCKS = 128  # times ceilings, where outputs are not listed
_MAX_PATTERNS = 8  # attackers remembered where blocks hold several outputs
_RARE, _TINY = 1e-3, 1e-12  # how far rows of rare outputs are scaled up


@dataclass(frozen=True)
class Problem:
    """What to design: symbols per sensor, ceilings, and log-ratios allowed within a table.

    ``worth`` is what a right answer is worth in each public class, 1 on average; nothing if all
    are worth the same.
    """

    distribution: Distribution
    n_symbols: tuple[int, ...]
    ceilings: tuple[Ceiling, ...]
    ldp_epsilon: tuple[float, ...]
    worth: tuple[float, ...] = ()

    @cached_property
    def public_rows(self) -> Floats:
        """Rows that turn p(cell, z) into p(public class, z), times what the class is worth."""
        rows = self.distribution.class_rows(self.distribution.public)
        return np.asarray(np.array(self.worth)[:, None] * rows) if self.worth else rows

    @cached_property
    def n_lead(self) -> int:
        """How many first sensors number the blocks of outputs."""
        if self.exact:
            return len(self.n_symbols)
        blocks = np.cumprod(self.n_symbols) * len(self.ceilings)
        return int(np.sum(blocks <= _MAX_BLOCKS))

    @cached_property
    def exact(self) -> bool:
        """Whether every output is a block of its own."""
        n_steps = sum(len(ceiling.steps) for ceiling in self.ceilings)
        return n_steps * int(np.prod(self.n_symbols, dtype=np.int64)) <= _MAX_ROWS

    def restricted_to(self, sensors: Sequence[int]) -> Problem:
        """Return the problem in which only these sensors exist."""
        profiles = tuple(self.distribution.profiles[t] for t in sensors)
        return Problem(
            replace(self.distribution, profiles=profiles),
            tuple(self.n_symbols[t] for t in sensors),
            self.ceilings,
            tuple(self.ldp_epsilon[t] for t in sensors),
            self.worth,
        )


@dataclass(frozen=True)
class Standing:
    """Tables with what they achieve: public accuracy, and by how much a ceiling is exceeded."""

    tables: list[Floats]
    joint: Floats
    accuracy: float
    excess: float

    def merit(self, price: float) -> float:
        """Return the accuracy less the price of the excess."""
        return self.accuracy - price * self.excess


@dataclass
class Attackers:
    """Attackers met elsewhere, one pattern per ceiling each: valid cuts for any tables."""

    patterns: list[list[Floats]] = field(default_factory=list)

    def learn(self, problem: Problem, joint: Floats) -> None:
        """Remember who does best against p(cell, z)."""
        self.patterns.append([ceiling.guesses(joint) for ceiling in problem.ceilings])
        self.patterns = self.patterns[-_MAX_PATTERNS:]


def stand(problem: Problem, tables: Tables) -> Standing:
    """Measure tables."""
    joint = problem.distribution.joint_outputs(tables)
    accuracy = float(np.max(problem.public_rows @ joint, axis=0).sum())
    excess = max((ceiling.excess(joint) for ceiling in problem.ceilings), default=0.0)
    return Standing(list(tables), joint, accuracy, excess)


def take_step(
    problem: Problem,
    here: Standing,
    price: float,
    *,
    trust: float = 1.0,
    sensor: int | None = None,
    rule: Ints | None = None,
    attackers: Attackers | None = None,
) -> tuple[Standing, float] | None:
    """Solve one linear program and return where it leads, with the merit that it expected.

    ``price``: what a unit of excess costs, in public accuracy. ``trust``: how far any entry may
    move. ``sensor``: the only sensor whose table may move, or None for all of them. ``rule``: the
    answer to each output, as a row of ``problem.public_rows``; None for the best. ``attackers``:
    attackers met elsewhere, to take into account where outputs are too many to list. Returns none
    if the solver gave up.
    """
    slopes = Slopes(problem.distribution, here.tables)
    start = free_entries(here.tables)
    program = _Program(problem, len(start))
    gain = _public_slope(problem, here, slopes, rule)
    program.add_ceilings(here, slopes, start, attackers)
    low, high = np.maximum(start - trust, 0.0), np.minimum(start + trust, 1.0)
    if sensor is not None:
        fixed = ~_entries_of(here.tables, sensor)
        low[fixed] = high[fixed] = start[fixed]
    found = program.solve(gain, low, high, price)
    if found is None:
        return None
    free, slack = found
    expected = here.accuracy + float(gain @ (free - start)) - price * slack
    return stand(problem, tables_from(free, here.tables)), expected


def _public_slope(
    problem: Problem, here: Standing, slopes: Slopes, rule: Ints | None = None
) -> Floats:
    rows = problem.public_rows
    answers = np.argmax(rows @ here.joint, axis=0) if rule is None else rule
    _, slope = slopes.of_blocks(rows[answers].T[None], 0)
    return np.asarray(slope[0, 0])


def _entries_of(tables: Tables, sensor: int) -> NDArray[np.bool_]:
    owner = [np.full(table[:, :-1].size, t) for t, table in enumerate(tables)]
    return np.asarray(np.concatenate(owner) == sensor)


class _Program:
    """Columns: free entries, smallest entries per symbol (local privacy), blocks, slack."""

    def __init__(self, problem: Problem, n_free: int) -> None:
        self._problem, self._n_free = problem, n_free
        self._least = _least_columns(problem, n_free)
        self._n_blocks = int(np.prod(problem.n_symbols[: problem.n_lead], dtype=np.int64))
        first = n_free + sum(len(columns) for columns in self._least.values())
        self._first_block = first
        self._n_columns = first + len(problem.ceilings) * self._n_blocks + 1
        self._rows: list[Floats] = []
        self._bounds: list[Floats] = []
        self._add_tables()

    def _add(self, rows: Floats, bounds: Floats | Sequence[float]) -> None:
        """Add rows x columns <= bounds."""
        self._rows.append(rows)
        self._bounds.append(np.asarray(bounds, dtype=np.float64))

    def _add_tables(self) -> None:
        """Keep rows on the simplex and, where asked, symbols within e^epsilon of each other."""
        at = 0
        for t, n_symbols in enumerate(self._problem.n_symbols):
            n_codes = self._problem.distribution.sizes[t]
            entry = at + np.arange(n_codes * (n_symbols - 1)).reshape(n_codes, n_symbols - 1)
            at += entry.size
            total = np.zeros((n_codes, self._n_columns))
            total[np.arange(n_codes)[:, None], entry] = 1.0
            if n_symbols > 2:  # for two symbols the bounds say it
                self._add(total, np.ones(n_codes))
            if t in self._least:
                self._add_local(total, entry, self._least[t], np.exp(self._problem.ldp_epsilon[t]))

    def _add_local(self, total: Floats, entry: Ints, least: Ints, factor: float) -> None:
        """least_z <= Q(z|x) <= factor least_z, the last symbol being 1 minus the others."""
        codes = np.arange(len(entry))
        for z, column in enumerate(least):
            last = z == len(least) - 1
            q = -total if last else np.zeros_like(total)
            if not last:
                q[codes, entry[:, z]] = 1.0
            constant = 1.0 if last else 0.0
            above, below = q.copy(), -q
            above[:, column] -= factor
            below[:, column] += 1.0
            self._add(above, np.full(len(q), -constant))
            self._add(below, np.full(len(q), constant))

    def add_ceilings(
        self, here: Standing, slopes: Slopes, start: Floats, attackers: Attackers | None
    ) -> None:
        """Price every block at what the attackers known gain in it."""
        likely = here.joint.sum(axis=0).reshape(self._n_blocks, -1).sum(axis=1)
        for k, ceiling in enumerate(self._problem.ceilings):
            patterns = self._patterns(k, here, attackers)
            value, slope = slopes.of_blocks(patterns, self._problem.n_lead)
            block = self._first_block + k * self._n_blocks + np.arange(self._n_blocks)
            # Relative to its probability, a rare output is held as exactly as any other.
            scale = np.maximum(likely, _RARE * np.abs(slope).max(axis=(0, 2))) + _TINY
            for p in range(len(patterns)):
                new = _new_blocks(patterns, p, self._n_blocks)
                rows = np.zeros((len(new), self._n_columns))
                rows[:, : self._n_free] = slope[p, new] / scale[new, None]
                rows[np.arange(len(new)), block[new]] = -1.0
                self._add(rows, (slope[p, new] @ start - value[p, new]) / scale[new])
            total = np.zeros((1, self._n_columns))
            total[0, block], total[0, -1] = scale, -1.0
            self._add(total, [ceiling.room])

    def _patterns(self, k: int, here: Standing, attackers: Attackers | None) -> Floats:
        ceiling = self._problem.ceilings[k]
        if self._problem.exact:
            return np.repeat(ceiling.steps[:, :, None], here.joint.shape[1], axis=2)
        elsewhere = [] if attackers is None else [known[k] for known in attackers.patterns]
        return np.stack([ceiling.guesses(here.joint), *elsewhere])

    def solve(
        self, gain: Floats, low: Floats, high: Floats, price: float
    ) -> tuple[Floats, float] | None:
        """Return the free entries and the slack of the best point."""
        n_more = self._n_columns - self._n_free
        cost = np.concatenate([-gain, np.zeros(n_more)])
        cost[-1] = price
        bounds = Bounds(
            np.concatenate([low, np.zeros(n_more)]), np.concatenate([high, np.full(n_more, np.inf)])
        )
        constraints = []
        if self._rows:
            rows, upper = np.concatenate(self._rows), np.concatenate(self._bounds)
            constraints.append(LinearConstraint(rows, -np.inf, upper))
        # HiGHS through `milp`, with no integers in it: linprog spends more on its checks. On
        # degenerate programs HiGHS was seen to go in circles after its presolve, and never
        # without; the time only breaks such a circle, programs take milliseconds.
        found = milp(
            cost,
            constraints=constraints,
            bounds=bounds,
            options={"presolve": False, "time_limit": 30.0},
        )
        if found.x is None:
            return None
        return np.clip(found.x[: self._n_free], 0.0, 1.0), float(found.x[-1])


def _new_blocks(patterns: Floats, p: int, n_blocks: int) -> Ints:
    """Return the blocks in which a pattern is unlike all earlier ones."""
    by_block = patterns[: p + 1].reshape(p + 1, patterns.shape[1], n_blocks, -1)
    unlike = (by_block[:-1] != by_block[-1]).any(axis=(1, 3)).all(axis=0)
    return np.flatnonzero(unlike)


def _least_columns(problem: Problem, first: int) -> dict[int, Ints]:
    """Return, for every sensor with a local limit, the columns of its smallest entries."""
    columns = {}
    for t, (epsilon, n_symbols) in enumerate(
        zip(problem.ldp_epsilon, problem.n_symbols, strict=True)
    ):
        if np.isfinite(epsilon):
            columns[t] = first + np.arange(n_symbols)
            first += n_symbols
    return columns
