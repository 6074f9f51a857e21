"""Where climbs start: tables that are solved for, drawn, or near others.

*For each sensor by itself, speak of the public fact and not of the private ones.* For two symbols,
q(x) = P(symbol 1|x) in [0, 1] maximises u.q - price sum_k (v_k.q)**2: u is the difference between
public classes, and each v_k one that is not to show. Leaks of independent sensors add up as
squares, hence the squares. The programs of all sensors are solved at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import comb

from discreet.arrays import Floats
from discreet.design.counts.estimate import CountModel

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
