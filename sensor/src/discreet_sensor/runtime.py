"""Draw a sensor's symbols from a bundle that ``discreet export --to python`` wrote.

One file, standard library only, Python 3.9 or newer:

    import discreet_sensor

    hall = discreet_sensor.Sensor(
        "hall.bundle", public_key="...", ledger="hall.ledger", name="hall", mapping_id="sha256:..."
    )
    symbol = hall.release(reading)
    if send(symbol):
        hall.delivered()

Threads that share a sensor take ``hall.deliver(reading, send)``, coroutines ``deliver_async``.
``python discreet_sensor.py new hall.ledger`` makes the ledger when a device is set up. What is
promised, and what the ledger counts, is in docs/devices.md of discreet.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import stat
import struct
import sys
import threading
import time
import zlib
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from operator import sub
from typing import Any, NamedTuple, Union
from weakref import WeakKeyDictionary

__all__ = ["BundleError", "LedgerError", "RandomnessError", "Sensor", "SensorError", "Table"]

Reading = Union[None, bool, int, float, str]
PathName = Union[str, "os.PathLike[str]"]

NONE = 0xFFFFFFFF
"""Stands for: no budget, no finite epsilon, no symbol held."""
MAX_BUNDLE = 16 * 2**20
MAX_CODES = 100_000
BINS, CATEGORIES, CODES = 0, 1, 2
REPEAT_CODE, REPEAT_PERIOD, REPEAT_NEVER = 0, 1, 2
SIGNED_AS = b"discreet-bundle-1\0"
"""What a signature covers before the body, so that it can be for nothing else."""

_BUNDLE_MAGIC, _LEDGER_MAGIC = 0x31435344, 0x324C5344
_HEAD = struct.Struct("<II32sIIIIIII")  # as laid out in discreet.h
_RECORD = struct.Struct("<I8sIIIII32s8s")
_BLOCK = 32  # bytes asked of the system at least
_HOUR = 3600  # no more often is a clock worth a write
_CHUNK = 4096  # readings drawn at once
_LIFT = 2**52
_LIFTED_ZERO = struct.pack("<d", _LIFT)  # its first four bytes are free for a word
_PLUS = bytes(byte < 128 for byte in range(256))  # the last byte of a float to: not negative


class SensorError(Exception):
    """Base of everything that keeps a symbol from being released."""


class BundleError(SensorError):
    """A bundle that is damaged, not signed with the right key, or not the one expected."""


class RandomnessError(SensorError):
    """The system's random source is absent, fails or is stuck."""


class LedgerError(SensorError):
    """The ledger is absent, in use by another process or cannot be written."""


# --- Ed25519 (RFC 8032) --------------------------------------------------------------------

_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _P - 2, _P) % _P
_ROOT = pow(2, (_P - 1) // 4, _P)

_Point = tuple[int, int, int, int]  # extended coordinates: x = X/Z, y = Y/Z, T = XY/Z


def _add(a: _Point, b: _Point) -> _Point:
    p, q = (a[1] - a[0]) * (b[1] - b[0]) % _P, (a[1] + a[0]) * (b[1] + b[0]) % _P
    r, s = 2 * a[3] * b[3] * _D % _P, 2 * a[2] * b[2] % _P
    e, f, g, h = q - p, s - r, s + r, q + p
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times(scalar: int, point: _Point) -> _Point:
    total = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            total = _add(total, point)
        point = _add(point, point)
        scalar >>= 1
    return total


def _decompress(data: bytes) -> _Point | None:
    number = int.from_bytes(data, "little")
    odd, y = number >> 255, number & (2**255 - 1)
    if y >= _P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, _P - 2, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * _ROOT % _P
    if (x * x - square) % _P or (x == 0 and odd):
        return None
    if x & 1 != odd:
        x = _P - x
    return x, y, 1, x * y % _P


_BASE = _decompress((4 * pow(5, _P - 2, _P) % _P).to_bytes(32, "little"))


def is_strong(public_key: bytes) -> bool:
    """Whether a key vouches for anything: eight points, among them 32 zero bytes, do not."""
    point = _decompress(public_key) if len(public_key) == 32 else None
    if point is None:
        return False
    x, y, z, _ = _times(8, point)
    return x != 0 or y != z


def verify_slowly(public_key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether a signature is right, by integer arithmetic alone."""
    if len(signature) != 64 or not is_strong(public_key):
        return False
    key, commitment = _decompress(public_key), _decompress(signature[:32])
    response = int.from_bytes(signature[32:], "little")
    if key is None or commitment is None or response >= _L or _BASE is None:
        return False
    digest = hashlib.sha512(signature[:32] + public_key + message).digest()
    challenge = int.from_bytes(digest, "little") % _L
    left, right = _times(response, _BASE), _add(commitment, _times(challenge, key))
    same_x = (left[0] * right[2] - right[0] * left[2]) % _P == 0
    return same_x and (left[1] * right[2] - right[1] * left[2]) % _P == 0


def verify(public_key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether a signature is right, with ``cryptography`` if it is there."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        return verify_slowly(public_key, signature, message)
    if not is_strong(public_key):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


# --- Randomness ----------------------------------------------------------------------------


def _in_words(word: int) -> int:
    return sum(word << 32 * i for i in range(8))


def _ones(number: int) -> int:
    return bin(number).count("1")


class Health:
    """Tests of a source of randomness over all that is asked of it, as in ``discreet_random.h``.

    Repetition count and adaptive proportion (SP 800-90B) over bytes, and what finds more at once:
    ones and differing neighbours far from the half, stuck bits, blocks that come again. The
    source of a system is such a generator as SP 800-90A wants already: nothing is seeded here.

    Parameters
    ----------
    before : bytes
        How the source began at the start before this one: it must not begin so again.
    """

    STARTUP, WINDOW, SPREAD, MATCHES, REPETITIONS = 64, 16, 56, 20, 7
    _SIZES = (256, 248, 192, 224, 256)
    _MASKS = (_in_words(0x7FFFFFFF), _in_words(0x00FFFFFF), 2**224 - 1)
    _EVERYTHING = 2**256 - 1

    def __init__(self, before: bytes = bytes(8)) -> None:
        self.first, self._seen, self._last = b"", before, 0
        self._blocks = self._run = self._matches = self._wanted = 0
        self._byte = 0
        self._ones = self._zeros = 0
        self._counts = [0] * 5
        self.broken = False

    def test(self, block: bytes) -> bool:
        """Whether the source may still be used after these 32 bytes."""
        number = int.from_bytes(block, "little")
        counts = self._count(number)
        words = struct.unpack("<8I", block)
        pairs = sum(words[i] == words[j] for i in range(8) for j in range(i))
        bad = block[:8] == self._seen or pairs > 1 or self._are_off(counts, 1)
        if self._blocks % self.WINDOW == 0:
            self._wanted, self._matches = block[0], 0
        bad |= self._repeats(block)
        self._counts = [a + b for a, b in zip(self._counts, counts)]
        self._ones, self._zeros = self._ones | number, self._zeros | ~number
        self.first = self.first or block[:8]
        if self._blocks & (self._blocks - 1) == 0:  # what comes again after any time is found
            self._seen = block[:8]
        self._last = number
        self._blocks += 1
        self.broken |= bad | self._ends_badly()
        return not self.broken

    def _count(self, number: int) -> list[int]:
        """Count ones, and bits that differ between neighbours: bits, bytes, words, blocks."""
        shifted = zip((1, 8, 32), self._MASKS)
        near = [_ones((number ^ number >> shift) & mask) for shift, mask in shifted]
        return [_ones(number), *near, _ones(number ^ self._last) if self._blocks else 128]

    def _are_off(self, counts: list[int], blocks: int) -> bool:
        sizes = (size * blocks for size in self._SIZES)
        return any((2 * c - n) ** 2 > self.SPREAD * n for c, n in zip(counts, sizes))

    def _repeats(self, block: bytes) -> bool:
        longest = 0
        for byte in block:
            self._run = self._run + 1 if byte == self._byte else 1
            self._byte = byte
            longest = max(longest, self._run)
        self._matches += block.count(self._wanted)
        return longest >= self.REPETITIONS or self._matches >= self.MATCHES

    def _ends_badly(self) -> bool:
        """Test what was added up in a window of blocks, where one ends."""
        bad = False
        if self._blocks % self.WINDOW == 0:
            bad = self._are_off(self._counts, self.WINDOW)
            self._counts = [0] * 5
        if self._blocks % self.STARTUP == 0:  # every bit must have been 0 and 1
            bad |= self._ones & self._zeros & self._EVERYTHING != self._EVERYTHING
            self._ones = self._zeros = 0
        return bad


_health = Health()
_testing = threading.Lock()


def random_bytes(size: int) -> bytes:
    """Return bytes from the operating system, or refuse.

    Raises
    ------
    RandomnessError
        If there is no source, it falls short, or it fails a test.
    """
    size = max(size, _BLOCK)
    try:
        found = os.urandom(size)
    except (AttributeError, NotImplementedError, OSError):
        found = b""
    if len(found) != size:
        raise RandomnessError("the system's random source does not answer. Nothing is released.")
    with _testing:
        sound = _health.test(found[:_BLOCK])
        if size >= 2 * _BLOCK:  # the end as well, should it not be filled
            sound &= _health.test(found[-_BLOCK:])
    if not sound:
        raise RandomnessError(
            "the system's random source repeats itself or is biased. Nothing is released."
        )
    return found


def check_randomness(before: bytes = bytes(8)) -> None:
    """Test the source again, with 64 blocks, as at every start. A weak one may pass.

    Parameters
    ----------
    before : bytes
        How the source began at the start before this one.

    Raises
    ------
    RandomnessError
    """
    global _health
    with _testing:
        _health = Health(before)
    for _ in range(Health.STARTUP):
        random_bytes(_BLOCK)


_ROUND = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
          (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))  # fmt: skip


def keyed_words(key: bytes, counter: int) -> list[int]:
    """Return 16 words of the ChaCha20 keystream (RFC 8439) with nonce 0."""
    start = list(struct.unpack("<8I", key))
    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *start, counter, 0, 0, 0]
    x = list(start)
    for _ in range(10):
        for i, j, k, m in _ROUND:
            a, b, c, d = x[i], x[j], x[k], x[m]
            a = (a + b) & NONE
            d ^= a
            d = (d << 16 | d >> 16) & NONE
            c = (c + d) & NONE
            b ^= c
            b = (b << 12 | b >> 20) & NONE
            a = (a + b) & NONE
            d ^= a
            d = (d << 8 | d >> 24) & NONE
            c = (c + d) & NONE
            b ^= c
            x[i], x[j], x[k], x[m] = a, (b << 7 | b >> 25) & NONE, c, d
    return [(a + b) & NONE for a, b in zip(x, start)]


# --- The table -----------------------------------------------------------------------------


def number_key(number: float) -> int:
    """Return 64 bits that compare as integers like the numbers do."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", number + 0.0))  # no minus zero
    return int(bits ^ (2**64 - 1) if bits >> 63 else bits | 2**63)


def _number_of(key: int) -> float:
    bits = key ^ 2**63 if key >> 63 else key ^ (2**64 - 1)
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


class Table:
    """One sensor's encoder and thresholds, read from the body of a bundle.

    Parameters
    ----------
    body : bytes
        Believed to be authentic; checked for damage all the same.

    Attributes
    ----------
    name : str
        The sensor's name.
    mapping_id : str
        The mapping that the table is part of.
    tag : bytes
        Tells this bundle from any other, in the ledger.
    symbols : int
    rows : int
        One for each code and, last, one for readings that no code fits.
    epsilon : int
        What one release tells by C1, in millionths of a nat; ``NONE`` if without bound.
    budget : int
        What all releases may tell, likewise; ``NONE`` if there is no limit.
    period : int
        Seconds.
    repeat : int
        ``REPEAT_CODE``, ``REPEAT_PERIOD`` or ``REPEAT_NEVER``.

    Raises
    ------
    BundleError
    """

    def __init__(self, body: bytes) -> None:
        if len(body) % 4 or not _HEAD.size < len(body) <= MAX_BUNDLE:
            raise _damaged("its length is wrong")
        head = _HEAD.unpack_from(body)
        magic, words, mapping, kind, plain, self.epsilon, self.budget, self.period, *sizes = head
        if magic != _BUNDLE_MAGIC or words * 4 != len(body):
            raise _damaged("it is no bundle of this version, or was cut short")
        if zlib.crc32(body[:-4]) != int.from_bytes(body[-4:], "little"):
            raise _damaged("its checksum is wrong")
        self.kind, flags, self.symbols = int(kind & 255), kind >> 8 & 255, int(kind >> 16)
        self.missing, self.repeat = bool(flags & 1), flags >> 1
        if self.kind > CODES or self.repeat > REPEAT_NEVER or not 2 <= self.symbols <= 256:
            raise _damaged("its head makes no sense")
        if plain > MAX_CODES or not self.period or (self.kind == CODES and not plain):
            raise _damaged("its head makes no sense")
        self.mapping_id, self.plain = "sha256:" + mapping.hex(), int(plain)
        self.tag = mapping[:4] + body[-4:]
        self.rows = self.plain + 1 + (self.kind != CODES) + self.missing
        self._read_parts(body, *sizes)

    def _read_parts(self, body: bytes, text_size: int, name_size: int) -> None:
        cells, keys = self.rows * (self.symbols - 1), 0 if self.kind == CODES else self.plain
        lengths = (4 * cells, _padded(self.rows), 8 * keys, _padded(text_size), _padded(name_size))
        if _HEAD.size + sum(lengths) + 4 != len(body):
            raise _damaged("its parts do not fill it")
        parts, at = [], _HEAD.size
        for length in lengths:
            parts.append(body[at : at + length])
            at += length
        self.tops = parts[1][: self.rows]
        self._read_thresholds(struct.unpack(f"<{cells}I", parts[0]))
        self._read_encoder(struct.unpack(f"<{keys}Q", parts[2]), parts[3][:text_size])
        self.name = _text(parts[4][:name_size])

    def _read_thresholds(self, flat: Sequence[int]) -> None:
        width = self.symbols - 1
        self.thresholds = [tuple(flat[i : i + width]) for i in range(0, len(flat), width)]
        for row, top in zip(self.thresholds, self.tops):
            falls = any(a > b for a, b in zip(row, row[1:]))
            if falls or top > width or any(each != NONE for each in row[top:]):
                raise _damaged("a row of its table is no distribution")
        # As floats, and what stands for 2^32 as 2^32, which no word reaches.
        self._lifted = [
            tuple(float((each if i < top else 2**32) + _LIFT) for i, each in enumerate(row))
            for row, top in zip(self.thresholds, self.tops)
        ]
        self._start = width / 2.0
        # Two symbols need no more than one comparison.
        self._first = [row[0] for row in self._lifted] if self.symbols == 2 else []

    def _read_encoder(self, keys: Sequence[int], text: bytes) -> None:
        self.edges: list[float] = []
        self.categories: list[str] = []
        if self.kind == CATEGORIES:
            if text[-1:] not in (b"", b"\0") or text.count(b"\0") != self.plain:
                raise _damaged("its categories cannot be distinguished")
            self.categories = [_text(each) for each in text.split(b"\0")[:-1]]
            self._places = {each: i for i, each in enumerate(self.categories)}
            if len(self._places) < self.plain:
                raise _damaged("its categories cannot be distinguished")
        elif text:
            raise _damaged("it holds text that nothing reads")
        if self.kind == BINS:
            self.edges = [_number_of(key) for key in keys]
            rising = all(a < b for a, b in zip(keys, keys[1:]))
            if not rising or not all(map(math.isfinite, self.edges)):
                raise _damaged("its edges do not rise")

    def row(self, reading: Reading) -> int:
        """Return the row for a reading: its code, or the last row if no code fits.

        Raises
        ------
        TypeError
            If the reading is neither a number nor a text.
        """
        unreadable = self.rows - 1
        if isinstance(reading, str) and self.kind != CATEGORIES:
            reading = _number_in(reading)
            if reading is None:  # "unavailable" and the like: no code fits
                return unreadable
        if reading is None or (isinstance(reading, float) and math.isnan(reading)):
            return unreadable - self.missing
        if self.kind == CATEGORIES and isinstance(reading, (int, float, str)):
            return self._places.get(_written(reading), self.plain)
        if self.kind == CATEGORIES or not isinstance(reading, (int, float)):
            raise TypeError(
                f"sensor {self.name!r} reads numbers and text; it got a {type(reading).__name__}. "
                "Convert the reading first."
            )
        if self.kind == BINS:
            return bisect_left(self.edges, _float(reading))
        fits = 0 <= reading < self.plain and reading == int(reading)
        return int(reading) if fits else unreadable

    def pick(self, row: int, word: int) -> int:
        """Return the symbol that a 32-bit word picks in a row."""
        return self.pick_lifted((row,), (float(word + _LIFT),))[0]

    def pick_lifted(self, rows: Sequence[int], words: Sequence[float]) -> bytes:
        """Return the symbols for words that are given as floats 2^52 + word.

        Every threshold is compared, whatever the word: an early exit would let the time tell
        the symbol. So would integers, which Python compares digit by digit and counts the users
        of, and truth values, on which the processor branches. The sign of an exact difference of
        floats does neither; that of equal ones is plus. Only the last step makes bytes of it.
        """
        doubles = struct.Struct(f"<{len(rows)}d")
        if self._first:
            found = map(sub, words, map(self._first.__getitem__, rows))
            return doubles.pack(*found)[7::8].translate(_PLUS)
        return doubles.pack(*map(self._lifted_symbol, rows, words))[::8]

    def _lifted_symbol(self, row: int, lifted: float) -> float:
        count = self._start
        for threshold in self._lifted[row]:
            count += math.copysign(0.5, lifted - threshold)
        return count + _LIFT

    def draw(self, rows: Sequence[int]) -> list[int]:
        """Draw a fresh symbol for each row. Nothing is remembered and nothing counted.

        Raises
        ------
        RandomnessError
        """
        symbols: list[int] = []
        for start in range(0, len(rows), _CHUNK):
            some = rows[start : start + _CHUNK]
            symbols += self.pick_lifted(some, _lifted_words(len(some)))
        return symbols


def _lifted_words(count: int) -> tuple[float, ...]:
    """Return random words as floats 2^52 + word, without making integers of them."""
    room = bytearray(_LIFTED_ZERO * count)
    fresh = memoryview(random_bytes(4 * count)[: 4 * count])
    memoryview(room).cast("I")[::2] = fresh.cast("I")
    return struct.unpack(f"<{count}d", room)


def _padded(size: int) -> int:
    return (size + 3) // 4 * 4


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise _damaged("a text is not UTF-8") from None


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _number_in(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _written(value: bool | int | float | str) -> str:
    """Return how a mapping writes a value: 1.0 like 1, but True unlike 1."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def _damaged(problem: str) -> BundleError:
    return BundleError(f"the bundle cannot be used: {problem}. Export it again.")


def read_bundle(
    path: PathName,
    public_key: str | bytes,
    name: str | None = None,
    mapping_id: str | None = None,
) -> Table:
    """Return the table in a signed bundle; nothing is parsed before the signature is checked.

    Parameters
    ----------
    path : str or path
    public_key : str or bytes
        The exporter's key, as hexadecimal digits or 32 bytes. It must reach the device by
        another way than the bundle.
    name, mapping_id : str, optional
        The sensor and the mapping that the bundle must be of. A signature alone also vouches
        for the bundles of other sensors and of former mappings.

    Raises
    ------
    BundleError
    """
    try:
        key = bytes.fromhex(public_key) if isinstance(public_key, str) else bytes(public_key)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise BundleError("the public key must be 64 hexadecimal digits, as the export printed.")
    data = _read_limited(path)
    body, signature = data[:-64], data[-64:]
    if len(data) <= 64 or not verify(key, signature, SIGNED_AS + body):
        raise BundleError(
            f"{os.fspath(path)}: is not signed with the key of this device. Export it again with "
            "that key, or give the device the new public key."
        )
    table = Table(body)
    for what, wanted, seen in (
        ("sensor", name, table.name),
        ("mapping", mapping_id, table.mapping_id),
    ):
        if wanted is not None and wanted != seen:
            raise BundleError(
                f"{os.fspath(path)}: is of {what} {seen!r}, not of {wanted!r}. Put the right "
                "bundle in its place, or tell the device what to expect."
            )
    return table


def _read_limited(path: PathName) -> bytes:
    try:
        if not _is_file(path):
            raise BundleError(f"{os.fspath(path)}: is not a file. Name a bundle.")
        with open(path, "rb") as stream:
            data = stream.read(MAX_BUNDLE + 65)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BundleError(f"{os.fspath(path)}: cannot be read ({reason}). Name a bundle.") from None
    if len(data) > MAX_BUNDLE + 64:
        raise BundleError(f"{os.fspath(path)}: is too large for a bundle. Name a bundle.")
    return data


def _is_file(path: PathName) -> bool:
    """Whether it is a file: to open a pipe might take for ever."""
    return stat.S_ISREG(os.stat(path).st_mode)


# --- The ledger ----------------------------------------------------------------------------


class Record(NamedTuple):
    """What survives a reboot.

    Attributes
    ----------
    bundle : bytes
        Start of the mapping's id and checksum of the bundle that the key is for.
    elapsed : int
        Seconds that the present period has lasted, when the uptime was ``mark``.
    mark : int
    spent : int
        What has been released by C1, in millionths of a nat; ``NONE``: without bound.
    draws : int
        Releases counted in this period.
    held : int
        The symbol of the whole period or, if symbols are not held that long, one that was drawn
        afresh and waits to be delivered; ``NONE`` if there is none.
    key : bytes
        Picks the symbols of this period; never leaves the device.
    first : bytes
        How the source of randomness began when this was written.
    """

    bundle: bytes = bytes(8)
    elapsed: int = 0
    mark: int = 0
    spent: int = 0
    draws: int = 0
    held: int = NONE
    key: bytes = bytes(32)
    first: bytes = bytes(8)

    def __repr__(self) -> str:
        """Return the record without its key, which belongs in no log."""
        return f"<Record {self[:-2]}>"

    def pack(self) -> bytes:
        """Return the record as it is stored, the same in every language."""
        data = _RECORD.pack(_LEDGER_MAGIC, *self)
        return data + zlib.crc32(data).to_bytes(4, "little")

    @classmethod
    def unpack(cls, data: bytes) -> Record:
        """Return what was stored. A damaged record counts as spent."""
        body, crc = data[:-4], int.from_bytes(data[-4:], "little")
        if len(body) != _RECORD.size or zlib.crc32(body) != crc:
            return cls(spent=NONE)
        magic, *fields = _RECORD.unpack(body)
        return cls(*fields) if magic == _LEDGER_MAGIC else cls(spent=NONE)


class Ledger:
    """The file that holds a record. One process at a time may use it, and no fork of it.

    Parameters
    ----------
    path : str or path
    make_new : bool
        Whether to begin a new one if there is none.

    Raises
    ------
    LedgerError
    """

    def __init__(self, path: PathName, make_new: bool) -> None:
        self.path = os.path.realpath(os.fspath(path))
        self._lock = _lock(self.path)
        self._owner: int | None = os.getpid()
        try:
            if not _is_file(self.path):
                self.close()
                raise LedgerError(f"{self.path}: is not a file. Name a ledger.")
            with open(self.path, "rb") as stream:
                self.record = Record.unpack(stream.read(_RECORD.size + 5))
        except FileNotFoundError:
            self.record = Record()
            if not make_new:
                self.close()
                raise LedgerError(
                    f"{self.path}: there is no ledger, and a lost one must not refill the budget. "
                    "On a new device make it once: python discreet_sensor.py new LEDGER"
                ) from None
        except OSError as error:
            self.close()
            raise LedgerError(f"{self.path}: cannot be read ({error.strerror}).") from None

    def check_owner(self) -> None:
        """Refuse work after ``close`` and in a forked process, which would count apart.

        Raises
        ------
        LedgerError
        """
        if self._owner != os.getpid():
            raise LedgerError(
                f"{self.path}: is closed, or another process opened it. Make a Sensor here."
            )

    def store(self, record: Record) -> None:
        """Write the record whole or not at all, and wait until it is safe.

        Raises
        ------
        LedgerError
        """
        draft = self.path + ".part"
        try:
            if os.path.lexists(draft):
                os.unlink(draft)  # left by a crash; never followed and never written over
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(handle, "wb") as stream:
                stream.write(record.pack())
                stream.flush()
                os.fsync(handle)
            os.replace(draft, self.path)
            _sync_folder(os.path.dirname(self.path))
        except OSError as error:
            raise LedgerError(
                f"{self.path}: cannot be written ({error.strerror}). Nothing is released."
            ) from None
        self.record = record

    def close(self) -> None:
        """Let another process use the ledger."""
        self._owner = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _lock(path: str) -> int | None:
    try:
        import fcntl
    except ImportError:  # not a Unix
        return None
    try:
        handle = os.open(path + ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise LedgerError(f"{path}: cannot be locked ({error.strerror}).") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise LedgerError(f"{path}: is in use. One process at a time may release.") from None
    return handle


def _sync_folder(folder: str) -> None:
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- The sensor ----------------------------------------------------------------------------


class Sensor:
    """A sensor at work: bundle, randomness and ledger, all checked. Threads may share it.

    Parameters
    ----------
    bundle : str or path
    public_key : str or bytes
        See ``read_bundle``.
    ledger : str or path
        Kept on this device, never copied to another.
    make_new : bool, default=False
        Whether to make a ledger if there is none: when a device is set up, never after.
        Where the bundle has no budget there is nothing to lose, and one is always made.
    name, mapping_id : str, optional
        What the bundle must be of; see ``read_bundle``.

    Attributes
    ----------
    table : Table
    pending : int or None
        The symbol that waits to be delivered.

    Raises
    ------
    SensorError
    """

    def __init__(
        self,
        bundle: PathName,
        *,
        public_key: str | bytes,
        ledger: PathName,
        make_new: bool = False,
        name: str | None = None,
        mapping_id: str | None = None,
    ) -> None:
        self.table = read_bundle(bundle, public_key, name, mapping_id)
        self.ledger = Ledger(ledger, make_new or self.table.budget == NONE)
        self.pending: int | None = None
        self._drew: int | None = None  # the thread whose symbol is pending
        record = self.ledger.record
        self._stored, self._running = record.elapsed, False
        try:
            check_randomness(record.first)
        except RandomnessError:
            self.ledger.close()
            raise
        if self.table.repeat != REPEAT_PERIOD and self._is_own(record) and record.held != NONE:
            self.pending = record.held  # not delivered before the reboot
        self._alone = threading.RLock()  # two threads must not be counted as one
        self._sending = threading.Lock()  # nor send each other's symbol
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]
        self._queues = WeakKeyDictionary()
        self._memory = self._symbols_of(record.key)

    @property
    def spent(self) -> int:
        """What has been released so far by C1, in millionths of a nat; ``NONE``: no bound."""
        return self.ledger.record.spent

    def close(self) -> None:
        """Let another process use the ledger."""
        self.ledger.close()

    def release(self, reading: Reading, *, uptime: int | None = None) -> int:
        """Return the symbol to send for a reading.

        Until ``delivered`` is called the answer stays the same, so that a retry cannot
        draw again, not even after a reboot. Threads that share a sensor take ``deliver``.

        Parameters
        ----------
        reading : number, text or None
            None is a missing reading.
        uptime : int, optional
            Seconds on a clock that nobody else can set; by default since the system started.

        Raises
        ------
        SensorError
            If nothing can be released now.
        """
        self.ledger.check_owner()
        with self._alone:
            if self.pending is None:
                row = self.table.row(reading)
                self.pending = int(self._released([row], uptime, keep=True)[0])
                self._drew = threading.get_ident()
            elif self._drew not in (None, threading.get_ident()):
                raise SensorError(
                    "the symbol of another thread waits to be delivered. Let threads that share a "
                    "sensor call deliver(reading, send)."
                )
            return self.pending

    def delivered(self) -> None:
        """Note that the symbol has arrived; the next release is for a new reading.

        Raises
        ------
        LedgerError
            If that cannot be noted; the next release then repeats the symbol.
        """
        self.ledger.check_owner()
        with self._alone:
            record = self.ledger.record
            waits = self.pending is not None and record.held != NONE and self._is_own(record)
            if waits and self.table.repeat != REPEAT_PERIOD:
                self._store(record._replace(held=NONE))
            self.pending = self._drew = None

    def deliver(
        self, reading: Reading, send: Callable[[int], object], *, uptime: int | None = None
    ) -> bool:
        """Release, send and note that it arrived, one thread after the other.

        Parameters
        ----------
        reading : number, text or None
        send : callable
            Gets the symbol; returns whether it has arrived. What was not delivered before is
            sent first.
        uptime : int, optional
            See ``release``.

        Returns
        -------
        bool
            Whether the symbol of this reading has arrived. If not, it waits.

        Raises
        ------
        SensorError
        """
        with self._sending:
            while True:
                waited, symbol = self._next(reading, uptime)
                if not send(symbol):
                    return False
                self.delivered()
                if not waited:
                    return True

    async def deliver_async(
        self,
        reading: Reading,
        send: Callable[[int], Awaitable[object]],
        *,
        uptime: int | None = None,
    ) -> bool:
        """Do as ``deliver`` does, without holding up other coroutines meanwhile."""
        # One coroutine at a time waits in a thread: many would leave none for the work itself.
        async with self._queues.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            await asyncio.to_thread(self._sending.acquire)
            try:
                return await self._deliver_all(reading, send, uptime)
            finally:
                self._sending.release()

    async def _deliver_all(
        self, reading: Reading, send: Callable[[int], Awaitable[object]], uptime: int | None
    ) -> bool:
        while True:
            waited, symbol = await asyncio.to_thread(self._next, reading, uptime)
            if not await send(symbol):
                return False
            await asyncio.to_thread(self.delivered)
            if not waited:
                return True

    def _next(self, reading: Reading, uptime: int | None) -> tuple[bool, int]:
        """Return the symbol to send, and whether it waited from before."""
        with self._alone:
            waited, self._drew = self.pending is not None, None
            return waited, self.release(reading, uptime=uptime)

    def release_rows(self, rows: Sequence[int], *, uptime: int | None = None) -> list[int]:
        """Return one counted symbol for each row of the table, in order.

        For gateways that release many readings of one sensor at once. Nothing is kept until it
        is delivered: the caller has the symbols, and a retry sends them again.

        Raises
        ------
        SensorError
        """
        self.ledger.check_owner()
        with self._alone:
            return list(map(int, self._released(rows, uptime)))

    def _released(self, rows: Any, uptime: int | None, keep: bool = False) -> Any:
        self._pass(system_uptime() if uptime is None else uptime)
        record, answered = self._charged(self._turned(), len(rows))
        open_rows, idle = rows[:answered], len(rows) - answered
        if not answered:  # what no reading changes is not worth a write, and may be drawn again
            return self._answers(open_rows, idle, [])
        memory = self._memory
        if record.key != self.ledger.record.key:
            memory = self._symbols_of(record.key)
        if self.table.repeat == REPEAT_PERIOD:
            if record.held == NONE:
                record = record._replace(held=memory[open_rows[0]])
            memory = [record.held] * self.table.rows
        symbols = self._answers(open_rows, idle, memory)
        if keep and self.table.repeat == REPEAT_NEVER:
            record = record._replace(held=int(symbols[0]))  # otherwise the key tells it again
        if record != self.ledger.record or self._is_late():
            self._store(record)  # before any symbol is handed out
        self._memory = memory
        return symbols

    def _store(self, record: Record) -> None:
        self.ledger.store(record._replace(first=_health.first))
        self._stored = record.elapsed

    def _pass(self, uptime: int) -> None:
        """Count how long the period has lasted, never more than has passed.

        After a start the uptime may have begun again: then what it says has passed, and what was
        before is not known.
        """
        if not 0 <= uptime <= NONE:
            raise LedgerError(f"the uptime must be from 0 to {NONE} seconds; it is {uptime}.")
        record = self.ledger.record
        more = uptime - record.mark
        if more < 0:
            more = 0 if self._running else uptime
        elapsed = min(NONE, record.elapsed + more)
        self.ledger.record = record._replace(elapsed=elapsed, mark=uptime)
        self._running = True

    def _is_late(self) -> bool:
        """Whether the clock alone is worth a write; see ``discreet.h``."""
        passed = self.ledger.record.elapsed - self._stored
        return passed >= max(_HOUR, int(self.table.period) // 8)

    def _answers(self, answered: Any, idle: int, memory: Sequence[int]) -> Any:
        """Return the symbols of the rows that are answered, and others that no reading changes."""
        fresh = self.table.repeat == REPEAT_NEVER
        symbols = self.table.draw(answered) if fresh else [memory[row] for row in answered]
        return symbols + self.table.draw([self.table.rows - 1] * idle)

    def _is_own(self, record: Record) -> bool:
        """Whether a record was written for this bundle."""
        sound = record.held == NONE or record.held < self.table.symbols
        return sound and record.bundle == self.table.tag

    def _turned(self) -> Record:
        """Return the record, with a new key if the period has ended or the bundle is new."""
        record = self.ledger.record
        if record.elapsed < self.table.period and self._is_own(record):
            return record
        waits = self.pending is not None and self.table.repeat != REPEAT_PERIOD
        return Record(
            self.table.tag,
            mark=record.mark,
            spent=record.spent,
            held=record.held if waits else NONE,
            key=random_bytes(_BLOCK),
            first=record.first,
        )

    def _charged(self, record: Record, count: int) -> tuple[Record, int]:
        """Return the record after some releases, and how many may depend on the reading.

        What is counted depends on the schedule alone, never on the readings.
        """
        owed = count
        if self.table.repeat == REPEAT_CODE:
            owed = min(count, max(0, self.table.rows - record.draws))
        elif self.table.repeat == REPEAT_PERIOD:
            owed = min(count, int(record.held == NONE))
        paid = min(owed, self._affordable(record.spent, owed))
        spent = min(NONE, record.spent + paid * self.table.epsilon)
        charged = record._replace(spent=spent, draws=min(NONE, record.draws + paid))
        return charged, count if paid == owed else paid

    def _affordable(self, spent: int, wanted: int) -> int:
        """Return how many of the wanted releases the budget still has room for."""
        room, cost = self.table.budget - spent, self.table.epsilon
        if self.table.budget == NONE:
            return wanted
        if room < 0:
            return 0
        return room // cost if cost else wanted

    def _symbols_of(self, key: bytes) -> list[int]:
        """Return the symbol of every row under a key.

        All rows at once: a symbol computed when it is first needed would tell, by the time
        it takes, that the code is new in this period.
        """
        words: list[int] = []
        if self.table.repeat != REPEAT_NEVER:
            for counter in range((self.table.rows + 15) // 16):
                words += keyed_words(key, counter)
        return [self.table.pick(row, word) for row, word in enumerate(words[: self.table.rows])]


def system_uptime() -> int:
    """Return the seconds since the system started, the time asleep included where it is known."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return int(time.clock_gettime(time.CLOCK_BOOTTIME))
    return int(time.monotonic())


# --- The command ---------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """Run ``new LEDGER`` or ``check BUNDLE PUBLIC_KEY``."""
    try:
        if len(arguments) == 2 and arguments[0] == "new":
            return _make_ledger(arguments[1])
        if len(arguments) == 3 and arguments[0] == "check":
            table = read_bundle(arguments[1], arguments[2])
            check_randomness()
            print(
                f"{table.name}: {table.rows - 1} codes, {table.symbols} symbols of mapping "
                f"{table.mapping_id}: signed and sound"
            )
            return 0
    except SensorError as error:
        print(f"discreet_sensor: {error}", file=sys.stderr)
        return 2
    print(
        "discreet_sensor: say `new LEDGER` or `check BUNDLE PUBLIC_KEY`.",
        file=sys.stderr,
    )
    return 2


def _make_ledger(path: str) -> int:
    if os.path.exists(path):
        raise LedgerError(f"{path}: there is one already. It stays as it is.")
    ledger = Ledger(path, make_new=True)
    ledger.store(ledger.record)
    ledger.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
