"""The pictures of the experiments: curves over a setting, or one error against the other.

Every method has a colour and a marker of its own, the same as in a frontier. Matplotlib is
imported on the first call: it takes a while.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.plots import OTHERS, STYLES, marker_look, matplotlib_settings
from research.paper.results import Column, Figure, Result, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

_WIDTH = 4.6  # inches, 331 points: a phone shows the text in its own size
_TEXT, _SMALL_TEXT = 10.5, 9.5
# What `auditing.report.svg` turns into the colours of a page.
_INK, _PAPER = "#000000", "#ffffff"
_ERRORS = {"public": ("H", "-", "full"), "private": ("G", (0, (3, 2)), "none")}
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


@dataclass(frozen=True)
class Panel:
    """One pair of axes: its heading, and the settings it shows in their order."""

    title: str
    settings: Sequence[str]


@dataclass(frozen=True)
class Filling:
    """What a marker's filling tells: settings whose name has this end."""

    label: str
    end: str


def svg_of(draw: Callable[[Result], Picture], result: Result) -> str:
    """Return a result's picture as the text of an SVG file, on white."""
    from matplotlib import rc_context

    with matplotlib_settings("discreet-reproduce"), rc_context({"font.size": _TEXT}):
        text = io.StringIO()
        draw(result).savefig(text, format="svg", metadata=_NO_METADATA)
    return text.getvalue()


# --- Curves --------------------------------------------------------------------------------


def draw_curves(
    result: Result, panels: Sequence[Panel], ticks: Sequence[str], x_title: str
) -> Picture:
    """Draw the errors of H and G over a setting, one panel below the other."""
    figure, all_axes = _start(len(panels))
    for axes, panel in zip(all_axes, panels, strict=True):
        for method in _methods(result):
            _draw_curve(axes, result, panel, method)
        axes.set_title(panel.title, fontsize=_TEXT, loc="left")
        axes.set_xticks(range(len(ticks)), list(ticks))
        axes.set_ylim(bottom=0.0)
        axes.set_ylabel("error")
    all_axes[-1].set_xlabel(x_title)
    _label_methods(all_axes[0], result)
    _legend(figure, ["filled, solid: H; open, dashed: G", "bars: one standard error"])
    return figure


def _draw_curve(axes: Axes, result: Result, panel: Panel, method: str) -> None:
    colour, marker = _style(method)
    for key, (_, line, filling) in _ERRORS.items():
        if method == "optimum" and key == "private":
            continue  # the same as NPO's, by construction
        found = [result.figure(setting, method, key) for setting in panel.settings]
        places = [(k, each.mean, each.error or 0.0) for k, each in enumerate(found) if each.values]
        if places:
            x, y, spread = zip(*places, strict=True)
            look = marker_look(colour, marker, filling) | {"linestyle": line, "linewidth": 1.1}
            axes.errorbar(x, y, spread, elinewidth=0.8, **look)


# --- Places --------------------------------------------------------------------------------


def draw_places(
    result: Result, panels: Sequence[Panel], fillings: Sequence[Filling], x: str, y: str
) -> Picture:
    """Draw one figure of every method against another, ours filled and the printed ones open.

    ``fillings``: the first is shown by full markers, the second by half ones. ``x``, ``y``: keys of
    columns.
    """
    figure, all_axes = _start(len(panels))
    across, up = result.column(x), result.column(y)
    for axes, panel in zip(all_axes, panels, strict=True):
        for row in result.rows:
            if row.setting in panel.settings:
                _draw_place(axes, row, _filling(result, row, fillings), across, up)
        axes.set_title(panel.title, fontsize=_TEXT, loc="left")
        if axes.get_ylim()[0] < 0.5 * axes.get_ylim()[1]:  # else most of it would be empty
            axes.set_ylim(bottom=0.0)
        axes.set_ylabel(_axis_title(up))
    all_axes[-1].set_xlabel(_axis_title(across) + ", to the right is good")
    _label_methods(all_axes[0], result)
    told = "; ".join(
        f"{kind}: {each.label}" for kind, each in zip(("full", "half"), fillings, strict=False)
    )
    _legend(figure, [f"{told}; open: printed", "bars: one standard error"])
    return figure


def _draw_place(axes: Axes, row: Row, filling: str, x: Column, y: Column) -> None:
    colour, marker = _style(row.method)
    across, up = row.figures[x.key], row.figures[y.key]
    ours, theirs = _place(across.mean, up.mean, x, y), _place(across.printed, up.printed, x, y)
    if ours is not None and theirs is not None:
        axes.plot(*zip(ours, theirs, strict=True), color=colour, linewidth=0.8, alpha=0.5)
    if ours is not None:
        bars = _spread(across, x), _spread(up, y)
        look = marker_look(colour, marker, filling)
        axes.errorbar([ours[0]], [ours[1]], [bars[1]], [bars[0]], elinewidth=0.8, **look)
    if theirs is not None:
        axes.plot(*theirs, **marker_look(colour, marker, "none"))


def _place(
    across: float | None, up: float | None, x: Column, y: Column
) -> tuple[float, float] | None:
    if across is None or up is None or not math.isfinite(across + up):
        return None
    return across * _scale(x), up * _scale(y)


def _filling(result: Result, row: Row, fillings: Sequence[Filling]) -> str:
    counts = {len(figure.values) for figure in row.figures.values() if figure.values}
    if counts == {1} and result.asked.draws > 1:
        return "full"  # what depends on no draw belongs to no number of rows
    for kind, filling in zip(("full", "left"), fillings, strict=False):
        if row.setting.endswith(filling.end):
            return kind
    return "full"


def _spread(figure: Figure, column: Column) -> float:
    return (figure.error or 0.0) * _scale(column)


def _scale(column: Column) -> float:
    return 100.0 if column.percent else 1.0


def _axis_title(column: Column) -> str:
    return column.title + (" (%)" if column.percent else "")


# --- Shared --------------------------------------------------------------------------------


def _start(n_panels: int) -> tuple[Picture, list[Axes]]:
    from matplotlib.figure import Figure

    height = 2.3 if n_panels > 1 else 3.2
    figure = Figure(figsize=(_WIDTH, n_panels * height + 1.2), layout="constrained")
    figure.patch.set_facecolor(_PAPER)
    axes = figure.subplots(n_panels, 1, squeeze=False)[:, 0]
    for each in axes:
        each.set_facecolor("none")
    return figure, list(axes)


def _methods(result: Result) -> list[str]:
    return list(dict.fromkeys(row.method for row in result.rows))


def _style(method: str) -> tuple[str, str]:
    return STYLES.get(method, OTHERS[-1])


def _label_methods(axes: Axes, result: Result) -> None:
    """Put every method into the legend once, by markers that are nowhere in the picture."""
    labels = {row.method: row.label for row in result.rows}
    for method, label in labels.items():
        axes.plot([], [], label=label, **marker_look(*_style(method), "full"))


def _legend(figure: Picture, title: Sequence[str]) -> None:
    properties: dict[str, Any] = {"size": _SMALL_TEXT}
    figure.legend(
        loc="outside lower center",
        ncols=2,
        frameon=False,
        fontsize=_SMALL_TEXT,
        title="\n".join(title),
        title_fontproperties=properties,
        columnspacing=1.2,
        handletextpad=0.4,
    )
