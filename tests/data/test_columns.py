"""Single values: what counts as one, how it is written and how a message shows it."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from discreet.data import columns
from discreet.data.columns import Labels, count_integers, count_together, is_numeric, plain, written
from discreet.errors import shown, suggest


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (1.0, "1"),
        (-0.0, "0"),
        (1.5, "1.5"),
        (True, "True"),
        ("1.0", "1.0"),
        (1e300, "1e+300"),
    ],
)
def test_values_are_told_apart_by_how_they_are_written(value, text):
    assert written(value) == text


def test_a_column_is_numeric_by_its_values_where_pandas_does_not_know():
    assert is_numeric(pd.Series([1, 2.5, None, Decimal(1)], dtype=object))
    assert not is_numeric(pd.Series([1, "a"], dtype=object))
    assert not is_numeric(pd.Series([True, False]))


def test_a_date_stands_for_no_plain_value():
    assert plain(np.datetime64("2024-01-01", "ns")) is None


def test_any_value_is_shown_in_one_short_line():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    for value in (10**10_000, "a\nb" * 1000, deep, np.float64(1.5), {"k": [1] * 100}):
        assert len(shown(value)) <= 60 and "\n" not in shown(value)
    assert shown(np.float64(1.5)) == "1.5"
    while deep:  # taken apart by hand, since a deep list may exhaust the stack as it goes
        deep = deep.pop()


def test_a_suggestion_lists_the_names_up_to_a_limit():
    assert "and 5 more" in suggest("x", [f"sensor{i}" for i in range(25)])
    assert suggest("x", []) == "There are none."


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.uint64])
@pytest.mark.parametrize("least", [0, 3])
def test_whole_numbers_are_counted_whatever_their_kind(dtype, least):
    values, counts = count_integers(np.array([1, 0, 1, 4], dtype=dtype) + dtype(least))
    assert values.dtype == dtype and list(values) == [least, least + 1, least + 4]
    assert list(counts) == [1, 2, 1]


def test_whole_numbers_that_a_signed_one_cannot_hold_are_left_to_others():
    assert count_integers(np.array([2**64 - 1, 2**64 - 2], dtype=np.uint64)) is None


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_classes_of_two_facts_are_counted_together_as_a_loop_does(dtype, monkeypatch):
    """Places of 200 classes times 200 do not fit into the bytes that classes are held in."""
    rng, counted = np.random.default_rng(28), np.zeros((200, 200), dtype=int)
    monkeypatch.setattr(columns, "_COUNTED", 70)
    one, other = rng.integers(200, size=(2, 500)).astype(dtype)
    np.add.at(counted, (one, other), 1)
    facts = (Labels("one", one, range(200)), Labels("other", other, range(200)))
    np.testing.assert_array_equal(count_together(*facts), counted)
