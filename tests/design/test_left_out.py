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
def test_a_third_of_many_rows_is_left_out_and_more_than_20000_only_of_a_sample(rng, n_rows):
    """And where outputs are too many to list: each row left out would show all of them."""
    sample = rows(n_rows, rng)

    def count(**how):
        return len(leave_out(sample, None, rng, n_folds=5, **how).left_out)

    assert count(listed=False, sampled=True) == -(-n_rows // 3)
    for few in (count(listed=False), count(listed=True, sampled=True), count(listed=True)):
        assert min(-(-n_rows // 3), 15_000) <= few <= 20_000
