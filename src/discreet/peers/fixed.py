"""Mappers whose tables follow a rule instead of a search.

They share with the others everything but the design: codes, fusion rule, mapping file and
what held-out rows lead to expect.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from discreet.design.base import PrivacyMapper
from discreet.design.coded import Coded
from discreet.design.folds import Sample
from discreet.design.problem import Designer, Settings, Target
from discreet.design.results import Designed
from discreet.design.risks import Tables
from discreet.mapping_parts import Design

_USED_BY_THE_FUSION_RULE = ("kernel", "reg", "seed", "stopped")


class FixedMapper(PrivacyMapper):
    """Base of the mappers that follow a rule; use one of its subclasses."""

    _constrained = False
    _advice = "Give more rows, or other sensors."

    @abstractmethod
    def _tables(self, settings: Settings, sample: Sample) -> Tables:
        """Return one table for each sensor; codes without rows may have any row."""

    @property
    def _designer(self) -> Designer:
        def follow(settings: Settings, sample: Sample, target: Target, **_: Any) -> Designed:
            tables = self._tables(settings, sample)
            return Designed(tables, float("nan"), np.empty(0), np.empty(0))

        return follow

    def _describe(
        self,
        settings: Settings,
        target: Target,
        seed: int,
        coded: Coded,
    ) -> Design:
        design = super()._describe(settings, target, seed, coded)
        used = {name: design.parameters[name] for name in _USED_BY_THE_FUSION_RULE}
        return design.model_copy(update={"parameters": used | self._choices(settings)})

    def _choices(self, settings: Settings) -> dict[str, Any]:
        """Return what the mapping file records of the rule."""
        return {}
