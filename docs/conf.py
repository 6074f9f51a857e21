"""How `make docs` builds the manual: Sphinx, with warnings as errors."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

from sphinx.application import Sphinx

import discreet
from discreet.cli import COMMANDS

project = "discreet"
version = release = discreet.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
nb_execution_mode = "cache"  # the notebook has no results of its own
nb_execution_raise_on_error = True
nb_execution_timeout = 900
nb_execution_in_temp = True
templates_path: list[str] = []
exclude_patterns = ["decisions/README.md"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_class_signature = "separated"
napoleon_google_docstring = False
html_theme = "furo"
html_title = f"discreet {version}"
html_show_sourcelink = False


def quiet_kernel() -> None:
    """Have notebooks executed by a kernel that reports errors only."""
    jupyter = Path(__file__).parent.parent / "build" / "jupyter"
    spec = jupyter / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    about = {"display_name": "Python 3", "language": "python", "metadata": {"debugger": True}}
    spec.write_text(json.dumps({"argv": [*argv, "--IPKernelApp.log_level=40"], **about}))
    os.environ["JUPYTER_PATH"] = str(jupyter)
    logging.getLogger("traitlets").setLevel(logging.WARNING)


def write_commands(app: Sphinx) -> None:
    """Write the page of all commands, from what each prints with ``--help``."""
    page = ["# Commands", "", "What each command prints with `--help`.", ""]
    for name in COMMANDS:
        page += [f"## discreet {name}", "", "```text", help_of(name), "```", ""]
    file = Path(app.srcdir) / "reference" / "commands.md"
    text = "\n".join(page)
    if not file.exists() or file.read_text() != text:  # an unchanged page is not built again
        file.write_text(text)


def help_of(command: str) -> str:
    """Return what a command prints with ``--help``."""
    done = subprocess.run(
        [sys.executable, "-m", "discreet", command, "--help"],
        env={**os.environ, "COLUMNS": "92", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.rstrip()


def setup(app: Sphinx) -> None:
    """Have the page of the commands written before pages are read."""
    quiet_kernel()
    app.connect("builder-inited", write_commands)
