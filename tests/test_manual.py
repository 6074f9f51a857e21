"""Every block of the tutorial and the how-to pages, run one page after the other in one folder."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.ports import free_port
from support.sites import needs_mosquitto

from discreet.network.broker import find_mosquitto

DOCS = Path(__file__).parent.parent / "docs"
GUIDES = [DOCS / "tutorial.md", *sorted(DOCS.glob("how-to/*.md"))]
PORTS = ("8883", "9464", "8080")  # of a site, as the pages have them

pytestmark = [pytest.mark.slow, needs_mosquitto]


def script_of(page):
    """The blocks of a page as one script for bash; a block in another language is a mistake."""
    parts = ["set -eu -o pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT"]
    for kind, block in re.findall(r"^```(\S*)\n(.*?)^```$", page.read_text(), re.M | re.S):
        if kind == "sh":
            parts.append(block)
        elif kind == "python":
            parts.append(f"python - <<'END'\n{block}END\n")
        else:
            assert kind.startswith("{"), f"{page.name}: a block of {kind or 'nothing'} is not run"
    return "\n".join(parts)


def run(script, folder):
    """Run a script in a session of its own, and end whatever it leaves behind."""
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
        printed, _ = process.communicate(timeout=600)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, printed


def as_ordinary_user(folder):
    """Put a Mosquitto into the folder that stays the user it is, as for those who are not root."""
    program = folder / "mosquitto"
    program.write_text(
        f'#!/bin/sh\necho "user $(id -un)" >> mosquitto.conf\nexec {find_mosquitto()} "$@"\n'
    )
    program.chmod(0o700)


def test_the_pages_do_what_they_say(tmp_path):
    as_ordinary_user(tmp_path)
    for page in GUIDES:
        script = script_of(page)
        for port in PORTS:
            script = script.replace(f"port {port}", f"port {free_port()}")
        code, printed = run(script, tmp_path)
        assert code == 0 and "Traceback" not in printed, f"{page.name}: {printed}"
