import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from discreet.design.large import quiet_tables


@given(
    seed=st.integers(0, 2**32 - 1),
    n_public=st.integers(1, 3),
    n_private=st.integers(0, 3),
    n_symbols=st.lists(st.integers(2, 4), min_size=2, max_size=2),
)
def test_private_heads_see_nothing_and_rows_are_distributions(seed, n_public, n_private, n_symbols):
    rng = np.random.default_rng(seed)
    sizes = (6, 9)
    masses = rng.integers(0, 20, size=15).astype(float)
    masses[[0, 6]] = 1.0
    sums = rng.normal(size=(n_public + n_private, 15)) * (masses > 0)
    sums[n_public:] -= masses * sums[n_public:].sum(axis=1, keepdims=True) / masses.sum()
    tables = quiet_tables(sums, masses, n_public, sizes, n_symbols)
    for table, part in zip(tables, np.split(np.arange(15), [6]), strict=True):
        assert np.all(table > 0)
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
        for head in sums[n_public:, part]:
            # Whatever symbol is sent, its total is that of a sensor that says nothing.
            np.testing.assert_allclose(head @ table, head.sum() / table.shape[1], atol=1e-9)


def test_a_sensor_that_could_only_tell_the_private_fact_stays_silent():
    sums = np.array([[1.0, -1.0], [1.0, -1.0]])
    (table,) = quiet_tables(sums, np.ones(2), 1, (2,), (2,))
    np.testing.assert_allclose(table, 0.5)
