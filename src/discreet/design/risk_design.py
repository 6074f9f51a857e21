"""Designs by a designer of rows (``design_sample``, randomised response) without some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from discreet.arrays import Ints
from discreet.design.coded import Coded
from discreet.design.problem import Designer, Settings, Target
from discreet.design.results import Designed
from discreet.design.risks import Tables
from discreet.progress import Report

RATIO_LEVELS = (0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999)
_EPSILON_SHARES = (1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.12, 0.07, 0.03)  # of the limit, likewise
_RESTARTS = 3  # random starts without a part; later levels go on from the last one's tables


def risk_levels(settings: Settings, advantage: bool, epsilon: float | None) -> list[Target]:
    """Return targets of rising strictness, for a limit on the advantage, on epsilon or on both."""
    ratios = RATIO_LEVELS if advantage else (None,) * len(RATIO_LEVELS)
    if epsilon is None:
        return [Target(ratio) for ratio in ratios]
    if not settings.lists_outputs:  # structural, holds by construction
        return [Target(ratio, epsilon) for ratio in dict.fromkeys(ratios)]
    pairs = zip(ratios, _EPSILON_SHARES, strict=True)
    return [Target(ratio, share * epsilon) for ratio, share in pairs]


class RiskDesign:
    """Designs on the rows of a fit's sample, or on those that are not left out."""

    def __init__(self, settings: Settings, coded: Coded, designer: Designer) -> None:
        self.settings, self.coded, self.designer = settings, coded, designer

    def __call__(
        self,
        left_out: Ints | None,
        target: Target,
        *,
        rng: np.random.Generator,
        starts: Sequence[Tables] = (),
        report: Report | None = None,
    ) -> Designed:
        coded, settings = self.coded, self.settings
        sample = coded.sample
        if left_out is not None:
            kept = np.full(len(sample.codes), True)
            kept[left_out] = False
            sample = sample.take(np.flatnonzero(kept))
            restarts = 1 if starts else min(_RESTARTS, settings.n_restarts)
            settings = replace(settings, n_restarts=restarts)
        return self.designer(settings, sample, target, rng=rng, starts=starts, report=report)
