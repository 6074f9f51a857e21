"""``CountMapper``: the design from counts, for any number of sensors.

Rows are counted once. Which of several limits under the model delivers what was asked for is
told by rows left out.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from collections.abc import Sequence
from typing import Any

import numpy as np

from discreet.arrays import Ints
from discreet.design.calibration import Expected, Request, Trial, least_strict, mean_and_error
from discreet.design.counts.design import CountDesigner
from discreet.design.counts.estimate import count_sample, find_structure
from discreet.design.folds import Sample
from discreet.design.fusion import Fusion
from discreet.design.heads import Rows
from discreet.design.held_out import Score
from discreet.design.kernels import Kernel
from discreet.design.problem import Settings, Target
from discreet.design.results import Designed
from discreet.design.risks import Tables
from discreet.errors import InputError
from discreet.mappers.base import PrivacyMapper
from discreet.progress import Report

DEFAULT_RATIO = 0.96
# Shares of what is asked for, as limits under the model: rows left out choose among them.
_SHARES = (0.95, 0.75, 0.6, 0.4, 0.25, 0.12)
_FOLDS_DRAWN = 3  # at most, where outputs are drawn, which takes longer
_SEARCHED_ROWS = 20_000  # that a limit is searched with


class CountMapper(PrivacyMapper):
    """Maximise what decisions are worth, under a distribution estimated from counts.

    Sensors are taken to be independent given the public and private classes, but for blocks of
    sensors that counts of pairs show to depend. Few outputs are listed, of many some are drawn:
    the cost grows with the sensors, and rows are counted once.

    Parameters
    ----------
    privacy_ratio : float, optional
        Share of the largest R, one half, that has to be left under the model: 0.96, the default,
        keeps R at 0.48 or above. Nothing is held out for it, and on new rows R is somewhat smaller.
    max_advantage : float, optional
        Ask instead that no attacker beat guessing by more on new rows. The limit under the model
        is tightened until designs keep it on held-out folds, with one standard error to spare
        (``expected_.met``). If the rows are too few to show that, the strictest limit is taken and
        ``fit`` warns (``UnmetRequestWarning``); if that surely leaks more, nothing is said.
    epsilon : float, optional
        Ask that |log p(g|z)/p(g)| stay below it, likewise. Where the outputs are too many to list
        it is shared out among the sensors and holds by construction.
    beyond_answer : bool, default=False
        Ask both of attackers who are told the public fact.
    n_symbols, ldp_epsilon, kernel, reg, n_restarts, binning, n_bins, n_folds, decide, random_state
        As in ``NPOMapper``; kernel and reg shape the fusion rule only where the outputs are
        too many to list. The remaining parameters are those that all mappers take and have
        no influence here.

    Attributes
    ----------
    structure_ : Structure
        How counts were smoothed, and which sensors form blocks.
    mapping_, classes_, useful_, structural_epsilon_, expected_, privacy_ratio_
        As in ``NPOMapper``. ``public_risk_`` is what is minimised, under the model,
        ``private_risk_`` its R and ``threshold_`` the least R asked for.

    Examples
    --------
    >>> import pandas as pd
    >>> from discreet import CountMapper
    >>> readings = pd.DataFrame({"hall": [0, 1, 2, 3] * 10, "door": [0, 0, 1, 1] * 10})
    >>> fall = [0, 0, 1, 1] * 10
    >>> who = ["a", "b"] * 20
    >>> mapper = CountMapper(max_advantage=0.1, random_state=0).fit(readings, fall, private=who)
    >>> mapper.transform(readings).shape
    (40, 2)
    """

    _method = "counts"

    def __init__(
        self,
        n_symbols: int | Sequence[int] | Dict[str, int] = 2,
        *,
        kernel: str | Kernel = "product",
        loss: str = "logistic",
        privacy_ratio: float | None = None,
        max_advantage: float | None = None,
        epsilon: float | None = None,
        ldp_epsilon: float | None = None,
        beyond_answer: bool = False,
        reg: float | None = None,
        private_reg: float | None = None,
        relaxed: bool = True,
        pairs: str = "all",
        solver: str = "fast",
        n_restarts: int = 4,
        binning: str | Dict[str, str] = "merged",
        n_bins: int | Dict[str, int] = 10,
        n_folds: int = 5,
        decide: str | Dict[Any, float] = "balanced",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(
            n_symbols,
            kernel=kernel,
            loss=loss,
            privacy_ratio=privacy_ratio,
            max_advantage=max_advantage,
            epsilon=epsilon,
            ldp_epsilon=ldp_epsilon,
            reg=reg,
            private_reg=private_reg,
            relaxed=relaxed,
            pairs=pairs,
            solver=solver,
            n_restarts=n_restarts,
            binning=binning,
            n_bins=n_bins,
            n_folds=n_folds,
            decide=decide,
            random_state=random_state,
        )
        self.beyond_answer = beyond_answer

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.beyond_answer, bool | np.bool_):
            raise InputError(f"beyond_answer must be True or False, got {self.beyond_answer!r}.")

    @property
    def _designer(self) -> CountDesigner:
        return CountDesigner(self.structure_, beyond=bool(self.beyond_answer))

    def _find_target(
        self,
        settings: Settings,
        sample: Sample,
        groups: Ints | None,
        rng: np.random.Generator,
        report: Report | None,
    ) -> tuple[Target, Expected | None]:
        self.structure_ = find_structure(sample, count_sample(sample), settings.n_symbols, rng)
        if self.max_advantage is None and self.epsilon is None:
            ratio = DEFAULT_RATIO if self.privacy_ratio is None else self.privacy_ratio
            return Target(ratio), None
        if self.max_advantage is None and not settings.lists_outputs:
            return Target(None, self.epsilon), None  # structural, holds by construction
        trial = self._trial(settings, sample, groups, rng, report)
        levels = [self._level(share, settings) for share in _SHARES]
        request = Request(self.max_advantage, self.epsilon)
        found = least_strict(levels, lambda level: request.met_by(trial.score(level)))
        strictest = levels[-1]
        if found is None and _surely_leaks(trial.score(strictest), self.max_advantage):
            return strictest, trial.silence()
        return found or strictest, trial.summary(found or strictest, request)

    def _trial(
        self,
        settings: Settings,
        sample: Sample,
        groups: Ints | None,
        rng: np.random.Generator,
        report: Report | None,
    ) -> Trial:
        if len(sample.codes) > _SEARCHED_ROWS:
            kept = np.sort(rng.choice(len(sample.codes), _SEARCHED_ROWS, replace=False))
            sample, groups = sample.take(kept), None if groups is None else groups[kept]
        n_folds = self.n_folds
        if not settings.lists_outputs:
            n_folds = min(n_folds, _FOLDS_DRAWN)
        kind = _BeyondTrial if self.beyond_answer else Trial
        return kind(settings, sample, n_folds, groups, rng, report, self._designer)

    def _level(self, share: float, settings: Settings) -> Target:
        ratio = None if self.max_advantage is None else 1.0 - 2.0 * share * self.max_advantage
        if self.epsilon is None:
            return Target(ratio)
        return Target(ratio, share * self.epsilon if settings.lists_outputs else self.epsilon)

    def _design(
        self,
        settings: Settings,
        sample: Sample,
        target: Target,
        expected: Expected | None,
        rng: np.random.Generator,
        report: Report | None,
    ) -> Designed:
        designed = super()._design(settings, sample, target, expected, rng, report)
        self.fusion_ = designed.fusion
        return designed

    def _learn_fusion(
        self,
        tables: Tables,
        rows: Rows,
        sample: Sample,
        settings: Settings,
        rng: np.random.Generator,
    ) -> Fusion:
        return self.fusion_ or super()._learn_fusion(tables, rows, sample, settings, rng)


class _BeyondTrial(Trial):
    """Attackers are told the public fact: the worst of its classes counts."""

    def _attack(self, tables: Tables, train: Ints, test: Ints, seed: int) -> Score:
        public = self.sample.public.index
        scores = [
            super(_BeyondTrial, self)._attack(
                tables, train[public[train] == h], test[public[test] == h], seed
            )
            for h in range(self.sample.public.n_classes)
        ]
        ratios = [score.epsilon for score in scores if score.epsilon is not None]
        return Score(
            max(score.advantage for score in scores),
            max(ratios, default=None),
            max(score.low for score in scores),
        )


def _surely_leaks(scores: Sequence[Score], asked: float | None) -> bool:
    """Tell whether attackers who learned elsewhere gain more than was asked, beyond the noise."""
    mean, error = mean_and_error([score.low for score in scores])
    return asked is not None and mean - 2.0 * error > asked
