"""Devices of a site as it is in earnest: TLS, a certificate, rights and a connection for each."""

import selectors
import ssl
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from discreet.mapping.parts import AdditiveFusion
from discreet.network.broker import Broker
from discreet.network.site.joining import EnrolmentRequest, enroll
from discreet.network.site.settings import load_site
from discreet.network.store import open_reader
from discreet_sensor.enrolment import Enrolment, load_enrolment
from discreet_sensor.wire import (
    STORED,
    Message,
    ack_topic,
    decode_acknowledgement,
    encode,
    mapping_tag,
    message_topic,
)
from support.network_figures.generator import Sent
from support.network_figures.raw_mqtt import RawClient
from support.network_samples import make_mapping
from support.sites import make_site

_UNDER_WAY = 10  # messages of one device


@dataclass(frozen=True)
class DeviceLoad:
    """What one process sends, for some devices."""

    senders: list[Enrolment]
    each: int
    boot: int
    first_round: int
    bare: bool = False

    @property
    def port(self):
        return self.senders[0].broker.port


class SecureSite:
    """A site as ``discreet init`` and ``discreet enroll`` make it, with its broker."""

    def __init__(self, folder, devices, database=None, interval=0.05, deadline=2.0):
        names = [f"d{i}" for i in range(devices)]
        weights = tuple((-0.05, 0.05) for _ in names)
        mapping = make_mapping(AdditiveFusion(weights=weights, bias=0.0), names=names)
        folder.mkdir(parents=True)
        changes = {} if database is None else {"database": database}
        self.folder = make_site(folder, mapping, interval=interval, deadline=deadline, **changes)
        self.site, self.broker = load_site(self.folder), Broker.of_site(self.folder)
        self.enrolments = [self._enrol(folder, name) for name in names]
        parts = ("ca.crt", "fusion.crt", "fusion.key")
        self.tls = tuple(str(self.folder / "fusion" / part) for part in parts)

    def _enrol(self, folder, name):
        enroll(self.folder, EnrolmentRequest(name), folder / f"{name}.enrol")
        return load_enrolment(folder / f"{name}.enrol")

    def count_stored(self):
        reader = open_reader(self.site.database, self.folder, self.site.key)
        try:
            return sum(each.messages for each in reader.clients())
        finally:
            reader.close()

    def loads(self, processes, each, bare=False, **_):
        boot = time.time_ns()
        number = int((time.time() - self.site.epoch) / self.site.interval)
        parts = [self.enrolments[i::processes] for i in range(processes)]
        return [DeviceLoad(part, each, boot, number, bare) for part in parts]


class _Device:
    """One connection; without ``heard`` its acknowledgements are the broker's."""

    def __init__(self, enrolment, load):
        self._load, self._key = load, bytes.fromhex(enrolment.mac_key)
        self._topic = message_topic(enrolment.site, enrolment.client)
        self._ack_topic = ack_topic(enrolment.site, enrolment.client)
        self._tag = mapping_tag(enrolment.mapping)
        self.client = RawClient(
            enrolment.broker.port,
            enrolment.client,
            None if load.bare else self._ack_topic,
            context=tls_context(enrolment),
            host=enrolment.broker.host,
        )
        self.sent = self.stored = 0
        self._open = set()

    @property
    def done(self):
        return self.sent == self._load.each and not self._under_way

    @property
    def _under_way(self):
        return self.client.under_way if self._load.bare else len(self._open)

    def hear(self):
        for topic, payload in self.client.poll():
            for entry in decode_acknowledgement(payload, self._key, topic):
                run = set(range(entry.first, entry.first + entry.length)) & self._open
                self._open -= run
                self.stored += len(run) * (entry.status == STORED)

    def send(self):
        # The broker takes messages at once; a few at a time keep every device busy.
        room = min(_UNDER_WAY - self._under_way, self._load.each - self.sent)
        some = []
        for seq in range(self.sent, self.sent + room):
            message = Message(
                self._load.boot, seq, self._load.first_round + seq, 0, bytes([seq % 2]), self._tag
            )
            some.append((self._topic, encode(message, self._key, self._topic)))
            self._open.add(seq)
        if some:
            self.client.publish(some)
            self.sent += room


def tls_context(enrolment):
    with tempfile.TemporaryDirectory() as name:
        for part in ("certificate", "key", "ca"):
            (Path(name) / part).write_text(getattr(enrolment, part))
        context = ssl.create_default_context(cafile=f"{name}/ca")
        context.load_cert_chain(f"{name}/certificate", f"{name}/key")
    return context


def run_devices(load, pipe):
    """Run in a process of its own."""
    devices = [_Device(each, load) for each in load.senders]
    chosen = selectors.DefaultSelector()
    for each in devices:
        chosen.register(each.client, selectors.EVENT_READ, each)
    pipe.send("ready")
    pipe.recv()
    found = Sent(begin=time.time())
    for each in devices:
        each.send()
    left = len(devices)
    while left and time.time() < found.begin + 120:
        for key, _ in chosen.select(1.0):
            key.data.hear()
            key.data.send()
            if key.data.done:
                chosen.unregister(key.fileobj)
                left -= 1
    found.end = time.time()
    found.sent = sum(each.sent for each in devices)
    found.stored = sum(each.stored for each in devices)
    for each in devices:
        each.client.close()
    pipe.send(found)
