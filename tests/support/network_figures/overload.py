"""Far more messages than the fusion centre can commit, and what becomes of them.

On one machine the broker is not ten times faster than the fusion centre. So the fusion centre gets
what the others leave of the processors, as if it ran on a smaller machine.
"""

import os
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from discreet.network.broker import CONFIG, Broker
from discreet.network.store import open_store
from discreet_sensor.wire import (
    STORED,
    Message,
    WireError,
    decode_acknowledgement,
    encode,
    mapping_tag,
)
from support.network_figures.load import LoadSite, Serve, children, resident_bytes
from support.network_figures.raw_mqtt import UNDER_WAY, RawClient

_SAMPLES = 8  # at least, of memory: a slowed process answers slowly
_LOOKS = 10  # without a change, after which nothing more is waited for
_TURN = 0.05  # seconds of a slowed process, stopped and running
_AHEAD = 5.0  # seconds by which the rounds of messages may be ahead of the clock


@dataclass
class Flood:
    """What one generator sends: as much as the broker takes, for some seconds.

    Afterwards it says how many those were, and listens to acknowledgements until it is told to end.
    """

    port: int
    name: str
    senders: list
    mapping: bytes
    epoch: float
    interval: float
    seconds: float


def flood(plan, pipe):
    """Run in a process of its own; hands back how many were sent, then which acknowledged."""
    site = plan.senders[0].topic.split("/")[2]
    client = RawClient(plan.port, plan.name, f"discreet/v1/{site}/+/ack")
    pipe.send("ready")
    pipe.recv()
    boot, acknowledged, sent = time.time_ns(), set(), 0
    keys = {each.ack_topic: each for each in plan.senders}
    end = time.time() + plan.seconds
    number, seq = int((time.time() - plan.epoch) / plan.interval), 0
    turn = iter(())
    while (now := time.time()) < end:
        _note(client.poll(0.002 if client.under_way >= UNDER_WAY else 0), keys, boot, acknowledged)
        if plan.epoch + number * plan.interval > now + _AHEAD:
            time.sleep(0.001)
            continue
        some = []
        while len(some) < min(100, UNDER_WAY - client.under_way):
            sender = next(turn, None)
            if sender is None:
                turn, seq, number = iter(plan.senders), seq + 1, number + 1
                continue
            message = Message(boot, seq, number, 0, b"\1" * sender.symbols, plan.mapping)
            some.append((sender.topic, encode(message, sender.key, sender.topic)))
        client.publish(some)
        sent += len(some)
    pipe.send(sent)
    while (found := client.poll(0.5)) or not pipe.poll():
        _note(found, keys, boot, acknowledged)
    client.close()
    pipe.send(acknowledged)


def _note(found, keys, boot, acknowledged):
    """Note what was acknowledged; every generator hears the acknowledgements of all."""
    for topic, payload in found:
        sender = keys.get(topic)
        if sender is None:
            continue
        try:
            entries = decode_acknowledgement(payload, sender.key, topic)
        except WireError:
            continue
        client = topic.split("/")[3]
        for each in entries:
            if each.status == STORED and each.boot == boot:
                run = range(each.first, each.first + each.length)
                acknowledged.update((client, boot, seq) for seq in run)


@dataclass
class Overloaded:
    """What happened.

    ``samples`` are rows of seconds, resident bytes of fusion and broker, messages stored and
    waiting.
    """

    sent: int
    seconds: float
    acknowledged: int
    lost: int
    stored: int
    shed: int
    samples: np.ndarray

    @property
    def factor(self):
        """How many times what was committed meanwhile was sent."""
        return self.sent / max(1.0, self.samples[-1, 3] - self.samples[0, 3])

    @property
    def growth(self):
        """Resident bytes of the fusion centre, last quarter against the second, as a share."""
        memory = self.samples[:, 1]
        quarter = len(memory) // 4
        return memory[-quarter:].mean() / memory[quarter : 2 * quarter].mean() - 1

    @property
    def uncounted(self):
        """Messages that neither are in the database nor were counted as shed."""
        return max(0, self.sent - self.stored - self.shed)


@contextmanager
def slowed(pid, idle):
    """Let a process run only part of the time, in short turns, as if its machine were slower."""
    ended = threading.Event()

    def take_turns():
        while idle and not ended.is_set():
            os.kill(pid, signal.SIGSTOP)
            ended.wait(_TURN * idle)
            os.kill(pid, signal.SIGCONT)
            ended.wait(_TURN * (1 - idle))

    turns = threading.Thread(target=take_turns)
    turns.start()
    try:
        yield
    finally:
        ended.set()
        turns.join()


def overload(
    folder,
    seconds,
    *,
    clients=1000,
    processes=2,
    nice=15,
    idle=0.0,
    say=lambda _: None,
):
    """Flood a site for some seconds and return what happened.

    Meanwhile the fusion centre is stopped for the share ``idle`` of the time.
    """
    broker = Broker.plain(folder / "broker")
    config = folder / "broker" / CONFIG
    config.write_text(config.read_text() + "sys_interval 1\n")
    with broker:
        site = LoadSite(folder / "site", broker.port, clients=clients, interval=0.02)
        with Serve(site, nice) as serve:
            senders = site.senders()
            plans = [
                Flood(
                    *(broker.port, f"flood-{i}", senders[i::processes]),
                    *(
                        mapping_tag(site.mapping.id),
                        site.site.epoch,
                        site.site.interval,
                        seconds,
                    ),
                )
                for i in range(processes)
            ]
            with children(*((flood, plan) for plan in plans)) as found:
                for child in found:
                    child.pipe.send("go")
                with slowed(serve.process.pid, idle):
                    samples = _watch(serve, broker, seconds, say)
                total = sum(child.answer(seconds + 120) for child in found)
                _drained(serve, total, say)
                for child in found:
                    child.pipe.send("end")
                acknowledged = set().union(*(child.answer(120) for child in found))
            shed = int(serve.value("shed_total"))
        return _account(site, total, seconds, acknowledged, shed, samples)


def _watch(serve, broker, seconds, say):
    begin, samples = time.time(), []
    while (now := time.time()) < begin + seconds or len(samples) < _SAMPLES:
        memory = serve.resident(), resident_bytes(broker.process.pid)
        counts = serve.value("messages_total"), serve.value("queue")
        if None not in counts:
            samples.append((now - begin, *memory, *counts))
        say(f"{now - begin:.0f} of {seconds:.0f} s")
        time.sleep(min(0.5, seconds / 20))
    return np.array(samples)


def _drained(serve, total, say):
    """Wait until what waits at the broker is committed and what was dropped is counted."""
    end, before, looks = time.time() + 300, None, 0
    while time.time() < end and looks < _LOOKS:
        time.sleep(2.0)  # longer than the broker takes to tell what it dropped
        now = serve.value("messages_total"), serve.value("shed_total")
        if None in now:
            continue
        say(f"{now[0]:.0f} of {total} committed, {now[1]:.0f} shed")
        if sum(now) >= total:
            return
        looks, before = (looks + 1 if now == before else 0), now


def _account(site, total, seconds, acknowledged, shed, samples):
    store = open_store(site.site.database, site.folder, site.name)
    stored = {row[:3] for row in store.messages(0, 2**32)}
    store.close()
    lost = len(acknowledged - stored)
    return Overloaded(total, seconds, len(acknowledged), lost, len(stored), shed, samples)
