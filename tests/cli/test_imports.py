"""What the commands bring along: a small device starts some of them."""

import json
import subprocess
import sys

import pytest
from support.commands import clean_environment, run_apart
from support.helpers import make_mapping

HEAVY = {"numpy", "pandas", "scipy", "sklearn", "matplotlib", "numba"}
LEARNING = {"scipy", "sklearn", "matplotlib", "numba"}
SCRIPT = """
import json, sys
from discreet.cli import main
try:
    main()
except SystemExit as end:
    print(json.dumps([end.code, sorted({name.split(".")[0] for name in sys.modules})]))
"""


def loaded(folder, *arguments):
    """Run a command and return its exit code and the packages it has imported."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        cwd=folder, env=clean_environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    code, packages = json.loads(done.stdout.splitlines()[-1])
    return code, set(packages)


@pytest.mark.parametrize("arguments", [(), ("learn",), ("export",), ("sensor",), ("doctor",)])
def test_help_loads_no_numerical_library(tmp_path, arguments):
    code, packages = loaded(tmp_path, *arguments, "--help")
    assert code == 0 and not packages & (HEAVY | {"rich"})


@pytest.mark.slow
def test_an_export_and_a_doctor_load_nothing_that_learns(tmp_path):
    make_mapping().save(tmp_path / "home.json")
    export = ("export", "home.json", "--to", "c", "--out", "firmware")
    code, packages = loaded(tmp_path, *export)
    assert code == 0 and "numpy" in packages and not packages & LEARNING
    assert run_apart("init", "site", "--mapping", "home.json", folder=tmp_path).returncode == 0
    code, packages = loaded(tmp_path, "doctor")  # it finds that no broker runs
    assert code == 3 and "numpy" in packages and not packages & LEARNING
