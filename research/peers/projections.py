"""DCA, MDR and RUCA: a trusted curator projects all readings and hands on the projections.

Each keeps the leading generalised eigenvectors of A w = lambda B w, one fewer than there
are public classes. A is the scatter between the public classes; B says what costs:

- DCA: S + rho I, with S the total scatter. It does not know the private fact.
- MDR: S_P + rho I, with S_P the scatter between the private classes.
- RUCA: S + rho I + rho_p S_P.

Scatters are sums over rows, and rho is 0.02 times the largest eigenvalue of the scatter
within the public classes. The ridge of MDR and the B of RUCA are reconstructions: the
paper that compares with these methods prints neither.

Its figures for Adult point to categories taken as numbers (``categories="codes"``): DCA then
comes out near the printed errors. With indicators, the default here, the error for income
is ten points lower at about the same error for marital status.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping as Dict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, eigvalsh

from discreet.data.columns import Labels
from discreet.design.inputs import check_number, private_facts
from research.peers.features import CodeFeatures

Floats = NDArray[np.float64]

RIDGE = 0.02
"""The ridge rho, as a share of the largest eigenvalue of the within-class scatter."""
_LEAST_RIDGE = 1e-9  # the same share of the total scatter, where classes do not scatter at all


class Projection(CodeFeatures):
    """Base of the projections; use one of its subclasses.

    ``directions_`` of shape (n_features, n_directions): what features are multiplied with.
    ``eigenvalues_`` of shape (n_directions,): the ratio of A to B along each, the largest first.
    ``ridge_``: rho. ``encoders_``, ``n_features_out_``: as in ``CodeFeatures``.
    """

    def _learn(self, features: Floats, public: Labels, private: Any) -> None:
        utility, total = _between_scatter(features, [public]), _total_scatter(features)
        self.ridge_ = _ridge(total, utility)
        cost = self._cost(features, total, private) + self.ridge_ * np.eye(len(total))
        kept = min(len(public.classes) - 1, len(total))
        values, vectors = eigh(utility, cost, subset_by_index=(len(total) - kept, len(total) - 1))
        self.eigenvalues_ = np.asarray(values[::-1])
        self.directions_ = _signed(vectors[:, ::-1])
        self.n_features_out_ = kept

    @abstractmethod
    def _cost(self, features: Floats, total: Floats, private: Any) -> Floats:
        """Return B, but for the ridge."""

    def _hand_on(self, features: Floats) -> Floats:
        projected: Floats = features @ self.directions_
        return projected


class DCA(Projection):
    """Discriminant component analysis: what tells the public classes apart.

    Takes no notice of the private fact.

    Parameters
    ----------
    categories, binning, n_bins
        As in ``CodeFeatures``.

    Attributes
    ----------
    directions_, eigenvalues_, ridge_, encoders_, n_features_out_
        As in ``Projection``.

    Examples
    --------
    >>> import pandas as pd
    >>> from research.peers.projections import DCA
    >>> readings = pd.DataFrame({"hall": [0, 1, 2, 3] * 10, "door": [0, 0, 1, 1] * 10})
    >>> DCA().fit_transform(readings, [0, 0, 1, 1] * 10).shape
    (40, 1)
    """

    def _cost(self, features: Floats, total: Floats, private: Any) -> Floats:
        return total


class MDR(Projection):
    """Multiclass discriminant ratio: public against private scatter, a reconstruction.

    ``categories``, ``binning``, ``n_bins``: as in ``CodeFeatures``. ``directions_``,
    ``eigenvalues_``, ``ridge_``, ``encoders_``, ``n_features_out_``: as in ``Projection``.
    """

    def _cost(self, features: Floats, total: Floats, private: Any) -> Floats:
        return _between_scatter(features, private_facts(private, len(features)))


class RUCA(Projection):
    """Ratio utility and cost analysis: DCA with a price on private scatter, a reconstruction.

    ``private_weight``: the price rho_p; the paper tries 1, 100 and 1000. With 0 it would be DCA.
    ``categories``, ``binning``, ``n_bins``: as in ``CodeFeatures``. ``directions_``,
    ``eigenvalues_``, ``ridge_``, ``encoders_``, ``n_features_out_``: as in ``Projection``.
    """

    def __init__(
        self,
        private_weight: float = 100.0,
        *,
        categories: str = "one-hot",
        binning: str | Dict[str, str] = "quantile",
        n_bins: int | Dict[str, int] = 10,
    ) -> None:
        super().__init__(categories=categories, binning=binning, n_bins=n_bins)
        self.private_weight = private_weight

    def _cost(self, features: Floats, total: Floats, private: Any) -> Floats:
        check_number("private_weight", self.private_weight, 0.0, np.inf, "greater than 0")
        facts = private_facts(private, len(features))
        return total + self.private_weight * _between_scatter(features, facts)


def _between_scatter(features: Floats, facts: Sequence[Labels]) -> Floats:
    """Return sum over classes of n_c (m_c - m)(m_c - m)^T, added up over the facts."""
    centred = features - features.mean(axis=0)
    scatter = np.zeros((features.shape[1], features.shape[1]))
    for fact in facts:
        member = np.eye(len(fact.classes))[fact.index]
        sums = member.T @ centred
        scatter += sums.T @ (sums / member.sum(axis=0)[:, None])
    return scatter


def _total_scatter(features: Floats) -> Floats:
    centred = features - features.mean(axis=0)
    scatter: Floats = centred.T @ centred
    return scatter


def _ridge(total: Floats, utility: Floats) -> float:
    largest = float(eigvalsh(total - utility)[-1])
    least = _LEAST_RIDGE * float(np.trace(total)) or 1.0  # constant readings: any will do
    return max(RIDGE * largest, least)


def _signed(vectors: Floats) -> Floats:
    """Return the vectors with their largest entry positive: a direction has no sign."""
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return np.asarray(vectors * np.where(largest < 0, -1.0, 1.0))
