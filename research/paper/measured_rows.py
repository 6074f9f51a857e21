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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from discreet.auditing.attackers.attack import AttackResult, attack
from discreet.auditing.attackers.problem import deal_rows
from discreet.auditing.findings import plug_in_epsilon
from discreet.mappers.base import PrivacyMapper
from research.paper.datasets import Labelled
from research.paper.experiment import Measured, compare
from research.paper.pictures import Filling, Panel, draw_places
from research.paper.results import Column, Result
from research.peers.features import CodeFeatures
from research.peers.projections import DCA, MDR, RUCA
from research.peers.svm import rbf_svm, svm_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# --- Attackers on numbers ----------------------------------------------------------------

# The audit's attackers see symbols. A projection is a real number, so that others are needed: the
# same rows teach and are tested (``auditing.attack_folds``), and the strongest counts.

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


# --- Every method ------------------------------------------------------------------------

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
    results = attack(
        mapping.sample(codes, rng),
        mapping.n_symbols,
        trial.private,
        trial.n_classes,
        tables=mapping.tables,
        codes=codes,
        rng=rng,
    )
    return {
        "public": _share_wrong(answers, test.public),
        "svm": _share_wrong(guesses, test.private),
        "strongest": _strongest(results),
        **_plug_in(sent, trial),
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
        **_plug_in(places[:, None], trial),
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


def measure_all(
    trial: Trial, mappers: Mapping[str, PrivacyMapper], settings: dict[str, Any]
) -> Measured:
    """Measure mappers by their names, and every curator with these settings."""
    found = {name: measure_mapper(mapper, trial) for name, mapper in mappers.items()}
    return found | measure_curators(trial, settings)


def _share_wrong(answers: ArrayLike, truth: pd.Series[Any]) -> float:
    return float(np.mean(np.asarray(answers) != truth.to_numpy()))


def _strongest(results: Sequence[AttackResult]) -> float:
    ran = [each.balanced_accuracy for each in results if each.balanced_accuracy is not None]
    return 1.0 - max(score.estimate for score in ran)


def _plug_in(outputs: Ints, trial: Trial) -> dict[str, float]:
    found = plug_in_epsilon(outputs, trial.private, trial.n_classes, trial.rng())
    return {"epsilon": found.value, "chance": found.null_high}


def _numbered(values: Floats) -> Ints:
    """Give rows numbers, equal rows the same one; what differs in rounding only is equal."""
    _, place = np.unique(np.round(values, 9), axis=0, return_inverse=True)
    return place.ravel().astype(np.int64)


# --- The table -----------------------------------------------------------------------------


def as_printed(
    setting: str, rows: Mapping[str, tuple[float, float, float]]
) -> dict[tuple[str, str], dict[str, float]]:
    """Return printed rows, H, G and the estimate of epsilon by method, for an experiment."""
    return {
        (setting, method): {"public": h, "svm": g, "strongest": g, "epsilon": epsilon}
        for method, (h, g, epsilon) in rows.items()
    }


def picture(result: Result) -> Picture:
    """Draw the public error against that of the strongest attacker."""
    setting = result.rows[0].setting
    panels, fillings = [Panel("", [setting])], [Filling("ours", setting)]
    return draw_places(result, panels, fillings, "strongest", "public")


def findings(result: Result) -> list[str]:
    """Compare with the printed NPO row."""
    setting = result.rows[0].setting
    return [compare(result, setting, method, (setting, "npo")) for method in ("npo", "auto")]
