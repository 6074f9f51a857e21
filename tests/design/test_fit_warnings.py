"""What a fit warns of."""

from dataclasses import replace

import numpy as np
import pytest
from support.expectations import expected_figures

from discreet.design.answers import Answers
from discreet.design.fit_warnings import warn_useless
from discreet.errors import UninformativeMappingWarning
from discreet.mapping.parts import Fact


def test_warnings_say_that_designs_without_a_fold_were_tried():
    found, fact = expected_figures(0.4, (0.6, 0.4)), Fact(name="fall", classes=("no", "yes"))
    taught = Answers(np.array([0, 1]), np.ones(2), np.array([0.5, 0.5]))
    told = (
        "a design without a fold answers 'fall' no better .* may be better or worse than this; the"
    )
    with pytest.warns(UninformativeMappingWarning, match=told):
        warn_useless(fact, found, taught, (0.4, 0.6), "Add rows.")
    with pytest.warns(UninformativeMappingWarning, match="left out.* the mapping answers 'fall'"):
        warn_useless(fact, replace(found, folds=1), taught, (0.4, 0.6), "Add rows.")
    constant = replace(taught, shares=np.array([1.0, 0.0]))
    with pytest.warns(UninformativeMappingWarning, match="learned from, .* the mapping answers"):
        warn_useless(fact, found, constant, (0.4, 0.6), "Add rows.")
