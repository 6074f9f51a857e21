"""Learning for many rounds: a limit on what a day tells becomes one on what a round tells.

A round's limit is the day's over the square root of what the chain of the private fact adds up
to. ``Mapper`` designs for that itself, with the rows' sampling error allowed for; the x that rows
left out show of one round, with its standard error, is added up and held against the day. Mappings
of other methods are held against it by the accountant on the rows learned from as well, and where
it is more than was asked, less is learned for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping as Dict
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from discreet.auditing.bounds.outputs_given import MAX_AUDIT_OUTPUTS
from discreet.auditing.bounds.rows_needed import rows_for_rounds
from discreet.choices import METHODS
from discreet.data.columns import Labels
from discreet.data.series import estimate_moves, read_series
from discreet.design.attacker_views import MAX_LISTED
from discreet.design.counts.counting import SAMPLED_ROWS
from discreet.errors import InputError
from discreet.leakage.chains import Chain, add_up
from discreet.leakage.joint_outputs import count_outputs
from discreet.leakage.over_time import advantage_of_rounds
from discreet.learning import Learned, Prepared, learn
from discreet.mappers.auto_mapper import Mapper, one_of_rounds

_ATTEMPTS = 3
# Standard errors of a round's x that fit into what was asked where most draws of so many rows show
# it: one that counts, some by chance, and what the tables tell (docs/over-time.md).
_ERRORS = 6.0


@dataclass(frozen=True)
class RoundsFigure:
    """What a mapping tells over many rounds, of the private fact that it tells most about.

    ``asked``, ``reached``: advantage over all rounds; ``reached`` is an estimate with one standard
    error. ``target``: the limit on one round that was learned for. ``beyond_answer``: for attackers
    who know the public fact, in the class that tells most. ``designed``: whether the design itself
    keeps what was asked under its model of the rows. ``doubted``: whether rows cannot be taken to
    be independent (``Prepared.doubt``), so that nothing is met. ``rows_needed``: about how many
    rows to learn from would show as much as was asked, if the tables then tell little; None if no
    number would, since of many rows only so many are looked at again. ``audit_rows``: about how
    many rows an audit takes to certify it, if these tables tell half as much.
    """

    rounds: int
    asked: float
    target: float
    fact: str
    reached: float
    rows: int
    rows_needed: int | None = None
    audit_rows: int | None = None
    beyond_answer: bool = False
    designed: bool = False
    doubted: bool = False

    @property
    def met(self) -> bool:
        """Whether the estimate is within what was asked, of rows that may be taken for it."""
        return self.within and not self.doubted

    @property
    def within(self) -> bool:
        """Whether the estimate is within what was asked, if rows are independent."""
        return self.reached <= self.asked

    def as_dict(self) -> dict[str, Any]:
        """Return the figure for a program."""
        return asdict(self) | {"met": self.met}


def learn_for_rounds(
    prepared: Prepared, rounds: int, stay: float | None, **how: Any
) -> tuple[Learned, RoundsFigure]:
    """Learn so that so many rounds together tell no more than ``max_advantage``; see ``learn``."""
    asked = prepared.options["max_advantage"]
    moves = {fact.name: _moves(prepared, fact, stay) for fact in prepared.facts[1:]}
    added = {}
    for fact in prepared.facts[1:]:
        shares = np.array(fact.counts) / sum(fact.counts)
        added[fact.name] = add_up(Chain.of_stay(moves[fact.name], shares).kept, rounds)
    if METHODS[prepared.task.method] is Mapper:
        return _design_for(prepared, rounds, added, **how)
    target = asked / math.sqrt(max(added.values()))
    for _ in range(_ATTEMPTS):
        options = prepared.options | {"max_advantage": target}
        learned = learn(replace(prepared, options=options), **how)
        figure = _measure(learned, moves, rounds, asked, max(added.values()), target)
        if figure.within or learned.mapper.stopped_ or not learned.mapper.useful_:
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
    target, beyond = (
        one_of_rounds(asked, added[longest]), bool(prepared.options.get("beyond_answer"))
    )  # fmt: skip
    return learned, RoundsFigure(
        rounds, asked, target, longest, _left_out(learned, added[longest]), _taught(prepared),
        _rows_needed(learned, added[longest], asked, SAMPLED_ROWS),
        _audit_rows(learned, longest, added[longest], asked),
        beyond_answer=beyond, designed=True, doubted=prepared.doubt is not None,
    )  # fmt: skip


def _moves(prepared: Prepared, fact: Labels, stay: float | None) -> ArrayLike:
    """Return how the fact moves: as declared, or as the series shows."""
    if stay is not None:
        return stay
    column = prepared.task.time_column
    if column is None:
        raise InputError(
            "--rounds needs to know how long the private fact lasts. State the probability that it "
            "is the same in the next round (--stay), or name the column of times (--time-column)."
        )
    groups = None if prepared.groups is None else prepared.groups.index
    rows = prepared.rows(slice(None))
    series = read_series(rows[column], groups, column, prepared.task.every)
    return estimate_moves(fact.index, series.follows, fact.n_classes)


def _measure(
    learned: Learned,
    moves: Dict[str, ArrayLike],
    rounds: int,
    asked: float,
    added: float,
    target: float,
) -> RoundsFigure:
    rows = learned.training
    figures = {
        name: advantage_of_rounds(learned.mapping, rows, rounds=rounds, stay=stay, fact=name)
        for name, stay in moves.items()
    }
    worst = max(figures, key=lambda name: figures[name])
    reached = max(figures[worst], _left_out(learned, added))
    most = learned.mapper.most_rows or SAMPLED_ROWS
    needed = _rows_needed(learned, added, asked, most)
    certified = _audit_rows(learned, worst, added, asked)
    return RoundsFigure(
        rounds, asked, target, worst, reached, len(rows), needed, certified,
        doubted=learned.prepared.doubt is not None,
    )  # fmt: skip


# --- What rows left out show ------------------------------------------------------------------


def _left_out(learned: Learned, added: float) -> float:
    """Return the advantage of so many rounds by the x that rows left out show of one."""
    if learned.mapper.expected_ is None:
        return 0.5  # nothing was left out, and nothing is shown
    return float(norm.cdf(math.sqrt(added * _evidence(learned)))) - 0.5


def _evidence(learned: Learned) -> float:
    """Return the x of a round with one standard error; it is at least the squared distance."""
    expected = learned.mapper.expected_
    return 1.0 if expected is None else max(expected.evidence, 4.0 * expected.likely_advantage**2)


def _rows_needed(learned: Learned, added: float, asked: float, most: int) -> int | None:
    """Return how many rows would show what was asked, unless it is more than can.

    The error of x is one over their number. More rows allow tables with less noise, but no more
    than symbols without any differ by chance: x of k outputs has the law of chi-square with k - 1
    degrees over the number of rows.
    """
    symbols, parts = learned.mapping.n_symbols, 1
    outputs = math.prod(symbols)
    degrees = outputs - 1 if outputs <= MAX_LISTED else sum(symbols) - len(symbols)
    if learned.prepared.options.get("beyond_answer"):
        parts = learned.prepared.facts[0].n_classes
    clear = _ERRORS * parts * math.sqrt(2.0 * degrees)
    limit = (2.0 * one_of_rounds(asked, added)) ** 2
    needed = max(_taught(learned.prepared) * _evidence(learned), clear) / limit
    return math.ceil(needed) if needed <= most else None  # endless with a class in one group


def _audit_rows(learned: Learned, name: str, added: float, asked: float) -> int | None:
    """Return how many rows would certify it, where outputs can be listed."""
    tables, prepared = learned.mapping.tables, learned.prepared
    if count_outputs(tables) > MAX_AUDIT_OUTPUTS:
        return None
    public, fact = prepared.facts[0], next(each for each in prepared.facts if each.name == name)
    own = np.zeros_like(public.index)
    if prepared.options.get("beyond_answer"):
        own = public.index
    counts = [
        np.bincount(fact.index[own == h], minlength=fact.n_classes).tolist() for h in np.unique(own)
    ]
    return rows_for_rounds(tables, counts, added, asked)


def _taught(prepared: Prepared) -> int:
    return int((~prepared.held_out).sum())
