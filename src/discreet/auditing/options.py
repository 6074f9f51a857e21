"""What is asked of an audit, and whether that makes sense for the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.arrays import Floats
from discreet.auditing.bounds.beyond_answer import BEYOND
from discreet.auditing.data import AuditData
from discreet.errors import InputError, Parameter


@dataclass(frozen=True)
class AuditOptions:
    """What is asked of an audit; ``audit`` explains each."""

    max_advantage: float | None = None
    epsilon: float | None = None
    beyond_answer: bool = False
    confidence: float = 0.95
    releases: int = 1
    independent_releases: bool = False
    cap: int | None = None
    prior: Floats | None = None
    seed: int = 0

    @property
    def limits(self) -> dict[str, float]:
        """The stated limits, by what they limit."""
        sense = BEYOND if self.beyond_answer else "advantage"
        stated = {sense: self.max_advantage, "epsilon": self.epsilon}
        return {name: limit for name, limit in stated.items() if limit is not None}


def check_options(data: AuditData, options: AuditOptions) -> None:
    """Refuse options that make no sense, or not for these rows."""
    advantage, epsilon = options.max_advantage, options.epsilon
    if advantage is not None and not 0.0 < advantage < 1.0:
        raise InputError(f"max_advantage must be strictly between 0 and 1, got {advantage!r}.")
    if options.beyond_answer and advantage is None:
        wanted, about = Parameter("max_advantage"), Parameter("beyond_answer")
        raise InputError(wanted, " is missing, which is what ", about, " is about: give it.")
    if epsilon is not None and not 0.0 < epsilon < np.inf:
        raise InputError(f"epsilon must be a finite number above 0, got {epsilon!r}.")
    if not 0.5 <= options.confidence < 1.0:
        raise InputError(
            f"confidence must be at least 0.5 and below 1, got {options.confidence!r}."
        )
    if options.releases < 1:
        raise InputError(f"releases must be at least 1, got {options.releases!r}.")
    if options.cap is not None and options.cap < 1:
        raise InputError(f"cap must be at least 1, got {options.cap!r}.")
    if options.cap is not None and data.groups is None:
        raise InputError(
            f"cap={options.cap} counts the rows of groups, and there are none. Name the groups, on "
            "the command line by --group."
        )
    if options.prior is not None:
        _check_prior(data, options.prior)


def _check_prior(data: AuditData, prior: Floats) -> None:
    if len(data.private) > 1:
        raise InputError(
            f"prior is for a single private fact; the mapping guards {len(data.private)}. "
            "Leave it out: the classes' frequencies are then estimated."
        )
    classes = data.private[0].n_classes
    if prior.shape != (classes,) or np.any(prior <= 0) or abs(prior.sum() - 1.0) > 1e-9:
        raise InputError(
            f"prior must hold {classes} positive numbers that sum to 1, got {prior.tolist()}."
        )
