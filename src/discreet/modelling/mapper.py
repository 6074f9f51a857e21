"""``ModelMapper``: the optimum on an estimated distribution.

The optimum presses the leak under the model right up to what is allowed, and the truth is not
the model: on new rows more leaks than was asked for. How much more is measured by designing
on some rows and looking at the result under the model of the others; the target is tightened
by that much beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.design.base import PrivacyMapper
from discreet.design.calibration import Expected
from discreet.design.folds import Sample, split_folds
from discreet.design.fusion import Fusion
from discreet.design.heads import Rows
from discreet.design.problem import Designer, Settings, Target, structural_limit
from discreet.design.results import Designed, Progress, Report
from discreet.design.risks import Tables
from discreet.errors import InputError, StoppedError
from discreet.exact import advantage
from discreet.mapping_parts import MAX_FUSION_OUTPUTS, TableFusion
from discreet.modelling.estimate import estimate_model
from discreet.optimum.distribution import Distribution
from discreet.optimum.search import MAX_OUTPUTS, Optimum, find_optimum

Ints = NDArray[np.int64]

DEFAULT_RATIO = 0.96
_STARTS_EACH = 2  # for every restart asked for: starts are cheap here
_CALIBRATION_FOLDS = 3
# Perfect privacy under a model that is not the truth is dear and no more private than this
# share of what is allowed.
_LEAST_INSIDE = 0.5


class ModelMapper(PrivacyMapper):
    """Minimise the public error under an estimated distribution.

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
        Ask instead that no attacker beat guessing by more on new rows. The internal target is
        tightened by what held-out folds show to be lost.
    epsilon : float, optional
        Ask that |log p(g|z)/p(g)| stay below it, searched on folds likewise.
    n_symbols, ldp_epsilon, kernel, reg, n_restarts, binning, n_bins, n_folds, random_state
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
        As in ``NPOMapper``. ``public_risk_`` is the public error under the model,
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
        return self._design_on_model

    def _design_on_model(
        self,
        settings: Settings,
        sample: Sample,
        target: Target,
        *,
        rng: np.random.Generator,
        starts: Sequence[Tables] = (),
        report: Report | None = None,
    ) -> Designed:
        self.model_ = estimate_model(sample, sample.ordered, rng)
        self.optimum_: Optimum | None = _optimise(
            self.model_.distribution, settings, target, rng, starts, report
        )
        floor = 0.0 if target.ratio is None else 0.5 * target.ratio
        return Designed(
            self.optimum_.tables,
            self.optimum_.public_error,
            np.array([self.optimum_.risk]),
            np.array([floor]),
            self.optimum_.restarts,
        )

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
        if self.epsilon is not None or self.max_advantage is None:
            return super()._find_target(settings, sample, groups, rng, report)
        lost = self._lost_on_new_rows(settings, sample, groups, rng, report)
        inside = max(_LEAST_INSIDE * self.max_advantage, self.max_advantage - lost)
        return Target(1.0 - 2.0 * inside), None

    def _lost_on_new_rows(
        self,
        settings: Settings,
        sample: Sample,
        groups: Ints | None,
        rng: np.random.Generator,
        report: Report | None,
    ) -> float:
        """Return by how much the leak on rows left out exceeds that under the model."""
        assert self.max_advantage is not None
        asked = Target(1.0 - 2.0 * self.max_advantage)
        quick = replace(settings, n_restarts=1)
        whole = estimate_model(sample, sample.ordered, rng)
        start = _optimise(whole.distribution, settings, asked, rng).tables
        lost = []
        folds = split_folds(sample, _CALIBRATION_FOLDS, groups, rng)
        for k, (rest, held) in enumerate(folds):
            model, other = (
                estimate_model(sample.take(part), sample.ordered, rng, like=whole)
                for part in (rest, held)
            )
            found = _optimise(model.distribution, quick, asked, rng, [start])
            lost.append(_leak(other.distribution, found.tables) - found.advantage)
            if report is not None and report(
                Progress("search", (k + 1) / (len(folds) + 1), found.public_error)
            ):
                raise StoppedError(
                    "Stopped while it was measured how much more leaks on new rows. There is "
                    "nothing to keep."
                )
        return max(0.0, float(np.mean(lost)))

    def _learn_fusion(
        self, tables: Tables, rows: Rows, sample: Sample, settings: Settings, rng: Any
    ) -> Fusion:
        if int(np.prod([table.shape[1] for table in tables], dtype=float)) > MAX_FUSION_OUTPUTS:
            return super()._learn_fusion(tables, rows, sample, settings, rng)
        distribution = self.model_.distribution
        joint = distribution.class_rows(distribution.public) @ distribution.joint_outputs(tables)
        return TableFusion(joint=(joint / joint.sum()).tolist())


def _optimise(
    distribution: Distribution,
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
    n_starts = max(_STARTS_EACH * settings.n_restarts, len(starts))

    def tell(done: int, error: float) -> bool:
        return report is not None and report(Progress("design", done / n_starts, error))

    return find_optimum(
        distribution,
        settings.n_symbols,
        risk=None if target.ratio is None else 0.5 * target.ratio,
        epsilon=target.epsilon if settings.lists_outputs else None,
        ldp_epsilon=structural_limit(settings, target),
        n_restarts=n_starts,
        starts=starts,
        bound=False,
        rng=rng,
        report=tell,
    )


def _leak(distribution: Distribution, tables: Tables) -> float:
    """Return the advantage over guessing under a distribution, for the fact that leaks most."""
    joint = distribution.joint_outputs(tables)
    return max(advantage(distribution.given_rows(fact) @ joint) for fact in distribution.private)
