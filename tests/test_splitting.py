"""Splitting: the same rows on the same side every time, and a digest to know the table by."""

import itertools

import numpy as np
import pandas as pd
import pytest
from helpers import home, refused
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from discreet.readings import read_table
from discreet.splitting import Split, _draw_rows, split_rows, table_digest

# --- Splitting -----------------------------------------------------------------------------


@given(st.integers(0, 2**63 - 1), st.floats(0.2, 0.8), st.integers(30, 200))
def test_a_split_parts_the_rows_with_every_class_on_both_sides(seed, holdout, n):
    table = home(n)
    train, audit = split_rows(table, Split(holdout=holdout, seed=seed), ["fall", "who"])
    np.testing.assert_array_equal(np.sort(np.concatenate([train, audit])), np.arange(n))
    assert (np.diff(train) > 0).all() and (np.diff(audit) > 0).all()
    for name in ("fall", "who"):
        assert set(table[name].iloc[train]) == set(table[name].iloc[audit]) == set(table[name])
    assert abs(len(audit) - holdout * n) <= 6  # the number of combinations


@given(st.integers(0, 1000), st.floats(0.1, 0.9))
def test_each_combination_of_classes_is_divided_in_proportion(seed, holdout):
    table = home(600)
    _, audit = split_rows(table, Split(holdout=holdout, seed=seed), ["fall", "who"])
    for fall, who in itertools.product([True, False], ["ann", "bob", "cid"]):
        rows = np.flatnonzero((table["fall"] == fall) & (table["who"] == who))
        assert abs(np.isin(rows, audit).sum() - holdout * len(rows)) <= 1


def test_a_split_depends_on_contents_and_seed_alone(tmp_path):
    table, split = home(), Split(holdout=0.3, seed=7)
    expected = split_rows(table, split, ["fall", "who"])
    table.to_csv(tmp_path / "t.csv", index=False)
    shuffled = table.set_index(np.random.default_rng(0).permutation(len(table)))
    typed = table.astype({"who": "category", "fall": object})
    for same in (read_table(tmp_path / "t.csv"), shuffled, typed):
        for part, again in zip(expected, split_rows(same, split, ["fall", "who"]), strict=True):
            np.testing.assert_array_equal(part, again)
    _, other = split_rows(table, Split(holdout=0.3, seed=8), ["fall", "who"])
    assert not np.array_equal(other, expected[1])


def test_every_row_is_held_out_equally_often_however_rare_its_labels():
    """A split that favoured some labels would make the audit a biased sample."""
    table = pd.DataFrame({"a": np.arange(60) // 20, "b": np.r_[np.arange(58) % 4, 9, 9]})
    held = np.zeros(60)
    for seed in range(2000):
        held[split_rows(table, Split(holdout=0.3, seed=seed), ["a"])[1]] += 1
    # Standard error of a share over 2000 seeds: 0.010; the largest of 60 within 4 of them.
    assert np.abs(held / 2000 - 0.3).max() < 0.045


def test_small_strata_are_not_favoured(rng):
    stratum = np.r_[
        np.arange(20), np.repeat(np.arange(20, 40), 2), np.repeat(np.arange(40, 44), 10)
    ]
    held = np.mean([_draw_rows(stratum, 0.3, rng) for _ in range(4000)], axis=0)
    # Standard error of a share: 0.007.
    assert np.abs(held - 0.3).max() < 0.03


@pytest.mark.parametrize("holdout", [0.1, 0.3, 0.5])
def test_large_groups_are_held_out_as_often_as_small_ones(holdout):
    table = pd.DataFrame(
        {"a": np.arange(100) % 2, "day": np.r_[np.zeros(50), np.arange(50) // 5 + 1]}
    )
    held = np.zeros(100)
    for seed in range(1000):
        split = Split(holdout=holdout, seed=seed, group="day")
        held[split_rows(table, split, ["a"])[1]] += 1
    # Standard error of a share: 0.016.
    assert np.abs(held / 1000 - round(holdout * 11) / 11).max() < 0.06


def test_the_split_of_a_seed_stays_the_same_over_releases():
    _, audit = split_rows(home(20), Split(holdout=0.25, seed=3), ["fall"])
    assert audit.tolist() == [3, 7, 8, 10, 18]


def test_no_holdout_keeps_every_row_for_learning():
    train, audit = split_rows(home(), Split(holdout=0.0), ["fall"])
    assert len(train) == 60 and audit.tolist() == [] and audit.dtype == np.int64


@given(st.integers(0, 1000), st.floats(0.2, 0.8))
def test_a_group_stays_on_one_side(seed, holdout):
    table = home(200)
    train, audit = split_rows(table, Split(holdout=holdout, seed=seed, group="day"), ["who"])
    assert not set(table["day"].iloc[train]) & set(table["day"].iloc[audit])
    assert abs(len(audit) - holdout * 200) <= 5


@pytest.mark.parametrize(
    ("change", "split", "match"),
    [
        ({"day": 1}, Split(group="day"), "one group only, '1'"),
        ({"day": [None, 1] * 30}, Split(group="day"), "missing in 30 of 60 rows, first in row 1"),
        ({}, Split(group="days"), "Did you mean 'day'"),
        ({"day": home()["who"]}, Split(group="day"), "kept together by 'day'"),
        ({"who": ["ann", *["bob"] * 59]}, Split(), "class 'ann' of 'who' has 1 rows"),
        ({"who": ["ann", *["bob"] * 59]}, Split(holdout=0.99), "on the learning side"),
    ],
)
def test_a_split_that_starves_one_side_is_refused(change, split, match):
    refused(match, split_rows, home().assign(**change), split, ["fall", "who"])


def test_a_class_of_two_rows_has_one_on_each_side():
    table = home().assign(who=["ann", "ann", *["bob"] * 58], fall=True)
    for seed in range(20):
        _, audit = split_rows(table, Split(holdout=0.1, seed=seed), ["fall", "who"])
        assert np.isin([0, 1], audit).sum() == 1


def test_a_label_that_is_not_there_cannot_be_split_by():
    refused("no column 'x' for the labels", split_rows, home(), Split(), ["x"])


@pytest.mark.parametrize("bad", [{"holdout": 1.0}, {"holdout": -0.1}, {"seed": -1}, {"seed": True}])
def test_a_split_checks_itself(bad):
    with pytest.raises(ValidationError):
        Split(**bad)


# --- Digest --------------------------------------------------------------------------------


def test_the_digest_is_of_the_contents_not_of_how_they_are_stored():
    table = pd.DataFrame({"a": [1, 2, 3], "b": [True, False, True], "c": ["x", None, "é"]})
    same = table.astype({"a": float, "b": object, "c": "category"}).set_index(pd.Index([5, 5, 1]))
    assert table_digest(same) == table_digest(table)
    narrow = pd.DataFrame({"a": np.float32([0.1, 0.2])})
    assert table_digest(narrow) == table_digest(pd.DataFrame({"a": [0.1, 0.2]}))
    gaps = pd.DataFrame({"a": [1.0, np.nan]})
    for dtype in ("Int64", "Float64", object):
        assert table_digest(gaps.astype(dtype)) == table_digest(gaps)
    empty = [
        pd.Series([None, None], dtype=dtype) for dtype in (float, object, str, "datetime64[ns]")
    ]
    assert len({table_digest(pd.DataFrame({"a": each})) for each in empty}) == 1
    zeros = [pd.DataFrame({"a": [zero, np.nan]}) for zero in (0.0, -0.0)]
    assert table_digest(zeros[0]) == table_digest(zeros[1])


def test_any_change_changes_the_digest():
    table = pd.DataFrame({"a": [1.0, 2.0, np.nan], "b": ["x", "yz", None]})
    others = [
        table.iloc[::-1],
        table.iloc[:2],
        table[["b", "a"]],
        table.rename(columns={"a": "c"}),
        table.assign(a=[1.0, np.nextafter(2.0, 3.0), np.nan]),
        table.assign(a=[1.0, 2.0, 0.0]),
        table.assign(b=["xy", "z", None]),
        table.assign(b=["x", "yz", ""]),
        table.assign(b=["x", "yz", "nan"]),
    ]
    digests = {table_digest(each) for each in [table, *others]}
    assert len(digests) == 1 + len(others)
    assert all(len(digest) == len("sha256:") + 64 for digest in digests)


def test_the_digest_of_a_table_stays_the_same_over_releases():
    frozen = "sha256:560cbcf8828f46bcc35f69bd27a7c47aa58dbe72596c6f30150fb10105d232a5"
    assert table_digest(pd.DataFrame({"a": [1, 2], "b": ["x", None]})) == frozen
