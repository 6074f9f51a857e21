"""Copies, chains and exclusive-ors are found; sensors that share only the cell are not."""

import numpy as np
import pytest
from support.matrices import crossed

from discreet.design.counts.counting import count_pairs
from discreet.design.counts.estimate import _depends_beyond, dependence, find_blocks


def blocks_of(codes, cell, n_symbols=2):
    sizes = [int(column.max()) + 1 for column in codes.T]
    strength = dependence(count_pairs(codes, sizes, cell, int(cell.max()) + 1), sizes)
    return find_blocks(strength, [n_symbols] * len(sizes))


@pytest.mark.parametrize("seed", range(5))
def test_sensors_that_share_the_cell_are_no_block(seed):
    rng = np.random.default_rng(seed)
    cell = rng.integers(6, size=600)
    codes = np.minimum(cell[:, None] + rng.integers(0, 4, size=(600, 8)), 7)
    assert blocks_of(codes, cell) == []


CODES_AND_ROWS = crossed(
    [4, 8, 16],
    [300, 1000, 3000, 10_000],
    kept=[(16, 300), (16, 1000), (8, 3000), (4, 10_000)],
)


@pytest.mark.parametrize(("n_codes", "n_rows"), CODES_AND_ROWS)
def test_counts_of_about_one_are_no_dependence(n_codes, n_rows):
    rng = np.random.default_rng(0)
    cell = rng.integers(12, size=n_rows)
    assert blocks_of(rng.integers(n_codes, size=(n_rows, 16)), cell) == []


def test_copies_chains_and_exclusive_ors_are_blocks():
    rng = np.random.default_rng(0)
    cell = rng.integers(4, size=1000)
    codes = np.minimum(cell[:, None] + rng.integers(0, 3, size=(1000, 7)), 5)
    codes[:, 1] = np.where(rng.random(1000) < 0.9, codes[:, 0], codes[:, 1])
    codes[:, 3] = np.clip(codes[:, 2] + rng.integers(-1, 2, size=1000), 0, 5)
    codes[:, 4] = rng.integers(2, size=1000)
    codes[:, 5] = codes[:, 4] ^ (cell % 2)
    assert blocks_of(codes, cell) == [(0, 1), (2, 3), (4, 5)]


def test_a_block_stays_small_enough_to_list():
    rng = np.random.default_rng(0)
    codes = np.repeat(rng.integers(3, size=(400, 1)), 9, axis=1)
    found = blocks_of(codes, np.zeros(400, dtype=int))
    assert max(map(len, found)) == 5
    found = blocks_of(codes, np.zeros(400, dtype=int), n_symbols=4)
    assert max(map(len, found)) == 2


def test_dependence_that_no_block_holds_is_told():
    """Eight sensors follow one state; a block has room for five. A copy is held by its block."""
    rng = np.random.default_rng(0)
    cell, state = rng.integers(2, size=(2, 4000))
    noise = rng.random((4000, 8)) < 0.2
    for codes, told in ((state[:, None] ^ noise, True), (np.tile(state, (2, 1)).T, False)):
        codes = codes.astype(np.int64)
        sizes = [2] * codes.shape[1]
        strength = dependence(count_pairs(codes, sizes, cell, 2), sizes)
        assert _depends_beyond(strength, find_blocks(strength, sizes)) is told
