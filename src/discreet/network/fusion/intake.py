"""Which messages are accepted, and why the others are not.

The cheapest checks come first: the sender, the length, the frame, the MAC. Only what is authentic
is examined further. Nothing refused here can reach a decision.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from discreet.network.fusion.closing import RoundClock
from discreet.network.fusion.registry import ClientSpec, Registry
from discreet.network.store.rows import Batch, Refused, StoredMessage
from discreet.network.store.writing import KEPT_REFUSED
from discreet.network.wire import Message, WireError, decode

NOBODY = "?"
"""Stands for all senders that are not enrolled, so that they cannot fill the store with names."""
SKEW = 10.0
"""Seconds by which a sensor's clock may be ahead, beyond one round."""
_MAX_KEPT = 4096  # bytes of a refused message that are kept


class Intake:
    """Check messages one by one.

    ``mapping_tag``: start of the id of the mapping that runs. ``closed``: returns the last round
    that has been decided; -1 if none. ``floor``: rounds before it have been forgotten, and messages
    for them are refused.
    """

    def __init__(
        self,
        registry: Registry,
        clock: RoundClock,
        mapping_tag: bytes,
        closed: Callable[[], int] = lambda: -1,
    ) -> None:
        self._registry, self._clock, self._tag, self._closed = registry, clock, mapping_tag, closed
        self._latest: dict[str, tuple[int, int, int]] = {}
        self._aside = Batch()
        self._kept: dict[str, deque[Refused]] = {}  # by client: none takes another's room
        self._rejected: list[tuple[str, int, int]] = []
        self._alone = threading.Lock()
        self.floor = 0

    def take(self, topic: str, payload: bytes, now: float) -> StoredMessage | None:
        """Return what to store, or None if the message is refused.

        ``payload``: from anybody. ``now``: seconds since 1970.
        """
        known = self._registry.by_topic.get(topic)
        if known is None or known.revoked:
            name, reason = (NOBODY, "unknown-client") if known is None else (known.name, "revoked")
            self._refuse(name, reason, payload, now)
            return None
        try:
            message = decode(payload, known.symbols, known.key, known.topic)
        except WireError as error:
            self._refuse(known.name, error.reason, payload, now)
            return None
        objection = self._objection(known, message, now)
        if objection is not None:
            self._reject(known.name, message, objection, payload, now)
            return None
        self._latest[known.name] = message[:3]
        if message.round + known.batch - 1 <= self._closed():
            self._count(known.name, "late")
        return StoredMessage(
            known.name,
            message.boot,
            message.seq,
            message.round,
            message.symbols,
            message.spent,
            now,
        )

    def _objection(self, known: ClientSpec, message: Message, now: float) -> str | None:
        if message.mapping != self._tag:
            return "mapping"
        if not known.sends_only_its_own(message.symbols):
            return "symbol"
        if message.round < self.floor:
            return "forgotten"
        if self._clock.end(message.round + known.batch - 2) > now + SKEW:
            return "early"
        boot, seq, number = self._latest.get(known.name, (-1, 0, 0))
        # Within a boot, later messages are for later rounds: no honest client mixes them up.
        if boot == message.boot and seq != message.seq:
            apart = message.seq - seq
            if (message.round - number) * (1 if apart > 0 else -1) < abs(apart) * known.batch:
                return "reordered"
        return None

    def _reject(self, name: str, message: Message, reason: str, payload: bytes, now: float) -> None:
        """Refuse an authentic message; the sender is notified, unless a retry may succeed."""
        self._refuse(name, reason, payload, now)
        if reason != "early":
            with self._alone:
                self._rejected.append((name, message.boot, message.seq))

    def _refuse(self, name: str, reason: str, payload: bytes, now: float) -> None:
        self._count(name, reason)
        kept = Refused(name, reason, now, bytes(payload[:_MAX_KEPT]))
        with self._alone:
            self._kept.setdefault(name, deque(maxlen=KEPT_REFUSED)).append(kept)

    def _count(self, name: str, reason: str) -> None:
        with self._alone:
            self._aside.refusals[name, reason] += 1

    def refuse(self, topic: str, payload: bytes, reason: str, now: float) -> None:
        """Count a message that is refused unread."""
        known = self._registry.by_topic.get(topic)
        self._refuse(NOBODY if known is None else known.name, reason, payload, now)

    def drain(self) -> tuple[Batch, list[tuple[str, int, int]]]:
        """Return what was refused since the last call, and what to reject: client, boot and seq."""
        with self._alone:
            aside, rejected, kept = self._aside, self._rejected, self._kept
            self._aside, self._rejected, self._kept = Batch(), [], {}
        aside.quarantine = [each for some in kept.values() for each in some]
        return aside, rejected
