"""Everything an intruder tries at a site's broker, and what it gets; any number of times.

The tests run it once, ``research.benchmarks.network.intruder`` many times. While it goes on a
sensor sends, the fusion centre answers, and both must notice nothing.
"""

import contextlib
import itertools
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from discreet.network.broker import Broker
from discreet.network.site.authority import Authority, load_authority, make_authority
from discreet.network.site.joining import EnrolmentRequest, enroll, enroll_observer
from discreet.network.site.removing_devices import revoke
from discreet.network.site.settings import load_site
from discreet_sensor.enrolment import load_enrolment
from support.sites import Visitor, eventually, fusion_visitor, visitor_of

TOPICS = "discreet/v1/home"
SPOOFED = [
    f"{TOPICS}/hall/z",
    f"{TOPICS}/hall/ack",
    f"{TOPICS}/door/ack",
    f"{TOPICS}/door/z/more",
    f"{TOPICS}/fusion/z",
    f"{TOPICS}/decision",
    "discreet/v1/other/door/z",
    "homeassistant/binary_sensor/forged/config",
]
WILDCARDS = [
    "#",
    "+/#",
    "+/+/+/+/+",
    "discreet/#",
    f"{TOPICS}/+/z",
    f"{TOPICS}/+/ack",
    f"{TOPICS}/hall/z",
    f"{TOPICS}/decision",
    f"$share/thieves/{TOPICS}/+/z",
    f"$share/fusion/{TOPICS}/hall/z",
    "$SYS/#",
    "homeassistant/#",
]


@dataclass(frozen=True)
class Tried:
    """What was tried how often, how much was accepted, and how many messages were read."""

    what: str
    attempts: int
    accepted: int
    read: int = 0


class Stage:
    """A site with a broker, an honest sensor (hall) that sends all the time, and a crook (door).

    The crook is enrolled, so that it has every right a sensor has; ``victim`` is revoked.
    """

    def __init__(self, site: Path, scratch: Path) -> None:
        self.site, self.scratch = site, scratch
        self.port = load_site(site).broker.port
        self.broker = Broker.of_site(site)
        self.authority = load_authority(site)
        self.hall, self.door = self._enrol("hall"), self._enrol("door")
        self._done = threading.Event()
        self._count = itertools.count()
        self.sent: list[bytes] = []
        self.cut_after: list[float] = []  # seconds from a revocation's start to a cut session

    def _enrol(self, name):
        file = self.scratch / f"{name}.enrol"
        enroll(self.site, EnrolmentRequest(name), file)
        return load_enrolment(file)

    def __enter__(self):
        self.broker.start()
        self.fusion = fusion_visitor(self.site)
        self.sensor = visitor_of(self.site, self.hall, self.scratch)
        assert self.fusion.connect(self.port) and self.sensor.connect(self.port)
        self.fusion.subscribe(f"{TOPICS}/+/z")
        self.sensor.subscribe(f"{TOPICS}/hall/ack")
        self._traffic = threading.Thread(target=self._send)
        self._traffic.start()
        assert eventually(lambda: self.fusion.messages)
        return self

    def be_quiet(self):
        """End the honest traffic."""
        self._done.set()
        self._traffic.join()

    def __exit__(self, *_):
        self.be_quiet()
        for each in (self.fusion, self.sensor):
            each.leave()
        self.broker.stop()

    def _send(self):
        while not self._done.wait(0.02):
            payload = b"honest %d" % next(self._count)
            self.sent.append(payload)
            self.sensor.publish(f"{TOPICS}/hall/z", payload)
            self.fusion.publish(f"{TOPICS}/hall/ack", b"ack")
            self.fusion.publish(f"{TOPICS}/decision", b"decision")

    def let_pass(self, count=3):
        """Wait until more honest messages have gone through, so that there was some to read."""
        goal = len(self.fusion.messages) + count
        assert eventually(lambda: len(self.fusion.messages) >= goal), "honest traffic stands still"

    def visitor(self, name, issued=None, **more) -> Visitor:
        """A visitor with a certificate that was just made, or with none."""
        if issued is None:
            return Visitor(self.site, name, **more)
        number = next(self._count)
        files = [self.scratch / f"visitor-{number}.{end}" for end in ("crt", "key")]
        for file, data in zip(files, (issued.certificate, issued.key), strict=True):
            file.write_bytes(data)
        return Visitor(self.site, name, *files, **more)

    @property
    def honest(self) -> bool:
        """Whether the honest have noticed nothing: no session cut, no message but their own."""
        alone = all(payload.startswith(b"honest") for _, payload in self.fusion.messages)
        answers = all(payload == b"ack" for _, payload in self.sensor.messages)
        return alone and answers and (self.fusion.drops, self.sensor.drops) == (0, 0)


def _doors(stage, what, visitors) -> Tried:
    """Let each visitor knock, ask for everything and say something."""
    let_in, read = 0, 0
    for visitor in visitors:
        let_in += visitor.connect(stage.port)
        with contextlib.suppress(ValueError, OSError):
            visitor.subscribe("#")
            visitor.publish(f"{TOPICS}/hall/z", b"forged")
        read += len(visitor.messages)
        visitor.leave()
    stage.let_pass()
    forged = sum(payload == b"forged" for _, payload in stage.fusion.messages)
    return Tried(what, len(visitors), let_in + forged, read)


def without_certificate(stage: Stage, times: int) -> Tried:
    visitors = [Visitor(stage.site, "hall", tls=tls) for tls in (True, False) for _ in range(times)]
    return _doors(stage, "no certificate, with and without TLS", visitors)


def foreign(stage: Stage, times: int) -> Tried:
    """Certificates of another authority that calls itself by the same name."""
    other = Authority(*make_authority("home"))
    names = ("hall", "door", "fusion")
    made = [(name, other.issue_client(name)) for name in names for _ in range(times)]
    return _doors(stage, "foreign certificate", [stage.visitor(*each) for each in made])


def expired(stage: Stage, times: int) -> Tried:
    past, day = datetime.now(UTC) - timedelta(days=30), timedelta(days=1)
    future = datetime.now(UTC) + day
    made = [stage.authority.issue_client("hall", start=past, valid=day) for _ in range(times)]
    made += [stage.authority.issue_client("hall", start=future, valid=day) for _ in range(times)]
    return _doors(stage, "expired, or not yet good", [stage.visitor("hall", each) for each in made])


def revoked(stage: Stage, times: int) -> Tried:
    """A device that is revoked while it is connected and sends; then it knocks again."""
    let_in = read = 0
    for number in range(times):
        name = f"victim-{number}"
        file = stage.scratch / f"{name}.enrol"
        enroll(
            stage.site, EnrolmentRequest("door", renew=True), stage.scratch / f"door-{number}.enrol"
        )
        stage.door = load_enrolment(stage.scratch / f"door-{number}.enrol")
        victim = visitor_of(stage.site, stage.door, stage.scratch)
        assert victim.connect(stage.port)
        victim.publish(f"{TOPICS}/door/z", b"honest, still")
        assert eventually(lambda: (f"{TOPICS}/door/z", b"honest, still") in stage.fusion.messages)
        began = time.monotonic()
        assert revoke(stage.site, "door").outcome == "out"
        if victim.closed.wait(60):
            stage.cut_after.append(time.monotonic() - began)
        victim.publish(f"{TOPICS}/door/z", b"forged")
        victim.subscribe(f"{TOPICS}/door/ack")
        stage.fusion.publish(f"{TOPICS}/door/ack", b"secret")
        stage.let_pass()
        let_in += not victim.closed.is_set()
        again = visitor_of(stage.site, stage.door, stage.scratch)
        let_in += again.connect(stage.port)
        read += len(victim.messages) + len(again.messages)
        for each in (victim, again):
            each.leave()
        enroll(stage.site, EnrolmentRequest("door"), file)
        stage.door = load_enrolment(file)
    forged = sum(payload == b"forged" for _, payload in stage.fusion.messages)
    return Tried("revoked while connected, then knocking again", 2 * times, let_in + forged, read)


def spoofed(stage: Stage, times: int) -> Tried:
    """An enrolled device that writes where others write, also by its will and with retain."""
    watcher = _watch(stage)
    for number in range(times):
        crook = visitor_of(stage.site, stage.door, stage.scratch)
        crook.client.will_set(SPOOFED[number % len(SPOOFED)], b"forged", qos=1, retain=True)
        assert crook.connect(stage.port)
        sent = [
            crook.client.publish(topic, b"forged", qos=1, retain=retain)
            for topic in SPOOFED
            for retain in (False, True)
        ]
        assert eventually(lambda sent=sent: all(each.is_published() for each in sent))
        crook.client._sock_close()  # so that the will is published
        crook.leave()
    stage.let_pass()
    watcher.leave()
    later = _watch(stage)  # is sent what was retained
    stage.let_pass()
    later.leave()
    heard = [*stage.fusion.messages, *stage.sensor.messages, *watcher.messages, *later.messages]
    tried = times * (2 * len(SPOOFED) + 1)
    return Tried("spoofed topic, retained, will", tried, sum(p == b"forged" for _, p in heard))


def _watch(stage) -> Visitor:
    """An observer that reads the decision and the discovery of Home Assistant."""
    folder = stage.scratch / "watcher"
    if not folder.exists():
        enroll_observer(stage.site, "watcher", folder)
    watcher = Visitor(stage.site, "watcher", folder / "watcher.crt", folder / "watcher.key")
    assert watcher.connect(stage.port)

    def hears() -> bool:  # a subscription before the broker has read the rights hears nothing
        for topic in (f"{TOPICS}/decision", "homeassistant/#"):
            watcher.subscribe(topic)
        return eventually(lambda: watcher.messages, 3.0)

    assert any(hears() for _ in range(20)), "the rights of the observer are not in force"
    return watcher


def wildcards(stage: Stage, times: int) -> Tried:
    """An enrolled device that subscribes to everything. What counts is what it is sent."""
    read = 0
    for _ in range(times):
        crook = visitor_of(stage.site, stage.door, stage.scratch)
        assert crook.connect(stage.port)
        for topic in WILDCARDS:
            crook.subscribe(topic)
        stage.let_pass(10)
        read += len(crook.messages)
        crook.leave()
    return Tried("wildcard subscription, by what is delivered", times * len(WILDCARDS), 0, read)


def other_names(stage: Stage, times: int) -> Tried:
    """An enrolled device that calls itself by another's name, to take its session or rights."""
    before = stage.fusion.drops, stage.sensor.drops
    taken = read = 0
    for number in range(times):
        name = ("fusion", "hall")[number % 2]
        crook = visitor_of(stage.site, stage.door, stage.scratch, client_id=name)
        crook.client.username_pw_set(name, "password")
        crook.connect(stage.port)
        crook.subscribe(f"{TOPICS}/+/z")
        crook.publish(f"{TOPICS}/hall/z", b"forged")
        stage.let_pass()
        read += len(crook.messages)
        crook.leave()
    forged = sum(payload == b"forged" for _, payload in stage.fusion.messages)
    taken = stage.fusion.drops - before[0] + stage.sensor.drops - before[1]
    return Tried("another's client id and user name", times, taken + forged, read)


def control(stage: Stage) -> Tried:
    """The honest trying the same: what the counters show when somebody is let in and may read."""
    hall, fusion = visitor_of(stage.site, stage.hall, stage.scratch), fusion_visitor(stage.site)
    let_in = hall.connect(stage.port) + fusion.connect(stage.port)
    fusion.subscribe("#")
    hall.publish(f"{TOPICS}/hall/z", b"by hall")
    eventually(lambda: fusion.messages)
    for each in (hall, fusion):
        each.leave()
    return Tried("control: good certificates", 2, let_in, len(fusion.messages))


ALL = [without_certificate, foreign, expired, revoked, spoofed, wildcards, other_names]
