"""Full disks, and a database that is away."""

import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

from discreet.network.dashboard.snapshot import SiteView, Snapshots
from discreet.network.store import open_reader
from support.databases import PostgresServer
from support.network_figures.home import Home, wait_until
from support.sites import eventually


def why_no_small_disk():
    """Return the reason to skip, or None."""
    if os.geteuid() != 0:
        return "only root can mount a small disk"
    return None


@contextmanager
def small_disk(folder, megabytes):
    """Put a small file system over a folder, with what is in it."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder.with_name(f"{folder.name}.aside")
    folder.mkdir(exist_ok=True)
    shutil.copytree(folder, aside)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", folder], check=True
    )
    try:
        shutil.copytree(aside, folder, dirs_exist_ok=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder):
    """Take all the room there is; return the file that does."""
    ballast = Path(folder) / "ballast"
    with ballast.open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(bytes(1 << 14))
        except OSError:
            pass
    return ballast


def full_disk_at_sensor(folder, seconds, sensors=2):
    """Return the tally, and whether the sensors and the dashboard said what is wrong."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with (
        small_disk(folder / "devices", 16),
        Home(folder, sensors=sensors, state=folder / "devices") as home,
    ):
        wait_until(lambda: home.count_stored() > 5 * sensors, "traffic")
        ballast = fill(folder / "devices")
        shown = _shown(home, f"{sensors} devices silent", seconds)
        ballast.unlink()
        before = home.count_stored()
        wait_until(lambda: home.count_stored() > before + 5 * sensors, "recovery")
        home.settle()
        said = all("nothing can be sent" in (folder / f"{n}.log").read_text() for n in home.names)
        return home.tally(), said and shown


def full_disk_at_fusion(folder, seconds, sensors=2):
    """Return the tally, and whether fusion centre and dashboard said that the disk is full."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    home = Home(folder, sensors=sensors)
    with small_disk(home.site / "data", 16), home:
        wait_until(lambda: home.count_stored() > 5 * sensors, "traffic")
        ballast = fill(home.site / "data")
        shown = _shown(home, "The disk is full", seconds)
        said = eventually(lambda: _state(home) == "full")
        ballast.unlink()
        wait_until(lambda: _state(home) == "here", "recovery")
        home.settle()
        return home.tally(), said and shown


def database_away(folder, seconds, sensors=2):
    """Return the tally, and whether fusion centre and dashboard said that the database is away."""
    with PostgresServer() as server, Home(folder, sensors=sensors, database=server.url) as home:
        wait_until(lambda: home.count_stored() > 5 * sensors, "traffic")
        server.stop()
        shown = _shown(home, "The database does not answer", seconds)
        said = eventually(lambda: _state(home) == "away")
        server.start()
        wait_until(lambda: _state(home) == "here", "recovery")
        home.settle()
        return home.tally(), said and shown


def _state(home):
    found = home.metrics()
    return found and found["parts"]["database"]["state"]


def _shown(home, words, seconds):
    """Wait for some seconds; return whether the dashboard shows these words by then."""
    reader = open_reader(home.settings.database, home.site, home.settings.key)
    snapshots = Snapshots(SiteView(home.site), reader)
    end, shown = time.monotonic() + seconds, False
    while time.monotonic() < end or (not shown and time.monotonic() < end + 120):
        shown = any(each.short == words for each in snapshots.now().findings)
        time.sleep(0.2)
    reader.close()
    return shown
