"""Readings as numbers, for methods that a trusted curator runs on all sensors at once."""

from __future__ import annotations

from collections.abc import Mapping as Dict
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from discreet.data.columns import Labels
from discreet.data.encoders import Encoder, encode_table
from discreet.data.fit_encoders import fit_encoders
from discreet.design.inputs import array_names, check_choice, check_readings
from discreet.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CATEGORIES = ("one-hot", "codes")


class CodeFeatures(TransformerMixin, BaseEstimator):
    """Turn readings into codes, as the mappers do, and codes into numbers.

    A sensor with ordered codes gives one feature, the code. A sensor of categories gives
    one indicator for each category that the training rows show, or its code, whose order
    means nothing. What is missing or unknown counts as the average of the training rows,
    or as no category. Nothing is scaled.

    With an SVM on top it is the comparison Z = X: everything told, to a trusted curator.

    ``categories``: what becomes of categories. The paper's figures point to "codes"; see
    ``projections``. ``binning``, ``n_bins``: as in ``NPOMapper``. ``encoders_``: one for each
    sensor. ``n_features_out_``: features, or directions of a projection.
    """

    def __init__(
        self,
        *,
        categories: str = "one-hot",
        binning: str | Dict[str, str] = "quantile",
        n_bins: int | Dict[str, int] = 10,
    ) -> None:
        self.categories = categories
        self.binning = binning
        self.n_bins = n_bins

    def fit(
        self,
        X: pd.DataFrame | ArrayLike,
        y: ArrayLike,
        *,
        private: pd.Series[Any] | pd.DataFrame | ArrayLike | None = None,
    ) -> Self:
        """Learn from labelled rows.

        ``X`` of shape (n_rows, n_sensors): readings, one column per sensor; strings and missing
        values are welcome. ``y`` of shape (n_rows,): the public fact. ``private``: the private
        fact, or one column for each of several. Not looked at by methods that do not need it.
        """
        check_choice("categories", self.categories, CATEGORIES)
        table, public = check_readings(self, X, y)
        self.encoders_ = fit_encoders(
            table, strategy=self.binning, n_bins=self.n_bins, facts=[public]
        )
        self._names = [str(name) for name in table.columns]
        codes = self._encode(table)
        self._seen = [np.unique(column) for column in codes.T]
        self._averages = [
            _average(column, encoder)
            for column, encoder in zip(codes.T, self.encoders_, strict=True)
        ]
        features = self._features(codes)
        if not features.shape[1]:
            raise InputError("no sensor has a reading in any row, so there is nothing to hand on.")
        self.n_features_out_ = features.shape[1]
        self._learn(features, public, private)
        return self

    def _learn(self, features: Floats, public: Labels, private: Any) -> None:
        """Learn what a subclass needs to know of the features."""

    def _hand_on(self, features: Floats) -> Floats:
        """Return what becomes of the features."""
        return features

    def transform(self, X: pd.DataFrame | ArrayLike) -> Floats:
        """Return the numbers that the curator hands on, one row for each of X."""
        check_is_fitted(self, "encoders_")
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, reset=False, skip_check_array=True)
            return self._hand_on(self._features(self._encode(X)))
        array = validate_data(self, X, reset=False, dtype=None, ensure_all_finite="allow-nan")
        table = pd.DataFrame(array, columns=array_names(array.shape[1])).infer_objects()
        return self._hand_on(self._features(self._encode(table)))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return a name for each column that ``transform`` gives."""
        check_is_fitted(self, "encoders_")
        prefix = type(self).__name__.lower()
        names = [f"{prefix}{k}" for k in range(self.n_features_out_)]
        return np.asarray(names, dtype=object)

    def _encode(self, table: pd.DataFrame) -> Ints:
        return encode_table(table, list(zip(self._names, self.encoders_, strict=True)))

    def _features(self, codes: Ints) -> Floats:
        return np.concatenate([self._sensor(codes[:, t], t) for t in range(codes.shape[1])], axis=1)

    def _sensor(self, codes: Ints, t: int) -> Floats:
        encoder, known = self.encoders_[t], _known_codes(self.encoders_[t])
        if encoder.ordered or self.categories == "codes":
            return np.where(codes < known, codes, self._averages[t]).astype(np.float64)[:, None]
        shown = self._seen[t][self._seen[t] < known]
        return np.asarray(codes[:, None] == shown, dtype=np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = True
        tags.transformer_tags.preserves_dtype = []  # numbers made of codes, whatever came in
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _known_codes(encoder: Encoder) -> int:
    """Return how many codes stand for a reading; those for unknown and missing come after."""
    return encoder.n_codes - encoder.missing - (encoder.kind == "categories")


def _average(codes: Ints, encoder: Encoder) -> float:
    known = codes[codes < _known_codes(encoder)]
    return float(known.mean()) if len(known) else 0.0
