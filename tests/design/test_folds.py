import numpy as np
import pytest
from support.matrices import sparing

from discreet.data.columns import Labels
from discreet.design.leak_estimates import average, estimate_leaks
from discreet.design.training_rows import Sample, _deal_evenly, label_cells, split_folds
from discreet.errors import InputError


def make_sample(rng, n=60, classes=2):
    g = rng.integers(classes, size=n)
    g[:classes] = np.arange(classes)
    h = np.arange(n) % 2
    return Sample(
        rng.integers(3, size=(n, 2)),
        (3, 3),
        Labels("h", h, range(2)),
        (Labels("g", g, range(classes)),),
    )


def with_private(sample, index, classes=2):
    return Sample(sample.codes, sample.sizes, sample.public, (Labels("g", index, range(classes)),))


def test_every_row_is_held_out_once_and_every_class_is_on_both_sides(rng):
    sample = make_sample(rng, classes=3)
    folds = split_folds(sample, 5, None, rng)
    held = np.concatenate([test for _, test in folds])
    assert sorted(held) == list(range(60))
    for train, test in folds:
        assert not set(train) & set(test)
        for fact in (sample.public, *sample.private):
            assert len(set(fact.index[train])) == len(set(fact.index[test])) == fact.n_classes


def test_groups_stay_together_and_every_row_is_held_out_once(rng):
    sample = make_sample(rng)
    groups = np.arange(60) // 5
    folds = split_folds(sample, 4, groups, rng)
    assert len(folds) == 4
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(60))
    for train, test in folds:
        assert not set(groups[train]) & set(groups[test])


@pytest.mark.parametrize("seed", sparing(range(20), *range(6)))
@pytest.mark.slow
def test_a_class_in_few_groups_is_on_both_sides_whatever_the_seed(seed):
    rng = np.random.default_rng(seed)
    groups = np.arange(120) // 10
    g = ((groups == 3) | (groups == 8)).astype(np.int64)
    for train, test in split_folds(with_private(make_sample(rng, n=120), g), 5, groups, rng):
        assert set(g[train]) == set(g[test]) == {0, 1}


def test_too_few_rows_of_a_class_are_told(rng):
    rare = (np.arange(10) == 0).astype(np.int64)
    with pytest.raises(InputError, match=r"'g' has 1 of 10 rows\. Add rows of that class"):
        split_folds(with_private(make_sample(rng, n=10), rare), 5, None, rng)


def test_too_few_groups_of_a_class_are_told(rng):
    groups = np.arange(60) // 10
    with pytest.raises(InputError, match=r"10 of 60 rows in 1 of 6 groups, which stay whole"):
        split_folds(with_private(make_sample(rng), (groups == 2).astype(np.int64)), 5, groups, rng)


def test_cells_are_the_combinations_that_occur_in_their_order(rng):
    facts = [Labels("", rng.integers(k, size=200), range(k + 1)) for k in (2, 5, 3)]
    labels = np.stack([fact.index for fact in facts], axis=1)
    slow = np.unique(labels, axis=0, return_inverse=True)[1].ravel()
    np.testing.assert_array_equal(label_cells(facts), slow)


def test_rows_are_dealt_in_turn_to_each_cell_in_a_random_order():
    cells = np.random.default_rng(1).integers(6, size=300)
    order = np.lexsort((np.random.default_rng(2).permutation(300), cells))
    dealt = _deal_evenly(cells, 4, np.random.default_rng(2))
    np.testing.assert_array_equal(dealt[order], np.arange(300) % 4)


def coded(h, g, n_private=2):
    """One sensor that reads both facts."""
    facts = Labels("h", h, range(2)), (Labels("g", g, range(n_private)),)
    return Sample((n_private * h + g)[:, None].astype(np.int64), (2 * n_private,), *facts)


def tell(chances):
    """A table that sends a 1 with these chances, and the distance between equal classes of g."""
    one, other = chances[:, 0].mean(), chances[:, 1].mean()
    middle = (one + other) / 2
    sent = chances.ravel()
    distance = (one - other) ** 2 / 4 * (1 / middle + 1 / (1 - middle))
    return [np.stack([1 - sent, sent], axis=1)], distance


def cancelling(h, g):
    """A table that tells the public fact, and nothing of the private one by these rows' shares."""
    leans = h[g == 1].mean() - h[g == 0].mean()
    return tell(0.2 + 0.6 * np.array([[0], [1]]) - 0.6 * leans * np.array([-0.5, 0.5]))


@pytest.mark.parametrize("n_folds", [2, 5])
def test_folds_show_what_tables_leak_that_cancel_by_the_shares_of_these_rows(n_folds):
    """In the world the public fact tells nothing of the private one; in each sample it does.

    Folds have the shares of all rows, so what is left out looks flat. The error is as told.
    """
    rng, errors, told, truths = np.random.default_rng(0), [], [], []
    for _ in range(200):
        h, g = rng.integers(2, size=(2, 600))
        sample, parts, true = coded(h, g), [], []
        for known, unseen in split_folds(sample, n_folds, None, rng):
            table, distance = cancelling(h[known], g[known])
            parts.append(estimate_leaks(table, sample.take(known), sample.take(unseen)))
            true.append(distance)
        found = average(parts)
        errors.append(found.distance[0] - np.mean(true))
        told.append(found.variance[0])
        truths.append(np.mean(true))
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(200) < np.mean(truths) / 2
    assert 0.8 < np.std(errors) / np.sqrt(np.mean(told)) < 1.25  # of 200 draws it varies by 5 %


def flat(x, g):
    """A table that sends as many ones in both classes, by these rows."""
    shares = [np.bincount(x[g == k], minlength=3) / np.sum(g == k) for k in (0, 1)]
    ones = np.cross(shares[1] - shares[0], np.ones(3))
    return 0.5 + 0.4 * ones / np.abs(ones).max()


@pytest.mark.parametrize("n_folds", [2, 5])
def test_folds_show_what_tables_leak_that_are_flat_on_what_the_others_read(n_folds):
    rng, errors, told = np.random.default_rng(1), [], []
    law = np.array([[0.3, 0.3, 0.4], [0.25, 0.35, 0.4]])
    for _ in range(200):
        h, g = rng.integers(2, size=(2, 600))
        x = np.sum(rng.random(600)[:, None] > law[g].cumsum(axis=1), axis=1)
        facts = Labels("h", h, range(2)), (Labels("g", g, range(2)),)
        sample, parts, true = Sample(x[:, None], (3,), *facts), [], []
        for known, unseen in split_folds(sample, n_folds, None, rng):
            sent = flat(x[known], g[known])
            _, distance = tell(np.stack([law @ sent] * 2))
            table = [np.stack([1 - sent, sent], axis=1)]
            parts.append(estimate_leaks(table, sample.take(known), sample.take(unseen)))
            true.append(distance)
        found = average(parts)
        errors.append(found.distance[0] - np.mean(true))
        told.append(found.variance[0])
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(200)
    # Variances are not let fall to zero, so that what is told errs upwards.
    assert 0.6 < np.std(errors) / np.sqrt(np.mean(told)) < 1.1


@pytest.mark.parametrize("n_private", [2, 30, 40])
def test_of_rare_combinations_nothing_seems_less_than_nothing(n_private):
    """A sensor that tells the public fact alone, and classes of 300, 20 or 15 rows each."""
    rng, found = np.random.default_rng(2), []
    table, _ = tell(np.repeat([[0.2], [0.8]], n_private, axis=1))
    for _ in range(40):
        h, g = rng.integers(2, size=600), rng.permutation(600) % n_private
        sample = coded(h, g, n_private)
        parts = [
            estimate_leaks(table, sample.take(known), sample.take(unseen))
            for known, unseen in split_folds(sample, 5, None, rng)
        ]
        found.append(average(parts).distance[-1])
    assert np.mean(found) > -4 * np.std(found) / np.sqrt(40)


def test_each_fold_has_classes_in_two_groups_and_about_as_many_rows():
    """Days of ten facts of the day, of unequal size: chance alone would often leave one group."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(14), rng.integers(5, 40, size=14))
        g = (groups % 7 < 2).astype(np.int64)  # of four days
        sample = with_private(make_sample(rng, n=len(groups)), g)
        folds = split_folds(sample, 2, groups, rng)
        for _, held in folds:
            assert min(len(np.unique(groups[held][g[held] == k])) for k in (0, 1)) >= 2
        assert min(len(held) for _, held in folds) > 0.4 * len(groups)


def test_rare_classes_are_spread_evenly_where_chance_would_not_do(rng):
    """Five rows of a class and five folds: each has one."""
    g = np.zeros(300, dtype=np.int64)
    g[:5] = 1
    folds = split_folds(with_private(make_sample(rng, n=300), g), 5, None, rng)
    assert len(folds) == 5 and all(g[held].sum() == 1 for _, held in folds)
