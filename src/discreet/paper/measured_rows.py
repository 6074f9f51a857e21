"""What the tables on real data measure: rows to learn from and rows to try, for every method.

- H: the share of tried rows whose public fact is got wrong. For a mapper by its own fusion
  rule, learned with it, on symbols drawn once for each row; for a curator's numbers by an
  RBF-SVM that learned from the training rows.
- G, SVM: the same share for the private fact by an RBF-SVM that learned from the training
  rows, which is the nearest to what the paper seems to do.
- G, strongest: the error of the strongest of several attackers that learn from some of the
  tried rows and are tested on others, balanced over the classes.
- The paper's estimate of epsilon on the tried rows, beside what chance makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from discreet.auditing.attackers import AttackResult, attack, attack_mapping
from discreet.auditing.plug_in import plug_in_epsilon
from discreet.design.base import PrivacyMapper
from discreet.paper.datasets import Labelled
from discreet.paper.number_attackers import strongest_error
from discreet.paper.results import Column
from discreet.peers.features import CodeFeatures
from discreet.peers.projections import DCA, MDR, RUCA
from discreet.peers.svm import rbf_svm, svm_error

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PRICES = (1, 100, 1000)
"""RUCA's weights of the private scatter, as the paper has them."""
CURATOR_METHODS = {
    "mdr": "MDR *",
    "dca": "DCA",
    **{f"ruca-{price}": f"RUCA {price} *" for price in PRICES},
    "raw": "raw, Z = X",
}
COLUMNS = (
    Column(key="public", title="error H", better="low", percent=True),
    Column(key="svm", title="error G, SVM", better="high", percent=True),
    Column(key="strongest", title="error G, strongest", better="high", percent=True),
    Column(key="epsilon", title="ε̂", better="low", digits=2),
    Column(key="chance", title="ε̂ by chance", better="low", digits=2),
)
CHOICES = (
    "Error H: a mapper's own fusion rule, learned from the training rows, on symbols drawn once "
    "for each test row; for MDR, DCA, RUCA and Z = X an RBF-SVM (C = 1, standardised) learned "
    "from the training rows.",
    "Error G, SVM: an RBF-SVM learned from the training rows alone, tried on the test rows. The "
    "paper does not name its attacker; this is the nearest guess.",
    "Error G, strongest: attackers that learn from up to four fifths of the test rows and are "
    "tested on others, each fold by those who learned from the folds before it; balanced over "
    "the classes; the best of them. On symbols and on raw readings the ten attackers of "
    "`discreet audit`, one of which holds the tables; on a curator's numbers SVM, logistic, "
    "neighbours, forest and boosting. Being the best of several, it errs towards the attacker. "
    "The printed error of G stands beside both columns.",
    "ε̂ is the paper's plug-in over the outputs seen in the test rows and no bound: an output seen "
    "once has ln(1/p(g)) whatever the method does. By chance: the 95th percentile of what it comes "
    "to on the same outputs when the private labels are shuffled.",
    "* MDR's ridge and RUCA's B are reconstructions: the paper prints neither.",
)


@dataclass(frozen=True)
class Trial:
    """One draw: rows to learn from, rows to try, and the tried rows' private classes."""

    train: Labelled
    test: Labelled
    seed: int

    @property
    def private(self) -> Ints:
        return np.unique(self.test.private.to_numpy(), return_inverse=True)[1].astype(np.int64)

    @property
    def n_classes(self) -> int:
        return int(self.private.max()) + 1

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


def measure_mapper(mapper: PrivacyMapper, trial: Trial) -> dict[str, float]:
    """Learn a mapping and measure what its symbols tell; the paper counts errors."""
    mapper.set_params(decide="likely")
    train, test, rng = trial.train, trial.test, trial.rng()
    mapping = mapper.fit(train.readings, train.public, private=train.private).mapping_
    codes, before = mapping.encode(test.readings), mapping.encode(train.readings)
    sent, taught = mapping.sample(codes, rng), mapping.sample(before, rng)
    answers = np.asarray(mapping.fuse(sent))
    guesses = rbf_svm().fit(taught, train.private.to_numpy()).predict(sent)
    results = attack_mapping(mapping, codes, trial.private, trial.n_classes, rng=rng)
    return {
        "public": _share_wrong(answers, test.public),
        "svm": _share_wrong(guesses, test.private),
        "strongest": _strongest(results),
        **_plug_in(sent, mapping.n_symbols, trial),
    }


def measure_curator(curator: CodeFeatures, trial: Trial) -> dict[str, float]:
    """Fit a projection, or raw readings as numbers, and measure what the numbers tell."""
    train, test = trial.train, trial.test
    curator.fit(train.readings, train.public, private=train.private)
    public, private = (
        svm_error(curator, train.readings, old, test.readings, new)
        for old, new in ((train.public, test.public), (train.private, test.private))
    )
    numbers = np.asarray(curator.transform(test.readings))
    places = _numbered(numbers)
    return {
        "public": public,
        "svm": private,
        "strongest": strongest_error(numbers, trial.private, trial.rng()),
        **_plug_in(places[:, None], [int(places.max()) + 1], trial),
    }


def measure_raw(features: CodeFeatures, trial: Trial) -> dict[str, float]:
    """Measure raw readings: as numbers for the SVMs, as categories for the attackers."""
    found = measure_curator(features, trial)
    columns = (column for _, column in trial.test.readings.items())
    # A missing reading is a value of its own.
    codes = np.stack([pd.factorize(each, use_na_sentinel=False)[0] for each in columns], axis=1)
    sizes = (codes.max(axis=0) + 1).tolist()
    results = attack(codes, sizes, trial.private, trial.n_classes, rng=trial.rng())
    return found | {"strongest": min(_strongest(results), found["strongest"])}


def measure_curators(trial: Trial, settings: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Measure every method that a trusted curator runs on all sensors at once."""
    make: dict[str, Callable[[], CodeFeatures]] = {
        "mdr": lambda: MDR(**settings),
        "dca": lambda: DCA(**settings),
    }
    found = {name: measure_curator(each(), trial) for name, each in make.items()}
    for price in PRICES:
        found[f"ruca-{price}"] = measure_curator(RUCA(float(price), **settings), trial)
    return found | {"raw": measure_raw(CodeFeatures(**settings), trial)}


def _share_wrong(answers: ArrayLike, truth: pd.Series[Any]) -> float:
    return float(np.mean(np.asarray(answers) != truth.to_numpy()))


def _strongest(results: Sequence[AttackResult]) -> float:
    ran = [each.balanced_accuracy for each in results if each.balanced_accuracy is not None]
    return 1.0 - max(score.estimate for score in ran)


def _plug_in(outputs: Ints, sizes: list[int], trial: Trial) -> dict[str, float]:
    found = plug_in_epsilon(outputs, sizes, trial.private, trial.n_classes, trial.rng())
    return {"epsilon": found.value, "chance": found.null_high}


def _numbered(values: Floats) -> Ints:
    """Give rows numbers, equal rows the same one; what differs in rounding only is equal."""
    _, place = np.unique(np.round(values, 9), axis=0, return_inverse=True)
    return place.ravel().astype(np.int64)
