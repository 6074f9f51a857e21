import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.design.calibration import (
    Sample,
    _least_strict,
    _rule_advantage,
    _score_advantage,
    split_folds,
)
from discreet.design.heads import Labels
from discreet.errors import InputError
from discreet.exact import advantage


def make_sample(rng, n=60, classes=2):
    g = rng.integers(classes, size=n)
    g[:classes] = np.arange(classes)
    h = np.arange(n) % 2
    return Sample(
        rng.integers(3, size=(n, 2)), (3, 3), Labels("h", h, 2), (Labels("g", g, classes),)
    )


def test_every_row_is_held_out_once_and_every_class_is_on_both_sides(rng):
    sample = make_sample(rng, classes=3)
    folds = list(split_folds(sample, 5, None, rng))
    held = np.concatenate([test for _, test in folds])
    assert sorted(held) == list(range(60))
    for train, test in folds:
        assert not set(train) & set(test)
        for fact in (sample.public, *sample.private):
            assert len(set(fact.index[train])) == len(set(fact.index[test])) == fact.n_classes


def test_groups_stay_together(rng):
    sample = make_sample(rng)
    groups = np.arange(60) // 5
    for train, test in split_folds(sample, 4, groups, rng):
        assert not set(groups[train]) & set(groups[test])


def test_too_few_rows_of_a_class_are_told(rng):
    sample = make_sample(rng, n=10)
    rare = Labels("g", (np.arange(10) == 0).astype(np.int64), 2)
    with pytest.raises(InputError, match="folds"):
        list(split_folds(Sample(sample.codes, (3, 3), sample.public, (rare,)), 5, None, rng))


@given(first=st.integers(0, 9))
def test_bisection_finds_the_least_strict_level_that_keeps_the_request(first):
    levels = list(range(9))
    found = _least_strict(levels, lambda level: level >= first)
    assert found == (first if first < 9 else None)


def test_the_rule_in_hindsight_has_the_exact_advantage(rng):
    for classes in (2, 3):
        given_class = rng.dirichlet(np.ones(6), size=classes)
        assert _rule_advantage(given_class, given_class) == pytest.approx(advantage(given_class))
        other = rng.dirichlet(np.ones(6), size=classes)
        assert _rule_advantage(other, given_class) <= advantage(given_class) + 1e-12


def test_scores_of_single_rows_give_the_same_advantage_as_their_distribution(rng):
    given_class = rng.dirichlet(np.ones(6), size=3)
    rows = [rng.choice(6, size=20_000, p=p) for p in given_class]
    scores = np.log(given_class)[:, np.concatenate(rows)]
    found = _score_advantage(scores, np.repeat(np.arange(3), 20_000))
    assert found == pytest.approx(advantage(given_class), abs=0.01)
