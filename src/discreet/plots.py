"""How pictures of methods look: one colour and one marker for each, the same everywhere.

Matplotlib is imported on the first call: it takes a while.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from discreet.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png")
INK, PAPER = "#1a1a1a", "#ffffff"
# Told apart by any eye and on paper, dark or light (Okabe and Ito), and by shape.
STYLES = {
    "npo": ("#0083c9", "o"),
    "model": ("#00a07a", "D"),
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
