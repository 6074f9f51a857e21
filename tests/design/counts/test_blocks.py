"""Copies, chains and exclusive-ors are found; sensors that share only the cell are not."""

import tracemalloc

import numpy as np
import pytest
from support.matrices import crossed

from discreet.data.columns import Labels
from discreet.design.counts.blocks import (
    SensorDependence,
    find_blocks,
    find_dependence,
    sensors_depend,
)
from discreet.design.counts.counting import count_pairs
from discreet.design.training_rows import Sample


def blocks_of(codes, cell, n_symbols=2):
    sizes = [int(column.max()) + 1 for column in codes.T]
    strength = SensorDependence(count_pairs(codes, sizes, cell), sizes).strength
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
        found = SensorDependence(count_pairs(codes, sizes, cell), sizes)
        assert found.beyond(find_blocks(found.strength, sizes)) is told


def shuffled(codes, cell, rng):
    """Return the codes of each sensor in another order within every cell."""
    found = codes.copy()
    for t in range(codes.shape[1]):
        for k in np.unique(cell):
            rows = np.flatnonzero(cell == k)
            found[rows, t] = codes[rng.permutation(rows), t]
    return found


@pytest.mark.parametrize("n_rows", [12, 60, 400])
def test_the_moments_of_all_pairs_are_those_of_shuffled_codes(n_rows):
    """500 shuffles: their mean and variance lie around ours as far as so many tell."""
    rng = np.random.default_rng(0)
    sizes = [2, 5, 9, 3]
    cell = rng.integers(3, size=n_rows)
    codes = np.stack([rng.integers(size, size=n_rows) for size in sizes], axis=1)
    codes[rng.random(codes.shape) < 0.5] = 0  # some codes are rare
    apart = np.triu(np.ones((4, 4), dtype=bool), 1)
    apart[1, 3] = False
    drawn = [
        SensorDependence(count_pairs(shuffled(codes, cell, rng), sizes, cell), sizes).together(
            apart
        )
        for _ in range(500)
    ]
    excess, variance = np.array(drawn).T
    assert np.ptp(variance) < 1e-9 * variance[0]  # shuffling leaves the margins as they are
    assert abs(excess.mean()) < 4.0 * np.sqrt(variance[0] / 500)
    assert excess.var() == pytest.approx(variance[0], rel=0.35)


@pytest.mark.parametrize(("n_rows", "n_sensors", "n_codes"), [(300, 40, 10), (3000, 60, 3)])
def test_many_independent_sensors_do_not_depend_together(n_rows, n_sensors, n_codes):
    rng = np.random.default_rng(0)
    cell = rng.integers(4, size=n_rows)
    sizes = [n_codes] * n_sensors
    codes = np.minimum(cell[:, None] + rng.integers(n_codes, size=(n_rows, n_sensors)), n_codes - 1)
    assert not SensorDependence(count_pairs(codes, sizes, cell), sizes).beyond()


def weakly_tied(n_rows, n_sensors, tie, rng):
    """Return two facts, and readings that follow a hidden sign in one private class only.

    No two sensors show it: their correlation is about the square of ``tie``.
    """
    h, g = rng.integers(2, size=(2, n_rows))
    sign = rng.choice([-1.0, 1.0], size=(n_rows, 1)) * (g == 1)[:, None]
    spread = np.where(g == 1, np.sqrt(1.0 - tie**2), 1.0)[:, None]
    readings = tie * sign + spread * rng.normal(size=(n_rows, n_sensors))
    return h, g, readings + 0.4 * h[:, None]


def test_what_each_two_of_many_sensors_hardly_show_is_told_of_all_together():
    rng = np.random.default_rng(0)
    h, g, readings = weakly_tied(6000, 30, 0.35, rng)
    codes = np.digitize(readings, [-1.0, 0.0, 1.0])
    sample = Sample(codes, (4,) * 30, Labels("h", h, range(2)), (Labels("g", g, range(2)),))
    ((_, dependence),) = find_dependence(sample)
    assert not dependence.strength.any()
    assert sensors_depend(sample)


def test_many_cells_take_no_more_memory_than_one():
    """The counts of all twenty cells at once are 640 megabytes."""
    rng = np.random.default_rng(0)
    codes, g = rng.integers(10, size=(1000, 200)), rng.integers(10, size=1000)
    facts = Labels("h", g % 2, range(2)), Labels("g", g, range(10))
    tracemalloc.start()
    sensors_depend(Sample(codes, (10,) * 200, facts[0], facts[1:], (10,) * 200))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 400e6
