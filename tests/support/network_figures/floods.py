"""Devices of a site that flood it, and how many of the others are heard meanwhile."""

import contextlib
import io
import os
import re
import time
from dataclasses import dataclass

import numpy as np

from discreet.cli.doctor import UNWELL, doctor
from discreet.network.dashboard.snapshot import SiteView, Snapshots
from discreet.network.health import BAD
from discreet.network.store import open_reader, open_store
from discreet_sensor.enrolment import Enrolment
from discreet_sensor.wire import Message, RoundClock, encode, mapping_tag, message_topic
from support.network_figures.devices import SecureSite, tls_context
from support.network_figures.load import Serve, children, resident_bytes
from support.network_figures.raw_mqtt import RawClient, publish_packet
from support.network_sites import wait_for
from support.sites import fetch

RATE = 8600  # messages a second, of each device that floods
LARGE, LONG = 200_000, 65_000  # bytes
_TURN = 0.01  # seconds
_PATIENCE = 10.0  # seconds for the slowest of them to use up its allowance
_SLOT = 0.1  # seconds after the end of a round at which the honest send


@dataclass(frozen=True)
class Device:
    """What a process knows of the device that it is."""

    enrolment: Enrolment
    rate: int = RATE

    @property
    def clock(self):
        return RoundClock(float(self.enrolment.epoch), self.enrolment.interval)

    @property
    def topic(self):
        return message_topic(self.enrolment.site, self.enrolment.client)

    def sealed(self, boot, seq, number):
        """Return an authentic message."""
        tag, key = mapping_tag(self.enrolment.mapping), bytes.fromhex(self.enrolment.mac_key)
        return encode(Message(boot, seq, number, 0, b"\1", tag), key, self.topic)

    def connect(self):
        broker, context = self.enrolment.broker, tls_context(self.enrolment)
        return RawClient(broker.port, self.enrolment.client, context=context, host=broker.host)


# --- Floods: each yields packets -----------------------------------------------------------


def small(device):
    """Nonsense at QoS 1."""
    while True:
        yield publish_packet(device.topic, os.urandom(16), 1)


def large(device):
    """Payloads of 200 kB."""
    packet = publish_packet(device.topic, bytes(LARGE), 1)
    while True:
        yield packet


def long(device):
    """The longest packets that the broker takes, of 64 kB."""
    packet = publish_packet(device.topic, bytes(LONG), 1)
    while True:
        yield packet


def unasked(device):
    """Authentic messages at QoS 0, which nothing holds back."""
    packet = publish_packet(device.topic, device.sealed(1, 0, 0), 0)
    while True:
        yield packet


def boots(device):
    """Authentic messages for the present round, each with a boot of its own."""
    boot = time.time_ns()
    while True:
        boot += 1
        number = device.clock.number(time.time())
        yield publish_packet(device.topic, device.sealed(boot, 0, number), 1)


def replays(device):
    """One authentic message again and again."""
    number = device.clock.number(time.time())
    packet = publish_packet(device.topic, device.sealed(time.time_ns(), 0, number), 1)
    while True:
        yield packet


ALL = (small, large, unasked, boots, replays, long)


def run_flood(device, kind, pipe):
    """Run in a process of its own: send as much as the rate and the broker allow."""
    pipe.send("ready")
    pipe.recv()
    client, packets, sent, next_turn = None, kind(device), 0, time.monotonic()
    while not pipe.poll():
        try:
            client = client or device.connect()
            some = [
                next(packets)
                for _ in range(1 if kind in (large, long) else int(device.rate * _TURN))
            ]
            client.send(b"".join(some))
            sent += len(some)
            for _ in some:  # an answer each
                client.poll()
        except OSError:  # the broker has hung up
            if client is not None:
                client.close()
            client = None
        next_turn = max(next_turn + _TURN, time.monotonic() - 1.0)
        time.sleep(max(0.0, next_turn - time.monotonic()))
    pipe.send(sent)


def run_honest(devices, pipe):
    """Run in a process of its own: a message of each device every round, never a second time."""
    clients = [each.connect() for each in devices]
    pipe.send("ready")
    clock, boot, seq = devices[0].clock, time.time_ns(), 0
    number = clock.number(time.time())
    while not pipe.poll():
        time.sleep(max(0.0, clock.end(number) + _SLOT - time.time()))
        for device, client in zip(devices, clients, strict=True):
            client.publish([(device.topic, device.sealed(boot, seq, number))])
            client.poll()
        seq, number = seq + 1, number + 1
    for each in clients:
        each.close()
    pipe.send("done")


# --- What became of it ---------------------------------------------------------------------


@dataclass
class Flooded:
    """What happened.

    ``heard``: share of the honest messages that were stored when their round was closed.
    ``memory``: rows of resident bytes of fusion centre and broker. ``named``: the devices that the
    fusion centre has suspended. ``rows``: most messages of one device for one round. ``told``: who
    of doctor, ``/health`` and dashboard calls that a failure and names them all.
    """

    sent: int
    heard: float
    rounds: int
    memory: np.ndarray
    named: set
    rows: int
    told: set

    @property
    def growth(self):
        """Last third against the second, as a share: the larger of fusion centre and broker."""
        third = len(self.memory) // 3
        last, before = self.memory[-third:].mean(axis=0), self.memory[third:-third].mean(axis=0)
        return float((last / before - 1).max())


@contextlib.contextmanager
def flooded_site(folder, devices, interval=1.0, deadline=1.0):
    """A site that runs: broker, fusion centre, devices enrolled."""
    site = SecureSite(folder, devices, interval=interval, deadline=deadline)
    with site.broker, Serve(site) as serve:
        yield site, serve


def flood(site, serve, kind, bad, good, seconds, rate=RATE):
    """Have some devices (their numbers) flood a site for some seconds while others go on."""
    devices = [Device(each, rate) for each in site.enrolments]
    bad, good = [devices[i] for i in bad], [devices[i] for i in good]
    names = {each.enrolment.client for each in bad}
    calls = [(run_honest, good), *((run_flood, each, kind) for each in bad)]
    clock = RoundClock(float(site.site.epoch), site.site.interval, site.site.deadline)
    with children(*calls) as (honest, *floods):
        wait_for(lambda: serve.value("reported") >= len(good))
        for each in floods:
            each.pipe.send("go")
        first, end = clock.number(time.time()), time.time() + seconds
        memory, named = [], set()
        while time.time() < end or (named != names and time.time() < end + _PATIENCE):
            memory.append((serve.resident(), resident_bytes(site.broker.process.pid)))
            named |= {name for name in names if serve.value(f'suspended{{device="{name}"}}')}
            time.sleep(0.5)
        told = _told(site, names)
        last = clock.number(time.time()) - 1
        for each in (*floods, honest):
            each.pipe.send("stop")
        sent = sum(each.answer() for each in floods)
        honest.answer()
    wait_for(lambda: serve.value("last_round") >= last)
    heard, rows = _heard(site, good, range(first, last + 1))
    return Flooded(sent, heard, last + 1 - first, np.array(memory), named, rows, told)


def _told(site, names):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = doctor(site=site.folder)
    status, health = fetch(f"http://127.0.0.1:{site.site.metrics.port}/health")
    reader = open_reader(site.site.database, site.folder, site.site.key)
    seen = Snapshots(SiteView(site.folder), reader).now()
    reader.close()
    page = "\n".join(f"{each.short}. {each.words}" for each in seen.findings)
    said = {
        "doctor": (code == UNWELL, printed.getvalue()),
        "/health": (status == 503, health),
        "dashboard": (seen.level == BAD, page),
    }
    return {who for who, (bad, words) in said.items() if bad and _names(words, names)}


def _names(words, names):
    """Whether these devices are said to be suspended; of more than four, four are named."""
    if not re.search(r"\d devices? suspended", words):
        return False
    listed = re.findall(r"(\w+) \([^()]*\)", words)  # and why
    return names <= {*listed} or (len(listed) == 4 and "more. More came than" in words)


def _heard(site, devices, rounds):
    store = open_store(site.site.database, site.folder, site.site.key)
    closed = {each.round: each.closed for each in store.decisions(limit=100_000)}
    found = store._base.query("SELECT client, round, received FROM messages")
    rows = store._base.query("SELECT count(*) FROM messages GROUP BY client, round")
    store.close()
    honest = {each.enrolment.client for each in devices}
    heard = {
        (client, number)
        for client, number, received in found
        if client in honest and number in rounds and received <= closed.get(number, 0.0)
    }
    return len(heard) / (len(honest) * len(rounds)), max(count for (count,) in rows)
