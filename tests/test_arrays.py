import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.arrays import distinct_rows


@given(
    seed=st.integers(0, 2**32 - 1),
    n_columns=st.integers(1, 40),
    n=st.integers(0, 60),
    high=st.sampled_from([1, 2, 16, 10**6, 2**62]),
)
def test_distinct_rows_are_those_that_numpy_finds(seed, n_columns, n, high):
    rng = np.random.default_rng(seed)
    table = rng.integers(-high // 2, high, size=(n, n_columns))
    if n:
        table = table[rng.integers(n, size=n)]
    rows, inverse, counts = np.unique(table, axis=0, return_inverse=True, return_counts=True)
    found = distinct_rows(table)
    np.testing.assert_array_equal(found.rows, rows)
    np.testing.assert_array_equal(found.inverse, inverse.ravel())
    np.testing.assert_array_equal(found.counts, counts)


@pytest.mark.parametrize("ends", [(-(2**63), 2**63 - 1), (-(2**63), 0), (0, 2**63 - 1)])
def test_columns_of_any_width_are_told_apart(ends):
    table = np.array([[ends[1], 1], [ends[0], 2], [ends[1], 0], [ends[0], 2]])
    rows = np.unique(table, axis=0)
    np.testing.assert_array_equal(distinct_rows(table).rows, rows)
