"""The neutral form: what was audited, for one sensor, and nothing else."""

import math
from fractions import Fraction

import numpy as np
import pytest
from support.device_figures import log_of, mild_tables, rounding
from support.devices import make_sensor, random_sensor, weights_of
from support.helpers import make_mapping, refused

from discreet.data.encoders import CategoriesEncoder, CodesEncoder
from discreet.export import neutral
from discreet.export.neutral import (
    NONE,
    Policy,
    bundle_body,
    exact_ratio,
    idle_row,
    micro_log,
    neutral_form,
    number_key,
)
from discreet.export.targets import file_names
from discreet.mapping.mapping import round_rows
from discreet.mapping.parts import TOTAL
from discreet_sensor import runtime as device


def test_thresholds_are_those_of_the_mapping(rng):
    mapping = make_mapping()
    for table, weights in zip(neutral_form(mapping, Policy()), mapping.weights, strict=True):
        assert weights_of(table)[:-1] == weights.tolist()
        assert table.mapping_id == mapping.id


def test_a_bundle_holds_nothing_of_other_sensors_labels_or_data():
    mapping = make_mapping()
    hall, door = (bundle_body(table) for table in neutral_form(mapping, Policy()))
    assert b"hall" in hall and b"door" in door
    for word in ("door", "shut", "fall", "who", "ann", "bob", "day", "npo"):
        assert word.encode() not in hall
    assert b"hall" not in door
    # The mapping's id is the only trace of the rest: other labels, the same bytes otherwise.
    other = make_mapping(private=[mapping.public])
    changed = bundle_body(neutral_form(other, Policy())[0])
    assert hall[:8] + hall[40:-4] == changed[:8] + changed[40:-4]


def test_the_idle_row_stays_between_the_rows(rng):
    for _ in range(200):
        rows = round_rows(rng.dirichlet(np.full(rng.integers(2, 9), 0.3), rng.integers(1, 20)))
        idle = idle_row(tuple(map(tuple, rows.tolist())))
        assert sum(idle) == TOTAL
        assert (np.array(idle) >= rows.min(axis=0)).all()
        assert (np.array(idle) <= rows.max(axis=0)).all()


def test_the_idle_row_does_not_change_what_a_release_tells(rng):
    for table in mild_tables(rng, 50):
        sensor = make_sensor(CodesEncoder(size=len(table)), table)
        weights = [tuple(row) for row in weights_of(sensor)]
        assert exact_ratio(weights) == exact_ratio(weights[:-1]) == sensor.ratio


def test_the_ledger_counts_no_less_than_the_exact_ratio(rng):
    for _ in range(300):
        ratio = Fraction(int(rng.integers(1, TOTAL)), int(rng.integers(1, TOTAL)))
        ratio = max(ratio, 1 / ratio)
        found = micro_log(ratio)
        assert 0 <= found / 1e6 - log_of(ratio) < 1.001e-6
    assert micro_log(Fraction(1)) == 0
    assert micro_log(Fraction(TOTAL, TOTAL - 1)) == 1


def test_rounding_costs_next_to_nothing_and_the_audit_reads_the_integers(rng):
    found = rounding(list(mild_tables(rng, 200)))
    assert found["shipped above real"] <= 1e-6
    assert found["audit below shipped"] <= 0
    assert found["ledger below shipped"] <= 0


def test_where_rounding_does_matter_audit_and_ledger_report_what_ships():
    # Two weights of 1 and 3 units: rounding moves epsilon by far more than a millionth.
    table = np.array([[1.4 / TOTAL, 1 - 1.4 / TOTAL], [2.6 / TOTAL, 1 - 2.6 / TOTAL]])
    found = rounding([table])
    assert found["shipped above real"] == pytest.approx(math.log(3) - math.log(2.6 / 1.4), abs=1e-6)
    assert found["audit below shipped"] <= 0 and found["ledger below shipped"] <= 0


def test_a_certain_symbol_has_no_finite_epsilon():
    sensor = make_sensor(CodesEncoder(size=2), [[1.0, 0.0], [0.5, 0.5]])
    assert sensor.ratio is None and sensor.micro_epsilon == NONE
    # A symbol that is never sent tells nothing.
    silent = make_sensor(CodesEncoder(size=2), [[0.5, 0.5, 0.0], [0.25, 0.75, 0.0]])
    assert silent.ratio == 2


def test_a_budget_is_what_was_written_and_never_more():
    for text, micro in (("0.3", 300_000), ("20", 20_000_000), ("0.0000019", 1), ("1e-9", 0)):
        assert Policy(budget=float(text)).micro_budget == micro


def test_a_budget_needs_something_to_count():
    refused("no budget can be kept", neutral_form, make_mapping(), Policy(budget=1.0))


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"repeat": "always"}, "repeat must be one of code, period, never"),
        ({"period": 0}, "period must be from 1"),
        ({"budget": 0.0}, "budget must be above 0"),
        ({"budget": float("nan")}, "budget must be above 0"),
        ({"budget": 5000.0}, "at most 4294"),
    ],
)
def test_a_policy_that_cannot_be_kept_is_refused(policy, words):
    refused(words, Policy, **policy)


def test_a_category_that_no_device_could_read_is_refused():
    encoder = CategoriesEncoder(categories=["a\0b"])
    refused("zero byte", make_sensor, encoder, [[0.5, 0.5], [0.4, 0.6]])


def test_a_bundle_larger_than_devices_take_is_refused(monkeypatch):
    assert neutral.MAX_BYTES == device.MAX_BUNDLE
    monkeypatch.setattr(neutral, "MAX_BYTES", 100)
    refused("a bundle may have 100. Learn with fewer codes", bundle_body, make_sensor())


def test_every_runtime_reads_the_body_back(rng):
    for _ in range(50):
        sensor = random_sensor(rng)
        table = device.Table(bundle_body(sensor))
        assert table.thresholds == list(sensor.thresholds)
        assert (table.name, table.mapping_id) == (sensor.name, sensor.mapping_id)
        assert (table.epsilon, table.period) == (sensor.micro_epsilon, sensor.policy.period)


def test_keys_are_in_the_order_of_the_numbers(rng):
    numbers = np.concatenate([rng.normal(size=100) * 10.0 ** rng.integers(-300, 300, 100), [0, 1]])
    keys = [number_key(number) for number in sorted(numbers.tolist())]
    assert keys == sorted(keys) and len(set(keys)) == len(keys)
    assert number_key(-0.0) == number_key(0.0)


def test_files_get_names_that_every_system_takes():
    names = ["Hall", "hall", "Küche 1", "  ", "7", "discreet", "a" * 99, "нет"]
    found = file_names(names)
    assert found[:6] == ["hall", "hall_2", "k_che_1", "sensor", "sensor_7", "sensor_discreet"]
    assert len(set(found)) == len(found) and found[7] == "sensor_2"
    many = file_names([chr(0x4E00 + i) for i in range(10_000)])  # within the second
    assert many[0] == "sensor" and many[-1] == "sensor_10000" and len(set(many)) == 10_000
    system = ["Signal", "time", "string", "COM1", "nul", "WiFi"]
    assert file_names(system) == [f"sensor_{each.lower()}" for each in system]
    assert all(each.isascii() and len(each) <= 50 for each in found)
