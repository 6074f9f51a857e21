"""What is printed finds no reader, or no room: the result is there, and its exit code counts."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from support.commands import AT_ONCE, FACTS, clean_environment, rooms

from discreet import Mapping

pytestmark = pytest.mark.slow

FULL = Path("/dev/full")  # where there is never any room
# No sensor tells less than asked after a moment: the mapping is written, and it is not met.
UNMET = ("--max-advantage", "0.001", "--time-limit", "1s")


@pytest.fixture
def home(tmp_path):
    rooms().to_csv(tmp_path / "home.csv", index=False)
    return tmp_path


def kind(how):
    """A stream to print to: one that is full, or one whose reader has gone."""
    if how == "full":
        if not FULL.exists():
            pytest.skip("needs /dev/full")
        return FULL.open("w")
    read, write = os.pipe()
    os.close(read)
    return os.fdopen(write, "w")


def learn(folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, options=AT_ONCE):
    command = [
        *(sys.executable, "-m", "discreet", "learn", "home.csv", *FACTS, "--exclude", "day"),
        *("--out", "m.json", *options),
    ]
    return subprocess.run(
        command, cwd=folder, env=clean_environment(), stdout=stdout, stderr=stderr, text=True,
        timeout=300, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("options", [(), ("--quiet",), ("--json",)])
@pytest.mark.parametrize("how", ["full", "gone"])
def test_progress_and_warnings_that_nobody_reads_are_dropped(home, how, options):
    with closing(kind(how)) as stderr:
        ended = learn(home, stderr=stderr, options=(*AT_ONCE, *options))
    assert ended.returncode == 0 and Mapping.load(home / "m.json")
    assert ("--quiet" in options) == (ended.stdout == "")


@pytest.mark.parametrize(("options", "code"), [(AT_ONCE, 0), (UNMET, 3)])
@pytest.mark.parametrize("how", ["full", "gone"])
def test_once_the_mapping_is_written_the_exit_code_is_its_own(home, how, options, code):
    with closing(kind(how)) as stdout:
        ended = learn(home, stdout=stdout, options=options)
    assert ended.returncode == code and Mapping.load(home / "m.json")
    assert "Traceback" not in ended.stderr
    assert ended.stderr.endswith("the output cannot be written (No space left on device).\n") == (
        how == "full"
    )


@pytest.mark.parametrize("how", ["full", "gone"])
def test_the_mapping_is_written_if_nobody_reads_anything(home, how):
    with closing(kind(how)) as stream:
        assert learn(home, stdout=stream, stderr=stream).returncode == 0
    assert Mapping.load(home / "m.json")


@pytest.mark.parametrize(("how", "code"), [("full", 2), ("gone", 1)])
def test_where_what_is_printed_is_the_result_it_is_an_error(home, how, code):
    command = [sys.executable, "-m", "discreet", "check", "home.csv", *FACTS]
    with closing(kind(how)) as stdout:
        ended = subprocess.run(
            command, cwd=home, env=clean_environment(), stdout=stdout, stderr=subprocess.PIPE,
            text=True, timeout=300, check=False,
        )  # fmt: skip
    assert ended.returncode == code
    assert ended.stderr.count("\n") == (how == "full")


def test_a_refusal_that_nobody_reads_keeps_its_exit_code(home):
    with closing(kind("gone")) as stderr:
        assert learn(home, stderr=stderr, options=("--sensors", "cellar")).returncode == 2
    assert not (home / "m.json").exists()
