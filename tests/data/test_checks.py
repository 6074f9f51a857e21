"""Columns and labels: what passes and what is refused."""

import datetime
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from support.helpers import home, refused

from discreet.data.columns import (
    MAX_CLASSES,
    LabelTally,
    check_column,
    check_kind,
    check_labels,
    choose_sensors,
)

# --- Columns -------------------------------------------------------------------------------


def test_every_other_column_is_a_sensor_unless_named():
    labels = ["fall", "who", "day"]
    assert choose_sensors(list(home()), None, labels) == ["hall", "door"]
    assert choose_sensors(list(home()), ["door"], labels) == ["door"]


def test_an_unknown_column_is_answered_with_the_close_ones():
    text = refused("Did you mean 'hall'", choose_sensors, list(home()), ["hal"], [])
    assert "'door'" in text
    refused("Did you mean 'fall'", choose_sensors, list(home()), None, ["falls"])
    refused("no column 'xyz' for the public label", check_column, home(), "xyz", "public label")


@pytest.mark.parametrize(
    ("sensors", "exclude", "match"),
    [
        (["fall"], ["fall"], "cannot be a sensor as well"),
        (["hall", "hall"], [], "named twice"),
        ([], [], "no sensor columns"),
        (None, ["hall", "door", "fall", "who", "day"], "no sensor columns"),
    ],
)
def test_a_choice_that_leaves_no_sound_sensors_is_refused(sensors, exclude, match):
    refused(match, choose_sensors, list(home()), sensors, exclude)


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (pd.date_range("2024", periods=30), "holds dates"),
        (pd.period_range("2024", periods=30), "holds dates"),
        (pd.to_timedelta(np.arange(30), "s"), "holds durations"),
        (np.arange(30) * 1j, "holds complex numbers"),
        ([[1, 2]] * 30, r"holds values like \[1, 2\] \(list\)"),
        ([{"a": 1}] * 30, "dict"),
        ([b"a", b"b"] * 15, "bytes"),
        ([datetime.date(2024, 1, 1)] * 30, "dates or times"),
        ([datetime.time(1)] * 30, "dates or times"),
        (pd.cut(np.arange(30), 3), "Interval"),
    ],
)
def test_a_sensor_without_codes_is_refused_by_name(column, match):
    text = refused(match, check_kind, pd.Series(column), "bad")
    assert "'bad'" in text and "leave" in text.lower()


def test_a_kind_is_judged_by_the_values_where_pandas_does_not_know():
    check_kind(pd.Series([1, "a", True, None, Decimal("1.5")], dtype=object), "mixed")


# --- Labels --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [
        [True, False] * 5,
        ["a", "b"] * 5,
        [0, 1, 2, 0, 1, 2],
        [0.0, 1.0] * 4,
        list(range(MAX_CLASSES)) * 2,
        pd.Categorical(["a", "b"] * 4),
    ],
)
def test_sound_labels_pass(labels):
    check_labels(pd.Series(labels), "public label", "fall")


def test_a_class_of_one_row_passes_where_no_rows_are_held_out():
    check_labels(pd.Series(["a", "a", "b"]), "public label", "fall", single=True)


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        ([], "has no rows"),
        (["a", None, "b", None], r"missing in 2 of 4 rows \(rows 2, 4;"),
        ([None] * 9, r"rows 1, 2, 3, 4, 5, \.\.\.;"),
        (["on", "off", "unavailable"] * 2, r"missing in 2 of 6 rows \(rows 3, 6;"),
        (["1", "2", " Unknown "] * 2, r"missing in 2 of 6 rows \(rows 3, 6;"),
        ([True, "unavailable", False, True, False], r"missing in 1 of 5 rows \(rows 2;"),
        (["a"] * 5, "one class only, 'a'"),
        ([1, 1.0, 1], "one class only"),
        (["a", "a", "b"], "one row only of class 'b'"),
        ([0.5, 1.5, 0.5, 1.5], "looks continuous: it holds 0.5"),
        ([1.0, np.inf] * 2, "looks continuous: it holds inf"),
        (list(range(MAX_CLASSES + 1)) * 2, "has 51 classes; at most 50"),
        (pd.date_range("2024", periods=4), "holds dates"),
        ([[1], [2]] * 3, "holds values like"),
    ],
)
def test_labels_that_cannot_be_learned_are_refused(labels, match):
    series = pd.Series(labels, dtype=object if not len(labels) else None)
    assert "private label 'who'" in refused(match, check_labels, series, "private label", "who")


@pytest.mark.parametrize("others", [["on", "off"], ["0", "1"], [True, False], ["ann", "bob"]])
def test_words_for_a_missing_label_are_judged_by_the_classes_of_all_rows(others):
    rows = pd.Series([*others * 4, "unavailable", "unavailable", *others * 4], dtype=object)
    said = []
    for cuts in ([0, 18], [0, 8, 9, 18], [0, 9, 11, 18]):
        tally = LabelTally("fall", "public fact")
        for begin, end in pairwise(cuts):
            tally.add(rows[begin:end])
        if others[0] == "ann":  # a word among words is one of them
            assert tally.finish().classes.tolist() == ["ann", "bob", "unavailable"]
        else:
            said.append(refused("'fall' is missing in 2 of 18 rows", tally.finish))
    assert len(set(said)) <= 1
    if said:
        assert said[0] == refused("missing", check_labels, rows, "public fact", "fall")
