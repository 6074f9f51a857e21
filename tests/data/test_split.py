"""Splitting: the same rows on the same side every time."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from support.helpers import home, refused

from discreet.data.columns import Labels
from discreet.data.split import Split, _draw_part, hold_out, split_rows
from discreet.data.tables import read_table


@given(st.integers(0, 2**63 - 1), st.floats(0.2, 0.8), st.integers(30, 200))
@pytest.mark.slow
def test_a_split_parts_the_rows_with_every_class_on_both_sides(seed, holdout, n):
    table = home(n)
    train, audit = split_rows(table, Split(holdout=holdout, seed=seed), ["fall", "who"])
    np.testing.assert_array_equal(np.sort(np.concatenate([train, audit])), np.arange(n))
    assert (np.diff(train) > 0).all() and (np.diff(audit) > 0).all()
    for name in ("fall", "who"):
        assert set(table[name].iloc[train]) == set(table[name].iloc[audit]) == set(table[name])
    assert abs(len(audit) - holdout * n) <= 6  # the number of combinations, if classes are rare


def test_held_out_rows_have_shares_of_their_own():
    """In each table one fact leans to the other by chance, and in each part by a chance of its own.

    Divided in proportion both parts would lean alike, and tables that cancel what one tells of the
    other would look flat to an audit.
    """
    rng, leans = np.random.default_rng(0), []
    for seed in range(300):
        h, g = rng.integers(2, size=(2, 200))
        facts = [Labels(name, fact, range(2)) for name, fact in (("h", h), ("g", g))]
        held = hold_out(Split(holdout=0.5, seed=seed), facts)
        leans.append(
            [h[part & (g == 1)].mean() - h[part & (g == 0)].mean() for part in (held, ~held)]
        )
    # The standard error of a correlation of 300 independent pairs is 0.058.
    assert abs(np.corrcoef(np.transpose(leans))[0, 1]) < 4 * 0.058


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


@pytest.mark.slow
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
    held = np.mean([_draw_part(stratum, 0.3, rng) for _ in range(4000)], axis=0)
    # Standard error of a share: 0.007.
    assert np.abs(held - 0.3).max() < 0.03


@pytest.mark.parametrize("holdout", [0.1, 0.3, 0.5])
@pytest.mark.slow
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
    assert audit.tolist() == [7, 10, 11, 15, 18]


def test_no_holdout_keeps_every_row_for_learning():
    train, audit = split_rows(home(), Split(holdout=0.0), ["fall"])
    assert len(train) == 60 and audit.tolist() == [] and audit.dtype == np.int64


@given(st.integers(0, 1000), st.floats(0.2, 0.8))
@pytest.mark.slow
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
        (
            {"day": home()["who"]},
            Split(group="day"),
            "30 rows in 1 of 3 groups by 'day', which stay whole, and none would be on the "
            "learning side. Add groups with that class, or name finer groups.$",
        ),
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


# --- Many rows ------------------------------------------------------------------------------


def test_of_each_block_of_many_rows_the_same_share_is_held_out():
    index = (np.random.default_rng(1).random(150_000) < 0.02).astype(np.uint8)
    held = hold_out(Split(holdout=0.2, seed=5), [Labels("who", index, ["ann", "bob"])])
    for begin in range(0, 150_000, 1 << 16):
        part = held[begin : begin + (1 << 16)]
        assert abs(int(part.sum()) - 0.2 * len(part)) <= 1


def test_the_first_block_is_split_whatever_follows():
    index = np.arange(100_000) % 3
    facts, few = (Labels("who", each, ["a", "b", "c"]) for each in (index, index[: 1 << 16]))
    split = Split(holdout=0.3, seed=2)
    np.testing.assert_array_equal(hold_out(split, [facts])[: 1 << 16], hold_out(split, [few]))


def test_a_class_that_is_on_one_side_only_is_refused():
    facts = [Labels("who", (np.arange(1000) < 1).astype(np.uint8), ["ann", "bob"])]
    refused("'bob' of 'who' has 1 rows and none would be on the", hold_out,
            Split(holdout=0.05, seed=1), facts)  # fmt: skip
