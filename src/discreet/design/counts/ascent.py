"""The climb: tables follow the slope of what is maximised, then take noise until limits are kept.

Tables are the softmax of logits, above a least entry, and logits follow the slope of what is
maximised (``objective``) by Adam, at a pace that slows down; the last tables are averaged. Where
these leak more than they may under the model, they are mixed with noise, as little as it takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Floats
from discreet.design.counts.objective import Duals, Judged, Problem

# Outputs drawn for a step, and to find out how much noise tables need.
_DRAWN, _SETTLED = 500, 16_000
_SHARES_OF_NOISE = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0)
HALVINGS = 14  # of the share of noise that tables are mixed with
STEPS, _PACE = 120, 0.15
_STEEPEST = 9.0  # logit
_TOLD, _TOLD_SECONDS = 20, 0.5  # steps, and seconds, between two reports at most
_SLOWER = ((0.6, 1.0), (0.85, 0.3), (1.0, 0.1))  # the pace up to each share of the steps
_AVERAGED = 0.85  # tables after this share of the steps are averaged
PRICES = (0.1, 0.4, 1.6)
"""Of evidence, for each time that its root is above the limit's: which is best shows by trying."""
_TINY, _ROUNDING = 1e-300, 1e-9


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
