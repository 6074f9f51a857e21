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

from discreet.auditing.attack_folds import deal_rows
from discreet.peers.svm import rbf_svm

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

N_FOLDS = 5
ATTACKERS: dict[str, Callable[[], Any]] = {
    "svm": rbf_svm,
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    "neighbours": lambda: make_pipeline(StandardScaler(), KNeighborsClassifier(25)),
    "forest": lambda: RandomForestClassifier(40, min_samples_leaf=5, random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(
        max_iter=60, learning_rate=0.15, random_state=0
    ),
}
"""Fresh classifiers by name."""


def strongest_error(values: Floats, fact: Ints, rng: np.random.Generator) -> float:
    """Return the error of the attacker that does best on rows it has not seen.

    Balanced over the classes. Fold k is attacked by those who learned from the folds before
    it; the first one only teaches.
    """
    fold = deal_rows(fact, N_FOLDS, rng)
    return min(_error(make, values, fact, fold) for make in ATTACKERS.values())


def _error(make: Callable[[], Any], values: Floats, fact: Ints, fold: Ints) -> float:
    wrong = np.zeros(len(fact), dtype=bool)
    for k in range(1, int(fold.max()) + 1):
        before, here = fold < k, fold == k
        guesses = make().fit(values[before], fact[before]).predict(values[here])
        wrong[here] = guesses != fact[here]
    tested = fold > 0
    return float(np.mean([wrong[tested & (fact == g)].mean() for g in np.unique(fact)]))
