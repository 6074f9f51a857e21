"""The trade-off as a picture: error upwards, leak to the right, so down and left is good.

Both are in points, on axes that give small figures the more room. Beside the mappings are always
the raw readings and sensors that say nothing; a limit, if there is one, is a line. The error is
the one that the decisions are good for: balanced, plain, or the cost of misses.
Every method has a colour and a marker of its own, every number of symbols a filling. A thin
bar is an interval; a tick to the right, joined by a fainter line, is the certified bound.
Matplotlib is imported on the first call: it takes a while.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from discreet.errors import InputError
from discreet.files import write_whole
from discreet.frontiers.results import Frontier, Place, Point, Rule, describe, lower_left
from discreet.plots import (
    FILLINGS,
    INK,
    LIMIT,
    OTHERS,
    PAPER,
    STYLES,
    WHOLE,
    check_suffix,
    marker_look,
    matplotlib_settings,
    rendered,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 5.0, 3.8  # inches; 360 points wide, so that 360 pixels show 9-point text
# Beyond this, an embedded picture leaves out dominated points' bars, then the points, then some
# of the others.
_PAGE_BYTES = 40_000
_DOTS = 220  # per inch in a PNG
_SENTINEL = "#0a0b0c"  # stands for the reader's own text colour in an embedded picture


def save_plot(frontier: Frontier, path: str | Path) -> None:
    """Draw the frontier into an SVG or PNG file.

    Raises InputError: if the name has another suffix, or the file cannot be written.
    """
    path = Path(path)
    check_suffix(path)
    with matplotlib_settings("discreet-frontier"):
        data = rendered(draw(frontier, ink=INK, paper=PAPER), path, _DOTS)
    write_whole(path, data)


def frontier_svg(
    frontier: Frontier, here: tuple[float, float] | None = None, limit: float | None = None
) -> str:
    """Return the picture as an SVG element to put into a page.

    Text is text, lines take the colour of the page's own text, the background is the
    page's, and nothing is loaded from elsewhere.

    ``here``: marked as "you are here"; the error is of the kind that the frontier compares by.
    ``limit``: on the advantage.
    """
    good = [point for point in frontier.points if not point.dominated]
    some = [point for i, point in enumerate(good) if point.knee or not i % (len(good) // 50 + 1)]
    every = frontier.points
    for points, bars in ((every, True), (every, False), (good, False), (some, False)):
        with matplotlib_settings("discreet-frontier"):
            figure = draw(frontier, here, points, limit=limit, ink=_SENTINEL, bars=bars)
            figure.savefig(text := io.StringIO(), format="svg", metadata=_NO_METADATA)
        found = _for_a_page(text.getvalue(), _title(frontier))
        if len(found) < _PAGE_BYTES:
            break
    return found


_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def _for_a_page(svg: str, title: str) -> str:
    """Strip what only a file of its own needs, and let the page decide on colour and width."""
    svg = svg[svg.index("<svg") :]
    used = set(re.findall(r"#([\w-]+)", svg))
    svg = re.sub(r' id="([\w-]+)"', lambda m: m[0] if m[1] in used else "", svg)
    svg = re.sub(r"font: (\S+) [^;\"]*", r"font: \1 sans-serif", svg)
    svg = re.sub(r"(\d\.\d\d)\d+", r"\1", svg)  # a hundredth of a point is fine enough
    svg = svg.replace(_SENTINEL, "currentColor")
    # One rule for all lines of a picture would rule all lines of the page.
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"\n\s*", "\n", svg)
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
    head, body = svg.split(">", 1)
    label = f"<title>{escape(title)}</title>"
    return f'{head} role="img" style="max-width: 100%; height: auto">{label}{body}'


# --- Drawing -------------------------------------------------------------------------------


def draw(
    frontier: Frontier,
    here: tuple[float, float] | None = None,
    points: Sequence[Point] = (),
    *,
    limit: float | None = None,
    ink: str = INK,
    paper: str | None = None,
    bars: bool = True,
) -> Figure:
    """Return the picture; without ``paper`` its background is transparent.

    ``points`` are those to show, by default all; ``bars`` tells whether dominated ones show
    their intervals and bounds. ``limit``: on the advantage.

    Raises InputError: if there are no points to draw.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator

    if not frontier.points:
        raise InputError("the frontier has no points yet, so that there is nothing to draw.")
    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    figure.patch.set_facecolor(paper or "none")
    axes = figure.add_subplot()
    axes.set_facecolor("none")
    points = points or frontier.points
    rule = frontier.about.rule
    for scaled in (axes.set_xscale, axes.set_yscale):
        scaled("function", functions=(lambda at: np.sqrt(np.maximum(at, 0.0)), np.square))
    _draw_hull(axes, points, rule, ink)
    symbols = sorted({point.n_symbols for point in frontier.points})
    for (method, n_symbols), series in _series(points):
        _draw_series(axes, _look(method, symbols.index(n_symbols)), series, rule, bars)
    if limit is not None:
        axes.axvline(100 * limit, color=LIMIT, linewidth=1.4, linestyle=(0, (4, 2)))
    at = None if here is None else (100 * here[0], 100 * here[1])
    if at is not None:
        axes.plot(*at, "x", color=ink, markersize=9, markeredgewidth=2.0, zorder=4, **WHOLE)
    _draw_beside(axes, frontier, ink)
    axes.set_xlim(left=0.0)
    axes.set_ylim(bottom=0.0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(FixedLocator([0, 1, 2, 5, 10, 20, 30, 50, 75, 100]))
        axis.set_major_formatter("{x:g}")
    if limit is not None:
        _write(axes, "limit", (100 * limit, axes.get_ylim()[1]), (3, -2), LIMIT)
    if at is not None:
        _label(axes, "you are here", at, ink, 70)
    if frontier.knee is not None:
        _draw_knee(axes, frontier.knee, rule, ink)
    _finish(figure, axes, frontier, ink)
    return figure


def _title(frontier: Frontier) -> str:
    knee = "no knee" if frontier.knee is None else f"knee at {describe(frontier.knee)}"
    count = len(frontier.points)
    figure = frontier.figure.capitalize()
    return f"{figure} against attacker's advantage, {count} mappings, {knee}"


def _series(points: Sequence[Point]) -> list[tuple[tuple[str, int], list[Point]]]:
    found: dict[tuple[str, int], list[Point]] = {}
    for point in points:
        found.setdefault((point.method, point.n_symbols), []).append(point)
    ranks = {method: i for i, method in enumerate(STYLES)}
    return sorted(found.items(), key=lambda item: (ranks.get(item[0][0], 99), item[0]))


def _look(method: str, rank: int) -> dict[str, Any]:
    """Return how markers look: colour and shape tell the method, the filling the symbols."""
    other = OTHERS[sum(map(ord, method)) % len(OTHERS)]
    return marker_look(*STYLES.get(method, other), FILLINGS[min(rank, len(FILLINGS) - 1)])


def _draw_series(
    axes: Axes, look: dict[str, Any], points: Sequence[Point], rule: Rule, bars: bool
) -> None:
    for faint in (True, False):
        own = [p for p in points if p.dominated == faint]
        places = [_place(p, rule) for p in own]
        if bars or not faint:
            _draw_bars(axes, own, rule, look["color"], 0.3 if faint else 0.7)
        axes.plot(*_columns(places), alpha=0.45 if faint else 1.0, **look)
    # Nowhere in the picture, so that the legend shows the marker at its full strength.
    axes.plot([], [], label=f"{points[0].method}, {points[0].n_symbols} symbols", **look)


def _place(point: Point, rule: Rule) -> Place:
    return Place(100 * point.advantage.value, 100 * point.judged(rule).value)


def _draw_bars(axes: Axes, points: Sequence[Point], rule: Rule, colour: str, alpha: float) -> None:
    """Draw the intervals, and a tick at each certified bound."""
    lines, ticks = [], []
    for point in points:
        (x, y), error = _place(point, rule), point.judged(rule)
        low, high = 100 * error.low, 100 * error.high
        lines += [((x, low), (x, high)), ((100 * point.advantage.low, y), (x, y))]
        if point.bound.value is not None:
            ticks.append((100 * point.bound.value, y))
            lines.append(((x, y), ticks[-1]))
    # One broken line instead of many keeps the file small.
    path = [place for line in lines for place in (*line, (float("nan"),) * 2)]
    axes.plot(*_columns(path), color=colour, linewidth=0.7, alpha=0.6 * alpha)
    axes.plot(*_columns(ticks), "|", color=colour, markersize=6, markeredgewidth=1.2, alpha=alpha)


def _columns(places: Sequence[Sequence[float]]) -> tuple[list[float], list[float]]:
    return [place[0] for place in places], [place[1] for place in places]


def _draw_hull(axes: Axes, points: Sequence[Point], rule: Rule, ink: str) -> None:
    places = [_place(point, rule) for point in points]
    corners = [places[i] for i in lower_left(places)]
    if len(corners) > 1:
        axes.plot(*zip(*corners, strict=True), color=ink, linewidth=0.8, alpha=0.5, zorder=1)


def _draw_beside(axes: Axes, frontier: Frontier, ink: str) -> None:
    """Draw what needs no mapping: saying nothing, and the raw readings."""
    about = frontier.about
    guessing, raw = (100 * each.judged(about.rule) for each in (about.guessing, about.raw))
    look: Any = {"color": ink, "markerfacecolor": "none", "markersize": 7, **WHOLE}
    axes.plot(0.0, guessing, "s", **look)
    _write(axes, "say nothing", (0.0, guessing), (8, 5), ink)
    if about.raw.leak is None:  # of a frontier from before it was measured
        axes.axhline(raw, color=ink, linewidth=0.8, linestyle=(0, (1, 2)), alpha=0.7)
        return
    place = 100 * about.raw.leak, raw
    axes.plot(*place, "D", **look)
    _write(axes, "raw readings", place, (0, 18), ink, "right")


def _write(
    axes: Axes,
    text: str,
    place: tuple[float, float],
    by: tuple[int, int],
    ink: str,
    side: Literal["left", "right"] = "left",
) -> None:
    """Write beside a place, moved by so many points."""
    axes.annotate(
        text, place, xytext=by, textcoords="offset points", ha=side, va="top", color=ink, fontsize=8
    )


def _draw_knee(axes: Axes, knee: Point, rule: Rule, ink: str) -> None:
    place = _place(knee, rule)
    look: Any = {"markerfacecolor": "none", "markersize": 13, "markeredgewidth": 1.2, **WHOLE}
    axes.plot(*place, "o", color=ink, **look)
    ratio = "" if knee.ratio is None else f" {knee.ratio:g}"
    _label(axes, f"knee: {knee.method}{ratio}", place, ink, 55)


def _label(axes: Axes, text: str, place: tuple[float, float], ink: str, height: float) -> None:
    """Write up and to the side, where a curve that falls to the right leaves room."""
    (_, right), (_, top) = axes.get_xlim(), axes.get_ylim()
    side = 1 if place[0] < 0.55 * right else -1
    height = height if place[1] < 0.6 * top else -0.4 * height
    axes.annotate(
        text,
        place,
        xytext=(side * 30, height),
        textcoords="offset points",
        ha="left" if side > 0 else "right",
        color=ink,
        weight="bold",
        arrowprops={"arrowstyle": "-", "color": ink, "linewidth": 0.7, "shrinkB": 7,
                    "relpos": (0.0 if side > 0 else 1.0, 0.0)},
        zorder=5,
    )  # fmt: skip


def _finish(figure: Figure, axes: Axes, frontier: Frontier, ink: str) -> None:
    secrets = " or ".join(_short(name) for name in frontier.about.private[:3])
    axes.set_xlabel(f"how far an attacker beats guessing {secrets} (points)", color=ink)
    axes.set_ylabel(f"{frontier.figure} on {_short(frontier.about.public)} (points)", color=ink)
    axes.tick_params(colors=ink)
    for spine in axes.spines.values():
        spine.set_color(ink)
    sure = f"{100 * frontier.about.confidence:.6g} %"
    faint = "; faint: dominated" if any(p.dominated for p in frontier.points) else ""
    figure.legend(
        loc="outside lower center",
        ncols=2,
        frameon=False,
        labelcolor=ink,
        fontsize=8,
        title=f"bars: {sure} interval; |: certified bound, each by itself{faint}",
        title_fontproperties={"size": 8},
    ).get_title().set_color(ink)


def _short(name: str) -> str:
    return repr(name if len(name) <= 24 else name[:23] + "…")
