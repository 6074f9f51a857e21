"""What the parts that are left out show of designs at one level."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.searches import (
    LEVELS,
    SETTINGS,
    Speaking,
    rows,
    search,
    search_among_many,
    told,
)

from discreet.design import attacker_views
from discreet.design.expected import Request
from discreet.design.feasible import Designed
from discreet.design.inputs import Target
from discreet.design.leak_estimates import Leaks
from discreet.design.left_out import leave_out
from discreet.design.level_trials import Tried
from discreet.design.levels import LevelSearch


def test_a_distance_of_unknown_error_keeps_no_limit():
    unknown = Leaks(np.zeros(1), np.array([np.inf]), np.ones(1))
    assert not Tried(Target(0.9), [], unknown, None).leaks.error < np.inf
    tables = [told(0.5), told(0.1)]
    designed = Designed(tables, 0.0, np.empty(0), np.empty(0), leak=0.0)
    assert not Tried(Target(0.9), [designed], unknown, None).keeps(Request(0.05), 0.0)


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


def test_figures_of_raw_readings_are_marked_where_time_is_up(rng):
    over = search(6000, rng, Speaking(), report=lambda progress: True)
    assert over.find(LEVELS, Request(0.25)).expected.hurried
    assert not search(6000, rng, Speaking()).find(LEVELS, Request(0.25)).expected.hurried


@pytest.mark.parametrize(("hidden", "in_groups", "errors"), [(False, False, 1.25),
    (False, True, 1.6), (True, False, 3.0), (True, True, 3.0)])  # fmt: skip
def test_errors_to_spare(rng, hidden, in_groups, errors):
    sample, groups = rows(600, rng), np.arange(600) % 10 if in_groups else None
    parts = leave_out(sample, groups, rng, n_folds=2)
    made = LevelSearch(SETTINGS, sample, groups, parts, Speaking(), rng, hidden=hidden)
    assert made.to_spare == errors


@pytest.mark.parametrize("hidden", [False, True])
def test_attackers_learn_where_dependence_is_hidden_and_only_there(rng, hidden, monkeypatch):
    asked, mix = [], attacker_views.learn_states
    monkeypatch.setattr(
        attacker_views, "learn_states", lambda *given: asked.append(1) or mix(*given)
    )
    search_among_many(rng, hidden=hidden).try_level(LEVELS[0])
    assert len(asked) == (2 if hidden else 0)  # one for each part left out


def test_figures_are_of_the_first_design_alone_where_a_stop_cut_others_short(rng):
    searched = search(600, rng, Speaking(stop_after=1))
    found = searched.find(LEVELS[:1], Request(0.25))
    (tried,) = searched.tried.values()
    assert not tried.designs[0].stopped and tried.designs[1].stopped
    alone = searched._leaks(tried.designs[0].tables, 0, lambda: False)
    np.testing.assert_array_equal(tried.leaks.distance, alone.distance)
    assert found.expected.advantage == alone.advantage
