import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.choices import LOSSES
from discreet.design import code_solver
from discreet.design.code_models import Features
from discreet.design.code_solver import CodeSolver
from discreet.design.packing import pack
from discreet.design.solvers import fit_primal
from discreet.design.sweep import COMPILED_LOSSES, WeightedRows

SIZES, N_SYMBOLS = (4, 16, 3), (2, 3, 3)


def random_weighted_rows(rng, n=600, heads=2):
    codes = np.stack([rng.integers(size, size=n) for size in SIZES], axis=1)
    kinds = ((codes[:, 0] + codes[:, 1] + rng.integers(2, size=n)) % 4).astype(np.uint8)
    signed_weights = rng.normal(size=(heads, 4)) / n
    return WeightedRows(pack(codes, SIZES), kinds, np.empty(0), signed_weights), codes


def random_tables(rng):
    return [rng.dirichlet(np.ones(z), size=x) for x, z in zip(SIZES, N_SYMBOLS, strict=True)]


def reference(weighted_rows, codes, tables, loss, regs):
    """Solve every head on features written out, by the solver for small tables."""
    features = np.concatenate([table[codes[:, t]] for t, table in enumerate(tables)], axis=1)
    signed_weights = weighted_rows.signed_weights[:, weighted_rows.kinds]
    return [
        fit_primal(features, np.maximum(v, 0.0), np.maximum(-v, 0.0), loss, reg)
        for v, reg in zip(signed_weights, regs, strict=True)
    ]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    loss=st.sampled_from(COMPILED_LOSSES),
    many_codes=st.booleans(),
    heads=st.integers(1, 3),
)
@pytest.mark.slow
def test_heads_reach_the_minimum_for_one_mapping_after_the_other(seed, loss, many_codes, heads):
    rng = np.random.default_rng(seed)
    weighted_rows, codes = random_weighted_rows(rng, heads=heads)
    regs = np.array([1e-2, 1e-3, 1e-3])[:heads]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code_solver, "FEW_BYTES", 0 if many_codes else 1 << 29)
        patch.setattr(code_solver, "_FIRST_ROWS", 200)
        patch.setattr(code_solver, "_SAMPLED_ROWS", 300)
        solver = CodeSolver(weighted_rows, LOSSES[loss], regs, tolerance=1e-12)
        for _ in range(3):
            tables = random_tables(rng)
            features = Features(tables)
            found = solver.solve(features)
            for h, head in enumerate(reference(weighted_rows, codes, tables, LOSSES[loss], regs)):
                assert found.values[h] == pytest.approx(head.value, abs=1e-8)
                slope = regs[h] * found.w[h] - features.pull(found.sums)[h]
                np.testing.assert_allclose(slope, 0.0, atol=2e-5)
    assert solver.passes >= 3


def test_the_second_mapping_takes_few_passes_when_it_is_near_the_first(rng):
    weighted_rows, _ = random_weighted_rows(rng, n=5000)
    solver = CodeSolver(weighted_rows, LOSSES["logistic"], np.array([1e-3, 1e-3]))
    tables = random_tables(rng)
    solver.solve(Features(tables))
    before = solver.passes
    nearby = [0.999 * table + 0.001 / table.shape[1] for table in tables]
    solver.solve(Features(nearby))
    assert solver.passes - before <= 3
