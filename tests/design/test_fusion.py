import numpy as np
import pytest

from discreet.data.columns import Labels
from discreet.design.fusion import draw_symbols, learn_fusion
from discreet.design.kernels import ProductKernel
from discreet.design.training_rows import collapse


def sample(rng, classes, n_sensors, n=400):
    h = rng.integers(classes, size=n)
    codes = np.where(
        rng.random((n, n_sensors)) < 0.8, h[:, None], rng.integers(classes, size=(n, 1))
    )
    return collapse(codes, (classes,) * n_sensors), Labels("h", h, range(classes))


@pytest.mark.parametrize("classes", [2, 3])
def test_the_table_rule_is_close_to_the_posterior_of_the_rows(classes, rng):
    rows, public = sample(rng, classes, 2)
    tables = [0.8 * np.eye(classes) + 0.2 / classes for _ in range(2)]
    fusion = learn_fusion(tables, rows, public, ProductKernel(), 1e-6, rng)
    joint = np.array(fusion.joint)
    codes = rows.codes[rows.inverse]
    outputs = np.einsum("ni,nj->nij", *(t[codes[:, k]] for k, t in enumerate(tables)))
    twin = np.stack([outputs[public.index == k].sum(axis=0).ravel() for k in range(classes)])
    assert joint.sum() == pytest.approx(1.0)
    # One against the rest, normalised, is not quite the posterior of three classes.
    tolerance = 1e-4 if classes == 2 else 0.02
    np.testing.assert_allclose(joint, twin / rows.n_rows, atol=tolerance)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.slow
def test_many_outputs_get_an_additive_rule_with_silent_sensors_at_zero(classes, rng):
    rows, public = sample(rng, classes, 11)
    tables = [0.8 * np.eye(classes) + 0.2 / classes for _ in range(11)]
    fusion = learn_fusion(tables, rows, public, ProductKernel(), 1e-4, rng)
    assert fusion.kind == ("additive" if classes == 2 else "additive-classes")
    weights = [fusion.weights] if classes == 2 else fusion.weights
    codes = rows.codes[rows.inverse]
    for block in weights:
        for t, scores in enumerate(block):
            share = tables[t][codes[:, t]].mean(axis=0)
            assert abs(share @ np.array(scores)) < 0.05  # the mean was taken over drawn symbols


def test_drawn_symbols_have_the_tables_frequencies(rng):
    tables = [np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]])]
    codes = np.repeat([[0], [1]], 20_000, axis=0)
    drawn = draw_symbols(tables, codes, rng)[:, 0]
    first = np.bincount(drawn[:20_000], minlength=3) / 20_000
    np.testing.assert_allclose(first, tables[0][0], atol=0.015)  # four standard errors
    assert not drawn[20_000:].any()
