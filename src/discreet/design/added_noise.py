"""Noise that is added to a level where none is shown to be kept, until what leaks is likely within.

A share of the symbols is sent as designed, the others are drawn evenly.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from discreet.arrays import Ints
from discreet.design.expected import Request
from discreet.design.feasible import Designed
from discreet.design.leak_estimates import Leaks, estimate_fitted_leaks
from discreet.design.level_trials import LevelTrials, Tried, first_kept, mixed
from discreet.design.overtime import Clock

# Standard errors to spare, and shares of symbols to send: docs/decisions/0024-one-search.md
_LIKELY_NOISY = 0.5
_KEPT = (0.75, 0.5, 0.35, 0.2)
# Percent to send where groups are few: docs/decisions/0031-noise-for-few-groups.md
_PERCENT_KEPT = range(20, 81)


def add_noise(trials: LevelTrials, tried: Sequence[Tried], request: Request) -> Tried | None:
    """Add noise to the level with the smallest estimate, until half an error is to spare."""
    least = min(tried, key=lambda each: each.leaks.advantage)
    noisy = (_with_noise(trials, least, kept) for kept in _KEPT)
    return first_kept(noisy, request, _LIKELY_NOISY)


def add_noise_in_groups(
    trials: LevelTrials, tried: Tried, request: Request, groups: Ints
) -> tuple[Tried, Designed] | tuple[None, None]:
    """Add noise to the strictest level, until the tables to write keep a request; return both.

    Designs without a fold have seen half of few groups, or little more, and leak more than
    tables designed on all of them. How much these may leak elsewhere is what all groups tell.
    """
    designed = trials.design_all(tried.target, [tried.designs[0].tables])

    def leaks_more(percent: int) -> bool:
        noisy = _noise_in_groups(trials, tried, designed, percent, groups)
        return not noisy.keeps(request, 0.0)

    above = bisect_left(_PERCENT_KEPT, True, key=leaks_more)  # the more is kept, the more leaks
    if above == 0:
        return None, None
    # What is told of it is what rows left out show, as of every level.
    taken = _with_noise(trials, tried, _PERCENT_KEPT[above - 1] / 100)
    return taken, trials.finish(designed, taken.kept)


def _noise_in_groups(
    trials: LevelTrials, tried: Tried, designed: Designed, percent: int, groups: Ints
) -> Tried:
    """Return a level with noise, and the leak of tables designed on all rows."""
    noisy, over = _with_noise(trials, tried, percent / 100), Clock(trials.overtime)
    own = estimate_fitted_leaks(
        mixed(designed, noisy.kept).tables, trials.sample, groups,
        beyond=trials.beyond, hidden=trials.hidden, over=over,
    )  # fmt: skip
    trials.noise_cut |= over.struck
    cut = noisy.cut or over.struck
    return replace(noisy, leaks=_in_other_groups(own, noisy.leaks), cut=cut)


def _with_noise(trials: LevelTrials, tried: Tried, kept: float) -> Tried:
    designs = [mixed(each, kept) for each in tried.designs]
    noisy = trials.look_at(tried.target, designs, kept)
    trials.noise_cut |= noisy.cut
    return noisy


def _in_other_groups(fitted: Leaks, folds: Leaks) -> Leaks:
    """Return what tables leak in groups that they were not fitted to, completed by folds.

    Folds tell what attackers see that learned, and what a distance is worth to all of them: fitted
    tables are flat and hardly show it.
    """
    told, shown = np.isfinite(fitted.distance), np.nan_to_num(folds.slope)
    return Leaks(
        np.where(told, fitted.distance, folds.distance),
        np.where(told, fitted.variance, folds.variance),
        np.where(told & (shown <= 0.0), fitted.slope, shown),
    )
