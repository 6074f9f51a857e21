"""A site under test: its broker, fusion centre and sensors as processes of their own.

Every message that a sensor writes to its outbox is also written to a journal, by a trigger in the
same transaction, so that in the end each can be held against what the fusion centre has stored.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from discreet.network.broker import Broker
from discreet.network.site.joining import EnrolmentRequest, enroll
from discreet.network.site.settings import load_site
from discreet.network.store import open_store
from discreet.network.store.rows import mapping_number
from discreet_sensor import wire
from discreet_sensor.enrolment import load_enrolment
from discreet_sensor.outbox import Outbox
from discreet_sensor.wire import message_topic
from support.network_samples import additive_mapping
from support.ports import free_port
from support.sites import make_site

_JOURNAL = """
CREATE TABLE journal (boot INTEGER, seq INTEGER, payload BLOB, PRIMARY KEY (boot, seq));
CREATE TRIGGER note AFTER INSERT ON outbox BEGIN
    INSERT INTO journal VALUES (new.boot, new.seq, new.payload);
END;
"""


class Tally:
    """What became of the messages."""

    def __init__(self, written, stored, lost, changed, strange, counted):
        self.written, self.stored = written, stored
        self.lost, self.changed, self.strange = lost, changed, strange
        self.twice = counted - stored

    def __str__(self):
        return (
            f"{self.written} messages: {self.lost} lost, {self.twice} counted twice, "
            f"{self.changed} changed"
        )

    @property
    def clean(self):
        return not (self.lost or self.twice or self.changed or self.strange)


class Home:
    """A site with sensors "s0", "s1", ..., one device each.

    Parameters
    ----------
    folder : Path
    sensors : int
    interval, deadline : float
    prefix : list of str
        Put before the command of a sensor, such as to run it in another network.
    state : Path, optional
        Where the sensors keep their state, if not in the folder.
    """

    def __init__(
        self,
        folder,
        sensors=3,
        interval=0.1,
        deadline=0.5,
        prefix=(),
        state=None,
        rows=200_000,
        host="localhost",
        **changes,
    ):
        from discreet.network.site.settings import BrokerEndpoint

        self.folder, self.names = Path(folder), [f"s{i}" for i in range(sensors)]
        self.folder.mkdir(parents=True, exist_ok=True)
        self.state = Path(state or folder)
        self.prefix = list(prefix)
        self.mapping = additive_mapping(names=self.names)
        broker = BrokerEndpoint(host=host, port=free_port())
        self.site = make_site(
            self.folder,
            self.mapping,
            interval=interval,
            deadline=deadline,
            broker=broker,
            **changes,
        )
        self.settings = load_site(self.site)
        self.broker = Broker.of_site(self.site)
        for name in self.names:
            enroll(self.site, EnrolmentRequest(name), self.folder / f"{name}.enrol")
            self._keep_journal(self.state / name)
        self._write_tables(rows)
        self.processes = {}
        self._keys = {name: [] for name in self.names}

    def _keep_journal(self, folder):
        Outbox(folder).close()
        with sqlite3.connect(folder / "outbox.db") as base:
            base.executescript(_JOURNAL)
        base.close()

    def keep_key(self, name):
        """Remember the key of a device that is to have another one."""
        self._keys[name].append(load_enrolment(self.folder / f"{name}.enrol").mac_key)

    def _write_tables(self, rows):
        values = np.random.default_rng(0).integers(2, size=(rows, len(self.names)))
        lines = [",".join(self.names), *(",".join(map(str, row)) for row in values)]
        (self.folder / "readings.csv").write_text("\n".join(lines) + "\n")
        (self.folder / "nothing.csv").write_text(",".join(self.names) + "\n")

    # -- processes --

    def _start(self, name, *arguments, prefix=()):
        log = (self.folder / f"{name}.log").open("ab")
        self.processes[name] = subprocess.Popen(
            [*prefix, sys.executable, "-m", "discreet", *map(str, arguments)],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        log.close()

    def start_fusion(self):
        self._start("fusion", "serve", self.site)

    def start_sensor(self, name, table="readings.csv", drain=30.0):
        self._start(
            name,
            *("sensor", f"{name}.enrol", "--state", self.state / name),
            *("--read", f"csv:{table}", "--drain", drain),
            prefix=self.prefix,
        )

    def start(self):
        self.broker.start()
        self.start_fusion()
        for name in self.names:
            self.start_sensor(name)

    def kill(self, name):
        """End a process in the middle of whatever it does."""
        self.processes[name].kill()
        self.processes[name].wait()

    def stop(self, name):
        self.processes[name].send_signal(signal.SIGTERM)
        try:
            self.processes[name].wait(120)
        except subprocess.TimeoutExpired:
            self.kill(name)

    def settle(self, seconds=120.0):
        """Let no sensor write anything new, and wait until what waits is delivered."""
        for name in self.names:
            self.stop(name)
            self.start_sensor(name, "nothing.csv", drain=seconds)
        for name in self.names:
            self.processes[name].wait(seconds + 60)

    def close(self):
        for name in list(self.processes):
            if self.processes[name].poll() is None:
                self.stop(name)
        self.broker.stop()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.close()

    # -- what happened --

    def journal(self):
        """All messages that were ever written, by client, boot and seq."""
        found = {}
        for name in self.names:
            keys = [load_enrolment(self.folder / f"{name}.enrol").mac_key, *self._keys[name]]
            topic = message_topic("home", name).encode()
            base = sqlite3.connect(self.state / name / "outbox.db")
            for boot, seq, payload in base.execute("SELECT * FROM journal"):
                found[name, boot, seq] = _decoded(payload, keys, topic)
            base.close()
        return found

    def waiting(self):
        """Messages that their device may send again, by client, boot and seq."""
        found = set()
        for name in self.names:
            base = sqlite3.connect(self.state / name / "outbox.db", timeout=60)
            rows = base.execute("SELECT boot, seq FROM outbox")
            found |= {(name, boot, seq) for boot, seq in rows}
            base.close()
        return found

    def stored(self):
        store = open_store(self.settings.database, self.site, self.settings.key)
        try:
            store.prepare()
            messages = sum(each.messages for each in store.clients())
            return store.messages(0, 2**32), messages
        finally:
            store.close()

    def tally(self):
        journal, (stored, counted) = self.journal(), self.stored()
        found = {row[:3]: row[3:] for row in stored}
        lost = sum(key not in found for key in journal)
        changed = sum(
            found[key] != (message.round, message.symbols, mapping_number(message.mapping.hex()))
            for key, message in journal.items()
            if key in found
        )
        strange = sum(key not in journal for key in found)
        return Tally(len(journal), len(found), lost, changed, strange, counted)

    def count_stored(self):
        return len(self.stored()[0])

    def metrics(self):
        """What the fusion centre says about itself, or None while it does not answer."""
        import json
        import urllib.error
        import urllib.request

        place = self.settings.metrics
        try:
            with urllib.request.urlopen(
                f"http://{place.host}:{place.port}/health", timeout=60
            ) as page:
                return json.load(page)
        except urllib.error.HTTPError as error:  # it says that something is wrong
            with error:
                return json.load(error)
        except OSError:
            return None


def _decoded(payload, keys, topic):
    for key in keys:
        try:
            return wire.decode(payload, 1, bytes.fromhex(key), topic)
        except wire.WireError:
            continue
    raise AssertionError("a message that no key of its device fits")


def wait_until(condition, what, seconds=240):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"{what} did not happen within {seconds:g} s")
        time.sleep(0.1)


def can_mount():
    return os.geteuid() == 0
