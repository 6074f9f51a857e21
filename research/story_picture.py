"""Run the story of a home up to its report, and draw the report's first screen.

    python -m research.story_picture [--out docs/how-to/home-assistant.png]

The commands are those of ``docs/how-to/home-assistant.md``, as far as the audit. It needs Chromium.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "home-assistant.md"
OUT = PAGE.with_suffix(".png")
SIZE = (1200, 900)
_REPORT = "house.html"
_COLOURS = 48  # of the picture: a third of the size, and nobody sees it


def blocks(page: str) -> list[str]:
    """Return the blocks of a page, as far as the report, for bash."""
    found = re.findall(r"^```(sh|python)\n(.*?)^```$", page, re.M | re.S)
    made = [f"python - <<'END'\n{text}END\n" if kind == "python" else text for kind, text in found]
    last = next(k for k, text in enumerate(made) if _REPORT in text)
    return made[: last + 1]


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
    Image.open(out).convert("RGB").quantize(_COLOURS).save(out, optimize=True)


def main() -> None:
    """Run and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with tempfile.TemporaryDirectory() as folder:
        script = "\n".join(["set -eu", *blocks(PAGE.read_text())])
        environment = os.environ | {"PATH": tools, "MPLBACKEND": "agg"}
        subprocess.run(["bash", "-c", script], cwd=folder, env=environment, check=True)
        draw(Path(folder) / _REPORT, given.out.absolute())
    print(f"wrote {given.out}")


if __name__ == "__main__":
    main()
