import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from discreet.data.encoders import BinsEncoder, CategoriesEncoder
from discreet.design.feasible import structural_epsilon
from discreet.design.inputs import fill_unseen


def test_an_unseen_bin_lies_between_its_neighbours():
    encoder = BinsEncoder(edges=(0.5, 1.5, 2.5), missing=True)
    table = np.array([[0.9, 0.1], [0.5, 0.5], [0.3, 0.7], [0.5, 0.5], [0.5, 0.5]])
    filled = fill_unseen(table, np.array([5.0, 0.0, 5.0, 0.0, 0.0]), encoder)
    np.testing.assert_allclose(filled[1], [0.6, 0.4])
    np.testing.assert_allclose(filled[3], [0.3, 0.7])  # beyond the last: as the last
    np.testing.assert_allclose(filled[4], [0.6, 0.4])  # missing: the average row


def test_an_unknown_category_looks_like_the_average_reading():
    encoder = CategoriesEncoder(categories=("a", "b"), missing=True)
    table = np.array([[0.9, 0.1], [0.3, 0.7], [0.5, 0.5], [0.5, 0.5]])
    filled = fill_unseen(table, np.array([1.0, 3.0, 0.0, 0.0]), encoder)
    np.testing.assert_allclose(filled[2], 0.25 * table[0] + 0.75 * table[1])
    np.testing.assert_allclose(filled[3], filled[2])
    np.testing.assert_array_equal(filled[:2], table[:2])


@given(seed=st.integers(0, 2**32 - 1))
def test_filling_never_raises_the_structural_epsilon(seed):
    rng = np.random.default_rng(seed)
    encoder = BinsEncoder(edges=tuple(range(5)), missing=True)
    counts = rng.integers(0, 3, size=7).astype(float)
    counts[rng.integers(6)] = 1.0
    table = rng.dirichlet(np.ones(3), size=7)
    filled = fill_unseen(table, counts, encoder)
    np.testing.assert_allclose(filled.sum(axis=1), 1.0)
    assert structural_epsilon(filled) <= structural_epsilon(table[counts > 0]) + 1e-12
