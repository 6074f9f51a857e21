import numpy as np
import pytest

from discreet.data.columns import Labels
from discreet.design.training_rows import collapse, private_heads, public_heads
from discreet.errors import InputError


def rows_and_labels(rng, classes):
    codes = rng.integers(3, size=(60, 2))
    return collapse(codes, (3, 3)), Labels("g", np.arange(60) % classes, range(classes)), codes


def test_collapsed_weights_are_those_of_the_rows(rng):
    rows, labels, codes = rows_and_labels(rng, 2)
    head = public_heads(rows, labels)[0]
    for k, distinct in enumerate(rows.codes):
        same = np.all(codes == distinct, axis=1)
        assert head.pos[k] == pytest.approx(np.sum(same & (labels.index == 1)) / 60)
        assert head.neg[k] == pytest.approx(np.sum(same & (labels.index == 0)) / 60)


def test_normalised_weights_give_each_class_of_a_pair_one_half(rng):
    codes = rng.integers(3, size=(50, 2))
    labels = Labels("g", (np.arange(50) < 5).astype(np.int64), range(2))  # one class in ten
    rows = collapse(codes, (3, 3))
    normalised = private_heads(rows, labels)[0]
    plain = private_heads(rows, labels, normalised=False)[0]
    assert (normalised.pos.sum(), normalised.neg.sum()) == pytest.approx((0.5, 0.5))
    assert (plain.pos.sum(), plain.neg.sum()) == pytest.approx((0.1, 0.9))


def test_pairs_are_all_or_those_with_the_first_class(rng):
    rows, labels, _ = rows_and_labels(rng, 4)
    assert len(private_heads(rows, labels)) == 6
    assert len(private_heads(rows, labels, pairs="reference")) == 3
    with pytest.raises(InputError, match="'all' or 'reference'"):
        private_heads(rows, labels, pairs="some")


def test_heads_of_many_public_classes_add_up_to_an_average(rng):
    rows, labels, _ = rows_and_labels(rng, 3)
    heads = public_heads(rows, labels)
    assert len(heads) == 3
    assert sum(h.pos.sum() + h.neg.sum() for h in heads) == pytest.approx(1.0)


def test_seen_codes_are_told_from_unseen_ones():
    rows = collapse(np.array([[0, 2], [1, 2]]), (3, 4))
    assert [seen.tolist() for seen in rows.seen()] == [
        [True, True, False],
        [False, False, True, False],
    ]
