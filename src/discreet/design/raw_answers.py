"""What a classifier answers that sees the codes of the readings themselves, and what they leak.

It stands beside what symbols answer and leak, and learned from other rows than it is tried on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from discreet.arrays import Floats, Ints
from discreet.data.columns import Labels
from discreet.design.answers import Answers, join, some_rows
from discreet.design.fusion import Aim, class_shares
from discreet.design.learned_attackers import learn_states
from discreet.design.training_rows import Fold, Sample

# Rows that the classifier on codes is learned from, and tried on: fewer where each has many codes.
_TREE_ROWS, _LEAST_TREE_ROWS, _TREE_CODES = 8_000, 3_000, 96_000
_TREES = 120  # of all classes together, and 30 of each at most
_LEAST_ROWS = 0.5  # of a class that does not occur


def tree_rows(n_sensors: int) -> int:
    """Return the most rows that a classifier on codes is learned from, and tried on."""
    return max(_LEAST_TREE_ROWS, min(_TREE_ROWS, _TREE_CODES // n_sensors))


def answer_from_codes(
    sample: Sample, folds: Sequence[Fold], aim: Aim, seed: int, most: int | None = None
) -> Answers:
    """Answer each fold by boosted trees that learned from the codes of at most so many others."""
    rng, most = np.random.default_rng(seed), most or tree_rows(len(sample.sizes))
    parts = []
    for rest, held in folds:
        known, unseen = (
            sample.take(some_rows(rows, sample.public, rng, most)) for rows in (rest, held)
        )
        parts.append(_answer_codes(known, unseen, aim))
    return join(parts)


def answer_unseen_codes(sample: Sample, known: Ints, unseen: Ints, aim: Aim, seed: int) -> Answers:
    """Answer all of some rows by boosted trees that learned from the codes of others."""
    most = tree_rows(len(sample.sizes))
    some = some_rows(known, sample.public, np.random.default_rng(seed), most)
    return _answer_codes(sample.take(some), sample.take(unseen), aim)


def _answer_codes(known: Sample, unseen: Sample, aim: Aim) -> Answers:
    n_classes = known.public.n_classes
    scores = _tree_scores(known.codes, known.public, unseen.codes)
    decided = aim.deciding(class_shares(known.public)).choose(scores)
    shares = np.bincount(decided, minlength=n_classes) / len(decided)
    return Answers(unseen.public.index, (decided == unseen.public.index).astype(float), shares)


def raw_advantage(
    known: Sample,
    unseen: Sample,
    *,
    beyond: bool = False,
    hidden: bool = False,
    most: int | None = None,
) -> float:
    """Return the advantage of boosted trees on the codes, for the fact and classes they do best on.

    ``beyond``: they know the public fact. ``hidden``: mixtures of states learn as well, where
    sensors depend. ``most``: rows that they learn from, and are tried on.
    """
    rng, found = np.random.default_rng(0), 0.0
    most = most or tree_rows(len(known.sizes))
    before, after = (
        np.column_stack([part.codes, part.public.index]) if beyond else part.codes
        for part in (known, unseen)
    )
    sizes = np.array([*known.sizes, known.public.n_classes][: before.shape[1]])
    for fact, held in zip(known.private, unseen.private, strict=True):
        some, tried = (some_rows(np.arange(len(of.index)), of, rng, most) for of in (fact, held))
        taught = before[some], fact.take(some)
        learned = [_tree_scores(*taught, after[tried])]
        learned += [_state_scores(*taught, after[tried], sizes)] if hidden else []
        for h in range(known.public.n_classes) if beyond else [None]:
            inside = np.flatnonzero((known.public.index == h) | (h is None))
            rows = np.flatnonzero((unseen.public.index[tried] == h) | (h is None))
            shares = np.bincount(fact.index[inside], minlength=fact.n_classes)
            even = np.log(np.maximum(shares, _LEAST_ROWS) / max(len(inside), 1))
            for scores in learned:
                seen = scores[rows] - even
                found = max(found, _score_advantage(seen, held.index[tried[rows]]))
    return found


def _tree_scores(codes: Ints, fact: Labels, unseen: Ints) -> Floats:
    """Return log p(class|codes) of rows, rows by classes, by trees that learned from others."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    trees = HistGradientBoostingClassifier(
        # Few and quick steps: on census rows as good as the customary hundred, to 0.003.
        max_iter=int(np.clip(_TREES // fact.n_classes, 3, 30)),
        learning_rate=0.3,
        max_leaf_nodes=8,
        min_samples_leaf=int(np.clip(len(codes) // 50, 2, 20)),
        early_stopping=False,
        random_state=0,
    ).fit(codes, fact.index)
    scores = np.full((len(unseen), fact.n_classes), -np.inf)
    with np.errstate(divide="ignore"):
        scores[:, trees.classes_] = np.log(trees.predict_proba(unseen))
    return scores


def _state_scores(codes: Ints, fact: Labels, unseen: Ints, sizes: Ints) -> Floats:
    """Return log p(class|codes) and a constant of each row likewise, by mixtures of states."""
    shares = np.bincount(fact.index, minlength=fact.n_classes) / len(fact.index)
    scores = np.full((len(unseen), fact.n_classes), -np.inf)
    there = np.flatnonzero(shares)
    scores[:, there] = learn_states(codes, fact.index, sizes)(unseen) + np.log(shares[there])
    return scores


def _score_advantage(scores: Floats, index: Ints) -> float:
    """Return by how much the class with the largest score beats guessing: all, and each two."""
    there = np.unique(index)
    found = 0.0
    if not len(there):  # a public class without a row here
        return found
    for classes in [there, *(np.array(pair) for pair in combinations(there, 2))]:
        rows = np.isin(index, classes)
        right = classes[np.argmax(scores[rows][:, classes], axis=1)] == index[rows]
        share = np.mean([right[index[rows] == k].mean() for k in classes])
        found = max(found, float(share) - 1.0 / len(classes))
    return found
