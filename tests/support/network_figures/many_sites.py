"""Many sites on one PostgreSQL: one process serves them, one sends for all devices."""

import resource
import secrets
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import paho.mqtt.client as mqtt

from discreet.files import PRIVATE, write_whole
from discreet.mapping.mapping import Mapping
from discreet.mapping.parts import AdditiveFusion
from discreet.network.broker import Broker
from discreet.network.fusion.hosting import Together, in_parts
from discreet.network.fusion.intake import Registry
from discreet.network.fusion.service import FusionService, FusionSettings
from discreet.network.site.settings import Client, Clients, model_bytes
from discreet.network.store import open_reader, open_store
from discreet_sensor.connecting import BrokerAddress
from discreet_sensor.wire import (
    STORED,
    Message,
    RoundClock,
    decode_acknowledgement,
    encode,
    mapping_tag,
    message_topic,
)
from support.network_figures.generator import SPAWN
from support.network_samples import make_mapping

RETRY = 30.0
SPREAD = 5.0
"""Seconds after the end of a round within which devices send."""


@dataclass(frozen=True)
class ManySites:
    """What became of the messages; ``delays``: of decisions after the deadline, in seconds."""

    sites: int
    sensors: int
    sent: int
    acknowledged: int
    stored: int
    decided: int
    heard: float
    delays: tuple[float, ...]
    cpu: float
    seconds: float
    megabytes: float

    @property
    def lost(self):
        return self.sent - min(self.acknowledged, self.stored)


def write_sites(folder, sites, sensors):
    """Write mapping and clients; return the key of each device by its topic."""
    names = [f"sensor-{i}" for i in range(sensors)]
    weights = tuple((-0.05, 0.05) for _ in names)
    make_mapping(AdditiveFusion(weights=weights, bias=0.0), names=names).save(folder / "home.json")
    keys = {}
    for k in range(sites):
        clients = {
            name: Client(
                sensors=(name,), key=secrets.token_hex(32), serial="01", enrolled=datetime.now(UTC)
            )
            for name in names
        }
        write_whole(folder / f"{k}.json", model_bytes(Clients(clients=clients)), PRIVATE)
        for name, each in clients.items():
            keys[message_topic(f"site-{k}", name)] = bytes.fromhex(each.key)
    return keys


def serve(folder, sites, clock, port, url, pipe):
    """Serve all sites, in a process of its own, until the pipe says so."""
    mapping = Mapping.load(Path(folder) / "home.json")

    def make(k, shared):
        name = f"site-{k}"
        return FusionService(
            FusionSettings(name, clock, BrokerAddress("127.0.0.1", port), name=f"fusion-{k}"),
            mapping,
            Registry(Path(folder) / f"{k}.json", name, mapping),
            open_store(url, Path(folder), name, shared),
        )

    makers = [lambda shared, k=k: make(k, shared) for k in range(sites)]
    hosted = Together(in_parts(makers))
    thread = threading.Thread(target=hosted.run)
    thread.start()
    while not all(each._link.listening for each in hosted.services):
        time.sleep(0.2)
    pipe.send("ready")
    begun = time.process_time()
    pipe.recv()
    used = time.process_time() - begun
    hosted.stop()
    thread.join()
    pipe.send((used, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


class Devices:
    """All devices of all sites, on one connection."""

    def __init__(self, port, keys, clock, tag):
        self.keys, self.clock, self.tag = keys, clock, tag
        self.waiting, self.acknowledged = {}, Counter()
        self.sent = 0
        self.client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, client_id="devices", protocol=mqtt.MQTTv5
        )
        self.client.max_inflight_messages_set(65535)
        self.client.on_message = self._heard
        self.granted = False
        self.client.on_subscribe = lambda *_: setattr(self, "granted", True)
        self.client.connect("127.0.0.1", port)
        self.client.subscribe("discreet/v1/+/+/ack")
        self.pump(lambda: self.granted)

    def pump(self, done, until=float("inf")):
        while not done() and time.time() < until:
            self.client.loop(0.02)

    def _heard(self, _, __, message):
        topic = message.topic.removesuffix("ack") + "z"
        for entry in decode_acknowledgement(
            bytes(message.payload), self.keys[topic], message.topic
        ):
            for seq in range(entry.first, entry.first + entry.length):
                if self.waiting.pop((topic, seq), None) and entry.status == STORED:
                    self.acknowledged[topic] += 1

    def send_round(self, number, seq):
        """Send a message of every device, spread over some seconds."""
        start, count = self.clock.end(number), len(self.keys)
        for k, (topic, key) in enumerate(self.keys.items()):
            due = start + min(SPREAD, self.clock.interval / 2) * k / count
            self.pump(lambda: False, due)
            symbols = bytes([(k + seq) % 2])
            sealed = encode(Message(1, seq, number, 0, symbols, self.tag), key, topic)
            self.waiting[topic, seq] = [time.time(), sealed]
            self.client.publish(topic, sealed, qos=1)
            self.sent += 1

    def deliver(self, until):
        """Retry what is not acknowledged, as devices do."""
        while self.waiting and time.time() < until:
            for (topic, _), each in list(self.waiting.items()):
                if time.time() - each[0] > RETRY:
                    each[0] = time.time()
                    self.client.publish(topic, each[1], qos=1)
            self.pump(lambda: not self.waiting, time.time() + 1.0)


def run_many_sites(
    folder, url, *, sites, sensors, interval, rounds, deadline=15.0, say=lambda _: None
):
    """Let many sites run for some rounds, and count what became of the messages."""
    keys = write_sites(folder, sites, sensors)
    epoch = int(time.time()) - 3600
    clock = RoundClock(float(epoch - epoch % max(1, int(interval))), interval, deadline)
    tag = mapping_tag(Mapping.load(folder / "home.json").id)
    with Broker.plain(folder / "broker") as broker:
        ours, theirs = SPAWN.Pipe()
        host = SPAWN.Process(target=serve, args=(folder, sites, clock, broker.port, url, theirs))
        host.start()
        ours.recv()
        devices, begun = Devices(broker.port, keys, clock, tag), time.time()
        first = clock.number(begun) + 1
        for seq in range(rounds):
            devices.send_round(first + seq, seq)
            say(f"round {seq + 1} of {rounds}: {devices.sent} sent, {len(devices.waiting)} open")
        devices.deliver(time.time() + 300)
        last = first + rounds - 1
        _wait_for_decisions(folder, url, sites, last, say)
        ours.send("stop")
        cpu, megabytes = ours.recv()
        host.join()
    seconds = time.time() - begun
    with closing(open_reader(url, folder, "")) as shared:
        readers = [open_reader(url, folder, f"site-{k}", shared) for k in range(sites)]
        found = [_site(reader, clock, first, last) for reader in readers]
    heard = [each for site in found for each in site[1]]
    delays = tuple(sorted(each for site in found for each in site[2]))
    return ManySites(
        sites, sensors, devices.sent, sum(devices.acknowledged.values()),
        sum(site[0] for site in found), len(delays),
        float(np.mean(heard)) / sensors if heard else 0.0, delays, cpu, seconds, megabytes,
    )  # fmt: skip


def _wait_for_decisions(folder, url, sites, last, say):
    """Wait until the last round is decided everywhere."""
    reader, end = open_reader(url, folder, ""), time.time() + 300
    sql = "SELECT count(*) FROM decisions WHERE round = ?"
    while (count := reader._base.query(sql, (last,))[0][0]) < sites and time.time() < end:
        say(f"{count} of {sites} have decided the last round")
        time.sleep(1.0)
    reader.close()


def _site(reader, clock, first, last):
    """Return how many messages a site has, what its rounds heard, and how late they were closed."""
    ((stored,),) = reader._base.query(
        "SELECT count(*) FROM messages WHERE site = ?", (reader.site,)
    )
    ours = [each for each in reader.decisions(limit=10_000) if first <= each.round <= last]
    heard = [each.reported for each in ours]
    return stored, heard, [each.closed - clock.closes(each.round) for each in ours]
