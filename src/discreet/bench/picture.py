"""A run as a picture: for each benchmark a point per contestant, with the spread of its rounds.

Matplotlib is imported on the first call: it takes a while.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from discreet.bench.results import Contest, Run
from discreet.bench.text import run_line
from discreet.drawing import (
    INK,
    PAPER,
    STYLES,
    check_suffix,
    marker_look,
    matplotlib_settings,
    rendered,
)
from discreet.mapping_file import write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 6.4  # inches
_LINE, _HEAD = 0.24, 0.9  # inches for a contestant, and around those of a benchmark
_DOTS = 160  # per inch in a PNG
_SMALL = 8.0  # points
_LEFT = -0.6  # where titles begin, in widths of the axes: above the names


def save_picture(run: Run, path: Path) -> None:
    """Draw a run into an SVG or PNG file.

    Raises
    ------
    InputError
        If the name has another suffix, or the file cannot be written.
    """
    check_suffix(path)
    with matplotlib_settings("discreet-bench"):
        data = rendered(draw(run), path, _DOTS)
    write_bytes(path, data)


def draw(run: Run) -> Figure:
    """Draw the benchmarks one below the other."""
    from matplotlib.figure import Figure as Canvas

    heights = [_LINE * len(contest.times) + _HEAD for contest in run.contests]
    figure = Canvas(figsize=(_WIDTH, sum(heights) + 0.3), facecolor=PAPER, layout="constrained")
    all_axes = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, contest in zip(all_axes, run.contests, strict=True):
        _draw_contest(axes, contest)
    figure.text(0.01, 0.003, run_line(run), fontsize=6.0, color=INK)
    figure.get_layout_engine().set(rect=(0, 0.2 / sum(heights), 1, 1 - 0.2 / sum(heights)))  # type: ignore[union-attr, call-arg]
    return figure


def _draw_contest(axes: Axes, contest: Contest) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    ours = contest.reference()
    for k, each in enumerate(contest.times):
        median = contest.factor * each.median
        low, high = contest.factor * min(each.clock), contest.factor * max(each.clock)
        style = STYLES["npo"] if each.name.startswith("ours") else STYLES["ndd"]
        axes.plot([low, high], [k, k], color=style[0], linewidth=1.5)
        axes.plot([median], [k], **marker_look(*style, "full"))
        ratio = "" if each is ours else f", ×{each.over(ours):.2g}"
        axes.annotate(
            f"{median:.3g}{ratio}",
            (high, k),
            xytext=(7, 0),
            textcoords="offset points",
            va="center",
            fontsize=_SMALL,
        )
    axes.set_yticks(range(len(contest.times)), [each.name for each in contest.times])
    axes.tick_params(labelsize=_SMALL)
    axes.set_ylim(len(contest.times) - 0.5, -0.5)
    axes.set_xscale("log")  # the ratio of two times is their distance
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    spans = [contest.factor * each for timed in contest.times for each in timed.clock]
    axes.set_xlim(min(spans) / 1.3, max(spans) * (max(spans) / min(spans)) ** 0.25 * 1.5)
    gone = f"; not installed: {', '.join(contest.missing)}" if contest.missing else ""
    axes.set_title(f"{contest.title}\n{contest.size}{gone}", fontsize=_SMALL, loc="left", x=_LEFT)
    axes.set_xlabel(f"{contest.unit}: median, least to most; × times ours", fontsize=_SMALL)
