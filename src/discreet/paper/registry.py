"""Every experiment by its name, in the order of the paper."""

from __future__ import annotations

from discreet.paper import adult, correlation, m_ary, opportunity, skewed_prior, threshold_ratio
from discreet.paper.experiment import Experiment

_MODULES = (correlation, threshold_ratio, skewed_prior, m_ary, adult, opportunity)

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT for module in _MODULES
}
"""What `discreet reproduce` can run."""
