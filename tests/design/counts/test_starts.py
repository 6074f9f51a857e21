"""Programs of single sensors are solved, alone or together, and hops change few tables."""

import numpy as np
from support.count_problems import SIZES, SYMBOLS
from support.count_worlds import random_model, random_tables

from discreet.design.counts.starts import WAYS, find_starts, hop_from, solve_programs


def test_programs_of_single_sensors_beat_a_search_at_random():
    rng = np.random.default_rng(0)
    use, shown = rng.normal(size=(4, 5)), rng.normal(size=(4, 3, 5))

    def value(q):
        leak = np.einsum("tjk,...tk->...tj", shown, q)
        return np.sum(use * q, axis=-1) - 2.0 * np.sum(leak**2, axis=-1)

    best = value(solve_programs(use, np.sqrt(2.0) * shown))
    assert np.all(best >= value(rng.random((20_000, 4, 5))).max(axis=0) - 1e-6)


def test_starts_that_are_found_together_are_those_found_alone():
    model = random_model(SIZES, block=(), seed=0)
    together = find_starts(model, SYMBOLS, WAYS)
    for way, tables in zip(WAYS, together, strict=True):
        (alone,) = find_starts(model, SYMBOLS, [way])
        for table, other, n in zip(tables, alone, SYMBOLS, strict=True):
            np.testing.assert_allclose(table, other, atol=1e-6)
            assert table.shape[1] == n
            np.testing.assert_allclose(table.sum(axis=1), 1.0)


def test_a_hop_redraws_some_codes_of_one_or_two_sensors(rng):
    tables = random_tables(SIZES, SYMBOLS)
    for _ in range(50):
        changed = []
        for table, other in zip(tables, hop_from(tables, rng), strict=True):
            np.testing.assert_allclose(other.sum(axis=1), 1.0)
            changed.append(bool((table != other).any()))
        assert sum(changed) <= 2
