"""What load runs share: a site whose fusion centre is the real command, and its generators."""

import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from discreet.files import PRIVATE, write_whole
from discreet.mapping.parts import AdditiveFusion
from discreet.network.site.settings import (
    BrokerEndpoint,
    Client,
    Clients,
    Endpoint,
    Site,
    SiteFiles,
    model_bytes,
)
from discreet.network.store import open_reader
from discreet_sensor.wire import ack_topic, mapping_tag, message_topic
from support.network_figures.devices import DeviceLoad, run_devices
from support.network_figures.generator import SPAWN, Load, Sender, generate, listen
from support.network_samples import make_mapping
from support.network_sites import wait_for
from support.ports import free_port

TICKS = os.sysconf("SC_CLK_TCK")


class LoadSite:
    """A site on loopback without TLS, with so many clients of so many sensors each."""

    tls = None

    def __init__(
        self,
        folder,
        port,
        *,
        clients,
        width=1,
        batch=1,
        interval=0.05,
        deadline=2.0,
        database=None,
        name="home",
    ):
        self.folder, self.port, self.name = Path(folder), port, name
        names = [f"sensor-{i}" for i in range(clients * width)]
        weights = tuple((-0.05, 0.05) for _ in names)
        self.mapping = make_mapping(AdditiveFusion(weights=weights, bias=0.0), names=names)
        self.clients = {
            f"client-{i}": Client(
                sensors=tuple(names[i * width : (i + 1) * width]),
                batch=batch,
                key=secrets.token_hex(32),
                serial="01",
                enrolled=datetime.now(UTC),
            )
            for i in range(clients)
        }
        self.site = Site(
            site=name,
            epoch=int(time.time()) - 3600,
            interval=interval,
            deadline=deadline,
            broker=BrokerEndpoint(host="127.0.0.1", port=port, tls=False),
            database=database or "sqlite:fusion/fusion.db",
            metrics=Endpoint(port=free_port()),
        )
        self._write()

    def _write(self):
        files = SiteFiles(self.folder)
        files.clients.parent.mkdir(parents=True)
        write_whole(files.settings, model_bytes(self.site), PRIVATE)
        write_whole(files.clients, model_bytes(Clients(clients=self.clients)), PRIVATE)
        self.mapping.save(self.folder / self.site.mapping)

    def senders(self):
        return [
            Sender(
                message_topic(self.name, name),
                ack_topic(self.name, name),
                bytes.fromhex(each.key),
                len(each.sensors) * each.batch,
                each.batch,
            )
            for name, each in self.clients.items()
        ]

    def round_now(self):
        return int((time.time() - self.site.epoch) / self.site.interval)

    def reader(self):
        return open_reader(self.site.database, self.folder, self.name)

    def count_stored(self):
        reader = self.reader()
        try:
            return sum(each.messages for each in reader.clients())
        finally:
            reader.close()

    def loads(self, processes, each, **options):
        """What each generator sends, the clients dealt out among them; made for rounds from now."""
        senders, boot = self.senders(), time.time_ns()
        return [
            Load(
                self.port,
                f"generator-{i}-{boot}",
                senders[i::processes],
                each,
                boot,
                self.round_now(),
                mapping_tag(self.mapping.id),
                **options,
            )
            for i in range(processes)
        ]


class Serve:
    """The command ``discreet serve``, run for a site; ``nice`` leaves others the processor."""

    def __init__(self, site, nice=0):
        self.site, self._nice = site, nice
        self.log = site.folder / "serve.log"

    def __enter__(self):
        serve = [sys.executable, "-m", "discreet", "serve", str(self.site.folder)]
        command = ["nice", "-n", str(self._nice), *serve] if self._nice else serve
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            wait_for(lambda: self.process.poll() is not None or self._is_ready(), 600)
            assert self.process.poll() is None
        except AssertionError:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"discreet serve does not start: {self.log.read_text()}") from None
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(240)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def _is_ready(self):
        return self.value("broker_up") == self.value("database_up") == 1

    def value(self, name):
        """One of its metrics; None while it does not answer."""
        page = f"http://127.0.0.1:{self.site.site.metrics.port}/metrics"
        try:
            text = urllib.request.urlopen(page, timeout=60).read().decode()
        except OSError:
            return None
        lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
        return float(lines.get(f"discreet_{name}", 0))

    def processor(self):
        """Seconds of the processor used so far."""
        return processor_seconds(self.process.pid)

    def resident(self):
        """Bytes of memory in use now."""
        return resident_bytes(self.process.pid)


def processor_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_bytes(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Child:
    """A process at the other end of a pipe."""

    def __init__(self, work, *arguments):
        self.pipe, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=work, args=(*arguments, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def answer(self, seconds=300.0):
        if not self.pipe.poll(seconds):
            raise TimeoutError("a process of the load run does not answer")
        return self.pipe.recv()

    def end(self):
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


@contextmanager
def children(*calls):
    found = [Child(*call) for call in calls]
    try:
        for child in found:
            assert child.answer() == "ready"
        yield found
    finally:
        for child in found:
            child.end()


@contextmanager
def generators(loads):
    """Generators that are connected and wait for ``start``."""
    work = run_devices if isinstance(loads[0], DeviceLoad) else generate
    with children(*((work, load) for load in loads)) as found:
        yield found


def run_loads(loads):
    """Send, and return what became of it, generator by generator."""
    with generators(loads) as found:
        for child in found:
            child.pipe.send("go")
        return [child.answer() for child in found]


def committed(site, serve, processes, each, window=1000):
    """Send and wait; return messages per second and the processor time of each at ``serve``.

    All must have been acknowledged, and be in the database.
    """
    loads = site.loads(processes, each, window=window)
    before, used = site.count_stored(), serve.processor()
    sent = run_loads(loads)
    count = sum(len(load.senders) for load in loads) * each
    acknowledged, fresh = sum(each.stored for each in sent), site.count_stored() - before
    if not acknowledged == fresh == count:
        raise RuntimeError(f"{count} sent, {acknowledged} acknowledged, {fresh} in the database")
    taken = max(each.end for each in sent) - min(each.begin for each in sent)
    return count / taken, (serve.processor() - used) / count


def run_bare(loads, tls=None):
    """The same messages through the broker to a bare subscriber: rate, and its processor time."""
    count = sum(len(load.senders) * load.each for load in loads)
    topic = message_topic("+", "+")
    with children((listen, loads[0].port, topic, tls)) as (ear,), generators(loads) as found:
        ear.pipe.send(count)
        for child in found:
            child.pipe.send("go")
        sent = [child.answer() for child in found]
        end, heard, seconds = ear.answer()
    assert heard == count
    return count / (end - min(each.begin for each in sent)), seconds / count
