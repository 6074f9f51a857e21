"""The search for a level, by made-up methods whose leaks are known."""

from dataclasses import replace

import numpy as np
import pytest
from support.searches import LEVELS, Speaking, believe, search, told

from discreet.design import overtime
from discreet.design.expected import Request
from discreet.design.fit_warnings import warn_unmet
from discreet.design.inputs import Target
from discreet.design.leak_estimates import Leaks
from discreet.design.left_out import MANY_ROWS
from discreet.design.levels import LevelSearch
from discreet.errors import UnmetRequestWarning


@pytest.mark.parametrize(("asked", "leak"), [(0.25, 0.2), (0.13, 0.1), (0.05, 0.02)])
def test_the_least_strict_level_that_rows_left_out_show_to_be_kept_is_taken(rng, asked, leak):
    found = search(6000, rng, Speaking()).find(LEVELS, Request(asked))
    assert found.target == Target(1.0 - 2.0 * leak)
    expected = found.expected
    assert expected.met and expected.asked == asked and expected.folds == 3
    assert expected.advantage == pytest.approx(leak, abs=0.02)
    assert expected.raw_advantage == pytest.approx(0.5, abs=0.01)
    assert expected.public_error == pytest.approx(0.0) == expected.raw_error


def test_of_many_rows_the_very_mapping_is_tried_on_rows_it_never_saw(rng):
    design = Speaking()
    found = search(MANY_ROWS, rng, design).find(LEVELS, Request(0.13))
    assert found.expected.folds == 1 and found.expected.met
    first = design.left_out[0]
    assert first is not None and len(first) == pytest.approx(MANY_ROWS / 3, rel=0.01)
    assert all(each is first for each in design.left_out)


def test_of_few_rows_folds_are_left_out_in_turn_and_all_are_designed_on_at_last(rng):
    design = Speaking()
    search(600, rng, design).find(LEVELS, Request(0.2))
    folds = np.concatenate(design.left_out[:3])
    np.testing.assert_array_equal(np.sort(folds), np.arange(600))
    assert design.left_out[-1] is None


def test_where_every_level_surely_leaks_more_nothing_is_said(rng):
    found = search(6000, rng, Speaking()).find(LEVELS[:3], Request(0.01))
    assert found.expected.silent and found.expected.met is False
    assert all(np.all(table == table[0]) for table in found.designed.tables)


@pytest.mark.parametrize("stop_after", [None, 0])
def test_where_no_estimate_is_within_the_wish_nothing_is_said_unless_stopped(rng, stop_after):
    """A level of 0.1 where 0.08 was asked for: two hundred rows do not show that it leaks more."""
    searched = search(200, rng, Speaking(stop_after))
    found = searched.find(LEVELS[2:3], Request(0.08))
    (tried,) = searched.tried.values()
    assert tried.leaks.low < 0.08 < max(tried.leaks.advantage, tried.under_model)
    assert found.expected.met is False and found.expected.silent == (stop_after is None)
    assert np.ptp(found.designed.tables[1], axis=0).max() == pytest.approx(
        0.0 if stop_after is None else 0.2
    )


@pytest.mark.parametrize(("error", "level"), [(0.008, 1), (0.03, 3), (0.045, 4)])
def test_where_rows_show_too_little_the_least_strict_likely_level_is_taken(rng, error, level):
    searched = search(600, rng, Speaking())
    believe(searched, error, (0.06, 0.05, 0.04, 0.02, 0.01))
    found = searched._found_none(Request(0.06))
    assert found.target == LEVELS[level] and found.expected.met is False
    np.testing.assert_allclose(found.designed.tables[0], told(0.5))


def test_a_stop_leaves_the_best_so_far(rng):
    found = search(600, rng, Speaking(stop_after=4)).find(LEVELS, Request(0.25))
    assert found.designed.stopped and found.expected.met


LIMITS = dict.fromkeys((0.005, 0.03, 0.08, 0.13, 0.25), LEVELS)


def test_limits_that_leave_something_of_use_are_named_three_at_most_as_the_search_finds_them(rng):
    found = search(6000, rng, Speaking()).look_for_use(LIMITS)
    assert [each.asked for each in found] == [0.03, 0.08, 0.13]  # no level keeps the first
    assert all(each.useful and each.met for each in found)
    for each in found:
        anew = search(6000, np.random.default_rng(1), Speaking()).find(LEVELS, Request(each.asked))
        assert each.advantage == pytest.approx(anew.expected.advantage, abs=0.01)


def test_a_limit_is_named_as_it_is_met_with_all_errors_to_spare(rng):
    searched = search(600, rng, Speaking(), hidden=True)
    for each in searched.look_for_use(LIMITS):
        assert each.advantage + 3.0 * each.advantage_error <= each.asked


def test_a_search_that_finds_no_level_tells_what_was_lacking(rng):
    searched = search(600, rng, Speaking())
    believe(searched, 0.03, (0.06, 0.05, 0.04, 0.02, 0.01))
    found = searched.find(LEVELS[:5], Request(0.04)).expected
    assert found.shortfall.advantage == pytest.approx(0.01 + 1.25 * 0.03, abs=0.03)
    with pytest.warns(UnmetRequestWarning, match=r"Not met: .* with 1\.25 standard errors"):
        warn_unmet(found, {"advantage": 0.04, "epsilon": None}, "Add rows.")


def test_a_level_that_was_stopped_is_not_proposed(rng):
    assert search(600, rng, Speaking(stop_after=0)).look_for_use(LIMITS) == []
    # Stopped in the search for one limit, after what is said of another.
    assert len(search(6000, rng, Speaking(stop_after=30)).look_for_use(LIMITS)) in (1, 2)


def test_a_level_whose_error_is_not_known_is_not_proposed(rng, monkeypatch):
    assert search(600, rng, Speaking()).look_for_use(LIMITS)
    searched = search(600, rng, Speaking())
    look = searched.look_at
    unknown = Leaks(np.full(1, 0.1), np.array([np.inf]), np.ones(1))
    monkeypatch.setattr(searched, "look_at", lambda *given: replace(look(*given), leaks=unknown))
    assert searched.look_for_use(LIMITS) == []


class Believed(LevelSearch):
    """An advantage of 0.03 with an error of 0.01, whatever the tables: two errors below 0.05."""

    def _leaks(self, tables, k, over):
        return Leaks(np.array([0.03**2]), np.array([(0.04**2 - 0.03**2) ** 2]), np.ones(1))


@pytest.mark.parametrize(("hidden", "asked", "met"), [(False, 0.05, True), (True, 0.05, False),
                                                      (True, 0.0601, True)])  # fmt: skip
def test_where_dependence_is_hidden_two_errors_to_spare_are_too_few(rng, hidden, asked, met):
    """A single part is left out, so that its error is the one that counts."""
    found = search(MANY_ROWS, rng, Speaking(), Believed, hidden=hidden)
    found = found.find(LEVELS[-1:], Request(asked))
    assert found.expected.met is met
    assert met or found.expected.shortfall.to_spare == 3.0


def test_once_time_is_over_no_other_level_is_tried(rng):
    """Designs that end by themselves, as of a method that does not ask."""
    design = Speaking()
    searched = search(6000, rng, design, report=lambda progress: True)
    found = searched.find(LEVELS, Request(0.05))
    assert list(searched.tried) == [LEVELS[2]] and len(design.left_out) == 3
    assert found.designed.stopped and found.expected.met is False


def test_a_level_that_was_looked_at_to_the_end_is_kept_though_others_were_not_tried(rng):
    searched = search(6000, rng, Speaking(), report=lambda progress: True)
    found = searched.find(LEVELS, Request(0.13))
    assert found.target == LEVELS[2] and found.expected.met and found.designed.stopped


def test_once_time_is_over_the_first_design_that_was_tried_is_written(rng):
    """None is made on all rows any more, and what is told is what rows left out showed of it."""
    design = Speaking()
    searched = search(6000, rng, design, report=lambda progress: True)
    found = searched.find(LEVELS[:1], Request(0.25))
    assert found.expected.met and found.designed.stopped
    assert design.left_out[-1] is not None and len(design.left_out) == 3
    (tried,) = searched.tried.values()
    assert found.designed.tables is tried.designs[0].tables


def test_once_time_is_over_no_other_limit_is_looked_at(rng):
    design = Speaking()
    assert search(600, rng, design, report=lambda progress: True).look_for_use(LIMITS) == []
    assert not design.left_out


@pytest.mark.parametrize("over", [True, False])
def test_a_level_that_was_not_looked_at_to_the_end_is_not_met(rng, over, monkeypatch):
    monkeypatch.setattr(overtime, "_OVERTIME", -1.0)
    searched = search(MANY_ROWS, rng, Speaking(), report=lambda progress: over)
    expected = searched.find(LEVELS[-1:], Request(0.1)).expected
    tried = searched.tried[LEVELS[-1]]
    assert expected.met is not over
    assert tried.cut == over == tried.stopped == np.isinf(tried.leaks.error)
    if over:
        assert "time was up" in expected.shortfall.words


def test_looking_at_a_level_may_take_a_little_longer_than_there_is_time(rng):
    found = search(MANY_ROWS, rng, Speaking(), report=lambda progress: True)
    assert found.find(LEVELS[-1:], Request(0.1)).expected.met
