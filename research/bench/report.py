"""A run to read: a table for each benchmark, a picture, and two runs side by side.

Matplotlib is imported on the first call: it takes a while.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from discreet.errors import InputError
from discreet.files import write_whole
from discreet.plots import (
    INK,
    PAPER,
    STYLES,
    check_suffix,
    marker_look,
    matplotlib_settings,
    rendered,
)
from research.bench.results import Contest, Run, Timed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# --- Text --------------------------------------------------------------------------------

_COLUMNS = ("", "median", "least", "most", "processor", "ratio: clock", "processor")


def contest_lines(contest: Contest) -> list[str]:
    """Return the table of one benchmark; ratios are to ours, round by round."""
    ours = contest.reference()
    rows: list[tuple[str, ...]] = [_COLUMNS]
    for each in contest.times:
        clock = contest.factor * np.array(each.clock)
        figures = (np.median(clock), clock.min(), clock.max())
        spent = contest.factor * float(np.median(each.processor))
        ratios = (each.over(ours), each.work_over(ours))
        rows.append((each.name, *map(_figure, (*figures, spent)), *(f"{r:.2f}" for r in ratios)))
    rounds = len(ours.clock)
    lines = [contest.title, f"{contest.size}; {rounds} rounds in turn; {contest.unit}", ""]
    lines += aligned(rows)
    lines += [f"{name}: not installed" for name in contest.missing]
    lines += list(contest.notes)
    return lines + [check.text() for check in contest.checks]


def run_line(run: Run) -> str:
    """Return what was measured on, in one line."""
    versions = ", ".join(f"{name} {text}" for name, text in run.machine.versions.items())
    cores = f"{run.machine.cores} core{'s'[: run.machine.cores > 1]}"
    return f"discreet {run.discreet}, {cores}, Python {run.machine.python}, {versions}"


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Return rows as lines: the first column to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _figure(value: float) -> str:
    return f"{value:.3f}" if value < 100 else f"{value:.1f}"


# --- Picture -----------------------------------------------------------------------------

_WIDTH = 6.4  # inches
_LINE, _HEAD = 0.24, 0.9  # inches for a contestant, and around those of a benchmark
_DOTS = 160  # per inch in a PNG
_SMALL = 8.0  # points
_LEFT = -0.6  # where titles begin, in widths of the axes: above the names


def save_picture(run: Run, path: Path) -> None:
    """Draw a run into an SVG or PNG file.

    Raises InputError: if the name has another suffix, or the file cannot be written.
    """
    check_suffix(path)
    with matplotlib_settings("discreet-bench"):
        data = rendered(draw(run), path, _DOTS)
    write_whole(path, data)


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


# --- Two runs ----------------------------------------------------------------------------

# Machines have slow days. So ours is also held against the yardstick of the same run, somebody
# else's program that did not change, and that ratio decides.

LEAST_CHANGE = 0.05
"""Smaller changes are not marked, however small the spread."""


@dataclass(frozen=True)
class Change:
    """One contestant in two runs.

    ``old``, ``new``: medians, in seconds. ``relative``: new over old, each by the yardstick of its
    own run. ``spread``: what the two ratios may differ by without a reason.
    """

    contest: str
    name: str
    old: float
    new: float
    relative: float
    spread: float

    @property
    def verdict(self) -> str:
        """Say whether the change is larger than the spread."""
        if abs(math.log(self.relative)) <= max(self.spread, math.log1p(LEAST_CHANGE)):
            return ""
        return "slower" if self.relative > 1.0 else "faster"


def compare(old: Run, new: Run) -> list[Change]:
    """Return the change of every contestant that both runs have, the yardsticks aside.

    Raises InputError: if nothing in them can be compared.
    """
    found = []
    for contest in new.contests:
        before = next((each for each in old.contests if each.name == contest.name), None)
        if before is None or (before.size, before.yardstick) != (contest.size, contest.yardstick):
            continue
        found += _changes(before, contest)
    if not found:
        raise InputError(
            "the two runs have no benchmark of the same size in common. Run both with the same "
            "options."
        )
    return found


def _changes(old: Contest, new: Contest) -> list[Change]:
    changes = []
    for after in new.times:
        before = old.of(after.name)
        if before is None or after.name == new.yardstick:
            continue
        (then, then_spread), (now, now_spread) = _relative(old, before), _relative(new, after)
        spread = math.hypot(then_spread, now_spread)
        changes.append(
            Change(new.name, after.name, before.median, after.median, now / then, spread)
        )
    return changes


def _relative(contest: Contest, timed: Timed) -> tuple[float, float]:
    """Return the ratio to the yardstick, round by round, and its relative spread."""
    yardstick = contest.of(contest.yardstick)
    assert yardstick is not None  # which the contest itself has checked
    ratios = tuple(a / b for a, b in zip(timed.clock, yardstick.clock, strict=True))
    each = Timed(name=timed.name, clock=ratios, processor=timed.processor)
    return each.median, each.spread


def change_lines(old: Run, new: Run) -> list[str]:
    """Return the comparison as text."""
    rows: list[tuple[str, ...]] = [("", "old, s", "new, s", "new/old", "by the peer", "spread", "")]
    for each in compare(old, new):
        rows.append(
            (
                f"{each.contest}: {each.name}",
                f"{each.old:.4g}",
                f"{each.new:.4g}",
                f"{each.new / each.old:.2f}",
                f"{each.relative:.2f}",
                f"{each.spread:.2f}",
                each.verdict,
            )
        )
    return [
        f"old: {run_line(old)}",
        f"new: {run_line(new)}",
        "",
        *aligned(rows),
        "",
        "by the peer: the same ratio with both times divided by the peer's of their own run, which",
        "takes the machine out. Marked is what changed there by more than the spread and 5 %.",
    ]
