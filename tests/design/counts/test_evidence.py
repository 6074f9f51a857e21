"""The evidence of a round: that of listed laws, with what sampling adds, and its slope."""

from dataclasses import replace

import numpy as np
import pytest
from support.count_worlds import random_model, random_tables

from discreet.design.counts.estimate import CountModel
from discreet.design.counts.units import Evidence, Units
from discreet.leakage.exact import squared_information

SIZES, SYMBOLS = (3, 2, 4), (2, 3, 2)


def worst(model, tables, n_symbols=SYMBOLS):
    units = Units(model, n_symbols)
    return Evidence(units).worst(units.pad(tables))


def law_of(model, tables, sensors, cell):
    """The law of what some sensors send, given the cell: a block, or a single one."""
    if len(sensors) == 1:
        return model.given[sensors[0]][cell] @ tables[sensors[0]]
    (block,) = model.blocks
    outer = [np.multiply.outer(tables[sensors[0]][a], tables[sensors[1]][b]).ravel()
             for a, b in block.codes]  # fmt: skip
    return block.given[cell] @ np.array(outer)


@pytest.mark.parametrize("block", [(), (0, 2)])
def test_without_sampling_it_is_the_sum_over_units_of_what_each_tells(block):
    model, tables = random_model(SIZES, block=block), random_tables(SIZES, SYMBOLS)
    units = [block] * bool(block) + [(t,) for t in range(3) if t not in block]
    expected = 0.0
    for h, share in enumerate(model.public_shares()):  # cells are (h, g) = 00, 01, 10, 11
        for unit in units:
            pair = np.array([law_of(model, tables, unit, 2 * h + g) for g in (0, 1)])
            expected += share * squared_information(pair)
    assert worst(model, tables)[0] == pytest.approx(expected)


def test_what_sampling_adds_is_what_it_adds_on_average():
    """Tables that tell nothing of the truth, and what they tell of estimates from its rows."""
    rng, rows = np.random.default_rng(0), 400
    law = np.array([[0.5, 0.3, 0.2]] * 4)  # the private classes do not differ
    table = np.array([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4]])
    model = CountModel(
        np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), np.full(4, 0.25), [law],
        rows=np.full((1, 4), float(rows)),
    )  # fmt: skip
    drawn = []
    for _ in range(4000):
        seen = rng.multinomial(rows, law[0], size=2) / rows
        drawn.append(squared_information(seen @ table))
    assert worst(model, [table], (2,))[0] == pytest.approx(np.mean(drawn), rel=0.1)


@pytest.mark.parametrize("block", [(), (0, 2)])
def test_its_slope_is_that_of_differences(block):
    model = replace(random_model(SIZES, block=block), rows=np.full((3, 4), 50.0))
    units = Units(model, SYMBOLS)
    evidence, padded = Evidence(units), units.pad(random_tables(SIZES, SYMBOLS))
    _, slope = evidence.worst(padded)
    for place in [(0, 0, 1), (1, 1, 2), (2, 3, 0)]:
        step = np.zeros_like(padded)
        step[place] = 1e-6
        ahead, behind = (evidence.worst(padded + sign * step)[0] for sign in (1, -1))
        assert slope[place] == pytest.approx((ahead - behind) / 2e-6, rel=1e-4)
