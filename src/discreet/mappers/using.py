"""What a fitted mapper does with its mapping, by scikit-learn's conventions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from discreet.arrays import Ints
from discreet.mapping.mapping import Mapping


class UsesMapping(ClassifierMixin, TransformerMixin, BaseEstimator):
    """Draws symbols, decides on them, and describes itself."""

    mapping_: Mapping
    classes_: NDArray[Any]
    _names_in: list[str]
    random_state: int | np.random.RandomState | None

    def transform(self, X: pd.DataFrame | ArrayLike) -> Ints:
        """Draw the symbols that the sensors would send, n_rows by n_sensors.

        Without ``random_state`` they come from the system's cryptographic source and
        differ from call to call. With one they are repeatable, for experiments only.
        """
        check_is_fitted(self, "mapping_")
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, reset=False, skip_check_array=True)
        else:
            X = validate_data(self, X, reset=False, dtype=None, ensure_all_finite="allow-nan")
            # By name: the mapping may have left some of them out.
            X = pd.DataFrame(np.asarray(X), columns=self._names_in)
        return self.mapping_.transform(X, self._symbol_source())

    def fuse(self, Z: ArrayLike) -> NDArray[Any]:
        """Return the public class that each row of symbols speaks for."""
        check_is_fitted(self, "mapping_")
        places = {cls: i for i, cls in enumerate(self.mapping_.public.classes)}
        index = [places[cls] for cls in self.mapping_.fuse(Z).tolist()]
        return np.asarray(self.classes_[np.array(index, dtype=np.int64)])

    def predict(self, X: pd.DataFrame | ArrayLike) -> NDArray[Any]:
        """Return ``fuse(transform(X))``: what the fusion centre would answer."""
        return self.fuse(self.transform(X))

    def predict_proba(self, X: pd.DataFrame | ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each public class given symbols drawn for X."""
        symbols = self.transform(X)
        return self.mapping_.posterior(symbols)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the sensors."""
        check_is_fitted(self, "mapping_")
        return np.asarray(self.mapping_.names, dtype=object)

    def _symbol_source(self) -> np.random.Generator | None:
        if self.random_state is None:
            return None
        state = check_random_state(self.random_state)
        state.randint(2**31)  # what the learning took, and the mapping file tells
        return np.random.default_rng(state.randint(2**31))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # sending the same symbol twice would defeat the purpose
        tags.transformer_tags.preserves_dtype = []  # symbols are integers, whatever came in
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags
