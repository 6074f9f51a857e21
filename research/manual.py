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
REFERENCE = [
    DOCS / f"{name}.md"
    for name in ("dashboard", "devices", "large", "network", "over-time", "tables")
]
"""Pages that stand alone, and take a mapping, its table and maybe a site for granted."""
_BEGIN = """
set -eu -o pipefail
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
folder=$PWD
# Until somebody stops it, which is no failure.
for_a_while() {
  timeout --preserve-status --signal=INT "${WHILE:-5}" "$@" || test $? = 130
}
"""


_ENDLESS = re.compile(
    r"^(|.*[|&] *)(discreet[ -](?:sensor|serve|record|dashboard(?!.*--add-user)) (?!.*&$).*)$", re.M
)  # as a command in the foreground


def script_of(page: Path) -> str:
    """Return the blocks of a page as one script for bash.

    A block of text is not run. Blocks of the shell begin in the same folder, and what runs until it
    is stopped is stopped after some seconds, unless it is in the background. Raises ValueError: if
    a block is in another language.
    """
    parts = [_BEGIN]
    for kind, block in re.findall(r"^```(\S*)\n(.*?)^```$", page.read_text(), re.M | re.S):
        if kind == "sh":
            parts += ['cd "$folder"', _ENDLESS.sub(r"\1for_a_while \2", block)]
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
