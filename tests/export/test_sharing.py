"""Threads and coroutines that share one sensor send what was drawn for them."""

import asyncio
import threading

import pytest
from support.devices import make_sensor, write_signed

from discreet.data.encoders import CodesEncoder
from discreet_sensor import runtime as device

CERTAIN = [[1.0, 0.0], [0.0, 1.0]]
"""The symbol is the reading: whoever gets another one's is seen."""


@pytest.fixture
def sensor(tmp_path, key, monkeypatch):
    monkeypatch.setattr(device.os, "fsync", lambda handle: None)
    path = write_signed(tmp_path, make_sensor(CodesEncoder(size=2), CERTAIN, repeat="never"), key)
    found = device.Sensor(path, public_key=key.public_hex, ledger=tmp_path / "hall.ledger")
    yield found
    found.close()


def test_threads_send_their_own_symbols(sensor):
    wrong, sent = [], []

    def work(reading):
        for _ in range(75):
            got = []
            assert sensor.deliver(reading, lambda symbol, got=got: got.append(symbol) or True)
            sent.extend(got)
            wrong.extend(symbol for symbol in got if symbol != reading)

    threads = [threading.Thread(target=work, args=(i % 2,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(sent), wrong) == (300, [])


def test_what_waits_is_sent_first(sensor):
    sent = []
    assert not sensor.deliver(1, lambda symbol: False)
    assert sensor.pending == 1
    assert sensor.deliver(0, lambda symbol: sent.append(symbol) or True)
    assert sent == [1, 0] and sensor.pending is None


def test_a_thread_does_not_get_the_symbol_of_another(sensor):
    found = []

    def other():
        try:
            sensor.release(0)
        except device.SensorError as error:
            found.append(str(error))

    assert sensor.release(1) == sensor.release(0) == 1  # a retry of this one
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert "call deliver(reading, send)" in found[0]
    sensor.delivered()
    assert sensor.release(0) == 0


def test_coroutines_send_their_own_symbols_and_do_not_wait_for_the_network(sensor):
    sent, ticks = [], []

    async def send(symbol):
        await asyncio.sleep(0)
        return symbol in (0, 1)

    async def one(reading):
        async def noting(symbol):
            sent.append((reading, symbol))
            return await send(symbol)

        assert await sensor.deliver_async(reading, noting)

    async def clock(done):
        while not done.is_set():
            ticks.append(1)
            await asyncio.sleep(0)

    async def everything():
        done = asyncio.Event()
        beside = asyncio.create_task(clock(done))
        await asyncio.gather(*(one(i % 2) for i in range(40)))
        done.set()
        await beside

    asyncio.run(everything())
    assert len(sent) == 40 and all(reading == symbol for reading, symbol in sent)
    assert len(ticks) > 40


def test_a_coroutine_that_fails_leaves_the_sensor_free(sensor):
    async def failing(symbol):
        raise ConnectionError

    with pytest.raises(ConnectionError):
        asyncio.run(sensor.deliver_async(1, failing))
    sent = []
    assert sensor.deliver(0, lambda symbol: sent.append(symbol) or True)
    assert sent == [1, 0]
