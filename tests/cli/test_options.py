"""What all commands have in common: groups of options, short names, JSON, completion."""

import os
import subprocess
import sys

import pytest
from support.commands import clean_environment, run

from discreet.cli import COMMANDS
from discreet.cli.options import GROUPS

# What runs until it is stopped has no result, and the demo is one for people.
WITHOUT_A_RESULT = {"record", "sensor", "serve", "dashboard", "demo"}


@pytest.fixture
def help_of(monkeypatch, capsys):
    return lambda name: run(monkeypatch, capsys, name, "--help")[1]


@pytest.mark.parametrize("name", ["learn", "audit", "frontier"])
def test_essential_options_come_first_and_the_others_by_what_they_are_for(help_of, name):
    text = help_of(name)
    headings = [line[:-1] for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    wanted = [each for each in ("Arguments", "Options", *GROUPS) if each in headings]
    assert [each for each in headings if each in wanted] == wanted
    essential = text.split("\nOptions:")[1].split("\n\n")[0]
    assert "--max-advantage" in essential or "--out" in essential
    assert "--seed" not in essential and "--quiet" not in essential


def test_every_option_in_a_group_is_one_of_some_command(help_of):
    every = "".join(map(help_of, COMMANDS))
    for listed in GROUPS.values():
        for name in listed.split():
            written = {"config_out": "write-config"}.get(name, name).replace("_", "-")
            assert f"--{written}" in every, name


@pytest.mark.parametrize("name", [each for each in COMMANDS if each not in WITHOUT_A_RESULT])
def test_every_command_with_a_result_prints_it_as_json(help_of, name):
    assert "--json" in help_of(name)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_asks_before_it_replaces_a_result(help_of, name):
    assert "--force" not in help_of(name)  # files are replaced whole, folders have to be new


def test_short_names(monkeypatch, capsys, help_of):
    assert run(monkeypatch, capsys, "-V")[1] == run(monkeypatch, capsys, "--version")[1] != ""
    for name in ("learn", "audit", "frontier", "export", "serve", "sensor"):
        assert "-q, --quiet" in help_of(name)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("discreet au", "audit"), ("discreet learn --max", "--max-advantage")],
)
def test_a_shell_completes_commands_and_options(typed, offered):
    place = str(len(typed.split()) - 1)
    asked = clean_environment(
        _DISCREET_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=place
    )
    program = [sys.executable, "-c", "from discreet.cli import main; main()"]
    found = subprocess.run(program, env=asked | {"PATH": os.environ["PATH"]}, text=True,
                           capture_output=True, timeout=120, check=False)  # fmt: skip
    assert offered in found.stdout.split(), found.stderr


def test_the_script_for_a_shell_is_printed(help_of, monkeypatch, capsys):
    assert "--show-completion" in run(monkeypatch, capsys, "--help")[1]
