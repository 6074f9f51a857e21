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
from discreet.paper.results import Figure, Result
from discreet.paper.text_table import difference, how_made, ours, printed


@dataclass(frozen=True)
class Cell:
    """One figure of a row."""

    ours: str
    beside: str


@dataclass(frozen=True)
class Line:
    """One row of a table; the setting stands in the first row that has it."""

    setting: str
    label: str
    cells: list[Cell]


@dataclass(frozen=True)
class Section:
    """What the page shows of one experiment."""

    result: Result
    origin: str
    picture: Markup | None
    lines: list[Line]
    settings: bool
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
    style = _source("report.css")
    page: str = (
        _environment()
        .get_template("reproduction.html")
        .render(
            style=Markup(style),  # our own file
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
    lines, last = [], ""
    for row in result.rows:
        cells = [_cell(result, row.figures, k) for k in range(len(result.columns))]
        lines.append(Line(row.setting if row.setting != last else "", row.label, cells))
        last = row.setting
    several = len({row.setting for row in result.rows}) > 1
    return Section(result, origin, picture, lines, several, how_made(result))


def _cell(result: Result, figures: Mapping[str, Figure], k: int) -> Cell:
    column = result.columns[k]
    figure = figures.get(column.key, Figure())
    if figure.printed is None:
        return Cell(ours(figure, column), "")
    apart = difference(figure, column)
    beside = f"printed {printed(figure, column)}" + (f" ({apart})" if apart else "")
    return Cell(ours(figure, column), beside)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
