import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.choices import LOSSES
from discreet.data.labels import Labels
from discreet.design import large_tensor
from discreet.design.code_solver import PackedRows
from discreet.design.heads import collapse, private_heads, public_heads
from discreet.design.kernels import AnovaKernel, CountKernel, ProductKernel, cross_gram
from discreet.design.large_tensor import TensorRisks, TensorSolver
from discreet.design.risks import GramRisks
from discreet.design.tensor_features import form_of, lifts_of, missing_share
from discreet.design.tensor_sweep import (
    TensorRows,
    feature_rows,
    tensor_slopes,
    tensor_sweep,
)
from discreet.design.weighted_rows import label_rows

LOGISTIC = LOSSES["logistic"]
exact_kernels = st.sampled_from([ProductKernel(), ProductKernel(0.3), AnovaKernel(2)])


def random_rows(rng, kernel, n_symbols=(2, 3, 2), n=60, n_outputs=None):
    sizes = tuple(rng.integers(2, 6, size=len(n_symbols)).tolist())
    codes = np.stack([rng.integers(size, size=n) for size in sizes], axis=1)
    facts = [Labels("h", np.arange(n) % 2, range(2)), Labels("g", np.arange(n) // 2 % 3, range(3))]
    labelled = label_rows(codes, sizes, facts)

    def heads(rows):
        return public_heads(rows, facts[0]) + private_heads(rows, facts[1])

    weighted_rows = labelled.weighted_rows(heads(labelled.by_kind))
    lifts = lifts_of(kernel, n_symbols)
    form = form_of(kernel, lifts, n_outputs or int(np.prod(n_symbols)))
    packed = weighted_rows.packed.unpack()
    rows = TensorRows(
        packed,
        weighted_rows.kinds,
        weighted_rows.counts,
        weighted_rows.signed_weights,
        form,
        lifts.scale,
    )
    tables = [rng.dirichlet(np.ones(z), size=x) for x, z in zip(sizes, n_symbols, strict=True)]
    distinct = collapse(codes, sizes)
    return rows, lifts, tables, (distinct, heads(distinct)), PackedRows(weighted_rows)


@given(seed=st.integers(0, 2**32 - 1), kernel=exact_kernels)
def test_products_of_features_are_the_kernel(seed, kernel):
    rng = np.random.default_rng(seed)
    rows, lifts, tables, _, _ = random_rows(rng, kernel)
    features = feature_rows(rows, lifts.vectors(tables))
    gram = cross_gram(kernel, tables, rows.codes, tables, rows.codes)
    assert rows.form.exact
    np.testing.assert_allclose(features @ features.T, gram, atol=1e-12)


def test_a_kernel_of_degree_one_is_the_count_kernel_and_a_constant(rng):
    kernel = AnovaKernel(1)
    rows, lifts, tables, _, _ = random_rows(rng, kernel)
    features = feature_rows(rows, lifts.vectors(tables))
    gram = 1.0 + cross_gram(CountKernel(), tables, rows.codes, tables, rows.codes)
    np.testing.assert_allclose(features @ features.T, gram, atol=1e-12)


@given(seed=st.integers(0, 2**32 - 1))
def test_the_missing_share_is_what_pairs_leave_of_the_trace(seed):
    rng = np.random.default_rng(seed)
    kernel, n_symbols = ProductKernel(), (2, 3, 2, 2)
    rows, lifts, tables, _, _ = random_rows(rng, kernel, n_symbols, n_outputs=10**6)
    assert not rows.form.exact
    vectors = lifts.vectors(tables)
    features = feature_rows(rows, vectors)
    whole = np.trace(cross_gram(kernel, tables, rows.codes, tables, rows.codes))
    share = 1.0 - np.sum(features**2) / whole
    assert missing_share(vectors, rows.codes) == pytest.approx(share, abs=1e-12)
    assert 0.0 <= share < 1.0


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), kernel=exact_kernels, threads=st.integers(1, 3))
def test_a_sweep_is_the_sum_over_features_written_out(seed, kernel, threads):
    rng = np.random.default_rng(seed)
    rows, lifts, tables, _, _ = random_rows(rng, kernel)
    vectors = lifts.vectors(tables)
    w = rng.normal(size=(len(rows.signed_weights), *rows.form.mask.shape)) * rows.form.mask
    found = tensor_sweep(rows, vectors, w, LOGISTIC, threads)
    features = feature_rows(rows, vectors)
    kept = np.flatnonzero(rows.form.mask.ravel())
    for h, matrix in enumerate(w):
        signed_weights = rows.signed_weights[h][rows.kinds] * (
            rows.counts if len(rows.counts) else 1.0
        )
        signs = np.where(signed_weights >= 0, 1.0, -1.0)
        margins = signs * (features @ matrix.ravel()[kept])
        assert found.values[h] == pytest.approx(np.abs(signed_weights) @ LOGISTIC.value(margins))
        sums = -(signed_weights * LOGISTIC.gradient(margins)) @ features
        np.testing.assert_allclose(found.sums[h].ravel()[kept], sums, atol=1e-12)


@pytest.mark.parametrize("kernel", [ProductKernel(), AnovaKernel(2)])
def test_slopes_in_the_vectors_are_numerical_slopes(kernel, rng):
    rows, lifts, tables, _, _ = random_rows(rng, kernel)
    vectors = lifts.vectors(tables)
    w = rng.normal(size=(len(rows.signed_weights), *rows.form.mask.shape)) * rows.form.mask
    weights = rng.normal(size=len(w))
    slopes = tensor_slopes(rows, vectors, w, LOGISTIC, weights)
    for t, (x, z) in ((0, (1, 1)), (1, (0, 2)), (2, (1, 1))):
        ends = []
        for step in (1e-6, -1e-6):
            moved = [vector.copy() for vector in vectors]
            moved[t][x, z] += step
            ends.append(weights @ tensor_sweep(rows, moved, w, LOGISTIC).values)
        assert slopes[t][x, z] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-7)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), kernel=exact_kernels, core=st.sampled_from([3, 600]))
def test_risks_and_gradients_are_those_of_the_gram_matrix(seed, kernel, core):
    rng = np.random.default_rng(seed)
    rows, lifts, tables, (distinct, heads), packed = random_rows(rng, kernel)
    regs = np.array([1e-2] + [1e-3] * (len(heads) - 1))
    twin = GramRisks(distinct, heads, kernel, LOGISTIC, regs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_tensor, "_CORE", core)
        solver = TensorSolver(rows, LOGISTIC, regs, tolerance=1e-13)
        risks = TensorRisks(solver, lifts, packed)
        found = risks.evaluate(tables)
    expected = twin.evaluate(tables)
    np.testing.assert_allclose(found.values, expected.values, atol=1e-9)
    weights = rng.normal(size=len(heads))
    slopes = [r.gradient(tables, v, weights) for r, v in ((risks, found), (twin, expected))]
    for ours, theirs in zip(*slopes, strict=True):
        # Rows of tables sum to 1: slopes count up to a constant in each row.
        ours, theirs = (g - g.mean(axis=1, keepdims=True) for g in (ours, theirs))
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
