"""The gateway draws and counts as a single sensor does, only faster."""

import os
import sys
import threading

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from support.devices import DAY, Words, make_sensor, random_sensor, write_signed

from discreet.data.encoders import BinsEncoder, CodesEncoder
from discreet.export.neutral import bundle_body
from discreet.export.runtimes.python import discreet_gateway as gateway
from discreet_sensor import runtime as device


class PreparedWords:
    """Stands in for the keystream with known words."""

    def __init__(self, words):
        self.data, self.at = words, 0

    def words(self, count):
        self.at += count
        return self.data[self.at - count : self.at]


def test_the_same_words_give_the_same_symbols(rng):
    for _ in range(40):
        table = device.Table(bundle_body(random_sensor(rng)))
        rows = rng.integers(table.rows, size=3000)
        prepared = PreparedWords(rng.integers(2**32, size=3000, dtype=np.uint32))
        found = gateway.VectorTable(table).draw(rows, lambda most, words=prepared: words)
        assert found.tolist() == list(map(table.pick, rows.tolist(), prepared.data.tolist()))


def test_a_keystream_never_repeats_and_every_call_has_its_own(monkeypatch):
    a, b = gateway.Keystream(1000), gateway.Keystream(1000)
    first, second = a.words(1000).copy(), a.words(1000).copy()
    assert len({*first.tolist(), *second.tolist(), *b.words(1000).tolist()}) > 2990
    asked = []
    true = device.random_bytes
    monkeypatch.setattr(device, "random_bytes", lambda size: asked.append(size) or true(size))
    vectors = gateway.VectorTable(device.Table(bundle_body(make_sensor())))
    for _ in range(5):
        vectors.draw(np.zeros(100_000, dtype=np.intp))
    assert asked == [48] * 5


def test_the_keystream_is_aes_in_counter_mode(monkeypatch):
    key = os.urandom(48)
    monkeypatch.setattr(os, "urandom", lambda size: key[:size])
    cipher = Cipher(algorithms.AES(key[:32]), modes.CTR(key[32:])).encryptor()
    assert gateway.Keystream(64).words(64).tobytes() == cipher.update(bytes(256))


def test_a_forked_process_draws_other_symbols():
    vectors = gateway.VectorTable(device.Table(bundle_body(make_sensor())))
    rows = np.ones(256, dtype=np.intp)
    vectors.draw(rows)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, vectors.draw(rows).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 256) != vectors.draw(rows).tobytes()
    os.close(reader)
    os.close(writer)


def test_threads_share_no_words():
    table = device.Table(bundle_body(make_sensor(CodesEncoder(size=2), [[0.5, 0.5]] * 2)))
    vectors, found = gateway.VectorTable(table), []
    rows = np.zeros(2**17, dtype=np.intp)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        workers = [
            threading.Thread(target=lambda: found.append(vectors.draw(rows))) for _ in range(4)
        ]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
    finally:
        sys.setswitchinterval(interval)
    blocks = {part.tobytes() for each in found for part in np.split(each, 2**17 // 64)}
    assert len(blocks) == 4 * 2**17 // 64


def test_a_broken_source_stops_the_draw(monkeypatch):
    vectors = gateway.VectorTable(device.Table(bundle_body(make_sensor())))
    monkeypatch.setattr(os, "urandom", lambda size: bytes(size))
    with pytest.raises(device.RandomnessError):
        vectors.draw(np.zeros(10, dtype=np.intp))


def test_readings_get_the_rows_of_a_single_sensor(rng):
    table = device.Table(bundle_body(make_sensor(BinsEncoder(edges=[0.0, 1.0], missing=True),
                                                 [[0.5, 0.5]] * 4)))  # fmt: skip
    readings = np.array([-1.0, -0.0, 0.0, 5e-324, 1.0, 2.0, np.inf, -np.inf, np.nan])
    vectors = gateway.VectorTable(table)
    assert vectors.rows(readings).tolist() == [table.row(each) for each in readings.tolist()]
    assert vectors.rows([None, 0.5]).tolist() == [3, 1]


@pytest.mark.parametrize("repeat", ["code", "period", "never"])
@pytest.mark.parametrize("budget", [None, 3.0])
def test_many_releases_are_counted_and_answered_like_single_ones(
    tmp_path, key, rng, repeat, budget, monkeypatch
):
    sensor = make_sensor(CodesEncoder(size=3), repeat=repeat, budget=budget)
    path = write_signed(tmp_path, sensor, key)
    entropy = rng.bytes(32 * 500)
    options = {"public_key": key.public_hex, "make_new": True}
    with monkeypatch.context() as patch:
        patch.setattr(os, "urandom", Words(entropy))
        many = gateway.GatewaySensor(path, ledger=tmp_path / "many", **options)
        in_one = [
            many.release_many(np.array([0, 1, 2, 1, 0]), uptime=period * DAY) for period in (1, 2)
        ]
        patch.setattr(os, "urandom", Words(entropy))
        one = device.Sensor(path, ledger=tmp_path / "one", **options)
        alone = [one.release_rows([0, 1, 2, 1, 0], uptime=period * DAY) for period in (1, 2)]
    assert many.ledger.record[1:5] == one.ledger.record[1:5]
    told = {"code": 5, "period": 5, "never": 0}[repeat]
    if budget is None:
        assert [each[:told].tolist() for each in in_one] == [each[:told] for each in alone]
    assert all(set(each.tolist()) <= {0, 1} for each in in_one)
    assert (
        many.release_many([], uptime=2 * DAY).tolist()
        == many.release_rows([], uptime=2 * DAY)
        == []
    )
    first = many.release(1, uptime=3 * DAY)
    assert type(first) is int and many.release(2, uptime=4 * DAY) == first
    many.close()
    one.close()
