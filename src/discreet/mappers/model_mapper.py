"""``ModelMapper``: the optimum on an estimated distribution.

What is asked for on new rows becomes a target under the model in ``delivered``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from discreet.arrays import Ints
from discreet.design.calibration import Expected, Request, Trial
from discreet.design.folds import Sample
from discreet.design.fusion import Fusion
from discreet.design.heads import Rows
from discreet.design.model.delivered import find_target, target_of
from discreet.design.model.estimate import Model, estimate_model
from discreet.design.model.search import MAX_OUTPUTS, Optimum, find_blind, find_optimum
from discreet.design.problem import Designer, Settings, Target, structural_limit
from discreet.design.results import Designed
from discreet.design.risks import Tables
from discreet.errors import InputError
from discreet.mappers.base import PrivacyMapper
from discreet.mapping.parts import MAX_FUSION_OUTPUTS, TableFusion
from discreet.progress import Report

DEFAULT_RATIO = 0.96
_STARTS_EACH = 2  # for every restart asked for: starts are cheap here
_CALIBRATION_FOLDS = 3
# With few rows the model cannot tell what never happens from what is rare. Where log-ratios are
# limited, no reading may therefore decide a symbol with more certainty than this.
_CERTAIN = 7.0
# Tables of sensors that each hardly look at the private facts lose less where the truth is not
# the model; so much public error is not worth the difference.
_NOT_WORTH = 0.01


class ModelMapper(PrivacyMapper):
    """Minimise the public error under an estimated distribution.

    Or what else ``decide`` asks for: by default the error averaged over the public classes.
    Sensors are taken to be independent given the public and private classes, with statistics
    smoothed along ordered alphabets, shared between sensors with the same alphabet and shrunk
    towards the marginal, each as far as the likelihood of rows left out asks for. Where the
    sensors depend on one another, so that rows left out are likelier for it, the model is
    mixed with the rows themselves. The tables are the best that linear programs find for that
    distribution.

    Parameters
    ----------
    privacy_ratio : float, optional
        Share of the largest R, one half, that has to be left under the model: 0.96, the
        default, keeps R at 0.48 or above. Nothing is held out for it, and on new rows R is
        somewhat smaller.
    max_advantage : float, optional
        Ask instead that no attacker beat guessing by more on new rows. The target under the
        model is tightened until designs keep it on held-out folds, with one standard error to
        spare (``expected_.met``). If the rows are too few to show that, ``fit`` warns
        (``UnmetRequestWarning``); if all designs surely leak more, nothing is said.
    epsilon : float, optional
        Ask that |log p(g|z)/p(g)| stay below it. The search holds it against the model of the
        rows left out, since few rows cannot show what is rare; it is ``met`` only if the rows
        left out show it themselves.
    n_symbols, ldp_epsilon, kernel, reg, n_restarts, binning, n_bins, n_folds, decide, random_state
        As in ``NPOMapper``; kernel and reg shape the fusion rule only where the outputs are
        too many to list. The remaining parameters are those that all mappers take and have
        no influence here.

    Attributes
    ----------
    model_ : Model
        The estimated distribution, and how it was smoothed.
    optimum_ : Optimum or None
        What the linear programs found for it; None if nothing may be said.
    mapping_, classes_, useful_, structural_epsilon_, expected_, privacy_ratio_
        As in ``NPOMapper``. ``public_risk_`` is what is minimised, under the model,
        ``private_risk_`` its R and ``threshold_`` the least R asked for.

    Examples
    --------
    >>> import pandas as pd
    >>> from discreet import ModelMapper
    >>> readings = pd.DataFrame({"hall": [0, 1, 2, 3] * 10, "door": [0, 0, 1, 1] * 10})
    >>> fall = [0, 0, 1, 1] * 10
    >>> who = ["a", "b"] * 20
    >>> mapper = ModelMapper(max_advantage=0.1, random_state=0).fit(readings, fall, private=who)
    >>> mapper.transform(readings).shape
    (40, 2)
    """

    _method = "model"

    @property
    def _designer(self) -> Designer:
        return _design_on_model

    def _design(
        self,
        settings: Settings,
        sample: Sample,
        target: Target,
        expected: Expected | None,
        rng: np.random.Generator,
        report: Report | None,
    ) -> Designed:
        self.model_ = estimate_model(sample, sample.ordered, rng)
        self.optimum_: Optimum | None = None
        if expected is not None and expected.silent:
            return super()._design(settings, sample, target, expected, rng, report)
        self.optimum_ = _optimise(self.model_, settings, target, rng, (), report)
        return _as_designed(self.optimum_, self.model_, settings, target)

    def _find_target(
        self,
        settings: Settings,
        sample: Sample,
        groups: Ints | None,
        rng: np.random.Generator,
        report: Report | None,
    ) -> tuple[Target, Expected | None]:
        if self.max_advantage is None and self.epsilon is None:
            ratio = DEFAULT_RATIO if self.privacy_ratio is None else self.privacy_ratio
            return Target(ratio), None
        request = Request(self.max_advantage, self.epsilon)
        asked = target_of(request)
        if self.max_advantage is None and not settings.lists_outputs:
            return asked, None  # structural, holds by construction: there is nothing to search
        whole = estimate_model(sample, sample.ordered, rng)
        start = _optimise(whole, settings, asked, rng).tables

        design = partial(_design_on_model, like=whole)
        trial = Trial(settings, sample, _CALIBRATION_FOLDS, groups, rng, report, design)
        trial.last = dict.fromkeys(range(len(trial.folds)), start)
        held = [
            estimate_model(sample.take(rows), sample.ordered, rng, like=whole).distribution
            for _, rows in trial.folds
        ]
        return find_target(trial, request, held)

    def _learn_fusion(
        self, tables: Tables, rows: Rows, sample: Sample, settings: Settings, rng: Any
    ) -> Fusion:
        fusion = _model_fusion(self.model_, tables)
        return fusion or super()._learn_fusion(tables, rows, sample, settings, rng)


def _model_fusion(model: Model, tables: Tables) -> Fusion | None:
    """Return the fusion rule that is the best under the model; None if it would be too large."""
    if int(np.prod([table.shape[1] for table in tables], dtype=float)) > MAX_FUSION_OUTPUTS:
        return None
    distribution = model.distribution
    joint = distribution.class_rows(distribution.public) @ distribution.joint_outputs(tables)
    return TableFusion(joint=(joint / joint.sum()).tolist())


def _design_on_model(
    settings: Settings,
    sample: Sample,
    target: Target,
    *,
    rng: np.random.Generator,
    starts: Sequence[Tables] = (),
    report: Report | None = None,
    like: Model | None = None,
) -> Designed:
    """Design tables on the model of the rows, which is smoothed ``like`` another."""
    model = estimate_model(sample, sample.ordered, rng, like=like)
    found = _optimise(model, settings, target, rng, starts, report)
    return _as_designed(found, model, settings, target, len(starts))


def _as_designed(
    found: Optimum, model: Model, settings: Settings, target: Target, n_given: int = 0
) -> Designed:
    floor = 0.0 if target.ratio is None else 0.5 * target.ratio
    return Designed(
        found.tables,
        found.public_error,
        np.array([found.risk]),
        np.array([floor]),
        found.restarts,
        stopped=found.restarts < _n_starts(settings, n_given),
        fusion=_model_fusion(model, found.tables),
    )


def _n_starts(settings: Settings, n_given: int) -> int:
    return max(_STARTS_EACH * settings.n_restarts, n_given)


def _optimise(
    model: Model,
    settings: Settings,
    target: Target,
    rng: np.random.Generator,
    starts: Sequence[Tables] = (),
    report: Report | None = None,
) -> Optimum:
    if settings.n_outputs > MAX_OUTPUTS:
        raise InputError(
            f"the sensors have {settings.n_outputs} joint outputs; the model's optimum lists them "
            f"and stops at {MAX_OUTPUTS}. Use fewer sensors or symbols, or NPOMapper."
        )
    n_starts = _n_starts(settings, len(starts))

    distribution = model.distribution
    wishes: dict[str, Any] = {
        "risk": None if target.ratio is None else 0.5 * target.ratio,
        "epsilon": target.epsilon if settings.lists_outputs else None,
        "ldp_epsilon": _least_noise(settings, target),
        # What the decisions are good for is what the tables are to be good for.
        "worth": settings.aim.deciding(distribution.shares(distribution.public)).weights,
    }
    best = find_optimum(
        distribution,
        settings.n_symbols,
        **wishes,
        n_restarts=n_starts,
        starts=starts,
        bound=False,
        rng=rng,
        report=report,
    )
    for blind in find_blind(distribution, settings.n_symbols, **wishes, rng=rng):
        if blind.public_error <= best.public_error + _NOT_WORTH:
            return replace(blind, restarts=best.restarts, agreed=best.agreed)
    return best


def _least_noise(settings: Settings, target: Target) -> float | None:
    limits = [structural_limit(settings, target)]
    if target.epsilon is not None:
        limits.append(_CERTAIN)
    return min((limit for limit in limits if limit is not None), default=None)
