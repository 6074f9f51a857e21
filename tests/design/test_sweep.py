import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.choices import LOSSES
from discreet.design import sweep as module
from discreet.design.packing import pack
from discreet.design.sweep import (
    COMPILED_LOSSES,
    WeightedRows,
    compiled_sweep,
    has_numba,
    plain_sweep,
    sweep,
)

needs_numba = pytest.mark.skipif(
    not has_numba(), reason="the compiled sweep needs numba (extra 'fast')"
)
each_loss = pytest.mark.parametrize("loss", [LOSSES[name] for name in COMPILED_LOSSES])
alphabets = st.lists(st.sampled_from([2, 3, 9, 16, 40, 256, 300]), min_size=1, max_size=40)


def random_weighted_rows(rng, sizes, n=200, heads=2, counted=False):
    codes = np.stack([rng.integers(size, size=n) for size in sizes], axis=1)
    signed_weights = rng.normal(size=(heads, 4)) / max(n, 1)
    signed_weights[:, rng.integers(4)] = 0.0  # a kind of rows that a head does not look at
    counts = rng.integers(1, 9, size=n).astype(float) if counted else np.empty(0)
    kinds = rng.integers(4, size=n).astype(np.uint8)
    return WeightedRows(pack(codes, sizes), kinds, counts, signed_weights), codes


@each_loss
@pytest.mark.parametrize("counted", [False, True])
def test_the_plain_sweep_is_the_sum_over_rows(loss, counted, rng):
    weighted_rows, codes = random_weighted_rows(rng, (3, 16, 300), n=30, counted=counted)
    offsets = (0, 3, 19)
    tables = rng.normal(size=(2, 319))
    found = plain_sweep(weighted_rows, tables, loss)
    for h in range(2):
        value, sums = 0.0, np.zeros(319)
        for i, row in enumerate(codes):
            places = [offset + code for offset, code in zip(offsets, row, strict=True)]
            vote = weighted_rows.signed_weights[h, weighted_rows.kinds[i]] * (
                weighted_rows.counts[i] if counted else 1.0
            )
            sign = 1.0 if vote >= 0 else -1.0
            margin = np.array(sign * sum(tables[h, place] for place in places))
            value += abs(vote) * float(loss.value(margin))
            for place in places:
                sums[place] -= vote * float(loss.gradient(margin))
        assert found.values[h] == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(found.sums[h], sums, atol=1e-14)


@each_loss
def test_the_sums_are_minus_the_slope_of_the_value(loss, rng):
    weighted_rows, _ = random_weighted_rows(rng, (3, 4, 5))
    tables = rng.normal(size=(2, 12))
    sums = plain_sweep(weighted_rows, tables, loss).sums
    for h, place in ((0, 1), (1, 7), (1, 11)):
        ends = []
        for step in (1e-6, -1e-6):
            moved = tables.copy()
            moved[h, place] += step
            ends.append(plain_sweep(weighted_rows, moved, loss).values[h])
        assert -sums[h, place] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-9)


@needs_numba
@settings(max_examples=60, deadline=None)
@given(
    sizes=alphabets,
    n=st.sampled_from([0, 1, 7, 2048, 2049, 5000]),
    heads=st.integers(1, 4),
    counted=st.booleans(),
    loss=st.sampled_from(COMPILED_LOSSES),
    scale=st.sampled_from([0.0, 0.1, 3.0]),
    seed=st.integers(0, 2**32 - 1),
)
@pytest.mark.slow
def test_the_compiled_sweep_is_its_plain_twin(sizes, n, heads, counted, loss, scale, seed):
    rng = np.random.default_rng(seed)
    weighted_rows, _ = random_weighted_rows(rng, sizes, n, heads, counted)
    tables = scale * rng.normal(size=(heads, sum(sizes))) / len(sizes) ** 0.5
    expected = plain_sweep(weighted_rows, tables, LOSSES[loss])
    found = compiled_sweep(weighted_rows, tables, LOSSES[loss], 1)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-12, atol=1e-14)
    largest = np.abs(expected.sums).max() if n else 0.0
    np.testing.assert_allclose(found.sums, expected.sums, rtol=1e-10, atol=1e-12 * largest)


@needs_numba
@pytest.mark.parametrize("score", [0.0, 1e-12, 30.0, 100.0, 499.0, 800.0, -30.0, -499.0, -800.0])
@each_loss
@pytest.mark.slow
def test_large_scores_neither_overflow_nor_lose_their_digits(loss, score):
    weighted_rows = WeightedRows(
        pack(np.zeros((1, 1), dtype=np.int64), (2,)),
        np.zeros(1, dtype=np.uint8),
        np.empty(0),
        np.array([[1.0], [-1.0]]),
    )
    tables = np.full((2, 2), score)
    found, twin = (f(weighted_rows, tables, loss) for f in (_compiled_alone, plain_sweep))
    np.testing.assert_allclose(found.values, twin.values, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(found.sums, twin.sums, rtol=1e-12, atol=1e-300)


def _compiled_alone(weighted_rows, tables, loss):
    return compiled_sweep(weighted_rows, tables, loss, 1)


@needs_numba
@settings(max_examples=10, deadline=None)
@given(threads=st.integers(2, 9), seed=st.integers(0, 2**32 - 1), counted=st.booleans())
@pytest.mark.slow
def test_any_number_of_threads_gives_the_same_bits(threads, seed, counted):
    rng = np.random.default_rng(seed)
    weighted_rows, _ = random_weighted_rows(rng, (16,) * 5 + (300,), 5000, 2, counted)
    tables = rng.normal(size=(2, 380))
    rows, module._SEGMENT_ROWS = module._SEGMENT_ROWS, 311
    try:
        alone = compiled_sweep(weighted_rows, tables, LOSSES["logistic"], 1)
        together = compiled_sweep(weighted_rows, tables, LOSSES["logistic"], threads)
    finally:
        module._SEGMENT_ROWS = rows
    np.testing.assert_array_equal(alone.values, together.values)
    np.testing.assert_array_equal(alone.sums, together.sums)


def test_without_numba_the_plain_sweep_is_taken(rng, monkeypatch):
    weighted_rows, _ = random_weighted_rows(rng, (4, 4), n=60)
    monkeypatch.setattr(module, "_WORTH_COMPILING", 1)
    monkeypatch.setattr(module, "has_numba", lambda: False)
    tables = rng.normal(size=(2, 8))
    found, twin = (f(weighted_rows, tables, LOSSES["logistic"]) for f in (sweep, plain_sweep))
    np.testing.assert_array_equal(found.sums, twin.sums)


def test_few_rows_do_not_load_numba(rng, monkeypatch):
    weighted_rows, _ = random_weighted_rows(rng, (4, 4), n=60)
    monkeypatch.setattr(module, "_compiled_parts", None)  # would fail if it were called
    tables = rng.normal(size=(2, 8))
    found, twin = (f(weighted_rows, tables, LOSSES["logistic"]) for f in (sweep, plain_sweep))
    np.testing.assert_array_equal(found.sums, twin.sums)


def test_threads_follow_the_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert module.default_threads() == 3
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert module.default_threads() >= 1
