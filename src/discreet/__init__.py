"""discreet: sensors that answer one question and keep quiet about the rest.

Names are imported when they are first used, so that ``import discreet`` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.auditing.audit import audit
    from discreet.design.mappers import BayesErrorMapper, NDDMapper, NPOMapper
    from discreet.mapping import Mapping
    from discreet.modelling.mapper import ModelMapper
    from discreet.peers.randomized_response import RandomizedResponseMapper
    from discreet.tradeoff.frontier import frontier

__version__ = "0.1.0"

__all__ = [
    "BayesErrorMapper",
    "Mapping",
    "ModelMapper",
    "NDDMapper",
    "NPOMapper",
    "RandomizedResponseMapper",
    "__version__",
    "audit",
    "frontier",
]

_HOMES = {
    "BayesErrorMapper": "discreet.design.mappers",
    "Mapping": "discreet.mapping",
    "ModelMapper": "discreet.modelling.mapper",
    "NDDMapper": "discreet.design.mappers",
    "NPOMapper": "discreet.design.mappers",
    "RandomizedResponseMapper": "discreet.peers.randomized_response",
    "audit": "discreet.auditing.audit",
    "frontier": "discreet.tradeoff.frontier",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'discreet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
