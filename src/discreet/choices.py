"""What a user chooses by name: methods, kernels, losses and targets of an export.

To add one, write its file and name it here. What a name stands for is imported when it is asked
for, so that the command line can list the names at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from discreet.design.kernels import Kernel
    from discreet.design.losses import Loss
    from discreet.export.targets import Target
    from discreet.mappers.base import PrivacyMapper

_T = TypeVar("_T")


class Choices(Mapping[str, _T]):
    """Names, and what each stands for by the place where it is defined."""

    def __init__(self, places: dict[str, str]) -> None:
        self._places = places

    def __getitem__(self, name: str) -> _T:
        module, _, attribute = self._places[name].rpartition(".")
        found: _T = getattr(import_module(f"discreet.{module}"), attribute)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


MERGED_BINS = "'merged' chooses bins by the labels, and other rows judge them"
"""Said to whoever asks for a binning that there is not."""
METHODS: Choices[type[PrivacyMapper]] = Choices(
    {
        "auto": "mappers.auto_mapper.Mapper",
        "npo": "mappers.risk_mappers.NPOMapper",
        "bayes-error": "mappers.risk_mappers.BayesErrorMapper",
        "ndd": "mappers.risk_mappers.NDDMapper",
        "randomized-response": "mappers.randomized_response.RandomizedResponseMapper",
    }
)
KERNELS: Choices[type[Kernel]] = Choices(
    {
        "product": "design.kernels.ProductKernel",
        "anova": "design.kernels.AnovaKernel",
        "inverse-multiquadric": "design.kernels.InverseMultiquadricKernel",
        "count": "design.kernels.CountKernel",
    }
)
LOSSES: Choices[Loss] = Choices(
    {
        "logistic": "design.losses.LOGISTIC",
        "exponential": "design.losses.EXPONENTIAL",
        "hinge": "design.losses.HINGE",
        "square": "design.losses.SQUARE",
    }
)
TARGETS: Choices[Target] = Choices(
    {
        "python": "export.targets.python_files",
        "micropython": "export.targets.micropython_files",
        "c": "export.targets.c_files",
    }
)


@dataclass(frozen=True)
class ByColumn:
    """One choice for all the sensors, but for those that have their own."""

    common: Any
    own: dict[str, Any]
