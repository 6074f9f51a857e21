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
from hashlib import sha256

NONE = 0xFFFFFFFF  # no budget, no finite epsilon, no symbol held
BINS, CATEGORIES, CODES = 0, 1, 2
REPEAT_CODE, REPEAT_PERIOD, REPEAT_NEVER = 0, 1, 2
_HEAD, _RECORD = "<II32sIIIIIII", "<I8sIIIII32s8s"
_HEAD_SIZE, _RECORD_SIZE = 68, 72
_HOUR = 3600  # no more often is a clock worth a write
_MOST_TEXT = 65536  # bytes of categories, each with the room of the longest
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


# What os.urandom is, by sys.platform. Hardware: generators of noise. Radio: noise while the radio
# is on and awake. All others are refused: on the CC3200 it is a register of 24 bits that begins
# with the MAC address, on the SAMD21 a generator with a state of 32 bits, elsewhere not known.
HARDWARE = ("linux", "darwin", "rp2", "pyboard", "nrf", "mimxrt")
RADIO = ("esp32", "esp8266")
NO_RADIO = "without radio there is no randomness"


def refusal() -> str:
    """Return why this board's ``os.urandom`` cannot be used, or nothing."""
    machine = str(getattr(sys.implementation, "_machine", ""))
    if PLATFORM in HARDWARE or (PLATFORM == "samd" and "SAMD51" in machine):
        return ""
    if PLATFORM not in RADIO:
        return "os.urandom is not known to be random on " + PLATFORM
    return radio_problem()


def radio_problem() -> str:
    """Return why there is no noise of a radio, which an ESP32 and an ESP8266 need, or nothing.

    One that may sleep has none then. Bluetooth cannot be asked whether it does.
    """
    try:
        import network

        for which in (network.STA_IF, network.AP_IF):
            if network.WLAN(which).active():
                return _sleep_problem(network.WLAN(which))
    except (ImportError, AttributeError):  # a chip without Wi-Fi
        pass
    try:
        import bluetooth

        return "" if bluetooth.BLE().active() else NO_RADIO
    except (ImportError, AttributeError):
        return NO_RADIO


def _sleep_problem(wifi: object) -> str:
    try:
        asleep = wifi.config("pm") != 0  # type: ignore[attr-defined]
    except (ValueError, OSError):  # an old firmware, which lets it sleep
        asleep = True
    return "a radio that may sleep is not random: call WLAN.config(pm=0)" if asleep else ""


def _ones(number: int) -> int:
    return bin(number).count("1")


def _in_words(word: int) -> int:
    return int.from_bytes(word.to_bytes(4, "little") * 8, "little")


class Source:
    """Blocks of ``os.urandom``, each tested, and an HMAC_DRBG (SP 800-90A) that they seed.

    The tests are those of ``discreet_random.h``: repetition count and adaptive proportion of
    SP 800-90B over all calls, and some that find more at once. ``before``: how the source began at
    the start before this one.
    """

    def __init__(self, before: bytes) -> None:
        self.first, self._seen, self._last = b"", before, 0
        self._blocks = self._run = self._matches = self._wanted = self._byte = 0
        self._ones = self._zeros = 0
        self._counts = [0] * 5
        self._broken = False

    def start(self, own: bytes) -> None:
        """Test the source and seed the generator, also with what only this device knows."""
        digest = sha256()
        for _ in range(64):
            digest.update(self.ask())
        self._seed(digest.digest(), own)

    def _seed(self, entropy: bytes, own: bytes) -> None:
        self._key, self._value = bytes(32), b"\1" * 32
        self._update(entropy + self.ask() + own)

    def take(self, size: int) -> bytes:
        """Return random bytes, from a generator that was just seeded again."""
        self._update(self.ask())
        found = b""
        while len(found) < size:
            self._value = _hmac(self._key, self._value)
            found += self._value
        self._update(b"")
        return found[:size]

    def _update(self, data: bytes) -> None:
        for mark in (b"\0", b"\1")[: 2 if data else 1]:
            self._key = _hmac(self._key, self._value + mark + data)
            self._value = _hmac(self._key, self._value)

    def ask(self) -> bytes:
        """Return the next block of the source, or refuse it and all that follow."""
        problem = refusal()
        if problem:
            raise RandomnessError(problem + "; nothing is released")
        try:
            block = os.urandom(_BLOCK)
        except (AttributeError, NotImplementedError, OSError):  # not every port has it
            block = b""
        if len(block) != _BLOCK:
            raise RandomnessError("no random source answers; nothing is released")
        self._broken = self._test(block) or self._broken
        if self._broken:
            raise RandomnessError("the random source repeats itself or is biased")
        return block

    def _test(self, block: bytes) -> bool:
        number, words = int.from_bytes(block, "little"), struct.unpack("<8I", block)
        counts, pairs = self._count(number), 0
        for i in range(8):
            for j in range(i):
                pairs += words[i] == words[j]
        bad = block[:8] == self._seen or pairs > 1 or _are_off(counts, 1)
        if self._blocks % 16 == 0:
            self._wanted, self._matches = block[0], 0
        bad = self._repeats(block) or bad
        for i in range(5):
            self._counts[i] += counts[i]
        self._ones |= number
        self._zeros |= _EVERYTHING ^ number
        self.first = self.first or block[:8]
        if self._blocks & (self._blocks - 1) == 0:  # what comes again after any time is found
            self._seen = block[:8]
        self._last = number
        self._blocks += 1
        return self._ends_badly() or bad

    def _count(self, number: int) -> list[int]:
        found = [_ones(number)]
        for shift, mask in _NEAR:
            found.append(_ones((number ^ number >> shift) & mask))
        found.append(_ones(number ^ self._last) if self._blocks else 128)
        return found

    def _repeats(self, block: bytes) -> bool:
        longest = 0
        for byte in block:
            self._run = self._run + 1 if byte == self._byte else 1
            self._byte = byte
            self._matches += byte == self._wanted
            longest = max(longest, self._run)
        return longest >= 7 or self._matches >= 20

    def _ends_badly(self) -> bool:
        bad = False
        if self._blocks % 16 == 0:
            bad = _are_off(self._counts, 16)
            self._counts = [0] * 5
        if self._blocks % 64 == 0:  # every bit must have been 0 and 1
            bad = bad or self._ones & self._zeros != _EVERYTHING
            self._ones = self._zeros = 0
        return bad


_EVERYTHING = (1 << 256) - 1
_NEAR = ((1, _in_words(0x7FFFFFFF)), (8, _in_words(0x00FFFFFF)), (32, (1 << 224) - 1))
_SIZES = (256, 248, 192, 224, 256)


def _are_off(counts: list[int], blocks: int) -> bool:
    bad = False
    for i in range(5):
        bits = _SIZES[i] * blocks
        bad = bad or (2 * counts[i] - bits) ** 2 > 56 * bits
    return bad


def _hmac(key: bytes, data: bytes) -> bytes:
    inner = sha256(bytes([byte ^ 0x36 for byte in key]) + b"\x36" * 32)
    inner.update(data)
    return sha256(bytes([byte ^ 0x5C for byte in key]) + b"\x5c" * 32 + inner.digest()).digest()


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
        self._room, self._text = _padded(body[text : text + head[8]], self.plain)

    def row(self, reading: object) -> int:
        """Return the row for a reading: its code, or the last row if no code fits.

        Readings of one type take the same steps, texts if they are as long, and so does a missing
        number. The steps are arithmetic on integers below 2**30: comparisons give True or False,
        which MicroPython does not handle alike, and larger integers are slower.
        """
        unreadable, is_text = self.rows - 1, isinstance(reading, str)
        if is_text and self.kind != CATEGORIES:
            try:
                reading, is_text = float(str(reading)), False
            except ValueError:  # "unavailable" and the like: no code fits
                return unreadable
        if reading is None:
            reading = float("nan")
        if self.kind == CATEGORIES and not isinstance(reading, float):
            if not is_text and not isinstance(reading, (int, bool)):  # a bool is no int here
                raise TypeError("this sensor reads numbers and text; convert the reading first")
            if not is_text:  # str() takes longer for words that it knows
                reading = str(reading)
            return self._text_row(reading.encode())  # type: ignore[attr-defined]
        if not isinstance(reading, (int, float, bool)):
            raise TypeError("this sensor reads numbers and text; convert the reading first")
        a, b, c, d = struct.unpack("<4H", struct.pack("<d", _as_float(reading)))
        zero = ((a | b | c | d & 0x7FFF) - 1) >> 16 & 1
        infinite, whole = (
            ((d & 0x7FF0 ^ 0x7FF0) - 1) >> 16 & 1,
            ((a | b | c | d & 15) - 1) >> 16 & 1,
        )
        d = (d, 0)[zero]  # no minus zero
        if self.kind == CODES:
            found = self._code_row(a | b, c, d, zero)
        else:
            found = self._number_row(_number_key(a, b, c, d), self.kind == BINS)
        return (found, unreadable - self.missing)[infinite & ~whole]  # not a number

    def _code_row(self, rest: int, c: int, d: int, zero: int) -> int:
        """Return the row of a number by its bits; ``rest``: the lower 32 of its mantissa."""
        exponent = (d >> 4 & 0x7FF) - 1023
        fits = 1 + (exponent >> 15 | 16 - exponent >> 15)  # from 1 to 2**17
        shift = (20, 20 - exponent)[fits]
        bits = 1 << 20 | (d & 15) << 16 | c
        code = (bits >> shift, 0)[zero]
        fraction = rest | bits & (1 << shift) - 1
        fits = (fits & (fraction - 1) >> 20 & ~(d >> 15)) | zero
        return (self.rows - 1, code)[fits & (code - self.plain) >> 20 & 1]

    def _number_row(self, key: "tuple[int, int, int, int]", bins: bool) -> int:
        """Return how many keys lie below or, for categories, the one that is equal."""
        a, b, c, d = key
        below, found, at = 0, self.plain, self._keys
        for i in range(self.plain):
            p, q, r, s = struct.unpack_from("<4H", self._body, at)
            borrow = (r - c + (q - b + (p - a >> 16) >> 16) >> 16) + s - d
            below += borrow >> 16 & 1
            found = (found, i)[((p ^ a | q ^ b | r ^ c | s ^ d) - 1) >> 16 & 1]
            at += 8
        return (found, below)[bins]

    def _text_row(self, wanted: bytes) -> int:
        """Return the category of a text; every byte of every one is compared."""
        room, text, found, at = self._room, self._text, self.plain, 0
        fits = int(len(wanted) < room)
        wanted = (wanted + bytes(room))[:room]
        for i in range(self.plain):
            differs = 0
            for k in range(room):
                differs |= text[at + k] ^ wanted[k]
            found = (found, i)[(differs - 1) >> 16 & fits]
            at += room
        return found

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
            count += 1 + (high - above + (low - below >> 16) >> 16)
            at += 4
        top = body[self._tops + row]
        return (count, top)[top - count >> 16 & 1]

    def draw(self, row: int, source: Source) -> int:
        """Draw a fresh symbol for a row. Nothing is remembered and nothing counted."""
        low, high = struct.unpack("<HH", source.take(4))
        return self.pick_halves(row, low, high)


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:  # an integer beyond all floats
        return float("inf") if number > 0 else -float("inf")


def _number_key(a: int, b: int, c: int, d: int) -> "tuple[int, int, int, int]":
    """Return 64 bits that compare as integers like the numbers do, in quarters, the last first."""
    mask = -(d >> 15) & 0xFFFF
    return a ^ mask, b ^ mask, c ^ mask, d ^ (mask | 0x8000)


def _padded(text: bytes, count: int) -> "tuple[int, bytes]":
    """Return the room of the longest text with its end, and all texts in such rooms."""
    starts, longest, start = [], 0, 0
    for _ in range(count if text else 0):
        end = text.find(b"\0", start)
        if end < 0:
            raise BundleError("the table makes no sense; export it again")
        starts.append((start, end))
        longest = max(longest, end - start)
        start = end + 1
    room = longest + 1
    if len(starts) * room > _MOST_TEXT:
        raise BundleError("the categories take more room than there is; learn with fewer")
    found = bytearray(len(starts) * room)
    for i in range(len(starts)):
        start, end = starts[i]
        found[i * room : i * room + end - start] = text[start:end]
    return room, bytes(found)


# --- The sensor ----------------------------------------------------------------------------


class Sensor:
    """A sensor at work: table, randomness and ledger, all checked.

    A ledger that is damaged counts as spent. One that is absent is made only if ``make_new``
    says so, or if the table has no budget to lose.
    """

    def __init__(self, table: str, ledger: str, make_new: bool = False) -> None:
        with open(table, "rb") as stream:
            self.table = Table(stream.read())
        self._path = ledger
        self.bundle, self.elapsed, self.mark, self.spent, self.draws = bytes(8), 0, 0, 0, 0
        self.held, self._key, first = NONE, bytes(32), bytes(8)
        self.pending = -1
        record = _stored(ledger)
        if record is not None:
            first = self._unpack(record)
        elif not make_new and self.table.budget != NONE:
            raise LedgerError("there is no ledger; make_new=True makes one on a new device")
        self.source = Source(first)
        self.source.start(self._key)
        if self.table.repeat != REPEAT_PERIOD and self._is_own() and self.held != NONE:
            self.pending = self.held  # not delivered before the reboot
        self._memory = self._symbols_of(self._key)
        self._running, self._last_write = False, self.elapsed
        self._ticks, self._awake = _ticks(), 0

    def _unpack(self, data: bytes) -> bytes:
        if not _is_sound(data):
            self.spent = NONE
            return bytes(8)
        fields = struct.unpack(_RECORD, data[:-4])
        self.bundle, self.elapsed, self.mark, self.spent, self.draws = fields[1:6]
        self.held, self._key, first = fields[6:]
        return bytes(first)

    def release(self, reading: object, uptime: int = -1) -> int:
        """Return the symbol to send; the same one until ``delivered``, also after a reboot.

        ``uptime``: seconds on a clock that nobody else can set, with the time asleep; by default
        since this sensor was made. Never the time of day, which a network sets.
        """
        if self.pending < 0:
            row = self.table.row(reading)
            self.pending = self._release(row, self.awake() if uptime < 0 else uptime)
        return self.pending

    def awake(self) -> int:
        """Return the seconds since this sensor was made. Ask at least every six days."""
        now = _ticks()
        self._awake += (
            time.ticks_diff(now, self._ticks)
            if hasattr(time, "ticks_diff")
            else (now - self._ticks)
        )
        self._ticks = now
        return self._awake // 1000

    def delivered(self) -> None:
        """Note that the symbol has arrived; the next release is for a new reading.

        If the ledger has to note it and cannot, the next release repeats the symbol.
        """
        waits = self.pending >= 0 and self.held != NONE and self._is_own()
        if waits and self.table.repeat != REPEAT_PERIOD:
            self._keep(self.elapsed, self.spent, self.draws, NONE, self._key)
        self.pending = -1

    def spend(self, floor: int) -> None:
        """Count what was released before the state of the device was lost."""
        fields = (self.bundle, self.elapsed, self.mark, floor, self.draws, self.held, self._key)
        _store(self._path, struct.pack(_RECORD, 0x324C5344, *fields, self.source.first))
        self.spent = floor

    def _is_own(self) -> bool:
        """Whether the record was written for this table."""
        sound = self.held == NONE or self.held < self.table.symbols
        return sound and self.bundle == self.table.tag

    def _pass(self, uptime: int) -> None:
        """Count how long the period has lasted, never more than has passed.

        After a start the uptime may have begun again: then what it says has passed, and what was
        before is not known.
        """
        if not 0 <= uptime <= NONE:
            raise LedgerError("the uptime must be from 0 to 4294967295 seconds")
        more = uptime - self.mark
        if more < 0:
            more = 0 if self._running else uptime
        self.elapsed, self.mark = min(NONE, self.elapsed + more), uptime
        self._running = True

    def _release(self, row: int, uptime: int) -> int:
        table = self.table
        self._pass(uptime)
        draws, held, key, elapsed = self.draws, self.held, self._key, self.elapsed
        turned = elapsed >= table.period or not self._is_own()
        if turned:
            key, draws, held, elapsed = self.source.take(32), 0, NONE, 0
        spent, counted = self._charged(draws, held)
        if counted < 0:  # what no reading changes is not worth a write, and may be drawn again
            return table.draw(table.rows - 1, self.source)
        memory = self._symbols_of(key) if turned else self._memory
        draws = min(NONE, draws + counted)
        if table.repeat == REPEAT_PERIOD and counted == 0:
            symbol = held
        elif table.repeat == REPEAT_NEVER:
            symbol = table.draw(row, self.source)
        else:
            symbol = memory[row]
        if table.repeat != REPEAT_CODE:
            held = symbol  # otherwise the key tells it again
        late = elapsed - self._last_write >= max(_HOUR, table.period // 8)
        if turned or counted > 0 or late:
            self._keep(elapsed, spent, draws, held, key)
            self._memory = memory
        return symbol

    def _keep(self, elapsed: int, spent: int, draws: int, held: int, key: bytes) -> None:
        """Make a record the present one, once it is stored."""
        tag, first = self.table.tag, self.source.first
        fields = (tag, elapsed, self.mark, spent, draws, held, key, first)
        _store(self._path, struct.pack(_RECORD, 0x324C5344, *fields))
        self.bundle, self.elapsed, self.spent, self.draws = tag, elapsed, spent, draws
        self.held, self._key, self._last_write = held, key, elapsed

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


def _ticks() -> int:
    return time.ticks_ms() if hasattr(time, "ticks_ms") else int(time.monotonic() * 1000)


def _is_sound(data: bytes) -> bool:
    return (
        len(data) == _RECORD_SIZE + 4
        and data[:4] == b"DSL2"
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
