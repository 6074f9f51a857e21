"""Mutated messages, sent by somebody with a certificate, while honest sensors go on."""

import random
import ssl
import time

from discreet.network import wire
from discreet.network.site.enrolment import load_enrolment
from discreet.network.site.settings import message_topic
from network_figures.home import Home, wait_until
from network_figures.raw_mqtt import UNDER_WAY, RawClient

_BEHIND = 20_000  # messages that the fusion centre may not have looked at yet


def mutate(payload, chance):
    """Return the payload with something wrong in it."""
    data = bytearray(payload)
    kind, place = chance.randrange(8), chance.randrange(len(data))
    if kind == 0:
        data[place] ^= 1 << chance.randrange(8)
    elif kind == 1:
        data[place] = chance.randrange(256)
    elif kind == 2:
        del data[place:]
    elif kind == 3:
        data[place:place] = chance.randbytes(chance.randrange(1, 40))
    elif kind == 4:
        data = data[place:] + data[:place]
    elif kind == 5:
        data[place:] = chance.randbytes(len(data) - place)
    elif kind == 6:
        data = bytearray(chance.randbytes(chance.randrange(0, 200)))
    else:
        other = chance.randrange(len(data))
        data[place], data[other] = data[other], data[place]
    return bytes(data) if data != payload else mutate(payload, chance)


def survive_mutations(folder, count, seed=0, say=lambda _: None):
    """Return the tally of the honest, what was accepted, what was refused, and if it ran on."""
    chance = random.Random(seed)
    home = Home(folder, sensors=3)
    hostile = home.names[-1]
    home.names = home.names[:-1]  # the last one does not run: its certificate is in hostile hands
    enrolment = load_enrolment(home.folder / f"{hostile}.enrol")
    with home:
        wait_until(lambda: home.count_stored() > 10, 60, "traffic")
        fusion = home.processes["fusion"]
        _send_all(home, enrolment, count, chance, say)
        wait_until(lambda: _refused(home) + _shed(home) >= count, 120, "the last message")
        home.settle()
        refused, alive = _refused(home), fusion.poll() is None
        accepted = sum(row[0] == hostile for row in home.stored()[0])
        home.stop("fusion")
        return home.tally(), accepted, refused, alive


def _send_all(home, enrolment, count, chance, say):
    topic, key = message_topic("home", enrolment.client), bytes.fromhex(enrolment.mac_key)
    client = _connect(home, enrolment)
    sent, seen, next_look = 0, 0, 0.0
    tag = wire.mapping_tag(enrolment.mapping)
    clock_round = int((time.time() - enrolment.epoch) / enrolment.interval)
    while sent < count:
        client.poll(0.01 if client.under_way >= UNDER_WAY // 2 else 0)
        if time.monotonic() > next_look:
            next_look = time.monotonic() + 0.5
            seen = _refused(home) + _shed(home)
            say(f"{sent} of {count} mutated messages sent")
        if sent - seen > _BEHIND:
            time.sleep(0.05)
            continue
        room = min(100, count - sent, UNDER_WAY - client.under_way)
        good = wire.Message(1, sent, clock_round, 0, b"\1", tag)
        data = wire.encode(good, key, topic)
        client.publish([(topic, mutate(data, chance)) for _ in range(max(0, room))])
        sent += max(0, room)
    while client.under_way:
        client.poll(0.05)
    client.close()


def _connect(home, enrolment):
    for name in ("certificate", "key", "ca"):
        (home.folder / f"hostile.{name}").write_text(getattr(enrolment, name))
    context = ssl.create_default_context(cafile=home.folder / "hostile.ca")
    context.load_cert_chain(home.folder / "hostile.certificate", home.folder / "hostile.key")
    return RawClient(enrolment.broker.port, enrolment.client, context=context, host="localhost")


def _refused(home):
    found = home.metrics()
    if not found:
        return 0
    return sum(n for reason, n in found["refused"].items() if reason not in ("late", "replay"))


def _shed(home):
    found = home.metrics()
    return found["shed"] if found else 0
