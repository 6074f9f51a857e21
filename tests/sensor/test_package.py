"""``discreet_sensor`` stands alone: nothing of discreet, and no library beyond its two."""

import ast
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import paho
import pytest

import discreet
import discreet_sensor
from discreet_sensor.__main__ import main

FOLDER = Path(discreet_sensor.__file__).parent
PROJECT = FOLDER.parents[1] / "pyproject.toml"
MODULES = sorted(file.stem for file in FOLDER.glob("*.py") if file.stem != "__init__")
SCRIPT = """
import importlib, json, sys
before = set(sys.modules)
for name in sys.argv[1:]:
    importlib.import_module(f"discreet_sensor.{name}")
print(json.dumps(sorted({name.split(".")[0] for name in set(sys.modules) - before})))
"""


def test_it_imports_its_two_libraries_only():
    done = subprocess.run(
        [sys.executable, "-I", "-c", SCRIPT, *MODULES], capture_output=True, text=True, check=True
    )
    found = set(json.loads(done.stdout)) - set(sys.stdlib_module_names)
    assert found <= {"discreet_sensor", "paho", "cryptography", "_cffi_backend"}
    needs = tomllib.loads(PROJECT.read_text())["project"]["dependencies"]
    assert [each.split(">")[0] for each in needs] == ["paho-mqtt", "cryptography"]


def test_it_is_written_for_python_3_9():
    for file in FOLDER.glob("*.py"):
        ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 9))
    assert tomllib.loads(PROJECT.read_text())["project"]["requires-python"] == ">=3.9"


OLDEST = """
import importlib, pathlib, sys
for name in sys.argv[2:]:
    importlib.import_module(f"discreet_sensor.{name}")
from discreet_sensor import __main__, outbox, wire
assert sys.version_info[:2] == (3, 9)
message = wire.Message(1, 2, 3, 4, b"\\1", bytes(8))
data = wire.encode(message, bytes(32), "topic")
assert wire.decode(data, 1, bytes(32), b"topic") == message
for _ in range(2):  # an outbox that is made, and one that is found
    outbox.Outbox(pathlib.Path(sys.argv[1])).close()
sys.exit(__main__.main(["none.enrol", "--state", "state"]))
"""


def oldest_python():
    """A Python 3.9, wherever it is usually found."""
    places = [os.environ.get("DISCREET_SENSOR_PYTHON"), shutil.which("python3.9")]
    places += sorted(Path.home().glob(".pyenv/versions/3.9.*/bin/python"))
    for place in filter(None, places):
        asked = [str(place), "-c", "import sys; print(sys.version_info[:2] == (3, 9))"]
        if subprocess.run(asked, capture_output=True, text=True).stdout.strip() == "True":
            return place
    pytest.skip("no Python 3.9 is here; DISCREET_SENSOR_PYTHON names one")


@pytest.mark.slow
def test_it_runs_under_python_3_9(tmp_path):
    python = oldest_python()
    (tmp_path / "paho").symlink_to(next(iter(paho.__path__)))  # which is Python alone
    done = subprocess.run(
        [python, "-c", OLDEST, tmp_path / "state", *MODULES],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{FOLDER.parent}"},
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("discreet-sensor: ") and "no such file" in done.stderr


def test_both_distributions_have_one_version():
    assert discreet_sensor.__version__ == discreet.__version__


def test_the_command_says_in_one_line_what_is_wrong(tmp_path, capsys):
    (tmp_path / "a.enrol").write_text('{"format": "other"}')
    for file, words in (("none", "no such file"), ("a.enrol", "site: is missing")):
        assert main([str(tmp_path / file), "--state", str(tmp_path / "state")]) == 2
        told = capsys.readouterr().err
        assert words in told and told.startswith("discreet-sensor: ") and told.count("\n") == 1
    assert not (tmp_path / "state").exists()
