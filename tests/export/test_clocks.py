"""Periods are counted by a clock that no network sets, and never end before their time."""

import os
import time

import pytest
from support.devices import DAY, make_sensor, micropython_runtime, write_signed

from discreet.data.encoders import CodesEncoder
from discreet.export.neutral import bundle_body
from discreet_sensor import runtime as device

HOUR = 3600
EVEN = [[0.6, 0.4], [0.4, 0.6]]


class InPython:
    """A device with the Python runtime, which can be switched off and on."""

    def __init__(self, folder, key, **policy):
        table = make_sensor(CodesEncoder(size=2), EVEN, **policy)
        self._bundle, self._key = write_signed(folder, table, key), key.public_hex
        self._ledger = folder / "hall.ledger"
        self._sensor = None
        self.start()

    def start(self):
        if self._sensor:
            self._sensor.close()
        self._sensor = device.Sensor(
            self._bundle, public_key=self._key, ledger=self._ledger, make_new=True
        )

    def release(self, reading=0, **clock):
        symbol = self._sensor.release(reading, **clock)
        self._sensor.delivered()
        return symbol

    @property
    def key(self):
        return self._sensor.ledger.record.key

    def writes(self):
        return self._ledger.read_bytes() if self._ledger.exists() else b""


class InMicroPython(InPython):
    """The same with the MicroPython runtime."""

    def __init__(self, folder, key, **policy):
        table = make_sensor(CodesEncoder(size=2), EVEN, **policy)
        (folder / "hall.table").write_bytes(bundle_body(table))
        self._folder, self._ledger = folder, folder / "hall.ledger"
        self.start()

    def start(self):
        files = (str(self._folder / "hall.table"), str(self._ledger))
        self._sensor = micropython_runtime().Sensor(*files, make_new=True)

    @property
    def key(self):
        return self._sensor._key


@pytest.fixture(params=[InPython, InMicroPython])
def on(request, tmp_path, key):
    return lambda **policy: request.param(tmp_path, key, **policy)


def test_the_time_of_day_changes_nothing(on, monkeypatch):
    board = on(period=60)
    keys = set()
    for second in range(1000):  # whoever controls NTP steps a period at every release
        monkeypatch.setattr(time, "time", lambda second=second: 1.7e9 + 60 * second)
        board.release()
        keys.add(board.key)
    assert len(keys) <= 2  # the second one if this took a minute


def test_a_period_ends_after_its_length_and_not_before(on):
    board = on(period=DAY)
    keys = []
    for hour in range(0, 24 * 5):
        board.release(uptime=hour * HOUR)
        keys.append(board.key)
    changes = [hour for hour in range(1, len(keys)) if keys[hour] != keys[hour - 1]]
    assert changes == [24, 48, 72, 96]


def test_no_jump_brings_more_than_one_key_and_none_freezes(on):
    board = on(period=DAY)
    board.release(uptime=100)
    first = board.key
    board.release(uptime=4_000_000_000)  # far ahead, once
    second = board.key
    assert second != first
    board.release(uptime=200)  # and back
    assert board.key == second
    board.release(uptime=200 + DAY - 1)
    assert board.key == second
    board.release(uptime=200 + DAY)
    assert board.key != second


def test_deep_sleep_counts_where_the_clock_goes_on(on):
    board = on(period=DAY)
    keys = []
    for wake in range(0, 3 * 24):  # a start for every release, as after deep sleep
        board.start()
        board.release(uptime=1000 + wake * HOUR)
        keys.append(board.key)
    assert len(set(keys)) == 3


def test_a_board_that_begins_at_zero_counts_what_it_sees(on):
    board = on(period=DAY)
    keys = []
    for _ in range(8):  # days without power, a day of ten hours each
        board.start()
        for hour in range(11):
            board.release(uptime=hour * HOUR)
        keys.append(board.key)
    # Each power cut costs at most an eighth of a period, and a key never lasts for less than one.
    assert 3 <= len(set(keys)) <= 4


@pytest.mark.parametrize(("period", "writes"), [(DAY, 8), (600, 6 * 24)])
def test_the_clock_is_written_down_eight_times_a_period_and_never_within_an_hour(
    on, period, writes
):
    board, seen = on(period=period, repeat="period"), set()
    for minute in range(60 * 24):
        board.release(uptime=60 * minute)
        seen.add(board.writes())
    assert len(seen) == writes


def test_the_uptime_of_the_system_is_the_default(tmp_path, key, monkeypatch):
    board = InPython(tmp_path, key, period=60)
    monkeypatch.setattr(time, "clock_gettime", lambda which: 5000.7)
    board.release()
    assert board._sensor.ledger.record.mark == 5000
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    monkeypatch.setattr(time, "monotonic", lambda: 6000.2)
    assert device.system_uptime() == 6000


def test_micropython_counts_its_ticks_over_the_wrap(tmp_path, key, monkeypatch):
    ticks = [2**30 - 5000]
    monkeypatch.setattr(time, "ticks_ms", lambda: ticks[0] % 2**30, raising=False)
    half = 2**29
    monkeypatch.setattr(
        time, "ticks_diff", lambda a, b: (a - b + half) % 2**30 - half, raising=False
    )
    board = InMicroPython(tmp_path, key, period=60)
    for _ in range(100):
        ticks[0] += 60_000_000
        assert board.release() in (0, 1)
    assert board._sensor.awake() == 6_000_000


def test_a_forgotten_unit_is_refused(tmp_path, key):
    board = InPython(tmp_path, key)
    with pytest.raises(device.LedgerError, match="from 0 to 4294967295 seconds"):
        board.release(uptime=int(1.7e12))
    assert not os.path.exists(tmp_path / "hall.ledger")
