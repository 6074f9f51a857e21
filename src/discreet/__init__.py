"""discreet: sensors that answer one question and keep quiet about the rest.

Names are imported when they are first used, so that ``import discreet`` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.design.mappers import BayesErrorMapper, NDDMapper, NPOMapper
    from discreet.mapping import Mapping

__version__ = "0.1.0"

__all__ = ["BayesErrorMapper", "Mapping", "NDDMapper", "NPOMapper", "__version__"]

_HOMES = {
    "BayesErrorMapper": "discreet.design.mappers",
    "Mapping": "discreet.mapping",
    "NDDMapper": "discreet.design.mappers",
    "NPOMapper": "discreet.design.mappers",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'discreet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
