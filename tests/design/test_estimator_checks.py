"""scikit-learn's own estimator checks, for every mapper."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from discreet import BayesErrorMapper, NDDMapper, NPOMapper
from discreet.errors import UninformativeMappingWarning

# Checks that the mappers do not pass, each with its reason. Nothing else is excused.
EXCEPTIONS: dict[str, str] = {}


def with_private(mapper):
    """Return a thin subclass that supplies the private fact the checks do not know of."""

    class Supplied(mapper):
        def fit(self, X, y, *, private=None, groups=None):
            if private is None and hasattr(X, "__len__"):
                # Alternating, so that it is neither constant nor the public fact.
                private = np.arange(X.shape[0] if hasattr(X, "shape") else len(X)) % 2
            return super().fit(X, y, private=private, groups=groups)

    Supplied.__name__ = mapper.__name__
    return Supplied


@parametrize_with_checks(
    [
        with_private(mapper)(n_restarts=2, random_state=0)
        for mapper in (NPOMapper, NDDMapper, BayesErrorMapper)
    ],
    expected_failed_checks=lambda estimator: EXCEPTIONS,
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn_accepts(estimator, check):
    check(estimator)


def test_the_warning_that_the_checks_may_meet_is_ours():
    assert issubclass(UninformativeMappingWarning, UserWarning)
