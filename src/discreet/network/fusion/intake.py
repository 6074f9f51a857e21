"""Which clients there are, which of their messages are accepted, and why the others are not.

The cheapest checks come first: the sender, the length, the frame, the MAC. Only what is authentic
is examined further. Nothing refused here can reach a decision.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InputError
from discreet.mapping.mapping import Mapping
from discreet.network.fusion.conduct import Conduct
from discreet.network.fusion.state import State
from discreet.network.site.settings import Client, Clients, file_stamp, read_model
from discreet.network.store.rows import Batch, Outcome, Refused, StoredMessage, mapping_number
from discreet.network.store.writing import KEPT_REFUSED
from discreet_sensor.wire import (
    BROKER_NOTICES,
    DROPPED,
    MAX_SYMBOLS,
    REFUSED,
    STOPPED,
    STORED,
    Message,
    RoundClock,
    WireError,
    ack_topic,
    decode,
    encode_acknowledgements,
    mapping_tag,
    message_topic,
    runs,
    shared,
)

_REMEDY = "Restore it from a good copy; until then the clients known before stay in force."


@dataclass(frozen=True)
class Drawn:
    """How the symbols of a client are drawn by a mapping.

    ``mapping``: its number, see ``mapping_number``. ``columns``: the place of each of the client's
    sensors in it. ``own``: for each sensor, the symbols that it can send.
    """

    mapping: int
    columns: NDArray[np.intp]
    own: tuple[bytes, ...]

    @cached_property
    def _alike(self) -> bool:
        return len(set(self.own)) == 1

    def sends_only_its_own(self, symbols: bytes) -> bool:
        """Whether every symbol is one that its sensor can send."""
        if self._alike:
            return not symbols.translate(None, self.own[0])
        width = len(self.own)
        return not any(symbols[t::width].translate(None, own) for t, own in enumerate(self.own))


@dataclass(frozen=True)
class ClientSpec:
    """A client and what its messages must look like.

    ``topic``: where its messages come from. ``batch``: rounds in one message. ``symbols``: how many
    symbols a message has. ``drawn``: by the tag of each mapping that has all of its sensors.
    ``mapping``: id of the one that it was enrolled with, if that is known.
    ``boot``: the least number of a start under its key. ``previous``: key before the last renewal,
    which counts until a moment. ``forgotten``: boot and seq up to which its messages were deleted,
    and are not taken again.
    """

    name: str
    key: bytes
    topic: bytes
    ack_topic: str
    batch: int
    symbols: int
    drawn: dict[bytes, Drawn]
    revoked: bool
    mapping: str | None = None
    boot: int = 0
    previous: bytes | None = None
    previous_until: float = 0.0
    forgotten: tuple[int, int] = (-1, 0)


class Registry:
    """The clients of a site, read again whenever the file changes.

    ``file``: ``clients.json`` of the site. ``mapping``: the present one; ``earlier``: those that
    some clients may still send by. ``problem``: why the file could not be read the last time.
    """

    def __init__(
        self, file: Path, site: str, mapping: Mapping, earlier: Sequence[Mapping] = ()
    ) -> None:
        self._file, self._site, self._mappings = file, site, (mapping, *earlier)
        self._seen = file_stamp(self._file)
        self.by_topic: dict[str, ClientSpec] = {}
        self.by_name: dict[str, ClientSpec] = {}
        self.problem: str | None = None
        self._load()

    def _load(self) -> None:
        clients = read_model(self._file, Clients, _REMEDY)
        known = [self._spec(name, each) for name, each in clients.clients.items()]
        self.by_name = {each.name: each for each in known}
        self.by_topic = {each.topic.decode(): each for each in known}

    def _spec(self, name: str, client: Client) -> ClientSpec:
        drawn = {
            mapping_tag(each.id): _drawn(each, client.sensors)
            for each in self._mappings
            if {*client.sensors} <= {*each.names}
        }
        if not drawn and client.revoked is None:
            known = {sensor for each in self._mappings for sensor in each.names}
            unknown = next((each for each in client.sensors if each not in known), "")
            raise InputError(
                f"{self._file}: client {name!r} has the sensor {unknown!r}, which the mapping "
                "does not know. Enrol it again with the mapping that runs."
            )
        count = len(client.sensors) * client.batch
        if count > MAX_SYMBOLS:
            raise InputError(
                f"{self._file}: client {name!r} has {count} symbols in a message; {MAX_SYMBOLS} "
                "are possible. Enrol it again with a smaller batch."
            )
        until = client.previous_until
        return ClientSpec(
            name=name,
            key=bytes.fromhex(client.key),
            topic=message_topic(self._site, name).encode(),
            ack_topic=ack_topic(self._site, name),
            batch=client.batch,
            symbols=count,
            drawn=drawn,
            revoked=client.revoked is not None,
            mapping=client.mapping,
            boot=client.boot or 0,
            previous=None if client.previous is None else bytes.fromhex(client.previous),
            previous_until=until.timestamp() if until else 0.0,
            forgotten=client.forgotten or (-1, 0),
        )

    def refresh(self) -> bool:
        """Read the file again if it has changed; return whether the clients did.

        A file that cannot be read changes nothing but ``problem``.
        """
        stamp = file_stamp(self._file)
        if stamp == self._seen:
            return False
        self._seen = stamp
        try:
            self._load()
        except InputError as error:
            self.problem = str(error)
            return False
        self.problem = None
        return True

    @property
    def longest_batch(self) -> int:
        return max((each.batch for each in self.by_name.values()), default=1)


def _drawn(mapping: Mapping, sensors: Sequence[str]) -> Drawn:
    places = {sensor: t for t, sensor in enumerate(mapping.names)}
    columns = np.array([places[sensor] for sensor in sensors], dtype=np.intp)
    own = tuple(bytes(range(mapping.n_symbols[column])) for column in columns)
    return Drawn(mapping_number(mapping.id), columns, own)


NOBODY = "?"
"""Stands for all senders that are not enrolled, so that they cannot fill the store with names."""
SKEW = 10.0
"""Seconds by which a sensor's clock may be ahead, beyond one round."""
_BOOTS = 4  # of each client that are remembered
_Place = tuple[int, int, int]  # boot, seq and round of a message
_NEVER: _Place = (-1, 0, 0)
_MAX_KEPT = 4096  # bytes of a refused message that are kept


def _decoded(payload: bytes, known: ClientSpec, now: float) -> tuple[Message, int]:
    """Return an authentic message, and the least boot that it may have."""
    try:
        return decode(payload, known.symbols, known.key, known.topic), known.boot
    except WireError as error:
        if error.reason != "mac" or known.previous is None or now > known.previous_until:
            raise
        return decode(payload, known.symbols, known.previous, known.topic), 0


class Intake:
    """Check messages one by one.

    ``closed``: returns the last round that has been decided; -1 if none. ``heard``: is called for
    each authentic message, as ``Timekeeper.heard``. ``conduct``: is charged with what is refused.
    ``floor``: rounds before it have been forgotten, and messages for them are refused. ``clones``:
    what runs twice, see ``_is_clone``.
    """

    def __init__(
        self,
        registry: Registry,
        clock: RoundClock,
        closed: Callable[[], int] = lambda: -1,
        heard: Callable[[str, tuple[int, int], int, int], None] = lambda *_: None,
        conduct: Conduct | None = None,
    ) -> None:
        self._registry, self._clock, self._closed = registry, clock, closed
        self._heard = heard
        self._conduct = conduct or Conduct(time.monotonic)
        self._latest: dict[str, _Place] = {}
        self._aside = Batch()
        self._kept: dict[str, deque[Refused]] = {}  # by client: none takes another's room
        self._rejected: list[tuple[str, int, int]] = []
        self._alone = threading.Lock()
        self._begun: dict[str, dict[int, int]] = {}  # by client: the first round of its last boots
        self._newest: dict[str, int] = {}
        self.floor = 0
        self.clones: dict[tuple[str, int], int] = {}  # client and boot to the boot that was before

    def take(
        self, topic: str, payload: bytes, now: float, latest: float = 0.0
    ) -> StoredMessage | None:
        """Return what to store, or None if the message is refused.

        ``payload``: from anybody. ``now``: seconds since 1970. ``latest``: what it may be at most,
        if that is not sure.
        """
        known = self._registry.by_topic.get(topic)
        if known is None or known.revoked:
            name, reason = (NOBODY, "unknown-client") if known is None else (known.name, "revoked")
            self._refuse(name, reason, payload, now)
            return None
        name, batch = known.name, known.batch
        if name in self._conduct.suspended:
            self._count(name, "suspended")
            return None
        try:
            message, least = _decoded(payload, known, now)
        except WireError as error:
            self._refuse(name, error.reason, payload, now)
            return None
        boot, seq, number, spent, symbols, tag = message
        if boot < least or number % batch:
            self._reject(name, message, "numbers", payload, now)
            return None
        self._heard(name, (boot, seq), number, batch)
        before = self._latest.get(name, _NEVER)
        objection = self._objection(known, message, before, max(now, latest))
        if objection is not None:
            self._reject(name, message, objection, payload, now)
            return None
        if seq == before[1] or boot != before[0]:
            self._charge_repeats(name, before, (boot, seq, number))
        self._latest[name] = boot, seq, number
        if number + batch - 1 <= self._closed():
            self._count(name, "late")
        if latest > now:  # it is not sure, and the message may be for a round that has not begun
            now = max(now, self._clock.end(number + batch - 2) - SKEW)
        drawn_by = known.drawn[tag].mapping
        return StoredMessage(name, boot, seq, number, symbols, spent, now, drawn_by)

    def _charge_repeats(self, name: str, before: _Place, place: _Place) -> None:
        """Charge at once what the store would find out with much more work."""
        if before == place:
            self._conduct.charge(name, "repeat")
        elif before is not _NEVER and before[0] != place[0]:
            self._conduct.charge(name, "boot")

    def _objection(
        self, known: ClientSpec, message: Message, before: _Place, now: float
    ) -> str | None:
        """Return what is wrong with an authentic message; ``before``: the latest accepted one."""
        boot, seq, number, _, symbols, tag = message
        drawn = known.drawn.get(tag)
        if drawn is None:
            return "mapping"
        if not drawn.sends_only_its_own(symbols):
            return "symbol"
        if number < self.floor or (boot, seq) <= known.forgotten:
            return "forgotten"
        if self._clock.end(number + known.batch - 2) > now + SKEW:
            return "early"
        usual = self._newest.get(known.name) == boot and not self.clones
        if not usual and self._is_clone(known.name, boot, number):
            return "clone"
        # Within a boot, later messages are for later rounds: no honest client mixes them up.
        if boot == before[0] and seq != before[1]:
            apart = seq - before[1]
            if (number - before[2]) * (1 if apart > 0 else -1) < abs(apart) * known.batch:
                return "reordered"
        return None

    def _is_clone(self, name: str, boot: int, number: int) -> bool:
        """Whether a message is of a device that runs beside another with its name.

        A device that starts again sends for later rounds than before. So a boot that sends for
        rounds of a later boot is still there, and the later one is another device.
        """
        begun = self._begun.setdefault(name, {})
        if boot not in begun:
            begun[boot] = number
            for old in sorted(begun)[:-_BOOTS]:
                del begun[old]
            self._newest[name] = max(begun)
        for later, first in begun.items():
            if later > boot and first <= number and (name, boot) not in self.clones:
                self.clones.setdefault((name, later), boot)
        return (name, boot) in self.clones

    def _reject(self, name: str, message: Message, reason: str, payload: bytes, now: float) -> None:
        """Refuse an authentic message; the sender is notified, unless a retry may succeed."""
        self._refuse(name, reason, payload, now)
        if reason != "early":
            with self._alone:
                self._rejected.append((name, message.boot, message.seq))

    def _refuse(self, name: str, reason: str, payload: bytes, now: float) -> None:
        self._count(name, reason)
        if name != NOBODY:
            self._conduct.charge(name, reason)
        kept = Refused(name, reason, now, bytes(payload[:_MAX_KEPT]))
        with self._alone:
            self._kept.setdefault(name, deque(maxlen=KEPT_REFUSED)).append(kept)

    def _count(self, name: str, reason: str) -> None:
        with self._alone:
            self._aside.refusals[name, reason] += 1

    def refuse(self, topic: str, payload: bytes, reason: str, now: float) -> None:
        """Count a message that is refused unread."""
        known = self._registry.by_topic.get(topic)
        name = NOBODY if known is None else known.name
        if name in self._conduct.suspended:
            self._count(name, "suspended")
        else:
            self._refuse(name, reason, payload, now)

    def drain(self) -> tuple[Batch, list[tuple[str, int, int]]]:
        """Return what was refused since the last call, and what to reject: client, boot and seq."""
        with self._alone:
            aside, rejected, kept = self._aside, self._rejected, self._kept
            self._aside, self._rejected, self._kept = Batch(), [], {}
        aside.quarantine = [each for some in kept.values() for each in some]
        return aside, rejected


def answers(
    registry: Registry,
    batch: Batch,
    outcome: Outcome,
    rejected: Iterable[tuple[str, int, int]],
    clones: Container[tuple[str, int]] = (),
) -> Iterator[tuple[str, bytes, bool]]:
    """Yield the acknowledgements of a batch that is stored: topic, content, not retained.

    ``clones``: client and boot of devices that have to stop.
    """
    found: dict[str, dict[int, list[tuple[int, int]]]] = {}
    refused = outcome.refused
    for place, (client, boot, seq, _, _, _, _, _) in enumerate(batch.messages):
        status = REFUSED if place in refused else STORED
        found.setdefault(client, {}).setdefault(status, []).append((boot, seq))
    for client, boot, seq in rejected:
        status = STOPPED if (client, boot) in clones else REFUSED
        found.setdefault(client, {}).setdefault(status, []).append((boot, seq))
    for client, by_status in found.items():
        known = registry.by_name.get(client)
        if known is None:
            continue
        entries = [each for status in sorted(by_status) for each in runs(by_status[status], status)]
        for data in encode_acknowledgements(entries, known.key, known.ack_topic):
            yield known.ack_topic, data, False


# --- Which devices are heard ----------------------------------------------------------------

logger = logging.getLogger(__name__)


class Hearing:
    """The subscriptions of a worker: each device by itself, so that one can be left out.

    ``group``: of the workers that share the messages; none if it is alone.
    """

    def __init__(
        self, registry: Registry, conduct: Conduct, state: State, group: str | None
    ) -> None:
        self._registry, self._conduct, self._state = registry, conduct, state
        self._group = group
        self._left_out = self._told = conduct.suspended

    @property
    def changed(self) -> bool:
        """Whether devices were suspended, or are to be heard again, since ``subscriptions``."""
        return self._conduct.suspended is not self._left_out

    def subscriptions(self) -> list[str]:
        """Return what to read now."""
        suspended = self._left_out = self._conduct.suspended
        topics = [
            topic for topic, known in self._registry.by_topic.items() if known.name not in suspended
        ]
        if self._group is not None:
            topics = [shared(self._group, topic) for topic in topics]
        return [*topics, DROPPED, BROKER_NOTICES]

    def tell(self) -> None:
        """Log who was suspended and who is heard again, and note it in the state."""
        suspended = self._conduct.suspended
        if suspended == self._told:
            return
        for name in suspended.keys() - self._told.keys():
            logger.warning(
                "%s floods the site and is suspended (%s). Look after it, or: discreet revoke %s",
                *(name, suspended[name], name),
            )
        for name in self._told.keys() - suspended.keys():
            logger.info("%s is heard again", name)
        self._told = suspended
        words = "; ".join(f"{name}: {why}" for name, why in sorted(suspended.items()))
        self._state.turn("devices", "suspended" if suspended else "heard", words)
        self._state.suspend(suspended)
