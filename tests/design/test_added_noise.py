"""Noise that is added where no level is shown to be kept."""

from dataclasses import replace

import numpy as np
import pytest
from support.searches import (
    LEVELS,
    SETTINGS,
    Estimated,
    Speaking,
    rows,
    search,
    search_among_many,
    told,
)

from discreet.design import added_noise, attacker_views, overtime
from discreet.design.added_noise import add_noise_in_groups
from discreet.design.expected import Request
from discreet.design.leak_estimates import Leaks, estimate_fitted_leaks
from discreet.design.left_out import leave_out


@pytest.mark.parametrize(("asked", "kept"), [(0.11, 0.75), (0.06, 0.35), (0.03, 0.2), (0.005, 0)])
def test_where_no_level_is_likely_noise_is_added_until_one_is_or_nothing_is_said(rng, asked, kept):
    """The estimate with half an error is within what is asked for where this much is kept."""
    searched = search(600, rng, Speaking(), kind=Estimated)
    (level,) = levels = LEVELS[-1:]
    found = searched.find(levels, Request(asked))
    assert found.target == level and found.expected.met is False
    assert found.expected.silent == (kept == 0)
    np.testing.assert_allclose(found.designed.tables[0], told(0.5 * kept))
    np.testing.assert_allclose(found.designed.tables[1], told(0.01 * kept))
    assert found.expected.advantage == pytest.approx(max(0.1 * kept, 0.01 * (kept > 0)))
    # The fusion rule knows of the noise: the probability that the first sensor is right.
    joint = np.array(found.designed.fusion.joint).reshape(2, 2, 2).sum(axis=2)
    np.testing.assert_allclose(joint / joint.sum(axis=1)[:, None], told(0.5 * kept), atol=0.02)


class Hurried(Estimated):
    """Time is over once the first level has been looked at."""

    def _leaks(self, tables, k, over):
        if self.tried:
            assert over()
        return super()._leaks(tables, k, over)


@pytest.mark.parametrize("few_groups", [False, True])
def test_noise_that_was_not_looked_at_is_not_said_to_be_too_little(rng, few_groups):
    searched = search(600, rng, Speaking(), kind=Hurried)
    searched.few_groups = searched.groups = np.arange(600) % 10 if few_groups else None
    searched.overtime = lambda: True
    found = searched.find(LEVELS[-1:], Request(0.06))
    assert found.expected.silent and found.expected.noise_cut and not found.expected.met


def in_groups(rng, n_groups=10):
    """A search among rows of few groups, in which the first sensor tells more or less of both."""
    sample, groups = rows(600, rng), np.arange(600) % n_groups
    wrong = rng.random(600) < rng.random(n_groups)[groups]
    sample.codes[:, 0] = np.where(wrong, 1, 0) ^ sample.private[0].index
    parts = leave_out(sample, groups, rng, n_folds=5)
    return Estimated(SETTINGS, sample, groups, parts, Speaking(), rng), sample, groups


@pytest.mark.parametrize("asked", [0.15, 0.09, 0.06])
def test_few_groups_get_the_least_noise_that_keeps_the_wish_for_the_tables_written(rng, asked):
    searched, sample, groups = in_groups(rng)
    found = searched.find(LEVELS[-2:], Request(asked))
    written = found.designed.tables
    kept = 2 * (written[0][0, 0] - 0.5)
    assert found.target == LEVELS[-1] and found.expected.met is False

    def estimate(share):
        mixed = [share * table + (1 - share) / 2 for table in (told(0.5), told(0.01))]
        fitted = estimate_fitted_leaks(mixed, sample, groups)
        return replace(fitted, slope=np.ones(1)).advantage  # the slope that folds tell of

    assert found.expected.advantage == pytest.approx(0.1 * kept)  # what rows left out show
    assert estimate(kept) <= asked < estimate(kept + 0.01)
    np.testing.assert_allclose(written[1], told(0.01 * kept))


def test_few_groups_for_which_four_fifths_of_noise_are_too_little_are_told_nothing(rng):
    found = in_groups(rng)[0].find(LEVELS[-1:], Request(0.011))
    assert found.expected.silent
    assert all(np.all(table == table[0]) for table in found.designed.tables)


@pytest.mark.parametrize("asked", [0.03, 0.003])
def test_few_groups_with_hidden_dependence_get_noise_or_nothing(rng, asked):
    """Fitted tables lack attackers that learned; folds tell of them."""
    searched = search_among_many(rng, np.arange(600) % 10, hidden=True)
    found = searched.find(LEVELS[:1], Request(asked))
    assert found.expected.met is False and found.expected.kept < 1.0


def test_what_fitted_tables_do_not_tell_folds_do():
    nan = float("nan")
    fitted = Leaks(np.array([0.1, 0.2, nan]), np.array([1.0, 2.0, nan]), np.array([0.3, 0.4, nan]))
    folds = Leaks(np.array([0.5, 0.6, 0.7]), np.array([3.0, 4.0, np.inf]), np.array([0.0, 0.8, 1]))
    found = added_noise._in_other_groups(fitted, folds)
    np.testing.assert_array_equal(found.distance, [0.1, 0.2, 0.7])
    np.testing.assert_array_equal(found.variance, [1.0, 2.0, np.inf])
    np.testing.assert_array_equal(found.slope, [0.3, 0.8, 1.0])


def test_noise_in_few_groups_is_not_looked_for_without_end(rng, monkeypatch):
    monkeypatch.setattr(overtime, "_OVERTIME", -1.0)
    answered = []
    monkeypatch.setattr(
        attacker_views, "_possible_views", lambda *given: answered.append(1) or iter(())
    )
    groups = np.arange(600) % 10
    searched = search_among_many(rng, groups, report=lambda progress: True)
    level = searched.try_level(LEVELS[0])
    found = add_noise_in_groups(searched, level, Request(0.03), groups)
    assert found == (None, None)
    assert level.cut and not answered
