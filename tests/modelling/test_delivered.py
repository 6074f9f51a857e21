"""How a wish becomes a target, on a trial whose leak is a known function of the target."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from optimum.cases import correlated

from discreet.design.held_out import Score
from discreet.design.problem import Target
from discreet.modelling.delivered import find_target


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
        return [Score(total + d * self.spread, None, 0.1, 0.4) for d in (-1, 0, 1)]

    def chance(self):
        return self.by_chance

    def summary(self, level, *, met):
        return met

    def silence(self):
        return False


HELD = [correlated(0.2)]


def test_what_delivers_is_taken_as_it_is():
    target, met = find_target(KnownTrial(0.0), Target(0.9), HELD)
    assert target == Target(0.9) and met


@pytest.mark.parametrize("by_chance", [0.0, 0.03])
def test_an_excess_is_taken_off_the_limit(by_chance):
    target, met = find_target(KnownTrial(0.02, by_chance), Target(0.9), HELD)
    assert met and 0.5 * (1 - target.ratio) == pytest.approx(0.03, abs=0.0026)


def test_what_chance_alone_shows_is_no_leak():
    target, met = find_target(KnownTrial(-0.05, by_chance=0.2), Target(0.9), HELD)
    assert met and target == Target(0.9)


def test_nothing_is_said_if_every_level_surely_leaks_more():
    _, met = find_target(KnownTrial(0.08), Target(0.9), HELD)
    assert not met


def test_a_leak_within_the_noise_of_the_folds_does_not_silence():
    _, met = find_target(KnownTrial(0.055, spread=0.05), Target(0.9), HELD)
    assert met
