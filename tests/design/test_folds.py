import numpy as np
import pytest
from support.matrices import sparing

from discreet.data.columns import Labels
from discreet.design.leak_estimates import average, estimate_leaks
from discreet.design.training_rows import Sample, _deal_rows, _label_cells, split_folds
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
    np.testing.assert_array_equal(_label_cells(facts), slow)


def test_rows_are_dealt_in_turn_to_each_cell_in_a_random_order():
    cells = np.random.default_rng(1).integers(6, size=300)
    order = np.lexsort((np.random.default_rng(2).permutation(300), cells))
    dealt = _deal_rows(cells, 4, np.random.default_rng(2))
    np.testing.assert_array_equal(dealt[order], np.arange(300) % 4)


def test_folds_show_what_is_true_of_the_world_and_not_of_these_rows():
    """One sensor tells the public fact, which tells nothing of the private one in the world.

    It does in each sample. Folds in which every combination of classes is spread evenly have the
    sample's shares, and what they show would be less than nothing on average.
    """
    rng, found = np.random.default_rng(0), {"random": [], "even": []}
    for _ in range(400):
        h, g = rng.integers(2, size=(2, 200))
        facts = Labels("h", h, range(2)), Labels("g", g, range(2))
        sample = Sample(h[:, None].astype(np.int64), (2,), facts[0], facts[1:])
        dealt = _deal_rows(_label_cells(facts), 4, rng)
        even = [(np.flatnonzero(dealt != k), np.flatnonzero(dealt == k)) for k in range(4)]
        for name, folds in (("random", split_folds(sample, 4, None, rng)), ("even", even)):
            parts = [
                estimate_leaks([np.eye(2)], sample.take(known), sample.take(unseen))
                for known, unseen in folds
            ]
            found[name].append(float(average(parts).distance[0]))
    means = {name: np.mean(each) for name, each in found.items()}
    errors = {name: np.std(each) / 20.0 for name, each in found.items()}
    assert abs(means["random"]) < 4.0 * errors["random"]
    assert means["even"] < -8.0 * errors["even"]


def test_rare_classes_are_spread_evenly_where_chance_would_not_do(rng):
    """Five rows of a class and five folds: each has one."""
    g = np.zeros(300, dtype=np.int64)
    g[:5] = 1
    folds = split_folds(with_private(make_sample(rng, n=300), g), 5, None, rng)
    assert len(folds) == 5 and all(g[held].sum() == 1 for _, held in folds)
