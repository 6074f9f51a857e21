"""Python, C and MicroPython give the same symbols, rows and records from the same words."""

import math
import os
import struct

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from support.device_figures import agreement, mild_tables
from support.devices import (
    REBOOT,
    make_sensor,
    python_releases,
    random_sensor,
    release_job,
    run_micropython,
    run_native,
)
from support.matrices import sparing

from discreet.data.encoders import BinsEncoder, CategoriesEncoder, CodesEncoder
from discreet.errors import CodeRangeError
from discreet.export.neutral import bundle_body
from discreet_sensor import runtime as device

pytestmark = pytest.mark.slow

EDGY_NUMBERS = [
    0.0,
    -0.0,
    0.5,
    1.0,
    -1.0,
    1e16,
    1e300,
    -1e300,
    5e-324,
    math.inf,
    -math.inf,
    math.nan,
]
TEXTS = [
    "open",
    "shut",
    "Küche",
    "a b",
    "True",
    "",
    "-1",
    "0.5",
    "1e+16",
    "inf",
    "0",
    "7",
    "17",
    "sh",
    "shutt",
]


def test_the_same_words_pick_the_same_symbols(driver, folder):
    draws, differing = agreement(folder, driver, mappings=60, draws=30_000)
    assert draws == 30_000
    assert differing == {"python": 0, "c": 0, "micropython": 0}


def histories(rng, count):
    """Sensors of every policy with readings, reboots, uptimes that mostly rise, and records."""
    jobs = []
    for i in range(count):
        repeat = ("code", "period", "never")[i % 3]
        if i % 2:
            table = random_sensor(rng, repeat=repeat)
        else:
            table = next(mild_tables(rng, 1))
            budget = float(rng.uniform(0.1, 20))
            table = make_sensor(CodesEncoder(size=len(table)), table, repeat=repeat, budget=budget)
        reboots = rng.random(40) < 0.15
        rows = rng.integers(len(table.tops), size=40) + REBOOT * reboots
        uptimes = np.cumsum(rng.choice([0, 60, 5000, 20_000, 90_000, 200_000], size=40))
        for start in np.flatnonzero(reboots)[::2]:  # some begin again, some go on
            uptimes[start + 1 :] -= uptimes[start]
        uptimes[rng.random(40) < 0.05] = 7  # goes back for a moment
        entropy = rng.bytes(32 * (64 * (1 + reboots.sum()) + 2 * 40))
        record = stored_record(rng, i // 6 % 4, bundle_body(table))
        jobs.append((table, rows, uptimes, entropy, record))
    return jobs


def stored_record(rng, choice, body):
    """No record, a damaged one, one of another bundle, one of this bundle."""
    if choice == 0:
        return b""
    if choice == 1:
        return (bytes(76), rng.bytes(12))[rng.integers(2)]
    tag = bytes(8) if choice == 2 else device.Table(body).tag
    spent, draws = rng.integers(10**7), rng.integers(4)
    held = (0, 1, device.NONE, 250)[rng.integers(4)]  # 250 is no symbol of any of them
    clock = (int(rng.integers(90_000)), int(rng.integers(90_000)))
    key, first = rng.bytes(32), rng.bytes(8)
    return device.Record(tag, *clock, int(spent), int(draws), held, key, first).pack()


@pytest.mark.parametrize("count", sparing([24, 96], 24))  # 24: each policy with each record
def test_the_same_history_gives_the_same_releases_and_ledgers(
    driver, folder, key, rng, monkeypatch, tmp_path, count
):
    jobs = histories(rng, count)
    data = b"".join(release_job(*job) for job in jobs)
    expected = b""
    for job in jobs:
        symbols, record = python_releases(monkeypatch, tmp_path, key, *job)
        expected += bytes(symbols) + record
    assert run_native(driver, "releases", data=data) == expected
    found = run_micropython(folder, "jobs_micropython.py", {"releases": data})
    assert found["releases.out"] == expected


def test_the_same_readings_get_the_same_rows(driver, folder, rng):
    data, expected = b"", b""
    for _ in range(60):
        table = random_sensor(rng)
        encoder = table.encoder
        numbers = np.array(EDGY_NUMBERS)
        if isinstance(encoder, BinsEncoder):
            near = np.nextafter(
                encoder.edges, rng.choice([-math.inf, math.inf], len(encoder.edges))
            )
            numbers = np.concatenate([numbers, encoder.edges, near, rng.normal(size=20)])
        elif not isinstance(encoder, CategoriesEncoder):
            numbers = np.arange(-2.0, encoder.size + 3)
        texts = TEXTS if isinstance(encoder, CategoriesEncoder) else []
        body, packed = bundle_body(table), b"".join(text.encode() + b"\0" for text in texts)
        data += struct.pack("<III", len(body), len(numbers), len(packed))
        data += body + numbers.astype("<f8").tobytes() + packed
        runtime = device.Table(body)
        rows = [runtime.row(reading) for reading in [*numbers.tolist(), *texts]]
        for reading, row in zip([*numbers.tolist(), *texts], rows, strict=True):
            assert row == mapping_row(table, reading)
        expected += np.array(rows, dtype="<u4").tobytes()
    assert run_native(driver, "rows", data=data) == expected
    assert run_micropython(folder, "jobs_micropython.py", {"rows": data})["rows.out"] == expected


def mapping_row(table, reading):
    """What the mapping itself encodes; a reading that it refuses gets the last row."""
    column = np.array([reading], dtype=object if isinstance(reading, str) else float)
    try:
        return int(table.encoder.encode(column, table.name)[0])
    except CodeRangeError:
        return len(table.tops) - 1


def test_the_keyed_words_are_chacha20(driver):
    key = os.urandom(32)
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(1024))
    words = [word for counter in range(16) for word in device.keyed_words(key, counter)]
    assert np.array(words, dtype="<u4").tobytes() == stream
    assert run_native(driver, "keyed", data=key) == stream
