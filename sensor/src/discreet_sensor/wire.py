"""What travels: messages with symbols, and acknowledgements; and the rounds that they are for.

Both are CBOR (RFC 8949), laid out at fixed places: every integer takes its full width, which CBOR
allows though it does not prefer, so that the length of a message depends on nothing but how many
symbols it has room for. A general parser is not needed and none is used, so that hostile bytes meet
a length, a handful of comparisons and a MAC.

A message is the array

    [1, boot, seq, round, spent, symbols, mapping, mac]

and an acknowledgement ``[1, entries, mac]``, whose entries name runs of sequence numbers. A MAC is
the start of HMAC-SHA256 over the topic, a zero byte and everything before it, so that a message for
one topic is worth nothing on another. docs/protocol.md has all of it for those who write a client.
"""

from __future__ import annotations

import hmac
import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

DROPPED = "$SYS/broker/publish/messages/dropped"
"""Where Mosquitto publishes how many messages it has dropped."""
BROKER_NOTICES = "$SYS/broker/log/N"
"""Where it publishes who connects, and whom it disconnects why."""


def message_topic(site: str, client: str) -> str:
    """Return where a client's messages go."""
    return f"discreet/v1/{site}/{client}/z"


def ack_topic(site: str, client: str) -> str:
    """Return where a client reads its acknowledgements."""
    return f"discreet/v1/{site}/{client}/ack"


def decision_topic(site: str) -> str:
    """Return where the fused decision stands."""
    return f"discreet/v1/{site}/decision"


def shared(group: str, topic: str) -> str:
    """Return the subscription that spreads the messages of a topic over a group of workers."""
    return f"$share/{group}/{topic}"


VERSION = 1
WINDOW = 100
"""How many messages of a device are under way at once."""
MAX_SYMBOLS = 2**16 - 1
"""Most symbols in a message."""
MAC_SIZE = 8
MAPPING_SIZE = 8
MAX_BOOT = 2**63 - 1
"""Largest number of a boot: databases have no larger integers."""

_HEAD = struct.Struct(">BB BQ BI BI BI BH")
_TAIL = struct.Struct(">B8s B8s")
_ARRAY_OF_8, _ARRAY_OF_3 = 0x88, 0x83
_U64, _U32, _BYTES_U16, _BYTES_8 = 0x1B, 0x1A, 0x59, 0x48
_FRAME = _HEAD.size + _TAIL.size
_FRAMING = (_ARRAY_OF_8, VERSION, _U64, _U32, _U32, _U32, _BYTES_U16, _BYTES_8, _BYTES_8)

_MOST_BEGUN = 16384  # clients, each with 1 or 2 kB
_ACK_HEAD = struct.Struct(">BB BH")
ENTRY = struct.Struct(">Q I I B")
_MAX_ENTRIES = MAX_SYMBOLS // ENTRY.size
_ENTRIES_AT_ONCE = 500  # 8.5 kB: the broker takes no packet that is longer than need be
MAX_ACK = _ACK_HEAD.size + _MAX_ENTRIES * ENTRY.size + 1 + MAC_SIZE

STORED, REFUSED, STOPPED = 0, 1, 2
"""State of the messages of an acknowledgement's entry; refused ones are not sent again.

``STOPPED``: refused, and so is whatever that boot sends: another device with the same name was
there before.
"""


class WireError(Exception):
    """Bytes that are no message for this key, place and length.

    ``reason``: label for counters: length, malformed or mac.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Message(NamedTuple):
    """What a client sends in a round.

    ``boot``: number of the client's start; never used twice. ``seq``: number of the message since
    that start. ``round``: the first round that the symbols belong to. ``spent``: what the client's
    ledgers have counted, in millionths of a nat; the largest of them. ``symbols``: one per sensor,
    and so again for each following round. ``mapping``: start of the id of the mapping that the
    symbols were drawn from.
    """

    boot: int
    seq: int
    round: int
    spent: int
    symbols: bytes
    mapping: bytes


class Entry(NamedTuple):
    """Messages of one boot with consecutive sequence numbers, and what became of them."""

    boot: int
    first: int
    length: int
    status: int


def mapping_tag(mapping_id: str) -> bytes:
    """Return the bytes that stand for a mapping in messages."""
    return bytes.fromhex(mapping_id.removeprefix("sha256:"))[:MAPPING_SIZE]


def encode(message: Message, key: bytes, topic: str) -> bytes:
    """Return a message as it travels.

    ``key``: the client's MAC key. ``topic``: where it will be published. Raises ValueError: if a
    number does not fit its place.
    """
    count = len(message.symbols)
    numbers = (message.seq, message.round, message.spent)
    fits = all(0 <= each < 2**32 for each in numbers) and 0 <= message.boot <= MAX_BOOT
    if not fits or not 0 < count <= MAX_SYMBOLS or len(message.mapping) != MAPPING_SIZE:
        raise ValueError("a part of the message does not fit its place.")
    head = _HEAD.pack(
        _ARRAY_OF_8, VERSION, _U64, message.boot, _U32, message.seq, _U32, message.round,
        _U32, message.spent, _BYTES_U16, count,
    )  # fmt: skip
    body = b"".join((head, message.symbols, b"\x48", message.mapping, b"\x48"))
    return body + mac(key, topic.encode(), body)


def decode(data: bytes, symbols: int, key: bytes, topic: bytes) -> Message:
    """Return the message in some bytes, or refuse them.

    ``data``: from anybody. ``symbols``: how many this client's messages have. ``topic``: where the
    bytes came from.
    """
    if len(data) != _FRAME + symbols:
        raise WireError("length")
    a, b, c, boot, d, seq, e, round_, f, spent, g, count = _HEAD.unpack_from(data)
    h, mapping, i, given = _TAIL.unpack_from(data, _HEAD.size + symbols)
    if (a, b, c, d, e, f, g, h, i) != _FRAMING or count != symbols or boot > MAX_BOOT:
        raise WireError("malformed")
    if not hmac.compare_digest(given, mac(key, topic, data[:-MAC_SIZE])):
        raise WireError("mac")
    return Message(boot, seq, round_, spent, data[_HEAD.size : -_TAIL.size], mapping)


def encode_acknowledgements(entries: Sequence[Entry], key: bytes, topic: str) -> Iterator[bytes]:
    """Yield the entries as they travel, in as many acknowledgements as they need."""
    for start in range(0, len(entries), _ENTRIES_AT_ONCE):
        some = entries[start : start + _ENTRIES_AT_ONCE]
        packed = b"".join(ENTRY.pack(*entry) for entry in some)
        head = _ACK_HEAD.pack(_ARRAY_OF_3, VERSION, _BYTES_U16, len(packed))
        body = b"".join((head, packed, b"\x48"))
        yield body + mac(key, topic.encode(), body)


def decode_acknowledgement(data: bytes, key: bytes, topic: str) -> list[Entry]:
    """Return the entries of an acknowledgement, or refuse it."""
    size = len(data) - _ACK_HEAD.size - 1 - MAC_SIZE
    if size < 0 or size % ENTRY.size or len(data) > MAX_ACK:
        raise WireError("length")
    framing = (*_ACK_HEAD.unpack_from(data), data[-MAC_SIZE - 1])
    if framing != (_ARRAY_OF_3, VERSION, _BYTES_U16, size, _BYTES_8):
        raise WireError("malformed")
    if not hmac.compare_digest(data[-MAC_SIZE:], mac(key, topic.encode(), data[:-MAC_SIZE])):
        raise WireError("mac")
    packed = data[_ACK_HEAD.size : _ACK_HEAD.size + size]
    return [Entry(*fields) for fields in ENTRY.iter_unpack(packed)]


def runs(keys: Iterable[tuple[int, int]], status: int) -> list[Entry]:
    """Return pairs of boot and sequence number as runs, in order and without repetition."""
    found: list[list[int]] = []  # boot, first and length
    for boot, seq in sorted(set(keys)):
        if found and found[-1][0] == boot and found[-1][1] + found[-1][2] == seq:
            found[-1][2] += 1
        else:
            found.append([boot, seq, 1])
    return [Entry(boot, first, length, status) for boot, first, length in found]


def mac(key: bytes, topic: bytes, body: bytes) -> bytes:
    """Return the MAC of a body that is published on a topic."""
    found = _begun(key, topic).copy()
    found.update(body)
    return found.digest()[:MAC_SIZE]


@lru_cache(_MOST_BEGUN)
def _begun(key: bytes, topic: bytes) -> hmac.HMAC:
    # Half of the work is the same for every message of a client.
    return hmac.new(key, topic + b"\0", "sha256")


# --- When rounds begin and end -------------------------------------------------------------


@dataclass(frozen=True)
class RoundClock:
    """The rounds of a site, counted from its epoch.

    ``epoch``: when round 0 begins, in seconds since 1970. ``interval``: seconds of a round.
    ``deadline``: seconds after the end of a round at which it is closed.
    """

    epoch: float
    interval: float
    deadline: float = 0.0

    def number(self, at: float) -> int:
        """Return the round that a moment lies in; negative before the epoch."""
        return math.floor((at - self.epoch) / self.interval)

    def end(self, number: int) -> float:
        return self.epoch + (number + 1) * self.interval

    def closes(self, number: int) -> float:
        return self.end(number) + self.deadline

    def last_due(self, at: float) -> int:
        """Return the last round that is due to be closed at a moment."""
        return self.number(at - self.deadline) - 1
