"""Tables attacked on rows that they were not designed on.

One attacker learned from the rows that the tables were designed on, where the leak was
pressed down: its advantage errs low. Another is the best rule in hindsight for the rows
left out: it errs high. The expected advantage is the middle of the two
(``research/benchmarks/calibration.py`` holds it against the truth).

With few outputs both are the Bayes table, exact. With too many to list there is no best
attacker to compute, so several are tried and the strongest counts: each sensor by itself,
every pair of sensors, and the mixture of all known rows, which looks at all sensors
together. A leak that all of them miss stays unseen.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from discreet.arrays import Floats, Ints
from discreet.data.labels import Labels
from discreet.design.folds import Sample
from discreet.design.fusion import draw_symbols
from discreet.design.problem import Settings
from discreet.design.risks import Tables
from discreet.leakage.exact import advantage, information_epsilon
from discreet.leakage.joint_outputs import output_probabilities

# Symbols drawn per held-out row where the outputs are too many to list, and in all.
_DRAWS, _MOST_DRAWN = 20, 100_000
_MIXTURE_ROWS, _MIXTURE_DRAWS = 2000, 4000  # most rows mixed, and symbols tried on them
_SMALLEST = 1e-12


@dataclass(frozen=True)
class Score:
    """What one set of held-out rows showed."""

    advantage: float
    epsilon: float | None


def score_held_out(
    settings: Settings, tables: Tables, known: Sample, unseen: Sample, rng: np.random.Generator
) -> Score:
    """Attack the private facts on rows left out."""
    if settings.lists_outputs:
        return _score_listed(tables, known, unseen)
    return _score_drawn(tables, known, unseen, rng)


# --- Few outputs: exact ----------------------------------------------------------------------


def _score_listed(tables: Tables, known: Sample, unseen: Sample) -> Score:
    """Attack with the Bayes table, scored exactly: Q is averaged, not sampled."""
    rows, left = known.rows(), unseen.rows()
    before, after = (
        output_probabilities(tables, rows.codes),
        output_probabilities(tables, left.codes),
    )
    advantages, ratios = [], []
    for fact, held in zip(known.private, unseen.private, strict=True):
        learned, true = rows.class_weights(fact) @ before, left.class_weights(held) @ after
        advantages.append(0.5 * (rule_advantage(learned, true) + advantage(true)))
        ratios.append(information_epsilon(true, np.bincount(held.index) / left.n_rows))
    return Score(max(advantages), max(ratios))


def rule_advantage(learned: Floats, true: Floats) -> float:
    """Score the rules that ``learned`` suggests under the ``true`` distribution of outputs."""
    n_classes = len(true)
    rule = np.argmax(learned, axis=0)
    right = [float(true[k, rule == k].sum()) for k in range(n_classes)]
    best = float(np.mean(right)) - 1.0 / n_classes
    for a, b in combinations(range(n_classes), 2):
        picks_b = learned[b] > learned[a]
        accuracy = 0.5 * float(true[a, ~picks_b].sum() + true[b, picks_b].sum())
        best = max(best, accuracy - 0.5)
    return best


# --- Too many outputs: the strongest of several attackers ------------------------------------


def _score_drawn(tables: Tables, known: Sample, unseen: Sample, rng: np.random.Generator) -> Score:
    copies = max(1, min(_DRAWS, _MOST_DRAWN // len(unseen.codes)))
    symbols = draw_symbols(tables, np.repeat(unseen.codes, copies, axis=0), rng)
    seeds = rng.integers(2**63, size=len(known.private))
    advantages = []
    for fact, held, seed in zip(known.private, unseen.private, seeds, strict=True):
        naive = _naive_advantage(tables, known.codes, fact, unseen.codes, held, symbols)
        pair = _pair_advantage(tables, known.codes, fact, unseen.codes, held)
        mixture = _mixture_advantage(tables, known.codes, fact, unseen.codes, held, seed)
        advantages.append(max(naive, pair, mixture))
    return Score(max(advantages), None)


def _naive_advantage(
    tables: Tables, known: Ints, fact: Labels, unseen: Ints, held: Labels, symbols: Ints
) -> float:
    """Attack as if sensors were independent given the class: the middle of two estimates."""
    index = np.repeat(held.index, len(symbols) // len(held.index))
    learned = _score_advantage(_naive_scores(tables, known, fact, symbols), index)
    hindsight = _score_advantage(_naive_scores(tables, unseen, held, symbols), index)
    return 0.5 * (learned + hindsight)


def _naive_scores(tables: Tables, codes: Ints, fact: Labels, symbols: Ints) -> Floats:
    """Return log p(symbols|class) as if sensors were independent, one row per class."""
    total = np.zeros((fact.n_classes, len(symbols)))
    for t, table in enumerate(tables):
        sent = table[codes[:, t]]
        for k in range(fact.n_classes):
            marginal = sent[fact.index == k].mean(axis=0)
            total[k] += np.log(np.maximum(marginal, _SMALLEST))[symbols[:, t]]
    return total


def _pair_advantage(tables: Tables, known: Ints, fact: Labels, unseen: Ints, held: Labels) -> float:
    """Attack with the two sensors that together say most, scored exactly."""
    learned, true = _pair_tables(tables, known, fact), _pair_tables(tables, unseen, held)
    edges = np.cumsum([0] + [table.shape[1] for table in tables])[:-1]
    by_learned = _pair_accuracies(learned, learned, edges)
    tried = _pair_accuracies(learned, true, edges)
    hindsight = _pair_accuracies(true, true, edges)
    low = max(
        float(accuracy.ravel()[np.argmax(chosen)]) - guess
        for (accuracy, guess), (chosen, _) in zip(tried, by_learned, strict=True)
    )
    high = max(float(accuracy.max()) - guess for accuracy, guess in hindsight)
    return 0.5 * (low + high)


def _pair_tables(tables: Tables, codes: Ints, fact: Labels) -> Floats:
    """Return p(z^t, z^u | class) of all pairs of sensors, one matrix per class.

    All tables come from one product of matrices: Q^t[x^t] of all sensors side by side.
    """
    sent = np.concatenate([table[codes[:, t]] for t, table in enumerate(tables)], axis=1)
    parts = [sent[fact.index == k] for k in range(fact.n_classes)]
    return np.stack([part.T @ part / len(part) for part in parts])


def _pair_accuracies(learned: Floats, true: Floats, edges: Ints) -> list[tuple[Floats, float]]:
    """Return (sensors by sensors, guessing) for all classes at once and for each two."""
    n_classes = len(true)
    rule = np.argmax(learned, axis=0)
    right = np.where(rule == np.arange(n_classes)[:, None, None], true, 0.0).mean(axis=0)
    found = [(_by_sensors(right, edges), 1.0 / n_classes)]
    for a, b in combinations(range(n_classes), 2):
        right = 0.5 * np.where(learned[b] > learned[a], true[b], true[a])
        found.append((_by_sensors(right, edges), 0.5))
    return found


def _by_sensors(cells: Floats, edges: Ints) -> Floats:
    """Add up cells (symbol of t, symbol of u) to pairs (t, u); t with itself is no pair."""
    sums: Floats = np.add.reduceat(np.add.reduceat(cells, edges, axis=0), edges, axis=1)
    np.fill_diagonal(sums, 0.0)
    return sums


def _mixture_advantage(
    tables: Tables, known: Ints, fact: Labels, unseen: Ints, held: Labels, seed: int
) -> float:
    """Attack with p(z|class) as the mixture of Q(z|x_i) over rows of that class.

    Once the rows known to the attacker are those that the tables were designed on, and
    once the held-out rows themselves, each left out of the mixture when its own symbols
    are tried. Both err low; the larger counts.
    """
    rng = np.random.default_rng(seed)
    tried = rng.choice(len(unseen), min(len(unseen), _MIXTURE_ROWS), replace=False)
    copies = max(1, min(_DRAWS, _MIXTURE_DRAWS // len(tried)))
    own = np.repeat(np.arange(len(tried)), copies)
    symbols = draw_symbols(tables, unseen[tried][own], rng)
    index = held.index[tried][own]
    mixed = rng.choice(len(known), min(len(known), _MIXTURE_ROWS), replace=False)
    before = _mixture_scores(tables, known[mixed], fact.index[mixed], fact.n_classes, symbols)
    after = _mixture_scores(
        tables, unseen[tried], held.index[tried], held.n_classes, symbols, left_out=own
    )
    return max(_score_advantage(before, index), _score_advantage(after, index))


def _mixture_scores(
    tables: Tables,
    codes: Ints,
    index: Ints,
    n_classes: int,
    symbols: Ints,
    left_out: Ints | None = None,
) -> Floats:
    """Return log p(symbols|class), one row per class; a class without rows is never chosen."""
    sent = [np.log(np.maximum(table, _SMALLEST))[codes[:, t]] for t, table in enumerate(tables)]
    shown = [np.eye(table.shape[1])[symbols[:, t]] for t, table in enumerate(tables)]
    logs = np.concatenate(sent, axis=1) @ np.concatenate(shown, axis=1).T
    own = np.arange(n_classes)[:, None] == index
    counts = np.repeat(own.sum(axis=1)[:, None], len(symbols), axis=1)
    if left_out is not None:
        logs[left_out, np.arange(len(symbols))] = -np.inf
        counts = counts - own[:, left_out]
    most = np.maximum(logs.max(axis=0), np.log(_SMALLEST) * len(tables))
    likely = own.astype(np.float64) @ np.exp(np.subtract(logs, most, out=logs), out=logs)
    with np.errstate(divide="ignore"):  # a class whose only row was left out
        return np.asarray(np.log(likely / np.maximum(counts, 1)) + most)


def _score_advantage(scores: Floats, index: Ints) -> float:
    """Return the advantage over guessing from class scores of single rows."""
    n_classes = len(scores)
    right = np.argmax(scores, axis=0) == index
    shares = [right[index == k].mean() for k in range(n_classes) if (index == k).any()]
    best = float(np.mean(shares)) - 1.0 / n_classes
    for a, b in combinations(np.unique(index), 2):
        picks_b = scores[b] > scores[a]
        accuracy = 0.5 * float((~picks_b)[index == a].mean() + picks_b[index == b].mean())
        best = max(best, accuracy - 0.5)
    return best
