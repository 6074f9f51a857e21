"""What devices draw their randomness with: digests, generator and health tests."""

import hashlib
import hmac
import os
import subprocess

import numpy as np
import pytest
from support.devices import (
    SANITIZED,
    STRICT,
    build,
    make_sensor,
    micropython_runtime,
    needs,
    run_native,
    write_header,
)
from support.random_sources import (
    BAD,
    BLOCK,
    STARTUP,
    SlowDrbg,
    false_alarms,
    refused_at,
    stream,
)

from discreet_sensor.runtime import Health

pytestmark = pytest.mark.slow

DAY = 86_400


def test_digests_are_those_of_the_standard_library(tmp_path, rng):
    needs("gcc")
    program = build(str(tmp_path), "digests.c", *STRICT, *SANITIZED, "-O1")
    for size in [*range(64, 200), 10_000]:  # every length of the last block, and a long text
        data, key = rng.bytes(size), size % 65
        wanted = hashlib.sha256(data).digest() + hmac.digest(data[:key], data[key:], "sha256")
        assert run_native(program, key, data=data) == wanted


# --- The generator -------------------------------------------------------------------------

# HMAC_DRBG.rsp of NIST's CAVP: SHA-256, no reseed, no personalization, the first count.
ENTROPY = bytes.fromhex("ca851911349384bffe89de1cbdc46e6831e44d34a4fb935ee285dd14b71a7488")
NONCE = bytes.fromhex("659ba96c601dc69fc902940805ec0ca8")
RETURNED = bytes.fromhex(
    "e528e9abf2dece54d47c7e75e5fe302149f817ea9fb4bee6f4199697d04d5b89"
    "d54fbb978a15b5c443c9ec21036d2460b6f73ebad0dc2aba6e624abf07745bc1"
    "07694bb7547bb0995f70de25d6b29e2d3011bb19d27676c07162c8b5ccde0668"
    "961df86803482cb37ed6d5c0bb8d50cf1f50d476aa0458bdaba806f48be9dcb8"
)


@pytest.fixture
def generator(tmp_path):
    """The generator in C: seeded with some bytes and asked for others, size by size."""
    needs("gcc")
    program = build(str(tmp_path), "generator.c", *STRICT, *SANITIZED, "-O1")
    return lambda seed, *sizes: run_native(program, *sizes, data=seed)


def test_the_generator_gives_what_nist_says(generator):
    slow = SlowDrbg(ENTROPY + NONCE)
    slow.generate(128)
    assert slow.generate(128) == RETURNED
    assert generator(ENTROPY + NONCE, 128, 128)[128:] == RETURNED


def test_the_generator_is_that_of_the_standard_for_any_sizes(generator, rng):
    for _ in range(20):
        seed, sizes = rng.bytes(int(rng.integers(32, 200))), rng.integers(1, 300, size=5).tolist()
        slow = SlowDrbg(seed)
        assert generator(seed, *sizes) == b"".join(slow.generate(size) for size in sizes)


def test_a_source_seeds_the_generator_in_c_and_micropython(tmp_path, rng, monkeypatch):
    needs("gcc")
    program = build(str(tmp_path), "generator.c", *STRICT, *SANITIZED, "-O1")
    data, own = rng.bytes(BLOCK * (STARTUP + 10)), bytes(range(32))
    blocks = [data[at : at + BLOCK] for at in range(0, len(data), BLOCK)]
    slow = SlowDrbg(hashlib.sha256(b"".join(blocks[:64])).digest() + blocks[64] + own)
    wanted = b""
    for block in blocks[65:]:
        slow.update(block)
        wanted += slow.generate(32)
    assert run_native(program, "source", data=data) == wanted
    device, left = micropython_runtime(), iter(blocks)
    monkeypatch.setattr(os, "urandom", lambda size: next(left))
    source = device.Source(bytes(8))
    source.start(own)
    assert b"".join(source.take(32) for _ in range(10)) == wanted


# --- Health tests --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sensor(tmp_path_factory):
    """A sensor in C that takes its randomness from a stream, and says when it refused it."""
    needs("gcc")
    folder = tmp_path_factory.mktemp("sources")
    write_header(folder, make_sensor(repeat="never"))
    program = build(str(folder), "sources.c", *STRICT, *SANITIZED, "-O1")
    return lambda data, *way: int(run_native(program, *way, data=data))


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_source_is_refused_at_the_start_and_later(kind, sensor):
    assert sensor(stream(kind, 1, 0, 1500)) >= -1
    sound = STARTUP + 20
    data = stream(kind, 2, sound, 1500)
    released = sensor(data)
    # A block for the start, the first key and each symbol: the same block fails in all languages.
    number = refused_at(Health(), data)
    assert released == number - STARTUP - 1 and number >= sound
    assert refused_at(MicroPythonTests(), data) == number


class MicroPythonTests:
    """The tests of the MicroPython runtime, without its generator."""

    def __init__(self):
        self._source = micropython_runtime().Source(bytes(8))

    def test(self, block):
        return not self._source._test(block)


@pytest.mark.parametrize("way", ["absent", "failing", "short", "half", "nothing"])
def test_a_source_that_does_not_answer_is_refused(way, sensor, rng):
    data = rng.bytes(BLOCK * 300)
    assert sensor(data, way) == -1
    if way != "absent":
        assert sensor(data, way, STARTUP + 5) == 4


def test_a_source_that_begins_as_it_did_before_the_reboot_is_refused(tmp_path, rng):
    needs("gcc")
    write_header(tmp_path, make_sensor(repeat="never"))
    program = build(str(tmp_path), "sources.c", *STRICT, *SANITIZED, "-O1")
    file = tmp_path / "stream"
    file.write_bytes(rng.bytes(BLOCK * 300))
    with file.open("rb") as data:
        done = subprocess.run(
            [program, "reboot", "30"], stdin=data, capture_output=True, check=True
        )
    assert int(done.stdout) == 30


def test_sound_bytes_pass_for_long(sensor, rng):
    assert sensor(rng.bytes(BLOCK * 20_000)) == -2
    assert refused_at(Health(), np.random.default_rng(5).bytes(BLOCK * 20_000)) is None


def test_a_false_alarm_is_rarer_than_one_in_a_million_days():
    found = false_alarms(DAY)
    assert 1e-9 < sum(found.values()) < 1e-6
    # The counts by simulation: at six deviations instead, as often as the normal law says.
    bits = np.random.default_rng(0).binomial(256, 0.5, size=10**6)
    share = np.mean((2 * bits - 256) ** 2 > 9 * 256)
    assert 0.002 < share < 0.0035
