"""The MicroPython runtime: it compiles, it refuses, and mip can install it."""

import contextlib
import io
import json
import os
import sys
import types

import pytest
from support.device_figures import BAD_SOURCES, fuzz_bodies, micropython_counts
from support.devices import (
    DAY,
    compiled_runtime,
    make_sensor,
    micropython_runtime,
    run_micropython,
)
from support.matrices import sparing

from discreet import __version__
from discreet.data.encoders import CategoriesEncoder
from discreet.export.neutral import bundle_body
from discreet.export.targets import micropython_files

EVEN = [[0.5, 0.5]] * 3


def test_mpy_cross_compiles_it_to_a_few_kilobytes(tmp_path):
    assert compiled_runtime(str(tmp_path)).stat().st_size < 9_000


@pytest.mark.slow
def test_without_a_sound_source_nothing_starts(folder):
    # This build of MicroPython has no os.urandom at all, as some small boards have none.
    found = run_micropython(
        folder, "jobs_micropython.py", {"probe.table": bundle_body(make_sensor())}
    )
    assert found["refusals.out"] == b"refused,refused,refused"
    assert "probe.ledger" not in found


def test_mip_finds_a_table_and_the_runtime_and_nothing_else():
    files = micropython_files({"hall": make_sensor(), "door": make_sensor(name="door")}, None)
    for name in ("hall", "door"):
        package = json.loads(files[f"{name}/package.json"])
        assert package["version"] == __version__
        for target, url in package["urls"]:
            assert target == url and f"{name}/{url}" in files
        others = [path for path in files if path.startswith(f"{name}/")]
        assert len(others) == 1 + len(package["urls"])
        assert files[f"{name}/{name}.table"].find(name.encode()) > 0


class Board:
    """A board at the other end of mpremote's cable."""

    def __init__(self):
        self.files = {}

    def fs_exists(self, path):
        return path == "/lib"

    def fs_writefile(self, path, data, progress_callback=None):
        self.files[path] = bytes(data)


def test_mip_installs_an_export(tmp_path, capsys):
    mip = pytest.importorskip("mpremote.mip", reason="mpremote is not installed")
    files, board = micropython_files({"hall": make_sensor()}, None), Board()
    for path, data in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(data)
    package = str(tmp_path / "hall" / "package.json")
    mip._install_package(board, package, "", "/lib", None, False)
    assert board.files == {
        "/lib/discreet_sensor.py": files["hall/discreet_sensor.py"],
        "/lib/hall.table": files["hall/hall.table"],
    }


# --- The same file under CPython, for what the WebAssembly build cannot be brought to ------


@pytest.fixture
def device():
    return micropython_runtime()


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


def test_mutated_tables_are_refused_or_sound(device):
    bodies = fuzz_bodies(device, 3000)
    assert 0 < sum(bodies) < 3000


@pytest.mark.slow
def test_a_lost_ledger_does_not_refill_the_budget(device, start):
    with pytest.raises(device.LedgerError, match="make_new=True"):
        start(budget=20.0)
    start()  # without a budget there is nothing to lose
    start(make_new=True, budget=20.0)


def test_the_ledger_survives_a_reboot_and_damage_counts_as_spent(device, start, tmp_path):
    sensor = start(make_new=True, budget=20.0)
    first = sensor.release(0.0, uptime=DAY)
    assert sensor.release(9.0, uptime=5 * DAY) == first  # kept until delivered
    sensor.delivered()
    again = start(budget=20.0)
    assert again.spent == sensor.spent > 0 and again.release(0.0, uptime=DAY) == first
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
        sensor.release(0.0, uptime=period * DAY)
        sensor.delivered()
    assert start(budget=20.0).spent == sensor.spent
    # Power that fails between removing the old record and renaming the new one:
    rename(tmp_path / "hall.ledger", tmp_path / "hall.ledger.part")
    assert start(budget=20.0).spent == sensor.spent


class PowerCut(BaseException):
    """Nothing that the runtime catches."""


@pytest.mark.parametrize("fat", [False, True])
@pytest.mark.parametrize("repeat", ["never", "code", "period"])
@pytest.mark.parametrize("step", range(10))
def test_power_that_fails_during_a_write_refills_no_budget(
    device, start, monkeypatch, repeat, step, fat
):
    """Before each step that changes the disk, and with half a draft written."""
    policy = {"repeat": repeat, "budget": 200.0}
    sensor = start(make_new=True, **policy)
    sensor._keep(0, 0, 0, device.NONE, bytes(32))
    cost, handed_out = sensor.table.epsilon, 0
    for period in range(1, 5):
        symbol = -1
        with monkeypatch.context() as patch, contextlib.suppress(PowerCut):
            cut_power(device, patch, step, fat)
            symbol = sensor.release(0.0, uptime=period * DAY)
            handed_out += 1
            sensor.delivered()
        sensor = start(**policy)
        assert handed_out * cost <= sensor.spent <= (handed_out + 1) * cost
        if symbol >= 0 and (sensor.pending >= 0 or repeat != "never"):
            assert sensor.release(0.0, uptime=period * DAY) == symbol
        sensor.release(0.0, uptime=period * DAY)
        handed_out = sensor.spent // cost
        sensor.delivered()


def cut_power(device, monkeypatch, step, fat):
    left = iter([True] * step)

    def reached():
        if not next(left, False):
            raise PowerCut

    class Draft(io.FileIO):
        def write(self, data):
            super().write(data[:20])
            reached()
            return super().write(data[20:])

    def rename(source, target, true=os.rename):
        reached()
        if fat and os.path.exists(target):
            raise OSError(17, "EEXIST")
        true(source, target)

    def remove(path, true=os.remove):
        reached()
        true(path)

    monkeypatch.setattr(device, "open", lambda path, mode: Draft(path, mode), raising=False)
    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(os, "remove", remove)
    monkeypatch.setattr(device, "_sync", reached)


@pytest.mark.parametrize("repeat", ["never", "code", "period"])
def test_a_retry_after_a_reboot_sends_the_same_symbol(start, repeat):
    for period in range(1, 20):
        first = start(make_new=True, repeat=repeat, budget=200.0).release(0.0, uptime=period * DAY)
        sensor = start(repeat=repeat, budget=200.0)
        assert sensor.release(0.0, uptime=period * DAY) == first
        if repeat == "never":
            assert sensor.spent == period * sensor.table.epsilon
        sensor.delivered()
    if repeat == "never":
        assert start(repeat=repeat, budget=200.0).pending == -1


@pytest.mark.parametrize("repeat", ["never", "code", "period"])
def test_once_the_budget_is_spent_nothing_is_written(device, start, repeat, tmp_path, monkeypatch):
    for period in range(1, 10):
        sensor = start(make_new=True, repeat=repeat, budget=20.0)
        sensor.release(0.0, uptime=period * DAY)
        sensor.delivered()
    assert sensor.spent == 9 * sensor.table.epsilon
    stored, found = (tmp_path / "hall.ledger").read_bytes(), set()
    monkeypatch.setattr(device, "_store", None)
    for period in range(10, 60):
        sensor = start(repeat=repeat, budget=20.0)
        first = sensor.release(0.0, uptime=period * DAY)
        assert sensor.release(1.0, uptime=(period + 1) * DAY) == first
        found.add(first)
        sensor.delivered()
    assert (tmp_path / "hall.ledger").read_bytes() == stored and found == {0, 1}


def test_a_record_that_a_lost_rename_left_is_safe_before_the_next(device, start, tmp_path):
    sensor = start(make_new=True, budget=20.0)
    sensor.release(0.0, uptime=DAY)
    (tmp_path / "hall.ledger").rename(tmp_path / "hall.ledger.part")
    assert start(budget=20.0).spent == sensor.spent
    assert sorted(each.name for each in tmp_path.glob("*.ledger*")) == ["hall.ledger"]


@pytest.mark.parametrize("uptime", [2**32, 2**40])
def test_an_uptime_that_no_record_can_hold_is_refused(device, start, uptime):
    sensor = start()
    with pytest.raises(device.LedgerError, match="from 0 to 4294967295"):
        sensor.release(0.0, uptime)
    sensor.release(0.0, uptime=2**32 - 1)
    assert sensor.mark == 2**32 - 1


@pytest.mark.slow
def test_a_bad_source_is_refused_every_time(device, start, monkeypatch, tmp_path):
    for name, source in BAD_SOURCES.items():
        monkeypatch.setattr(os, "urandom", source)
        try:
            start(make_new=True)
        except device.RandomnessError:
            continue
        pytest.fail(f"{name} was accepted")
    assert not (tmp_path / "hall.ledger").exists()


class Radio:
    """Stands in for the modules ``network`` and ``bluetooth`` of an ESP32."""

    STA_IF, AP_IF = 0, 1

    def __init__(self, *on, pm=0):
        self.on, self.pm = on, pm

    def WLAN(self, which):  # noqa: N802
        return types.SimpleNamespace(active=lambda: which in self.on, config=self._config)

    def _config(self, name):
        if self.pm is None:
            raise ValueError("unknown config param")
        return {"pm": self.pm}[name]

    def BLE(self):  # noqa: N802
        return types.SimpleNamespace(active=lambda: "ble" in self.on)


@pytest.mark.parametrize("platform", ["esp32", "esp8266"])
@pytest.mark.parametrize(
    ("wifi", "bluetooth", "on"),
    [
        (Radio(0), Radio(), True),
        (Radio(1), None, True),
        (Radio(), Radio("ble"), True),
        (None, Radio("ble"), True),
        (Radio(), Radio(), False),
        (Radio(), None, False),
        (None, None, False),
    ],
)
def test_an_esp_whose_radio_is_off_releases_nothing(
    device, start, monkeypatch, wifi, bluetooth, on, platform
):
    monkeypatch.setattr(device, "PLATFORM", platform)
    monkeypatch.setitem(sys.modules, "network", wifi)
    monkeypatch.setitem(sys.modules, "bluetooth", bluetooth)
    if on:
        assert start().release(0.0, uptime=DAY) in (0, 1)
        return
    with pytest.raises(device.RandomnessError, match="without radio"):
        start()


@pytest.mark.parametrize("platform", ["esp32", "esp8266"])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(
    "pm", [1, 2, None]
)  # the two ways to sleep, and a firmware that cannot say
def test_an_esp_whose_radio_may_sleep_releases_nothing(
    device, start, monkeypatch, platform, which, pm
):
    radio = Radio(which, "ble", pm=pm)
    monkeypatch.setattr(device, "PLATFORM", platform)
    monkeypatch.setitem(sys.modules, "network", radio)
    monkeypatch.setitem(sys.modules, "bluetooth", radio)
    with pytest.raises(device.RandomnessError, match=r"may sleep is not random.*pm=0"):
        start()


def test_a_key_that_comes_twice_is_refused(device, start, monkeypatch):
    sensor = start()
    sensor.release(0.0, uptime=DAY)
    sensor.delivered()
    key = sensor._key
    monkeypatch.setattr(os, "urandom", lambda size: key)
    with pytest.raises(device.RandomnessError, match="repeats itself"):
        for day in (2, 3):  # the second time at the latest
            sensor.release(0.0, uptime=day * DAY)
            sensor.delivered()
            assert sensor._key != key  # the generator had been sown well


@pytest.mark.parametrize(
    ("platform", "machine", "known"),
    [
        ("WiPy", "WiPy with CC3200", False),
        ("samd", "Wio Terminal D51R with SAMD51P19A", True),
        ("samd", "Adafruit ItsyBitsy M0 Express with SAMD21G18A", False),
        ("webassembly", "", False),
        ("renesas-ra", "", False),
        ("rp2", "Raspberry Pi Pico with RP2040", True),
        ("pyboard", "PYBv1.1 with STM32F405RG", True),
    ],
)
def test_a_port_is_refused_unless_its_source_is_known(
    device, start, monkeypatch, platform, machine, known
):
    monkeypatch.setattr(device, "PLATFORM", platform)
    fake = types.SimpleNamespace(implementation=types.SimpleNamespace(_machine=machine))
    monkeypatch.setattr(device, "sys", fake)
    if known:
        assert start().release(0.0) in (0, 1)
        return
    with pytest.raises(device.RandomnessError, match=f"not known to be random on {platform}"):
        start()


def test_a_reading_of_another_kind_is_named(device):
    numbers = device.Table(bundle_body(make_sensor()))
    words = device.Table(bundle_body(make_sensor(CategoriesEncoder(categories=["a", True]), EVEN)))
    assert (numbers.row(True), words.row(True), words.row("b")) == (1, 1, 2)
    assert (numbers.row("1"), numbers.row("unavailable")) == (1, 3)
    for table, reading in ((numbers, b"1"), (words, b"a"), (words, ("a",))):
        with pytest.raises(TypeError, match="convert the reading first"):
            table.row(reading)


def test_what_cannot_be_stored_is_not_released(device, start, monkeypatch):
    sensor = start(make_new=True, budget=20.0)

    def refuse(*names):
        raise OSError(28, "ENOSPC")

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(device.LedgerError, match="nothing is released"):
        sensor.release(0.0, uptime=DAY)
    assert (sensor.spent, sensor.pending) == (0, -1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sparing(["BINS", "TEXTS", "CODES", "FRACTIONS", "DRAW"], "BINS"))
def test_every_reading_takes_the_same_instructions(tmp_path, kind):
    some = {"BINS": (1, 4, 6, 11)}.get(kind)  # between edges, on one, above all and missing
    counts = micropython_counts(tmp_path, kind, some, times=5)
    assert len(counts) > 3 and len(set(counts)) == 1
