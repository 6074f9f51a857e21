from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.choices import KERNELS
from discreet.design.kernels import (
    AnovaKernel,
    InverseMultiquadricKernel,
    ProductKernel,
    cross_gram,
    output_gram,
    pair_tables,
)
from discreet.errors import InputError

each_kernel = pytest.mark.parametrize("kernel", [k() for k in KERNELS.values()], ids=KERNELS)
EXTRA = [ProductKernel(0.3), AnovaKernel(1), AnovaKernel(3), InverseMultiquadricKernel(4)]


def value_on_symbols(kernel, z, other, sizes):
    """kappa(z, z') from its definition, one pair of outputs at a time."""
    same = [a == b for a, b in zip(z, other, strict=True)]
    if kernel.name == "count":
        return float(sum(same))
    if kernel.name == "anova":
        total = 0.0
        for chosen in product([0, 1], repeat=len(z)):
            if sum(chosen) <= kernel.degree:
                total += float(all(s for s, c in zip(same, chosen, strict=True) if c))
        return total
    total = 0.0
    for weight, tables in kernel.components(sizes):
        term = weight
        for t, table in enumerate(tables):
            term *= table[z[t], other[t]]
        total += term
    return total


@pytest.mark.parametrize("kernel", [k() for k in KERNELS.values()] + EXTRA, ids=repr)
@pytest.mark.slow
def test_kappa_of_a_mapping_is_the_double_sum_over_outputs(kernel, rng):
    sizes, n_symbols = (3, 4, 2), (2, 3, 2)
    tables = [rng.dirichlet(np.ones(z), size=x) for x, z in zip(sizes, n_symbols, strict=True)]
    others = [rng.dirichlet(np.ones(z), size=x) for x, z in zip(sizes, n_symbols, strict=True)]
    codes = np.stack([rng.integers(size, size=4) for size in sizes], axis=1)
    found = cross_gram(kernel, tables, codes, others, codes)
    outputs = list(product(*(range(z) for z in n_symbols)))
    for i, j in product(range(4), range(4)):
        total = 0.0
        for z, other in product(outputs, outputs):
            left = np.prod([tables[t][codes[i, t], z[t]] for t in range(3)])
            right = np.prod([others[t][codes[j, t], other[t]] for t in range(3)])
            total += left * right * value_on_symbols(kernel, z, other, n_symbols)
        assert found[i, j] == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize("kernel", [k() for k in KERNELS.values()] + EXTRA, ids=repr)
@given(sizes=st.lists(st.integers(2, 3), min_size=1, max_size=5))
@pytest.mark.slow
def test_a_strictly_positive_kernel_has_a_positive_definite_gram_over_all_outputs(kernel, sizes):
    smallest = np.linalg.eigvalsh(output_gram(kernel, sizes))[0]
    if kernel.reach(len(sizes)) == len(sizes):
        assert smallest > 1e-9
    else:
        assert smallest < 1e-9  # and the others do not claim what they are not


def test_each_kernel_says_how_many_sensors_it_looks_at_together():
    claims = {name: kernel().reach(4) for name, kernel in KERNELS.items()}
    assert claims == {"product": 4, "inverse-multiquadric": 4, "count": 1, "anova": 2}


@each_kernel
def test_every_component_is_affine_in_each_sensors_table(kernel, rng):
    sizes, n_symbols = (3, 4, 2), (2, 2, 2)
    tables = [rng.dirichlet(np.ones(z), size=x) for x, z in zip(sizes, n_symbols, strict=True)]
    codes = np.stack([rng.integers(size, size=5) for size in sizes], axis=1)
    for _, symbol_kernels in kernel.components(n_symbols):
        pairs = pair_tables(symbol_kernels, tables, codes, tables, codes)
        for t in range(3):
            rest, slope = kernel.split(pairs, t)
            np.testing.assert_allclose(rest + slope * pairs[t], kernel.combine(pairs), atol=1e-12)
            moved = [pair + (j == t) for j, pair in enumerate(pairs)]
            np.testing.assert_allclose(kernel.combine(moved), rest + slope * moved[t], atol=1e-12)


def test_the_quadrature_is_close_to_the_inverse_multiquadric():
    for n_sensors in (2, 5, 12):
        kernel = InverseMultiquadricKernel(nodes=40)
        for differ in range(n_sensors + 1):
            other = [1] * differ + [0] * (n_sensors - differ)
            got = value_on_symbols(kernel, [0] * n_sensors, other, [2] * n_sensors)
            assert got == pytest.approx((1 + 4 * differ / n_sensors) ** -0.5, abs=1e-3)


def test_products_over_many_sensors_do_not_vanish():
    z, other = [0] * 60, [1] * 60
    assert value_on_symbols(ProductKernel(), z, other, [2] * 60) == pytest.approx(np.exp(-5.5))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ProductKernel(0.0),
        lambda: ProductKernel(1.0),
        lambda: AnovaKernel(0),
        lambda: AnovaKernel(True),
        lambda: InverseMultiquadricKernel(0),
    ],
)
def test_impossible_kernel_parameters_are_refused(make):
    with pytest.raises(InputError, match="got"):
        make()
