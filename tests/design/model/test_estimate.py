from dataclasses import replace

import numpy as np
import pytest

from discreet.data.labels import Labels
from discreet.design.folds import Sample
from discreet.design.model.estimate import _best_share, _mix, estimate_model
from discreet.design.model.search import find_optimum
from discreet.leakage.exact import advantage
from discreet.leakage.joint_outputs import output_probabilities


def world(kind, n, rng):
    """Four sensors with six codes: copies of one, a chain, or independent given the facts."""
    h, g = rng.integers(2, size=(2, n))
    if kind == "exclusive-or":
        a, b = (np.where(rng.random(n) < 0.8, h, 1 - h) for _ in range(2))
        return np.stack([a, b, rng.integers(6, size=n), rng.integers(6, size=n)], axis=1), h, a ^ b
    first = 2 * g + h + rng.integers(3, size=n)
    columns = [first]
    for _ in range(3):
        if kind == "copies":
            columns.append(first)
        elif kind == "chain":
            step = (rng.random(n) < 0.15) * rng.choice([-1, 1], n)
            columns.append(np.clip(columns[-1] + step, 0, 5))
        else:
            columns.append(2 * g + h + rng.integers(3, size=n))
    return np.stack(columns, axis=1), h, g


def sample_of(kind, n, rng):
    codes, h, g = world(kind, n, rng)
    return Sample(codes, (6,) * 4, Labels("h", h, range(2)), (Labels("g", g, range(2)),), (6,) * 4)


def model_of(kind, n, rng):
    sample = sample_of(kind, n, rng)
    return estimate_model(sample, sample.ordered, rng)


def test_independent_sensors_are_found_to_be_so(rng):
    model = model_of("independent", 400, rng)
    assert model.share == 0
    assert len(model.distribution.weights) == 4  # one profile for each cell


@pytest.mark.parametrize("kind", ["copies", "chain"])
def test_sensors_that_depend_on_one_another_bring_the_rows_in(kind, rng):
    assert model_of(kind, 400, rng).share > 0.5


def true_leak(distribution, kind):
    found = find_optimum(distribution, 2, max_advantage=0.1, n_restarts=3, bound=False, rng=0)
    codes, _, g = world(kind, 100_000, np.random.default_rng(5))
    outputs = output_probabilities(found.tables, codes)
    return advantage(np.stack([outputs[g == k].mean(axis=0) for k in (0, 1)]))


def test_dependence_does_not_fool_the_model(rng):
    """Both sensors speak of the public fact, and their exclusive-or is the private one.

    Given the facts each reads the same whatever the private class is: a model of independent
    sensors sees no leak at all and lets both through.
    """
    sample = sample_of("exclusive-or", 1000, rng)
    model = estimate_model(sample, sample.ordered, rng)
    naive = estimate_model(sample, sample.ordered, rng, like=replace(model, share=0.0))
    assert true_leak(naive.distribution, "exclusive-or") > 0.2
    # 0.1 was allowed; what is beyond comes from 1000 rows, and the mapper calibrates for it.
    assert true_leak(model.distribution, "exclusive-or") < 0.15


def test_what_leaks_under_the_model_of_independent_sensors_leaks_in_truth(rng):
    assert true_leak(model_of("independent", 1000, rng).distribution, "independent") < 0.12


def test_probabilities_add_up_and_keep_the_cells_frequencies(rng):
    sample = sample_of("chain", 300, rng)
    model = estimate_model(sample, sample.ordered, rng)
    distribution = model.distribution
    assert distribution.weights.sum() == pytest.approx(1)
    for fact, labels in ((distribution.public, sample.public), (distribution.private[0],
                                                                sample.private[0])):  # fmt: skip
        shares = distribution.class_rows(fact) @ distribution.weights.sum(axis=0)
        np.testing.assert_allclose(shares, np.bincount(labels.index) / 300, atol=1e-9)


def test_another_model_may_be_smoothed_alike(rng):
    first = model_of("chain", 400, rng)
    sample = sample_of("chain", 100, rng)
    second = estimate_model(sample, sample.ordered, rng, like=first)
    assert (second.smoothing, second.share, second.blur) == (
        first.smoothing,
        first.share,
        first.blur,
    )


def test_the_share_is_the_one_of_largest_likelihood(rng):
    independent, rows = rng.normal(size=(2, 200))
    grid = np.linspace(0.001, 0.999, 999)
    best = grid[np.argmax([_mix(independent, rows, share).sum() for share in grid])]
    assert _best_share(independent, rows) == pytest.approx(best, abs=0.02)


def test_one_sensor_has_nothing_to_depend_on(rng):
    h, g = rng.integers(2, size=(2, 100))
    sample = Sample(
        (2 * h + g)[:, None], (4,), Labels("h", h, range(2)), (Labels("g", g, range(2)),), (4,)
    )
    assert estimate_model(sample, sample.ordered, rng).share == 0
