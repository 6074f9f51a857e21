"""Exact figures for a private fact of two classes over many rounds, from below and above.

The belief P(fact is 1 | symbols so far) is carried on a grid. An attacker who remembers only the
cell of a belief learns less (a lower bound); one whose belief is spread to the two nearest points,
its mean kept, has learned more (an upper bound). Bayes' rule and the chain keep that order
(Blackwell). Stationary chains of two classes are reversible: what the future tells has the law of
what the past tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit, rel_entr

from discreet.arrays import Floats, Ints
from discreet.leakage.chains import Chain, split_rounds

_POINTS = {True: 8_000, False: 2_000}  # of the grid from above and from below
_ENTRIES = {True: 2**18, False: 2**16}  # most points times outputs
_OUTPUTS = {True: 128, False: 64}  # kinds of outputs that are carried exactly
_INFORMATION_POINTS = 600
_DEVIATIONS = 10.0  # of the summed log-ratios that the fine part of the grid spans


@dataclass(frozen=True)
class Figures:
    """What an attacker who sees all rounds knows of the fact of one."""

    advantage: float
    information: float


def figures_between(
    given: Floats, chain: Chain, rounds: Sequence[int]
) -> list[tuple[Figures, Figures]]:
    """Return lower and upper figures of the middle one of so many rounds, for each number."""
    lower, upper = (list(_figures(given, chain, rounds, up)) for up in (False, True))
    return list(zip(lower, upper, strict=True))


def _figures(given: Floats, chain: Chain, rounds: Sequence[int], up: bool) -> Iterator[Figures]:
    few = _few_outputs(given, up)
    splits = [(n - 1, 0) if chain.is_constant else split_rounds(n) for n in rounds]
    wanted = {each for split in splits for each in split}
    laws = {k: law for k, law in enumerate(_laws(few, chain, max(wanted), up)) if k in wanted}
    for past, future in splits:
        yield _combined(_seen(laws[past], few), laws[future], chain.prior, up)


def _laws(given: Floats, chain: Chain, rounds: int, up: bool) -> Iterator[Floats]:
    """Yield the joint law of fact and belief before the first round, the second, and so on."""
    points = min(_POINTS[up], _ENTRIES[up] // len(given.T))
    edges = _edges(given, chain, rounds, points)
    law = _shrunk(chain.prior[:, None], edges, up)
    step = _spreading_step(given, chain, edges) if up else None
    for _ in range(rounds):
        yield law
        if step is None:
            law = _shrunk(chain.moves.T @ _seen(law, given), edges, up)
        else:
            law = _at(edges, step @ law.sum(axis=0))
    yield law


def _spreading_step(given: Floats, chain: Chain, edges: Floats) -> csr_array:
    """Return how a round moves mass among points: Bayes' rule, the chain, and the spreading."""
    moved = chain.moves.T @ _seen(_at(edges, np.ones(len(edges))), given)
    target, weights = _spread(moved, edges)
    source = np.tile(np.repeat(np.arange(len(edges)), len(given.T)), 2)
    return csr_array((weights.ravel(), (target.ravel(), source)), (len(edges),) * 2)


def _at(beliefs: Floats, mass: Floats) -> Floats:
    """Return the joint law of fact and belief with so much mass at each belief."""
    return np.stack([mass * (1.0 - beliefs), mass * beliefs])


def _seen(law: Floats, given: Floats) -> Floats:
    """Return the joint law of fact and belief, once the symbols of a round are seen as well."""
    return (law[:, :, None] * given[:, None, :]).reshape(2, -1)


def _belief(law: Floats) -> Floats:
    mass = law.sum(axis=0)
    found: Floats = np.divide(law[1], mass, out=np.full(len(mass), 0.5), where=mass > 0)
    return found


def _cell(law: Floats, edges: Floats) -> Ints:
    found = np.searchsorted(edges, _belief(law), side="right") - 1
    return np.clip(found, 0, len(edges) - 2)


def _spread(law: Floats, edges: Floats) -> tuple[Ints, Floats]:
    """Return the two neighbours of each belief and how much of its mass goes to them."""
    cell = _cell(law, edges)
    share = np.clip((_belief(law) - edges[cell]) / (edges[cell + 1] - edges[cell]), 0.0, 1.0)
    return np.stack([cell, cell + 1]), np.stack([1.0 - share, share]) * law.sum(axis=0)


def _shrunk(law: Floats, edges: Floats, up: bool) -> Floats:
    """Return a joint law with no more beliefs than there are edges."""
    if up:
        target, weights = _spread(law, edges)
        return _at(edges, _sums(target.ravel(), weights.ravel(), len(edges)))
    cell = _cell(law, edges)
    found = np.stack([_sums(cell, row, len(edges) - 1) for row in law])
    return found[:, found.sum(axis=0) > 0]


def _sums(cell: Ints, values: Floats, size: int) -> Floats:
    return np.bincount(cell, values, size).astype(np.float64, copy=False)


def _few_outputs(given: Floats, up: bool) -> Floats:
    """Merge outputs that tell the same; beyond many, those that tell nearly the same."""
    possible = given[:, given.sum(axis=0) > 0]
    kinds, which = np.unique(_belief(possible).round(14), return_inverse=True)
    merged = np.stack([_sums(which, row, len(kinds)) for row in possible])
    if len(kinds) <= _OUTPUTS[up]:
        return merged
    return 2 * _shrunk(merged / 2, np.linspace(kinds[0], kinds[-1], _OUTPUTS[up]), up)


def _edges(given: Floats, chain: Chain, rounds: int, points: int) -> Floats:
    """Return where beliefs are distinguished: finely where they can be, and 0 and 1.

    Even steps of the angle arccos(1 - 2 b) tell equally much. Beliefs lie where the log-ratios of
    all rounds take them, up to rare tails, and where a chain that forgets lets them come.
    """
    spans = np.array([_log_span(given, chain.prior, rounds), _reached(given, chain, rounds)])
    low, high = spans[:, 0].max(), spans[:, 1].min()
    return np.unique(np.r_[0.0, _evenly(low, high, points), 1.0])


def _evenly(low: float, high: float, points: int) -> Floats:
    angles = np.linspace(np.arccos(1.0 - 2.0 * low), np.arccos(1.0 - 2.0 * high), points)
    return np.clip((1.0 - np.cos(angles)) / 2, low, high)


def _log_span(given: Floats, prior: Floats, rounds: int) -> tuple[float, float]:
    if given.min() == 0:  # one output may settle the fact
        return 0.0, 1.0
    ratios = np.log(given[1] / given[0])
    means = given @ ratios
    spread = np.sqrt(np.maximum(given @ ratios**2 - means**2, 0.0))
    reach = _DEVIATIONS * np.sqrt(rounds) * spread + np.abs(ratios).max()
    start = np.log(prior[1] / prior[0])
    low, high = (rounds * means - reach).min(), (rounds * means + reach).max()
    return float(expit(start + low)), float(expit(start + high))


def _reached(given: Floats, chain: Chain, rounds: int) -> tuple[float, float]:
    """Return the least and the largest belief that a chain lets symbols lead to."""
    ends = np.full(2, chain.prior[1])
    for _ in range(rounds):
        seen = chain.moves.T @ _seen(np.stack([1.0 - ends, ends]), given)
        beliefs = _belief(seen[:, seen.sum(axis=0) > 0])
        wider = np.array([min(ends[0], beliefs.min()), max(ends[1], beliefs.max())])
        if np.allclose(wider, ends, rtol=0.0, atol=1e-15):
            break
        ends = wider
    return float(ends[0]), float(ends[1])


def _combined(past: Floats, future: Floats, prior: Floats, up: bool) -> Figures:
    """Return what two beliefs tell together that are independent given the fact."""
    one, other = past / prior[:, None], future / prior[:, None]
    return Figures(_advantage(one, other), _information(past, future, prior, up))


def _advantage(one: Floats, other: Floats) -> float:
    """Half the total variation; the second law is summed up once, sorted by its belief."""
    belief = _belief(other)
    order = np.argsort(belief)
    sums = np.concatenate([np.zeros((2, 1)), other[:, order].cumsum(axis=1)], axis=1)
    first = np.searchsorted(belief[order], 1.0 - _belief(one))
    above = one * (sums[:, -1:] - sums[:, first])
    return 0.5 * float(above[1].sum() - above[0].sum())


def _information(past: Floats, future: Floats, prior: Floats, up: bool) -> float:
    few = []
    for law in (past, future):
        beliefs = _belief(law[:, law.sum(axis=0) > 0])
        edges = np.unique(_evenly(beliefs.min(), beliefs.max(), _INFORMATION_POINTS))
        few.append(_shrunk(law, edges, up) if len(edges) > 2 else law)
    joint = (few[0][:, :, None] * few[1][:, None, :]).reshape(2, -1) / prior[:, None]
    return float(rel_entr(joint, prior[:, None] * joint.sum(axis=0)).sum())
