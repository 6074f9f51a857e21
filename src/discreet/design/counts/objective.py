"""What is maximised: the worth of the best decisions, less a price for what leaks above limits.

Given the cell, units (sensors, or blocks of sensors that depend) are independent, so that p(z|cell)
of an output is a product of small tables, and its slope in every table is cheap. Few outputs are
listed; of many, some are drawn for every step, each weighed by one over its probability, so
that sums over outputs are estimated without bias.

A leak is the gain of an attacker who tells classes of a private fact apart. What a unit of it costs
is a dual variable, one for each attacker, which rises while the leak is above its limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Floats
from discreet.design.counts.estimate import CountModel, join_models
from discreet.design.counts.units import Evidence, Units

MAX_LISTED = 4096
_JUDGED = 4000  # outputs drawn to compare tables
_AT_ONCE_CHANCES = 2**15  # of outputs given cells, in all climbs that take steps together
_AT_ONCE_BYTES = 2**26  # of products over blocks likewise
# Of a unit of leak above its limit, in public accuracy: to begin with, at most, and by how much it
# rises with every step, for good and at once, where the leak is twice the limit.
_PRICE, _DEAREST, _LASTING, _AT_ONCE = 2.0, 12.0, 0.3, 8.0
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
