"""Tables that say most of the public fact within what may leak: where to start, and the ascent.

Given the cell, units (sensors, or blocks of sensors that depend) are independent, so that p(z|cell)
of an output is a product of small tables, and its slope in every table is cheap. Few outputs are
listed; of many, some are drawn for every step, each weighed by one over its probability, so
that sums over outputs are estimated without bias. What is maximised is the worth of the best
decisions, less a price for every bit of leak above its limit.

*Where to start: for each sensor by itself, speak of the public fact and not of the private ones.*
For two symbols, q(x) = P(symbol 1|x) in [0, 1] maximises u.q - price sum_k (v_k.q)**2: u is the
difference between public classes, and each v_k one that is not to show. Leaks of independent
sensors add up as squares, hence the squares. The programs of all sensors are solved at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb

from discreet.arrays import Floats
from discreet.design.counts.estimate import CountModel, join_models
from discreet.design.counts.units import Evidence, Units

# --- The ascent -----------------------------------------------------------------------------

MAX_LISTED = 4096
# Outputs drawn for a step, to compare tables, and to find out how much noise they need.
_DRAWN, _JUDGED, _SETTLED = 500, 4000, 16_000
_SHARES_OF_NOISE = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0)
HALVINGS = 14  # of the share of noise that tables are mixed with
STEPS, _PACE = 120, 0.15
_STEEPEST = 9.0  # logit
_TOLD, _TOLD_SECONDS = 20, 0.5  # steps, and seconds, between two reports at most
_SLOWER = ((0.6, 1.0), (0.85, 0.3), (1.0, 0.1))  # the pace up to each share of the steps
_AT_ONCE_CHANCES = 2**15  # of outputs given cells, in all climbs that take steps together
_AT_ONCE_BYTES = 2**26  # of products over blocks likewise
_AVERAGED = 0.85  # tables after this share of the steps are averaged
# Of a unit of leak above its limit, in public accuracy: to begin with, at most, and by how much it
# rises with every step, for good and at once, where the leak is twice the limit.
_PRICE, _DEAREST, _LASTING, _AT_ONCE = 2.0, 12.0, 0.3, 8.0
PRICES = (0.1, 0.4, 1.6)
"""Of evidence, for each time that its root is above the limit's: which is best shows by trying."""
_TINY, _ROUNDING = 1e-300, 1e-9
# Of a unit of what leaks within a public class, which limits on the whole let pass where leaks of
# two public classes cancel out: how well they do is known only as well as the rows tell it.
_WITHIN = 0.15


@dataclass(frozen=True)
class Limits:
    """What may leak.

    Attributes
    ----------
    advantage : float or None
        Most that an attacker may beat guessing by, for all classes and for any two.
    epsilon : float or None
        Largest |log p(g|z)/p(g)|; held where outputs are listed.
    floors : sequence of float
        Least entry of each sensor's table.
    beyond : bool
        Whether attackers know the public fact.
    evidence : float or None
        Most x of one round (``Evidence``), for what many rounds tell.
    """

    advantage: float | None
    epsilon: float | None
    floors: Sequence[float]
    beyond: bool = False
    evidence: float | None = None


@dataclass(frozen=True)
class Judged:
    """Tables with the worth of the best decisions and the largest excess over a limit.

    ``within``: an attacker's advantage who knows the public fact, on average over its classes.
    """

    tables: list[Floats]
    worth: float
    advantage: float
    epsilon: float
    excess: float
    within: float = 0.0

    @property
    def merit(self) -> float:
        return self.worth - _DEAREST * self.excess - _WITHIN * self.within


class Problem:
    """What to maximise, as rows over cells.

    ``draws``: models that the rows might as well have shown. What tables leak is then the root of
    the mean square over all of them: tables that are flat under one model alone are not under
    others. ``worth``: of a right decision for each public class.
    """

    def __init__(
        self,
        model: CountModel,
        n_symbols: Sequence[int],
        limits: Limits,
        worth: Floats,
        draws: Sequence[CountModel] = (),
    ) -> None:
        self.model, self.limits, self.n_draws = model, limits, max(len(draws), 1)
        self.units = Units(join_models(draws) if draws else model, n_symbols)
        cells = self.units.model
        self.public = worth[:, None] * cells.class_rows(0)
        draw = np.repeat(np.arange(self.n_draws), len(cells.prior) // self.n_draws)
        inside = [draw == k for k in range(self.n_draws)]
        by_class = [cells.facts[:, 0] == h for h in np.unique(cells.facts[:, 0])]
        self.guarded: list[Floats] = []  # p(cell|class) for each fact, and what attackers know
        self.bases: list[Floats] = []  # p(cell) to the same attackers
        for known in _intersections(inside, by_class if limits.beyond else []):
            for rows in self._told(known):
                self.guarded.append(rows)
                self.bases.append(cells.prior * known / cells.prior[known].sum())
        # What attackers see who know the public class, with the weight of that class.
        self.within: list[tuple[float, Floats]] = []
        if not limits.beyond and limits.evidence is None:
            for known in _intersections(inside, by_class):
                share = float(cells.prior[known].sum())
                self.within += [(share, rows) for rows in self._told(known)]
        self.attackers = Attackers([*self.guarded, *(rows for _, rows in self.within)])
        self.limited = np.concatenate([np.empty(0, int), *self.attackers.of[: len(self.guarded)]])
        self.listed = self.units.list_outputs() if self.units.n_outputs <= MAX_LISTED else None

    @cached_property
    def evidence(self) -> Evidence:
        """What a round adds to many; only limits on that look at it."""
        return Evidence(self.units)

    def _told(self, known: NDArray[np.bool_]) -> Iterator[Floats]:
        """Yield p(cell|class) of each private fact that differs within some cells."""
        model = self.units.model
        for fact in range(1, model.facts.shape[1]):
            rows = model.class_rows(fact, known)
            if len(rows) > 1:
                yield rows

    @property
    def climbs_at_once(self) -> int:
        """How many climbs take their steps together: none is slower by that."""
        if self.listed is None:
            return 1
        each = self.listed.shape[1] * len(self.units.model.prior)
        at_once = _AT_ONCE_CHANCES // int(each)
        return max(1, min(at_once, _AT_ONCE_BYTES // max(self.units.product_bytes, 1)))

    def weigh(
        self, chances: Floats, count: int, rng: np.random.Generator
    ) -> tuple[NDArray[Any], Floats]:
        """Return what outputs show, and p(output|cell) over their probability of being looked at.

        Cells by outputs.
        """
        if self.listed is not None:
            return self.listed, np.exp(self.units.log_chances(chances, self.listed))
        outputs = self.units.draw_outputs(chances, count, rng)
        drawn = self.units.log_chances(chances, outputs).astype(np.float64)
        weights = np.exp(drawn - drawn.max(axis=0))
        weights *= len(drawn) / drawn.shape[1] / weights.sum(axis=0)
        return outputs, weights

    def above_floors(self, tables: Sequence[Floats]) -> list[Floats]:
        """Return tables without entries below the least ones."""
        pairs = zip(tables, self.limits.floors, strict=True)
        return [floor + (1.0 - table.shape[1] * floor) * table for table, floor in pairs]

    def judge(self, tables: Sequence[Floats], count: int = _JUDGED) -> Judged:
        """Measure tables, on the same draws for all: so many, where outputs are not listed."""
        rng = np.random.default_rng(0)
        chances, _ = self.units.chances(self.units.pad(tables))
        _, weights = self.weigh(chances, count, rng)
        look = self.attackers.look(weights)
        advantage = float(self.leaks(look.gains).max(initial=0.0))
        epsilon = 0.0
        if self.limits.epsilon is not None and self.listed is not None:
            each = (float(np.abs(ratios).max()) for ratios, *_ in self._ratios(weights))
            epsilon = max(each, default=0.0)
        excess = 0.0 if self.limits.advantage is None else advantage - self.limits.advantage
        if self.limits.epsilon is not None:
            excess = max(excess, epsilon - self.limits.epsilon)
        if self.limits.evidence is not None:
            x, _ = self.evidence.worst(self.units.pad(tables))
            excess = max(excess, x / self.limits.evidence - 1.0)
        worth = float((self.public @ weights).max(axis=0).sum())
        own = zip(self.within, self.attackers.of[len(self.guarded) :], strict=True)
        within = sum(share * float(look.gains[each].max()) for (share, _), each in own)
        return Judged(list(tables), worth, advantage, epsilon, max(excess, 0.0), within)

    def slope(self, weights: Floats, duals: Duals) -> Floats:
        """Return the slope of what is maximised in p(output|cell), cells by outputs."""
        look = self.attackers.look(weights)
        prices = self._prices(look, duals)
        found = _best_rows(self.public, self.public @ weights) - look.slope(prices)
        if self.limits.epsilon is not None and self.listed is not None:
            found -= self._ratio_slope(weights, self.limits.epsilon)
        return found

    def leaks(self, gains: Floats) -> Floats:
        """Return the leak to each attacker whose gain is limited, over all draws of the model."""
        if self.n_draws == 1:
            return np.asarray(gains[..., self.limited])
        return np.asarray(np.sqrt(np.mean(self._by_draw(gains) ** 2, axis=-2)))

    def _by_draw(self, gains: Floats) -> Floats:
        own = gains[..., self.limited]
        return np.asarray(own.reshape(*own.shape[:-1], self.n_draws, -1))

    def _prices(self, look: Look, duals: Duals) -> Floats:
        """Return what a unit of each attacker's gain costs."""
        of, prices = self.attackers.of, np.zeros(look.gains.shape)
        if self.limits.advantage is not None:
            prices[..., self.limited] = self._limit_prices(look.gains, duals)
        for own, (share, _) in zip(of[len(self.guarded) :], self.within, strict=True):
            most = look.gains[..., own].argmax(axis=-1)
            prices[..., own] = (most[..., None] == np.arange(len(own))) * (_WITHIN * share)
        return prices

    def _limit_prices(self, gains: Floats, duals: Duals) -> Floats:
        """Return what a unit of each limited gain costs: draws with larger ones count for more."""
        leaks = self.leaks(gains)
        prices = duals(leaks)
        if self.n_draws == 1:
            return prices
        each = (prices / np.maximum(leaks, _ROUNDING))[..., None, :] / self.n_draws
        return np.asarray((each * self._by_draw(gains)).reshape(*prices.shape[:-1], -1))

    def evidence_slope(self, padded: Floats) -> Floats | float:
        """Return the slope in the tables of the root of evidence over that of its limit."""
        if self.limits.evidence is None:
            return 0.0
        if padded.ndim > 3:
            return np.stack([self.evidence_slope(one) for one in padded])
        x, slope = self.evidence.worst(padded)
        over = x > self.limits.evidence
        return slope * (0.5 / math.sqrt(x * self.limits.evidence) if over else 0.0)

    def _ratios(self, weights: Floats) -> Iterator[tuple[Floats, Floats, Floats]]:
        """Yield log p(output|class)/p(output), and both probabilities, for each fact."""
        for rows, base in zip(self.guarded, self.bases, strict=True):
            given = np.maximum(rows @ weights, _TINY)
            overall = np.maximum(base[None] @ weights, _TINY)
            yield np.log(given / overall), given, overall

    def _ratio_slope(self, weights: Floats, epsilon: float) -> Floats:
        """Return the slope of the excess of log-ratios, each output by its probability."""
        found = np.zeros_like(weights)
        facts = zip(self._ratios(weights), self.guarded, self.bases, strict=True)
        for (ratios, given, overall), rows, base in facts:
            side = np.where(np.abs(ratios) > epsilon, np.sign(ratios), 0.0)
            found += rows.T @ (side * overall / given)
            found -= base[:, None] * side.sum(axis=-2, keepdims=True)
        return found


def _intersections(
    some: Sequence[NDArray[np.bool_]], others: Sequence[NDArray[np.bool_]]
) -> list[NDArray[np.bool_]]:
    return [one & other for one in some for other in others] if others else list(some)


class Duals:
    """What a unit of each attacker's gain costs above a limit: the more, the longer it is above.

    A price that keeps the limit lets the tables settle; one that comes and goes with every step
    moves them to and fro.
    """

    def __init__(self, limit: float | None, count: int | tuple[int, ...]) -> None:
        self.limit, self.lasting = limit or 0.0, np.full(count, _PRICE)

    def __call__(self, gains: Floats) -> Floats:
        over = gains / self.limit - 1.0  # of every attacker, on the last axis
        self.lasting = (self.lasting + _LASTING * over).clip(0.0, _DEAREST)
        return np.asarray((self.lasting + _AT_ONCE * over).clip(0.0, _DEAREST))


class Attackers:
    """Those who tell two classes of a fact apart, or guess among all of more than two.

    ``told``: p(cell|class), classes by cells, for each fact and what attackers know. ``of``: the
    attackers who look at each of these.
    """

    def __init__(self, told: Sequence[Floats]) -> None:
        self.several = [rows for rows in told if len(rows) > 2]
        pairs = [(k, a - b) for k, rows in enumerate(told) for a, b in combinations(rows, 2)]
        self.apart = np.array([row for _, row in pairs])
        owners = [k for k, _ in pairs] + [k for k, rows in enumerate(told) if len(rows) > 2]
        self.of = [np.flatnonzero(np.array(owners) == k) for k in range(len(told))]

    def look(self, weights: Floats) -> Look:
        """Look at p(output|cell) of some outputs."""
        apart = self.apart.reshape(-1, weights.shape[-2]) @ weights
        return Look(self, apart, [rows @ weights for rows in self.several])


class Look:
    """What attackers see of some outputs; ``gains``: the advantage of each of them."""

    def __init__(self, attackers: Attackers, apart: Floats, given: Sequence[Floats]) -> None:
        self.attackers, self.apart, self.given = attackers, apart, given
        gains = [(p.max(axis=-2) - p.mean(axis=-2)).sum(axis=-1) / p.shape[-2] for p in given]
        two = 0.25 * np.abs(apart).sum(axis=-1)
        self.gains = np.concatenate([two, *(each[..., None] for each in gains)], axis=-1)

    def slope(self, prices: Floats) -> Floats:
        """Return the slope in p(output|cell) of all gains together, each at its price."""
        told, pairs = self.attackers, self.apart.shape[-2]
        dear = np.flatnonzero(prices.reshape(-1, prices.shape[-1])[:, :pairs].any(axis=0))
        sides = np.sign(self.apart[..., dear, :]) * (0.25 * prices[..., dear, None])
        found = told.apart[dear].T @ sides if pairs else np.zeros(1)
        for k, (rows, given) in enumerate(zip(told.several, self.given, strict=True), start=pairs):
            if prices[..., k].any():
                best = _best_rows(rows - rows.mean(axis=0), given)
                found = found + prices[..., k, None, None] / len(rows) * best
        return np.asarray(found)


def _best_rows(rows: Floats, given: Floats) -> Floats:
    """Return for each output the row of the class that has the most of it, as columns."""
    if len(rows) == 2:
        more = given[..., 1:, :] > given[..., :1, :]
        return np.asarray((rows[1] - rows[0])[:, None] * more + rows[0][:, None])
    return np.asarray(np.moveaxis(rows.T[:, np.argmax(given, axis=-2)], 0, -2))


def climb(
    problem: Problem,
    starts: Sequence[Sequence[Floats]],
    rng: np.random.Generator,
    steps: int = STEPS,
    stop: Callable[[float], bool] = lambda _share: False,
    prices: Sequence[float] | None = None,
    *,
    near: bool = False,
) -> list[list[Floats]]:
    """Climb from every start; ``stop`` may ask for the tables as they are.

    ``stop`` is called with the share that is done. ``prices``: of evidence, for each start.
    ``near``: whether starts are nearly what is looked for, so that steps are small. Where outputs
    are few, climbs take their steps together; a start that is not begun is left out.
    """
    at_once = problem.climbs_at_once
    prices = [PRICES[0]] * len(starts) if prices is None else prices
    found: list[list[Floats]] = []
    stopped = False
    for begin in range(0, len(starts), at_once):
        some = [problem.units.pad(start) for start in starts[begin : begin + at_once]]
        done, share = begin / len(starts), len(some) / len(starts)

        def ask(part: float, done: float = done, share: float = share) -> bool:
            nonlocal stopped
            stopped = stop(done + share * part)
            return stopped

        price = np.reshape(prices[begin : begin + at_once], (-1, 1, 1, 1))
        own = np.stack(some), price
        if at_once == 1:
            own = own[0][0], own[1][0]
        ended = _ascend(problem, *own, rng, steps, ask, near=near)
        found += map(problem.units.cut, ended.reshape(-1, *some[0].shape))
        if stopped:
            break
    return found


def _ascend(
    problem: Problem,
    padded: Floats,
    price: Floats,
    rng: np.random.Generator,
    steps: int,
    stop: Callable[[float], bool],
    *,
    near: bool,
) -> Floats:
    """Follow the slope of logits (Adam), and return the average of the last tables."""
    units, rise, before = problem.units, _Rise(), padded.shape[:-3]
    n_limits = len(problem.limited) // problem.n_draws
    duals = Duals(problem.limits.advantage, (*before, n_limits))
    floor = np.array(problem.limits.floors)[:, None, None] * units.used[:, None, :]
    room = 1.0 - floor.sum(axis=2, keepdims=True)
    logits = _logits(padded, floor, room, units.used)
    least = np.where(units.used[:, None, :], -_STEEPEST, -np.inf)
    kept, total, last = 0, np.zeros_like(logits), time.monotonic()
    paces = _SLOWER[1:] if near else _SLOWER
    for step in range(steps):
        soft = np.exp(logits)
        soft /= soft.sum(axis=-1, keepdims=True)
        padded = floor + room * soft
        slope = room * _table_slope(problem, padded, rng, duals, price)
        slope = soft * (slope - np.sum(soft * slope, axis=-1, keepdims=True))
        quick = next(pace for share, pace in paces if step < share * steps)
        logits = (logits + _PACE * quick * rise(slope)).clip(least, _STEEPEST)
        due = (step + 1) % _TOLD == 0 or step + 1 == steps
        due = due or time.monotonic() >= last + _TOLD_SECONDS
        stopped = due and stop((step + 1) / steps)
        last = time.monotonic() if due else last
        if step >= _AVERAGED * steps or stopped or step == steps - 1:
            total, kept = total + padded, kept + 1
        if stopped:
            break
    return np.asarray(total / kept)


def _table_slope(
    problem: Problem, padded: Floats, rng: np.random.Generator, duals: Duals, price: Floats
) -> Floats:
    """Return the slope of what is maximised in the tables."""
    chances, products = problem.units.chances(padded)
    outputs, weights = problem.weigh(chances, _DRAWN, rng)
    moved = (problem.slope(weights, duals) * weights).astype(outputs.dtype)
    told = problem.units.add_up(moved, outputs)
    slope = problem.units.pull_back(told / np.maximum(chances, _TINY), products)
    return np.asarray(slope - price * problem.evidence_slope(padded))


class _Rise:
    """Adam: the average slope over its average size, entry by entry."""

    def __init__(self) -> None:
        self.drift, self.spread, self.steps = np.zeros(1), np.zeros(1), 0

    def __call__(self, slope: Floats) -> Floats:
        self.steps += 1
        self.drift = 0.9 * self.drift + 0.1 * slope
        self.spread = 0.99 * self.spread + 0.01 * slope**2
        size = self.drift / (1.0 - 0.9**self.steps)
        scale = np.sqrt(self.spread / (1.0 - 0.99**self.steps)) + 1e-6
        return np.asarray(size / scale)


def _logits(padded: Floats, floor: Floats, room: Floats, used: NDArray[np.bool_]) -> Floats:
    share = np.clip((padded - floor) / np.maximum(room, 1e-12), 0.01, 1.0)
    return np.where(used[:, None, :], np.log(share), -np.inf)


def settle(problem: Problem, tables: list[Floats], halvings: int = HALVINGS) -> Judged:
    """Mix tables with noise as little as it takes to keep the limits under the model.

    ``halvings``: of the interval that the share of noise is in, where outputs are listed.
    """
    silent = [np.full_like(table, 1.0 / table.shape[1]) for table in tables]

    def mixed(share: float) -> Judged:
        pairs = zip(tables, silent, strict=True)
        some = [(1 - share) * table + share * noise for table, noise in pairs]
        return problem.judge(some, _SETTLED)

    best = mixed(0.0)
    if problem.listed is None:  # leaks are known roughly: a first share that keeps them will do
        shares = iter(_SHARES_OF_NOISE)
        while best.excess > _ROUNDING:
            best = mixed(next(shares))
        return best
    least, most = 0.0, 1.0
    for _ in range(halvings if best.excess > _ROUNDING else 0):
        share = 0.5 * (least + most)
        found = mixed(share)
        if found.excess <= _ROUNDING:
            most, best = share, found
        else:
            least = share
    return best if best.excess <= _ROUNDING else mixed(1.0)


# --- Starts ---------------------------------------------------------------------------------

_STEPS = 100
_UNLIKE, _REDRAWN = 2.0, 0.3  # deviation of logits that are drawn, and share of codes
_LESS_WITHIN = 0.3  # of the weight, where differences overall count as well


@dataclass(frozen=True)
class Way:
    """A way to speak of the public fact and not of the private ones.

    ``hidden``: what is not to show: differences between private classes "within" each public class,
    "overall" (where leaks of two public classes may cancel out), or "both". ``price``: of these.
    ``lean``: where symbol 1 is to be rare in the other public classes, above 0, or common in its
    own, below: a symbol that one class alone has answers best where several sensors speak.
    """

    hidden: str
    price: float
    lean: float = 0.0


WAYS = (
    Way("within", 128.0, 1.0),
    Way("overall", 128.0, -1.0),
    Way("within", 128.0, -1.0),
    Way("within", 16.0),
    Way("within", 32.0, 1.0),
    Way("overall", 128.0, 1.0),
    Way("both", 4.0),
    Way("within", 32.0, -1.0),
)


def find_starts(
    model: CountModel, n_symbols: Sequence[int], ways: Sequence[Way]
) -> list[list[Floats]]:
    """Return tables to start from, for each of some ways; all are found at once."""
    given = _padded(model.given)
    uses, shown = [], []
    for way in ways:
        uses.append(_uses(model, given, way.lean))
        hidden = math.sqrt(way.price) * _hidden(model, way.hidden)
        shown.append(np.einsum("jc,tck->tjk", hidden, given))
    most = max(part.shape[1] for part in shown)
    wide = [np.pad(part, ((0, 0), (0, most - part.shape[1]), (0, 0))) for part in shown]
    found = solve_programs(np.concatenate(uses), np.concatenate(wide))
    sizes = [table.shape[1] for table in model.given]
    by_way = found.reshape(len(ways), len(sizes), -1)
    tables = [_spread(by_way[:, t, :size], n_symbols[t]) for t, size in enumerate(sizes)]
    return [[table[k] for table in tables] for k in range(len(ways))]


def draw_start(
    model: CountModel, n_symbols: Sequence[int], rng: np.random.Generator
) -> list[Floats]:
    """Return tables by what codes mean: each symbol has a direction in the space of the cells.

    A code leans to the symbol whose direction fits its posterior best; directions of the sensors
    are alike, more or less.
    """
    n_cells, widest = len(model.prior), max(n_symbols)
    shared = rng.normal(size=(n_cells + 1, widest))
    unlike = rng.choice([0.0, 0.5, 2.0])
    tables = []
    for given, n in zip(model.given, n_symbols, strict=True):
        direction = (shared + unlike * rng.normal(size=shared.shape))[:, :n]
        score = (given / given.sum(axis=0)).T @ direction[:-1]
        score += 0.3 * direction[-1] - score.mean(axis=0)
        leaning = np.eye(n)[np.argmax(score, axis=1)]
        tables.append(0.9 * leaning + 0.1 / n)
    return tables


def hop_from(tables: Sequence[Floats], rng: np.random.Generator) -> list[Floats]:
    """Return tables of which one or two send some codes otherwise, as drawn.

    Sensors that are alike climb alike, and the best tables often give them different parts.
    """
    found = list(tables)
    for t in rng.choice(len(found), size=min(len(found), int(rng.integers(1, 3))), replace=False):
        drawn = np.exp(_UNLIKE * rng.normal(size=found[t].shape))
        drawn /= drawn.sum(axis=1, keepdims=True)
        found[t] = np.where(rng.random((len(drawn), 1)) < _REDRAWN, drawn, found[t])
    return found


def solve_programs(use: Floats, shown: Floats) -> Floats:
    """Maximise use.q - |shown q|**2 over the box, sensor by sensor (FISTA)."""
    steep = 2.0 * np.sum(shown**2, axis=(1, 2)) + 1e-9
    q = ahead = np.full(use.shape, 0.5)
    pace = 1.0
    for _ in range(_STEPS):
        leak = np.einsum("tjk,tk->tj", shown, ahead)
        slope = use - 2.0 * np.einsum("tjk,tj->tk", shown, leak)
        new = (ahead + slope / steep[:, None]).clip(0.0, 1.0)
        quicker = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * pace**2))
        ahead = new + (pace - 1.0) / quicker * (new - q)
        q, pace = new, quicker
    return q


def _uses(model: CountModel, given: Floats, lean: float) -> Floats:
    """Return the difference that each sensor is to show: one public class against the others.

    Each sensor takes the class that it tells best, unless others have taken it already.
    """
    public = model.class_rows(0)
    others = (public.sum(axis=0) - public) / max(len(public) - 1, 1)
    own, rest = 1.0 + max(-lean, 0.0), 1.0 + max(lean, 0.0)
    differences = np.einsum("hc,tck->thk", own * public - rest * others, given)
    if len(public) == 2:
        return np.asarray(differences[:, 1])
    taken, found = np.ones(len(public)), []
    for each in differences:
        best = int(np.argmax(np.abs(each).sum(axis=1) / taken))
        taken[best] += 1.0
        found.append(each[best])
    return np.array(found)


def _hidden(model: CountModel, way: str) -> Floats:
    rows = []
    n_facts = model.facts.shape[1]
    for fact in range(1, n_facts):
        if way != "within":
            rows += _differences(model.class_rows(fact))
        if way != "overall":
            weight = 1.0 if way == "within" else _LESS_WITHIN
            for h in np.unique(model.facts[:, 0]):
                inside = model.class_rows(fact, model.facts[:, 0] == h)
                rows += [weight * row for row in _differences(inside)]
    return np.array(rows).reshape(-1, len(model.prior))


def _differences(rows: Floats) -> list[Floats]:
    return [b - a for a, b in combinations(rows, 2)]


def _padded(given: Sequence[Floats]) -> Floats:
    widest = max(table.shape[1] for table in given)
    found = np.zeros((len(given), len(given[0]), widest))
    for t, table in enumerate(given):
        found[t, :, : table.shape[1]] = table
    return found


def _spread(q: Floats, n_symbols: int) -> Floats:
    """Return tables whose symbols follow the binomial law: (1 - q, q) for two of them."""
    z = np.arange(n_symbols)
    chance = q[..., None]
    return np.asarray(comb(n_symbols - 1, z) * chance**z * (1.0 - chance) ** z[::-1])
