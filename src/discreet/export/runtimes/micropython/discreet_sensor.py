"""Draw a sensor's symbols under MicroPython from what ``discreet export --to micropython`` wrote.

    from discreet_sensor import Sensor

    hall = Sensor("hall.table", ledger="hall.ledger")
    symbol = hall.release(reading)
    if send(symbol):
        hall.delivered()

Set a new device up with ``Sensor("hall.table", ledger="hall.ledger", make_new=True)``, once. What
is promised, and what the ledger counts, is in docs/devices.md of discreet.

SPDX-License-Identifier: Apache-2.0
"""

import os
import struct
import sys
import time
from binascii import crc32

NONE = 0xFFFFFFFF  # no budget, no finite epsilon, no symbol held
BINS, CATEGORIES, CODES = 0, 1, 2
REPEAT_CODE, REPEAT_PERIOD, REPEAT_NEVER = 0, 1, 2
_HEAD, _RECORD = "<II32sIIIIIII", "<I8sIIII32s"
_HEAD_SIZE, _RECORD_SIZE = 68, 60
_BLOCK = 32  # bytes asked of the system at least
PLATFORM = str(sys.platform)


class SensorError(Exception):
    """Base of everything that keeps a symbol from being released."""


class BundleError(SensorError):
    """A table that is damaged or of another version."""


class RandomnessError(SensorError):
    """The random source is absent, fails or is stuck."""


class LedgerError(SensorError):
    """The ledger is absent or cannot be written."""


# --- Randomness ----------------------------------------------------------------------------


def radio_is_off() -> bool:
    """Whether this is an ESP32 without radio, whose bytes only look random."""
    if PLATFORM != "esp32":
        return False
    try:
        import network

        if network.WLAN(network.STA_IF).active() or network.WLAN(network.AP_IF).active():
            return False
    except (ImportError, AttributeError):  # a chip without Wi-Fi
        pass
    try:
        import bluetooth

        return not bluetooth.BLE().active()
    except (ImportError, AttributeError):
        return True


def random_bytes(size: int) -> bytes:
    """Return bytes from ``os.urandom``, or refuse."""
    if radio_is_off():
        raise RandomnessError("without radio there is no randomness; nothing is released")
    size = max(size, _BLOCK)
    try:
        found = os.urandom(size)
    except (AttributeError, NotImplementedError, OSError):  # not every port has it
        found = b""
    if len(found) != size:
        raise RandomnessError("no random source answers; nothing is released")
    start = struct.unpack_from("<8I", found)
    repeats = 0
    for i in range(7):
        repeats += start[i] == start[i + 1]
    if repeats > 1:
        raise RandomnessError("the random source repeats itself; nothing is released")
    return found


def check_randomness() -> None:
    """Look for a broken source at start-up; a weak one is not found this way."""
    ones = zeros = repeats = 0
    first = b""
    everything = (1 << 256) - 1
    for _ in range(64):
        block = random_bytes(_BLOCK)
        number = int.from_bytes(block, "little")
        ones |= number
        zeros |= everything ^ number
        repeats += block[:4] == first
        first = first or block[:4]
    if ones & zeros != everything or repeats > 1:
        raise RandomnessError("the random source is stuck; nothing is released")


def keyed_words(key: bytes, counter: int) -> list[int]:
    """Return 16 words of the ChaCha20 keystream (RFC 8439) with nonce 0."""
    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574]
    start += struct.unpack("<8I", key)
    start += [counter, 0, 0, 0]
    x = list(start)
    for half in range(20):
        shift = half & 1
        for i in range(4):
            j, k, m = 4 + (i + shift & 3), 8 + (i + 2 * shift & 3), 12 + (i + 3 * shift & 3)
            a, b, c, d = x[i], x[j], x[k], x[m]
            for left, right in ((16, 12), (8, 7)):
                a = (a + b) & NONE
                d ^= a
                d = (d << left | d >> (32 - left)) & NONE
                c = (c + d) & NONE
                b ^= c
                b = (b << right | b >> (32 - right)) & NONE
            x[i], x[j], x[k], x[m] = a, b, c, d
    return [(x[i] + start[i]) & NONE for i in range(16)]


# --- The table -----------------------------------------------------------------------------


class Table:
    """One sensor's encoder and thresholds; see ``discreet.h`` for the layout."""

    def __init__(self, body: bytes) -> None:
        if len(body) % 4 or len(body) <= _HEAD_SIZE:
            raise BundleError("the table was cut short; export it again")
        head = struct.unpack_from(_HEAD, body)
        kind = int(head[3])
        if head[0] != 0x31435344 or head[1] * 4 != len(body):
            raise BundleError("this is no table of this version; export it again")
        if crc32(body[:-4]) != int.from_bytes(body[-4:], "little"):
            raise BundleError("the table is damaged; export it again")
        self.tag, self.plain = head[2][:4] + body[-4:], int(head[4])
        self.epsilon, self.budget, self.period = head[5], head[6], head[7]
        self.kind, self.missing, self.symbols = kind & 255, kind >> 8 & 1, kind >> 16
        self.repeat = kind >> 9 & 127
        if self.kind > CODES or self.repeat > REPEAT_NEVER or not 2 <= self.symbols <= 256:
            raise BundleError("the table makes no sense; export it again")
        if self.plain > 100000 or not self.period or (self.kind == CODES and not self.plain):
            raise BundleError("the table makes no sense; export it again")
        self.rows = self.plain + 1 + (self.kind != CODES) + self.missing
        self._body, self._width = body, self.symbols - 1
        self._tops = _HEAD_SIZE + 4 * self.rows * self._width
        self._keys = self._tops + (self.rows + 3) // 4 * 4
        text = self._keys + (0 if self.kind == CODES else 8 * self.plain)
        name = text + (head[8] + 3) // 4 * 4
        if name + (head[9] + 3) // 4 * 4 + 4 != len(body):
            raise BundleError("the table makes no sense; export it again")
        self._text = body[text : text + head[8]]

    def row(self, reading: object) -> int:
        """Return the row for a reading: its code, or the last row if no code fits."""
        unreadable = self.rows - 1
        if reading is None or reading != reading:
            return unreadable - self.missing
        if self.kind == CATEGORIES:
            return self._category(reading)
        if not isinstance(reading, (int, float, bool)):  # a bool is no int here
            raise TypeError("this sensor reads numbers; convert the reading first")
        if self.kind == CODES:
            fits = 0 <= reading < self.plain and reading == int(reading)
            return int(reading) if fits else unreadable
        key, code = _number_key(reading), 0
        for i in range(self.plain):
            code += self._key(i) < key
        return code

    def _category(self, reading: object) -> int:
        if isinstance(reading, float):
            key = _number_key(reading)
            for i in range(self.plain):
                if self._key(i) == key:
                    return i
            return self.plain
        if not isinstance(reading, (int, str, bool)):
            raise TypeError("this sensor reads numbers and text; convert the reading first")
        wanted = str(reading).encode()
        # No split on zero bytes, which some ports lack room for: look at one text at a time.
        start = 0
        for i in range(self.plain):
            end = self._text.find(b"\0", start)
            if self._text[start:end] == wanted:
                return i
            start = end + 1
        return self.plain

    def _key(self, i: int) -> int:
        return int(struct.unpack_from("<Q", self._body, self._keys + 8 * i)[0])

    def pick(self, row: int, word: int) -> int:
        """Return the symbol that a 32-bit word picks in a row."""
        return self.pick_halves(row, word & 0xFFFF, word >> 16)

    def pick_halves(self, row: int, low: int, high: int) -> int:
        """Return the symbol for a word in two halves; every threshold is compared.

        Halves, since MicroPython handles integers of 31 bits and more in another and slower
        way, and the time would tell them apart.
        """
        body, at, count = self._body, _HEAD_SIZE + 4 * row * self._width, 0
        for _ in range(self._width):
            below, above = struct.unpack_from("<HH", body, at)
            count += (high > above) | (high == above) & (low >= below)
            at += 4
        top = body[self._tops + row]
        return (count, top)[count > top]

    def draw(self, rows: list[int]) -> list[int]:
        """Draw a fresh symbol for each row. Nothing is remembered and nothing counted."""
        words, found = random_bytes(4 * len(rows)), []
        for i in range(len(rows)):
            low, high = struct.unpack_from("<HH", words, 4 * i)
            found.append(self.pick_halves(rows[i], low, high))
        return found


def _number_key(number: float) -> int:
    """Return 64 bits that compare as integers like the numbers do."""
    try:
        packed = struct.pack("<d", number + 0.0)
    except OverflowError:  # an integer beyond all floats
        packed = struct.pack("<d", float("inf") if number > 0 else -float("inf"))
    bits = int(struct.unpack("<Q", packed)[0])
    return bits ^ ((1 << 64) - 1) if bits >> 63 else bits | 1 << 63


# --- The sensor ----------------------------------------------------------------------------


class Sensor:
    """A sensor at work: table, randomness and ledger, all checked.

    A ledger that is damaged counts as spent. One that is absent is made only if ``make_new``
    says so, or if the table has no budget to lose.
    """

    def __init__(self, table: str, ledger: str, make_new: bool = False) -> None:
        with open(table, "rb") as stream:
            self.table = Table(stream.read())
        check_randomness()
        self._path = ledger
        self.bundle, self.period, self.spent, self.draws = bytes(8), 0, 0, 0
        self.held, self._key = NONE, bytes(32)
        self.pending = -1
        record = _stored(ledger)
        if record is not None:
            self._unpack(record)
        elif not make_new and self.table.budget != NONE:
            raise LedgerError("there is no ledger; make_new=True makes one on a new device")
        if self.table.repeat != REPEAT_PERIOD and self._is_own() and self.held != NONE:
            self.pending = self.held  # not delivered before the reboot
        self._memory = self._symbols_of(self._key)

    def _unpack(self, data: bytes) -> None:
        if not _is_sound(data):
            self.spent = NONE
            return
        fields = struct.unpack(_RECORD, data[:-4])
        self.bundle, self.period, self.spent, self.draws, self.held, self._key = fields[1:]

    def release(self, reading: object, period: int = -1) -> int:
        """Return the symbol to send; the same one until ``delivered``, also after a reboot.

        The number of the period is taken from the clock unless it is given.
        """
        if self.pending < 0:
            if period < 0:
                period = int(time.time()) // self.table.period
            self.pending = self._release(self.table.row(reading), period)
        return self.pending

    def delivered(self) -> None:
        """Note that the symbol has arrived; the next release is for a new reading.

        If the ledger has to note it and cannot, the next release repeats the symbol.
        """
        waits = self.pending >= 0 and self.held != NONE and self._is_own()
        if waits and self.table.repeat != REPEAT_PERIOD:
            self._keep(self.period, self.spent, self.draws, NONE, self._key)
        self.pending = -1

    def _is_own(self) -> bool:
        """Whether the record was written for this table."""
        sound = self.held == NONE or self.held < self.table.symbols
        return sound and self.bundle == self.table.tag

    def _release(self, row: int, period: int) -> int:
        table = self.table
        draws, held = self.draws, self.held
        key, latest = self._key, self.period
        turned = period > self.period or not self._is_own()
        if turned:
            if not 0 <= period <= NONE:
                raise LedgerError("the period must be from 0 to 4294967295")
            # Another bundle may count its periods in another length, so take what is given.
            key, draws, held, latest = random_bytes(32), 0, NONE, period
            if key == self._key:
                raise RandomnessError("the random source repeats itself; nothing is released")
        spent, counted = self._charged(draws, held)
        if counted < 0:  # what no reading changes is not worth a write, and may be drawn again
            return table.draw([table.rows - 1])[0]
        memory = self._symbols_of(key) if turned else self._memory
        draws = min(NONE, draws + counted)
        if table.repeat == REPEAT_PERIOD and counted == 0:
            symbol = held
        elif table.repeat == REPEAT_NEVER:
            symbol = table.draw([row])[0]
        else:
            symbol = memory[row]
        if table.repeat != REPEAT_CODE:
            held = symbol  # otherwise the key tells it again
        if turned or counted > 0 or held != self.held:
            self._keep(latest, spent, draws, held, key)
            self._memory = memory
        return symbol

    def _keep(self, period: int, spent: int, draws: int, held: int, key: bytes) -> None:
        """Make a record the present one, once it is stored."""
        tag = self.table.tag
        _store(self._path, struct.pack(_RECORD, 0x314C5344, tag, period, spent, draws, held, key))
        self.bundle, self.period, self.spent, self.draws = tag, period, spent, draws
        self.held, self._key = held, key

    def _charged(self, draws: int, held: int) -> tuple[int, int]:
        """Return what is spent after one more release, and 1, 0 if free, -1 if not affordable."""
        table = self.table
        if table.repeat == REPEAT_CODE and draws >= table.rows:
            return self.spent, 0
        if table.repeat == REPEAT_PERIOD and held != NONE:
            return self.spent, 0
        after = self.spent + table.epsilon
        if table.budget != NONE and after > table.budget:
            return self.spent, -1
        return min(NONE, after), 1

    def _symbols_of(self, key: bytes) -> list[int]:
        """Return the symbol of every row, at once: the time of a first use would tell."""
        found = []  # type: list[int]
        words = []  # type: list[int]
        if self.table.repeat == REPEAT_NEVER:
            return found
        for row in range(self.table.rows):
            if not row & 15:
                words = keyed_words(key, row >> 4)
            found.append(self.table.pick(row, words[row & 15]))
        return found


def _is_sound(data: bytes) -> bool:
    return (
        len(data) == _RECORD_SIZE + 4
        and data[:4] == b"DSL1"
        and crc32(data[:-4]) == int.from_bytes(data[-4:], "little")
    )


def _stored(path: str) -> "bytes | None":
    """Return the stored record, or the one that a lost rename left behind, or None."""
    for name in (path, path + ".part"):
        try:
            with open(name, "rb") as stream:
                data = stream.read()
        except OSError:
            continue
        if name == path:
            return data
        if _is_sound(data):
            _rename(name, path)  # before the next record is written over it
            return data
    return None


def _store(path: str, record: bytes) -> None:
    draft = path + ".part"
    try:
        with open(draft, "wb") as stream:
            stream.write(record + struct.pack("<I", crc32(record)))
            stream.flush()
        _sync()
    except OSError:
        raise LedgerError("the ledger cannot be written; nothing is released") from None
    _rename(draft, path)


def _rename(draft: str, path: str) -> None:
    try:
        try:
            os.rename(draft, path)
        except OSError:  # FAT does not rename over a file; _stored looks for what is left
            os.remove(path)
            os.rename(draft, path)
        _sync()
    except OSError:
        raise LedgerError("the ledger cannot be written; nothing is released") from None


def _sync() -> None:
    if hasattr(os, "sync"):
        os.sync()
