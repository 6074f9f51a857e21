"""The blocks of the manual's pages, as programs: for its tests, and to draw its pictures."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
GUIDES = [DOCS / "tutorial.md", *sorted(DOCS.glob("how-to/*.md"))]
"""Pages that are followed one after the other, in one folder."""
ON_REAL_DATA = [DOCS / "gallery" / name for name in ("income.md", "occupancy.md")]
"""Pages that stand alone, and need the folder that ``DISCREET_DATA`` names."""


def script_of(page: Path) -> str:
    """Return the blocks of a page as one script for bash.

    A block of text is not run. Raises ValueError: if one is in another language.
    """
    parts = ["set -eu -o pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT"]
    for kind, block in re.findall(r"^```(\S*)\n(.*?)^```$", page.read_text(), re.M | re.S):
        if kind == "sh":
            parts.append(block)
        elif kind == "python":
            parts.append(f"python - <<'END'\n{block}END\n")
        elif not kind.startswith("{") and kind != "text":
            raise ValueError(f"{page.name}: a block of {kind or 'nothing'} is not run")
    return "\n".join(parts)


def run_script(script: str, folder: Path, seconds: float = 600.0) -> tuple[int, str]:
    """Run a script in a session of its own, end what it leaves behind, and return what it said."""
    tools = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": tools, "MPLBACKEND": "agg"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=seconds)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, printed
