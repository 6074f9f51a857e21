"""Draw the pictures of the manual's gallery again, by the commands that its pages have.

    python -m research.gallery [--only falls,income,occupancy,cooking]

Pages on real data need the folder that ``DISCREET_DATA`` names. The others follow the tutorial, or
the page about Home Assistant, whose blocks are run first, up to where a network begins.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from research.manual import DOCS, run_script, script_of

BEFORE = {"falls": "tutorial.md", "cooking": "how-to/home-assistant.md"}
NETWORK = "discreet init"  # the first command that a picture does not need


def draw(name: str) -> None:
    """Run a page, with what it follows, and put its picture beside it."""
    page = DOCS / "gallery" / f"{name}.md"
    script = script_of(page)
    if name in BEFORE:
        script = script_of(DOCS / BEFORE[name]).partition(NETWORK)[0] + "\n" + script
    with tempfile.TemporaryDirectory() as folder:
        code, printed = run_script(script, Path(folder), seconds=3600.0)
        print(f"==> {name}\n{printed}", flush=True)
        if code:
            sys.exit(f"{page.name} ended with {code}.")
        shutil.copy(Path(folder) / f"{name}.svg", page.parent)


def main() -> None:
    """Draw what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="falls,income,occupancy,cooking")
    for name in parser.parse_args().only.split(","):
        draw(name)


if __name__ == "__main__":
    main()
