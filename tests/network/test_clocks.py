"""A fusion centre whose machine's clock is wrong, as a process of its own.

Its clock is set by a line of Python, not by faketime, whose clock is seen by Python's waits with a
timeout as an hour that has to pass.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager

import pytest
from support.commands import clean_environment, run
from support.network_samples import additive_mapping
from support.network_sites import wait_for
from support.sites import broker_of, fetch, make_site, needs_mosquitto

from discreet.network.dashboard.snapshot import SiteView, Snapshots
from discreet.network.health import BAD, WARN
from discreet.network.site.joining import EnrolmentRequest, enroll
from discreet.network.site.settings import load_site
from discreet.network.store import open_reader, open_store
from discreet_sensor.enrolment import load_enrolment
from discreet_sensor.running import SensorTask, run_sensor
from discreet_sensor.sources import Source, Sources

pytestmark = [pytest.mark.slow, needs_mosquitto]

LONG = 240.0  # seconds; the machine may be loaded
NAMES = ["hall", "door"]
AHEAD = """
import time

true = time.time
time.time = lambda: true() + {}

from discreet.cli import main

main()
"""


class Always(Source):
    def __init__(self, name):
        self.name = name

    def take(self):
        return {self.name: 1}


@contextmanager
def serving(site, ahead):
    """``discreet serve`` by a clock that is ahead by some seconds."""
    command = [sys.executable, "-c", AHEAD.format(ahead), "serve", str(site), "--quiet"]
    process = subprocess.Popen(
        [*command, "--keep", "0.01"],
        env=clean_environment(),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(LONG)


def test_decisions_go_on_and_the_jump_is_told(tmp_path, monkeypatch, capsys):
    site = make_site(tmp_path, additive_mapping(names=NAMES), interval=1.0, deadline=4.0)
    for name in NAMES:
        enroll(site, EnrolmentRequest(name), tmp_path / f"{name}.enrol")
    settings, stop = load_site(site), threading.Event()
    devices = [
        threading.Thread(
            target=run_sensor,
            args=(
                SensorTask(load_enrolment(tmp_path / f"{name}.enrol"), tmp_path / name, retry=0.3),
                Sources([Always(name)]),
                stop,
            ),
            daemon=True,
        )
        for name in NAMES
    ]
    with (
        closing(open_store(settings.database, site, settings.key)) as store,
        closing(open_reader(settings.database, site, settings.key)) as reader,
        broker_of(site),
    ):
        store.prepare()
        snapshots = Snapshots(SiteView(site), reader)

        def decided():
            """Rounds that were decided with both devices."""
            return [each.round for each in store.decisions() if each.reported == 2]

        def judged():
            """Doctor's exit code, that of ``/health``, and the dashboard's level."""
            code, printed, _ = run(monkeypatch, capsys, "doctor", "--site", str(site))
            status = fetch(f"http://127.0.0.1:{settings.metrics.port}/health")[0]
            return code, status, snapshots.now().level, "the clock has jumped" in printed

        def behind():
            """Rounds since the decision that the dashboard shows."""
            shown = snapshots.now().stored.decision.round
            return (time.time() - settings.epoch) / settings.interval - shown

        for device in devices:
            device.start()
        with serving(site, 0):
            wait_for(lambda: len(decided()) >= 2, LONG)
        with serving(site, 3600):
            before = len(decided())
            wait_for(lambda: len(decided()) >= before + 6, LONG)
            wait_for(lambda: judged() == (3, 503, BAD, True), LONG)
        with serving(site, 0):
            before = len(decided())
            wait_for(lambda: len(decided()) >= before + 4, LONG)
            wait_for(lambda: judged() == (0, 200, WARN, False), LONG)  # has no certificate
            wait_for(lambda: 0 <= behind() < 20, LONG)  # the decision shown is one of now
        stop.set()
        present = (time.time() - settings.epoch) / settings.interval
        assert max(decided()) <= present and store.floor() <= 1
        rounds = {each[3] for each in store.messages(0, 2**32)}
        assert rounds >= set(decided()) and max(rounds) <= present
