"""Columns that nobody declared: found, measured on rows that did not choose them, and not named."""

import numpy as np
import pandas as pd
import pytest
from support.report_cases import mapping

from discreet.auditing.data import MOST_OTHERS, audit_data_from_arrays, undeclared
from discreet.auditing.other_secrets import SHOWN, find_other_secrets
from discreet.data.encoders import BinsEncoder
from discreet.mapping.parts import Fact


def data_of(n=1600, seed=0, noise=0.0, groups=None, **columns):
    """Two sensors that send what they read, but for some noise; further columns on request."""
    rng = np.random.default_rng(seed)
    h, g, left, right = rng.integers(2, size=(4, n))
    table = np.array([[1 - noise, noise], [noise, 1 - noise]])
    found = mapping(
        ["left", "right"],
        [BinsEncoder(edges=[0.5])] * 2,
        [table] * 2,
        Fact(name="h", classes=[0, 1]),
        [Fact(name="g", classes=[0, 1])],
    )
    X = pd.DataFrame({"left": left, "right": right})
    for name, make in columns.items():
        X[name] = make(rng, X)
    return audit_data_from_arrays(found, X, h, g, groups)


def secrets_of(data, confidence=0.95, seed=0):
    return find_other_secrets(data, data.draw_symbols(seed), confidence, seed)


def test_columns_are_in_the_order_of_the_gain_that_is_shown():
    for seed in range(6):
        odd = data_of(n=300, seed=seed, noise=0.3, odd=lambda _, X: X.left ^ X.right)
        gains = [each.gain.estimate for each in secrets_of(odd).found]
        assert len(gains) == 3 and gains == sorted(gains, reverse=True)


def test_the_column_that_symbols_tell_is_found_and_unrelated_ones_come_after():
    data = data_of(
        both=lambda rng, X: np.where(X.left ^ X.right, "odd", "even"),  # no sensor alone tells it
        nothing=lambda rng, X: rng.integers(2, size=len(X)),
        number=lambda rng, X: rng.normal(size=len(X)),
    )
    found = secrets_of(data)
    assert {each.column for each in found.found} == {"left", "right", "both"}
    assert {each.column: each.sensor for each in found.found}["both"] is False
    for each in found.found:
        assert each.gain.estimate == pytest.approx(0.5) and each.gain.low > 0.45
    assert (found.compared, found.left_out) == (5, 0)


def test_the_declared_facts_are_no_candidates():
    data = data_of(h=lambda rng, X: X.left, g=lambda rng, X: X.right)
    assert [each.column for each in secrets_of(data).found] == ["left", "right"]


def test_what_goes_with_the_answer_is_said_to():
    data = data_of(n=2000)
    data.others["copy"] = data.public.index[data.attacked]
    found = {each.column: each for each in secrets_of(data).found}
    assert found["copy"].from_answer == pytest.approx(0.5)
    assert abs(found["left"].from_answer) < 0.05


@pytest.mark.slow
def test_intervals_cover_the_truth_although_the_best_of_many_columns_was_chosen():
    """Of 30 columns with a true gain of 0 three are chosen; all intervals have to hold 0."""

    def unrelated(rng, X):
        return rng.integers(2, size=len(X))

    missed, trials = 0, 60
    for seed in range(trials):
        data = data_of(400, seed, 0.5, **{f"c{k}": unrelated for k in range(28)})
        found = secrets_of(data, seed=seed).found
        assert len(found) == SHOWN
        missed += any(not each.gain.low <= 0.0 <= each.gain.high for each in found)
    assert missed <= 8  # more than 8 of 60 at 0.05 has a probability below 0.003


def test_columns_that_cannot_be_compared_are_counted():
    data = data_of(
        constant=lambda rng, X: 1,
        name=lambda rng, X: [f"row {k}" for k in range(len(X))],
        empty=lambda rng, X: None,
        rare=lambda rng, X: np.where(np.arange(len(X)) < 5, "a", "b"),
    )
    found = secrets_of(data)
    assert {each.column for each in found.found} == {"left", "right"}
    assert (found.compared, found.left_out) == (2, 4)


def test_many_values_become_few_classes_and_no_single_reading_is_named():
    rooms = data_of(room=lambda rng, X: [f"room {k}" for k in rng.integers(9, size=len(X))])
    room = next(each for each in secrets_of(rooms).found if each.column == "room")
    assert len(room.classes) == 5 and room.classes[-1] == "any other"
    warm = data_of(heat=lambda rng, X: 20.123456 + X.left * 3.1 + rng.normal(size=len(X)) / 10)
    heat = next(each for each in secrets_of(warm).found if each.column == "heat")
    low, high = heat.classes
    assert low.removeprefix("at most ") == high.removeprefix("above ")
    assert len(low.removeprefix("at most ")) <= 4


def test_groups_stay_together_and_count_once():
    groups = np.arange(1600) // 8
    data = data_of(groups=groups, flat=lambda rng, X: groups % 2)
    found = secrets_of(data).found
    assert sum(found[0].rows) <= 2 * len(np.unique(groups))
    by_name = {each.column: each for each in found}
    assert by_name["flat"].gain.low <= 0.0 <= by_name["flat"].gain.high


def test_a_wide_table_is_cut():
    data = data_of(100)
    assert len(undeclared(data.mapping, [f"c{k}" for k in range(5_000)])) == MOST_OTHERS
