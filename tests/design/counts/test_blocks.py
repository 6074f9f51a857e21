"""Copies, chains and exclusive-ors are found; sensors that share only the cell are not."""

import tracemalloc

import numpy as np
import pytest
from support.matrices import crossed

from discreet.data.columns import Labels
from discreet.design.counts import blocks
from discreet.design.counts.blocks import (
    SensorDependence,
    find_blocks,
    find_dependence,
    join_alphabet,
    join_codes,
    sensors_depend,
)
from discreet.design.counts.counting import cell_index
from discreet.design.training_rows import Sample


def blocks_of(codes, cell, n_symbols=2):
    sizes = [int(column.max()) + 1 for column in codes.T]
    strength = SensorDependence(codes, sizes, cell).strength
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
        found = SensorDependence(codes, sizes, cell)
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
        SensorDependence(shuffled(codes, cell, rng), sizes, cell).together(apart)
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
    assert not SensorDependence(codes, sizes, cell).beyond()


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
    assert peak < 100e6


# --- Many codes ------------------------------------------------------------------------------


def sample_of(codes, cells, sizes, ordered=()):
    """Return rows of a public class in two and so many private ones, from the cell."""
    h, g = cells % 2, cells // 2
    facts = Labels("h", h, range(2)), Labels("g", g, range(int(g.max()) + 1))
    return Sample(np.asfortranarray(codes), tuple(sizes), facts[0], facts[1:], tuple(ordered))


def test_codes_within_the_budget_stay_as_they_are(rng):
    codes = rng.integers(10, size=(500, 100))
    sample = sample_of(codes, rng.integers(12, size=500), [10] * 100, [10] * 100)
    found, sizes = join_codes(sample, slice(0, 256), cell_index(sample.facts))
    np.testing.assert_array_equal(found, codes)
    assert sizes == [10] * 100


@pytest.mark.parametrize("at_once", [1, 100, 2**18])
def test_few_pairs_at_once_say_the_same_as_all(rng, monkeypatch, at_once):
    """To the last bit, wherever the sensors are cut."""
    cell, sizes = rng.integers(5, size=3000), [3, 9, 2, 30, 7, 7]
    codes = np.stack([rng.integers(size, size=3000) for size in sizes], axis=1)
    codes[:, 5] = np.where(rng.random(3000) < 0.5, codes[:, 4], codes[:, 5])
    monkeypatch.setattr(blocks, "_AT_ONCE", 2**40)
    whole = SensorDependence(codes, sizes, cell)
    monkeypatch.setattr(blocks, "_AT_ONCE", at_once)
    cut = SensorDependence(codes, sizes, cell)
    apart = np.triu(np.ones((6, 6), dtype=bool), 1)
    np.testing.assert_array_equal(whole.strength, cut.strength)
    assert whole.strength.any() and whole.together(apart) == cut.together(apart)


@pytest.mark.parametrize(("ordered", "most"), [(12, 5), (0, 5), (10, 4), (12, 3), (3, 3)])
def test_codes_are_joined_to_as_many_as_are_allowed(rng, ordered, most):
    counts = rng.integers(1, 50, size=12)
    new = join_alphabet(counts, ordered, most)
    assert set(new) == set(range(int(new.max()) + 1)) and new.max() < most
    assert (np.diff(new[:ordered]) >= 0).all()  # neighbours share a number, and keep their order
    assert not set(new[:ordered]) & set(new[ordered:])  # what is not on the line stays beside it


def test_rare_categories_are_joined_and_frequent_ones_stay():
    new = join_alphabet(np.array([500, 3, 2, 400, 1, 300]), 0, 4)
    assert len(set(new[[0, 3, 5]])) == 3 and len(set(new[[1, 2, 4]])) == 1


@pytest.mark.parametrize("ordered", [400, 0])
def test_copies_chains_and_exclusive_ors_of_many_codes_are_blocks(rng, ordered, monkeypatch):
    monkeypatch.setattr(blocks, "MOST_PAIRS", 4 * 160**2)  # 20 codes of each
    n, size = 6000, 400
    cell = rng.integers(4, size=n)
    codes = rng.integers(size, size=(n, 8))
    codes[:, 1] = np.where(rng.random(n) < 0.9, codes[:, 0], codes[:, 1])
    codes[:, 3] = np.clip(codes[:, 2] + rng.integers(-9, 10, size=n), 0, size - 1)
    if not ordered:  # of categories, neighbours mean nothing
        codes[:, 3] = (codes[:, 2] + rng.integers(3, size=n)) % size
    odd = rng.integers(2, size=n)
    codes[:, 4] = 200 * odd + rng.integers(200, size=n) * (ordered > 0)
    codes[:, 5] = 200 * (odd ^ (cell % 2)) + rng.integers(200, size=n) * (ordered > 0)
    sample = sample_of(codes, cell, [size] * 8, [ordered] * 8)
    ((_, found),) = find_dependence(sample)
    assert found.strength.shape == (8, 8)
    assert find_blocks(found.strength, [2] * 8) == [(0, 1), (2, 3), (4, 5)]


@pytest.mark.parametrize("ordered", [400, 0])
def test_sensors_of_many_codes_that_share_only_the_cell_are_no_block(rng, ordered):
    cell = rng.integers(12, size=5000)
    codes = (20 * cell[:, None] + rng.integers(200, size=(5000, 12))) % 400
    assert not sensors_depend(sample_of(codes, cell, [400] * 12, [ordered] * 12))


def test_joined_codes_are_counted_as_a_loop_counts_them(rng, monkeypatch):
    monkeypatch.setattr(blocks, "MOST_PAIRS", 4 * 30**2)
    codes, cell = rng.integers(40, size=(200, 3)), rng.integers(4, size=200)
    sample = sample_of(codes, cell, [40, 40, 40], [40, 0, 38])
    joined, sizes = join_codes(sample, slice(0, 3), cell)
    assert sum(sizes) <= 30
    slow = 0.0
    for k in range(4):  # Pearson's statistic of the first two, less its mean
        own = joined[cell == k]
        n, free = len(own), [len(set(own[:, t])) - 1 for t in (0, 1)]
        for a in range(sizes[0]):
            for b in range(sizes[1]):
                alone = sum(own[:, 0] == a) * sum(own[:, 1] == b) / n
                seen = sum((own[:, 0] == a) & (own[:, 1] == b))
                slow += 0.0 if alone == 0 else (seen - alone) ** 2 / alone
        slow -= free[0] * free[1] * n / (n - 1)
    apart = np.zeros((3, 3), dtype=bool)
    apart[0, 1] = True
    ((_, found),) = find_dependence(sample)
    assert found.together(apart)[0] == pytest.approx(slow)


def test_many_codes_take_little_memory(rng):
    """Pairs of all codes of ten sensors in four cells would take three gigabytes."""
    codes, cell = rng.integers(1000, size=(2000, 10)), rng.integers(4, size=2000)
    tracemalloc.start()
    sensors_depend(sample_of(codes, cell, [1000] * 10))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * 2**20


# --- Time that is over -----------------------------------------------------------------------


def test_what_was_not_looked_at_is_taken_to_depend(rng):
    sample = sample_of(rng.integers(3, size=(400, 6)), rng.integers(4, size=400), [3] * 6)
    told = []

    def stop(done):
        told.append(done)
        return len(told) == 3

    ((_, whole),) = find_dependence(sample)
    assert whole.complete and not whole.beyond()
    ((_, cut),) = find_dependence(sample, stop)
    assert not cut.complete and cut.beyond()
    assert told == sorted(told) and len(told) == 3 and told[0] == 0.0


def test_no_more_sensors_are_looked_at_once_time_is_over(rng):
    sample = sample_of(rng.integers(2, size=(50, 600)), rng.integers(4, size=50), [2] * 600)
    assert [first for first, _ in find_dependence(sample)] == [0, 256, 512]
    assert [first for first, _ in find_dependence(sample, lambda done: done > 0.4)] == [0, 256]
