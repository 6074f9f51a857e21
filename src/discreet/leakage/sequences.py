"""Figures over several rounds from whole sequences of symbols: all of them, or a sample.

Where symbols are remembered, a period has one of several laws p(symbols | fact), drawn at its
beginning and unknown to the attacker; fresh draws have a single one. Forward and backward
recursions give the likelihood of a sequence for each class in the middle round. Few sequences are
listed, which is exact. Of many a sample is drawn, and the figures are intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from scipy.special import expit

from discreet.arrays import Floats, Ints
from discreet.leakage.chains import Chain, split_rounds
from discreet.leakage.exact import (
    advantage,
    mutual_information,
    pairwise_epsilon,
    structural_epsilons,
)
from discreet.leakage.joint_outputs import weighted_outputs

_LISTED = 2**16  # sequences
_AT_ONCE = 2**18  # sequences times laws times classes that are carried at once
_SAMPLE = 10_000
ALPHA = 0.05
"""Chance that an interval from a sample misses."""


@dataclass(frozen=True)
class PeriodLaws:
    """The laws that a period may have, laws x classes x outputs, and how likely each is."""

    given: Floats
    weights: Floats
    period: int

    @classmethod
    def fresh(cls, given: Floats) -> PeriodLaws:
        """Return the law of symbols that are drawn afresh in every round."""
        return cls(given[None], np.ones(1), 1)


@dataclass(frozen=True)
class Sampled:
    """Lower and upper ends of advantage and information, and whether they are exact."""

    advantage: tuple[float, float]
    information: tuple[float, float]
    exact: bool


def sequence_figures(laws: PeriodLaws, chain: Chain, rounds: int, seed: int = 0) -> Sampled:
    """Return what all rounds tell about the fact of the middle one."""
    n_outputs = laws.given.shape[2]
    if n_outputs**rounds <= _LISTED:
        return _listed(laws, chain, np.indices((n_outputs,) * rounds).reshape(rounds, -1).T)
    return _sampled(laws, chain, rounds, np.random.default_rng(seed))


def _listed(laws: PeriodLaws, chain: Chain, symbols: Ints) -> Sampled:
    found, logs = likelihoods(laws, chain, symbols)
    given = (found * np.exp(logs)[:, None]).T
    both = advantage(given), mutual_information(given, chain.prior)
    return Sampled((both[0],) * 2, (both[1],) * 2, exact=True)


def likelihoods(laws: PeriodLaws, chain: Chain, symbols: Ints) -> tuple[Floats, Floats]:
    """Return p(symbols | class in the middle), sequences x classes, up to e to the scales."""
    by_output = np.moveaxis(laws.given, 2, 0)  # outputs x laws x classes
    past, _ = split_rounds(symbols.shape[1])
    shape = (len(symbols), *laws.given.shape[:2])
    forward, scale = np.broadcast_to(chain.prior, shape), np.zeros(len(symbols))
    for t in range(past + 1):
        if t:
            forward = _moved(_next_period(forward, laws, t), chain.moves)
        forward, scale = _scaled(forward * by_output[symbols[:, t]], scale)
    backward = np.ones(shape)
    for t in range(symbols.shape[1] - 1, past, -1):
        backward, scale = _scaled(backward * by_output[symbols[:, t]], scale)
        backward = _moved(_next_period(backward, laws, t), chain.moves.T)
    both = np.einsum("k,nkg,nkg->ng", laws.weights, forward, backward) / chain.prior
    return both, scale


def _moved(messages: Floats, moves: Floats) -> Floats:
    flat = messages.reshape(-1, len(moves)) @ moves  # one product, not one for each sequence
    return flat.reshape(messages.shape)


def _next_period(messages: Floats, laws: PeriodLaws, t: int) -> Floats:
    """Forget which law was drawn if a period begins with round t."""
    if t % laws.period:
        return messages
    mean = np.einsum("k,nkg->ng", laws.weights, messages)
    return np.broadcast_to(mean[:, None, :], messages.shape)


def _scaled(messages: Floats, logs: Floats) -> tuple[Floats, Floats]:
    top = messages.max(axis=(1, 2))
    top[top == 0] = 1.0  # an impossible sequence
    return messages / top[:, None, None], logs + np.log(top)


# --- A sample ------------------------------------------------------------------------------


def _sampled(laws: PeriodLaws, chain: Chain, rounds: int, rng: np.random.Generator) -> Sampled:
    n_laws, m, _ = laws.given.shape
    at_once = max(1, min(_SAMPLE, _AT_ONCE // (n_laws * m)))
    parts = range(0, max(2_000, at_once), at_once)
    symbols = (draw_symbols(laws, chain, rounds, at_once, rng) for _ in parts)
    found = np.concatenate([likelihoods(laws, chain, each)[0] for each in symbols])
    shares = found / found.sum(axis=1, keepdims=True)  # posterior of classes that are alike
    pairs = list(combinations(range(m), 2))
    alpha = ALPHA / (len(pairs) + 2)
    # Classes are alike in the middle: a mean over sequences is a sum over p(.|class)/m.
    gains = [mean_between(shares.max(axis=1) - 1 / m, 1 - 1 / m, alpha)] + [
        mean_between(0.5 - 0.5 * m * np.minimum(shares[:, a], shares[:, b]), m / 4, alpha)
        for a, b in pairs
    ]
    low, high = (max(0.0, *ends) for ends in zip(*gains, strict=True))
    return Sampled(
        (low, min(high, 1 - 1 / m)), _information(shares, chain.prior, alpha), exact=False
    )


def _information(shares: Floats, prior: Floats, alpha: float) -> tuple[float, float]:
    weighted = shares * prior
    total = weighted.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(shares > 0, np.log(shares / total[:, None]), 0.0)
    most = float(np.log(1 / prior.min()))
    values = len(prior) * (weighted * logs).sum(axis=1)
    low, high = mean_between(values, len(prior) * prior.max() * most, alpha)
    entropy = -float(prior @ np.log(prior))
    return max(0.0, low), min(high, entropy)


def mean_between(values: Floats, width: float, alpha: float) -> tuple[float, float]:
    """Return an interval for the mean of values in a range (Maurer and Pontil, both sides)."""
    n, log = len(values), np.log(4 / alpha)
    reach = np.sqrt(2 * values.var(ddof=1) * log / n) + 7 * width * log / (3 * (n - 1))
    mean = float(values.mean())
    return mean - float(reach), mean + float(reach)


def draw_symbols(
    laws: PeriodLaws, chain: Chain, rounds: int, n: int, rng: np.random.Generator
) -> Ints:
    """Draw sequences of symbols whose fact in the middle is of each class alike."""
    past, _ = split_rounds(rounds)
    facts = np.empty((rounds, n), dtype=np.int64)
    facts[past] = rng.integers(len(chain.prior), size=n)
    for t in range(past - 1, -1, -1):
        facts[t] = _draw(chain.back, facts[t + 1], rng)
    for t in range(past + 1, rounds):
        facts[t] = _draw(chain.moves, facts[t - 1], rng)
    symbols = np.empty((n, rounds), dtype=np.int64)
    rows = laws.given.reshape(-1, laws.given.shape[2])
    for t in range(rounds):
        if t % laws.period == 0:
            law = rng.choice(len(laws.weights), n, p=laws.weights)
        symbols[:, t] = _draw(rows, law * laws.given.shape[1] + facts[t], rng)
    return symbols


def _draw(rows: Floats, which: Ints, rng: np.random.Generator) -> Ints:
    """Draw from the row of a table that each entry names."""
    # Every row has its own unit of the line, so that one search serves all of them.
    tops = np.minimum(rows.cumsum(axis=1), 1.0)
    tops[:, -1] = 1.0
    line = (tops + np.arange(len(rows))[:, None]).ravel()
    place = np.searchsorted(line, which + rng.random(len(which)), side="right")
    return np.asarray(np.minimum(place - which * rows.shape[1], rows.shape[1] - 1))


# --- One round ------------------------------------------------------------------------------

_MOST_OUTPUTS = 2**16  # that are listed
_MOST_LAWS = 256  # ways to give every code its symbol that are listed


@dataclass(frozen=True)
class RoundLaw:
    """What the symbols of one round tell about a fact.

    ``given``: p(symbols|class), classes x outputs; None if nothing is known of it. ``worst``: it is
    the worst that the tables allow, so that figures are upper bounds. ``shares``: of the classes.
    ``structural``: C1 of all tables. ``codes`` and ``code_law``: combinations of codes and
    p(codes|class), classes x combinations, where rows were given.
    """

    given: Floats | None
    shares: Floats
    structural: float
    source: str
    worst: bool = False
    tables: tuple[Floats, ...] = ()
    codes: Ints | None = None
    code_law: Floats | None = None

    @classmethod
    def of_tables(cls, tables: Sequence[Floats], n_classes: int, why: str) -> RoundLaw:
        """Return the worst case, whatever the readings are.

        No two classes have log-ratios beyond C1. Of all pairs of laws within it, randomised
        response tells most: any other one can be drawn from its answer.
        """
        total = float(structural_epsilons(tables).sum())
        given = None
        if n_classes == 2:
            right = float(expit(total))
            given = np.array([[right, 1 - right], [1 - right, right]])
        shares = np.full(n_classes, 1 / n_classes)
        return cls(given, shares, total, f"worst case of the tables, {why}", worst=True)

    @classmethod
    def of_rows(
        cls, tables: Sequence[Floats], codes: Ints, index: Ints, n_classes: int
    ) -> RoundLaw:
        """Estimate the law from rows; every class must have some."""
        counts = np.bincount(index, minlength=n_classes)
        n_outputs = math.prod(table.shape[1] for table in tables)
        if n_outputs * n_classes > _MOST_OUTPUTS:
            why = f"since {n_outputs} joint outputs are too many to list"
            return cls.of_tables(tables, n_classes, why)
        seen, which = np.unique(codes, axis=0, return_inverse=True)
        law = np.zeros((n_classes, len(seen)))
        np.add.at(law, (index, which.ravel()), 1.0)
        law /= counts[:, None]
        return cls(
            weighted_outputs(tables, seen, law),
            counts / counts.sum(),
            float(structural_epsilons(tables).sum()),
            f"plug-in estimate from {len(index)} rows, not certified",
            tables=tuple(tables),
            codes=seen,
            code_law=law,
        )

    @property
    def n_classes(self) -> int:
        return len(self.shares)

    @property
    def epsilon(self) -> float:
        """The largest log-ratio of a round."""
        if self.given is None or self.worst:
            return self.structural
        return pairwise_epsilon(self.given)

    @property
    def figures(self) -> tuple[float, float] | None:
        """Advantage and information of one round."""
        if self.given is None:
            return None
        return advantage(self.given), mutual_information(self.given, self.shares)


# --- The same code, the same symbol --------------------------------------------------------


def remembered_laws(law: RoundLaw, period: int) -> PeriodLaws | None:
    """Return p(symbols|class) for each way to give every code its symbol; None beyond many."""
    if law.codes is None:
        return None
    seen = [np.unique(column) for column in law.codes.T]
    sizes = [table.shape[1] for table in law.tables]
    if math.prod(size ** len(own) for size, own in zip(sizes, seen, strict=True)) > _MOST_LAWS:
        return None
    ways = [list(_ways(t, own)) for t, own in zip(law.tables, seen, strict=True)]
    found = [(_law_of(law, [w for w, _ in way]), math.prod(p for _, p in way))
             for way in product(*ways)]  # fmt: skip
    weights = np.array([chance for _, chance in found])
    return PeriodLaws(np.array([given for given, _ in found]), weights / weights.sum(), period)


def _ways(table: Floats, codes: Ints) -> Iterator[tuple[Ints, float]]:
    """Yield every way to give the codes of a sensor their symbols, and how likely it is."""
    for symbols in product(*(np.flatnonzero(table[code]).tolist() for code in codes)):
        chosen = np.zeros(len(table), dtype=np.int64)
        chosen[codes] = symbols
        yield chosen, float(table[codes, symbols].prod())


def drawn_law(law: RoundLaw, rng: np.random.Generator) -> Floats:
    """Draw a symbol for every code, and return p(symbols|class) for somebody who knows them."""
    tops = (table.cumsum(axis=1)[:, :-1] for table in law.tables)
    return _law_of(law, [(top <= rng.random((len(top), 1))).sum(axis=1) for top in tops])


def _law_of(law: RoundLaw, symbols: Sequence[Ints]) -> Floats:
    assert law.codes is not None and law.code_law is not None
    sent = [own[column] for own, column in zip(symbols, law.codes.T, strict=True)]
    sizes = [table.shape[1] for table in law.tables]
    output = np.ravel_multi_index(sent, sizes)
    return np.stack([np.bincount(output, row, math.prod(sizes)) for row in law.code_law])
