"""Products over units are what the sum over all codes says, and slopes are slopes."""

from itertools import product

import numpy as np
import pytest
from support.count_worlds import random_model, random_tables

from discreet.design.counts import units as units_module
from discreet.design.counts.design import model_fusion
from discreet.design.counts.units import Units

SIZES, SYMBOLS = (3, 2, 4, 2), (2, 3, 2, 2)
each_block = pytest.mark.parametrize("block", [(), (1, 3), (0, 1, 2, 3)])


def slow_outputs(model, tables):
    """p(z|cell) by the sum over all codes and blocks, the first sensor slowest."""
    found = []
    for z in product(*(range(table.shape[1]) for table in tables)):
        total = np.zeros(len(model.prior))
        for x in product(*(range(len(table)) for table in tables)):
            chance = np.ones(len(model.prior))
            blocked = {t for block in model.blocks for t in block.sensors}
            for t in set(range(len(tables))) - blocked:
                chance = chance * model.given[t][:, x[t]]
            for block in model.blocks:
                row = [x[t] for t in block.sensors]
                chance = chance * block.given[:, (block.codes == row).all(axis=1)][:, 0]
            total += chance * np.prod([table[x[t], z[t]] for t, table in enumerate(tables)])
        found.append(total)
    return np.array(found)


@each_block
def test_listed_outputs_are_the_sum_over_all_codes(block):
    model, tables = random_model(SIZES, block=block), random_tables(SIZES, SYMBOLS)
    joint = np.array(model_fusion(Units(model, SYMBOLS), tables).joint)
    slow = slow_outputs(model, tables)
    by_class = [model.prior * (model.facts[:, 0] == h) for h in (0, 1)]
    np.testing.assert_allclose(joint, np.array(by_class) @ slow.T, atol=1e-12)


@each_block
def test_pull_back_is_the_slope(block):
    model, tables = random_model(SIZES, block=block), random_tables(SIZES, SYMBOLS)
    units = Units(model, SYMBOLS)
    padded = units.pad(tables)
    chances, products = units.chances(padded)
    weights = np.random.default_rng(1).normal(size=chances.shape)
    slope = units.pull_back(weights, products)
    for t, k, z in [(0, 1, 1), (1, 0, 2), (2, 3, 0), (3, 1, 1)]:
        moved = padded.copy()
        moved[t, k, z] += 1e-6
        step = np.sum(weights * (units.chances(moved)[0] - chances)) / 1e-6
        assert slope[t, k, z] == pytest.approx(step, abs=1e-6)


@pytest.mark.parametrize("before", [(), (3,)])
def test_products_that_are_not_kept_are_the_same_on_the_way_back(before, monkeypatch):
    model, tables = random_model(SIZES, block=(0, 1, 2)), random_tables(SIZES, SYMBOLS)
    units = Units(model, SYMBOLS)
    padded = np.broadcast_to(units.pad(tables), (*before, 4, 4, 3))
    found = []
    for kept in (2**26, 0):
        monkeypatch.setattr(units_module, "_KEPT_BYTES", kept)
        chances, products = units.chances(padded)
        assert (products[0]() is products[0]()) is (kept > 0)
        found.append((chances, units.pull_back(np.cos(chances), products)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@each_block
def test_drawn_outputs_have_the_listed_frequencies(block):
    model, tables = random_model(SIZES, block=block), random_tables(SIZES, SYMBOLS)
    units = Units(model, SYMBOLS)
    chances, _ = units.chances(units.pad(tables))
    drawn = units.draw_outputs(chances, 40_000, np.random.default_rng(0))
    shares = chances.mean(axis=1)[units.rest]  # of every unit, all outputs but the first
    np.testing.assert_allclose(drawn.mean(axis=1), shares, atol=0.012)


@each_block
def test_columns_that_are_not_shown_are_made_up_for(block):
    model, tables = random_model(SIZES, block=block), random_tables(SIZES, SYMBOLS)
    units = Units(model, SYMBOLS)
    chances, _ = units.chances(units.pad(tables))
    places = np.indices(units.widths).reshape(len(units.widths), -1)
    places = places[:, (places < np.array(units.outputs)[:, None]).all(axis=0)]
    every = np.zeros((len(chances), places.shape[1]))  # all columns, the first ones too
    every[places + units.first[:, None], np.arange(places.shape[1])] = 1.0
    shown, values = units.list_outputs(), np.random.default_rng(1).normal(size=(4, every.shape[1]))
    slow = np.array([chances[every[:, z] > 0].prod(axis=0) for z in range(every.shape[1])])
    np.testing.assert_allclose(np.exp(units.log_chances(chances, shown)), slow.T, atol=1e-12)
    np.testing.assert_allclose(units.add_up(values, shown), every @ values.T, atol=1e-12)
