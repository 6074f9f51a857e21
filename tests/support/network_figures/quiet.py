"""A site on which nothing goes wrong, and whoever raises an alarm all the same."""

import subprocess
import sys
import time
from collections import Counter

from discreet.network.dashboard.snapshot import SiteView, Snapshots
from discreet.network.health import BAD, GOOD, WARN
from discreet.network.store import open_reader
from support.commands import clean_environment
from support.network_figures.home import Home, wait_until


def watch_quiet(folder, seconds, sensors=5, interval=5.0, pause=30.0, say=lambda _: None):
    """Ask doctor, ``/health`` and the dashboard again and again; return asked, alarms and tally.

    Alarms are lines of what was said. The first decision is waited for.
    """
    asked, alarms = Counter(), []
    with Home(folder, sensors=sensors, interval=interval, deadline=2.0) as home:
        reader = open_reader(home.settings.database, home.site, home.settings.key)
        snapshots = Snapshots(SiteView(home.site), reader, time.time)
        wait_until(lambda: home.metrics() and not _others(home, snapshots), "a site that is well")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for who, words in (*_others(home, snapshots).items(), *_doctor(home).items()):
                alarms.append(f"{who}: {words}")
                say(alarms[-1])
            asked.update(("doctor", "/health", "dashboard"))
            time.sleep(min(pause, max(0.0, end - time.monotonic())))
        reader.close()
        home.settle()
        return asked, alarms, home.tally()


def _others(home, snapshots):
    seen, found = snapshots.now(), home.metrics() or {"level": "no answer", "findings": []}
    said = {
        "dashboard": [each.words for each in seen.findings if each.level == BAD],
        "/health": [each["words"] for each in found["findings"] if each["level"] == BAD],
    }
    if found["level"] not in (GOOD, WARN):
        said["/health"].append(found["level"])
    return {who: " ".join(words) for who, words in said.items() if words}


def _doctor(home):
    command = [sys.executable, "-m", "discreet", "doctor", "--site", str(home.site)]
    done = subprocess.run(
        command, env=clean_environment(), capture_output=True, text=True, check=False
    )
    return {"doctor": done.stdout + done.stderr} if done.returncode else {}
