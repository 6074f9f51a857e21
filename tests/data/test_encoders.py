"""Readings become codes: every reading has one, and it is the right one."""

import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from support.helpers import codes

from discreet.data.encoders import (
    BinsEncoder,
    CategoriesEncoder,
    CodesEncoder,
    Encoder,
    LookedUp,
    encode_table,
)
from discreet.errors import CodeRangeError, InputError

numbers = st.floats(allow_nan=False, allow_infinity=False)
readings = st.lists(st.one_of(st.none(), st.floats()), max_size=40)
scalars = st.one_of(st.booleans(), st.integers(-5, 5), st.floats(-3, 3), st.text(max_size=3))

EXAMPLES = {
    "bins": BinsEncoder(edges=[0.5, 1.5]),
    "bins with missing": BinsEncoder(edges=[0.5, 1.5], missing=True),
    "one bin": BinsEncoder(edges=[]),
    "categories": CategoriesEncoder(categories=["a", 2, True]),
    "categories with missing": CategoriesEncoder(categories=["a", "b"], missing=True),
    "no categories": CategoriesEncoder(categories=[], missing=True),
    "codes": CodesEncoder(size=9),
    "codes with missing": CodesEncoder(size=2, missing=True),
}
each_encoder = pytest.mark.parametrize("encoder", EXAMPLES.values(), ids=EXAMPLES)


# --- Every encoder -------------------------------------------------------------------------


@each_encoder
def test_an_encoder_survives_json(encoder):
    adapter = TypeAdapter(Encoder)
    assert adapter.validate_json(encoder.model_dump_json()) == encoder


@each_encoder
def test_there_is_one_label_per_code_and_no_two_are_alike(encoder):
    assert len(encoder.labels()) == encoder.n_codes == len(set(encoder.labels()))


@each_encoder
def test_an_encoder_cannot_be_changed_or_given_unknown_keys(encoder):
    with pytest.raises(ValidationError):
        encoder.missing = True
    with pytest.raises(ValidationError):
        type(encoder).model_validate({**encoder.model_dump(), "more": 1})


@each_encoder
def test_no_readings_give_no_codes(encoder):
    for dtype in (float, object, str):
        found = encoder.encode(pd.Series([], dtype=dtype), "hall")
        assert found.shape == (0,) and found.dtype == np.int64


@each_encoder
@pytest.mark.parametrize("gap", [None, np.nan, pd.NA, pd.NaT], ids=repr)
def test_a_missing_reading_has_the_last_code_or_is_refused(encoder, gap):
    values = pd.Series([gap], dtype=object)
    if encoder.missing:
        assert encoder.encode(values, "hall").tolist() == [encoder.n_codes - 1]
        assert encoder.labels()[-1] == "missing"
    else:
        with pytest.raises(CodeRangeError, match="sensor 'hall' has no reading in row 1"):
            encoder.encode(values, "hall")


def test_only_bins_are_ordered():
    assert [each.ordered for each in EXAMPLES.values()] == [True] * 3 + [False] * 5


# --- Bins ----------------------------------------------------------------------------------


def bin_by_hand(edges, value, missing_code):
    if value is None or math.isnan(value):
        return missing_code
    return sum(edge < value for edge in edges)


@given(st.lists(numbers, max_size=8, unique=True), readings)
def test_bins_agree_with_counting_the_edges_below(edges, values):
    edges = sorted(set(edges))
    encoder = BinsEncoder(edges=edges, missing=True)
    expected = [bin_by_hand(edges, value, len(edges) + 1) for value in values]
    assert codes(encoder, values, float) == expected
    assert codes(encoder, values, object) == expected
    assert all(0 <= code < encoder.n_codes for code in expected)


def test_a_reading_on_an_edge_belongs_to_the_bin_it_closes():
    encoder = BinsEncoder(edges=[0.5, 1.5])
    assert codes(encoder, [0.5, np.nextafter(0.5, 1), 1.5, np.inf, -np.inf]) == [0, 1, 1, 2, 0]
    assert encoder.labels() == ["<= 0.5", "0.5 to 1.5", "> 1.5"]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([0, 1, 2], int),
        ([0, 1, 2], "Int64"),
        ([0, 1, 2], "float32"),
        (["0", "1.0", " 2 "], str),
        ([0, "1", Decimal(2)], object),
        ([-(10**400), 1, 10**400], object),
        ([0, 1, 2], "category"),
    ],
)
def test_numbers_are_numbers_however_they_are_stored(values, dtype):
    assert codes(BinsEncoder(edges=[0.5, 1.5]), values, dtype) == [0, 1, 2]


@pytest.mark.parametrize("value", ["warm", pd.Timestamp("2024"), 1j, [1], {"a": 1}, b"1"], ids=repr)
def test_a_reading_that_is_no_number_is_refused_by_name(value):
    series = pd.Series([1.0, None], dtype=object)
    series[1] = value
    for encoder, match in (
        (BinsEncoder(edges=[0.5], missing=True), "sensor 'hall' read .* expects a number"),
        (CodesEncoder(size=3, missing=True), "sensor 'hall' produced code"),
    ):
        with pytest.raises(CodeRangeError, match=match):
            encoder.encode(series, "hall")


@pytest.mark.parametrize(
    "edges",
    [[1, 1], [2, 1], [math.nan], [math.inf], [True], ["1"], "12", None, [10**400]],
    ids=repr,
)
def test_edges_must_be_finite_and_increase(edges):
    with pytest.raises(ValidationError):
        BinsEncoder(edges=edges)


def test_close_edges_have_labels_that_differ():
    assert len(set(BinsEncoder(edges=[1.0, 1.0 + 1e-12, 1.0 + 2e-12]).labels())) == 4


# --- Categories ----------------------------------------------------------------------------


def text_of(value):
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


@given(st.lists(scalars, max_size=8, unique_by=text_of), st.lists(scalars, max_size=20))
@pytest.mark.slow
def test_categories_agree_with_comparing_one_by_one(categories, values):
    encoder = CategoriesEncoder(categories=categories, missing=True)
    for value, code in zip(values, codes(encoder, values, object), strict=True):
        matches = [i for i, each in enumerate(categories) if text_of(each) == text_of(value)]
        assert code == (matches[0] if matches else len(categories))


def test_true_and_one_are_different_categories():
    encoder = CategoriesEncoder(categories=[1, True])
    assert codes(encoder, [True, 1, 1.0, np.True_, np.int8(1), False], object) == [1, 0, 0, 1, 0, 2]


def test_a_category_is_found_whatever_kind_the_column_was_read_as():
    digits = CategoriesEncoder(categories=["1", "2", "x"], missing=True)
    assert codes(digits, [1, 2, 3]) == [0, 1, 3]
    assert codes(digits, [1.0, np.nan]) == [0, 4]
    flags = CategoriesEncoder(categories=[False, True], missing=True)
    assert codes(flags, ["True", "maybe", None]) == [1, 2, 3]
    assert codes(flags, [True, None], "boolean") == [1, 3]


def test_an_unknown_value_has_a_code_of_its_own():
    encoder = CategoriesEncoder(categories=["a", "b"], missing=True)
    assert codes(encoder, ["b", "c", None, "a"]) == [1, 2, 3, 0]
    assert codes(encoder, pd.Categorical(["b", "c", None, "a"])) == [1, 2, 3, 0]
    assert encoder.labels() == ["a", "b", "unknown", "missing"]


def test_a_reading_that_cannot_be_a_category_is_refused_by_name():
    encoder = CategoriesEncoder(categories=["a"], missing=True)
    for value in ([1], pd.Timestamp("2024"), 1j):
        with pytest.raises(CodeRangeError, match="sensor 'hall' read"):
            encoder.encode(pd.Series([value], dtype=object), "hall")


@pytest.mark.parametrize(
    "categories",
    [
        ["a", "a"],
        [1, 1.0],
        [1, "1"],
        [True, "True"],
        [None],
        [math.nan],
        [[1]],
        ["x" * 2000],
        [2**70],
        ["\ud800"],
    ],
)
def test_categories_must_be_plain_and_distinct(categories):
    with pytest.raises(ValidationError):
        CategoriesEncoder(categories=categories)


def test_a_category_named_like_a_special_code_keeps_its_label_to_itself():
    labels = CategoriesEncoder(categories=["missing", "unknown"], missing=True).labels()
    assert labels == ["missing", "unknown", "any other", "no reading"]


# --- Codes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "text"), [(9, "9"), (-1, "-1"), (1.5, "1.5"), (math.inf, "inf")])
def test_a_code_outside_the_table_is_refused_as_the_style_guide_shows(value, text):
    with pytest.raises(CodeRangeError) as caught:
        codes(CodesEncoder(size=9), [0, value])
    assert str(caught.value).startswith(
        f"sensor 'hall' produced code {text}; the mapping covers 0..8. Clip the reading"
    )


def test_codes_pass_unchanged():
    encoder = CodesEncoder(size=9, missing=True)
    assert codes(encoder, [0, 8, 3]) == [0, 8, 3]
    assert codes(encoder, [0.0, np.nan, 8.0]) == [0, 9, 8]
    assert codes(encoder, [1, None], "Int64") == [1, 9]


@pytest.mark.parametrize("size", [0, -1, True, 2.0, "3", 10**6])
def test_a_size_must_be_a_small_positive_integer(size):
    with pytest.raises(ValidationError):
        CodesEncoder(size=size)


# --- Tables --------------------------------------------------------------------------------


def test_columns_are_found_by_name():
    table = pd.DataFrame({"x": ["?"], "b": [2.0], "a": [0.0]}, index=[7])
    sensors = [("a", BinsEncoder(edges=[1.0])), ("b", BinsEncoder(edges=[1.0]))]
    assert encode_table(table, sensors).tolist() == [[0, 1]]


def test_a_missing_or_doubled_column_is_refused():
    sensors = [("hall", BinsEncoder(edges=[1.0]))]
    with pytest.raises(InputError, match=r"no column 'hall'.*Did you mean 'hal'"):
        encode_table(pd.DataFrame({"hal": [1.0]}), sensors)
    with pytest.raises(InputError, match="2 columns are called 'hall'"):
        encode_table(pd.DataFrame([[1.0, 2.0]], columns=["hall", "hall"]), sensors)


def test_columns_joined_as_one_keep_their_codes_and_list_no_reading_twice(rng):
    """Five columns of 0, 50 and 100 have 243 codes, and 10 billion readings to list."""
    book = np.repeat([0, 1, 2], [1, 50, 50])
    columns = [LookedUp(rng.choice([0, 50, 100], size=40), book, 3) for _ in range(5)]
    joined = columns[0]
    for column in columns[1:]:
        joined = joined.joined(column)
    expected = np.ravel_multi_index([column.codes() for column in columns], [3] * 5)
    np.testing.assert_array_equal(joined.codes(), expected)
    assert joined.size == 3**5 and len(joined.book) <= 101**2
