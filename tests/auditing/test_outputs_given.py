import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.auditing.outputs_given import (
    MAX_AUDIT_OUTPUTS,
    AuditRows,
    average_outputs,
    count_outputs,
    dobrushin,
    dobrushin_coefficients,
    smallest_and_largest,
)
from discreet.errors import InputError
from discreet.outputs import output_probabilities

cases = {
    "seed": st.integers(0, 2**32 - 1),
    "shapes": st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=5),
}


def random_tables(rng, shapes):
    return tuple(rng.dirichlet(np.ones(z), size=x) for x, z in shapes)


def random_rows(seed, shapes, n=30, classes=3, groups=False):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(x, size=n) for x, _ in shapes], axis=1)
    index = rng.integers(classes, size=n)
    index[:classes] = np.arange(classes)
    group = rng.integers(6, size=n) if groups else None
    return AuditRows(random_tables(rng, shapes), codes, index, classes, group)


def every_row(tables):
    grids = np.meshgrid(*[np.arange(len(table)) for table in tables], indexing="ij")
    return np.stack([grid.ravel() for grid in grids], axis=1)


@given(**cases)
def test_averages_are_those_of_all_rows_by_all_outputs(seed, shapes):
    rows = random_rows(seed, shapes)
    outputs = output_probabilities(rows.tables, rows.codes)
    for k in range(3):
        own = outputs[rows.index == k]
        np.testing.assert_allclose(rows.average[k], own.mean(axis=0), atol=1e-13)
        np.testing.assert_allclose(rows.moments.square[k], (own**2).mean(axis=0), atol=1e-13)
    assert rows.moments.size.tolist() == list(rows.counts)


@given(**cases)
def test_range_of_an_output_is_that_over_all_codes(seed, shapes):
    tables = random_tables(np.random.default_rng(seed), shapes)
    outputs = output_probabilities(tables, every_row(tables))
    low, high = smallest_and_largest(tables)
    np.testing.assert_allclose(low, outputs.min(axis=0), rtol=1e-12)
    np.testing.assert_allclose(high, outputs.max(axis=0), rtol=1e-12)


@given(**cases)
def test_no_two_rows_of_codes_are_further_apart_than_dobrushin_says(seed, shapes):
    tables = random_tables(np.random.default_rng(seed), shapes[:3])
    outputs = output_probabilities(tables, every_row(tables))
    distances = 0.5 * np.abs(outputs[:, None] - outputs[None]).sum(axis=2)
    assert distances.max() <= dobrushin(tables) + 1e-12
    if len(tables) == 1:
        assert distances.max() == pytest.approx(dobrushin(tables), abs=1e-12)
    assert dobrushin(tables) <= dobrushin_coefficients(tables).sum() + 1e-12


def test_blocks_of_rows_do_not_change_the_sum(monkeypatch):
    rows = random_rows(1, [(3, 2)] * 4, n=200)
    weights = np.random.default_rng(0).random((2, 200))
    whole = average_outputs(rows.tables, rows.codes, weights)
    monkeypatch.setattr("discreet.auditing.outputs_given._BLOCK_NUMBERS", 40)
    blocks = average_outputs(rows.tables, rows.codes, weights)
    np.testing.assert_allclose(blocks, whole, rtol=1e-12)


def test_rows_of_very_many_codes_are_told_apart():
    shapes = [(1000, 2)] * 9  # 1000**9 rows of codes do not fit in 64 bits
    rows = random_rows(0, shapes, n=50)
    outputs = output_probabilities(rows.tables, rows.codes)
    np.testing.assert_allclose(rows.average[1], outputs[rows.index == 1].mean(axis=0))


def test_a_class_without_rows_has_no_size():
    rows = AuditRows((np.eye(2),), np.array([[0], [1]]), np.array([0, 0]), 2)
    assert rows.moments.size.tolist() == [2, 0]
    assert rows.average.tolist() == [[0.5, 0.5], [0, 0]]


def test_groups_count_as_one_over_the_largest_share():
    index = np.array([0, 0, 0, 0, 1, 1])
    groups = np.array([7, 7, 7, 8, 9, 8])
    rows = AuditRows((np.eye(2),), np.zeros((6, 1), int), index, 2, groups)
    assert rows.moments.size == pytest.approx([4 / 3, 2])
    assert rows.classes_share_groups
    assert rows.independent_rows == 2
    # Group 7 moves class 0 by 3/4, group 8 both classes, group 9 class 1 by 1/2.
    squares = 0.75**2 + (0.25 + 0.5) ** 2 + 0.5**2
    assert rows.sum_of_squares(np.ones(2)) == pytest.approx(squares)
    assert rows.largest_move(np.ones(2)) == pytest.approx(0.75)


def test_single_rows_as_groups_are_rows():
    plain = random_rows(3, [(3, 2)] * 2)
    grouped = AuditRows(plain.tables, plain.codes, plain.index, 3, np.arange(30))
    assert not grouped.classes_share_groups
    for rows in (plain, grouped):
        assert rows.sum_of_squares(np.ones(3)) == pytest.approx(sum(1 / n for n in plain.counts))
        assert rows.independent_rows == 30
    np.testing.assert_allclose(grouped.moments.size, plain.moments.size)


@pytest.mark.parametrize("groups", [False, True])
def test_a_split_keeps_every_row_once_and_groups_together(groups):
    rows = random_rows(5, [(3, 2)] * 2, n=100, groups=groups)
    first, second = rows.split(0.2, seed=4)
    assert len(first.index) + len(second.index) == 100
    again, _ = rows.split(0.2, seed=4)
    np.testing.assert_array_equal(first.codes, again.codes)
    if groups:
        assert not set(first.groups) & set(second.groups)
    else:
        assert [round(0.2 * n) for n in rows.counts] == list(first.counts)


def test_many_outputs_are_not_listable():
    tables = (np.full((2, 2), 0.5),) * 21
    assert count_outputs(tables) > MAX_AUDIT_OUTPUTS
    assert not AuditRows(tables, np.zeros((1, 21), int), np.zeros(1, int), 2).listable


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"index": np.zeros(3, int)}, "one label per row"),
        ({"groups": np.zeros(3, int)}, "one group per row"),
        ({"codes": np.zeros((2, 2), int)}, "one column of codes per sensor"),
        ({"index": np.array([0, 2])}, "classes must be 0 to 1"),
        ({"n_classes": 1}, "at least two classes"),
    ],
)
def test_rows_that_do_not_fit_together_are_refused(change, message):
    parts = {
        "tables": (np.eye(2),),
        "codes": np.zeros((2, 1), int),
        "index": np.zeros(2, int),
        "n_classes": 2,
    }
    with pytest.raises(InputError, match=message):
        AuditRows(**{**parts, **change})
