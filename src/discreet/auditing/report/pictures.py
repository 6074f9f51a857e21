"""The pictures of the report, as SVG elements that follow the page's colours.

Matplotlib lays them out and sees no name or category from the data: such texts go in
afterwards, so that a dollar sign starts no formula and no glyph can be missing. No picture
relies on colour alone. Coordinates are in points; a picture is about as wide as a phone.
"""

from __future__ import annotations

import io
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from discreet.arrays import Floats
from discreet.auditing.bounds.estimates import PlugInEpsilon
from discreet.auditing.report.sensor_axes import Axis, sensor_axis
from discreet.auditing.results import Attacks
from discreet.auditing.rounds import RoundsAudit
from discreet.mapping.parts import Sensor
from discreet.plots import embed_svg

INK, MUTED, RULE, SENT, RAW, BAD, PAGE = (
    "#000000", "#010101", "#020202", "#030303", "#040404", "#050505", "#ffffff",
)  # fmt: skip
SYMBOLS = tuple(f"#0600{k:02x}" for k in range(6))
MAX_STACKED = len(SYMBOLS)
"""Most symbols that are drawn as a stack; more become a map of shades."""
_WIDTH = 4.5  # inches, 324 points
_SHADES = LinearSegmentedColormap.from_list(
    # Transparent where the probability is 0, so that it suits light and dark pages.
    "shades", [(0.16, 0.5, 0.66, 0.0), (0.16, 0.5, 0.66, 1.0)]
)  # fmt: skip
_RC: Any = {  # Any: the names of the settings differ between versions of Matplotlib
    "svg.fonttype": "none",
    "svg.hashsalt": "discreet",
    "font.size": 10.5,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "grid.color": RULE,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 10.5,
}


@dataclass
class Texts:
    """Stands in for texts from the data while a picture is laid out."""

    behind: dict[str, str] = field(default_factory=dict)

    def stand_in(self, text: str, limit: int = 18) -> str:
        """Return a text of about the same width, to be replaced later."""
        shown = tidy(text, limit)
        wide = sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in shown)
        token = f"@{len(self.behind)}@".ljust(wide, "x")
        self.behind[token] = shown
        return token


def tidy(text: str, limit: int) -> str:
    """Cut a text and replace characters that steer rather than show."""
    shown = "".join("\N{REPLACEMENT CHARACTER}" if _steers(c) else c for c in text)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _steers(character: str) -> bool:
    """Whether it is a control character, half a pair, or turns the direction of writing."""
    return unicodedata.category(character) in ("Cc", "Cs") or unicodedata.bidirectional(
        character
    ) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


# --- Attackers -------------------------------------------------------------------------------


def draw_attacks(
    attacks: Attacks, n_classes: int, upper: float | None, name: str, what: str
) -> str:
    """Draw what every attacker reached, from symbols and from readings.

    ``upper``: the certified bound on the advantage, if there is one. ``what``: the fact, for the
    title.
    """
    names = [each.name for each in attacks.symbols]
    with rc_context(_RC):
        figure, axes = _start(1.35 + 0.27 * len(names))
        handles, lows = [], [100.0 / n_classes]
        for results, offset, colour, marker in (
            (attacks.symbols, -0.17, SENT, "o"),
            (attacks.readings, 0.17, RAW, "D"),
        ):
            rows = [(names.index(each.name), each.balanced_accuracy) for each in results
                    if each.balanced_accuracy is not None and each.name in names]  # fmt: skip
            at = np.array([row for row, _ in rows]) + offset
            found = 100 * np.array([[e.low, e.estimate, e.high] for _, e in rows]).reshape(-1, 3)
            axes.hlines(at, found[:, 0], found[:, 2], color=colour, lw=1.8)
            handles += axes.plot(
                found[:, 1], at, marker, color=colour, ms=5.5,
                mfc=colour if marker == "o" else PAGE, mew=1.4,
            )  # fmt: skip
            lows += found[:, 0].tolist()
        labels = ["from the symbols that are sent", "from the raw readings"]
        handles.append(axes.axvline(100 / n_classes, color=MUTED, lw=1.2, ls=":"))
        labels.append("guessing")
        if upper is not None:
            at_most = 100 * (1 / n_classes + upper)
            handles.append(axes.axvline(at_most, color=SENT, lw=1.4, ls=(0, (5, 2))))
            labels.append("no attacker on symbols beyond this")
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.45, -0.55)
        axes.set_xlim(max(0.0, min(lows) - 3), 102)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        axes.set_xlabel("balanced accuracy (%)")
        _legend(figure, handles, labels)
        title = f"Balanced accuracy of every attacker on {what}; the figures are in the table."
        return _finish(figure, name, title, Texts())


def draw_null(plug_in: PlugInEpsilon, name: str) -> str:
    """Draw the estimate of epsilon beside the range that chance alone gives."""
    with rc_context(_RC):
        figure, axes = _start(1.25)
        band = axes.barh(
            [0], [plug_in.null_high - plug_in.null_low], 1.5, plug_in.null_low, color=RULE,
            edgecolor=MUTED, linewidth=0.8,
        )  # fmt: skip
        point = axes.plot([plug_in.value], [0], "o", color=SENT, mec=PAGE, ms=9, zorder=3)
        axes.set_xlim(0, 1.15 * max(plug_in.value, plug_in.null_high, 0.1))
        axes.set_ylim(-0.9, 0.9)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("plug-in estimate of ε, no bound")
        _legend(figure, [band, *point], ["chance alone", "this mapping"])
        return _finish(figure, name, f"{plug_in.words()}.", Texts())


def draw_rounds(found: RoundsAudit, name: str) -> str:
    """Draw what attackers reach, and what none exceeds, against the rounds that they see."""
    with rc_context(_RC):
        figure, axes = _start(2.7)
        handles: list[Any] = []
        labels = []
        if found.bound is not None:
            windows, bounds = zip(*found.by_window, strict=True)
            handles += axes.plot(windows, [100 * each for each in bounds], "-", color=INK, lw=1.5)
            labels.append("no attacker exceeds")
        looks = zip(
            dict.fromkeys(each.name for each in found.attacks), "os", (SENT, RAW), strict=False
        )
        for who, marker, colour in looks:
            own = [each for each in found.attacks if each.name == who]
            handles.append(
                axes.errorbar(
                    [each.window for each in own], [100 * each.advantage for each in own],
                    [100 * each.error for each in own], fmt=marker, color=colour, ms=6, lw=1.2,
                )
            )  # fmt: skip
            labels.append(f"reached by {who}, with its standard error")
        axes.axhline(0, color=MUTED, lw=0.8)
        axes.set_xscale("log")
        axes.set_xlabel("rounds seen")
        axes.set_ylabel("points above guessing")
        _legend(figure, handles, labels)
        title = "What attackers gain against the number of rounds that they see."
        return _finish(figure, name, title, Texts())


# --- A sensor's table ------------------------------------------------------------------------


def draw_sensor(sensor: Sensor, table: Floats, name: str) -> str:
    """Draw how likely each symbol is for every reading."""
    texts = Texts()
    with rc_context(_RC):
        axis = sensor_axis(sensor.encoder, table)
        stacked = table.shape[1] <= MAX_STACKED
        figure, axes = _start(axis.height if stacked else max(axis.height, 2.4))
        if stacked:
            _draw_stack(figure, axes, axis)
        else:
            _draw_shades(figure, axes, axis)
        _mark_readings(axes, axis, texts, stacked)
        title = f"Probability of each of {table.shape[1]} symbols, by reading."
        return _finish(figure, name, title, texts)


def _draw_stack(figure: Figure, axes: Axes, axis: Axis) -> None:
    n_symbols = axis.table.shape[1]
    tops = np.cumsum(axis.table, axis=1)
    handles = []
    for z in range(n_symbols):
        # The palest is always the first symbol and the darkest the last.
        colour = SYMBOLS[round(z * (MAX_STACKED - 1) / (n_symbols - 1))]
        boxes = [
            _box(left, right, tops[k, z] - axis.table[k, z], tops[k, z], axis.sideways)
            for k, (left, right) in enumerate(axis.places)
            if axis.table[k, z] > 0
        ]
        patch = PathPatch(
            Path.make_compound_path(*boxes) if boxes else Path(np.zeros((1, 2))),
            facecolor=colour, edgecolor=PAGE, linewidth=0.5,
        )  # fmt: skip
        handles.append(axes.add_patch(patch))
    labels = ["symbol 0", *map(str, range(1, n_symbols))]
    _legend(figure, handles, labels, columns=n_symbols, above=True)
    along = axes.set_xlim if axis.sideways else axes.set_ylim
    along(0, 1)
    ticks = axes.set_xticks if axis.sideways else axes.set_yticks
    ticks([0, 0.5, 1], ["0", "½", "1"])
    (axes.set_xlabel if axis.sideways else axes.set_ylabel)("probability")


def _draw_shades(figure: Figure, axes: Axes, axis: Axis) -> None:
    n_symbols = axis.table.shape[1]
    edges = np.arange(n_symbols + 1) - 0.5
    drawn: Any = None
    for group in _runs(axis.places):
        bounds = np.array([axis.places[k][0] for k in group] + [axis.places[group[-1]][1]])
        values = axis.table[group]
        mesh = (edges, bounds, values) if axis.sideways else (bounds, edges, values.T)
        drawn = axes.pcolormesh(*mesh, cmap=_SHADES, vmin=0, vmax=1, rasterized=True)
    along = axes.set_xlim if axis.sideways else axes.set_ylim
    along(-0.5, n_symbols - 0.5)
    (axes.set_xlabel if axis.sideways else axes.set_ylabel)("symbol")
    figure.colorbar(drawn, ax=axes, label="probability", ticks=[0, 0.5, 1], aspect=12)


def _runs(places: Sequence[tuple[float, float]]) -> list[list[int]]:
    """Return the runs of columns that touch: a gap sets the missing ones apart."""
    runs = [[0]]
    for k in range(1, len(places)):
        if math.isclose(places[k][0], places[k - 1][1]):
            runs[-1].append(k)
        else:
            runs.append([k])
    return runs


def _mark_readings(axes: Axes, axis: Axis, texts: Texts, stacked: bool) -> None:
    ends = min(left for left, _ in axis.places), max(right for _, right in axis.places)
    labels = [texts.stand_in(label) if axis.from_data else label for _, label in axis.ticks]
    at = [place for place, _ in axis.ticks]
    if axis.sideways:
        axes.set_ylim(ends[1], ends[0])
        axes.set_yticks(at, labels)
        axes.tick_params(axis="y", length=0)
    else:
        axes.set_xlim(*ends)
        axes.set_xticks(at, labels)
        axes.set_xlabel("reading")
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(not stacked)


def _box(left: float, right: float, low: float, high: float, sideways: bool) -> Path:
    corners = [(left, low), (right, low), (right, high), (left, high), (left, low)]
    return Path([(y, x) for x, y in corners] if sideways else corners, closed=True)


# --- Sheets of paper -------------------------------------------------------------------------


def _start(height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    return figure, figure.add_subplot()


def _legend(
    figure: Figure, handles: list[Any], labels: list[str], columns: int = 1, above: bool = False
) -> None:
    figure.legend(
        handles, labels, loc="outside upper left" if above else "outside lower left",
        ncols=columns, handlelength=1.4, columnspacing=1.4, borderpad=0.2, labelspacing=0.35,
    )  # fmt: skip


def _finish(figure: Figure, name: str, title: str, texts: Texts) -> str:
    sheet = io.StringIO()
    figure.savefig(sheet, format="svg", transparent=True, dpi=144, metadata={"Date": None})
    return embed_svg(sheet.getvalue(), name=name, title=title, texts=texts.behind)
