import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag

from discreet.choices import LOSSES
from discreet.design import code_models
from discreet.design.code_models import CodeModels, Curvatures, Features
from discreet.design.packing import pack
from discreet.design.sweep import WeightedRows, has_numba, plain_sweep

LOGISTIC = LOSSES["logistic"]
SIZES = (3, 5, 2)


def random_weighted_rows(rng, n=120):
    codes = np.stack([rng.integers(size, size=n) for size in SIZES], axis=1)
    kinds = ((codes[:, 0] + rng.integers(3, size=n)) % 4).astype(np.uint8)
    signed_weights = np.array([[1.0, 1.0, -1.0, -1.0], [0.5, -2.0, 0.0, 1.0]]) / n
    return WeightedRows(pack(codes, SIZES), kinds, np.empty(0), signed_weights)


def random_tables(rng, n_symbols=(2, 3, 2)):
    return [rng.dirichlet(np.ones(z), size=x) for x, z in zip(SIZES, n_symbols, strict=True)]


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), compiled=st.booleans())
@pytest.mark.slow
def test_curvatures_are_the_slopes_of_the_sums(seed, compiled):
    rng = np.random.default_rng(seed)
    weighted_rows, scores = random_weighted_rows(rng), rng.normal(size=(2, 10))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code_models, "has_numba", lambda: compiled and has_numba())
        found = Curvatures(weighted_rows, LOGISTIC, 1000).at(scores)
    for h in range(2):
        for place in range(10):
            ends = []
            for step in (1e-5, -1e-5):
                moved = scores.copy()
                moved[h, place] += step
                ends.append(plain_sweep(weighted_rows, moved, LOGISTIC).sums[h])
            slope = -(ends[0] - ends[1]) / 2e-5
            np.testing.assert_allclose(found[place, h], slope, atol=1e-8)


def test_products_with_b_are_those_of_the_tables_on_the_diagonal(rng):
    features = Features(random_tables(rng))
    dense = block_diag(*features.tables)
    assert features.shape == dense.shape == (10, 7)
    w, sums, bent = rng.normal(size=(2, 7)), rng.normal(size=(2, 10)), rng.normal(size=(10, 2, 10))
    np.testing.assert_allclose(features.scores(w), w @ dense.T)
    np.testing.assert_allclose(features.pull(sums), sums @ dense)
    once = features.bend(bent)
    np.testing.assert_allclose(once, np.einsum("xz,xhy->zhy", dense, bent))
    np.testing.assert_allclose(features.bend_twice(once), once @ dense)


def test_a_model_is_exact_where_it_was_centred(rng):
    weighted_rows, features = random_weighted_rows(rng), Features(random_tables(rng))
    regs = np.array([1e-2, 1e-3])
    scores = rng.normal(scale=0.2, size=(2, 10))
    models = CodeModels(Curvatures(weighted_rows, LOGISTIC, 1000).at(scores), regs)
    swept = plain_sweep(weighted_rows, scores, LOGISTIC)
    models.recentre(scores, swept)
    # The model's value and slope at w, from its minimum: both follow from the quadratic.
    fitted, dense = models.fit(features), block_diag(*features.tables)
    for h, reg in enumerate(regs):
        matrix = dense.T @ models.curvatures[:, h] @ dense + reg * np.eye(7)
        for _ in range(3):
            w = rng.normal(size=7)
            away = w - fitted.w[h]
            modelled = fitted.values[h] + 0.5 * away @ matrix @ away
            moved = dense @ w - scores[h]
            loss = swept.values[h] - swept.sums[h] @ moved
            loss += 0.5 * moved @ models.curvatures[:, h] @ moved
            assert modelled == pytest.approx(loss + 0.5 * reg * w @ w, rel=1e-9)
        slope = reg * fitted.w[h] - dense.T @ fitted.sums[h]
        np.testing.assert_allclose(slope, 0.0, atol=1e-12)


def test_a_sample_keeps_the_scale_of_the_sums(rng):
    weighted_rows = random_weighted_rows(rng, n=4000)
    some = weighted_rows.sample(2000)
    assert len(some) == 2000
    all_rows, part = (
        plain_sweep(b, np.zeros((2, 10)), LOGISTIC).values for b in (weighted_rows, some)
    )
    np.testing.assert_allclose(part, all_rows, rtol=0.05)
    np.testing.assert_array_equal(some.kinds, weighted_rows.sample(2000).kinds)
    assert weighted_rows.sample(4000) is weighted_rows
