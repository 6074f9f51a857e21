import numpy as np
import pytest
from support.count_worlds import random_model

from discreet.data.columns import Labels
from discreet.design.counts.counting import count_codes
from discreet.design.counts.estimate import (
    Alphabets,
    Smoothing,
    Structure,
    choose_smoothing,
    estimate_counts,
    estimate_sensors,
    join_models,
    spread,
)
from discreet.design.training_rows import Sample


def counts_of(codes, cell, sizes):
    found = [np.zeros((2, size)) for size in sizes]
    for row, c in zip(codes, cell, strict=True):
        for t, x in enumerate(row):
            found[t][c, x] += 1
    return found


def choose(codes, cell, sizes):
    fold = np.arange(len(codes)) % 5
    held = [counts_of(codes[fold == k], cell[fold == k], sizes) for k in range(5)]
    return choose_smoothing(Alphabets(sizes, sizes), held)


@pytest.mark.parametrize("how", [Smoothing(0.0, 0.0, 0.25), Smoothing(1.4, 64.0, 16.0)])
def test_estimates_are_distributions_without_zeros(rng, how):
    sizes = (4, 4, 4)
    counts = counts_of(rng.integers(4, size=(30, 3)), rng.integers(2, size=30), sizes)
    for given in estimate_sensors(Alphabets(sizes, sizes), counts, [how] * 3):
        np.testing.assert_allclose(given.sum(axis=1), 1.0)
        assert (given > 0).all()


def test_an_observation_spreads_along_the_line_only():
    table = spread(5, 4, 0.8)  # the last code is for missing readings
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    assert table[1, 0] == pytest.approx(table[1, 2]) and table[1, 1] > table[1, 2] > table[1, 3] > 0
    np.testing.assert_array_equal(table[4], [0, 0, 0, 0, 1])
    np.testing.assert_array_equal(spread(3, 0, 0.8), np.eye(3))  # categories have no neighbours


def test_sensors_of_one_kind_share_and_others_do_not(rng):
    codes = np.column_stack([rng.integers(3, size=(40, 2)), rng.integers(2, size=40)])
    sizes = (3, 3, 2)
    alphabets, counts = (
        Alphabets(sizes, sizes),
        counts_of(codes, rng.integers(2, size=40), sizes),
    )
    alone = estimate_sensors(alphabets, counts, [Smoothing(0.0, 0.0, 1.0)] * 3)
    shared = estimate_sensors(alphabets, counts, [Smoothing(0.0, 1e9, 1.0)] * 3)
    np.testing.assert_allclose(shared[0], shared[1], atol=1e-6)
    np.testing.assert_allclose(shared[2], alone[2])


def test_rows_left_out_choose_to_share_between_copies_and_not_between_strangers(rng):
    cell = rng.integers(2, size=400)
    alike = np.stack([cell + rng.integers(3, size=400) for _ in range(4)], axis=1)
    assert choose(alike, cell, (4,) * 4)[0].shared >= 64
    other = alike.copy()
    other[:, 1:] = 3 - other[:, 1:]
    other[:, 2] = rng.integers(4, size=400)
    assert choose(other, cell, (4,) * 4)[0].shared <= 16


def test_rows_left_out_choose_to_spread_what_is_smooth_and_sparse(rng):
    cell = rng.integers(2, size=80)
    smooth = np.clip(np.round(rng.normal(6 + 4 * cell, 2.5)), 0, 15).astype(int)[:, None]
    assert choose(smooth, cell, (16,))[0].width > 0
    jumps = (cell * 8 + 2 * rng.integers(4, size=80))[:, None]  # only even codes
    assert choose(jumps, cell, (16,))[0].width == 0


def test_every_kind_chooses_its_own_sharing_and_all_one_marginal(rng):
    cell = rng.integers(2, size=400)
    alike = np.stack([cell + rng.integers(3, size=400) for _ in range(3)], axis=1)
    strangers = np.stack([cell, 1 - cell, cell * 0], axis=1) * 2 + rng.integers(2, size=(400, 3))
    found = choose(np.hstack([alike, strangers]), cell, (4,) * 3 + (5,) * 3)
    assert min(how.shared for how in found[:3]) >= 64 > max(how.shared for how in found[3:])
    assert len({how.marginal for how in found}) == 1


def slow_estimate(counts, kind, matrix, how):
    """p(code|cell) of the sensors of one kind, one sensor, cell and code after the other."""
    spreads = {t: counts[t] @ matrix for t in kind}
    pooled = sum(spreads.values())

    def marginal(table):
        total = table.sum(axis=0) + 0.25
        return total / total.sum()

    for t in kind:
        found = np.empty_like(counts[t])
        for c, own in enumerate(spreads[t]):
            common = pooled[c] + how.marginal * marginal(pooled)
            total = own + how.marginal * marginal(spreads[t])
            if len(kind) > 1:
                total = total + how.shared * common / common.sum()
            found[c] = total / total.sum()
        yield t, found


def test_sensors_of_a_kind_at_once_are_estimated_as_one_by_one(rng):
    sizes, how = (4, 4, 3, 4), Smoothing(0.6, 16.0, 4.0)
    counts = [rng.integers(9, size=(2, size)).astype(float) for size in sizes]
    found = estimate_sensors(Alphabets(sizes, sizes), counts, [how] * 4)
    for kind, size in (((0, 1, 3), 4), ((2,), 3)):
        for t, slow in slow_estimate(counts, kind, spread(size, size, 0.6), how):
            np.testing.assert_allclose(found[t], slow, rtol=1e-12)


def test_draws_scatter_around_what_the_rows_show_as_other_rows_would(rng):
    """Mean and spread are those of estimates from fresh rows of the same world."""
    h, g = rng.integers(2, size=(2, 900))
    codes = np.stack([(h + g + rng.integers(3, size=900)), rng.integers(2, size=900)], axis=1)
    facts = (Labels("h", h, range(2)), Labels("g", g, range(2)))
    sample = Sample(codes, (5, 2), facts[0], facts[1:], (0, 0))
    counts = count_codes(codes, sample.sizes, sample.facts, np.arange(900))
    structure = Structure([Smoothing(0.0, 0.0, 0.25)] * 2, [(0, 1)])
    model = estimate_counts(sample, counts, structure)
    draws = [estimate_counts(sample, counts, structure, rng) for _ in range(400)]
    for k, of in enumerate([*model.given, model.blocks[0].given]):
        drawn = np.stack([[*each.given, each.blocks[0].given][k] for each in draws])
        rows = 900 * model.prior[:, None]
        np.testing.assert_allclose(drawn.sum(axis=2), 1.0)
        np.testing.assert_allclose(drawn.mean(axis=0), of, atol=0.01)
        np.testing.assert_allclose(drawn.std(axis=0), np.sqrt(of * (1 - of) / rows), atol=0.006)
    priors = np.stack([each.prior for each in draws])
    np.testing.assert_allclose(priors.mean(axis=0), model.prior, atol=0.004)


def test_joined_models_are_one_model_that_mixes_them():
    models = [random_model((3, 2), seed=k) for k in range(2)]
    joined = join_models(models)
    assert joined.prior.sum() == pytest.approx(1.0)
    expected = np.mean([each.public_shares() for each in models], axis=0)
    np.testing.assert_allclose(joined.public_shares(), expected)
    mixed = [np.mean([m.prior @ m.given[t] for m in models], axis=0) for t in range(2)]
    for t in range(2):
        np.testing.assert_allclose(joined.prior @ joined.given[t], mixed[t])
