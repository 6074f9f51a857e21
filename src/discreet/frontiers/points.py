"""One point of a trade-off: a mapping, and what rows that it never saw say of it."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from discreet.data.strict_model import Items, Model
from discreet.mapping.parts import MAX_SYMBOLS, Name, Note, flaw
from discreet.quoting import up

MAX_POINTS = 1024
"""Most mappings in one frontier."""
FAMILIES = tuple(2**k for k in range(MAX_POINTS.bit_length()))
"""Numbers of points among which one may choose, with a bound ready for each."""

Share = Annotated[float, Field(ge=0, le=1)]
Rule = Literal["balanced", "likely", "cost"]


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

    def turned(self) -> "Estimate":
        """Return what is left to 1: of an accuracy the error."""
        return Estimate(value=1.0 - self.value, low=1.0 - self.high, high=1.0 - self.low)


class Worth(Model):
    """What answers are worth that need no mapping: of guessing, or from raw readings.

    ``cost``: where missing a class has a cost: that of the misses, as a share of that of missing
    all. ``leak``: an attacker's advantage; None in files of earlier versions.
    """

    error: Share
    balanced_accuracy: Share
    cost: Share | None = None
    leak: Share | None = None

    def judged(self, rule: Rule) -> float:
        """Return the error that decisions by this rule are to keep small."""
        if rule == "cost" and self.cost is not None:
            return self.cost
        return 1.0 - self.balanced_accuracy if rule == "balanced" else self.error


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

    ``among``: from how many mappings this one may have been chosen after looking at all of them.
    ``reason``: why there is no value.
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
        return "none" if self.value is None else f"{up(self.value):.3f}"


class Point(Model):
    """One mapping: how it was learned, and what rows that it never saw say of it.

    ``ratio``: none where the method knows no ratio. ``public_error``, ``balanced_accuracy``: of the
    mapping's own fusion rule. ``cost``: where missing a class has a cost: that of the misses, as a
    share of that of missing all. ``advantage``: of the attacker, for the private fact and classes
    it does best on. ``low``: what an attacker that learned from the training rows reaches for
    certain. ``fact``: the private fact that the estimate speaks of. ``bounds``: for a choice among
    1, 2, 4, ... mappings, so that points may be added later. ``exact``: whether Q was averaged over
    all outputs; otherwise symbols were drawn. ``useful``: whether the learning expected the symbols
    to say anything about the public fact. ``mapping``: the id of the mapping, as ``discreet learn``
    would write it. ``bound_if_chosen``: the one of ``bounds`` for as many points as the frontier
    has. ``dominated``: whether another point leaks no more and errs no more, and one of them less.
    """

    method: Name
    n_symbols: int = Field(ge=2, le=MAX_SYMBOLS)
    ratio: Annotated[float, Field(gt=0, lt=1)] | None
    public_error: Estimate
    balanced_accuracy: Estimate
    cost: Estimate | None = None
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

    def judged(self, rule: Rule) -> Estimate:
        """Return the error that decisions by this rule are to keep small."""
        if rule == "cost" and self.cost is not None:
            return self.cost
        return self.balanced_accuracy.turned() if rule == "balanced" else self.public_error

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


# --- The knee -------------------------------------------------------------------------------
# Where in a trade-off to look first: the lower left hull, its knee, and what is dominated.


_TIE = 1e-12


class Place(NamedTuple):
    """Where a mapping stands: to the left it leaks less, further down it errs less."""

    advantage: float
    error: float


def lower_left(places: Sequence[Place]) -> list[int]:
    """Return the corners of the lower left hull, from the least leak to the least error.

    Of points in the same place the first counts; points on a straight line between two
    corners are none.
    """
    order = sorted(range(len(places)), key=lambda i: (*places[i], i))
    hull: list[int] = []
    for i in order:
        if hull and places[i].error >= places[hull[-1]].error:
            continue  # leaks as much or more and errs no less
        while len(hull) > 1 and _turn(*(places[j] for j in (hull[-2], hull[-1], i))) <= _TIE:
            hull.pop()
        hull.append(i)
    return hull


def _turn(a: Place, b: Place, c: Place) -> float:
    """Return how far b lies below the line from a to c, times a positive number."""
    return (b.advantage - a.advantage) * (c.error - a.error) - (b.error - a.error) * (
        c.advantage - a.advantage
    )


def find_knee(places: Sequence[Place]) -> int | None:
    """Return the point farthest below the chord between the ends of the lower left hull.

    Both axes are scaled so that the ends are (0, 1) and (1, 0), which makes the answer
    independent of units: there the distance below the chord is (1 - x - y)/sqrt(2). Of
    equals the one that leaks less. None if the hull has fewer than three corners: then
    no point is a better bargain than a coin tossed between the ends.
    """
    hull = lower_left(places)
    if len(hull) < 3:
        return None
    first, last = places[hull[0]], places[hull[-1]]

    def depth(i: int) -> float:
        x = (places[i].advantage - first.advantage) / (last.advantage - first.advantage)
        y = (places[i].error - last.error) / (first.error - last.error)
        return 1.0 - x - y

    return max(hull[1:-1], key=depth)


def dominated(places: Sequence[Place]) -> list[bool]:
    """Return for each point whether another one is better in one way and no worse in the other."""
    return [any(_beats(other, own) for other in places) for own in places]


def _beats(other: Place, own: Place) -> bool:
    no_worse = other.advantage <= own.advantage and other.error <= own.error
    return no_worse and other != own
