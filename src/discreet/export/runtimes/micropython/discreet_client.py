"""A device of a discreet site under MicroPython: rounds, messages, outbox and answers.

``discreet enroll NAME --to micropython`` writes this file, ``discreet_sensor.py``, which draws,
``discreet_mqtt.py``, which connects, and ``NAME.enrolment``. docs/protocol.md of discreet has every
byte and every rule.

SPDX-License-Identifier: Apache-2.0
"""

import os
import struct
import time
from binascii import crc32
from hashlib import sha256

TYPE_CHECKING = False  # there is no module typing on a board
if TYPE_CHECKING:
    from collections.abc import Callable

    from discreet.export.runtimes.micropython.discreet_sensor import Sensor, SensorError, Table
else:
    from discreet_sensor import Sensor, SensorError, Table

FREE, WAITING, DONE = 0, 1, 2
STORED, REFUSED, STOP = 0, 1, 2
_BACK, _ANSWERS = 3, 5  # rounds: see Device._may_be_behind
_OFFLINE, _SLOT = 600000, 200  # milliseconds: without a connection; from a batch to its message
_HEAD = "<IIIQIIIQI8s32s32sI6I"
_HEAD_SIZE = 144
_NAME = "abcdefghijklmnopqrstuvwxyz0123456789-"
_HOST = _NAME + "ABCDEFGHIJKLMNOPQRSTUVWXYZ.:"
_SINCE_1970 = 0 if time.gmtime(0)[0] == 1970 else 946684800  # most boards count from 2000


class ClientError(Exception):
    """An enrolment, or a storage, that cannot be used."""


# --- The enrolment -------------------------------------------------------------------------


class Enrolment:
    """What a device knows of its site, from words that anybody may have written."""

    def __init__(self, data: bytes) -> None:
        if len(data) % 4 or len(data) <= _HEAD_SIZE or data[:4] != b"DSE1":
            raise ClientError("this is no enrolment; enrol again")
        if crc32(data[:-4]) != int.from_bytes(data[-4:], "little"):
            raise ClientError("the enrolment is damaged; enrol again")
        head = struct.unpack_from(_HEAD, data)
        words, self.flags, self.epoch, self.interval, self.batch, sensors = head[1:7]
        self.boot, self.spent, self.mapping, self.key, previous, self.port = head[7:13]
        self.previous = previous if self.flags & 4 else None
        self.symbols = self.batch * sensors
        sound = words * 4 == len(data) and self.flags <= 7 and not self.boot >> 63
        sound = sound and 0 < self.interval <= 86400000 and self.epoch < 1 << 40
        if not sound or not 0 < self.symbols <= 65535 or not 0 < self.port <= 65535:
            raise ClientError("the enrolment makes no sense; enrol again")
        texts, at = [], _HEAD_SIZE
        for length in head[13:]:
            end = at + length // 4 * 4 + 4
            if end > len(data) - 4 or 0 in data[at : at + length] or data[at + length] != 0:
                raise ClientError("the enrolment makes no sense; enrol again")
            texts.append(data[at : at + length])
            at = end
        self.site, self.client = _name(texts[0]), _name(texts[1])
        self.host = _host(texts[2])
        self.ca, self.certificate, self.private_key = texts[3:]
        self.tables = self._tables(data, at, sensors)

    def _tables(self, data: bytes, at: int, count: int) -> "list[bytes]":
        found = []
        for _ in range(count):
            size = 4 * int.from_bytes(data[at + 4 : at + 8], "little")
            if size > len(data) - at:
                raise ClientError("the enrolment makes no sense; enrol again")
            body = data[at : at + size]
            try:
                Table(body)
            except SensorError:
                raise ClientError("a table of the enrolment is damaged; enrol again") from None
            if body[8:16] != self.mapping:
                raise ClientError("a table is of another mapping; enrol again")
            found.append(body)
            at += size
        if at != len(data) - 4:
            raise ClientError("the enrolment makes no sense; enrol again")
        return found


def _name(text: bytes) -> str:
    if not 0 < len(text) <= 32 or text[:1] == b"-" or not _only(text, _NAME):
        raise ClientError("a name of the enrolment is none; enrol again")
    return text.decode()


def _host(text: bytes) -> str:
    if not 0 < len(text) <= 253 or not _only(text, _HOST):
        raise ClientError("the host is none")
    return text.decode()


def _only(text: bytes, letters: str) -> bool:
    return all(chr(byte) in letters for byte in text)


def name_of(table: bytes) -> str:
    """Return the name of a table's sensor."""
    length = int.from_bytes(table[64:68], "little")
    return table[len(table) - 4 - (length + 3) // 4 * 4 :][:length].decode()


# --- What travels --------------------------------------------------------------------------


def mac(key: bytes, topic: bytes, data: bytes) -> bytes:
    """Return the start of HMAC-SHA256 over topic, zero byte and data."""
    inner = sha256(bytes([byte ^ 0x36 for byte in key]) + b"\x36" * 32)
    inner.update(topic + b"\0")
    inner.update(data)
    return sha256(bytes([byte ^ 0x5C for byte in key]) + b"\x5c" * 32 + inner.digest()).digest()[:8]


def seal(numbers: "tuple[int, int, int, int]", symbols: bytes, mapping: bytes) -> bytes:
    """Return a message without its MAC; ``numbers``: boot, seq, round, spent."""
    boot, seq, number, spent = numbers
    head = struct.pack(">BBBQBIBIBIBH", 0x88, 1, 0x1B, boot, 0x1A, seq, 0x1A, number, 0x1A, spent,
                       0x59, len(symbols))  # fmt: skip
    return head + symbols + b"\x48" + mapping + b"\x48"


def is_sealed(data: bytes, key: bytes, topic: bytes) -> bool:
    """Whether the last bytes are the MAC of those before; as slow wherever they differ."""
    differs = 0
    wanted = mac(key, topic, data[:-8])
    for i in range(8):
        differs |= wanted[i] ^ data[len(data) - 8 + i]
    return differs == 0


def entries_of(data: bytes, key: bytes, topic: bytes) -> "list[tuple[int, int, int, int]] | None":
    """Return the entries of an acknowledgement: boot, first, count, status; None if it is none."""
    size = len(data) - 14
    if size < 0 or size % 17 or size > 65535 or data[:3] != b"\x83\x01\x59" or data[-9] != 0x48:
        return None
    if int.from_bytes(data[3:5], "big") != size or not is_sealed(data, key, topic):
        return None
    return [struct.unpack_from(">QIIB", data, at) for at in range(5, 5 + size, 17)]


# --- The device: rounds, outbox, answers ---------------------------------------------------


class Device:
    """Draws one message each batch of rounds and keeps it until the site has stored it.

    ``folder``: what survives a reboot; never copied. ``read``: returns the reading of a sensor by
    its name. ``slots``: messages that may wait. ``now``: UTC in milliseconds, if it is known.
    """

    def __init__(
        self,
        enrolment: str,
        folder: str,
        read: "Callable[[str], object]",
        slots: int = 64,
        make_new: bool = False,
        now: "int | None" = None,
    ) -> None:
        with open(enrolment, "rb") as stream:
            self.enrolment = e = Enrolment(stream.read())
        self._folder, self._read = folder, read
        self.topic = ("discreet/v1/" + e.site + "/" + e.client + "/z").encode()
        self.ack_topic = ("discreet/v1/" + e.site + "/" + e.client + "/ack").encode()
        self.window, self.retry = 16, 2000
        self.given_up = self.refused = 0
        self.stopped = self.up = False
        self._doubt = None  # type: list[int] | None
        _make(folder)
        self.names = [name_of(table) for table in e.tables]
        self.sensors = [self._open(i, make_new) for i in range(len(e.tables))]
        if self.spent < e.spent:
            for sensor in self.sensors:
                sensor.spend(e.spent)
        self.boot = self.next_round = self.seq = 0
        self._get_head()
        self._round = self._publish_at = -1
        self._found = {}  # type: dict[int, list[object]]
        self.flights = [self._take_up(i) for i in range(slots)]
        clock = utc() if now is None else now
        self.boot = max(self.boot + 1, e.boot, clock // 1000)
        self._put_head()

    def _open(self, i: int, make_new: bool) -> Sensor:
        path, body = self._folder + "/" + str(i), self.enrolment.tables[i]
        if _load(path + ".table") != body:
            _store(path + ".table", body)
        sensor = Sensor(path + ".table", path + ".ledger", make_new)
        if sensor.pending >= 0:
            sensor.delivered()  # it was never sent, and is not needed
        return sensor

    @property
    def spent(self) -> int:
        """What the fullest of the ledgers has counted, in millionths of a nat."""
        return max([sensor.spent for sensor in self.sensors])

    @property
    def waiting(self) -> int:
        """How many messages wait."""
        return len([1 for flight in self.flights if flight[0] == WAITING])

    # A flight: state, boot, seq, round, sent, due, pause.

    def _take_up(self, i: int) -> "list[int]":
        data = _sound(_load(self._slot(i)))
        message = data[4:]
        if len(message) != 47 + self.enrolment.symbols:
            return [FREE, 0, 0, 0, 0, 0, 0]
        boot, _, seq, _, number = struct.unpack_from(">QBIBI", message, 3)
        state = WAITING if data[:4] == b"DSOw" else DONE
        if state == WAITING and not self._is_ours(message):
            state = DONE  # nobody could authenticate it
            self.given_up += 1
        self.next_round = max(self.next_round, number + self.enrolment.batch)
        return [state, boot, seq, number, 0, 0, self.retry]

    def _is_ours(self, message: bytes) -> bool:
        e = self.enrolment
        if is_sealed(message, e.key, self.topic):
            return True
        return e.previous is not None and is_sealed(message, e.previous, self.topic)

    def _slot(self, i: int) -> str:
        return self._folder + "/slot-" + str(i)

    def _put_head(self) -> None:
        head = struct.pack(">QQ", self.boot, self.next_round)
        _store(self._folder + "/head", _checked(b"DSH1" + head))

    def _get_head(self) -> None:
        data = _sound(_load(self._folder + "/head"))
        if data[:4] == b"DSH1" and len(data) == 20:
            self.boot, self.next_round = struct.unpack_from(">QQ", data, 4)

    # -- rounds --

    def rounds(self, now: int, ticks: int) -> bool:
        """Follow the clock; draw and store where a batch has ended. Returns whether it drew.

        ``now``: UTC in milliseconds. ``ticks``: of ``time.ticks_ms``. Raises SensorError or
        OSError: nothing is sent for the batch.
        """
        e = self.enrolment
        present = (now - 1000 * e.epoch) // e.interval
        if present < 0 or present > 0xFFFFFFFF - e.batch:
            return False
        if max(self._round, self.next_round) > present + e.batch + _BACK:
            if self._may_be_behind(present, ticks):
                return False
            self._turn_back(present)
        elif self._doubt:
            self._round, self._found = -1, {}
        self._doubt = None
        if self._round < 0:
            self._round = present
        if present <= self._round:
            return False
        self._found[self._round] = [self._read(name) for name in self.names]
        first = self._round - self._round % e.batch
        self._round = present
        if present < first + e.batch:
            return False
        found, self._found = self._found, {}
        if first < self.next_round:
            return False
        self._publish_at = 1000 * e.epoch + (first + e.batch) * e.interval
        self._publish_at += min(e.interval // 4, _SLOT)
        self._release(first, found)
        return True

    def _may_be_behind(self, present: int, ticks: int) -> bool:
        """Whether what waits for later rounds is kept for now.

        A clock that is behind after a start is set soon, or the site takes what waits; it does not
        if the clock was ahead before.
        """
        seen, doubted, answerable = self._doubt or (ticks, 0, 0)
        passed = ticks - seen & 0x3FFFFFFF  # they wrap
        doubted, answerable = doubted + passed, answerable + (passed if self.up else 0)
        self._doubt = [ticks, doubted, answerable]
        if doubted >= _OFFLINE or answerable >= _ANSWERS * self.enrolment.interval:
            return False
        return any([each[0] == WAITING and each[3] >= present for each in self.flights])

    def _release(self, first: int, found: "dict[int, list[object]]") -> None:
        e, width = self.enrolment, len(self.sensors)
        symbols = bytearray(e.symbols)
        for t in range(width):
            for i in range(e.batch):
                readings = found.get(first + i)
                symbols[i * width + t] = self._draw(self.sensors[t], readings and readings[t])
        numbers = (self.boot, self.seq, first, self.spent)
        body = seal(numbers, bytes(symbols), e.mapping)
        self.seq += 1  # once, whether or not it can be stored: a failed write may still be there
        self.next_round = first + e.batch
        slot = self._choose()
        self.given_up += self.flights[slot][0] == WAITING  # no room: the oldest is given up
        self.flights[slot] = [FREE, 0, 0, 0, 0, 0, 0]
        message = body + mac(e.key, self.topic, body)
        _store(self._slot(slot), _checked(b"DSOw" + message))
        self.flights[slot] = [WAITING, self.boot, numbers[1], first, 0, 0, self.retry]

    def _draw(self, sensor: Sensor, reading: object) -> int:
        try:
            symbol = sensor.release(reading)
        except TypeError:  # what cannot be understood has a row of its own
            symbol = sensor.release("?" if sensor.table.kind == 1 else sensor.table.rows + 1.5)
        sensor.pending = -1  # the outbox keeps it from here on
        return symbol

    def _choose(self) -> int:
        """Return the slot for a message: free, else the oldest done, else the oldest.

        The newest stays, since it says which rounds have a message.
        """
        used = [flight[1:3] for flight in self.flights if flight[0] != FREE]
        newest = max(used) if used else None
        best = None
        for i in range(len(self.flights)):
            flight = self.flights[i]
            if flight[0] == FREE:
                return i
            key = (flight[0] == WAITING, flight[1], flight[2])
            if flight[1:3] != newest and (best is None or key < best[0]):
                best = (key, i)
        return best[1] if best else 0

    def _turn_back(self, present: int) -> None:
        """Go on with an earlier round, because the clock was ahead."""
        for i in range(len(self.flights)):
            if self.flights[i][0] != FREE and self.flights[i][3] >= present:
                _store(self._slot(i), b"")
                self.given_up += self.flights[i][0] == WAITING
                self.flights[i] = [FREE, 0, 0, 0, 0, 0, 0]
        self.boot, self.seq, self.next_round = self.boot + 1, 0, present
        self._round, self._found = -1, {}
        self._put_head()

    def wait(self, now: int) -> int:
        """Return after how many milliseconds something is due: a round's end, or a message."""
        since, interval = now - 1000 * self.enrolment.epoch, self.enrolment.interval
        left = interval - since % interval
        return int(min(left, self._publish_at - now) if now < self._publish_at else left)

    # -- messages --

    def connected(self) -> None:
        """Have everything that waits sent over a new connection."""
        self.up = True
        for flight in self.flights:
            flight[4] = 0

    def disconnected(self) -> None:
        """Note that the connection is lost."""
        self.up = False

    def due(self, now: int, ticks: int) -> "list[int]":
        """Return the slots whose messages are to be published now, oldest first."""
        found, under_way = [], 0
        for i in range(len(self.flights)):
            state, boot, seq, _, sent, at, _ = self.flights[i]
            if state != WAITING:
                continue
            under_way += sent
            held = 0 < self._publish_at - now <= _SLOT  # more: the clock went back
            held = held and boot == self.boot and seq + 1 == self.seq
            if not held and (not sent or ticks - at & 0x3FFFFFFF < 0x20000000):
                found.append((boot, seq, i))
        found.sort()
        chosen = []
        for _, _, i in found:
            if self.flights[i][4] or under_way < self.window:
                under_way += not self.flights[i][4]
                chosen.append(i)
        return chosen

    def payload(self, i: int, ticks: int) -> bytes:
        """Return the stored bytes of a slot, and note that they are sent now."""
        message = _sound(_load(self._slot(i)))[4:]
        flight = self.flights[i]
        pause = flight[6]
        # How long to wait for an acknowledgement depends on the MAC, which looks like chance.
        flight[4:] = [1, ticks + pause // 2 + pause // 512 * message[-1], min(60000, 2 * pause)]
        return message

    def heard(self, data: bytes) -> bool:
        """Act on what came on the topic of acknowledgements; return whether it was for us."""
        entries = entries_of(data, self.enrolment.key, self.ack_topic)
        for boot, first, count, status in entries or ():
            for i in range(len(self.flights)):
                flight = self.flights[i]
                mine = flight[0] == WAITING and flight[1] == boot
                if mine and first <= flight[2] < first + count:
                    self._done(i)
                    self.refused += status != STORED
            self.stopped = self.stopped or (status == STOP and boot == self.boot)
        return entries is not None

    def _done(self, i: int) -> None:
        data = _sound(_load(self._slot(i)))
        _store(self._slot(i), _checked(b"DSOd" + data[4:]))  # if it fails, it is sent again
        self.flights[i][0] = DONE


def utc() -> int:
    """Return UTC in milliseconds by the board's clock; 0 if it was never set."""
    seconds = time.time() + _SINCE_1970
    if seconds < 1600000000:
        return 0
    return int(seconds * 1000)


# --- Storage -------------------------------------------------------------------------------


def _make(folder: str) -> None:
    try:
        os.mkdir(folder)
    except OSError:
        return  # it is there


def _checked(data: bytes) -> bytes:
    return data + struct.pack("<I", crc32(data))


def _sound(data: "bytes | None") -> bytes:
    """Return stored bytes without their checksum; none if it is wrong."""
    if data is None or len(data) < 8 or _checked(data[:-4]) != data:
        return b""
    return data[:-4]


def _load(path: str) -> "bytes | None":
    for name in (path, path + ".new"):  # the latter is left if power failed between the two steps
        try:
            with open(name, "rb") as stream:
                return stream.read()
        except OSError:
            continue
    return None


def _store(path: str, data: bytes) -> None:
    """Replace a file whole or not at all."""
    draft = path + ".new"
    with open(draft, "wb") as stream:
        stream.write(data)
        stream.flush()
    try:
        os.rename(draft, path)
    except OSError:  # FAT does not rename over a file; _load looks for what is left
        os.remove(path)
        os.rename(draft, path)
    if hasattr(os, "sync"):
        os.sync()
