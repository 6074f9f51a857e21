"""``discreet_sensor`` stands alone: nothing of discreet, and no library beyond its two."""

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

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


def test_both_distributions_have_one_version():
    assert discreet_sensor.__version__ == discreet.__version__


def test_the_command_says_in_one_line_what_is_wrong(tmp_path, capsys):
    (tmp_path / "a.enrol").write_text('{"format": "other"}')
    for file, words in (("none", "no such file"), ("a.enrol", "site: is missing")):
        assert main([str(tmp_path / file), "--state", str(tmp_path / "state")]) == 2
        told = capsys.readouterr().err
        assert words in told and told.startswith("discreet-sensor: ") and told.count("\n") == 1
    assert not (tmp_path / "state").exists()
