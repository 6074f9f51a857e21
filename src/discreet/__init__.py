"""discreet: sensors that answer one question and keep quiet about the rest.

Names are imported when they are first used, so that ``import discreet`` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.auditing.audit import audit
    from discreet.auditing.mapping_diff import compare_mappings
    from discreet.frontiers.frontier import frontier
    from discreet.leakage.over_time import over_time
    from discreet.mappers.auto_mapper import Mapper
    from discreet.mappers.randomized_response import RandomizedResponseMapper
    from discreet.mappers.risk_mappers import BayesErrorMapper, NDDMapper, NPOMapper
    from discreet.mapping.mapping import Mapping

__version__ = "0.1.0"

__all__ = [
    "BayesErrorMapper",
    "Mapper",
    "Mapping",
    "NDDMapper",
    "NPOMapper",
    "RandomizedResponseMapper",
    "__version__",
    "audit",
    "compare_mappings",
    "frontier",
    "over_time",
]

_HOMES = {
    "BayesErrorMapper": "discreet.mappers.risk_mappers",
    "Mapper": "discreet.mappers.auto_mapper",
    "Mapping": "discreet.mapping.mapping",
    "NDDMapper": "discreet.mappers.risk_mappers",
    "NPOMapper": "discreet.mappers.risk_mappers",
    "RandomizedResponseMapper": "discreet.mappers.randomized_response",
    "audit": "discreet.auditing.audit",
    "compare_mappings": "discreet.auditing.mapping_diff",
    "frontier": "discreet.frontiers.frontier",
    "over_time": "discreet.leakage.over_time",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'discreet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
