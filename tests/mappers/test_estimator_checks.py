"""scikit-learn's own estimator checks, for every mapper."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from discreet import (
    BayesErrorMapper,
    Mapper,
    NDDMapper,
    NPOMapper,
    RandomizedResponseMapper,
)
from discreet.design.left_out import Parts
from discreet.mappers import auto_mapper, base

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_estimate(monkeypatch):
    """Leave out what is expected of new rows: it takes longest and changes no table."""
    for module in (base, auto_mapper):
        monkeypatch.setattr(module, "leave_out", lambda *_, **__: Parts())


class Supplied:
    """Supplies the private fact that the checks do not know of: the parity of the row."""

    def fit(self, X, y, *, private=None, **more):
        if private is None and y is not None:
            private = np.arange(len(np.asarray(y))) % 2
        return super().fit(X, y, private=private, **more)


class SuppliedNPO(Supplied, NPOMapper):
    pass


class SuppliedCounts(Supplied, Mapper):
    pass


class SuppliedResponse(Supplied, RandomizedResponseMapper):
    pass


@parametrize_with_checks(
    [
        # Three symbols and loose limits: one check asks for 0.83 accuracy on three classes.
        SuppliedNPO(n_symbols=3, n_restarts=1, privacy_ratio=0.5, random_state=0),
        SuppliedCounts(n_symbols=3, n_bins=5, privacy_ratio=0.2, n_restarts=1, random_state=0),
        SuppliedResponse(n_symbols=3, ldp_epsilon=8.0, random_state=0),
    ]
)
@pytest.mark.filterwarnings("ignore::discreet.errors.UninformativeMappingWarning")
def test_scikit_learn_accepts(estimator, check):
    check(estimator)


@pytest.mark.parametrize("mapper", [BayesErrorMapper, NDDMapper])
def test_a_mapper_with_another_objective_has_the_methods_that_were_checked(mapper):
    own = set(vars(mapper)) - set(vars(NPOMapper))
    assert own <= {"_normalised", "_constrained", "_advice", "_check_parameters"}
    assert mapper.__bases__ == NPOMapper.__bases__ and mapper.__init__ is NPOMapper.__init__
