from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.choices import LOSSES
from discreet.data.columns import Labels
from discreet.design import leak_estimates, levels
from discreet.design.expected import Request
from discreet.design.feasible import Designed
from discreet.design.fit_warnings import warn_unmet
from discreet.design.inputs import Settings, Target
from discreet.design.kernels import CountKernel
from discreet.design.leak_estimates import Leaks, estimate_fitted_leaks
from discreet.design.levels import MANY_ROWS, LevelSearch, Tried, leave_out
from discreet.design.training_rows import Sample
from discreet.errors import UnmetRequestWarning

SETTINGS = Settings((2, 2), CountKernel(), LOSSES["logistic"], 1e-3, 1e-3)


def rows(n, rng):
    """One sensor reads the public fact, the other the private one."""
    h, g = rng.integers(2, size=(2, n))
    codes = np.stack([h, g], axis=1)
    return Sample(codes, (2, 2), Labels("h", h, range(2)), (Labels("g", g, range(2)),), (0, 0))


def told(keep):
    return np.array([[0.5 + keep, 0.5 - keep], [0.5 - keep, 0.5 + keep]])


class Speaking:
    """A made-up method: the advantage of the second sensor is what the target leaves."""

    def __init__(self, stop_after=None):
        self.left_out, self.stop_after = [], stop_after

    def __call__(self, left_out, target, *, rng, starts=(), report=None):
        self.left_out.append(left_out)
        keep = 0.5 * (1.0 - target.ratio)
        stopped = self.stop_after is not None and len(self.left_out) > self.stop_after
        none = np.empty(0)
        return Designed([told(0.5), told(keep)], 0.0, none, none, stopped=stopped, leak=keep)


def search(n, rng, design, kind=LevelSearch, **more):
    sample = rows(n, rng)
    parts = leave_out(sample, None, rng, n_folds=3)
    return kind(SETTINGS, sample, None, parts, design, rng, **more)


LEVELS = [Target(1.0 - 2.0 * leak) for leak in (0.2, 0.15, 0.1, 0.06, 0.02, 0.01)]


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


@pytest.mark.parametrize(("n_groups", "folds"), [(6, 2), (10, 2), (15, 3), (60, 5)])
def test_folds_have_five_groups_of_every_class_where_there_are_so_many(rng, n_groups, folds):
    sample, groups = rows(600, rng), np.arange(600) % n_groups
    assert len(leave_out(sample, groups, rng, n_folds=5).folds) == folds


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


def believe(searched, error, estimates):
    """Make a search believe what it estimated at each level, with this error."""
    for target, leak in zip(LEVELS, estimates, strict=False):
        designs = [replace(each, leak=leak) for each in searched.try_level(target).designs]
        variance = ((leak + error) ** 2 - leak**2) ** 2
        found = Leaks(np.array([leak**2]), np.array([variance]), np.ones(1))
        searched.tried[target] = Tried(target, designs, found, None)


@pytest.mark.parametrize(("error", "level"), [(0.008, 1), (0.03, 3), (0.045, 4)])
def test_where_rows_show_too_little_the_least_strict_likely_level_is_taken(rng, error, level):
    searched = search(600, rng, Speaking())
    believe(searched, error, (0.06, 0.05, 0.04, 0.02, 0.01))
    found = searched._found_none(Request(0.06))
    assert found.target == LEVELS[level] and found.expected.met is False
    np.testing.assert_allclose(found.designed.tables[0], told(0.5))


class Estimated(LevelSearch):
    """Advantages of 0.1 for all that is told, with an error of 0.08; less if less is told."""

    def _leaks(self, tables, k, over):
        kept = 2 * (tables[0][0, 0] - 0.5)
        return Leaks(np.array([(0.1 * kept) ** 2]), np.array([(0.15 * kept) ** 4]), np.ones(1))


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


def test_a_distance_of_unknown_error_keeps_no_limit():
    unknown = Leaks(np.zeros(1), np.array([np.inf]), np.ones(1))
    assert not Tried(Target(0.9), [], unknown, None).leaks.error < np.inf
    tables = [told(0.5), told(0.1)]
    designed = Designed(tables, 0.0, np.empty(0), np.empty(0), leak=0.0)
    assert not Tried(Target(0.9), [designed], unknown, None).keeps(Request(0.05), 0.0)


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


def tried(advantage, error, under_model=0.0, epsilon=None):
    slope = 1.0
    root = advantage / slope
    variance = ((root + error) ** 2 - root**2) ** 2
    leaks = Leaks(np.array([root**2]), np.array([variance]), np.array([slope]))
    none = np.empty(0)
    return Tried(Target(0.9), [Designed([], 0.0, none, none, leak=under_model)], leaks, epsilon)


@given(st.floats(0.0, 0.4), st.floats(0.001, 0.1), st.floats(0.0, 0.4), st.floats(0.01, 0.5))
def test_met_is_estimate_plus_standard_errors_within_the_limit(middle, error, model, limit):
    most = max(middle, model) + 1.25 * error
    if abs(most - limit) > 1e-6:
        assert tried(middle, error, model).keeps(Request(limit)) == (most <= limit)


def test_both_limits_have_to_be_met():
    found = tried(0.03, 0.01, epsilon=1.0)
    assert found.keeps(Request(0.05, 1.0)) and found.keeps(Request(None, 1.0))
    assert not found.keeps(Request(0.05, 0.9)) and not found.keeps(Request(0.02, 1.0))
    # Where the outputs are too many to list, epsilon holds by construction.
    assert tried(0.03, 0.01).keeps(Request(0.05, 0.1))
    assert not tried(0.0, 0.0, epsilon=float("inf")).keeps(Request(None, 5.0))


def test_a_search_that_finds_no_level_tells_what_was_lacking(rng):
    searched = search(600, rng, Speaking())
    believe(searched, 0.03, (0.06, 0.05, 0.04, 0.02, 0.01))
    found = searched.find(LEVELS[:5], Request(0.04)).expected
    assert found.shortfall.advantage == pytest.approx(0.01 + 1.25 * 0.03, abs=0.03)
    with pytest.warns(UnmetRequestWarning, match=r"Not met: .* with 1\.25 standard errors"):
        warn_unmet(found, {"advantage": 0.04, "epsilon": None}, "Add rows.")


def test_figures_of_raw_readings_are_marked_where_time_is_up(rng):
    over = search(6000, rng, Speaking(), report=lambda progress: True)
    assert over.find(LEVELS, Request(0.25)).expected.hurried
    assert not search(6000, rng, Speaking()).find(LEVELS, Request(0.25)).expected.hurried


def test_a_level_that_was_stopped_is_not_proposed(rng):
    assert search(600, rng, Speaking(stop_after=0)).look_for_use(LIMITS) == []
    # Stopped in the search for one limit, after what is said of another.
    assert len(search(6000, rng, Speaking(stop_after=30)).look_for_use(LIMITS)) in (1, 2)


def test_a_level_whose_error_is_not_known_is_not_proposed(rng, monkeypatch):
    assert search(600, rng, Speaking()).look_for_use(LIMITS)
    searched = search(600, rng, Speaking())
    look = searched._look_at
    unknown = Leaks(np.full(1, 0.1), np.array([np.inf]), np.ones(1))
    monkeypatch.setattr(searched, "_look_at", lambda *given: replace(look(*given), leaks=unknown))
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


@pytest.mark.parametrize(("hidden", "in_groups", "errors"), [(False, False, 1.25),
    (False, True, 1.6), (True, False, 3.0), (True, True, 3.0)])  # fmt: skip
def test_errors_to_spare(rng, hidden, in_groups, errors):
    sample, groups = rows(600, rng), np.arange(600) % 10 if in_groups else None
    parts = leave_out(sample, groups, rng, n_folds=2)
    made = LevelSearch(SETTINGS, sample, groups, parts, Speaking(), rng, hidden=hidden)
    assert made.to_spare == errors


def many_sensors(n_rows, rng):
    """Eleven sensors that all lean to one bit, in half of the rows the private fact."""
    h, g = rng.integers(2, size=(2, n_rows))
    bit = np.where(rng.random(n_rows) < 0.5, g, rng.integers(2, size=n_rows))
    codes = bit[:, None] ^ (rng.random((n_rows, 11)) < 0.3)
    facts = Labels("h", h, range(2)), (Labels("g", g, range(2)),)
    return Sample(codes.astype(np.int64), (2,) * 11, *facts)


class Even:
    """A made-up method: all sensors tell what they read, as far as the target allows."""

    def __call__(self, left_out, target, *, rng, starts=(), report=None):
        none = np.empty(0)
        return Designed([told(0.5 * (1 - target.ratio))] * 11, 0.0, none, none, leak=0.0)


def search_among_many(rng, groups=None, **more):
    sample = many_sensors(600, rng)
    parts = leave_out(sample, groups, rng, n_folds=2)
    settings = replace(SETTINGS, n_symbols=(2,) * 11)
    return LevelSearch(settings, sample, groups, parts, Even(), rng, **more)


@pytest.mark.parametrize("hidden", [False, True])
def test_attackers_learn_where_dependence_is_hidden_and_only_there(rng, hidden, monkeypatch):
    asked, mix = [], leak_estimates.learn_states
    monkeypatch.setattr(
        leak_estimates, "learn_states", lambda *given: asked.append(1) or mix(*given)
    )
    search_among_many(rng, hidden=hidden).try_level(LEVELS[0])
    assert len(asked) == (2 if hidden else 0)  # one for each part left out


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
    found = levels._in_other_groups(fitted, folds)
    np.testing.assert_array_equal(found.distance, [0.1, 0.2, 0.7])
    np.testing.assert_array_equal(found.variance, [1.0, 2.0, np.inf])
    np.testing.assert_array_equal(found.slope, [0.3, 0.8, 1.0])


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


def test_figures_are_of_the_first_design_alone_where_a_stop_cut_others_short(rng):
    searched = search(600, rng, Speaking(stop_after=1))
    found = searched.find(LEVELS[:1], Request(0.25))
    (tried,) = searched.tried.values()
    assert not tried.designs[0].stopped and tried.designs[1].stopped
    alone = searched._leaks(tried.designs[0].tables, 0, lambda: False)
    np.testing.assert_array_equal(tried.leaks.distance, alone.distance)
    assert found.expected.advantage == alone.advantage


def test_once_time_is_over_no_other_limit_is_looked_at(rng):
    design = Speaking()
    assert search(600, rng, design, report=lambda progress: True).look_for_use(LIMITS) == []
    assert not design.left_out


def test_overtime_is_one_for_all_levels(monkeypatch):
    now, over, asked = [100.0], [False], []
    monkeypatch.setattr(levels.time, "monotonic", lambda: now[0])
    overtime = levels._Overtime(lambda: asked.append(1) or over[0])
    first, second = levels._Clock(overtime), levels._Clock(overtime)
    assert not first() and not first() and len(asked) == 1  # not asked at once again
    now[0], over[0] = 1000.0, True  # a look before time is over costs none of it
    assert not first()
    now[0] += levels._OVERTIME - 0.1
    assert not first() and not second()
    now[0] += 0.2
    assert second() and not first.struck  # that had been asked for the last time
    assert levels._Clock(overtime)()


def test_noise_in_few_groups_is_not_looked_for_without_end(rng, monkeypatch):
    monkeypatch.setattr(levels, "_OVERTIME", -1.0)
    answered = []
    monkeypatch.setattr(
        leak_estimates, "_possible_views", lambda *given: answered.append(1) or iter(())
    )
    groups = np.arange(600) % 10
    searched = search_among_many(rng, groups, report=lambda progress: True)
    level = searched.try_level(LEVELS[0])
    assert searched._add_noise_in_groups(level, Request(0.03), groups) is None
    assert level.cut and not answered


def test_a_few_questions_tell_how_long_all_take(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(levels.time, "thread_time", lambda: now[0])
    few, answered = levels._FirstFew(), 0
    for _ in range(191):
        if not few():
            answered, now[0] = answered + 1, now[0] + (1.0 if answered == 0 else 0.1)
    assert answered == 3
    assert few.seconds_for_all() == pytest.approx(1.0 + 190 * 0.1)
    one = levels._FirstFew()
    one()
    now[0] += 5.0
    assert one.seconds_for_all() == pytest.approx(5.0)


@pytest.mark.parametrize("over", [True, False])
def test_a_level_that_was_not_looked_at_to_the_end_is_not_met(rng, over, monkeypatch):
    monkeypatch.setattr(levels, "_OVERTIME", -1.0)
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
