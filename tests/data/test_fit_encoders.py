"""Choosing encoders: bins and categories that suit a column, and columns that suit none."""

import math
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.helpers import codes, refused

from discreet.data.columns import Labels, as_series
from discreet.data.encoders import CategoriesEncoder, CodesEncoder, encode_table
from discreet.data.fit_encoders import (
    MAX_CATEGORIES,
    ColumnScan,
    Halves,
    choose_bins,
    fit_encoders,
    fit_sensors,
    merge_bins,
)
from discreet.errors import ConstantSensorWarning, InputError

numbers = st.floats(allow_nan=False, allow_infinity=False)
readings = st.lists(st.one_of(st.none(), st.floats()), max_size=40)


def scan(column, strategy="quantile", n_bins=10, facts=()):
    return ColumnScan("a", as_series(column), strategy, n_bins, facts=Halves(facts))


def fit_encoder(column, public=None, strategy="merged", n_bins=10):
    facts = () if public is None else labelled(pd.factorize(np.asarray(public))[0])
    return scan(column, strategy, n_bins, facts).encoder()


@given(
    st.lists(st.one_of(st.none(), st.floats()), min_size=1, max_size=60),
    st.sampled_from(["merged", "quantile", "uniform"]),
    st.integers(1, 12),
    readings,
)
@pytest.mark.slow
def test_fitted_bins_take_any_number_and_keep_to_their_count(values, strategy, n_bins, later):
    public = np.arange(len(values)) % 2
    column = pd.Series(values, dtype=float)
    encoder = fit_encoder(column, strategy=strategy, n_bins=n_bins, public=public)
    assert encoder.kind == "bins" and encoder.missing and encoder.n_codes <= n_bins + 1
    for some in (values, later):
        assert all(0 <= code < encoder.n_codes for code in codes(encoder, some, float))


@given(st.lists(numbers, min_size=1, max_size=10), st.sampled_from(["quantile", "uniform"]))
@pytest.mark.slow
def test_few_distinct_values_each_get_a_code(values, strategy):
    encoder = fit_encoder(pd.Series(values), strategy=strategy, n_bins=10)
    distinct = sorted(set(values))
    assert codes(encoder, distinct) == list(range(len(distinct)))


@pytest.mark.parametrize(
    "pair",
    [
        (1.0, np.nextafter(1.0, 2)),
        (np.nextafter(1.0, 0), 1.0),
        (0.0, 5e-324),
        (-1.7e308, 1.7e308),
        (1.6e308, 1.7e308),
        (2.0**53, 2.0**53 + 2),
    ],
)
def test_an_edge_separates_the_closest_and_the_largest_floats(pair):
    for strategy in ("quantile", "merged"):
        encoder = fit_encoder(pd.Series(pair * 5), strategy=strategy, n_bins=2, public=[0, 1] * 5)
        assert codes(encoder, pair) == [0, 1]


@given(st.lists(st.integers(0, 30), min_size=40, max_size=200), st.integers(2, 8))
@pytest.mark.slow
def test_quantile_edges_agree_with_a_plain_search(values, n_bins):
    encoder = fit_encoder(pd.Series(values), strategy="quantile", n_bins=n_bins)
    distinct, n = sorted(set(values)), len(values)
    if len(distinct) <= n_bins:
        return
    cuts = set()
    for j in range(1, n_bins):
        reached = next(v for v in distinct if n_bins * sum(w <= v for w in values) >= j * n)
        if reached != distinct[-1]:
            cuts.add((reached + distinct[distinct.index(reached) + 1]) / 2)
    assert encoder.edges == tuple(sorted(cuts))


def test_quantile_bins_of_distinct_readings_are_equally_full(rng):
    column = pd.Series(rng.normal(size=1000))
    encoder = fit_encoder(column, n_bins=10)
    assert np.bincount(encoder.encode(column, "a")).tolist() == [100] * 10


def test_uniform_bins_are_equally_wide():
    column = pd.Series(np.linspace(0, 10, 101))
    encoder = fit_encoder(column, strategy="uniform", n_bins=4)
    assert encoder.edges == pytest.approx([2.5, 5, 7.5])


def test_fitting_twice_gives_the_same_encoder(rng):
    column, public = pd.Series(rng.normal(size=300)), rng.integers(0, 3, 300)
    for strategy in ("merged", "quantile", "uniform"):
        first, second = (
            fit_encoder(column, strategy=strategy, n_bins=7, public=public) for _ in range(2)
        )
        assert first == second


@pytest.mark.parametrize(
    ("values", "dtype", "categories"),
    [
        (["b", "a", None, "b"], str, ("a", "b")),
        (["b", "a", None, "b"], "category", ("a", "b")),
        ([True, False], bool, (False, True)),
        ([True, None], object, (True,)),
        (["b", 10, True, 2.5, None, 9], object, (True, 2.5, 9, 10, "b")),
        (pd.Categorical([3, 1], categories=[3, 2, 1]), None, (1, 3)),
    ],
)
def test_text_and_booleans_become_sorted_categories(values, dtype, categories):
    for strategy in ("merged", "quantile", "uniform", "categories"):
        column = pd.Series(values, dtype=dtype)
        encoder = fit_encoder(column, strategy=strategy)
        assert encoder == CategoriesEncoder(categories=categories, missing=True)


def test_numbers_can_be_categories_and_infinity_is_unknown():
    encoder = fit_encoder(pd.Series([2.5, 1.0, np.inf]), strategy="categories")
    assert encoder.categories == (1.0, 2.5)
    assert codes(encoder, [np.inf, 2.5]) == [2, 1]


def test_an_object_column_of_numbers_is_numeric():
    encoder = fit_encoder(pd.Series([1, 2.5, None, Decimal(4)], dtype=object))
    assert encoder.edges == (1.75, 3.25)


@pytest.mark.parametrize("strategy", ["merged", "quantile", "uniform", "categories", "codes"])
@pytest.mark.parametrize("values", [[np.nan] * 3, [2.0] * 3, [None] * 3, [2.0, np.nan, 2.0]])
def test_constant_and_empty_columns_still_have_an_encoder(values, strategy):
    for dtype in (float, object):
        column = pd.Series(values, dtype=dtype)
        encoder = fit_encoder(column, strategy=strategy, public=[0, 1, 0])
        assert max(codes(encoder, values, dtype)) < encoder.n_codes <= 4


def test_whole_numbers_can_be_codes_already():
    assert fit_encoder(pd.Series([0, 3, 1]), strategy="codes") == CodesEncoder(size=4, missing=True)


@pytest.mark.parametrize(
    ("values", "options", "match"),
    [
        ([-1, 2], {"strategy": "codes"}, "sensor 'a' holds -1"),
        ([0.5], {"strategy": "codes"}, "holds 0.5"),
        ([1e9], {"strategy": "codes"}, "largest code allowed"),
        ([np.inf], {"strategy": "codes"}, "holds inf"),
        (["x"], {"strategy": "codes"}, "holds 'x'"),
        ([1.0], {"strategy": "quantiles"}, "Did you mean 'quantile'"),
        ([1.0], {"strategy": "supervised"}, "There are: 'merged', .*chooses bins by the labels"),
        ([1.0], {"n_bins": 0}, "n_bins must be a whole number from 1"),
        ([1.0], {"n_bins": 2.5}, "n_bins must be a whole number"),
        ([1.0], {"n_bins": True}, "n_bins must be a whole number"),
        ([str(i) for i in range(MAX_CATEGORIES + 1)], {}, "more than 1000 different values"),
        (["x" * 5000], {}, "at most 1000 characters"),
        (pd.date_range("2024", periods=3), {}, "holds dates"),
        ([1j], {}, "holds complex numbers"),
    ],
)
def test_a_column_that_does_not_suit_is_refused_by_name(values, options, match):
    with pytest.raises(InputError, match=match) as caught:
        fit_encoder(pd.Series(values), **options)
    assert "'a'" in str(caught.value) and "\n" not in str(caught.value)


def test_columns_can_have_their_own_strategy_and_bins(rng):
    table = pd.DataFrame(rng.normal(size=(100, 3)), columns=["a", "b", "c"])
    table["door"] = "open"
    encoders = fit_encoders(table, strategy={"a": "uniform"}, n_bins={"b": 3})
    assert [encoder.n_codes for encoder in encoders] == [11, 4, 11, 3]
    assert encoders[0] == fit_encoder(table["a"], strategy="uniform")
    assert fit_encoders(table, strategy="uniform")[3].kind == "categories"


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"strategy": {"hal": "uniform"}}, "binning names the column 'hal'.*Did you mean 'hall'"),
        ({"n_bins": {"hal": 3}}, "n_bins names the column 'hal'"),
        ({"strategy": {"door": "uniform"}}, "'uniform' was asked for 'door'"),
        ({"strategy": {"hall": "unifrom"}}, "Did you mean 'uniform'"),
        ({"strategy": {0: "uniform"}}, "binning names the column 0, which is no sensor"),
    ],
)
def test_options_that_do_not_fit_the_table_are_refused(options, match):
    table = pd.DataFrame({"hall": [1.0, 2.0], "door": ["open", "shut"]})
    with pytest.raises(InputError, match=match):
        fit_encoders(table, **options)


def test_columns_may_be_called_by_their_numbers(rng):
    table = pd.DataFrame(rng.normal(size=(100, 3)))
    encoders = fit_encoders(table, strategy={0: "uniform"}, n_bins={1: 3, "2": 4})
    assert [encoder.n_codes for encoder in encoders] == [11, 4, 5]
    with pytest.raises(InputError, match="n_bins names the column '1' twice"):
        fit_encoders(table, n_bins={1: 3, "1": 4})


@pytest.mark.parametrize(
    ("table", "match"),
    [
        (pd.DataFrame(index=range(5)), "the readings have no columns"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "more than one column is called 'a'"),
        (pd.DataFrame([[1, 2]], columns=[0, "0"]), "more than one column is called '0'"),
        (pd.DataFrame([[1, 2]], columns=["a", ""]), "column 2 has no name"),
    ],
)
def test_columns_without_a_name_of_their_own_are_refused(table, match):
    with pytest.raises(InputError, match=match):
        fit_encoders(table)


# --- Merged by what they say of the facts ----------------------------------------------------


def labelled(*columns):
    return [
        Labels(f"f{k}", np.asarray(each), range(max(each) + 1)) for k, each in enumerate(columns)
    ]


def slowly_merged(counts, n_bins):
    """Try every pair, with the information lost as the definition has it."""
    groups = [[k] for k in range(len(counts[0]))]

    def information(table, rows):
        cells = np.sum([table[k] for k in rows], axis=0)
        return sum(c * math.log(c / cells.sum()) for c in cells if c)

    def lost(table, a, b):
        apart = information(table, a) + information(table, b)
        return apart - information(table, a + b)

    while len(groups) > n_bins:
        costs = [max(lost(t, a, b) for t in counts) for a, b in pairwise(groups)]
        k = int(np.argmin(costs))
        groups[k : k + 2] = [groups[k] + groups[k + 1]]
    return [group[-1] for group in groups]


@given(st.integers(1, 6), st.integers(0, 10_000))
def test_merging_agrees_with_trying_every_pair(n_bins, seed):
    rng = np.random.default_rng(seed)
    counts = [rng.integers(0, 50, size=(9, cells)) for cells in (4, 6)]
    assert merge_bins(counts, n_bins).tolist() == slowly_merged(counts, n_bins)


@given(st.integers(0, 10_000))
def test_merged_bins_are_judged_by_the_other_half(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 40, size=(2, 8, 4)) * rng.integers(1, 4, size=(8, 4)) ** 2
    plain, gain = np.array([1, 3, 5, 7]), 0.0
    for own, other in (counts, counts[::-1]):
        shares = (own.sum(axis=0) + 1) / (own.sum() + 4)
        for sign, last in ((1, slowly_merged([own], 4)), (-1, plain)):
            bins = np.split(np.arange(8), np.array(last[:-1]) + 1)
            for code in bins:
                chances = (own[code].sum(axis=0) + shares) / (own[code].sum() + 1)
                gain += sign * (other[code].sum(axis=0) * np.log(chances)).sum()
    wanted = slowly_merged([counts.sum(axis=0)], 4) if gain > 0 else plain.tolist()
    assert choose_bins([counts], plain, 4).tolist() == wanted


def test_edges_go_where_the_facts_change(rng):
    column = pd.Series(rng.uniform(size=20_000))
    facts = labelled((column > 11 / 12).astype(int), (column < 2 / 12).astype(int))
    (encoder,) = fit_encoders(column.to_frame(), n_bins=3, facts=facts)
    np.testing.assert_allclose(encoder.edges, [2 / 12, 11 / 12], atol=0.01)
    (plain,) = fit_encoders(column.to_frame(), n_bins=3, strategy="quantile", facts=facts)
    np.testing.assert_allclose(plain.edges, [1 / 3, 2 / 3], atol=0.02)


def test_quantiles_stay_where_merging_tells_no_more_of_other_rows(rng):
    facts = labelled(rng.integers(2, size=500), rng.integers(2, size=500))
    noise = pd.DataFrame({"a": rng.normal(size=500), "b": rng.integers(9, size=500)})
    assert fit_encoders(noise, facts=facts) == fit_encoders(noise, strategy="quantile")
    # What holds for the first half only is not believed.
    half = labelled((noise["a"] > 2).astype(int) * (np.arange(500) < 250), facts[1].index)
    assert fit_encoders(noise, facts=half) == fit_encoders(noise, strategy="quantile")


# --- Columns -------------------------------------------------------------------------------


def test_codes_are_taken_as_they_are(rng):
    column = pd.Series(rng.integers(7, size=1000))
    assert scan(column, "codes").encoder() == fit_encoder(column, strategy="codes")
    for wrong in (column - 1, column + 0.5, column * 20_000):
        refused("Binning 'codes' needs whole numbers", scan, wrong, "codes")
    assert scan(column.astype(str), "codes").encoder() == scan(column, "codes").encoder()
    refused("holds 'x'", scan, pd.Series(["x"]), "codes")


def test_columns_that_say_too_much_are_refused():
    ids = pd.Series([f"id-{k % 40}" for k in range(50)])
    refused("40 different texts in 50 rows", scan(ids).check_worth)
    scan(pd.Series(np.arange(50)), "categories").check_worth()
    many = pd.Series(map("id-{}".format, range(2000)))
    refused("more than 1000 different values, like 'id-1000'", scan, many)
    refused("holds dates", scan, pd.Series(pd.date_range("2020", periods=50)))


def test_columns_that_never_change_are_left_out_with_one_warning():
    table = pd.DataFrame({
        "gone": [np.nan] * 50, "none": [None] * 50, "one": 1.0, "text": "a", "word": "unknown",
        "gaps": [1.0, np.nan] * 25, "heard": range(50),
    })  # fmt: skip
    with pytest.warns(ConstantSensorWarning) as told:
        found = fit_sensors(table, strategy={"one": "quantile"}, worth=True)
    assert [name for name, _ in found] == ["gaps", "heard"]  # gaps say something, too
    assert [encoder for _, encoder in found] == fit_encoders(table[["gaps", "heard"]])
    (message,) = (str(each.message) for each in told)
    assert "'gone' (missing), 'none' (missing), 'one' (1), 'text' ('a'), 'word'" in message
    refused(r"'one' \(1\).*there are no others", fit_sensors, table[["one"]])


def test_gaps_do_not_tell_what_a_column_holds():
    gaps = pd.Series([None] * 10, dtype=object)
    numbers = pd.concat([gaps, pd.Series([Decimal(1), Decimal(2)] * 5, dtype=object)])
    assert scan(numbers).encoder().edges == (1.5,)
    texts = pd.concat([gaps, pd.Series(["a", "b"] * 5, dtype=object)])
    assert scan(texts).encoder().categories == ("a", "b")


def test_words_of_home_automation_are_missing_readings(rng):
    """In a column of numbers, whatever comes first, or of switches; elsewhere they are texts."""
    numbers = rng.normal(20, 3, size=3000).round(3)
    gone = rng.random(3000) < 0.1
    said = pd.Series(np.where(gone, "unavailable", numbers.astype(str)))
    said[:400] = numbers[:400].astype(str)
    gone[:400] = False
    wanted = scan(pd.Series(np.where(gone, np.nan, numbers)))
    found = scan(said)
    found.check_worth()
    assert found.encoder() == wanted.encoder()
    assert codes(found.encoder(), ["unavailable", " Unknown "], str) == [10, 10]

    switch = scan(pd.Series(["on", "off", "unavailable", "off", "unknown"] * 300))
    assert switch.encoder().categories == ("off", "on")
    table = pd.DataFrame({"s": ["on", "unavailable", "ajar"]})
    assert encode_table(table, [("s", switch.encoder())]).ravel().tolist() == [1, 3, 2]

    other = scan(pd.Series(["1.5", "2.5", "unknown", "low"] * 300)).encoder()
    assert other.categories == ("1.5", "2.5", "low", "unknown")
    assert scan(pd.Series(["1", "2"] * 300)).encoder().categories == ("1", "2")


def test_many_numbers_before_a_text_are_no_categories(rng):
    texts = [*rng.normal(size=2000).astype(str), "unknown"]
    assert scan(pd.Series(texts)).encoder().kind == "bins"
    refused("more than 1000 different values", scan, pd.Series([*texts, "low"]))


@pytest.mark.parametrize("n", [20, 5000, 30_000])
def test_many_values_in_one_batch_are_counted_exactly(n, rng):
    column = pd.Series(rng.normal(size=n))
    cuts = np.array(fit_encoder(column).edges)
    assert np.searchsorted(np.sort(column), cuts).tolist() == (np.arange(1, 10) * n / 10).tolist()
