"""What commands print on a terminal of 60 columns: no row is broken, and no figure lost."""

import os
import re
import struct

import pytest
from support.commands import FACTS, rooms, run, run_in
from support.logs import write_recorder
from support.ports import free_port
from support.terminals import Terminal, on_screen

from discreet.cli import terminal

WIDTH = 60
LEARN = ("learn", "home.csv", *FACTS, "--exclude", "day", "--method", "randomized-response")
LONG = "the_sensor_of_the_lower_hall_beside_the_back_door"
COMMANDS = {
    "check": ("check", "home.csv", *FACTS),
    "learn": (*LEARN, "--ldp-epsilon", "2", "--out", "other.json"),
    "audit": ("audit", "m.json", "home.csv", "--max-advantage", "0.05"),
    "audit of rounds": (
        "audit", "m.json", "home.csv", "--max-advantage", "0.05", "--rounds", "8", "--stay", "0.9",
    ),
    "budget": ("budget", "m.json", "home.csv", "--rounds", "16", "--stay", "0.9"),
    "diff": ("diff", "m.json", "n.json", "home.csv"),
    "plan": ("plan", "m.json", "--max-advantage", "0.05"),
    "frontier": (
        "frontier", "home.csv", *FACTS, "--exclude", "day",
        "--methods", "ndd,randomized-response", "--out", "f.json",
    ),
    "import": ("import", "ha.db", "--label", "person.ann=who", "--out", "imported.csv"),
    "doctor": ("doctor", "--site", "site"),
    "fleet": ("fleet", "site"),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table, two mappings, a log and a site."""
    made = tmp_path_factory.mktemp("narrow")
    rooms(120).rename(columns={"door": LONG}).to_csv(made / "home.csv", index=False)
    for epsilon, name in ((1, "m.json"), (3, "n.json")):
        assert run_in(made, *LEARN, "--ldp-epsilon", epsilon, "--out", name, "--quiet") == 0
    ports = [free_port() for _ in range(3)]
    named = zip(("--port", "--metrics-port", "--dashboard-port"), ports, strict=True)
    given = [each for pair in named for each in pair]
    assert run_in(made, "init", "site", "--mapping", "m.json", *given) == 0
    times = range(1_767_225_600, 1_767_226_800, 60)
    events = [(time, item, "on") for time in times for item in ("person.ann", LONG)]
    write_recorder(made / "ha.db", events)
    return made


def printed_at(width, monkeypatch, capsys, arguments):
    monkeypatch.setattr(terminal, "columns_of", lambda stream: width)
    code, printed, words = run(monkeypatch, capsys, *arguments)
    assert printed and code in (0, 1, 3), words
    return printed, words


def figures(text):
    """What must not be lost, in no order: titles and columns may come otherwise."""
    timed = re.sub(r"learning takes about \d+ s", "", text)  # which no two runs agree on
    return sorted(re.findall(r"\d[\d,.]*\d|\d", timed))


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_lines_fit_sixty_columns(name, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    printed_at(None, monkeypatch, capsys, COMMANDS[name])  # notes that there was an audit before
    wide, _ = printed_at(None, monkeypatch, capsys, COMMANDS[name])
    narrow, words = printed_at(WIDTH, monkeypatch, capsys, COMMANDS[name])
    assert max(map(len, wide.splitlines())) > WIDTH or name in ("plan", "fleet")
    for line in (narrow + words).splitlines():
        command = re.search(r"(: |then )discreet ", line)  # is to be copied in one piece
        assert len(line) <= WIDTH or command or len(line.split()) <= 2, line
    if name not in ("doctor", "fleet"):  # which tell ages and temperatures
        assert figures(narrow) == figures(wide)


@pytest.mark.slow
@pytest.mark.parametrize(("wide", "said"), [(WIDTH, {}), (200, {"COLUMNS": str(WIDTH)})])
def test_a_terminal_is_asked_for_its_width(folder, wide, said):
    fcntl, termios = map(pytest.importorskip, ("fcntl", "termios"))  # none on Windows
    started = Terminal(folder, COMMANDS["diff"], "import sys; sys.stdin.readline()\n", **said)
    fcntl.ioctl(started.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, wide, 0, 0))
    os.write(started.master, b"\n")
    assert started.end() == 1
    lines = on_screen(started.text).splitlines()
    assert any("structural" in line for line in lines)
    assert all(len(line.rstrip()) <= WIDTH for line in lines), lines


@pytest.mark.slow
def test_json_is_never_wrapped(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    wide, _ = printed_at(None, monkeypatch, capsys, [*COMMANDS["diff"], "--json"])
    narrow, _ = printed_at(WIDTH, monkeypatch, capsys, [*COMMANDS["diff"], "--json"])
    assert wide == narrow
