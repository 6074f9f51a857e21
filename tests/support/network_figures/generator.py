"""A load generator: one process, one connection, messages of many clients.

It runs in a process of its own and speaks over a pipe: it says "ready" when it is connected, waits
for "go", and hands back what happened. Messages are made beforehand, so that the generator takes
as little of the machine as it can. Waiting for nothing but the broker it is the bare control.
"""

import multiprocessing
import select
import time
from collections import deque
from dataclasses import dataclass, field

import paho.mqtt.client as mqtt

from discreet_sensor.wire import STORED, Message, decode_acknowledgement, encode

SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Sender:
    """A client that the generator speaks for."""

    topic: str
    ack_topic: str
    key: bytes
    symbols: int
    batch: int = 1


@dataclass(frozen=True)
class Load:
    """What one generator sends.

    ``rate`` is in messages per second, None for: as fast as the window allows. ``window`` bounds
    what is sent and not acknowledged: by the fusion centre or, if ``bare``, by the broker.
    """

    port: int
    name: str
    senders: list[Sender]
    each: int
    boot: int
    first_round: int
    mapping: bytes
    window: int = 1000
    rate: float | None = None
    bare: bool = False
    patience: float = 60.0
    retry: float | None = None


@dataclass
class Sent:
    """What became of it."""

    begin: float = 0.0
    end: float = 0.0
    sent: int = 0
    stored: int = 0
    refused: int = 0
    repeated: int = 0
    acknowledged: list[tuple[str, int]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)


def messages(load):
    """Topic, number and payload of everything to send, one message of each client after another."""
    for seq in range(load.each):
        for sender in load.senders:
            symbols = (b"\0\1" * (sender.symbols // 2 + 1))[seq % 2 :][: sender.symbols]
            number = (load.first_round // sender.batch + seq) * sender.batch
            message = Message(load.boot, seq, number, 0, symbols, load.mapping)
            yield sender.topic, seq, encode(message, sender.key, sender.topic)


class Generator:
    def __init__(self, load):
        self.load, self.sent = load, Sent()
        self.queue = deque(messages(load))
        self.open = {}  # (topic, seq) -> when sent
        self.keys = {each.ack_topic: each for each in load.senders}
        self.granted = not load.senders or load.bare
        self.client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, client_id=load.name, protocol=mqtt.MQTTv5
        )
        self.client.max_inflight_messages_set(65535 if not load.bare else load.window)
        self.client.on_connect = self._connected
        self.client.on_subscribe = lambda *_: setattr(self, "granted", True)
        self.client.on_message = self._heard
        self.client.on_publish = self._published
        self.under_way = 0

    def _connected(self, client, *_):
        if not self.load.bare:
            client.subscribe([(topic, 0) for topic in self.keys])

    def _published(self, *_):
        if self.load.bare:
            self.under_way -= 1

    def _heard(self, _, __, message):
        sender = self.keys[message.topic]
        now = time.time()
        for entry in decode_acknowledgement(bytes(message.payload), sender.key, message.topic):
            for seq in range(entry.first, entry.first + entry.length):
                began = self.open.pop((sender.topic, seq), None)
                if began is None:
                    self.sent.repeated += 1
                    continue
                self.under_way -= 1
                if entry.status == STORED:
                    self.sent.stored += 1
                    self.sent.acknowledged.append((sender.topic, seq))
                    self.sent.waits.append(now - began)
                else:
                    self.sent.refused += 1

    def connect(self):
        self.client.connect("127.0.0.1", self.load.port)
        while not (self.client.is_connected() and self.granted):
            self.client.loop(0.05)

    def run(self):
        """Send everything, and wait until it is acknowledged or patience ends."""
        load, sent = self.load, self.sent
        sent.begin = sent.end = time.time()
        while self.queue or self.under_way:
            now = time.time()
            if not self.queue and now > sent.end + load.patience:
                break
            for _ in range(self._room(now)):
                topic, seq, payload = self.queue.popleft()
                if not load.bare:
                    self.open[topic, seq] = now
                self.client.publish(topic, payload, qos=1)
                sent.sent += 1
                self.under_way += 1
            if self.queue:
                sent.end = now
            self._turn()
            if not self.under_way:
                sent.end = time.time()
        self.client.disconnect()
        return sent

    def _room(self, now):
        room = min(self.load.window - self.under_way, len(self.queue), 50)
        if self.load.rate is not None:
            room = min(room, int((now - self.sent.begin) * self.load.rate) - self.sent.sent)
        return max(0, room)

    def _turn(self):
        sock = self.client.socket()
        if sock is None:
            raise ConnectionError("the broker has gone")
        quick = self.queue and self.under_way < self.load.window and self.load.rate is None
        readable, _, _ = select.select([sock], [], [], 0.0 if quick else 0.002)
        if readable:
            self.client.loop_read()
        if self.client.want_write():
            self.client.loop_write()
        self.client.loop_misc()


def generate(load, pipe):
    """Run in a process of its own."""
    generator = Generator(load)
    generator.connect()
    pipe.send("ready")
    pipe.recv()
    pipe.send(generator.run())


def listen(port, topic, tls, pipe):
    """Be the bare subscriber that the fusion centre is compared with: paho, as it comes.

    ``tls`` has the files of authority, certificate and key, if any.
    """
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    if tls:
        client.tls_set(*tls)
    count, wanted, granted = 0, float("inf"), False

    def heard(*_):
        nonlocal count
        count += 1
        if count == wanted:
            client.disconnect()

    def subscribed(*_):
        nonlocal granted
        granted = True

    client.on_message, client.on_subscribe = heard, subscribed
    client.on_connect = lambda *_: client.subscribe(topic, qos=1)
    client.connect("localhost" if tls else "127.0.0.1", port)
    while not granted:
        client.loop(0.05)
    pipe.send("ready")
    wanted, begun = pipe.recv(), time.process_time()
    client.loop_forever()
    pipe.send((time.time(), count, time.process_time() - begun))
