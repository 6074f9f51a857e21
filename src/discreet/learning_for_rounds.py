"""Learning for many rounds: a limit on what a day tells becomes one on what a round tells.

A round's limit is the day's over the square root of what the chain of the private fact adds up
to. ``Mapper`` designs for that itself, with the rows' sampling error allowed for; what rows
left out show of one round, with its standard error, is held against the day. Mappings of other
methods are held against it by the accountant on the rows learned from as well, and where it is more
than was asked, less is learned for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping as Dict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import Floats
from discreet.choices import METHODS
from discreet.data.series import count_steps, read_series
from discreet.design.levels import LEFT_OUT, MOST_LEFT_OUT
from discreet.errors import InputError
from discreet.leakage.chains import Chain, add_up
from discreet.leakage.over_time import advantage_of_rounds
from discreet.learning import Learned, Prepared, learn
from discreet.mappers.auto_mapper import Mapper, one_of_rounds

_ATTEMPTS = 3
_CLEAR = 1.2  # what rows show of clear symbols by chance alone, times the root of their number


@dataclass(frozen=True)
class RoundsFigure:
    """What a mapping tells over many rounds, of the private fact that it tells most about.

    ``asked``, ``reached``: advantage over all rounds; ``reached`` is an estimate. ``target``: the
    limit on one round that was learned for. ``beyond_answer``: for attackers who know the
    public fact. ``designed``: whether the design itself keeps what was asked under its model of the
    rows. ``rows_needed``: about how many rows would show as much as was asked, where these do not;
    None if no number would, since of many rows only so many are left out to judge by.
    ``shown``: a round's estimate times what the rounds add up to, which may be more than can be; at
    least what as many rows would show of symbols without noise.
    """

    rounds: int
    asked: float
    target: float
    fact: str
    reached: float
    rows: int
    beyond_answer: bool = False
    designed: bool = False
    shown: float = 0.0

    @property
    def met(self) -> bool:
        """Whether the estimate is within what was asked."""
        return self.reached <= self.asked

    @property
    def rows_needed(self) -> int | None:
        """What the rows show falls about as one over the square root of their number."""
        needed = math.ceil(self.rows * (max(self.reached, self.shown) / self.asked) ** 2)
        return needed if needed <= LEFT_OUT * MOST_LEFT_OUT else None


def learn_for_rounds(
    prepared: Prepared, rounds: int, stay: float | None, **how: Any
) -> tuple[Learned, RoundsFigure]:
    """Learn so that so many rounds together tell no more than ``max_advantage``; see ``learn``."""
    asked = prepared.options["max_advantage"]
    moves = {fact.name: _moves(prepared, fact.name, stay) for fact in prepared.facts[1:]}
    added = {each[0]: _added_up(prepared, each, rounds) for each in moves.items()}
    if METHODS[prepared.task.method] is Mapper:
        return _design_for(prepared, rounds, added, **how)
    target = first = asked / math.sqrt(max(added.values()))
    for _ in range(_ATTEMPTS):
        options = prepared.options | {"max_advantage": target}
        learned = learn(replace(prepared, options=options), **how)
        figure = _measure(learned, moves, rounds, asked, first, target)
        if figure.met or learned.mapper.stopped_ or not learned.mapper.useful_:
            break
        target *= 0.9 * asked / figure.reached
    return learned, figure


def _design_for(
    prepared: Prepared, rounds: int, added: Dict[str, float], **how: Any
) -> tuple[Learned, RoundsFigure]:
    """Learn with a method that designs for many rounds itself."""
    asked = prepared.options["max_advantage"]
    longest = max(added, key=lambda name: added[name])
    learned = learn(replace(prepared, options=prepared.options | {"rounds": added[longest]}), **how)
    target = one_of_rounds(asked, added[longest])
    # Under its model the design tells as much as it may; rows left out may show more, not less.
    shown, rows = _left_out(learned, asked / target), int((~prepared.held_out).sum())
    reached = min(max(shown, asked), 0.5)
    # More rows allow tables with less noise, of which as many rows would show less.
    parts = prepared.facts[0].n_classes if prepared.options.get("beyond_answer") else 1
    shown = max(shown, _CLEAR * math.sqrt(parts / rows) * asked / target)
    return learned, RoundsFigure(
        rounds, asked, target, longest, reached, rows,
        beyond_answer=bool(prepared.options.get("beyond_answer")), designed=True, shown=shown,
    )  # fmt: skip


def _added_up(prepared: Prepared, chain: tuple[str, ArrayLike], rounds: int) -> float:
    name, stay = chain
    return add_up(Chain.of_stay(stay, _shares(prepared, name)).kept, rounds)


def _shares(prepared: Prepared, name: str) -> Floats:
    counts = np.array(next(fact for fact in prepared.facts if fact.name == name).counts)
    shares: Floats = counts / counts.sum()
    return shares


def _moves(prepared: Prepared, name: str, stay: float | None) -> ArrayLike:
    """Return how the fact moves: as declared, or as the series shows."""
    if stay is not None:
        return stay
    column = prepared.task.time_column
    if column is None:
        raise InputError(
            "--rounds needs to know how long the private fact lasts. State the probability that it "
            "is the same in the next round (--stay), or name the column of times (--time-column)."
        )
    fact = next(fact for fact in prepared.facts if fact.name == name)
    groups = None if prepared.groups is None else prepared.groups.index
    series = read_series(prepared.rows(slice(None))[column], groups, column)
    steps = count_steps(fact.index, series.follows, fact.n_classes) + 0.5
    moves: Floats = steps / steps.sum(axis=1, keepdims=True)
    return moves


def _measure(
    learned: Learned,
    moves: Dict[str, ArrayLike],
    rounds: int,
    asked: float,
    first: float,
    target: float,
) -> RoundsFigure:
    rows = learned.training
    figures = {
        name: advantage_of_rounds(learned.mapping, rows, rounds=rounds, stay=stay, fact=name)
        for name, stay in moves.items()
    }
    worst, left_out = (
        max(figures, key=lambda name: figures[name]),
        _left_out(learned, asked / first),
    )
    return RoundsFigure(rounds, asked, target, worst, max(figures[worst], left_out), len(rows))


def _left_out(learned: Learned, times: float) -> float:
    """Return what rows left out show of the fact that one round tells most about, so many times."""
    expected = learned.mapper.expected_
    return 0.0 if expected is None else (expected.advantage + expected.advantage_error) * times
