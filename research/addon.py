"""Put the add-on for Home Assistant together: its folder, the package, and an icon.

Run it as ``make addon``; copy what it writes, ``build/addon``, to ``/addons/discreet`` of Home
Assistant and reload the list of add-ons there.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "home_assistant" / "addon"
OUT = ROOT / "build" / "addon"
_BLUE, _SIZE = "#0b6a99", 256  # of the dashboard's icon; pixels


def draw_icon(file: Path) -> None:
    """Draw the dashboard's icon as a picture: two waves of a sensor, struck through."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Arc, FancyBboxPatch

    figure = Figure(figsize=(1, 1), dpi=_SIZE)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 32), ylim=(32, 0))
    axes.axis("off")
    box = FancyBboxPatch((8, 8), 16, 16, boxstyle="round,pad=8", facecolor=_BLUE, edgecolor="none")
    axes.add_patch(box)
    wide = 2.6 * 72 / 32
    for size, begin, opacity in ((21.2, 225, 1.0), (10.6, 226, 0.75)):
        axes.add_patch(
            Arc((16, 27), size, size, theta1=begin, theta2=540 - begin, color="white", lw=wide,
                alpha=opacity, capstyle="round")
        )  # fmt: skip
    axes.plot([6, 26], [7, 27], color="white", lw=wide, solid_capstyle="round")
    figure.savefig(file, transparent=True)


def make_addon(out: Path, wheel: Path) -> None:
    """Write the folder."""
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(SOURCE, out, ignore=shutil.ignore_patterns("__pycache__"))
    (out / "wheels").mkdir()
    shutil.copy(wheel, out / "wheels")
    draw_icon(out / "icon.png")


def build_wheel(folder: Path) -> Path:
    """Build the package."""
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return max(folder.glob("discreet-*.whl"), key=lambda each: each.stat().st_mtime)


def main() -> None:
    """Build it all."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    make_addon(OUT, build_wheel(ROOT / "build" / "package"))
    print(
        f"wrote {OUT.relative_to(ROOT)}: {', '.join(sorted(each.name for each in OUT.iterdir()))}"
    )


if __name__ == "__main__":
    main()
