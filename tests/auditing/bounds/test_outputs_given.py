from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.auditing.bounds.outputs_given import MAX_AUDIT_OUTPUTS, AuditRows
from discreet.errors import InputError
from discreet.leakage.joint_outputs import (
    average_outputs,
    count_outputs,
    dobrushin,
    dobrushin_coefficients,
    output_probabilities,
    smallest_and_largest,
)

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
@pytest.mark.slow
def test_averages_are_those_of_all_rows_by_all_outputs(seed, shapes):
    rows = random_rows(seed, shapes)
    outputs = output_probabilities(rows.tables, rows.codes)
    for k in range(3):
        own = outputs[rows.index == k]
        np.testing.assert_allclose(rows.average[k], own.mean(axis=0), atol=1e-13)
        np.testing.assert_allclose(rows.moments.square[k], (own**2).mean(axis=0), atol=1e-13)
    assert rows.moments.size.tolist() == list(rows.counts)


@given(**cases)
@pytest.mark.slow
def test_range_of_an_output_is_that_over_all_codes(seed, shapes):
    tables = random_tables(np.random.default_rng(seed), shapes)
    outputs = output_probabilities(tables, every_row(tables))
    low, high = smallest_and_largest(tables)
    np.testing.assert_allclose(low, outputs.min(axis=0), rtol=1e-12)
    np.testing.assert_allclose(high, outputs.max(axis=0), rtol=1e-12)


@given(**cases)
@pytest.mark.slow
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
    monkeypatch.setattr("discreet.leakage.joint_outputs.BLOCK_NUMBERS", 40)
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


def twin(rows):
    """Average as the definitions say, group by group."""
    outputs = output_probabilities(rows.tables, rows.codes)
    average, joint, square = (np.zeros((rows.n_classes, rows.n_outputs)) for _ in range(3))
    groups = np.unique(rows.groups)
    sums = np.zeros((rows.n_classes, len(groups), rows.n_outputs))
    counted = np.zeros((rows.n_classes, len(groups)))
    for j, group in enumerate(groups):
        for k in range(rows.n_classes):
            own = outputs[(rows.groups == group) & (rows.index == k)]
            counted[k, j] = len(own) if rows.cap is None else min(len(own), rows.cap)
            if len(own):
                sums[k, j] = own.mean(axis=0) * counted[k, j]
    for k in range(rows.n_classes):
        means = [s / n for s, n in zip(sums[k], counted[k], strict=True) if n]
        square[k] = np.mean(np.square(means), axis=0)
        average[k] = np.mean(means, axis=0) if rows.cap is None else sums[k].sum(axis=0)
        if rows.cap is not None:
            average[k] /= counted[k].sum()
            joint[k] = sums[k].sum(axis=0) / counted.sum()
        else:
            joint[k] = np.mean(sums[k] / counted.sum(axis=0)[:, None], axis=0)
    return average, joint, square


@pytest.mark.parametrize("cap", [None, 2, 100])
@given(**cases)
@pytest.mark.slow
def test_groups_are_averaged_as_the_draw_says(seed, shapes, cap):
    rows = replace(random_rows(seed, shapes, n=40, groups=True), cap=cap)
    average, joint, square = twin(rows)
    np.testing.assert_allclose(rows.average, average, atol=1e-13)
    np.testing.assert_allclose(rows.joint, joint, atol=1e-13)
    np.testing.assert_allclose(rows.shares, joint.sum(axis=1), atol=1e-13)
    np.testing.assert_allclose(rows.moments.square, square, atol=1e-13)
    sizes = [len(np.unique(rows.groups[rows.index == k])) for k in range(3)]
    assert rows.moments.size.tolist() == list(rows.observations) == sizes


def test_means_of_groups_come_in_the_order_asked_for_whatever_the_blocks(monkeypatch):
    rows = random_rows(2, [(3, 2)] * 3, n=200, groups=True)
    order = np.array([4, 0, 5, 1])
    whole = np.concatenate(list(rows.group_means(1, order)))
    outputs = output_probabilities(rows.tables, rows.codes)
    for j, mean in zip(order, whole, strict=True):
        own = (rows.group == j) & (rows.index == 1)
        np.testing.assert_allclose(mean, outputs[own].mean(axis=0), atol=1e-13)
    monkeypatch.setattr("discreet.auditing.bounds.outputs_given.BLOCK_NUMBERS", 8 * 15)
    blocks = list(rows.group_means(1, order))
    assert len(blocks) > 1
    np.testing.assert_allclose(np.concatenate(blocks), whole, rtol=1e-12)


def test_squares_of_rows_stand_in_for_those_of_many_groups(monkeypatch):
    rows = random_rows(2, [(3, 2)] * 3, n=200, groups=True)
    exact = rows.moments.square
    monkeypatch.setattr("discreet.auditing.bounds.outputs_given._GROUP_NUMBERS", 10)
    assert (replace(rows).moments.square >= exact - 1e-15).all()


def test_single_rows_as_groups_are_rows():
    plain = random_rows(3, [(3, 2)] * 2)
    grouped = AuditRows(plain.tables, plain.codes, plain.index, 3, np.arange(30))
    assert grouped.n_groups == plain.n_groups == 30
    assert grouped.observations == plain.observations
    np.testing.assert_allclose(grouped.average, plain.average)
    np.testing.assert_allclose(grouped.moments.square, plain.moments.square)
    np.testing.assert_allclose(grouped.shares, plain.shares)


def test_a_cap_needs_groups_and_at_least_one_row():
    with pytest.raises(InputError, match="needs groups"):
        replace(random_rows(0, [(2, 2)]), cap=3)
    with pytest.raises(InputError, match="at least 1"):
        replace(random_rows(0, [(2, 2)], groups=True), cap=0)


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
