"""Counts add up, and are what a loop over the rows counts."""

import numpy as np
import pandas as pd
import pytest
from support.count_worlds import draw_sample

from discreet.data.columns import Labels
from discreet.data.encoders import CodesEncoder
from discreet.design.counts import counting
from discreet.design.counts.counting import (
    FOLDS,
    PairCounts,
    Part,
    Plan,
    add_up,
    cell_index,
    count_codes,
    in_turn,
)


def facts_of(sample):
    return [sample.public, *sample.private]


def test_counts_are_those_of_a_loop():
    sample = draw_sample(60)
    facts = facts_of(sample)
    counts, cell = count_codes(sample.codes, sample.sizes, facts), cell_index(facts)
    for t, size in enumerate(sample.sizes):
        slow = np.zeros((FOLDS, 6, size), dtype=int)
        for i, row in enumerate(sample.codes):
            slow[i % FOLDS, cell[i], row[t]] += 1
        np.testing.assert_array_equal(counts.by_code[t], slow)
    np.testing.assert_array_equal(counts.facts[cell].T, [fact.index for fact in facts])


def test_counts_of_batches_add_up():
    sample = draw_sample(101)
    whole = count_codes(sample.codes, sample.sizes, facts_of(sample))
    parts = []
    for first in range(0, 101, 17):
        numbers = np.arange(first, min(first + 17, 101))
        part = sample.take(numbers)
        parts.append(count_codes(part.codes, sample.sizes, facts_of(part), numbers))
    for order in (parts, parts[::-1]):
        total = sum(order[1:], start=order[0])
        for a, b in zip(total.by_code, whole.by_code, strict=True):
            np.testing.assert_array_equal(a, b)


def test_pairs_are_those_of_a_loop():
    sample = draw_sample(50)
    cell, edges = cell_index(facts_of(sample)), np.cumsum([0, *sample.sizes])[:-1]
    slow, single = np.zeros((6, 9, 9), dtype=int), np.zeros((6, 9), dtype=int)
    for c, row in zip(cell, sample.codes + edges, strict=True):
        for a in row:
            single[c, a] += 1
            for b in row:
                slow[c, a, b] += 1
    pairs = PairCounts(sample.codes, sample.sizes, cell)
    owner = np.repeat(np.arange(3), sample.sizes)
    slow *= owner[:, None] <= owner  # each two sensors once
    for k in range(6):
        np.testing.assert_array_equal(pairs.count(k, range(3)), slow[k])
        np.testing.assert_array_equal(pairs.count(k, range(1, 3)), slow[k, 3:, 3:])
    np.testing.assert_array_equal(pairs.single, single)
    np.testing.assert_array_equal(pairs.totals, np.bincount(cell))


@pytest.mark.parametrize("counters", [1, 1 << 15], ids=["apart", "as one"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
@pytest.mark.parametrize("cuts", [[], [1000, 3000], [5, 2999, 3000]], ids=str)
def test_a_pass_counts_the_same_in_any_parts_and_joined_or_not(cuts, dtype, counters, monkeypatch):
    """One of the parts has no row to learn from; codes of several columns exceed a byte."""
    monkeypatch.setattr(counting, "_MOST_COUNTERS", counters)
    rng, sizes, n_rows = np.random.default_rng(29), (10, 10, 10, 2, 100), 5000
    codes, labels = rng.integers(sizes, size=(n_rows, 5)), rng.integers([3, 2], size=(n_rows, 2))
    kept = rng.random(n_rows) < 0.7
    kept[1000:3000] = False
    table = pd.DataFrame({f"s{t}": column.astype(dtype) for t, column in enumerate(codes.T)})
    sensors = tuple((f"s{t}", CodesEncoder(size=size)) for t, size in enumerate(sizes))
    h, g = labels.T.astype(np.uint8)
    parts = [
        Part(table[a:b], a, kept[a:b], int(kept[:a].sum()), (h[a:b], g[a:b]))
        for a, b in zip([0, *cuts], [*cuts, n_rows], strict=True)
    ]
    plan = Plan(sensors, (3, 2))
    found = add_up(plan, in_turn(plan, parts))
    facts = [Labels("h", h[kept], range(3)), Labels("g", g[kept], range(2))]
    for own, slow in zip(
        found.counts.by_code, count_codes(codes[kept], sizes, facts).by_code, strict=True
    ):
        np.testing.assert_array_equal(own, slow)
    none = [Part(table, 0, np.zeros(n_rows, dtype=bool), 0, (h, g))]
    assert sum(each.sum() for each in add_up(plan, in_turn(plan, none)).counts.by_code) == 0
