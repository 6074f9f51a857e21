"""The Python runtime: it refuses what it cannot trust, and counts what it releases."""

import ast
import contextlib
import inspect
import itertools
import math
import os
import stat
import subprocess
import sys
import threading
import time
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom
from support.device_figures import (
    BAD_SOURCES,
    auc_interval,
    averaging,
    clones,
    fuzz_python,
    latencies_python,
    learned_interval,
    pick_early,
    refused_sources,
)
from support.devices import DAY, MAPPING_ID, RUNTIMES, Words, make_sensor, weights_of, write_signed

from discreet.data.encoders import CategoriesEncoder, CodesEncoder
from discreet.export.neutral import bundle_body
from discreet.mapping.parts import TOTAL
from discreet_sensor import runtime as device

SOURCE = Path(device.__file__).read_text()
HALF = [[0.6, 0.4], [0.4, 0.6]]
COST = make_sensor(CodesEncoder(size=2), HALF).micro_epsilon


@pytest.fixture
def at_work(tmp_path, key):
    """Start a sensor of two codes, again and again from the same files."""
    started = []

    def start(table=HALF, *, make_new=True, ledger="hall.ledger", **policy):
        for each in started:
            each.close()
        path = write_signed(tmp_path, make_sensor(CodesEncoder(size=2), table, **policy), key)
        sensor = device.Sensor(
            path, public_key=key.public_hex, ledger=tmp_path / ledger, make_new=make_new
        )
        started.append(sensor)
        return sensor

    yield start
    for each in started:
        each.close()


@pytest.fixture
def quick_store(monkeypatch):
    """Do not wait for the disk where many releases are stored."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def nats(releases):
    """A budget for exactly so many releases."""
    return releases * COST / 1e6 + 1e-7


# --- The file ------------------------------------------------------------------------------


def test_it_is_python_3_9_and_needs_the_standard_library_only():
    tree = ast.parse(SOURCE, feature_version=(3, 9))
    roots = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            roots |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            roots.add(node.module.split(".")[0])
    assert roots - set(sys.stdlib_module_names) == {"cryptography"}  # used if it is there
    # Alone in a folder, with nothing but the standard library in reach:
    code = "import runtime; runtime.check_randomness()"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=Path(device.__file__).parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_no_runtime_takes_a_seed():
    for name, thing in vars(device).items():
        if inspect.isfunction(thing) or inspect.isclass(thing):
            try:
                parameters = inspect.signature(thing).parameters
            except ValueError:
                continue
            assert not {"seed", "rng", "random_state"} & set(parameters), name
    for path in ("python/discreet_gateway.py", "c/discreet.h"):
        assert "seed" not in (RUNTIMES / path).read_text()


# --- Bundles -------------------------------------------------------------------------------


def test_a_bundle_with_another_signature_or_none_is_refused(tmp_path, key):
    body = bundle_body(make_sensor())
    path = tmp_path / "hall.bundle"
    other = device.BundleError, "is not signed with the key of this device"
    for content in (body, body + bytes(64), b"", b"\0" * 64, key.sign(body)[:-1]):
        path.write_bytes(content)
        with pytest.raises(other[0], match=other[1]):
            device.read_bundle(path, key.public_hex)
    path.write_bytes(key.sign(body))
    assert device.read_bundle(path, key.public_hex + "\n").name == "hall"
    assert device.read_bundle(path, bytes.fromhex(key.public_hex)).rows == 4
    with pytest.raises(other[0], match=other[1]):
        device.read_bundle(path, "00" * 32)


@pytest.mark.parametrize("public_key", ["", "zz", "00" * 31, b"short"])
def test_a_public_key_that_is_none_is_named(tmp_path, public_key):
    with pytest.raises(device.BundleError, match="64 hexadecimal digits"):
        device.read_bundle(tmp_path / "hall.bundle", public_key)


def test_what_is_no_file_is_refused(tmp_path, key):
    os.mkfifo(tmp_path / "pipe")  # not waited for
    for path in (tmp_path, tmp_path / "none", "\0", tmp_path / "pipe"):
        with pytest.raises(device.BundleError, match="Name a bundle"):
            device.read_bundle(path, key.public_hex)


def test_a_file_that_is_too_large_is_not_read(tmp_path, key, monkeypatch):
    monkeypatch.setattr(device, "MAX_BUNDLE", 1000)
    (tmp_path / "large").write_bytes(bytes(2000))
    with pytest.raises(device.BundleError, match="too large"):
        device.read_bundle(tmp_path / "large", key.public_hex)


@pytest.mark.slow
def test_mutated_bundles_are_refused_and_their_bodies_never_crash(tmp_path, key):
    refused, sound = fuzz_python(tmp_path, key, 800)
    assert refused == 800  # every one of them
    assert 0 < sound < 800  # some bodies are sound once their checksum is fixed


def test_a_bundle_of_another_sensor_or_mapping_is_refused_where_it_is_pinned(tmp_path, key):
    path, options = write_signed(tmp_path, make_sensor(), key), {"public_key": key.public_hex}
    options["ledger"] = tmp_path / "hall.ledger"
    device.Sensor(path, **options, name="hall", mapping_id=MAPPING_ID).close()
    for pin, words in (
        ({"name": "door"}, "is of sensor 'hall', not of 'door'"),
        ({"name": ""}, "is of sensor 'hall', not of ''"),
        ({"mapping_id": "sha256:" + "0" * 64}, f"is of mapping '{MAPPING_ID}', not of"),
        ({"name": "hall", "mapping_id": MAPPING_ID[:-1]}, "Put the right bundle in its place"),
    ):
        with pytest.raises(device.BundleError, match=words):
            device.Sensor(path, **options, **pin)
    assert not (tmp_path / "hall.ledger").exists()


# --- Randomness ----------------------------------------------------------------------------


def test_a_bad_source_is_refused_every_time(tmp_path, key):
    assert refused_sources(tmp_path, key) == len(BAD_SOURCES) > 500
    assert not (tmp_path / "sources.ledger").exists()
    device.check_randomness()  # the true one passes


@pytest.mark.parametrize("name", ["constant", "short", "failing", "absent"])
def test_a_source_that_breaks_later_stops_the_release(monkeypatch, at_work, name):
    for repeat in ("never", "code"):
        sensor = at_work(repeat=repeat, ledger=repeat)
        monkeypatch.setattr(os, "urandom", BAD_SOURCES[name])
        with pytest.raises(device.RandomnessError, match="Nothing is released"):
            sensor.release(0)
        assert sensor.pending is None and sensor.spent == 0
        monkeypatch.undo()


def test_a_source_that_stops_in_the_middle_stops_the_draw(monkeypatch, at_work):
    sensor, true = at_work(repeat="never"), os.urandom
    monkeypatch.setattr(os, "urandom", lambda size: true(size // 2) + bytes(size - size // 2))
    for count in (8, 1000, 10_000):
        with pytest.raises(device.RandomnessError, match="repeats itself"):
            sensor.table.draw([0] * count)


def test_a_key_that_comes_twice_is_refused(monkeypatch, at_work):
    sensor = at_work()
    sensor.release_rows([0], uptime=DAY)
    before = sensor.ledger.record
    monkeypatch.setattr(os, "urandom", lambda size: before.key)
    with pytest.raises(device.RandomnessError, match="repeats itself"):
        for day in (2, 3):  # the second time at the latest
            sensor.release_rows([0], uptime=day * DAY)
            before = sensor.ledger.record
    assert sensor.ledger.record.key == before.key and sensor.spent == COST


# --- Releases ------------------------------------------------------------------------------


def test_a_symbol_is_drawn_once_and_kept_until_delivered(at_work):
    sensor = at_work(repeat="never", budget=nats(100))
    for _ in range(20):
        first = sensor.release(0)
        assert [sensor.release(1) for _ in range(5)] == [first] * 5
        sensor.delivered()
    assert sensor.spent == 20 * COST


@pytest.mark.slow
@pytest.mark.parametrize("repeat", ["never", "code", "period"])
def test_a_retry_after_a_reboot_sends_the_same_symbol(at_work, repeat):
    for period in range(1, 20):
        first = at_work(repeat=repeat, budget=nats(100)).release(0, uptime=period * DAY)
        for _ in range(2):
            sensor = at_work(repeat=repeat, budget=nats(100), make_new=False)
            before = sensor.spent
            assert sensor.release(0, uptime=period * DAY) == first
        if repeat == "never":  # a fresh reading never gets out twice, nor is it counted twice
            assert (
                sensor.release(1, uptime=(period + 1) * DAY) == first
                and sensor.spent == before == period * COST
            )
        sensor.delivered()


@pytest.mark.slow
def test_once_delivered_a_symbol_is_forgotten(at_work):
    pairs = set()
    for period in range(1, 40):
        sensor = at_work(repeat="never")
        first = sensor.release(0, uptime=period * DAY)
        sensor.delivered()
        sensor = at_work(repeat="never")
        assert sensor.pending is None and sensor.ledger.record.held == device.NONE
        pairs.add((first, sensor.release(0, uptime=period * DAY)))
        sensor.delivered()
    assert len(pairs) == 4


@pytest.mark.parametrize("repeat", ["never", "code", "period"])
def test_once_the_budget_is_spent_nothing_is_written(at_work, repeat, tmp_path, monkeypatch):
    policy = {"repeat": repeat, "budget": nats(3)}
    for period in range(1, 4):
        sensor = at_work(**policy)
        sensor.release(0, uptime=period * DAY)
        sensor.delivered()
    assert sensor.spent == 3 * COST
    stored, found = (tmp_path / "hall.ledger").read_bytes(), set()
    monkeypatch.setattr(device.Ledger, "store", broken(30))  # as if flash were read-only
    for period in range(4, 60):
        sensor = at_work(**policy)
        first = sensor.release(0, uptime=period * DAY)
        assert (
            sensor.release(1, uptime=(period + 1) * DAY) == first
        )  # a retry, as long as the device is up
        found |= {first, *sensor.release_rows([0, 1], uptime=period * DAY)}
        sensor.delivered()
    assert (tmp_path / "hall.ledger").read_bytes() == stored and found == {0, 1}


@pytest.mark.parametrize("repeat", ["never", "code", "period"])
def test_a_clock_that_goes_back_from_a_period_without_budget_finds_no_new_draw(at_work, repeat):
    sensor = at_work(repeat=repeat, budget=nats(3))
    sensor.release_rows([0, 1, 2], uptime=DAY)
    if repeat == "period":
        sensor.release_rows([0], uptime=2 * DAY)
        sensor.release_rows([0], uptime=3 * DAY)
    last = sensor.ledger.record
    before = sensor.release_rows([0, 1, 2], uptime=last.mark)
    sensor.release_rows([0, 1, 2] * 9, uptime=last.mark - 60)
    assert sensor.ledger.record._replace(mark=last.mark) == last
    if repeat != "never":  # only what was counted is sent again
        assert sensor.release_rows([0, 1, 2], uptime=last.mark - 30) == before


def test_a_symbol_of_another_bundle_is_not_sent(at_work):
    at_work(repeat="never").release(0, uptime=DAY)
    sensor = at_work([[0.5, 0.5], [0.4, 0.6]], repeat="never")
    assert sensor.pending is None
    sensor.release(0, uptime=DAY)
    assert sensor.ledger.record.held == sensor.pending


def test_a_record_with_a_symbol_that_the_table_has_not_is_not_believed(at_work):
    for repeat in ("never", "period"):
        sensor = at_work(repeat=repeat, ledger=repeat)
        sensor.release(0, uptime=DAY)
        sensor.ledger.store(sensor.ledger.record._replace(held=2))
        sensor = at_work(repeat=repeat, ledger=repeat)
        assert sensor.pending is None and sensor.release(0, uptime=DAY) in (0, 1)


def test_what_could_not_be_noted_as_delivered_is_sent_again(at_work, monkeypatch):
    sensor = at_work(repeat="never", budget=nats(9))
    first = sensor.release(0, uptime=DAY)
    monkeypatch.setattr(os, "replace", broken(5))
    with pytest.raises(device.LedgerError, match="cannot be written"):
        sensor.delivered()
    monkeypatch.undo()
    assert sensor.release(1, uptime=2 * DAY) == first and sensor.spent == COST
    sensor.delivered()
    assert sensor.pending is None


def test_many_releases_do_not_lose_the_one_that_waits(at_work):
    sensor = at_work(repeat="never")
    first = sensor.release(0, uptime=DAY)
    sensor.release_rows([0, 1], uptime=2 * DAY)
    assert at_work(repeat="never").release(1, uptime=3 * DAY) == first


def test_the_same_code_gets_the_same_symbol_within_a_period_and_over_reboots(at_work):
    symbols = set()
    for period in range(1, 30):
        found = set()
        for _ in range(3):
            sensor = at_work()
            found.add(sensor.release_rows([0, 1, 0, 1, 2], uptime=period * DAY)[0])
        assert len(found) == 1
        symbols |= found
    assert symbols == {0, 1}  # a new key in each period


def test_a_clock_that_goes_back_changes_nothing(at_work):
    sensor = at_work()
    before = sensor.release_rows([0, 1, 2], uptime=9 * DAY)
    record = sensor.ledger.record
    assert sensor.release_rows([0, 1, 2], uptime=3 * DAY) == before
    assert sensor.ledger.record == record._replace(draws=3, spent=record.spent, mark=3 * DAY)


def test_hold_sends_one_symbol_for_the_whole_period(at_work):
    for period in range(1, 20):
        sensor = at_work(repeat="period", budget=nats(100))
        first = sensor.release_rows([0, 1, 1, 0], uptime=period * DAY)
        sensor = at_work(repeat="period", budget=nats(100))
        assert (
            set(first) == set(sensor.release_rows([1, 0], uptime=period * DAY))
            and len(set(first)) == 1
        )
        assert sensor.spent == period * COST  # once a period, reboots or not


def test_a_reading_that_no_code_fits_is_answered_like_any_other(at_work):
    sensor = at_work(repeat="never")
    for reading in (None, math.nan, -1, 2, 0.5, math.inf):
        assert sensor.table.row(reading) == 2
        assert sensor.release(reading) in (0, 1)
        sensor.delivered()
    for text in ("unavailable", "unknown", "", "2", "0.5"):  # what Home Assistant may say
        assert sensor.table.row(text) == 2
    assert sensor.table.row("1") == 1 and sensor.release("unavailable") in (0, 1)
    with pytest.raises(TypeError, match="reads numbers and text; it got a list"):
        sensor.table.row([1])


def test_a_reading_that_only_looks_like_a_category_is_named():
    encoder = CategoriesEncoder(categories=[1, "a"], missing=True)
    table = device.Table(bundle_body(make_sensor(encoder, [[0.5, 0.5]] * 4)))
    assert [table.row(each) for each in (1.0, "a", True, math.nan)] == [0, 1, 2, 3]
    for reading in (np.float32(1.0), np.float32("nan"), b"a", Decimal(1)):
        with pytest.raises(TypeError, match="reads numbers and text"):
            table.row(reading)


def test_the_table_is_what_the_memory_follows(at_work):
    sensor = at_work([[0.8, 0.2], [0.1, 0.9]])
    ones = sum(sensor._symbols_of(os.urandom(32))[1] for _ in range(1500))
    low, high = binom.interval(1 - 1e-6, 1500, 0.9)
    assert low <= ones <= high


# --- The ledger ----------------------------------------------------------------------------


def test_what_is_counted_depends_on_the_schedule_alone(at_work):
    records = []
    for ledger, rows in (("a", [0] * 9), ("b", [0, 1, 2] * 3), ("c", [2, 2, 1, 1, 0, 0, 1, 1, 2])):
        sensor = at_work(ledger=ledger, budget=nats(100))
        spent = []
        for period in (1, 2):
            for row in rows:
                sensor.release_rows([row], uptime=period * DAY)
                spent.append(sensor.spent)
        records.append(spent)
    assert records[0] == records[1] == records[2]
    # Three rows, so at most three fresh draws a period: later releases only repeat.
    assert records[0][:9] == [COST, 2 * COST] + [3 * COST] * 7
    assert records[0][-1] == 6 * COST


@pytest.mark.parametrize("repeat", ["never", "code", "period"])
def test_a_spent_budget_goes_on_sending_what_no_reading_changes(
    at_work, repeat, monkeypatch, quick_store
):
    sensor = at_work([[0.95, 0.05], [0.05, 0.95]], repeat=repeat, budget=8.0)
    periods = itertools.count(1)
    while sensor.spent + sensor.table.epsilon <= sensor.table.budget:
        sensor.release_rows([0], uptime=next(periods) * DAY)
    sensor = at_work([[0.95, 0.05], [0.05, 0.95]], repeat=repeat, budget=8.0, make_new=False)
    counts = {}
    for row in (0, 1):
        drawn = [sensor.release_rows([row], uptime=next(periods) * DAY)[0] for _ in range(400)]
        counts[row] = sum(drawn)
    low, high = binom.interval(1 - 1e-6, 400, 0.5)
    assert all(low <= count <= high for count in counts.values())
    assert sensor.spent <= sensor.table.budget
    words = os.urandom(32 * 400)  # the same words give the same symbols whatever the reading
    again = []
    for row in (0, 1):
        monkeypatch.setattr(os, "urandom", Words(words))
        monkeypatch.setattr(device, "_health", device.Health())
        again.append(
            [sensor.release_rows([row], uptime=next(periods) * DAY)[0] for _ in range(200)]
        )
    assert again[0] == again[1]


def test_a_batch_is_counted_like_its_parts(at_work):
    for repeat in ("never", "code", "period"):
        spent = []
        for ledger, parts in (("one", [7]), ("many", [1] * 7), ("some", [3, 4])):
            sensor = at_work(ledger=f"{repeat}-{ledger}", repeat=repeat, budget=nats(5))
            for part in parts:
                sensor.release_rows([1] * part, uptime=DAY)
            spent.append(sensor.ledger.record[1:4])
        assert spent[0] == spent[1] == spent[2]


def test_a_damaged_ledger_counts_as_spent(at_work, tmp_path):
    sensor = at_work(budget=nats(100))
    sensor.release_rows([0], uptime=DAY)
    good = (tmp_path / "hall.ledger").read_bytes()
    for damaged in (b"", good[:-1], good + b"\0", bytes(76), good[:20] + b"\7" + good[21:]):
        (tmp_path / "hall.ledger").write_bytes(damaged)
        sensor = at_work(budget=nats(100), make_new=True)
        assert sensor.spent == device.NONE
        assert sensor._charged(sensor._turned(), 1)[1] == 0
        sensor.release_rows([0], uptime=5 * DAY)
        assert at_work(budget=nats(100)).spent == device.NONE  # and stays so


def test_every_changed_byte_of_a_ledger_is_noticed(at_work, tmp_path):
    at_work(budget=nats(100)).release_rows([0], uptime=DAY)
    good = (tmp_path / "hall.ledger").read_bytes()
    for at in range(len(good)):
        changed = good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1 :]
        assert device.Record.unpack(changed).spent == device.NONE
    assert device.Record.unpack(good).spent == COST


def test_a_lost_ledger_does_not_refill_the_budget(at_work, tmp_path):
    with pytest.raises(device.LedgerError, match="must not refill the budget"):
        at_work(budget=nats(3), make_new=False)
    at_work(make_new=False)  # without a budget there is nothing to lose
    at_work(budget=nats(3), ledger="new")


def test_a_new_bundle_goes_on_counting_with_a_new_key(at_work):
    sensor = at_work(budget=nats(100))
    sensor.release_rows([0, 1], uptime=7 * DAY)
    before = sensor.ledger.record
    sensor.table.tag = b"another1"
    sensor.release_rows([0], uptime=7 * DAY)
    after = sensor.ledger.record
    assert after.spent == before.spent + COST and after.key != before.key
    assert (after.elapsed, after.mark) == (0, 7 * DAY)


def test_another_policy_for_the_same_mapping_is_another_bundle(at_work):
    never = at_work(repeat="never", budget=nats(100))
    never.release_rows(
        [0] * 10, uptime=DAY
    )  # more draws than there are rows, none of them remembered
    code = at_work(repeat="code", budget=nats(100))
    code.release_rows([0], uptime=DAY)
    assert code.spent == 11 * COST


def broken(number):
    """A call that the system refuses."""

    def refuse(*arguments):
        raise OSError(number, os.strerror(number))

    return refuse


def test_nothing_is_released_that_could_not_be_stored(at_work, tmp_path, monkeypatch):
    sensor = at_work(budget=nats(3))
    monkeypatch.setattr(os, "fsync", broken(28))
    for _ in range(3):
        with pytest.raises(device.LedgerError, match="No space left on device"):
            sensor.release(0)
    monkeypatch.undo()
    assert sensor.spent == 0 and sensor.pending is None
    assert sensor.release(0) in (0, 1) and sensor.spent == COST


class PowerCut(BaseException):
    """Nothing that the runtime catches."""


def cut_power(monkeypatch, step):
    """Let the power fail just before a step of what is written to the disk."""
    left = iter([True] * step)

    def until_then(true):
        def call(*arguments):
            if not next(left, False):
                raise PowerCut
            return true(*arguments)

        return call

    for name in ("open", "unlink", "fsync", "replace"):
        monkeypatch.setattr(os, name, until_then(getattr(os, name)))


@pytest.mark.slow
@pytest.mark.parametrize("step", range(12))  # two writes of five steps, and the draft of a cut one
@pytest.mark.parametrize("repeat", ["never", "code", "period"])
def test_power_that_fails_during_a_write_refills_no_budget(at_work, monkeypatch, repeat, step):
    policy = {"repeat": repeat, "budget": nats(100)}
    sensor = at_work(**policy)
    sensor.ledger.store(sensor.ledger.record)
    handed_out = 0
    for period in range(1, 6):
        symbol = None
        with monkeypatch.context() as patch, contextlib.suppress(PowerCut):
            cut_power(patch, step)
            symbol = sensor.release(0, uptime=period * DAY)
            handed_out += 1
            sensor.delivered()
        sensor = at_work(**policy, make_new=False)
        assert handed_out * COST <= sensor.spent <= (handed_out + 1) * COST
        waits = sensor.pending is not None
        if symbol is not None and (waits or repeat != "never"):
            assert sensor.release(0, uptime=period * DAY) == symbol
        sensor.release(0, uptime=period * DAY)
        handed_out = sensor.spent // COST
        sensor.delivered()


def test_a_write_that_was_cut_short_leaves_the_record_before_it(at_work, tmp_path):
    sensor = at_work(budget=nats(100))
    first = sensor.release_rows([0], uptime=DAY)
    record = sensor.ledger.record.pack()
    for size in range(len(record)):
        (tmp_path / "hall.ledger.part").write_bytes(record[:size])
        sensor = at_work(budget=nats(100), make_new=False)
        assert sensor.spent == COST
    assert sensor.release_rows([0], uptime=DAY) == first


def test_the_ledger_is_for_its_owner_and_for_one_process(at_work, tmp_path):
    at_work().release(0)
    assert stat.S_IMODE((tmp_path / "hall.ledger").stat().st_mode) == 0o600
    with pytest.raises(device.LedgerError, match="is in use"):
        device.Ledger(tmp_path / "hall.ledger", make_new=True)


def test_threads_are_counted_one_by_one(at_work, monkeypatch):
    sensor, released = at_work(repeat="never", budget=nats(1000)), []
    charged = sensor._charged

    def slowly(record, count):
        time.sleep(0.0005)  # another thread's turn
        return charged(record, count)

    monkeypatch.setattr(sensor, "_charged", slowly)

    def work():
        for _ in range(10):
            released.extend(sensor.release_rows([0], uptime=DAY))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert len(released) == 40 and sensor.spent == 40 * COST


def test_a_fork_or_a_closed_sensor_releases_nothing(at_work):
    sensor = at_work(budget=nats(10))
    sensor.release(0)
    sensor.delivered()
    child = os.fork()
    if not child:
        try:
            sensor.release(0)
        except device.LedgerError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert sensor.release(0) in (0, 1)
    sensor.delivered()
    sensor.close()
    with pytest.raises(device.LedgerError, match="is closed"):
        sensor.release(0)


def test_a_draft_that_somebody_laid_out_is_not_followed(at_work, tmp_path):
    (tmp_path / "other").write_bytes(b"precious")
    (tmp_path / "hall.ledger.part").symlink_to(tmp_path / "other")
    at_work().release(0)
    assert (tmp_path / "other").read_bytes() == b"precious"
    assert not (tmp_path / "hall.ledger").is_symlink()


def test_a_ledger_that_is_no_file_is_refused(at_work, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(device.LedgerError, match="is not a file"):
            at_work(ledger=name)


def test_messages_and_texts_hold_no_key(at_work):
    sensor = at_work()
    sensor.release(0)
    key = sensor.ledger.record.key
    told = (
        repr(sensor) + str(sensor.ledger) + repr(sensor.ledger.record) + str(sensor.ledger.record)
    )
    assert key.hex() not in told and repr(key)[2:-1] not in told


# --- What the count is worth ---------------------------------------------------------------


def probabilities(table, rows, repeat, periods, affordable=math.inf):
    """The exact probability of every sequence of symbols, for a sequence of rows."""
    weights, idle = weights_of(table), len(table.tops) - 1
    answered = schedule(repeat, periods, idle + 1, affordable)
    found = {}
    for symbols in itertools.product(range(table.symbols), repeat=len(rows)):
        chance, drawn = Fraction(1), {}
        for row, symbol, period, told in zip(rows, symbols, periods, answered, strict=True):
            slot = {"code": (period, row), "period": period, "never": object()}[repeat]
            row, slot = (row, slot) if told else (idle, object())
            if slot not in drawn:
                drawn[slot] = symbol
                chance *= Fraction(weights[row][symbol], TOTAL)
            elif drawn[slot] != symbol:
                chance = Fraction(0)
        found[symbols] = chance
    return found


def schedule(repeat, periods, rows, affordable):
    """Which releases depend on the reading, if so many may be counted."""
    most = {"never": math.inf, "code": rows, "period": 1}[repeat]
    counted, answered = Counter(), []
    for period in periods:
        free = counted[period] >= most
        answered.append(free or counted.total() < affordable)
        counted[period] += answered[-1] and not free
    return answered


def largest_ratio(table, repeat, periods, same_pattern, affordable=math.inf):
    """The largest ratio of probabilities between two sequences of readings."""
    sequences = list(itertools.product(range(len(table.tops)), repeat=len(periods)))
    found = {rows: probabilities(table, rows, repeat, periods, affordable) for rows in sequences}
    worst = Fraction(0)
    for a, b in itertools.product(sequences, repeat=2):
        if same_pattern and pattern(a, periods) != pattern(b, periods):
            continue
        for symbols, chance in found[a].items():
            if chance:
                other = found[b][symbols]
                worst = max(worst, chance / other) if other else math.inf
                if worst == math.inf:
                    return worst
    return worst


def pattern(rows, periods):
    """Which readings of a period are equal."""
    pairs = list(zip(rows, periods, strict=True))
    return [pairs.index(pair) for pair in pairs]


@pytest.mark.parametrize("affordable", [0, 1, 2])
@pytest.mark.parametrize("repeat", ["never", "code", "period"])
def test_a_budget_bounds_what_all_releases_tell_of_all_days(tmp_path, key, repeat, affordable):
    periods, ratio = (1, 1, 2), Fraction(3)
    table = make_sensor(CodesEncoder(size=2), [[0.75, 0.25], [0.25, 0.75]], repeat=repeat)
    worst = largest_ratio(table, repeat, periods, repeat == "code", affordable)
    assert worst == ratio**affordable  # no less either: the budget is used
    budget = affordable * math.log(3) + 1e-5
    limited = make_sensor(table.encoder, [[0.75, 0.25], [0.25, 0.75]], repeat=repeat, budget=budget)
    assert counted(limited, key, tmp_path, periods) == pytest.approx(budget, abs=2e-5)


def counted(table, key, tmp_path, periods):
    path = write_signed(tmp_path, table, key)
    ledger = tmp_path / "counted.ledger"
    sensor = device.Sensor(path, public_key=key.public_hex, ledger=ledger, make_new=True)
    for period in periods:
        sensor.release_rows([0], uptime=period * DAY)
    sensor.close()
    ledger.unlink(missing_ok=True)
    return sensor.spent / 1e6


@pytest.mark.parametrize("periods", [(1, 1, 1), (1, 1, 2), (1, 2, 3), (1, 1, 1, 1)])
@pytest.mark.parametrize("repeat", ["never", "code", "period"])
@pytest.mark.slow
def test_the_count_bounds_what_all_releases_tell(tmp_path, key, repeat, periods):
    table = make_sensor(CodesEncoder(size=2), [[0.7, 0.3], [0.25, 0.75]], repeat=repeat)
    spent = counted(table, key, tmp_path, periods)
    # With "code" this holds for readings with the same pattern of equality; see docs/devices.md.
    worst = largest_ratio(table, repeat, periods, same_pattern=repeat == "code")
    assert math.log(worst) <= spent


def test_repeating_by_code_tells_more_than_the_moments_of_change():
    table = make_sensor(CodesEncoder(size=3), [[0.7, 0.3], [0.25, 0.75], [0.5, 0.5]])
    sequences = list(itertools.product(range(3), repeat=4))
    sent = {
        rows: {symbols for symbols, chance in found.items() if chance}
        for rows in sequences
        for found in [probabilities(table, rows, "code", (1,) * 4)]
    }
    pairs = [(a, b) for a, b in itertools.product(sequences, repeat=2) if changes(a) == changes(b)]
    broken = {(a, b) for a, b in pairs if sent[a] - sent[b]}  # an infinite ratio
    assert (len(pairs), len(broken)) == (1125, 468)
    assert ((0, 0, 1, 2), (0, 0, 1, 0)) in broken
    assert all(pattern(a, (1,) * 4) != pattern(b, (1,) * 4) for a, b in broken)


def changes(rows):
    """At which readings the code differs from the one before."""
    return [a != b for a, b in itertools.pairwise(rows)]


def test_repeating_by_code_tells_that_the_code_has_changed():
    table = make_sensor(CodesEncoder(size=2), [[0.7, 0.3], [0.25, 0.75]])
    assert largest_ratio(table, "code", (1, 1), same_pattern=False) == math.inf
    assert largest_ratio(table, "period", (1, 1), same_pattern=False) < math.inf


# --- Attacks -------------------------------------------------------------------------------


def test_averaging_gains_nothing_against_memory_and_all_without(tmp_path, key, quick_store):
    once, often = averaging(tmp_path, key, 300, 1000, "code")
    assert often == once
    once, often = averaging(tmp_path, key, 50, 1000, "never")
    assert often == 1.0


def test_two_devices_from_one_bundle_share_no_randomness(tmp_path, key, quick_store):
    same, tried, chance = clones(tmp_path, key, 5000)
    low, high = binom.interval(1 - 1e-6, tried, chance)
    assert low <= same <= high


@pytest.mark.parametrize("symbols", [2, 3, 16])
@pytest.mark.slow
def test_the_time_of_a_draw_does_not_tell_the_symbol(symbols):
    # A busy machine may disturb a whole series: three tries, one quiet one is enough.
    for judge in (auc_interval, learned_interval):
        tries = (latencies_python(20_000, symbols=symbols) for _ in range(3))
        assert any(judge(*found)[2] < 0.55 for found in tries)
        # An early exit does tell it, and is noticed.
        tries = (latencies_python(20_000, pick_early) for _ in range(3))
        assert any(judge(*found)[0] > 0.8 for found in tries)


def test_a_classifier_finds_what_a_threshold_cannot(rng):
    symbols = rng.integers(2, size=20_000)
    times = 100 + np.where(symbols, rng.choice([-5, 5], 20_000), 0) + rng.normal(size=20_000)
    assert auc_interval(times, symbols)[1] < 0.52
    assert learned_interval(times, symbols)[0] > 0.9
    assert learned_interval(rng.normal(size=20_000), symbols)[2] < 0.55


# --- The command ---------------------------------------------------------------------------


def test_the_command_makes_a_ledger_once_and_checks_bundles(tmp_path, key, capsys):
    ledger = str(tmp_path / "hall.ledger")
    assert device.main(["new", ledger]) == 0
    assert device.Record.unpack((tmp_path / "hall.ledger").read_bytes()) == device.Record()
    assert device.main(["new", ledger]) == 2
    assert "there is one already" in capsys.readouterr().err
    path = str(write_signed(tmp_path, make_sensor(), key))
    assert device.main(["check", path, key.public_hex]) == 0
    told = f"hall: 3 codes, 2 symbols of mapping {MAPPING_ID}: signed and sound\n"
    assert capsys.readouterr().out == told
    assert device.main(["check", path, "00" * 32]) == 2
    assert device.main([]) == 2
    assert "say `new LEDGER`" in capsys.readouterr().err
