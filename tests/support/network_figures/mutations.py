"""Mutated messages, sent by somebody with a certificate, while honest sensors go on."""

import itertools
import random
import ssl
import time
from dataclasses import dataclass

from discreet.network.fusion.conduct import Conduct
from discreet.network.fusion.intake import Intake, Registry
from discreet.network.site.settings import SiteFiles
from discreet_sensor import wire
from discreet_sensor.enrolment import load_enrolment
from discreet_sensor.wire import RoundClock, message_topic
from support.network_figures.home import Home, wait_until
from support.network_figures.raw_mqtt import UNDER_WAY, RawClient

_BY_MAIL = 300  # by the broker; more would have the sender suspended
_BEHIND = 20_000  # messages that the fusion centre may not have looked at yet
_LOST_AFTER = 5.0  # seconds without progress after which what is missing is sent again
_PATIENCE = 60.0  # seconds


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
    """Have so many refused; return the tally of the honest and what became of the mutated."""
    home = Home(folder, sensors=3)
    hostile = home.names[-1]
    home.names = home.names[:-1]  # the last one does not run: its certificate is in hostile hands
    enrolment = load_enrolment(home.folder / f"{hostile}.enrol")
    with home:
        wait_until(lambda: home.count_stored() > 10, "traffic")
        fusion = home.processes["fusion"]
        sender = Sender(home, enrolment, random.Random(seed))
        sent = sender.send_until_refused(min(count, _BY_MAIL), say)
        home.settle()
        refused, alive = _refused(home), fusion.poll() is None
        more = count - min(count, _BY_MAIL)
        sent, refused = sent + more, refused + _refused_by_intake(home, sender, more)
        accepted = sum(row[0] == hostile for row in home.stored()[0])
        home.stop("fusion")
        return home.tally(), Mutated(sent, refused, accepted, alive)


@dataclass
class Mutated:
    """What became of mutated messages; ``alive`` tells if the fusion centre ran on."""

    sent: int
    refused: int
    accepted: int
    alive: bool

    def __str__(self):
        crashes = "0 crashes" if self.alive else "a crash"
        return f"{self.sent} sent, {self.refused} refused, {self.accepted} accepted, {crashes}"


class Sender:
    """Somebody with the certificate and the key of a sensor."""

    def __init__(self, home, enrolment, chance):
        self._home, self._enrolment, self._chance = home, enrolment, chance
        self.topic = message_topic("home", enrolment.client)
        self._key = bytes.fromhex(enrolment.mac_key)
        self._tag = wire.mapping_tag(enrolment.mapping)
        self._round = int((time.time() - enrolment.epoch) / enrolment.interval)
        self._client = _connect(home, enrolment)
        self._sent = 0

    def send_until_refused(self, count, say):
        """Send until so many were refused.

        A broker or a connection may lose messages, which an honest sensor would send again. So
        what is refused counts, not what is sent.
        """
        refused, progress = 0, time.monotonic()
        while refused < count:
            self._send(min(count, refused + _BEHIND))
            if (now := _refused(self._home)) > refused:
                refused, progress = now, time.monotonic()
                say(f"{self._sent} mutated messages sent, {refused} of {count} refused")
            elif time.monotonic() > progress + _PATIENCE:
                raise RuntimeError(f"{self._sent} sent, but only {refused} of {count} were refused")
            elif time.monotonic() > progress + _LOST_AFTER:
                self._send(self._sent + count - refused)
        self._client.close()
        return self._sent

    def mutated(self):
        good = wire.Message(1, self._sent, self._round, 0, b"\1", self._tag)
        return mutate(wire.encode(good, self._key, self.topic), self._chance)

    def _send(self, total):
        """Go on until so many were sent, and the broker has them."""
        end = time.monotonic() + 1.0
        while self._sent < total and time.monotonic() < end:
            self._client.poll(0.01 if self._client.under_way >= UNDER_WAY // 2 else 0)
            room = max(0, min(100, total - self._sent, UNDER_WAY - self._client.under_way))
            self._client.publish([(self.topic, self.mutated()) for _ in range(room)])
            self._sent += room
        while self._client.under_way and time.monotonic() < end:
            self._client.poll(0.05)


def _refused_by_intake(home, sender, count):
    """Give more to what examines messages, in this process; return how many it refused."""
    hours = itertools.count(step=3600.0)  # so that nobody is suspended
    registry = Registry(SiteFiles(home.site).clients, "home", home.mapping)
    clock = RoundClock(home.settings.epoch, home.settings.interval)
    conduct = Conduct(lambda: next(hours))
    intake = Intake(registry, clock, conduct=conduct)
    return sum(
        intake.take(sender.topic, sender.mutated(), time.time()) is None for _ in range(count)
    )


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
