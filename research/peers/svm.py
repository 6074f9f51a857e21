"""The SVM that answers and the SVM that attacks, the same for every method compared."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC


class Sender(Protocol):
    """Anything fitted that turns readings into what the fusion centre receives."""

    def transform(self, X: pd.DataFrame | ArrayLike, /) -> NDArray[Any]:
        """Return one row of numbers for each row of readings."""
        ...


def rbf_svm(C: float = 1.0) -> Pipeline:
    """Return an RBF-SVM on standardised inputs, with scikit-learn's default width."""
    return make_pipeline(StandardScaler(), SVC(C=C, kernel="rbf"))


def svm_error(
    sender: Sender,
    X: pd.DataFrame,
    fact: ArrayLike,
    X_new: pd.DataFrame,
    fact_new: ArrayLike,
    *,
    C: float = 1.0,
) -> float:
    """Return the share of new rows whose fact an SVM gets wrong from what is sent.

    With the public fact it is the fusion centre, with the private one the attacker.

    ``sender``: a fitted projection, ``CodeFeatures`` or mapper. ``X``, ``fact``: rows that the SVM
    learns from. ``X_new``, ``fact_new``: rows that it is tried on. ``C``: the SVM's own.
    """
    learned = rbf_svm(C).fit(sender.transform(X), np.asarray(fact))
    answers = learned.predict(sender.transform(X_new))
    return float(np.mean(answers != np.asarray(fact_new)))
