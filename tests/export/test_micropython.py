"""The MicroPython runtime: it compiles, it refuses, and mip can install it."""

import importlib.util
import json
import os
import time

import pytest
from device_figures import BAD_SOURCES
from devices import (
    RUNTIMES,
    compiled_runtime,
    make_sensor,
    run_micropython,
)

from discreet import __version__
from discreet.codes import CategoriesEncoder
from discreet.export.body import bundle_body
from discreet.export.targets import micropython

EVEN = [[0.5, 0.5]] * 3


def test_mpy_cross_compiles_it_to_a_few_kilobytes(tmp_path):
    assert compiled_runtime(str(tmp_path)).stat().st_size < 6_000


def test_without_a_sound_source_nothing_starts(folder):
    # This build of MicroPython has no os.urandom at all, as some small boards have none.
    found = run_micropython(
        folder, "jobs_micropython.py", {"probe.table": bundle_body(make_sensor())}
    )
    assert found["refusals.out"] == b"refused,refused,refused"
    assert "probe.ledger" not in found


def test_mip_finds_a_table_and_the_runtime_and_nothing_else():
    files = micropython.files({"hall": make_sensor(), "door": make_sensor(name="door")}, None)
    for name in ("hall", "door"):
        package = json.loads(files[f"{name}/package.json"])
        assert package["version"] == __version__
        for target, url in package["urls"]:
            assert target == url and f"{name}/{url}" in files
        others = [path for path in files if path.startswith(f"{name}/")]
        assert len(others) == 1 + len(package["urls"])
        assert files[f"{name}/{name}.table"].find(name.encode()) > 0


# --- The same file under CPython, for what the WebAssembly build cannot be brought to ------


@pytest.fixture
def device():
    path = RUNTIMES / "micropython" / "discreet_sensor.py"
    spec = importlib.util.spec_from_file_location("discreet_sensor_for_micropython", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def start(device, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def started(make_new=False, **policy):
        (tmp_path / "hall.table").write_bytes(bundle_body(make_sensor(**policy)))
        return device.Sensor("hall.table", ledger="hall.ledger", make_new=make_new)

    return started


DAMAGES = {
    "cut": lambda body: body[:-4],
    "odd": lambda body: body[:-1],
    "flipped": lambda body: body[:80] + bytes([body[80] ^ 1]) + body[81:],
    "version": lambda body: b"DSC2" + body[4:],
    "nothing": lambda body: b"",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_table_is_refused(device, damage):
    body = bundle_body(make_sensor())
    device.Table(body)
    with pytest.raises(device.BundleError, match="export it again"):
        device.Table(DAMAGES[damage](body))


def test_a_lost_ledger_does_not_refill_the_budget(device, start):
    with pytest.raises(device.LedgerError, match="make_new=True"):
        start(budget=20.0)
    start()  # without a budget there is nothing to lose
    start(make_new=True, budget=20.0)


def test_the_ledger_survives_a_reboot_and_damage_counts_as_spent(device, start, tmp_path):
    sensor = start(make_new=True, budget=20.0)
    first = sensor.release(0.0, 1)
    assert sensor.release(9.0, 5) == first  # kept until delivered
    sensor.delivered()
    again = start(budget=20.0)
    assert again.spent == sensor.spent > 0 and again.release(0.0, 1) == first
    data = (tmp_path / "hall.ledger").read_bytes()
    for at in range(len(data)):
        (tmp_path / "hall.ledger").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert start(budget=20.0).spent == device.NONE


def test_a_file_system_that_cannot_rename_over_a_file_will_do(device, start, tmp_path, monkeypatch):
    rename = os.rename

    def fat(source, target):
        if os.path.exists(target):
            raise OSError(17, "EEXIST")
        rename(source, target)

    monkeypatch.setattr(os, "rename", fat)
    sensor = start(make_new=True, budget=20.0)
    for period in range(1, 4):
        sensor.release(0.0, period)
        sensor.delivered()
    assert start(budget=20.0).spent == sensor.spent
    # Power that fails between removing the old record and renaming the new one:
    rename(tmp_path / "hall.ledger", tmp_path / "hall.ledger.part")
    assert start(budget=20.0).spent == sensor.spent


def test_a_new_table_with_longer_periods_gets_new_keys(start):
    start(period=60).release(0.0, 30_000_000)
    keys = []
    sensor = start(period=86_400)
    for period in range(20_000, 20_003):
        sensor.release(0.0, period)
        sensor.delivered()
        keys.append(sensor._key)
    assert sensor.period == 20_002 and len(set(keys)) == 3


def test_a_bad_source_is_refused_every_time(device, start, monkeypatch, tmp_path):
    for name, source in BAD_SOURCES.items():
        monkeypatch.setattr(os, "urandom", source)
        try:
            start(make_new=True)
        except device.RandomnessError:
            continue
        pytest.fail(f"{name} was accepted")
    assert not (tmp_path / "hall.ledger").exists()


def test_a_key_that_comes_twice_is_refused(device, start, monkeypatch):
    sensor = start()
    sensor.release(0.0, 1)
    sensor.delivered()
    monkeypatch.setattr(os, "urandom", lambda size: sensor._key)
    with pytest.raises(device.RandomnessError, match="repeats itself"):
        sensor.release(0.0, 2)
    assert sensor.period == 1


def test_a_reading_of_another_kind_is_named(device):
    numbers = device.Table(bundle_body(make_sensor()))
    words = device.Table(bundle_body(make_sensor(CategoriesEncoder(categories=["a", True]), EVEN)))
    assert (numbers.row(True), words.row(True), words.row("b")) == (1, 1, 2)
    for table, reading in ((numbers, "1"), (words, b"a"), (words, ("a",))):
        with pytest.raises(TypeError, match="convert the reading first"):
            table.row(reading)


def test_what_cannot_be_stored_is_not_released(device, start, monkeypatch):
    sensor = start(make_new=True, budget=20.0)

    def refuse(*names):
        raise OSError(28, "ENOSPC")

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(device.LedgerError, match="nothing is released"):
        sensor.release(0.0, 1)
    assert (sensor.spent, sensor.pending) == (0, -1)


def test_the_period_comes_from_the_clock(start, monkeypatch):
    sensor = start(period=60)
    monkeypatch.setattr(time, "time", lambda: 6000.9)
    sensor.release(0.0)
    assert sensor.period == 100
