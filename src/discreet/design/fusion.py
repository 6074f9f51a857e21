"""The fusion rule for finished tables: symbols to a probability of each public class.

Few outputs: one kernel logistic fit on the outputs themselves, stored as the joint
probability of class and output, so that silent sensors can be summed out. Many
outputs: an additive rule, one score per sensor and symbol, fitted on sampled symbols.
Neither stores a training row.

*What a decision is to be good for, and the rule that follows for a fusion rule's posterior.* Where
one public class is rare, the most probable class is the other one whatever the symbols say. So by
default a decision compares how much likelier the symbols made each class: that has the largest
balanced accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping as Dict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import helmert
from scipy.special import expit, softmax

from discreet.arrays import Floats, Ints
from discreet.choices import LOSSES
from discreet.data.columns import Labels, plain, written
from discreet.design.kernels import Kernel, output_gram
from discreet.design.risks import MAX_OUTPUTS, factor_gram
from discreet.design.solvers import fit_primal
from discreet.design.training_rows import Rows, public_heads
from discreet.errors import InputError, Parameter, suggest
from discreet.leakage.joint_outputs import weighted_outputs
from discreet.mapping.parts import (
    MAX_COST,
    AdditiveClassesFusion,
    AdditiveFusion,
    Deciding,
    Fact,
    TableFusion,
)

# --- What a decision is good for ------------------------------------------------------------

_LEAST_SHARE = 1e-6  # of a class that the fusion rule hardly ever believes in


@dataclass(frozen=True)
class Aim:
    """What decisions are to be good for.

    ``rule``: "balanced", "likely" or "cost". ``costs``: what it costs to miss each class, for the
    rule "cost".
    """

    rule: str = "balanced"
    costs: tuple[float, ...] = ()

    def deciding(self, shares: Floats) -> Deciding:
        """Return the rule for a posterior under which the classes have these shares."""
        shares = np.maximum(shares, _LEAST_SHARE)
        shares = shares / shares.sum()
        weights = {"balanced": 1.0 / (len(shares) * shares), "cost": np.array(self.costs)}
        return Deciding.model_validate(
            {
                "rule": self.rule,
                "weights": weights.get(self.rule, np.ones(len(shares))).tolist(),
                "shares": shares.tolist(),
            }
        )

    def worth(self, shares: Floats) -> Floats:
        """Return how much each class counts where classes have these shares; sums to 1."""
        if self.rule == "balanced":
            return np.full(len(shares), 1.0 / len(shares))
        found = shares * self.costs if self.rule == "cost" else shares
        return np.asarray(found / found.sum())


BALANCED = Aim()
"""What decisions are good for unless something else is asked."""


def class_shares(public: Labels) -> Floats:
    """Return how frequent the classes are among the rows."""
    return np.bincount(public.index, minlength=public.n_classes) / len(public.index)


def check_decide(value: Any) -> None:
    """Refuse what is neither the name of a rule nor costs by class."""
    if isinstance(value, str) and value in ("balanced", "likely"):
        return
    if not isinstance(value, Dict) or not value:
        raise InputError(
            "decide must be 'balanced', 'likely' or what it costs to miss a class, such as "
            f"{{'fall': 10}}, got {value!r}."
        )
    for name, cost in value.items():
        is_number = isinstance(cost, int | float | np.number) and not isinstance(cost, bool)
        if not is_number or not math.isfinite(cost) or not 0 < cost <= MAX_COST:
            raise InputError(
                f"decide: what it costs to miss the class {name!r} must be a number above 0 and "
                f"at most {MAX_COST:g}, got {cost!r}."
            )


def aim_for(value: Any, fact: Fact) -> Aim:
    """Return the aim that ``decide`` names for a public fact; unnamed classes cost 1.

    Raises InputError: if a class is named that the fact does not have.
    """
    check_decide(value)
    if isinstance(value, str):
        return Aim(value)
    costs = [1.0] * len(fact.classes)
    for name, cost in value.items():
        costs[_place(name, fact)] = float(cost)
    return Aim("cost", tuple(costs))


def _place(name: Any, fact: Fact) -> int:
    """Return which class is called so: as Python has it, or as the command line writes it."""
    names = [written(each) for each in fact.classes]
    found = plain(name)
    wanted = str(name) if found is None else written(found)
    if wanted not in names:
        raise InputError(
            Parameter("decide"),
            f" names the class {wanted!r}, which {fact.name!r} does not have. ",
            suggest(wanted, names),
        )
    return names.index(wanted)


# --- The rule -------------------------------------------------------------------------------

Fusion = AdditiveFusion | AdditiveClassesFusion | TableFusion

# Sampled symbol rows behind an additive rule: for each score, at least and at most.
_FOR_EACH_SCORE, _FEWEST_DRAWN, _MOST_DRAWN = 300, 10_000, 20_000


def fusion_rows(n_symbols: Sequence[int]) -> int:
    """Return how many rows a score for each symbol is learned from."""
    scores = sum(n_symbols) - len(n_symbols) + 1
    return min(max(_FOR_EACH_SCORE * scores, _FEWEST_DRAWN), _MOST_DRAWN)


def learn_fusion(
    tables: list[Floats],
    rows: Rows,
    public: Labels,
    kernel: Kernel,
    reg: float,
    rng: np.random.Generator,
    drawn: int | None = None,
) -> Fusion:
    """Fit the fusion rule, always with the logistic loss, whose scores are log-odds.

    ``drawn``: rows of symbols that it is learned from where outputs are too many to list.
    """
    n_symbols = [table.shape[1] for table in tables]
    if math.prod(n_symbols) <= MAX_OUTPUTS:
        return _table_fusion(tables, rows, public, kernel, reg)
    return _additive_fusion(tables, rows, public, reg, rng, drawn or fusion_rows(n_symbols))


def add_decision(
    fusion: Fusion,
    tables: list[Floats],
    rows: Rows,
    public: Labels,
    aim: Aim,
    rng: np.random.Generator,
    drawn: int | None = None,
) -> Fusion:
    """Return the fusion rule with the decisions that follow from its posterior.

    ``drawn``: rows of symbols that this is taken from where outputs are too many to list.
    """
    drawn = drawn or fusion_rows([table.shape[1] for table in tables])
    shares = _believed_shares(fusion, tables, rows, public, rng, drawn)
    return fusion.model_copy(update={"decide": aim.deciding(shares)})


def _believed_shares(
    fusion: Fusion,
    tables: list[Floats],
    rows: Rows,
    public: Labels,
    rng: np.random.Generator,
    drawn: int,
) -> Floats:
    """Return how frequent the classes are under the posterior that was fitted.

    Not quite the shares among the rows: regularisers draw a posterior towards equal classes, and
    fits of each class against the rest, put together, away from them. Held against the shares
    among the rows, symbols that say nothing would seem to speak for a class. Equally frequent
    classes stay so, and the most probable one is decided.
    """
    shares = class_shares(public)
    if np.ptp(shares) == 0.0:
        return shares
    if isinstance(fusion, TableFusion):
        return np.asarray(np.array(fusion.joint).sum(axis=1))
    copies = -(-drawn // rows.n_rows)
    codes = np.repeat(rows.codes[rows.inverse], copies, axis=0)
    symbols = draw_symbols(tables, codes, rng)
    scores = fusion.scores(symbols, [table.shape[1] for table in tables])
    return np.asarray(softmax(scores, axis=1).mean(axis=0))


def _table_fusion(
    tables: list[Floats], rows: Rows, public: Labels, kernel: Kernel, reg: float
) -> TableFusion:
    heads = public_heads(rows, public)
    everyone = rows.total(np.full(rows.n_rows, 1.0 / rows.n_rows))
    weights = np.stack([each for head in heads for each in (head.pos, head.neg)] + [everyone])
    *sides, overall = weighted_outputs(tables, rows.codes, weights)
    factor = factor_gram(output_gram(kernel, [table.shape[1] for table in tables]))
    scores = [
        fit_primal(factor, pos, neg, LOSSES["logistic"], reg).scores
        for pos, neg in zip(sides[::2], sides[1::2], strict=True)
    ]
    joint = _posterior(np.array(scores)) * overall
    return TableFusion(joint=(joint / joint.sum()).tolist())


def _posterior(scores: Floats) -> Floats:
    """Return class probabilities, one row per class, from one score row per head."""
    if len(scores) == 1:
        return np.concatenate([expit(-scores), expit(scores)])
    against_rest = expit(scores)
    share: Floats = against_rest / against_rest.sum(axis=0)
    return share


def _additive_fusion(
    tables: list[Floats],
    rows: Rows,
    public: Labels,
    reg: float,
    rng: np.random.Generator,
    wanted: int,
) -> AdditiveFusion | AdditiveClassesFusion:
    sizes = [table.shape[1] for table in tables]
    known = np.arange(rows.n_rows)
    if rows.n_rows > _MOST_DRAWN:
        known = np.sort(rng.choice(rows.n_rows, wanted, replace=False))
    known = np.repeat(known, -(-wanted // rows.n_rows))
    labels = public.take(known)
    symbols = draw_symbols(tables, rows.codes[rows.inverse[known]], rng)
    shares = [np.bincount(c, minlength=z) / len(c) for c, z in zip(symbols.T, sizes, strict=True)]
    blocks, biases = [], []
    for w in _fit_heads(symbols, sizes, labels, reg):
        block, bias = _centred(w, np.concatenate(shares), sizes)
        blocks.append(block)
        biases.append(bias)
    if public.n_classes == 2:
        return AdditiveFusion(weights=blocks[0], bias=biases[0])
    return AdditiveClassesFusion(weights=tuple(blocks), bias=tuple(biases))


def _fit_heads(symbols: Ints, sizes: Sequence[int], labels: Labels, reg: float) -> list[Floats]:
    """Fit every public head on the symbols: one score for each of each sensor.

    What all symbols of a sensor score alike is seen in the sum over sensors only. So there is one
    column for that, and contrasts between a sensor's symbols: fewer columns than symbols, and the
    same minimum.
    """
    contrasts = [helmert(size).T for size in sizes]
    level = math.sqrt(sum(1.0 / size for size in sizes))
    columns = [table[sent] for table, sent in zip(contrasts, symbols.T, strict=True)]
    features = np.concatenate([*columns, np.full((len(symbols), 1), level)], axis=1)
    drawn = Rows(symbols, np.arange(len(symbols)), tuple(sizes))
    found = []
    for head in public_heads(drawn, labels):
        w = fit_primal(features, head.pos, head.neg, LOSSES["logistic"], reg).variables
        parts = np.split(w[:-1], np.cumsum([size - 1 for size in sizes[:-1]]))
        scores = [table @ part for table, part in zip(contrasts, parts, strict=True)]
        found.append(np.concatenate(scores) + np.repeat(w[-1] / level / np.array(sizes), sizes))
    return found


def _centred(
    w: Floats, means: Floats, sizes: list[int]
) -> tuple[tuple[tuple[float, ...], ...], float]:
    """Split w by sensor, each with mean score 0: a silent sensor then adds nothing."""
    block, bias, begin = [], 0.0, 0
    for size in sizes:
        part, share = w[begin : begin + size], means[begin : begin + size]
        level = float(part @ share)
        block.append(tuple(float(v) for v in part - level))
        bias += level
        begin += size
    return tuple(block), bias


def draw_symbols(tables: list[Floats], codes: Ints, rng: np.random.Generator) -> Ints:
    """Draw one symbol per sensor and row; for fitting only, devices have their own source."""
    symbols = np.zeros(codes.shape[::-1], dtype=np.int64)
    for own, table, column in zip(symbols, tables, codes.T, strict=True):
        drawn, sent = rng.random(len(codes)), np.ascontiguousarray(column)
        for edges in np.cumsum(table, axis=1).T[:-1]:
            own += drawn >= edges.take(sent)
    return symbols.T
