"""What is left out."""

import numpy as np
import pytest
from support.searches import rows

from discreet.design.left_out import leave_out


@pytest.mark.parametrize(("n_groups", "folds"), [(6, 2), (10, 2), (15, 3), (60, 5)])
def test_folds_have_five_groups_of_every_class_where_there_are_so_many(rng, n_groups, folds):
    sample, groups = rows(600, rng), np.arange(600) % n_groups
    assert len(leave_out(sample, groups, rng, n_folds=5).folds) == folds


@pytest.mark.parametrize("n_rows", [9_000, 60_000, 61_000, 100_000])
def test_of_many_rows_a_third_is_left_out_and_fewer_only_where_outputs_are_listed(rng, n_rows):
    sample = rows(n_rows, rng)
    listed, drawn = (
        leave_out(sample, None, rng, n_folds=5, listed=each).left_out for each in (True, False)
    )
    assert len(drawn) == -(-n_rows // 3)
    assert len(listed) <= 20_000 and len(listed) >= min(len(drawn), 15_000)
