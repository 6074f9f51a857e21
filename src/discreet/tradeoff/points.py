"""One point of a trade-off: a mapping, and what rows that it never saw say of it."""

from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from discreet.mapping_parts import MAX_SYMBOLS, Name, Note, flaw
from discreet.values import Items, Model

MAX_POINTS = 1024
"""Most mappings in one frontier."""
FAMILIES = tuple(2**k for k in range(MAX_POINTS.bit_length()))
"""Numbers of points among which one may choose, with a bound ready for each."""

Share = Annotated[float, Field(ge=0, le=1)]


class Estimate(Model):
    """A figure between the ends of its interval."""

    value: Share
    low: Share
    high: Share

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if not self.low <= self.value <= self.high:
            raise flaw("value", f"is {self.value}, outside {self.low} to {self.high}")
        return self


class Leak(Model):
    """The attacker's advantage over guessing: an estimate, and what it is at least."""

    value: Share
    low: Share

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.low > self.value:
            raise flaw("low", f"is {self.low}, above the estimate {self.value}")
        return self


class Bound(Model):
    """What no attacker's advantage exceeds, or why nothing can be promised.

    Attributes
    ----------
    among : int
        From how many mappings this one may have been chosen after looking at all of them.
    certifiable : bool
    value : float or None
    reason : str or None
        Why there is no value.
    """

    among: int = Field(ge=1, le=MAX_POINTS)
    certifiable: bool
    value: Share | None = None
    reason: Note | None = None

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if self.certifiable == (self.value is None) or self.certifiable != (self.reason is None):
            raise flaw("certifiable", "goes with a value if true and with a reason if false")
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the bound for JSON: there is no number where nothing is promised."""
        return self.model_dump(exclude_none=True)

    def __str__(self) -> str:
        return "none" if self.value is None else f"{self.value:.3f}"


class Point(Model):
    """One mapping: how it was learned, and what rows that it never saw say of it.

    Attributes
    ----------
    method : str
    n_symbols : int
    ratio : float or None
        None where the method knows no ratio.
    public_error : Estimate
        Of the mapping's own fusion rule.
    advantage : Leak
        Of the attacker, for the private fact and classes it does best on. ``low``: what
        an attacker that learned from the training rows reaches for certain.
    fact : str
        The private fact that the estimate speaks of.
    bounds : tuple of Bound
        For a choice among 1, 2, 4, ... mappings, so that points may be added later.
    exact : bool
        Whether Q was averaged over all outputs; otherwise symbols were drawn.
    useful : bool
        Whether the learning expected the symbols to say anything about the public fact.
    mapping : str
        The id of the mapping, as ``discreet learn`` would write it.
    bound_if_chosen : Bound
        The one of ``bounds`` for as many points as the frontier has.
    dominated : bool
        Whether another point leaks no more and errs no more, and one of them less.
    knee : bool
    """

    method: Name
    n_symbols: int = Field(ge=2, le=MAX_SYMBOLS)
    ratio: Annotated[float, Field(gt=0, lt=1)] | None
    public_error: Estimate
    advantage: Leak
    fact: Name
    bounds: Items[Bound] = Field(min_length=len(FAMILIES), max_length=len(FAMILIES))
    exact: bool
    useful: bool
    mapping: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    bound_if_chosen: Bound | None = None
    dominated: bool = False
    knee: bool = False

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if tuple(bound.among for bound in self.bounds) != FAMILIES:
            raise flaw("bounds", f"must be for choices among {', '.join(map(str, FAMILIES))}")
        values = [float("inf") if b.value is None else b.value for b in self.bounds]
        if any(after < before for before, after in pairwise(values)):
            raise flaw("bounds", "must not fall as the choice grows")
        if self.advantage.value > values[0]:
            problem = f"is {values[0]}, below the estimate {self.advantage.value}"
            raise flaw("bounds[0].value", problem)
        return self

    @property
    def key(self) -> tuple[str, int, float | None]:
        """What tells one point of a frontier from the others."""
        return self.method, self.n_symbols, self.ratio

    @property
    def bound(self) -> Bound:
        """What holds for this mapping, had no other been looked at."""
        return self.bounds[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the point for JSON."""
        assert self.bound_if_chosen is not None
        return self.model_dump() | {
            "bounds": [each.to_dict() for each in self.bounds],
            "bound_if_chosen": self.bound_if_chosen.to_dict(),
        }


def describe(point: Point) -> str:
    """Return what a point is, in a few words."""
    ratio = "" if point.ratio is None else f", ratio {point.ratio:g}"
    return f"{point.method}{ratio}, {point.n_symbols} symbols"
