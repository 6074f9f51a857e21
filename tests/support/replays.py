"""A capture of honest messages, played back in every way: the fusion centre must store none again.

The capture is what somebody sees who has broken into the broker's machine: the very bytes, of
which each was acknowledged once.
"""

import threading
import time
from pathlib import Path

from discreet.mapping.mapping import Mapping
from discreet.network.broker import Broker
from discreet.network.fusion.hosting import fusion_settings
from discreet.network.fusion.intake import Registry
from discreet.network.site.joining import EnrolmentRequest, enroll
from discreet.network.site.removing_devices import revoke
from discreet.network.site.settings import SiteFiles, load_site
from discreet.network.store import open_reader, open_store
from discreet_sensor import wire
from discreet_sensor.enrolment import load_enrolment
from support.intruders import TOPICS, Tried
from support.network_sites import ListeningService
from support.sites import eventually, make_site, visitor_of

_INTERVAL = 0.05


class Fusion:
    """The fusion centre of a site, in a thread."""

    def __init__(self, folder: Path) -> None:
        site, mapping = load_site(folder), Mapping.load(folder / "mapping.json")
        store = open_store(site.database, folder, site.key)
        store.prepare()  # whoever looks what is stored may look before the thread has begun
        registry = Registry(SiteFiles(folder).clients, site.site, mapping)
        settings = fusion_settings(folder)
        self.service = ListeningService(settings, mapping, registry, store)
        self._thread = threading.Thread(target=self.service.run)

    def __enter__(self):
        self._thread.start()
        assert eventually(lambda: self.service.listening)
        return self

    def __exit__(self, *_):
        self.service.stop()
        self._thread.join(60)
        assert not self._thread.is_alive()


def stored(folder: Path) -> list:
    """Everything that the fusion centre has stored."""
    site = load_site(folder)
    store = open_store(site.database, folder, site.key)
    try:
        return store.messages(0, 2**32)
    finally:
        store.close()


def refusals(folder: Path) -> dict[tuple[str, str], int]:
    """How often messages of a client were refused for a reason."""
    site = load_site(folder)
    reader = open_reader(site.database, folder, site.key)
    try:
        return {(each.client, each.reason): each.times for each in reader.refused()}
    finally:
        reader.close()


def replayed(scratch: Path, count: int) -> tuple[Tried, dict[tuple[str, str], int]]:
    """Send honest messages, play them back in every way, and return what came of it."""
    folder = make_site(scratch, interval=_INTERVAL, deadline=60.0)
    content = {}
    for name in ("hall", "door"):
        enroll(folder, EnrolmentRequest(name), scratch / f"{name}.enrol")
        content[name] = load_enrolment(scratch / f"{name}.enrol")
    time.sleep((count + 5) * _INTERVAL)  # so that the rounds of the capture are over
    hall, port = content["hall"], load_site(folder).broker.port
    capture = [_message(hall, number) for number in range(count)]
    topic = f"{TOPICS}/hall/z"
    with Broker.of_site(folder):
        thief, crook = (visitor_of(folder, content[name], scratch) for name in ("hall", "door"))
        assert thief.connect(port) and crook.connect(port)
        with Fusion(folder):
            for payload in capture:
                thief.publish(topic, payload)
            assert eventually(lambda: len(stored(folder)) == count)
            honest = stored(folder)
            tried = _play(thief, topic, capture) + _play(thief, topic, capture[::-1])
            tried += _play(crook, topic, capture)  # where it may not write
            tried += _play(crook, f"{TOPICS}/door/z", capture)  # as if they were its own
            tried += _play(thief, topic, [_renumbered(each) for each in capture])
            _judged(folder, 4 * count)  # all but what the broker kept out
        with Fusion(folder):  # which has forgotten nothing
            tried += _play(thief, topic, capture)
            _judged(folder, 5 * count)
            assert revoke(folder, "hall").outcome == "out"
            tried += _play(thief, topic, capture)
            time.sleep(1.0)
        accepted = (
            len(stored(folder))
            - len(honest)
            + sum(now != before for now, before in zip(stored(folder), honest, strict=False))
        )
        for each in (thief, crook):
            each.leave()
    return Tried("replayed capture", tried, accepted), refusals(folder)


def _message(content, number: int) -> bytes:
    message = wire.Message(
        content.boot, number, number, 0, bytes([number % 2]), wire.mapping_tag(content.mapping)
    )
    topic = f"{TOPICS}/{content.client}/z"
    return wire.encode(message, bytes.fromhex(content.mac_key), topic)


def _renumbered(payload: bytes) -> bytes:
    """Return a message under another number, as somebody writes it who has no key."""
    changed = bytearray(payload)
    changed[14] ^= 0x40  # within the sequence number
    return bytes(changed)


def _play(visitor, topic: str, payloads: list[bytes]) -> int:
    for payload in payloads:
        visitor.publish(topic, payload)
    return len(payloads)


def _judged(folder: Path, count: int) -> None:
    """Wait until so many messages were refused, and a little longer: more would be wrong."""
    eventually(lambda: sum(refusals(folder).values()) >= count)
    time.sleep(0.5)
