"""What a classifier on raw codes answers, and what they leak."""

import numpy as np
import pytest
from support.problems import census_like

from discreet.data.columns import Labels
from discreet.design.fusion import Aim
from discreet.design.raw_answers import answer_from_codes, raw_advantage
from discreet.design.training_rows import Sample, split_folds


@pytest.mark.slow
def test_raw_codes_show_what_there_is_to_know(rng):
    """The public fact is the exclusive-or of two codes, which no single code tells."""
    codes = rng.integers(2, size=(600, 3))
    h = np.where(rng.random(600) < 0.9, codes[:, 0] ^ codes[:, 1], rng.integers(2, size=600))
    sample = Sample(codes, (2, 2, 2), Labels("h", h, range(2)), ())
    folds = split_folds(sample, 3, None, rng)
    found = answer_from_codes(sample, folds, Aim(), 0)
    assert len(found.truth) == 600
    assert found.error == pytest.approx(0.05, abs=0.03)
    shuffled = Sample(codes, (2, 2, 2), Labels("h", rng.permutation(h), range(2)), ())
    assert not answer_from_codes(shuffled, folds, Aim(), 0).useful()


@pytest.mark.slow
def test_raw_codes_are_decided_by_the_same_aim(rng):
    sample = census_like(rng)
    folds = split_folds(sample, 2, None, rng)
    likely, balanced = (answer_from_codes(sample, folds, Aim(a), 0) for a in ("likely", "balanced"))
    assert balanced.balanced_accuracy > likely.balanced_accuracy + 0.05
    assert balanced.error > likely.error


@pytest.mark.slow
def test_what_raw_codes_leak_is_the_best_question_and_beyond_the_answer_less(rng):
    """One code is the public fact, which the private one mostly follows, and adds a little."""
    h = rng.integers(2, size=6000)
    g = np.where(rng.random(6000) < 0.8, h, 1 - h)
    codes = np.stack([h, np.where(rng.random(6000) < 0.6, g, 1 - g)], axis=1)
    facts = Labels("h", h, range(2)), (Labels("g", g, range(2)),)
    sample = Sample(codes, (2, 2), *facts)
    known, unseen = sample.take(np.arange(3000)), sample.take(np.arange(3000, 6000))
    assert raw_advantage(known, unseen) == pytest.approx(0.3, abs=0.03)
    # Within a public class the second code alone speaks: right in 0.6 of each private class.
    assert raw_advantage(known, unseen, beyond=True) == pytest.approx(0.1, abs=0.04)


def test_a_public_class_that_is_not_among_the_rows_tried_tells_nothing_beyond_the_answer():
    """One row of a third class, which is not among the 300 of 20,000."""
    rng = np.random.default_rng(0)
    public, private = rng.integers(2, size=20_000), rng.integers(2, size=20_000)
    public[0] = 2
    codes = np.stack([private ^ (rng.random(20_000) < 0.3), public], axis=1).astype(np.int64)
    facts = Labels("h", public, range(3)), (Labels("g", private, range(2)),)
    sample = Sample(codes, (2, 3), *facts)
    found = raw_advantage(sample, sample, beyond=True, most=300)
    assert found == pytest.approx(0.2, abs=0.06)
