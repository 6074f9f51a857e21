"""What is left out."""

import numpy as np
import pytest

from discreet.design.left_out import leave_out
from tests.support.searches import rows


@pytest.mark.parametrize(("n_groups", "folds"), [(6, 2), (10, 2), (15, 3), (60, 5)])
def test_folds_have_five_groups_of_every_class_where_there_are_so_many(rng, n_groups, folds):
    sample, groups = rows(600, rng), np.arange(600) % n_groups
    assert len(leave_out(sample, groups, rng, n_folds=5).folds) == folds
