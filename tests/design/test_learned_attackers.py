"""What attackers learn, however the symbols that they learn from are held."""

import numpy as np
import pytest

from discreet.design import learned_attackers


@pytest.mark.parametrize("n_symbols", [[30, 2, 40], [2, 2, 50]], ids=str)
def test_states_of_many_symbols_are_the_same_in_a_sparse_matrix(n_symbols, monkeypatch):
    """Codes of raw readings took a gigabyte in a table of ones and zeros."""
    rng, n_symbols = np.random.default_rng(27), np.array(n_symbols)
    symbols, index = rng.integers(n_symbols, size=(600, 3)), rng.integers(2, size=600)
    found = []
    for few in (1, 100):
        monkeypatch.setattr(learned_attackers, "_FEW_SYMBOLS", few)
        found.append(learned_attackers.learn_states(symbols, index, n_symbols)(symbols[:50]))
    np.testing.assert_allclose(*found, rtol=1e-9)
