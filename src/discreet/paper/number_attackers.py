"""Attackers on numbers that a curator hands on, learned and tested as those on symbols are.

The audit's attackers see symbols. A projection is a real number, so that others are needed:
the same rows teach and are tested (``auditing.attack_folds``), and the strongest counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from discreet.auditing.attack_folds import deal_rows
from discreet.peers.svm import rbf_svm

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

N_FOLDS = 5
ATTACKERS: dict[str, Callable[[int], Any]] = {
    "svm": lambda _: rbf_svm(),
    "logistic": lambda _: make_pipeline(StandardScaler(), LogisticRegression()),
    "neighbours": lambda n: make_pipeline(StandardScaler(), KNeighborsClassifier(min(25, n))),
    "forest": lambda _: RandomForestClassifier(40, min_samples_leaf=5, random_state=0),
    "boosting": lambda _: HistGradientBoostingClassifier(
        max_iter=60, learning_rate=0.15, random_state=0
    ),
}
"""Makers of fresh classifiers by name; each is told how many rows there are to learn from."""


def strongest_error(values: Floats, fact: Ints, rng: np.random.Generator) -> float:
    """Return the error of the attacker that does best on rows it has not seen.

    Balanced over the classes. Fold k is attacked by those who learned from the folds before
    it; the first one only teaches.
    """
    fold = deal_rows(fact, N_FOLDS, rng)
    with threadpool_limits(limits=1):  # threads cost more than they save on so few rows
        return min(_error(make, values, fact, fold) for make in ATTACKERS.values())


def _error(make: Callable[[int], Any], values: Floats, fact: Ints, fold: Ints) -> float:
    wrong = np.zeros(len(fact), dtype=bool)
    for k in range(1, int(fold.max()) + 1):
        before, here = fold < k, fold == k
        guesses = make(int(before.sum())).fit(values[before], fact[before]).predict(values[here])
        wrong[here] = guesses != fact[here]
    tested = fold > 0
    return float(np.mean([wrong[tested & (fact == g)].mean() for g in np.unique(fact)]))
