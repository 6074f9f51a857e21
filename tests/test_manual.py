"""Every block of the manual, run: guides one page after the other, real data where it is."""

import getpass
import os
import re
import shlex
import subprocess
from contextlib import chdir

import numpy as np
import pandas as pd
import pytest
from support.commands import run_in
from support.ports import free_port
from support.sites import needs_mosquitto
from typer.main import get_command

from discreet.cli import COMMANDS, command_line
from discreet.network.broker import find_mosquitto
from research.home_history import make_history, write_history
from research.manual import DOCS, GUIDES, ON_REAL_DATA, REFERENCE, run_script, script_of

EVERY = get_command(command_line([])).commands

README = DOCS.parent / "README.md"
GALLERY = [page for page in sorted(DOCS.glob("gallery/*.md")) if page not in ON_REAL_DATA]
PORTS = ("8883", "9464", "8080", "8786")  # of a site and a scheduler, as the pages have them
PAGES = sorted({README, *DOCS.glob("*.md"), *DOCS.glob("*/*.md")} - {*DOCS.glob("decisions/*")})


LIMITED = 'discreet "$@" || test $? = 3'  # done, and a limit is not shown to be kept


def write_program(path, does):
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o700)


def as_ordinary_user(folder):
    """Put a Mosquitto into the folder that stays the user it is, as for those who are not root."""
    does = f'echo "user $(id -un)" >> mosquitto.conf\nexec {find_mosquitto()} "$@"'
    write_program(folder / "mosquitto", does)


def follow(page, folder, elsewhere):
    """Run the blocks of a page; ``elsewhere``: what stands for things that a test has not."""
    script = script_of(page)
    for text, instead in elsewhere.items():
        script = script.replace(text, instead)
    for port in PORTS:
        script = re.sub(rf"(port |127\.0\.0\.1:){port}\b", rf"\g<1>{free_port()}", script)
    code, printed = run_script(script, folder)
    assert code == 0 and "Traceback" not in printed, f"{page.name}: {printed}"


@pytest.fixture
def broker(tmp_path_factory):
    """The port of a broker of the house, as Zigbee2MQTT has one, that hears a motion sensor."""
    folder, port = tmp_path_factory.mktemp("broker"), free_port()
    (folder / "own.conf").write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\nuser {getpass.getuser()}\n"
    )
    say = f"mosquitto_pub -p {port} -t zigbee2mqtt/hall -m '{{\"occupancy\": true}}' 2> /dev/null"
    running = [
        subprocess.Popen([find_mosquitto(), "-c", "own.conf"], cwd=folder, stderr=subprocess.PIPE),
        subprocess.Popen(["bash", "-c", f"while sleep 0.3; do {say}; done"]),
    ]
    yield port
    for each in reversed(running):
        each.kill()
        each.communicate()


def in_words(picture):
    """Return what stands in a picture but for its figures, which differ between processors.

    Whether its rows were audited before, which is a condition, differs between machines.
    """
    words = re.findall(r">([^<>]+)</text>", picture.read_text().replace(" on condition", ""))
    return [re.sub(r"[\d.]+", "#", each) for each in words]


# Pages that need what another has made follow it; a chain begins in a folder of its own, with the
# tutorial, with what its first steps make, or with nothing.
CHAINS = {
    "tutorial": ["tutorial", "backup", "evidence", "read-a-report"],
    "home-assistant": ["home-assistant", "cooking"],
    "time-series": ["time-series"],
    "readme": ["README"],
    "levels": ["choose-a-level"],
    "gallery": ["index", "falls"],
    "cluster": ["cluster"],
    "devices": ["esp32", "node-red", "zigbee2mqtt"],
    "mappings": ["which-method", "new-mapping"],
}
STEPS = {"readme": 1, "levels": 1, "gallery": 1, "cluster": 2, "devices": 2, "mappings": 2}
NOISE = "--method randomized-response --ldp-epsilon 1"
# The tutorial, the README and the page on falls are followed to the letter, and show that what is
# learned keeps its limit. Where any mapping does, searches end early or are left out.
SPARED = {
    "--out frontier.json": "--ratios 0.9,0.99 --out frontier.json",  # of seven
    "discreet learn home.csv --public fall --private who --max-advantage 0.1 ": "limited learn "
    "home.csv --public fall --private who --max-advantage 0.1 --time-limit 1s ",
    "--out house.json": "--time-limit 1s --out house.json",
    "--out room.json": "--time-limit 1s --out room.json",
    "--out remembers.json": "--time-limit 1s --out remembers.json",
    "--time-limit 10m": NOISE,
    "local:2": "local:1",
    "--nworkers 2": "--nworkers 1",
}
FOLLOWED = {page.stem: page for page in [*GUIDES, *GALLERY, README]}


def begin(folder, steps):
    """Make what the first steps of the tutorial do: its table, and a mapping, of noise."""
    table = re.search(r"^```python\n(.*?)^```$", FOLLOWED["tutorial"].read_text(), re.M | re.S)[1]
    with chdir(folder):
        exec(table, {})
    learn = f"learn home.csv --public fall --private who {NOISE} --out home.json"
    assert steps < 2 or run_in(folder, *learn.split()) == 0


def test_every_page_is_in_one_chain():
    assert sorted(page for chain in CHAINS.values() for page in chain) == sorted(FOLLOWED)


@pytest.mark.slow
@needs_mosquitto
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("chain", CHAINS)
def test_the_pages_do_what_they_say(chain, tmp_path, broker):
    as_ordinary_user(tmp_path)
    write_program(tmp_path / "limited", LIMITED)
    if chain in STEPS:
        begin(tmp_path, STEPS[chain])
    elsewhere = {"localhost/": f"127.0.0.1:{broker}/"} | SPARED
    for page in (FOLLOWED[name] for name in CHAINS[chain]):
        follow(page, tmp_path, elsewhere)
        if page in GALLERY:
            pictures = re.findall(r"\]\((\w+\.svg)\)", page.read_text())
            assert all((tmp_path / each).is_file() and (page.parent / each).is_file()
                       for each in pictures)  # fmt: skip
    if chain == "readme":
        assert in_words(tmp_path / "demo.svg") == in_words(DOCS / "demo.svg")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif("DISCREET_DATA" not in os.environ, reason="DISCREET_DATA names no folder")
@pytest.mark.parametrize("page", ON_REAL_DATA, ids=lambda page: page.stem)
def test_the_pages_on_real_data_do_what_they_say(page, tmp_path):
    follow(page, tmp_path, {})
    assert (tmp_path / f"{page.stem}.svg").is_file()


# --- Pages of reference ----------------------------------------------------------------------

# The sensors of a made home: few for what is learned, more for devices.
FEW, MORE = ("hall", "door"), ("landing", "attic", "cellar", "garage", "porch", "stairs")
LEARN = "learn home.csv --public fall --private who --exclude date --out home.json"
ELSEWHERE = {
    "/mnt/disk": "disk",
    "/run/": "run-",
    "/sys/class/hwmon/hwmon0/temp1_input": "run-window",
    "/usr/bin/read-window": "./read-window",
    "gateway.local": "127.0.0.1",
    "attic.local": "localhost",
    "discreet audit": "limited audit",
    "discreet learn": "limited learn",
    "discreet recheck": "limited recheck",
    "discreet doctor": "limited doctor",
    "--for 30d": "--for 3s",
    "--rounds 1440": "--rounds 60",
    "--rows home.csv": "--rows home.csv --interval 3600",
    "--out home.json\n": "--out home.json --time-limit 1s\n",
    "python - <<'END'\nimport discreet_sensor\n": "python - <<'END'\nimport json\n"
    "KEY, reading, send = open('public_key.txt').read().split()[-1], 1, print\n"
    "ID = json.load(open('../home.json'))['id']\nimport discreet_sensor\n",
    "python - <<'END'\nfrom discreet_sensor import Sensor\n": 'cd "$folder"/boards/hall\n'
    "board <<'END'\nreading, send = 1, print\nfrom discreet_sensor import Sensor\n",
    "/lib/hall.table": "hall.table",
    "/hall.ledger": "hall.ledger",
}


def make_home(folder, sensors):
    """Write what a page of reference takes for granted: tables and a mapping."""
    rng, rows = np.random.default_rng(0), 360
    fall, ben = rng.random((2, rows)) < 0.5
    home = pd.DataFrame({name: fall ^ (rng.random(rows) < 0.2) for name in sensors}).astype(int)
    date = pd.date_range("2026-03-01", periods=rows, freq="1min")
    home = home.assign(date=date, fall=fall, who=np.where(ben, "Ben", "Ada"))
    home.to_csv(folder / "home.csv", index=False)
    home.to_csv(folder / "labelled.csv", index=False)
    home.to_parquet(folder / "big.parquet")
    for day in (1, 2):
        home[day - 1 :: 2].assign(day=day).to_parquet(folder / f"day-{day}.parquet")
    assert run_in(folder, *LEARN.split(), *NOISE.split()) == 0


def make_tools(folder):
    """Write programs that stand for what a page takes for granted of the machine."""
    programs = {
        "pip": "exit 0", "apt": "exit 0", "systemctl": "exit 0",
        "read-window": "echo 1",
        "some-program": "trap '' PIPE; while echo 1 2> /dev/null; do sleep 1; done; exit 0",
        "discreet-sensor": 'exec discreet sensor "$@"',  # the same command, from the same code
        "board": "cat > main.py && exec micropython main.py",
        "limited": LIMITED,
    }  # fmt: skip
    for name, does in programs.items():
        write_program(folder / name, does)
    for name in ("run-window", "run-landing"):
        (folder / name).write_text("1\n")
    (folder / "disk").mkdir()
    (folder / "password.txt").write_text("a long enough password\n" * 2)
    (folder / "door.csv").write_text("door\n" + "1\n" * 9)


@pytest.mark.slow
@needs_mosquitto
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: page.stem)
def test_the_pages_of_reference_do_what_they_say(page, tmp_path, broker, monkeypatch):
    monkeypatch.setenv("WHILE", "3")
    as_ordinary_user(tmp_path)
    make_tools(tmp_path)
    more = (*MORE, "Window contact") if page.stem in ("devices", "network") else ()
    make_home(tmp_path, (*FEW, *more))
    ports = [free_port() for _ in range(3)]
    init = "discreet init {} --port {} --metrics-port {} --dashboard-port {}"
    if page.stem in ("dashboard", "devices"):
        made = f"{init.format('site', *ports)} --mapping home.json".removeprefix("discreet ")
        assert run_in(tmp_path, *made.split()) == 0
    if page.stem == "tables":
        write_history(tmp_path / "home-assistant_v2.db", make_history(6))
    if page.stem == "dashboard":
        audit = "discreet audit home.json home.csv --json > site/audit.json"
        assert run_script(audit, tmp_path)[0] == 0
    elsewhere = {"discreet init site": init.format("site", *ports)} | ELSEWHERE
    follow(page, tmp_path, elsewhere | {"localhost/": f"127.0.0.1:{broker}/"})


# --- Commands that pages name ----------------------------------------------------------------


def named_commands(page):
    """Return what a page has after each ``discreet``, in blocks and in its lines, in words."""
    text = page.read_text().replace("\\\n", " ")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)
    inline = re.findall(r"`(discreet [^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
    for line in [*"\n".join(blocks).splitlines(), *(" ".join(each.split()) for each in inline)]:
        words = [*shlex.shlex(line, posix=True, punctuation_chars=True)]
        for k, word in enumerate(words):
            if word == "discreet" and words[k + 1 : k + 2]:
                yield words[k + 1], _until_the_end(words[k + 2 :])


def _until_the_end(words):
    ends = (k for k, word in enumerate(words) if re.fullmatch(r"[();<>|&]+", word))
    return words[: next(ends, len(words))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_commands_and_options_that_there_are(page):
    for name, rest in named_commands(page):
        assert name in COMMANDS or name.startswith("-"), f"{page.name}: discreet {name} {rest}"
        if name in COMMANDS:
            command = EVERY[name]
            known = {each for param in command.params for each in (*param.opts, "--help")}
            for word in re.findall(r"^--[\w-]+", "\n".join(rest), re.M):
                assert word in known, f"{page.name}: discreet {name} has no {word}"


def test_pages_name_many_commands():
    assert sum(1 for page in PAGES for _ in named_commands(page)) > 100
