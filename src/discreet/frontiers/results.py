"""The trade-off as a whole: all points with their marks, as a table for people and as a file.

A ``Frontier`` is also its own file. The file may come from anybody, so that every part is
checked, and marks that the figures do not bear out are refused.
"""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

import pandas as pd
from pydantic import Field, ValidationError, model_validator

from discreet.data.dependence import Dependence
from discreet.data.strict_model import Items, Model, explain
from discreet.errors import InputError
from discreet.layout import Column, table, wrapped
from discreet.mapping.file_format import MAX_ITEMS, format_text, load_result, write_file
from discreet.mapping.parts import MAX_SENSORS, MAX_SYMBOLS, Name, Note, Parameter, Source, flaw
from discreet.rounding import down, up

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# --- One point ------------------------------------------------------------------------------

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
    return [
        any(p.advantage <= own.advantage and p.error <= own.error and p != own for p in places)
        for own in places
    ]


# --- All of them ----------------------------------------------------------------------------

MAX_BYTES = 8 * 2**20
_REMEDY = "Name another file, or remove this one and run `discreet frontier` again."


def mark(points: Sequence[Point], rule: Rule) -> tuple[Point, ...]:
    """Return the points in order, with knee, dominated points and corrected bounds set.

    Knee and dominated points are judged by the error that decisions by ``rule`` keep small.
    """
    ordered = sorted(points, key=lambda p: (p.method, p.n_symbols, p.ratio or 0.0))
    places = [Place(point.advantage.value, point.judged(rule).value) for point in ordered]
    family = (len(ordered) - 1).bit_length()
    knee, beaten = find_knee(places), dominated(places)
    marks = [{"dominated": beaten[i], "knee": i == knee} for i in range(len(ordered))]
    return tuple(
        point.model_copy(update={"bound_if_chosen": point.bounds[family], **own})
        for point, own in zip(ordered, marks, strict=True)
    )


class About(Model):
    """What all points share. Points belong together if this is the same for both.

    ``source``: digest of the table, and which of its rows were held out. ``held_out``: rows that no
    mapping saw. ``independent_rows``: how many independent observations they count for; fewer than
    rows if grouped. ``rule``: what decisions are good for, and so which error counts. ``guessing``:
    of always naming the class that is best among the training rows. ``raw``: of deciding by the
    same rule from the codes of the readings, by a classifier that learned from the training rows.
    ``order``: what the order of the rows, or of their groups, tells. ``assumed_independent``:
    whether they were declared to be independent whatever their order tells. ``parameters``: of the
    mappers, as far as they do not differ from point to point.
    """

    public: Name
    private: Items[Name] = Field(min_length=1, max_length=MAX_ITEMS)
    sensors: Items[Name] = Field(min_length=1, max_length=MAX_SENSORS)
    source: Source
    held_out: int = Field(ge=1)
    independent_rows: float = Field(ge=0)
    confidence: float = Field(gt=0, lt=1)
    rule: Rule
    guessing: Worth
    raw: Worth
    order: Dependence | None = None
    assumed_independent: bool = False
    parameters: dict[Name, Parameter | dict[Name, Parameter]] = Field(max_length=MAX_ITEMS)
    discreet: Note


class Frontier(Model):
    """Error of the answers against the attacker's advantage, over ratios, methods and symbols.

    ``points``: by method, symbols and ratio. ``planned``: points that were asked for; more than
    there are if the work was interrupted.

    Examples
    --------
    >>> import pandas as pd
    >>> from discreet import frontier
    >>> readings = pd.DataFrame({"hall": [0, 1, 2, 3] * 10, "door": [0, 0, 1, 1] * 10})
    >>> found = frontier(readings, [0, 0, 1, 1] * 10, private=[0, 1] * 20, methods=["ndd"],
    ...                  assume_independent=True)  # fmt: skip
    >>> found.to_frame()["method"].tolist()
    ['ndd']
    >>> figure = found.plot(limit=0.05)
    >>> lines = found.words(), found.table()
    >>> found.save("frontier.json")
    >>> Frontier.load("frontier.json") == Frontier.from_dict(found.to_dict()) == found
    True
    """

    format: Literal["discreet-frontier"] = "discreet-frontier"
    version: Literal[2] = 2
    about: About
    planned: int = Field(ge=1, le=MAX_POINTS)
    points: Items[Point] = Field(max_length=MAX_POINTS)

    @model_validator(mode="before")
    @classmethod
    def _check_version(cls, content: Any) -> Any:
        if isinstance(content, dict) and content.get("version") == 1:
            raise flaw("version", "is 1, from before frontiers recorded balanced accuracy")
        return content

    @model_validator(mode="after")
    def _check_costs(self) -> Self:
        costs = [self.about.guessing.cost, self.about.raw.cost, *(p.cost for p in self.points)]
        if any((cost is None) == (self.about.rule == "cost") for cost in costs):
            raise flaw("about.rule", "goes with a cost of every answer if, and only if, it is cost")
        return self

    @model_validator(mode="after")
    def _check_marks(self) -> Self:
        if len({point.key for point in self.points}) < len(self.points):
            raise flaw("points", "has two points of the same method, symbols and ratio")
        if len(self.points) > self.planned:
            raise flaw("planned", f"is {self.planned}; there are {len(self.points)} points")
        for i, (found, sound) in enumerate(
            zip(self.points, mark(self.points, self.about.rule), strict=True)
        ):
            if found != sound:
                raise flaw(f"points[{i}]", "is out of order, or its marks are not what it shows")
        return self

    @classmethod
    def of(cls, about: About, points: Sequence[Point], planned: int | None = None) -> Self:
        """Order and mark the points, and bind them together."""
        total = max(len(points), 1) if planned is None else planned
        return cls(about=about, points=mark(points, about.rule), planned=total)

    @property
    def complete(self) -> bool:
        """Whether all points that were asked for are there."""
        return len(self.points) == self.planned

    @property
    def knee(self) -> Point | None:
        """The point to look at first, or None if no point stands out."""
        return next((point for point in self.points if point.knee), None)

    @property
    def figure(self) -> str:
        """The error that decisions are to keep small, in words."""
        return {"balanced": "balanced error", "likely": "error", "cost": "cost of misses"}[
            self.about.rule
        ]

    # -- for people --

    def __repr__(self) -> str:
        """Return what is traded for what, over how many mappings."""
        secrets = " or ".join(map(repr, self.about.private))
        return f"<Frontier: {len(self.points)} points, {self.about.public!r} against {secrets}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the points."""
        figures = self.to_frame().to_html(float_format="{:.3f}".format, na_rep="none")
        return f"<p>{escape(repr(self))}</p>{figures}"

    def to_frame(self) -> pd.DataFrame:
        """Return the points, a row each: what was asked, error, leak and its bounds."""
        return pd.DataFrame(
            {
                "method": each.method,
                "n_symbols": each.n_symbols,
                "ratio": each.ratio,
                "error": each.judged(self.about.rule).value,
                "advantage": each.advantage.value,
                "at_least": each.advantage.low,
                "at_most": each.bound.value,
                "dominated": each.dominated,
                "knee": each.knee,
            }
            for each in self.points
        )

    def plot(self, limit: float | None = None) -> "Figure":
        """Draw error against leak, with raw readings and sensors that say nothing beside.

        ``limit``: on the advantage, drawn as a line. Returns a Matplotlib figure.
        """
        from discreet.frontiers.plot import draw
        from discreet.plots import PAPER, matplotlib_settings

        with matplotlib_settings("discreet-frontier"):
            return draw(self, limit=limit, paper=PAPER)

    def table(self, width: int | None = None) -> str:
        """Return the points as lines, and what they mean.

        ``width``: of a terminal that is narrower than the table, which has at most 80 characters
        for usual ratios, ten more where misses have costs.
        """
        about = self.about
        rows = [_row(point, about.rule) for point in self.points]
        rows += [_row_beside(name, worth, about.rule) for name, worth in
                 (("guessing", about.guessing), ("raw readings", about.raw))]  # fmt: skip
        first, *others = _header(about.rule)
        columns = Column(first, gap=0), *(Column(title, right=True) for title in others)
        said = [line for words in self.words() for line in wrapped(words, width)]
        return "\n".join([*table(columns, rows, width), "", *said])

    def words(self) -> list[str]:
        """Return what may be said of the figures, and what may not."""
        about, sure = self.about, f"{100 * self.about.confidence:.6g} %"
        holds = f"These two and the interval hold at {sure} each, for one point by itself."
        if about.order is not None and about.order.found and not about.assumed_independent:
            holds = "Nothing holds for certain here: the interval takes rows to be independent."
        rows = f"{about.held_out} held-out rows"
        if about.independent_rows < about.held_out:
            rows += f", which count for {about.independent_rows:.0f} independent ones"
        said = [
            f"Answers about {about.public!r}, measured on {rows}.",
            f"Points are compared by their {_FIGURES[about.rule]}.",
            "leak: how far an attacker beats guessing; at least 'least' and at most 'most'.",
            holds,
            "Choosing a point after seeing all of them has its price: quote 'chosen', which",
            f"holds for all {len(self.points)} at once, or audit the chosen mapping on fresh rows.",
            "- dominated: another point leaks no more and errs no more.",
        ]
        chosen = (point.bound_if_chosen for point in self.points)
        reason = next((each.reason for each in chosen if each is not None and each.reason), None)
        said += [] if reason is None else [f"none: no bound, since {reason}."]
        knee = "No knee: fewer than three points are corners of the lower left hull."
        knee = knee if self.knee is None else f"* knee: {describe(self.knee)}."
        return [*said, *self._conditions(), knee]

    def _conditions(self) -> list[str]:
        """Return what was declared or could not be checked, as an audit's verdict does."""
        order = self.about.order
        if self.about.assumed_independent:
            although = f", although {order.words}" if order is not None and order.found else ""
            return [f"This rests on what was declared: rows are independent draws{although}."]
        if order is None or order.checked:
            return []
        return [f"This rests on what could not be checked: {order.words}."]

    # -- files --

    def to_dict(self) -> dict[str, Any]:
        """Return the frontier for JSON."""
        return self.model_dump() | {"points": [point.to_dict() for point in self.points]}

    @classmethod
    def from_dict(cls, content: dict[str, Any], *, where: str = "frontier") -> Self:
        """Return the frontier that ``to_dict`` wrote; an InputError names what is wrong first."""
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise InputError(f"{where}: {explain(error)}. {_REMEDY}") from None

    def save(self, path: str | PathLike[str]) -> None:
        """Write the file whole or not at all."""
        write_file(path, format_text(self.to_dict()))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a file that ``save`` wrote, if it is a sound frontier."""
        return load_result(cls, path, command="discreet frontier", most=MAX_BYTES, remedy=_REMEDY)


# --- Lines of the table --------------------------------------------------------------------

_FIGURES = {"balanced": "balanced accuracy", "likely": "error", "cost": "cost"}
"""What the table calls the figure that decisions are good for."""


def _header(rule: Rule) -> tuple[str, ...]:
    answers = ["error", "balanced accuracy" if rule == "balanced" else "balanced"]
    answers += ["cost"] * (rule == "cost")
    return ("  method/symbols", "ratio", *answers, "leak", "least", "most", "chosen")


def _row(point: Point, rule: Rule) -> tuple[str, ...]:
    sign = "*" if point.knee else "-" if point.dominated else " "
    return (
        f"{sign} {point.method}/{point.n_symbols}",
        "-" if point.ratio is None else f"{point.ratio:g}",
        *_answers(point.public_error, point.balanced_accuracy, point.cost, rule),
        f"{point.advantage.value:.3f}",
        f"{down(point.advantage.low):.3f}",
        str(point.bound),
        str(point.bound_if_chosen),
    )


def _answers(
    error: Estimate, balanced: Estimate, cost: Estimate | None, rule: Rule
) -> Iterator[str]:
    """Give the figures, that which counts with its interval."""
    for own, found in (("likely", error), ("balanced", balanced), ("cost", cost)):
        if found is not None:
            interval = f" ({found.low:.3f}-{found.high:.3f})" if own == rule else ""
            yield f"{found.value:.3f}{interval}"


def _row_beside(name: str, worth: Worth, rule: Rule) -> tuple[str, ...]:
    """Return what needs no mapping; of its leak there is an estimate and no bound."""
    figures = [worth.error, worth.balanced_accuracy]
    figures += [] if worth.cost is None else [worth.cost]
    leak = "" if worth.leak is None else f"{worth.leak:.3f}"
    return (f"  {name}", "", *(f"{each:.3f}" for each in figures), leak, "", "", "")
