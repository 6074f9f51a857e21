"""Draw the folders of the package and the way of the data through them.

    python -m research.architecture [--out docs/architecture.svg]

Arrows follow the data, from a table to a decision; imports point the other way. The number of
modules and lines in every box is counted when the picture is drawn.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.files import write_whole
from discreet.plots import INK, PAPER, check_suffix, matplotlib_settings, rendered

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parent.parent
WIDTH, HEIGHT = 2.0, 0.9
_DOTS = 150


@dataclass(frozen=True)
class Box:
    """A folder: where it is drawn, and its job in a few words."""

    x: float
    y: float
    job: str


BOXES = {
    "data": Box(0, 2, "tables → codes, batch by batch;\nthe held-out split"),
    "design": Box(2.8, 2, "losses, kernels, risks, solvers;\ncounts/: designs from counts"),
    "mappers": Box(5.6, 2, "the public estimators"),
    "mapping": Box(8.4, 2, "the artefact: tables, JSON,\nfusion rule"),
    "leakage": Box(2.8, 0.5, "exact quantities of\nknown distributions"),
    "auditing": Box(5.6, 0.5, "attackers, bounds,\nthe report"),
    "frontiers": Box(8.4, 0.5, "the trade-off of\nmany mappings"),
    "export": Box(11.2, 0.5, "tables and runtimes\nfor devices"),
    "network": Box(11.2, 2, "sensors, fusion centre, store,\nsite, dashboard, doctor"),
    "cli": Box(5.6, 3.5, "one file per command"),
}
ARROWS = (
    ("data", "design"),
    ("design", "mappers"),
    ("mappers", "mapping"),
    ("mapping", "network"),
    ("mapping", "auditing"),
    ("mapping", "frontiers"),
    ("mapping", "export"),
    ("leakage", "design"),
    ("leakage", "auditing"),
    ("export", "network"),
)


def main() -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "architecture.svg")
    out = parser.parse_args().out
    check_suffix(out)
    with matplotlib_settings("discreet-architecture"):
        write_whole(out, rendered(draw(ROOT / "src" / "discreet"), out, _DOTS))
    print(f"wrote {out.name}")


def draw(package: Path) -> Figure:
    """Return the picture of a package."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.5, 5.0), facecolor=PAPER)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-0.3, 13.8), ylim=(0.1, 5.0))
    axes.set_axis_off()
    for first, second in ARROWS:
        _connect(axes, BOXES[first], BOXES[second])
    for name, box in BOXES.items():
        _add_box(axes, name, box, count(package, name))
    return figure


def count(package: Path, name: str) -> str:
    """Return how many modules and lines a folder, or a module, has."""
    files = [*(package / name).rglob("*.py"), *package.glob(f"{name}.py")]
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
    return f"{len(files)} modules, {lines:,} lines"


def _add_box(axes: Axes, name: str, box: Box, counted: str) -> None:
    from matplotlib.patches import FancyBboxPatch

    style = "round,pad=0.08,rounding_size=0.12"
    corner = box.x, box.y
    axes.add_patch(
        FancyBboxPatch(corner, WIDTH, HEIGHT, boxstyle=style, fc="#eef4f8", ec=INK, lw=1)
    )
    middle = box.x + WIDTH / 2
    axes.text(middle, box.y + 0.78, f"{name}/", ha="center", va="center", weight="bold", size=11)
    axes.text(middle, box.y + 0.44, box.job, ha="center", va="center", size=7.5)
    axes.text(middle, box.y + 0.06, counted, ha="center", va="center", size=7, color="#555555")


def _connect(axes: Axes, first: Box, second: Box) -> None:
    """Draw an arrow from one box to another, edge to edge."""
    flat = first.y == second.y
    down = first.y > second.y
    start = (
        (first.x + WIDTH + 0.08, first.y + HEIGHT / 2)
        if flat
        else (first.x + WIDTH / 2, first.y - 0.08 if down else first.y + HEIGHT + 0.08)
    )
    end = (
        (second.x - 0.08, second.y + HEIGHT / 2)
        if flat
        else (second.x + WIDTH / 2, second.y + HEIGHT + 0.08 if down else second.y - 0.08)
    )
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.1})


if __name__ == "__main__":
    main()
