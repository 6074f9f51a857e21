"""Results to read: one as text, ours above what is printed, and all as one offline page.

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

from discreet.plots import embed_svg
from research.paper.results import Column, Figure, Result, Row


def text_table(result: Result) -> list[str]:
    """Return the lines of a result, the choices after the table."""
    lines = [result.title, ""]
    cells = [("", "", *(column.title for column in result.columns))]
    setting = ""
    for row in result.rows:
        shown = row.setting if row.setting != setting else ""
        cells += _row_lines(result, row, shown)
        setting = row.setting
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines += [_line(line, widths) for line in cells]
    lines += ["", how_made(result), *result.findings]
    lines += ["", "Choices:", *(f"- {choice}" for choice in result.choices)]
    return lines


def ours(figure: Figure, column: Column) -> str:
    """Return the mean and its standard error."""
    if figure.mean is None:
        return "-"
    text = column.show(figure.mean)
    if figure.error is None:
        return text
    return f"{text.removesuffix(' %')} ± {column.show(figure.error)}"


def printed(figure: Figure, column: Column) -> str:
    """Return the printed figure, or nothing."""
    return "" if figure.printed is None else column.show_printed(figure.printed)


def difference(figure: Figure, column: Column) -> str:
    """Return ours less the printed figure, or nothing."""
    return "" if figure.difference is None else column.show(figure.difference, sign=True)


def _row_lines(result: Result, row: Row, setting: str) -> list[tuple[str, ...]]:
    pairs = [(row.figures.get(column.key, Figure()), column) for column in result.columns]
    lines = [(setting, row.label, *(ours(*pair) for pair in pairs))]
    if any(figure.printed is not None for figure, _ in pairs):
        lines.append(("", "  printed", *(printed(*pair) for pair in pairs)))
    if any(figure.difference is not None for figure, _ in pairs):
        lines.append(("", "  difference", *(difference(*pair) for pair in pairs)))
    return lines


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()


def how_made(result: Result) -> str:
    """Return how it was made, in one line."""
    if result.not_run is not None:
        return f"Not run here: {result.not_run}"
    draws, seed = result.asked.draws, result.asked.seed
    last = seed + draws - 1
    seeds = f"seed {seed}" if draws == 1 else f"seeds {seed} to {last}"
    error = "± is one standard error of the mean; a figure without it does not depend on the draw."
    if draws == 1:
        error = "one draw has no standard error."
    return f"{draws} draw{'s'[: draws > 1]}, {seeds}, {result.seconds:.0f} s of computing; {error}"


# --- The page ----------------------------------------------------------------------------

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

    ``origins``: where in the paper each experiment stands, by its name. ``pictures``: SVG files by
    the name of the experiment; one that did not run has none. ``command``: what to type to make the
    page again.
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
        loader=ChoiceLoader(
            [PackageLoader("research.paper"), PackageLoader("discreet.auditing.report")]
        ),
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
