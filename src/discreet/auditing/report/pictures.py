"""The pictures of the report, as SVG elements that follow the page's colours.

Matplotlib lays them out and sees no name or category from the data: such texts go in
afterwards, so that a dollar sign starts no formula and no glyph can be missing. No picture
relies on colour alone. Coordinates are in points; a picture is about as wide as a phone.

*Where the readings of a sensor lie on the axis of its picture.* Bins lie where they are, in the
units of the readings, unless they are too uneven to be seen; then they get equal room and their
edges as labels. The outermost bins are open and get the width of a middling one. Categories lie
below one another, which leaves room for their names. The code for missing readings stands apart.
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
from matplotlib.ticker import MaxNLocator

from discreet.arrays import Floats
from discreet.auditing.findings import PlugInEpsilon
from discreet.auditing.results import Attacks
from discreet.auditing.rounds import RoundsAudit
from discreet.data.encoders import BinsEncoder, CategoriesEncoder, Encoder
from discreet.mapping.parts import Sensor
from discreet.plots import embed_svg

# --- Where readings lie on an axis ----------------------------------------------------------

MAX_COLUMNS = 80
"""Most columns of a picture; neighbouring bins are averaged beyond."""
MAX_LISTED = 30
"""Most categories and codes that get a place of their own; the first are shown."""
_ROOM = 42  # characters that fit below a picture
_MANY_EDGES = 20  # with more, round numbers say more than the edges do
_THINNEST = 1 / 60  # of the axis, for a bin that can still be seen


@dataclass(frozen=True)
class Axis:
    """Places, ticks and what is drawn there.

    ``table`` is of shape (n_places, n_symbols). ``places``: left and right end of each. ``height``:
    of the picture, in inches. ``sideways``: whether readings go downwards and probabilities to the
    right. ``from_data``: whether the ticks are texts from the data. ``note``: what a reader has to
    know about the axis.
    """

    table: Floats
    places: tuple[tuple[float, float], ...]
    ticks: tuple[tuple[float, str], ...]
    height: float = 2.1
    sideways: bool = False
    from_data: bool = False
    note: str = ""


def sensor_axis(encoder: Encoder, table: Floats) -> Axis:
    """Lay out the codes of a sensor."""
    if isinstance(encoder, BinsEncoder):
        return _bins(encoder, table)
    if isinstance(encoder, CategoriesEncoder):
        return _categories(encoder, table)
    return _codes(encoder.size, encoder.missing, table)


# --- Bins ------------------------------------------------------------------------------------


def _bins(encoder: BinsEncoder, table: Floats) -> Axis:
    edges = np.array(encoder.edges)
    notes = []
    if not len(edges):
        bounds, labelled = np.array([0.0, 1.0]), [(0.5, "any number")]
    else:
        bounds = _with_ends(edges)
        at = edges
        if _too_uneven(bounds):
            bounds = np.arange(len(bounds), dtype=np.float64)
            at = bounds[1:-1]
            notes.append("The bins differ too much in width to be drawn to scale.")
        elif len(edges) > _MANY_EDGES:
            rounded = MaxNLocator(6).tick_values(edges[0], edges[-1])
            at = edges = rounded[(rounded >= bounds[0]) & (rounded <= bounds[-1])]
        labelled = list(zip(at.tolist(), written_briefly(edges), strict=True))
    plain = table[: len(bounds) - 1]
    if len(plain) > MAX_COLUMNS:
        bounds, plain, step = _averaged(bounds, plain)
        notes.append(f"Each column is the average of {step} neighbouring bins.")
    places = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    return _upright(places, plain, labelled, encoder.missing, table, " ".join(notes))


def written_briefly(numbers: Floats) -> list[str]:
    """Write numbers with as few digits as tell them apart and hardly change them."""
    for digits in (3, 4, 6, 9):
        texts = [f"{each:.{digits}g}" for each in numbers]
        if len(set(texts)) == len(texts) and np.allclose(list(map(float, texts)), numbers, 1e-3):
            return [text.replace("-", "−") for text in texts]
    return [repr(each) for each in numbers.tolist()]


def _with_ends(edges: Floats) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):
        width = float(np.median(np.diff(edges))) if len(edges) > 1 else max(1.0, abs(edges[0]) / 2)
        return np.concatenate([[edges[0] - width], edges, [edges[-1] + width]])


def _too_uneven(bounds: Floats) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        shares = np.diff(bounds) / (bounds[-1] - bounds[0])
    least = min(_THINNEST, 0.25 / len(shares))
    return not bool(np.all(np.isfinite(shares)) and shares.min() >= least)


def _averaged(bounds: Floats, rows: Floats) -> tuple[Floats, Floats, int]:
    step = -(-len(rows) // MAX_COLUMNS)
    starts = np.arange(0, len(rows), step)
    sizes = np.diff(np.append(starts, len(rows)))
    means = np.add.reduceat(rows, starts, axis=0) / sizes[:, None]
    return np.append(bounds[starts], bounds[-1]), means, step


# --- Categories and codes --------------------------------------------------------------------


def _categories(encoder: CategoriesEncoder, table: Floats) -> Axis:
    names, listed = encoder.labels(), len(encoder.categories)
    kept = [*range(min(listed, MAX_LISTED)), *range(listed, len(table))]
    rest = listed - MAX_LISTED
    note = f"The first {MAX_LISTED} of {listed} categories are shown." if rest > 0 else ""
    return Axis(
        table=table[kept],
        places=tuple((k + 0.06, k + 0.94) for k in range(len(kept))),
        ticks=tuple((k + 0.5, names[code]) for k, code in enumerate(kept)),
        height=0.75 + (0.26 if len(kept) <= 12 else 0.2) * len(kept),
        sideways=True,
        from_data=True,
        note=note,
    )


def _codes(size: int, missing: bool, table: Floats) -> Axis:
    shown = min(size, MAX_COLUMNS)
    places = [(k - 0.5, k + 0.5) for k in range(shown)]
    labelled = [(float(k), str(k)) for k in range(shown)]
    note = f"The first {shown} of {size} codes are shown." if shown < size else ""
    return _upright(places, table[:shown], labelled, missing, table, note)


# --- Upright pictures ------------------------------------------------------------------------


def _upright(
    places: list[tuple[float, float]],
    plain: Floats,
    labelled: list[tuple[float, str]],
    missing: bool,
    table: Floats,
    note: str,
) -> Axis:
    """Add the column for missing readings and choose the labels that fit."""
    begin, end = places[0][0], places[-1][1]
    ticks: list[tuple[float, str]] = []
    if missing:
        # As wide as its label, with a gap that shows that it is no number.
        width = 0.2 * (end - begin)
        places = [*places, (end + 0.25 * width, end + width)]
        ticks.append((end + 0.62 * width, "missing"))
        plain = np.vstack([plain, table[-1:]])
        end += width
    room = _ROOM / (end - begin)
    step = max(1, -(-len(labelled) // 12))
    for place, label in labelled[::step]:
        if all(
            abs(place - at) * room >= 0.5 * (len(label) + len(other)) + 1 for at, other in ticks
        ):
            ticks.append((place, label))
    return Axis(plain, tuple(places), tuple(sorted(ticks)), note=note)


# --- Pictures -------------------------------------------------------------------------------

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
        axes.set(ylim=(len(names) - 0.45, -0.55), xlim=(max(0.0, min(lows) - 3), 102))
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
        axes.set(axisbelow=True, xlabel="balanced accuracy (%)")
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
        widest = 1.15 * max(plug_in.value, plug_in.null_high, 0.1)
        axes.set(xlim=(0, widest), ylim=(-0.9, 0.9), yticks=[])
        axes.set_xlabel("plug-in estimate of ε, no bound")
        axes.spines["left"].set_visible(False)
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
        axes.set(xscale="log", xlabel="rounds seen", ylabel="points above guessing")
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
