"""All experiments as one offline page: tables, pictures, choices, and how it was made.

The page loads nothing, runs nothing and may be read on a phone, on paper and in the dark; it
has the style sheet of the audit's report. The same results give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from discreet.auditing.svg import embed_svg
from discreet.paper.results import Column, Figure, Result
from discreet.paper.text_table import difference, how_made, ours, printed

_LONG = 30  # rows beyond which a table waits until it is asked for


@dataclass(frozen=True)
class Cell:
    """One figure of a row, and below it its error and what is printed."""

    ours: str
    beside: list[str]


@dataclass(frozen=True)
class Line:
    """One row of a table."""

    label: str
    cells: list[Cell]


@dataclass(frozen=True)
class Section:
    """What the page shows of one experiment."""

    result: Result
    origin: str
    picture: Markup | None
    groups: dict[str, list[Line]]  # by setting
    long: bool
    how: str


def render_page(
    results: Sequence[Result], origins: Mapping[str, str], pictures: Mapping[str, str], command: str
) -> str:
    """Return the whole page.

    Parameters
    ----------
    results : sequence of Result
    origins : mapping of str to str
        Where in the paper each experiment stands, by its name.
    pictures : mapping of str to str
        SVG files by the name of the experiment; one that did not run has none.
    command : str
        What to type to make the page again.
    """
    style = _source("report.css") + _source("reproduction.css")
    page: str = (
        _environment()
        .get_template("reproduction.html")
        .render(
            style=Markup(style),  # our own files
            style_hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
            sections=[_section(each, origins[each.name], pictures) for each in results],
            versions=f"discreet {results[0].asked.discreet}, {results[0].versions}",
            seconds=_duration(sum(each.seconds for each in results)),
            command=command,
        )
    )
    return page


@cache
def _environment() -> Environment:
    return Environment(
        loader=ChoiceLoader([PackageLoader("discreet.paper"), PackageLoader("discreet.auditing")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _source(name: str) -> str:
    loader = _environment().loader
    assert loader is not None
    return loader.get_source(_environment(), name)[0]


def _section(result: Result, origin: str, pictures: Mapping[str, str]) -> Section:
    picture = None
    if result.name in pictures:
        title = f"{result.title}; the figures stand in the table."
        picture = Markup(embed_svg(pictures[result.name], name=result.name, title=title))
    groups: dict[str, list[Line]] = {}
    for row in result.rows:
        cells = [_cell(column, row.figures.get(column.key, Figure())) for column in result.columns]
        groups.setdefault(row.setting, []).append(Line(row.label, cells))
    return Section(result, origin, picture, groups, len(result.rows) > _LONG, how_made(result))


def _cell(column: Column, figure: Figure) -> Cell:
    mean, _, error = ours(figure, column).partition(" ± ")
    beside = [f"± {error}"] if error else []
    if figure.printed is not None:
        beside.append(f"printed {printed(figure, column)}")
    if figure.difference is not None:
        beside.append(f"difference {difference(figure, column)}")
    return Cell(mean + " %" * error.endswith(" %"), beside)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
