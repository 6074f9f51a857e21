import numpy as np
import pandas as pd

from discreet.auditing.attackers.problem import LEVELS, discretise_readings


def test_few_values_keep_their_order_and_missing_has_a_code_of_its_own():
    codes, sizes = discretise_readings(pd.DataFrame({"a": [3.5, None, -1.0, 3.5, np.inf]}))
    assert codes[:, 0].tolist() == [2, 0, 1, 2, 3] and sizes == [4]


def test_many_values_become_equal_shares_in_order(rng):
    values = rng.normal(size=10_000)
    codes, sizes = discretise_readings(pd.DataFrame({"a": values}))
    assert sizes == [LEVELS + 1]
    order = np.argsort(values)
    assert (np.diff(codes[order, 0]) >= 0).all()
    shares = np.bincount(codes[:, 0])[1:] / 10_000
    assert np.abs(shares - 1 / LEVELS).max() < 0.01


def test_categories_are_told_apart_up_to_a_limit(rng):
    codes, sizes = discretise_readings(
        pd.DataFrame({"a": ["x", "y", None, "x"], "b": [True, False] * 2})
    )
    assert codes[:, 0].tolist() == [1, 2, 0, 1] and sizes == [3, 3]
    many = pd.DataFrame({"a": [f"c{k}" for k in range(200)]})
    assert discretise_readings(many)[1] == [LEVELS + 1]


def test_a_constant_column_has_two_codes_at_least():
    assert discretise_readings(pd.DataFrame({"a": [None, None]}))[1] == [2]
