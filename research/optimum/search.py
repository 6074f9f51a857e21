"""The best tables for a known distribution: least public error within what may be told.

The problem is not convex, so the search starts many times and keeps the best; half of the
starts are hops from the best so far. What comes out keeps every wish. Whether something
better exists is told by two figures: a lower bound that no tables can beat, and how many
starts ended at the same error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet.arrays import Floats, Ints
from discreet.errors import InputError
from discreet.progress import Progress, Report
from research.optimum.climb import (
    climb,
    climb_with_few,
    fit_to_rule,
    settle,
    step_by_sensor,
    tidy,
)
from research.optimum.distribution import Distribution
from research.optimum.limits import Wishes, ceilings_from, ldp_tuple, leaks, lower_bound
from research.optimum.program import Problem, Standing, stand
from research.optimum.starts import (
    WAYS,
    allow,
    blind_start,
    constant_tables,
    draw_rule,
    draw_start,
    hop_from,
    wake,
)

Tables = Sequence[Floats]

# Called after every start with how many there were and the least error so far; True stops.

MAX_OUTPUTS = 2**20
_SAME = 1e-4  # errors this close count as the same optimum


@dataclass(frozen=True)
class Optimum:
    """The best tables found, their exact figures, and how sure it is that they are best.

    ``tables`` is of shape (n_codes, n_symbols). ``rule`` of shape (n_outputs,): the best answer, a
    public class, for every output; the first sensor slowest. ``risk``, ``advantage``, ``epsilon``:
    what the outputs tell about the private fact they tell most about: least R over any two classes,
    gain over guessing, and the largest |log p(g|z)/p(g)|. ``bound``: a public error that no tables
    can go below at these wishes; None if not asked for. ``restarts``: how many starts were tried.
    ``agreed``: how many of them ended within 0.0001 of the best; half of the starts are hops from
    the best so far, so these are not independent witnesses.
    """

    tables: list[Floats]
    rule: Ints
    public_error: float
    risk: float
    advantage: float
    epsilon: float
    bound: float | None
    restarts: int
    agreed: int


def find_optimum(
    distribution: Distribution,
    n_symbols: int | Sequence[int] = 2,
    *,
    risk: float | None = None,
    max_advantage: float | None = None,
    epsilon: float | None = None,
    ldp_epsilon: float | Sequence[float] | None = None,
    worth: Sequence[float] | None = None,
    n_restarts: int = 24,
    starts: Sequence[Tables] = (),
    bound: bool = True,
    rng: np.random.Generator | int | None = None,
    report: Report | None = None,
) -> Optimum:
    """Minimise the public error of the best fusion rule within what may be told.

    ``n_symbols``: symbols of every sensor, or of each. ``risk``: least R for any two classes of any
    private fact, at most 0.5. ``max_advantage``: most that any attacker may beat guessing by.
    ``epsilon``: largest |log p(g|z)/p(g)|. ``ldp_epsilon``: largest log Q(z|x)/Q(z|x') within a
    sensor's table. ``worth``: what a right answer is worth in each public class, up to a factor; by
    default the same in all. ``public_error`` is then the share of the worth that is lost: with one
    over the frequency of the class, one less the balanced accuracy. ``n_restarts``: starts, those
    in ``starts`` included. ``starts``: where to start first. ``bound``: whether to compute the
    lower bound, which there is where ``worth`` is not given. ``report``: told (starts done, least
    error) after each start; stops the search by returning True.
    """
    wishes = Wishes(risk, max_advantage, epsilon)
    problem = _pose(distribution, n_symbols, wishes, ldp_epsilon, worth)
    if n_restarts < 1:
        raise InputError(f"n_restarts must be 1 or more, got {n_restarts}.")
    for tables in starts:
        _check_start(problem, tables)
    search = _Search(problem, wishes, np.random.default_rng(rng))
    search.run(starts, n_restarts, report)
    total = float(sum(problem.ldp_epsilon))
    bound = bound and not problem.worth
    least = lower_bound(distribution, problem.ceilings, total) if bound else None
    return search.result(least)


class _Search:
    def __init__(self, problem: Problem, wishes: Wishes, rng: np.random.Generator) -> None:
        self._problem, self._wishes, self._rng = problem, wishes, rng
        self._best = stand(problem, constant_tables(problem))  # keeps every wish
        self._reached: list[float] = []

    def run(self, starts: Sequence[Tables], n_restarts: int, report: Report | None) -> None:
        for k in range(n_restarts):
            self._try(self._start(k, starts, n_restarts))
            if report is not None and report(
                Progress("design", (k + 1) / n_restarts, 1.0 - self._best.accuracy)
            ):
                break
        self._best = tidy(self._problem, self._wishes, self._best)

    def _start(self, k: int, starts: Sequence[Tables], n_restarts: int) -> list[Floats]:
        if k < len(starts):
            return allow(self._problem, starts[k])
        n_blind = min(len(WAYS), max(n_restarts // 6, 1))
        if k < len(starts) + n_blind:
            return blind_start(self._problem, k - len(starts), self._rng)
        if k < max((n_restarts + n_blind) // 2, 3):
            if not self._problem.exact and k % 3 == 2:
                return climb_with_few(self._problem, self._rng)
            return self._suited(draw_start(self._problem, k, self._rng), k)
        return self._suited(hop_from(self._problem, self._best.tables, self._rng), k)

    def _suited(self, tables: list[Floats], k: int) -> list[Floats]:
        """Give every other start a rule of its own to suit first."""
        if k % 2 == 0 or not self._problem.exact:
            return tables
        rule = draw_rule(self._problem, tables, self._rng)
        return fit_to_rule(self._problem, tables, rule)

    def _try(self, start: list[Floats]) -> None:
        reached = 0.0
        if not self._problem.exact:
            reached = self._keep(stand(self._problem, start))  # a climb may end below its start
            start = wake(self._problem, start, self._rng)
        reached = max(reached, self._keep(climb(self._problem, start, self._best.accuracy)))
        self._reached.append(reached)

    def _keep(self, found: Standing) -> float:
        """Make tables keep the wishes, remember them if they are best, return their accuracy."""
        there = settle(self._problem, self._wishes, found)
        if self._problem.exact and there.accuracy > self._best.accuracy + _SAME / 100:
            there = self._sensor_by_sensor(there)
        if there.accuracy > self._best.accuracy:
            self._best = there
        return there.accuracy

    def _sensor_by_sensor(self, here: Standing) -> Standing:
        for sensor in range(len(here.tables)):
            here = step_by_sensor(self._problem, self._wishes, here, sensor)
        return here

    def result(self, bound: float | None) -> Optimum:
        distribution, best = self._problem.distribution, self._best
        found = leaks(distribution, best.joint)
        answers = np.unique(distribution.public[distribution.weights.sum(axis=0) > 0])
        rule = answers[np.argmax(self._problem.public_rows @ best.joint, axis=0)]
        agreed = sum(accuracy > best.accuracy - _SAME for accuracy in self._reached)
        return Optimum(
            best.tables,
            rule,
            1.0 - best.accuracy,
            found.risk,
            found.advantage,
            found.epsilon,
            bound,
            len(self._reached),
            agreed,
        )


def _pose(
    distribution: Distribution,
    n_symbols: int | Sequence[int],
    wishes: Wishes,
    ldp_epsilon: float | Sequence[float] | None,
    worth: Sequence[float] | None,
) -> Problem:
    n_sensors = len(distribution.sizes)
    every = [n_symbols] * n_sensors if np.ndim(n_symbols) == 0 else n_symbols
    symbols = tuple(int(z) for z in np.asarray(every))
    if len(symbols) != n_sensors or min(symbols, default=2) < 2:
        raise InputError(
            f"n_symbols must be 2 or more for each of {n_sensors} sensors, got {n_symbols}."
        )
    n_outputs = float(np.prod([float(z) for z in symbols]))
    if n_outputs > MAX_OUTPUTS:
        raise InputError(
            f"{n_sensors} sensors have {n_outputs:.3g} joint outputs; the optimum lists at most "
            f"{MAX_OUTPUTS}: use fewer sensors or symbols."
        )
    local = ldp_tuple(ldp_epsilon, n_sensors)
    ceilings = ceilings_from(wishes, distribution)
    return Problem(distribution, symbols, ceilings, local, _normalised(worth, distribution))


def _normalised(worth: Sequence[float] | None, distribution: Distribution) -> tuple[float, ...]:
    """Return the worths with a mean of 1 over the public classes; nothing if they are equal."""
    if worth is None or np.ptp(worth) == 0.0:
        return ()
    shares = distribution.shares(distribution.public)
    if len(worth) != len(shares) or min(worth) <= 0:
        raise InputError(
            f"worth must be above 0 for each of {len(shares)} public classes, got {worth}."
        )
    return tuple((np.array(worth) / float(shares @ np.array(worth))).tolist())


def _check_start(problem: Problem, tables: Tables) -> None:
    shapes = list(zip(problem.distribution.sizes, problem.n_symbols, strict=True))
    given = [table.shape for table in tables]
    if given != shapes:
        raise InputError(f"A start must have tables of shapes {shapes}, got {given}.")
