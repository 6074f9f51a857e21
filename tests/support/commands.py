"""What the tests of the commands share: small tables on disk, and ways to run a command."""

import os
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from discreet import cli

FACTS = ("--public", "fall", "--private", "who")
# The method that takes a moment, for what is the same with every method.
AT_ONCE = ("--method", "randomized-response", "--ldp-epsilon", "3")


def rooms(n=80, seed=0):
    """Two sensors with two readings each, so that learning takes a moment only."""
    rng = np.random.default_rng(seed)
    fall, bob = rng.integers(2, size=(2, n)) == 1
    return pd.DataFrame(
        {
            "hall": np.where(rng.random(n) < 0.9, fall, ~fall).astype(int),
            "door": np.where(rng.random(n) < 0.8, bob, ~bob).astype(int),
            "fall": fall,
            "who": np.where(bob, "bob", "ann"),
            "day": np.arange(n) // 10,
        }
    )


def few():
    """Forty-five rows, of which a sensor tells much of both facts."""
    rng = np.random.default_rng(8)
    h, g = rng.integers(2, size=(2, 45))
    table = pd.DataFrame({"a": h + rng.normal(size=45), "b": g + h + rng.normal(size=45)})
    return table.assign(h=h, g=g)


def same(path):
    """The public fact is the private one: next to nothing may be said of it."""
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=600)
    table = pd.DataFrame({"a": np.where(rng.random(600) < 0.9, h, 1 - h), "h": h, "g": h})
    table.assign(b=rng.integers(3, size=600)).to_csv(path, index=False)
    return ["learn", path, "--public", "h", "--private", "g", "--out", "m"]


def run(monkeypatch, capsys, *arguments, main=cli.main):
    """Run a command in this process and return (exit code, stdout, stderr)."""
    monkeypatch.setattr(sys, "argv", ["discreet", *map(str, arguments)])
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def run_in(folder, *arguments):
    """Run a command in this process and in a folder, for fixtures that several tests share."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()):
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["discreet", *map(str, arguments)])
        try:
            cli.main()
        except SystemExit as end:
            return end.code
    return 0


def clean_environment(**more):
    """An environment where nothing asks for colours, a width or warnings."""
    unwanted = ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "PYTHONWARNINGS", "TTY_COMPATIBLE")
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    # Also where the package is found by a relative path and the command runs elsewhere.
    return kept | {"PYTHONPATH": str(Path(cli.__file__).parents[2])} | more


def run_apart(*arguments, folder, **environment):
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "discreet", *map(str, arguments)],
        cwd=folder,
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
