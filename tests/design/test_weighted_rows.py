import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.choices import LOSSES
from discreet.data.labels import Labels
from discreet.design.heads import collapse, private_heads, public_heads
from discreet.design.packing import pack
from discreet.design.sweep import plain_sweep
from discreet.design.weighted_rows import count_equal, label_rows


def random_rows(rng, n, sizes, classes):
    codes = np.stack([rng.integers(size, size=n) for size in sizes], axis=1)
    facts = [
        Labels(f"f{k}", np.r_[np.arange(m), rng.integers(m, size=n - m)], range(m))
        for k, m in enumerate(classes)
    ]
    return codes, facts


@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.sampled_from([(2, 2), (4, 3, 5), (16, 300)]),
    classes=st.sampled_from([(2, 2), (3, 2), (2, 4, 3)]),
    normalised=st.booleans(),
)
def test_weighted_rows_give_the_risk_of_heads_on_distinct_rows(seed, sizes, classes, normalised):
    rng = np.random.default_rng(seed)
    codes, facts = random_rows(rng, 80, sizes, classes)
    loss, table = LOSSES["logistic"], rng.normal(size=sum(sizes))
    labelled = label_rows(codes, sizes, facts)
    distinct = collapse(codes, sizes)

    def heads(rows):
        private = [h for f in facts[1:] for h in private_heads(rows, f, normalised=normalised)]
        return public_heads(rows, facts[0]) + private

    weighted_rows = labelled.weighted_rows(heads(labelled.by_kind))
    expected = heads(distinct)
    found = plain_sweep(weighted_rows, np.repeat(table[None], len(expected), axis=0), loss)
    scores = table[distinct.codes + labelled.packed.layout.offsets].sum(axis=1)
    for h, head in enumerate(expected):
        value = head.pos @ loss.value(scores) + head.neg @ loss.value(-scores)
        assert found.values[h] == pytest.approx(value, rel=1e-10)
    assert labelled.n_rows == 80


def test_equal_rows_are_counted_where_that_is_shorter(rng):
    codes, facts = random_rows(rng, 400, (2, 2), (2, 2))
    labelled = label_rows(codes, (2, 2), facts)
    assert len(labelled.packed) <= 16
    assert labelled.counts.sum() == 400
    codes, facts = random_rows(rng, 400, (16,) * 8, (2, 2))
    labelled = label_rows(codes, (16,) * 8, facts)
    assert len(labelled.packed) == 400
    assert not len(labelled.counts)


@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([2, 5, 300]))
def test_counting_finds_every_distinct_row_once(seed, size):
    rng = np.random.default_rng(seed)
    codes = rng.integers(size, size=(60, 2))
    kinds = rng.integers(2, size=60).astype(np.uint8)
    first, counts = count_equal(pack(codes, (size, size)), kinds)
    rows = np.column_stack([codes, kinds])
    distinct, times = np.unique(rows, axis=0, return_counts=True)
    order = np.lexsort(rows[first].T[::-1])
    np.testing.assert_array_equal(rows[first][order], distinct)
    np.testing.assert_array_equal(counts[order], times)


def test_rows_that_only_seem_equal_are_kept_apart(rng, monkeypatch):
    codes = rng.integers(5, size=(60, 2))
    kinds = np.zeros(60, dtype=np.uint8)
    monkeypatch.setattr("discreet.design.weighted_rows._MIXER", np.uint64(0))  # all numbers collide
    first, counts = count_equal(pack(codes, (5, 5)), kinds)
    np.testing.assert_array_equal(first, np.arange(60))
    np.testing.assert_array_equal(counts, np.ones(60))
