"""Made-up methods, and searches among the levels that they design at."""

from dataclasses import replace

import numpy as np

from discreet.choices import LOSSES
from discreet.data.columns import Labels
from discreet.design.feasible import Designed
from discreet.design.inputs import Settings, Target
from discreet.design.kernels import CountKernel
from discreet.design.leak_estimates import Leaks
from discreet.design.left_out import leave_out
from discreet.design.level_trials import Tried
from discreet.design.levels import LevelSearch
from discreet.design.training_rows import Sample

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


def believe(searched, error, estimates):
    """Make a search believe what it estimated at each level, with this error."""
    for target, leak in zip(LEVELS, estimates, strict=False):
        designs = [replace(each, leak=leak) for each in searched.try_level(target).designs]
        variance = ((leak + error) ** 2 - leak**2) ** 2
        found = Leaks(np.array([leak**2]), np.array([variance]), np.ones(1))
        searched.tried[target] = Tried(target, designs, found, None)


class Estimated(LevelSearch):
    """Advantages of 0.1 for all that is told, with an error of 0.08; less if less is told."""

    def _leaks(self, tables, k, over):
        kept = 2 * (tables[0][0, 0] - 0.5)
        return Leaks(np.array([(0.1 * kept) ** 2]), np.array([(0.15 * kept) ** 4]), np.ones(1))


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
