"""Sources of randomness that a device must refuse, as streams of blocks of 32 bytes.

A kind is a function of a generator; it yields blocks for ever. All are sound to the eye of a test
that looks at one word, most to one that looks at the start.
"""

import hmac
import itertools
import struct
from fractions import Fraction
from math import comb

import numpy as np

from discreet_sensor.runtime import Health

BLOCK = 32
STARTUP = Health.STARTUP + 1  # and the nonce


def repeated(blocks):
    """Yield a sequence of blocks again and again."""
    return itertools.cycle([bytes(block) for block in blocks])


def cycle(length):
    return lambda rng: repeated(rng.bytes(BLOCK) for _ in range(length))


def biased(share):
    """Bits that are 1 this often."""

    def blocks(rng):
        while True:
            yield np.packbits(rng.random(256) < share).tobytes()

    return blocks


def sticky(again):
    """Bits that are like the one before this often."""

    def blocks(rng):
        last = 0
        while True:
            turns = rng.random(256) >= again
            bits = (last + np.cumsum(turns)) % 2
            last = int(bits[-1])
            yield np.packbits(bits).tobytes()

    return blocks


def changed(change):
    """Sound blocks, each changed."""

    def blocks(rng):
        for number in itertools.count():
            block = bytearray(rng.bytes(BLOCK))
            change(block, number, rng)
            yield bytes(block)

    return blocks


def stuck(bit, value):
    def change(block, number, rng):
        mask = 1 << bit % 8
        block[bit // 8] = block[bit // 8] | mask if value else block[bit // 8] & ~mask

    return changed(change)


def from_alphabet(letters):
    def blocks(rng):
        while True:
            yield bytes(rng.choice(list(letters), BLOCK).tolist())

    return blocks


def counter(start):
    def blocks(rng):
        number = int.from_bytes(rng.bytes(4), "little") if start is None else start
        while True:
            yield struct.pack("<8I", *((number + i) % 2**32 for i in range(8)))
            number += 8

    return blocks


def following(step):
    """Blocks that follow from the one before."""

    def blocks(rng):
        block = int.from_bytes(rng.bytes(BLOCK), "little")
        while True:
            yield block.to_bytes(BLOCK, "little")
            block = step(block, rng) % 2**256

    return blocks


def held(times):
    """Sound blocks, each given several times."""

    def blocks(rng):
        while True:
            block = rng.bytes(BLOCK)
            yield from (block for _ in range(times))

    return blocks


def copying_bytes(rng):
    while True:
        block = bytearray(rng.bytes(BLOCK))
        for i in range(1, BLOCK):
            block[i] = block[i - 1] if rng.random() < 0.5 else block[i]
        yield bytes(block)


def flip_few(block, rng):
    for bit in rng.integers(256, size=8).tolist():
        block ^= 1 << bit
    return block


def text(rng):
    words = b"the quick brown fox jumps over the lazy dog and runs away from it all again "
    return repeated((words[i:] + words)[:BLOCK] for i in range(0, len(words), 5))


def converter(rng):
    """Readings of 12 bits in words of 16, noisy in the last four."""
    while True:
        noise = rng.integers(0, 16, size=16) + 2048
        yield noise.astype("<u2").tobytes()


def below_128(block, number, rng):
    block[:] = bytes(byte & 127 for byte in block)


def half_filled(block, number, rng):
    block[16:] = bytes(16)


def half_twice(block, number, rng):
    block[16:] = block[:16]


def words_twice(block, number, rng):
    block[:] = b"".join(bytes(block[i : i + 4]) * 2 for i in range(0, 16, 4))


def new_at_the_end(block, number, rng):
    block[:31] = bytes(range(7, 38))


BAD = {
    "zeros": lambda rng: repeated([bytes(BLOCK)]),
    "ones": lambda rng: repeated([b"\xff" * BLOCK]),
    "one byte": lambda rng: repeated([b"\xa7" * BLOCK]),
    "the same 32 bytes": cycle(1),
    "two blocks in turn": cycle(2),
    "a cycle of 64 blocks": cycle(64),
    "a cycle of 300 blocks": cycle(300),
    "every block three times": held(3),
    "a counter from 0": counter(0),
    "a counter from anywhere": counter(None),
    "bits biased to 1/8": biased(1 / 8),
    "bits biased to 7/8": biased(7 / 8),
    "bits biased to 1/4": biased(1 / 4),
    "bits biased to 3/8": biased(3 / 8),
    "bits biased to 9/16": biased(9 / 16),
    "bits like the one before, 3/4": sticky(3 / 4),
    "bits unlike the one before, 3/4": sticky(1 / 4),
    "bits like the one before, 9/16": sticky(9 / 16),
    "a bit stuck at 0": stuck(77, 0),
    "a bit stuck at 1": stuck(200, 1),
    "bytes below 128": changed(below_128),
    "hexadecimal digits": from_alphabet(b"0123456789abcdef"),
    "decimal digits": from_alphabet(b"0123456789"),
    "bytes of 32 kinds": from_alphabet(bytes(range(0, 256, 8))),
    "half a block, zeros behind": changed(half_filled),
    "half a block, twice": changed(half_twice),
    "every word twice": changed(words_twice),
    "the complement of the block before": following(lambda block, rng: ~block),
    "the block before, 8 bits flipped": following(flip_few),
    "the block before, plus one": following(lambda block, rng: block + 1),
    "bytes like the one before, 1/2": copying_bytes,
    "only the last byte is new": changed(new_at_the_end),
    "text": text,
    "a converter's readings": converter,
}  # fmt: skip


def stream(kind, seed, sound, bad):
    """Some sound blocks, then bad ones."""
    rng = np.random.default_rng(seed)
    start = [rng.bytes(BLOCK) for _ in range(sound)]
    return b"".join([*start, *itertools.islice(BAD[kind](rng), bad)])


def refused_at(tests, data):
    """The number of the first block that fails, or None."""
    for number, start in enumerate(range(0, len(data), BLOCK)):
        if not tests.test(data[start : start + BLOCK]):
            return number
    return None


# --- False alarms --------------------------------------------------------------------------


def off_by_chance(bits):
    """How likely a count of fair bits is further from the half than is let pass, exactly."""
    bad = sum(
        comb(bits, ones)
        for ones in range(bits + 1)
        if (2 * ones - bits) ** 2 > Health.SPREAD * bits
    )
    return Fraction(bad, 2**bits)


def false_alarms(blocks):
    """A bound on how often a sound source fails a test in this many blocks, test by test."""
    counted = sum(off_by_chance(size) for size in Health._SIZES)
    summed = sum(off_by_chance(size * Health.WINDOW) for size in Health._SIZES)
    share = Fraction(1, 256)
    bytes_in_window = BLOCK * Health.WINDOW - 1
    matches = 1 - sum(
        comb(bytes_in_window, k) * share**k * (1 - share) ** (bytes_in_window - k)
        for k in range(Health.MATCHES - 1)
    )
    found = {
        "counts of a block": blocks * counted,
        "counts of a window": Fraction(blocks, Health.WINDOW) * summed,
        "repetition count": blocks * BLOCK * share ** (Health.REPETITIONS - 1),
        "adaptive proportion": Fraction(blocks, Health.WINDOW) * matches,
        "equal words": blocks * comb(comb(8, 2), 2) * Fraction(1, 2**64),
        "blocks that come again": blocks * Fraction(1, 2**64),
        "stuck bits": Fraction(blocks, Health.STARTUP) * 512 * Fraction(1, 2**64),
    }
    return {name: float(value) for name, value in found.items()}


# --- The generator, slowly -----------------------------------------------------------------


class SlowDrbg:
    """HMAC_DRBG as SP 800-90A writes it, with the standard library's HMAC."""

    def __init__(self, seed):
        self.key, self.value = bytes(32), b"\1" * 32
        self.update(seed)

    def update(self, data):
        for mark in (b"\0", b"\1") if data else (b"\0",):
            self.key = hmac.digest(self.key, self.value + mark + data, "sha256")
            self.value = hmac.digest(self.key, self.value, "sha256")

    def generate(self, size):
        found = b""
        while len(found) < size:
            self.value = hmac.digest(self.key, self.value, "sha256")
            found += self.value
        self.update(b"")
        return found[:size]
