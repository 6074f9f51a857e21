"""The trade-off as a whole: all points with their marks, as a table for people and as a file.

A ``Frontier`` is also its own file. The file may come from anybody, so that every part is
checked, and marks that the figures do not bear out are refused.
"""

from collections.abc import Sequence
from os import PathLike
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from discreet.errors import InputError
from discreet.mapping_file import MAX_ITEMS, format_text, write_file
from discreet.mapping_parts import MAX_SENSORS, Name, Note, Parameter, Source, flaw
from discreet.result_file import load_result
from discreet.tradeoff.knee import Place, dominated, find_knee
from discreet.tradeoff.points import MAX_POINTS, Point, Share, describe
from discreet.values import Items, Model, explain

MAX_BYTES = 8 * 2**20
_MEND = "Name another file, or remove this one."


def mark(points: Sequence[Point]) -> tuple[Point, ...]:
    """Return the points in order, with knee, dominated points and corrected bounds set."""
    ordered = sorted(points, key=lambda p: (p.method, p.n_symbols, p.ratio or 0.0))
    places = [Place(point.advantage.value, point.public_error.value) for point in ordered]
    family = (len(ordered) - 1).bit_length()
    knee, beaten = find_knee(places), dominated(places)
    return tuple(
        point.model_copy(
            update={
                "bound_if_chosen": point.bounds[family],
                "dominated": beaten[i],
                "knee": i == knee,
            }
        )
        for i, point in enumerate(ordered)
    )


class About(Model):
    """What all points share. Points belong together if this is the same for both.

    Attributes
    ----------
    source : Source
        Digest of the table, and which of its rows were held out.
    held_out : int
        Rows that no mapping saw.
    independent_rows : float
        How many independent observations they count for; fewer than rows if grouped.
    confidence : float
    guessing : float
        Public error of always answering the class most common among the training rows.
    parameters : dict
        Of the mappers, as far as they do not differ from point to point.
    discreet : str
    """

    public: Name
    private: Items[Name] = Field(min_length=1, max_length=MAX_ITEMS)
    sensors: Items[Name] = Field(min_length=1, max_length=MAX_SENSORS)
    source: Source
    held_out: int = Field(ge=1)
    independent_rows: float = Field(ge=0)
    confidence: float = Field(gt=0, lt=1)
    guessing: Share
    parameters: dict[Name, Parameter | dict[Name, Parameter]] = Field(max_length=MAX_ITEMS)
    discreet: Note


class Frontier(Model):
    """Public error against the attacker's advantage, over ratios, methods and symbols.

    Attributes
    ----------
    about : About
    points : tuple of Point
        By method, symbols and ratio.
    planned : int
        Points that were asked for; more than there are if the work was interrupted.
    """

    format: Literal["discreet-frontier"] = "discreet-frontier"
    version: Literal[1] = 1
    about: About
    planned: int = Field(ge=1, le=MAX_POINTS)
    points: Items[Point] = Field(max_length=MAX_POINTS)

    @model_validator(mode="after")
    def _check_marks(self) -> Self:
        if len({point.key for point in self.points}) < len(self.points):
            raise flaw("points", "has two points of the same method, symbols and ratio")
        if len(self.points) > self.planned:
            raise flaw("planned", f"is {self.planned}; there are {len(self.points)} points")
        for i, (found, sound) in enumerate(zip(self.points, mark(self.points), strict=True)):
            if found != sound:
                raise flaw(f"points[{i}]", "is out of order, or its marks are not what it shows")
        return self

    @classmethod
    def of(cls, about: About, points: Sequence[Point], planned: int | None = None) -> Self:
        """Order and mark the points, and bind them together."""
        total = max(len(points), 1) if planned is None else planned
        return cls(about=about, points=mark(points), planned=total)

    @property
    def complete(self) -> bool:
        """Whether all points that were asked for are there."""
        return len(self.points) == self.planned

    @property
    def knee(self) -> Point | None:
        """The point to look at first, or None if no point stands out."""
        return next((point for point in self.points if point.knee), None)

    # -- for people --

    def table(self) -> str:
        """Return the points as lines of at most 80 characters, and what they mean."""
        rows = [_HEADER, *(_row(point) for point in self.points)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                text.ljust(width) if k == 0 else text.rjust(width)
                for k, (text, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, "", *self.words()])

    def words(self) -> list[str]:
        """Return what may be said of the figures, and what may not."""
        about, sure = self.about, f"{100 * self.about.confidence:.6g} %"
        rows = f"{about.held_out} held-out rows"
        if about.independent_rows < about.held_out:
            rows += f", which count for {about.independent_rows:.0f} independent ones"
        said = [
            f"Measured on {rows}. Guessing {about.public!r} errs {about.guessing:.3f}.",
            "leak: how far an attacker beats guessing; at least 'least' and at most 'most'.",
            f"These two and the error's interval hold at {sure} each, for one point by itself.",
            "Choosing a point after seeing all of them has its price: quote 'chosen', which",
            f"holds for all {len(self.points)} at once, or audit the chosen mapping on fresh rows.",
            "- dominated: another point leaks no more and errs no more.",
        ]
        said += [f"none: no bound, since {reason}." for reason in self._reasons()]
        return [*said, self._knee_in_words()]

    def _reasons(self) -> list[str]:
        found = (point.bound_if_chosen for point in self.points)
        return list(dict.fromkeys(b.reason for b in found if b is not None and b.reason))[:1]

    def _knee_in_words(self) -> str:
        if self.knee is not None:
            return f"* knee: {describe(self.knee)}."
        return "No knee: fewer than three points are corners of the lower left hull."

    # -- files --

    def to_dict(self) -> dict[str, Any]:
        """Return the frontier for JSON."""
        return self.model_dump() | {"points": [point.to_dict() for point in self.points]}

    @classmethod
    def from_dict(cls, content: dict[str, Any], *, where: str = "frontier") -> Self:
        """Return the frontier that ``to_dict`` wrote.

        Raises
        ------
        InputError
            Naming the first place that is wrong.
        """
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise InputError(f"{where}: {explain(error)}. {_MEND}") from None

    def save(self, path: str | PathLike[str]) -> None:
        """Write the file whole or not at all.

        Raises
        ------
        InputError
            If it cannot be written.
        """
        write_file(path, format_text(self.to_dict()))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a file that ``save`` wrote.

        Raises
        ------
        InputError
            If there is no such file, or it is not a sound frontier.
        """
        return load_result(cls, path, command="discreet frontier", most=MAX_BYTES, mend=_MEND)


# --- Lines of the table --------------------------------------------------------------------

_HEADER = ("  method", "symbols", "ratio", "public error", "leak", "least", "most", "chosen")


def _row(point: Point) -> tuple[str, ...]:
    error = point.public_error
    sign = "*" if point.knee else "-" if point.dominated else " "
    return (
        f"{sign} {point.method}",
        str(point.n_symbols),
        "-" if point.ratio is None else f"{point.ratio:g}",
        f"{error.value:.3f} ({error.low:.3f}-{error.high:.3f})",
        f"{point.advantage.value:.3f}",
        f"{point.advantage.low:.3f}",
        str(point.bound),
        str(point.bound_if_chosen),
    )
