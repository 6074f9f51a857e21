"""Commands of a site's life, each killed in the middle and repeated, under traffic."""

import random
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

from discreet.mapping.parts import AdditiveFusion
from discreet.network.site.joining import EnrolmentRequest, enroll
from support.commands import clean_environment
from support.network_figures.home import Home, wait_until
from support.network_samples import make_mapping

LONG = 300.0


def survive_life(folder, kills, sensors=2, seed=None, say=lambda _: None):
    """Kill backups, restores, migrations and changes of the mapping; return the tally.

    Each is repeated to its end afterwards, while sensors send.
    """
    chance = random.Random(seed)
    with Home(folder, sensors=sensors, interval=0.5, deadline=2.0) as home:
        turns = [turn for turn in (_backup, _restore, _migrate, _change) for _ in range(kills)]
        chance.shuffle(turns)
        for i, turn in enumerate(turns):
            before = home.count_stored()
            wait_until(lambda before=before: home.count_stored() > before, "traffic", LONG)
            turn(home, chance, i)
            say(f"{i + 1} of {len(turns)}: {turn.__name__[1:]}, {home.count_stored()} stored")
        home.settle(LONG)
        return home.tally()


def _backup(home, chance, number):
    """Kill a backup, and make it."""
    _twice(home, chance, "backup", home.folder / f"backup-{number}", "--site", home.site)


def _restore(home, chance, number):
    """Lose rows that a backup has, and bring them back; the first time the command is killed."""
    saved = home.folder / f"saved-{number}"
    _run(home, "backup", saved, "--site", home.site)
    # A device sends what it waits for again: if that row were gone, it would count as a new one.
    in_copy = home.waiting()
    wait_until(lambda: not in_copy & home.waiting(), "acknowledgements", LONG)
    with closing(sqlite3.connect(home.site / "data/fusion.db", timeout=LONG)) as base:
        base.execute("ATTACH DATABASE ? AS copy", (str(saved / "data/fusion.db"),))
        base.execute(
            "DELETE FROM main.messages WHERE seq % 2 = 0 AND (client, boot, seq) IN"
            " (SELECT client, boot, seq FROM copy.messages)"
        )
        base.commit()
    _twice(home, chance, "restore", saved, "--site", home.site)
    shutil.rmtree(saved)


def _migrate(home, chance, _):
    """Let the tables be of version 3, and kill the fusion centre that migrates them."""
    home.kill("fusion")
    with closing(sqlite3.connect(home.site / "data/fusion.db", timeout=LONG)) as base:
        base.execute("DROP TABLE plans")
        for column in ("ticks", "boot"):
            base.execute(f"ALTER TABLE clocks DROP COLUMN {column}")
        base.execute("UPDATE schema_version SET version = 3")
        base.commit()
    home.start_fusion()
    time.sleep(chance.uniform(0.5, 4.0))
    home.kill("fusion")
    home.start_fusion()


def _change(home, chance, number):
    """Change the mapping, killed at first, and renew one device while the others have the old."""
    weights = tuple((-0.1 - 0.01 * number, 0.2) for _ in home.names)
    fusion = AdditiveFusion(weights=weights, bias=0.01 * number)
    make_mapping(fusion, names=home.names).save(home.folder / "next.json")
    _twice(home, chance, "change-mapping", home.folder / "next.json", "--site", home.site)
    name = chance.choice(home.names)
    new = home.folder / f"{name}.new"
    home.stop(name)
    enroll(home.site, EnrolmentRequest(name, renew=True), new)
    home.keep_key(name)
    new.replace(home.folder / f"{name}.enrol")
    home.start_sensor(name)


def _command(arguments):
    return [sys.executable, "-m", "discreet", *map(str, arguments)]


def _twice(home, chance, *arguments):
    """Kill a command at a random moment; run it again to its end."""
    killed = subprocess.Popen(
        _command(arguments),
        env=clean_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(chance.uniform(0.5, 4.0))
    killed.kill()
    killed.wait()
    if not (arguments[0] == "backup" and arguments[1].exists()):  # it never writes over one
        _run(home, *arguments)


def _run(home, *arguments):
    done = subprocess.run(
        _command(arguments), env=clean_environment(), capture_output=True, text=True, check=False
    )
    # 3: a worker was not seen to run the new mapping yet, for instance because it was killed.
    assert done.returncode in (0, 3), done.stderr
