"""Run the story of a home up to its report, and draw the report's first screen.

    python -m research.story_picture [--out docs/how-to/home-assistant.png]

The commands are those of ``docs/how-to/home-assistant.md``, as far as the audit. It needs Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from research.manual import DOCS, run_script, script_of

PAGE = DOCS / "how-to" / "home-assistant.md"
SIZE = (1200, 900)
_REPORT = "house.html"
_COLOURS = 48  # of the picture: a third of the size, and nobody sees it


def story() -> str:
    """Return the page's commands, as far as the report."""
    script = script_of(PAGE)
    return script[: script.index("\n", script.index(_REPORT))]


def draw(report: Path, out: Path) -> None:
    """Take a picture of what a reader sees first."""
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
    if browser is None:
        sys.exit("error: Chromium was not found. Install it (Debian: apt install chromium).")
    size = ",".join(map(str, SIZE))
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    subprocess.run(
        [*command, f"--window-size={size}", f"--screenshot={out}", report.as_uri()],
        check=True, capture_output=True,
    )  # fmt: skip
    with Image.open(out) as picture:
        smaller = picture.convert("RGB").quantize(_COLOURS)
    smaller.save(out, optimize=True)


def main() -> None:
    """Run and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PAGE.with_suffix(".png"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        code, printed = run_script(story(), Path(folder))
        print(printed)
        if code:
            sys.exit(code)
        draw(Path(folder) / _REPORT, given.out.absolute())
    print(f"wrote {given.out}")


if __name__ == "__main__":
    main()
