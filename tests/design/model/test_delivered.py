"""How a wish becomes a target, on a trial whose leak is a known function of the target."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from design.model.cases import correlated

from discreet.design.calibration import Request
from discreet.design.held_out import Score
from discreet.design.model.delivered import find_target
from discreet.design.problem import Target

pytestmark = pytest.mark.slow


@dataclass
class KnownTrial:
    """Leaks ``excess`` more than the target allows on rows left out, with noise ``by_chance``."""

    excess: float
    by_chance: float = 0.0
    spread: float = 0.0
    last: dict = field(default_factory=dict)
    levels: list = field(default_factory=list)

    def score(self, level):
        self.levels.append(level)
        room = 0.5 * (1 - level.ratio)
        self.last[0] = [np.full((9, 2), 0.5)] * 4  # says nothing under any model
        total = np.hypot(room + self.excess, self.by_chance)
        return [Score(total + d * self.spread, None) for d in (-1, 0, 1)]

    def chance(self):
        return self.by_chance

    def summary(self, level, request):
        return "met" if request.met_by(self.score(level)) else "not met"

    def silence(self):
        return "silent"


HELD = [correlated(0.2)]
ASKED = Request(max_advantage=0.05)  # a ratio of 0.9 under the model


def test_what_delivers_is_taken_as_it_is():
    target, found = find_target(KnownTrial(-1e-6), ASKED, HELD)
    assert target == Target(0.9) and found == "met"


def test_an_excess_is_taken_off_the_limit():
    trial = KnownTrial(0.02)
    target, found = find_target(trial, ASKED, HELD)
    room = 0.5 * (1 - target.ratio)
    assert found == "met" and room + trial.excess <= 0.05
    assert room > 0.02  # two thirds of what there is room for, since levels come in steps


def test_a_stricter_level_is_tried_until_the_rows_show_it():
    """Beyond chance 0.05 leaks, as asked; the rows themselves show 0.058 at that level."""
    trial = KnownTrial(0.0, by_chance=0.03)
    target, found = find_target(trial, ASKED, HELD)
    room = 0.5 * (1 - target.ratio)
    assert found == "met" and 0.03 < room < 0.04  # 0.04 and chance of 0.03 are 0.05
    assert sum(Target(0.9) == each for each in trial.levels) >= 1


def test_what_chance_alone_shows_is_no_leak_but_not_met_either():
    target, found = find_target(KnownTrial(-0.05, by_chance=0.2), ASKED, HELD)
    assert target == Target(0.9) and found == "not met"


def test_nothing_is_said_if_every_level_surely_leaks_more():
    _, found = find_target(KnownTrial(0.08), ASKED, HELD)
    assert found == "silent"


def test_a_leak_within_the_noise_of_the_folds_does_not_silence():
    _, found = find_target(KnownTrial(0.055, spread=0.05), ASKED, HELD)
    assert found == "not met"
