"""Counts add up, and are what a loop over the rows counts."""

import numpy as np
from support.count_worlds import draw_sample

from discreet.design.counts.counting import FOLDS, PairCounts, cell_index, count_codes


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
