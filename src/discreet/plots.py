"""How pictures look, are written, and come into a page.

Every method has one colour and one marker, the same everywhere. Matplotlib is imported on the first
call: it takes a while.

Of an SVG that stands inside a page only known elements and attributes come through. Styles become
attributes, so that the page's security policy can forbid inline styles; ids get the picture's
name, so that pictures do not borrow each other's parts; and the colours of ``PALETTE`` become
variables of the page, so that they follow its light or dark scheme.
"""

from __future__ import annotations

import io
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from discreet.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

PALETTE = {
    "#000000": "currentColor",
    "#010101": "var(--muted)",
    "#020202": "var(--rule)",
    "#030303": "var(--sent)",
    "#040404": "var(--raw)",
    "#050505": "var(--bad)",
    "#c62828": "var(--bad)",  # of pictures that are files as well
    "#ffffff": "var(--page)",
    **{f"#0600{k:02x}": f"var(--symbol-{k})" for k in range(6)},
}
"""Colours to draw with, and what the page puts in their place."""

_TAGS = {
    "svg", "g", "path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "text",
    "tspan", "defs", "clipPath", "use", "image",
}  # fmt: skip
_PLACED = {
    "d", "x", "y", "x1", "y1", "x2", "y2", "dx", "dy", "cx", "cy", "r", "rx", "ry", "width",
    "height", "points", "transform", "viewBox",
}  # fmt: skip
_PAINTED = {
    "fill", "fill-opacity", "fill-rule", "stroke", "stroke-width", "stroke-opacity",
    "stroke-dasharray", "stroke-dashoffset", "stroke-linejoin", "stroke-linecap", "opacity",
    "text-anchor", "font-size", "font-weight", "font-style", "clip-path", "clip-rule",
}  # fmt: skip
_PICTURE = "data:image/png;base64,"
_DECIMALS = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_REFERENCE = re.compile(r"url\(#([^)\s]+)\)")
_AROUND_LETTER = re.compile(r"\s*([A-DF-Za-df-z])\s*")  # not e, which is part of a number
_NO_TURN = re.compile(r"rotate\(-?0(?: [^)]*)?\)")


def embed_svg(svg: str, *, name: str, title: str, texts: Mapping[str, str] | None = None) -> str:
    """Return an SVG file as an element for the inside of an HTML page.

    ``svg``: the file. Elements and attributes that are not known are left out. ``name``: begins
    every id; no two pictures of a page may share it. ``title``: what the picture shows, for those
    who do not see it. ``texts``: texts of the picture to replace, by what stands there. Raises
    InputError: if the text is no SVG file.
    """
    if "<!ENTITY" in svg:
        raise InputError(f"the picture {name!r} declares entities, which none of ours does.")
    try:
        root = ET.fromstring(svg)
    except ET.ParseError as error:
        raise InputError(f"the picture {name!r} is no SVG file: {error}.") from None
    if _bare(root.tag) != "svg":
        raise InputError(f"the picture {name!r} is no SVG file: it begins with {root.tag!r}.")
    used = {identity: f"{name}-{k}" for k, identity in enumerate(_references(root))}
    clean = _clean(root, used, texts or {})
    _frame(clean, root, name, title)
    return ET.tostring(clean, encoding="unicode")


def _frame(clean: ET.Element, root: ET.Element, name: str, title: str) -> None:
    """Let the page choose the size, and say what the picture shows."""
    box = root.get("viewBox", "").split()
    for side in ("width", "height"):
        clean.attrib.pop(side, None)
    if len(box) == 4:  # the shape is then known before any style is
        clean.set("width", _shorten(box[2]))
        clean.set("height", _shorten(box[3]))
    clean.set("stroke-linejoin", "round")
    clean.set("role", "img")
    clean.set("aria-labelledby", f"{name}-title")
    words = ET.Element("title", {"id": f"{name}-title"})
    words.text = title
    clean.insert(0, words)


def _clean(node: ET.Element, used: Mapping[str, str], texts: Mapping[str, str]) -> ET.Element:
    found = ET.Element(_bare(node.tag), dict(_attributes(node, used)))
    if found.tag in ("text", "tspan"):
        found.text = texts.get(node.text or "", node.text)
    for child in node:
        if _bare(child.tag) not in _TAGS:
            continue
        kept = _clean(child, used, texts)
        if kept.tag in ("g", "defs") and not len(kept):
            continue
        if kept.tag == "g" and not kept.attrib:  # groups that group nothing
            found.extend(list(kept))
        else:
            found.append(kept)
    return found


def _attributes(node: ET.Element, used: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, value in _stated(node):
        name = _bare(key)
        if name == "id" and value in used:
            yield "id", used[value]
        elif name == "href":
            if value.startswith("#") and value[1:] in used:
                yield "href", f"#{used[value[1:]]}"
            elif _bare(node.tag) == "image" and value.startswith(_PICTURE):
                yield "href", "".join(value.split())
        elif name == "transform" and _NO_TURN.fullmatch(value):
            continue
        elif name in _PLACED:
            yield name, _shorten(value)
        elif name in _PAINTED:
            painted = _paint(value, used)
            if painted is not None:
                yield name, painted


def _stated(node: ET.Element) -> Iterator[tuple[str, str]]:
    """Return attributes, then what the style says, which counts for more."""
    yield from ((key, value) for key, value in node.items() if key != "style")
    for part in node.get("style", "").split(";"):
        key, _, value = part.partition(":")
        if key.strip() == "font":  # shorthand, as older versions of Matplotlib write it
            size = re.search(r"([\d.]+)px", value)
            if size:
                yield "font-size", size[1]
            if re.search(r"\b(bold|[6-9]00)\b", value):
                yield "font-weight", "bold"
        elif value:
            yield key.strip(), value.strip().removesuffix("px")


def _paint(value: str, used: Mapping[str, str]) -> str | None:
    reference = _REFERENCE.fullmatch(value.strip())
    if reference:
        return f"url(#{used[reference[1]]})" if reference[1] in used else None
    if "url" in value.lower():
        return None
    return PALETTE.get(value.lower(), _shorten(value))


def _references(root: ET.Element) -> list[str]:
    """Return the ids that other parts point to, in order."""
    present = {node.get("id") for node in root.iter()}
    found: dict[str, None] = {}
    for node in root.iter():
        for _, value in _stated(node):
            reference = _REFERENCE.fullmatch(value.strip())
            identity = reference[1] if reference else value[1:] if value[:1] == "#" else ""
            if identity in present:
                found[identity] = None
    return list(found)


def _shorten(value: str) -> str:
    """Round numbers to a hundredth of a point and leave out needless blanks."""
    text = " ".join(_DECIMALS.sub(lambda found: f"{round(float(found[0]), 2):g}", value).split())
    return _AROUND_LETTER.sub(r"\1", text) if text[:1] in "Mm" else text


def _bare(name: str) -> str:
    return name.rpartition("}")[2]


SUFFIXES = (".svg", ".png")
INK, PAPER, LIMIT = "#1a1a1a", "#ffffff", "#c62828"
# Told apart by any eye and on paper, dark or light (Okabe and Ito), and by shape.
STYLES = {
    "npo": ("#0083c9", "o"),
    "auto": ("#00a07a", "D"),
    "bayes-error": ("#d55e00", "^"),
    "ndd": ("#858585", "s"),
    "randomized-response": ("#c2659d", "v"),
    "raw": ("#b58900", "P"),
    "optimum": ("#000000", "x"),
    "mdr": ("#858585", "s"),
    "dca": ("#8f6fd0", "h"),
    "ruca-1": ("#d55e00", "<"),
    "ruca-100": ("#d55e00", "^"),
    "ruca-1000": ("#d55e00", ">"),
}
"""Colour and marker by the name of the method."""
OTHERS = (("#00a07a", "D"), ("#c2659d", "v"), ("#b58900", "P"))
FILLINGS: tuple[Literal["full", "none", "left", "bottom"], ...] = (
    "full",
    "none",
    "left",
    "bottom",
)
# Markers on an axis are not cut in half; the layout need not make room for them.
WHOLE: dict[str, Any] = {"clip_on": False, "in_layout": False}


def marker_look(colour: str, marker: str, filling: str) -> dict[str, Any]:
    """Return how to plot markers without a line."""
    return {
        "color": colour,
        "marker": marker,
        "linestyle": "none",
        "fillstyle": filling,
        "markerfacecoloralt": "none",
        "markersize": 5.5,
        "markeredgewidth": 1.2,
        "zorder": 3,
        **WHOLE,
    }


@contextmanager
def matplotlib_settings(salt: str) -> Iterator[None]:
    """Draw as all our pictures are drawn; the ``salt`` makes ids the same on every run."""
    import matplotlib

    settings = matplotlib.rc_context(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": salt,
            "font.family": "DejaVu Sans",  # comes with Matplotlib
            "font.size": 9.0,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "text.parse_math": False,  # a name may hold dollar signs
        }
    )
    with settings, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a browser has the letters
        yield


def check_suffix(path: Path) -> None:
    """Refuse a picture in a format that is not drawn."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"a picture ends in {' or '.join(SUFFIXES)}, got {path.name!r}. Name it so."
        )


def rendered(figure: Figure, path: Path, dots: int) -> bytes:
    """Return a picture in the format that a file's name asks for, with so many dots per inch."""
    data = io.BytesIO()
    figure.savefig(data, format=path.suffix.lower()[1:], dpi=dots)
    return data.getvalue()


def advantage_curves(
    curves: Mapping[str, Sequence[tuple[int, float, float, float | None]]], path: Path
) -> bytes:
    """Return advantage against rounds: for each fact (rounds, low, high, closed form or None)."""
    from matplotlib.figure import Figure

    with matplotlib_settings("discreet-budget"):
        figure = Figure(figsize=(5.0, 3.6), layout="constrained")
        axes = figure.add_subplot()
        colours = [colour for colour, _ in STYLES.values()]
        for (name, points), colour in zip(curves.items(), colours * len(curves), strict=False):
            rounds, low, high, closed = zip(*points, strict=True)
            axes.fill_between(rounds, low, high, color=colour, alpha=0.25, linewidth=0)
            axes.plot(rounds, high, color=colour, label=name)
            if None not in closed:
                axes.plot(rounds, closed, color=colour, linestyle=":", label=f"{name}, closed form")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,.0f}")  # powers would need mathematical text
        axes.set_ylim(bottom=0.0)
        axes.set_xlabel("rounds, each with fresh draws")
        axes.set_ylabel("advantage over guessing")
        axes.legend(frameon=False, fontsize=8)
        return rendered(figure, path, 220)


def symbol_tables(sensors: Sequence[tuple[str, Sequence[str], NDArray[np.float64]]]) -> Figure:
    """Return a small picture for each sensor: by reading, how likely each symbol is.

    ``sensors``: of each its name, its readings and its table. More than twelve are cut.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    shown = sensors[:12]
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    with matplotlib_settings("discreet-mapping"):
        figure = Figure(figsize=(3.0 * columns, 2.1 * rows), layout="constrained")
        every = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes in every[len(shown) :]:
            axes.set_axis_off()
        for axes, (name, readings, table) in zip(every, shown, strict=False):
            below = 0.0 * table[:, 0]
            for z in range(table.shape[1]):
                colour = colormaps["Blues"](0.15 + 0.8 * z / max(table.shape[1] - 1, 1))
                axes.bar(range(len(table)), table[:, z], 0.95, below, color=colour, label=str(z))
                below = below + table[:, z]
            step = -(-len(table) // 6)
            axes.set_xticks(range(0, len(table), step), [str(r)[:8] for r in readings[::step]])
            axes.tick_params(axis="x", rotation=45, labelsize=7)
            axes.set_title(name[:30], fontsize=9)
            axes.set_ylim(0.0, 1.0)
        if shown[0][2].shape[1] <= 8:
            handles, labels = every[0].get_legend_handles_labels()
            figure.legend(handles, labels, title="symbol", loc="outside right center")
    return figure
