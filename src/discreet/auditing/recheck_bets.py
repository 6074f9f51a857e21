"""Bets against a claim on labelled rows, which may be looked at after every row.

The claim: no rule tells k classes apart with a balanced accuracy above 1/k + ``limit``. For the
public answer it is the other way round: the mapping's own rule has at least ``limit``.

*Contests.* A claim is tested where its classes meet. Rows wait, class by class, until each class
has one; then the contest has a sitting. A rule d, learned from earlier sittings alone, scores gain
= (1/k) sum_g Q(d = g | x_g) - 1/k: the probability is over the symbols and exact, for the tables
are known. A class that comes r times as often as the rarest sends the mean of r rows.

*Why the promise holds.* Labels may come in any order and with any frequencies. Given the labels,
rows are independent and one of class g has the law P_g; which rows sit together depends on labels
only, and none of them was used before, neither for the rule nor for the stake. So its x_g are
fresh, and as d is one fixed rule the claim bounds E[gain | earlier sittings] by ``limit``. Staking
a share s of what is in play, known before and so small that the worst case leaves something, makes
it a non-negative supermartingale: it is multiplied by 1 + s (gain - limit).

*Restarts.* A site is quiet for long and then changes, and what was staked until then is lost. So a
bettor keeps most of its wealth aside, stakes nothing while gains of late were below the limit, and
else puts a little more into play with every sitting. What is aside is constant, and what comes into
play is decided before the sitting: their sum, which begins at 1, is a supermartingale too, as is a
mean over bettors and contests. By Ville's inequality it ever reaches 1/alpha with a probability of
at most alpha: whenever, and however often, one looks. Stakes are those that grow fastest on a gain
of ``RISE`` beyond the limit; they decide how soon it is noticed, not whether the promise holds.

*Groups.* With groups, a group is the draw: it is asked for one class, by its number and before it
is looked at, and sends the mean of its rows of that class. Groups without it are passed over, so
that which classes a group has may depend on what it reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import ConfigDict, Field, PlainSerializer, PlainValidator

from discreet.arrays import Floats, Ints
from discreet.data.strict_model import Model
from discreet.leakage.joint_outputs import output_probabilities
from discreet.mapping.mapping import Mapping

_MOST_LISTED = 4096  # outputs; beyond, symbols are drawn
_DRAWS = 64
_MOST_WAITING = 200  # rows of a class; the oldest go
_RULE_MEMORY = 0.5 ** (1 / 200)  # per sitting: a rule forgets half in two hundred
_MEMORY_OF_LATE = 0.5 ** (1 / 20)
_BOLDEST = 0.7  # of the stake that the worst case would take all of
_MOST_WEALTH = 1e300
_FIRST_SITTINGS, _FIRST_SQUARE = 5, 0.08  # as if so many had been seen
_AT_ONCE, _PATIENCE = 0.1, 50  # in play from the start; half of the rest after so many bets
_LooksAt = Literal["outputs", "symbols", "decisions"]
# Decisions need least learning.
_SHARES: dict[_LooksAt, float] = {"decisions": 0.75, "outputs": 0.25, "symbols": 0.25}

RISE = 0.1
"""Bets are placed for a gain so far beyond the limit, and rows are enough if they would show it."""


# --- What the file holds of them -------------------------------------------------------------


def _rows_of_numbers(value: object) -> Floats:
    try:
        found = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("must be rows of numbers of equal length") from None
    if not found.size and found.ndim == 1:
        found = found.reshape(0, 0)
    if found.ndim != 2 or not np.isfinite(found).all() or (found < 0).any():
        raise ValueError("must be rows of numbers of at least 0")
    return found


RowsOfNumbers = Annotated[
    Any, PlainValidator(_rows_of_numbers), PlainSerializer(lambda found: found.tolist())
]
"""An array that a file holds as a list of lists."""
Count = Annotated[int, Field(ge=0, le=2**53)]


class Part(Model):
    """Of the file of a re-check: as strict as others, but it changes while rows are judged."""

    model_config = ConfigDict(frozen=False)


class Waiting(Part):
    """Rows of one class that wait for a sitting: one, or those of a group.

    ``sent``: whether the codes are symbols that were sent, and not those of readings.
    """

    number: Count
    sent: bool
    codes: Annotated[list[list[Count]], Field(min_length=1)]

    def fits(self, mapping: Mapping) -> bool:
        """Whether the mapping has a row, or a symbol, for every code."""
        sizes = mapping.n_symbols if self.sent else [len(table) for table in mapping.tables]
        return all(
            len(row) == len(sizes) and all(map(int.__lt__, row, sizes)) for row in self.codes
        )


class Bettor(Part):
    """Bets against a claim by one rule.

    ``share``: of the contest's wealth. ``in_play``: what ``bets`` have made of what came into play.
    ``sums``: by class, how often it was seen in each cell of what the rule looks at. ``gains``,
    ``squares``, ``sittings``: of the payoffs of late.
    """

    looks_at: _LooksAt
    share: Annotated[float, Field(gt=0, le=1)]
    in_play: Annotated[float, Field(ge=0)] = _AT_ONCE
    bets: Count = 0
    gains: float = 0.0
    squares: Annotated[float, Field(ge=0)] = 0.0
    sittings: Annotated[float, Field(ge=0)] = 0.0
    sums: RowsOfNumbers

    @property
    def square(self) -> float:
        """About what a payoff squared comes to."""
        first = _FIRST_SQUARE * _FIRST_SITTINGS
        return (self.squares + first) / (self.sittings + _FIRST_SITTINGS)

    @property
    def wealth(self) -> float:
        """What bets have made of 1."""
        return self.in_play + _aside(self.bets)

    def bet(self, payoff: float, worst: float) -> None:
        """Stake a share of what is in play on a payoff of at least ``-worst``, or nothing."""
        if self.gains >= 0.0:
            stake = min(RISE / self.square, _BOLDEST / worst)
            staked = self.in_play + _aside(self.bets) - _aside(self.bets + 1)
            self.in_play = min(staked * (1.0 + stake * payoff), _MOST_WEALTH)
            self.bets += 1
        self.gains = self.gains * _MEMORY_OF_LATE + payoff
        self.squares = self.squares * _MEMORY_OF_LATE + payoff**2
        self.sittings = self.sittings * _MEMORY_OF_LATE + 1.0


def _aside(bets: int) -> float:
    """Return the part of the wealth that has not come into play after so many bets."""
    return (1.0 - _AT_ONCE) * _PATIENCE / (_PATIENCE + bets)


class Contest(Part):
    """Where a claim is tested: some classes of a fact.

    ``fact``: the number of the private fact, or None for the public answer. ``weight``: its share
    of the wealth. ``sittings``: since rows were last found to be enough. ``arrivals``,
    ``waiting``: by class.
    """

    fact: Count | None
    classes: list[Count]
    limit: Annotated[float, Field(ge=0, le=1)]
    weight: Annotated[float, Field(gt=0, le=1)]
    sittings: Count = 0
    arrivals: list[Count]
    waiting: list[list[Waiting]]
    bettors: list[Bettor]

    @property
    def wealth(self) -> float:
        """What the contest adds to the evidence."""
        return self.weight * sum(bettor.share * bettor.wealth for bettor in self.bettors)

    def noticeable(self, false_share: float) -> float:
        """Return about how far beyond the limit a gain would have been noticed in the sittings.

        A gain of r makes about exp(r^2 / 2 square) of the wealth in a sitting; learning what to bet
        on takes as much again.
        """
        needed = math.log(1.0 / (false_share * min(self.wealth, self.weight)))
        square = max(bettor.square for bettor in self.bettors)
        return 1.0 if not self.sittings else math.sqrt(4.0 * square * needed / self.sittings)

    def call(self) -> list[list[Waiting]] | None:
        """Return the rows of each class that sit next, or None while a class has none."""
        if not all(self.waiting):
            return None
        rarest = min(self.arrivals)
        sizes = [max(1, round(arrived / rarest)) for arrived in self.arrivals]
        called = [rows[:size] for rows, size in zip(self.waiting, sizes, strict=True)]
        self.waiting = [rows[size:] for rows, size in zip(self.waiting, sizes, strict=True)]
        return called


def new_contest(
    mapping: Mapping, fact: int | None, classes: Sequence[int], limit: float, weight: float
) -> Contest:
    """Return a contest that has seen nothing."""
    outputs = math.prod(mapping.n_symbols)
    cells: dict[_LooksAt, int] = {"decisions": len(mapping.public.classes)}
    if fact is not None and outputs <= _MOST_LISTED:
        cells["outputs"] = outputs
    elif fact is not None:
        cells["symbols"] = sum(mapping.n_symbols)
    whole = sum(_SHARES[each] for each in cells)
    bettors = [
        Bettor(looks_at=each, share=_SHARES[each] / whole, sums=np.zeros((len(classes), n)))
        for each, n in cells.items()
    ]
    return Contest(
        fact=fact,
        classes=list(classes),
        limit=limit,
        weight=weight,
        arrivals=[0] * len(classes),
        waiting=[[] for _ in classes],
        bettors=bettors,
    )


# --- Rows -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LabelledRows:
    """Rows from a running site.

    ``codes``: of the readings, rows by sensors; symbols where ``sent``. ``private``: the class of
    every row, one array for each private fact. ``groups``: rows of one may depend on one another.
    """

    codes: Ints
    public: Ints
    private: Sequence[Ints]
    groups: Ints | None = None
    sent: bool = False

    def units(self) -> Iterator[Ints]:
        """Yield the rows of each independent draw, in order of their first rows."""
        if self.groups is None:
            yield from np.arange(len(self.codes))[:, None]
            return
        order = np.argsort(self.groups, kind="stable")
        _, starts = np.unique(self.groups[order], return_index=True)
        yield from sorted(np.split(order, starts[1:]), key=lambda members: int(members[0]))


def admit(contest: Contest, number: int, rows: LabelledRows, unit: Ints) -> None:
    """Let a row, or what a group is asked for, wait for its sitting."""
    labels = (rows.public if contest.fact is None else rows.private[contest.fact])[unit]
    grouped = rows.groups is not None
    asked = contest.classes[number % len(contest.classes)] if grouped else int(labels[0])
    members = unit[labels == asked]
    if asked not in contest.classes or not len(members):
        return
    place = contest.classes.index(asked)
    contest.arrivals[place] += 1
    contest.waiting[place].append(
        Waiting(number=number, sent=rows.sent, codes=rows.codes[members].tolist())
    )
    del contest.waiting[place][:-_MOST_WAITING]


def hold_sittings(contest: Contest, attackers: Attackers) -> None:
    """Bet as often as every class has a row."""
    while (called := contest.call()) is not None:
        contest.sittings += 1
        for bettor in contest.bettors:
            right = attackers.right(contest, bettor, called) / len(called)
            guessed = 1.0 / len(called)
            if contest.fact is None:
                bettor.bet(contest.limit - right, 1.0 - contest.limit)
            else:
                bettor.bet(right - guessed - contest.limit, guessed + contest.limit)
            seen = [attackers.cells(bettor.looks_at, rows) for rows in called]
            bettor.sums = bettor.sums * _RULE_MEMORY + np.array(seen)


class Attackers:
    """What a fusion centre sees of rows that sit: exact where outputs can be listed."""

    def __init__(self, mapping: Mapping) -> None:
        self._mapping, self._listed = mapping, math.prod(mapping.n_symbols) <= _MOST_LISTED
        self._classes = len(mapping.public.classes)
        self._offsets = np.cumsum([0, *mapping.n_symbols[:-1]])
        self._as_sent = [np.eye(count) for count in mapping.n_symbols]
        self._cells = lru_cache(1 << 12)(self._cells_of)
        if self._listed:
            every = np.indices(mapping.n_symbols).reshape(len(mapping.sensors), -1).T
            self._decisions = np.eye(self._classes)[mapping.decide(every)]

    def right(self, contest: Contest, bettor: Bettor, called: list[list[Waiting]]) -> float:
        """Return the probabilities that the bettor's rule names the right class, summed up."""
        if bettor.looks_at == "symbols":
            logs, found = np.log(bettor.sums + 0.5), 0.0
            for place, rows in enumerate(called):  # how often drawn symbols name the class
                drawn = np.concatenate([self._draw(row) for row in rows]) + self._offsets
                found += float(np.mean(logs[:, drawn].sum(axis=2).argmax(axis=0) == place))
            return found
        names = np.arange(self._classes) if contest.fact is None else bettor.sums.argmax(axis=0)
        return sum(
            float(self.cells(bettor.looks_at, rows)[names == place].sum())
            for place, rows in enumerate(called)
        )

    def cells(self, looks_at: str, rows: Sequence[Waiting]) -> Floats:
        """Return the probability of each cell, over rows and symbols."""
        if looks_at == "decisions" and not self._listed:
            decided = self._mapping.decide(np.concatenate([self._draw(row) for row in rows]))
            return np.bincount(decided, minlength=self._classes) / len(decided)
        means = []
        for row in rows:
            seen = [self._cells(looks_at, tuple(codes), row.sent) for codes in row.codes]
            means.append(seen[0] if len(seen) == 1 else np.mean(seen, axis=0))
        return means[0] if len(means) == 1 else np.asarray(np.mean(means, axis=0))

    def _cells_of(self, looks_at: str, codes: tuple[int, ...], sent: bool) -> Floats:
        tables = self._as_sent if sent else self._mapping.tables
        if looks_at == "symbols":
            return np.concatenate([table[code] for table, code in zip(tables, codes, strict=True)])
        outputs = output_probabilities(tables, np.array([codes]))[0]
        return np.asarray(outputs if looks_at == "outputs" else outputs @ self._decisions)

    def _draw(self, row: Waiting) -> Ints:
        """Draw symbols, the same whenever the row is looked at."""
        rng = np.random.default_rng([row.number, len(row.codes)])
        codes = np.array(row.codes)[rng.integers(len(row.codes), size=_DRAWS)]
        return codes if row.sent else self._mapping.sample(codes, rng)
