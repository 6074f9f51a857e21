"""Every source gives readings by sensor, and nothing it says can stop the schedule."""

import io
import json
import os
import ssl
import subprocess
import sys
from pathlib import Path

import paho.mqtt.publish
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.network_samples import additive_mapping
from support.network_sites import PlainSite, wait_for
from support.sites import needs_mosquitto

from discreet.data.encoders import BinsEncoder, CategoriesEncoder
from discreet.errors import InputError
from discreet.export.neutral import Policy, bundle_body, sensor_table
from discreet.mapping.parts import Sensor
from discreet.network.broker import Broker
from discreet_sensor.mqtt_source import MqttSource
from discreet_sensor.outbox import Outbox
from discreet_sensor.parsing import has_field, home_value, parse, problem_of, row_of
from discreet_sensor.running import Releaser
from discreet_sensor.runtime import Table
from discreet_sensor.sources import PASSWORD, Latest, LineSource, open_sources

HALF = (2**31, 2**31)


def table_of(encoder, rows):
    sensor = Sensor(name="hall", encoder=encoder, symbols=2, weights=(HALF,) * rows)
    return Table(bundle_body(sensor_table(additive_mapping().id, sensor, Policy())))


BINS = table_of(BinsEncoder(edges=(0.5, 1.5), missing=True), 4)
WORDS = table_of(CategoriesEncoder(categories=("on", "off", True), missing=True), 5)


@pytest.mark.parametrize(
    ("value", "row"),
    [
        (0, 0), ("1", 1), (" 2.5 ", 2), (True, 1), ("on", 1), ("off", 0), ("Closed", 0),
        (None, 3), ("unavailable", 3), ("", 3), ("nan", 3), (float("nan"), 3),
        ("soup", 4), ([], 4), ({"a": 1}, 4), (1e999, 2), ("9" * 5000, 2),
    ],
)  # fmt: skip
def test_a_number_is_read_from_whatever_says_it(value, row):
    assert row_of(BINS, value) == row


@pytest.mark.parametrize(
    ("value", "row"),
    [("on", 0), ("off", 1), (True, 2), ("True", 2), ("else", 3), (None, 4), ("unknown", 4)],
)
def test_words_are_read_as_they_are_written(value, row):
    assert row_of(WORDS, value) == row


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(anything)
def test_anything_has_a_row(value):
    assert 0 <= row_of(BINS, value) < BINS.rows
    assert 0 <= row_of(WORDS, value) < WORDS.rows


@given(st.text())
def test_any_line_is_parsed(text):
    for value in (home_value(parse(text), ""), home_value(parse(text), "a.b"), parse(text)):
        assert 0 <= row_of(BINS, value) < BINS.rows


def test_payloads_of_home_automation():
    zigbee = parse('{"occupancy": true, "battery": 97, "color": {"hue": 12}}')
    assert home_value(zigbee, "occupancy") is True
    assert home_value(zigbee, "color.hue") == 12
    assert home_value(zigbee, "color.hue.deep") is None
    assert home_value(parse("on"), "") == "on"
    assert home_value(parse('{"state": "21.5", "attributes": {}}'), "") == "21.5"
    assert parse("[" * 100_000) == {}
    assert parse("[" * 60_000) == "[" * 60_000


def open_one(words, sensors=("hall",), hold=0.0):
    return open_sources(words, sensors, interval=1.0, hold=hold)


def test_lines_give_the_last_reading_of_a_round():
    source = LineSource(io.StringIO('1\n2\n{"hall": 3, "other": 4}\n[1]\n\n'), ["hall"])
    wait_for(lambda: source._ended)
    assert not source.finished  # or what came last would never be sent
    assert source.take() == {"hall": "\n"}
    assert source.finished
    assert source.take() == {}
    several = LineSource(io.StringIO('1\n{"hall": 3, "door": null, "x": 1}\n'), ["hall", "door"])
    wait_for(lambda: several._ended)
    assert several.take() == {"hall": 3, "door": None}


def test_a_reading_stands_for_as_long_as_it_is_held():
    source = LineSource(io.StringIO("7\n"), ["hall"], hold=60.0)
    wait_for(lambda: source._ended)
    assert source.take() == source.take() == {"hall": 7}
    assert source.finished


def test_a_reading_does_not_stand_longer_than_it_is_held(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("discreet_sensor.sources.time.monotonic", lambda: clock[0])
    latest = Latest(hold=100.0)
    latest.put("hall", 7)
    for clock[0], wanted in ((60.0, {"hall": 7}), (120.0, {})):
        assert latest.take() == wanted
    latest.put("hall", 8)
    clock[0] = 400.0  # a round may be longer than that: what came in it counts
    assert (latest.take(), latest.take()) == ({"hall": 8}, {})


def test_a_table_is_played_back(tmp_path):
    (tmp_path / "t.csv").write_text("door,hall,x\n1,2,3\n4,5,6\n,,\n")
    source = open_one([f"csv:{tmp_path / 't.csv'}"], ("hall", "door"))
    assert source.take() == {"hall": "2", "door": "1"}
    assert source.take() == {"hall": "5", "door": "4"}
    assert not source.finished
    assert source.take() == {"hall": "", "door": ""}
    assert source.finished
    source.close()


def test_a_file_and_a_command_are_asked_each_round(tmp_path):
    file = tmp_path / "temperature"
    script = tmp_path / "it's.py"
    script.write_text("print(4.5)")
    source = open_one(
        [f"hall=file:{file}", f'door=command:{sys.executable} "{script}"'], ("hall", "door")
    )
    assert source.take() == {"door": 4.5}
    file.write_text("21.5\n")
    assert source.take() == {"hall": 21.5, "door": 4.5}
    assert source.lead == 0.5  # a command may take half of a round, which must not show
    script.write_text("raise SystemExit(1)")
    assert source.take() == {"hall": 21.5}
    source.close()


def test_programs_share_the_time_that_must_not_show(monkeypatch):
    slow = f'command:{sys.executable} -c "import time; time.sleep(600)"'
    source = open_one([f"hall={slow}", f"door={slow}"], ("hall", "door"))
    run, allowed = subprocess.run, []

    def note(*arguments, timeout, **options):
        allowed.append(timeout)
        return run(*arguments, timeout=timeout, **options)

    monkeypatch.setattr(subprocess, "run", note)
    assert source.take() == {}  # both were ended
    assert source.lead == sum(allowed) == 0.5 and len(allowed) == 2
    source.close()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are told by Linux only")
def test_a_path_that_is_no_file_costs_nothing_each_round(tmp_path):
    source = open_one([f"file:{tmp_path}"])
    for _ in range(5):
        assert source.take() == {}
    assert str(tmp_path) not in [os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("banana", "understood"), ("3,5", "3.5, not 3,5"), ("nan", "nan"), (parse("NaN"), "nan"),
        ([], "understood"), (0, ""), ("on", ""), (None, ""), ("unavailable", ""), ("2.5", ""),
    ],
)  # fmt: skip
def test_a_reading_that_counts_as_missing_is_explained(value, words):
    found = problem_of(BINS, value)
    assert (words in found) if words else found == ""
    assert "banana" not in found


def test_a_strange_reading_is_logged_once_until_it_changes(tmp_path, caplog):
    site = PlainSite(tmp_path, additive_mapping(names=["hall"]), 1)
    with Outbox(tmp_path / "state") as outbox:
        releaser = Releaser(site.enrol("hall", ["hall"]), tmp_path / "state", outbox)
        for number, value in enumerate(["banana", "soup", 1, "3,5", "3,6"]):
            releaser.release(number, [{"hall": value}])
        releaser.close()
    told = [line for line in caplog.messages if "counts as missing" in line]
    assert len(told) == 2 and "banana" not in told[0] and "3,5" in told[1]


def test_a_field_that_is_not_there_is_logged_once(caplog):
    source = MqttSource("hall", "mqtt://127.0.0.1:1/z/hall#occupanci", 0.0)
    payload = type("Message", (), {"payload": b'{"occupancy": true}'})
    for _ in range(3):
        source._heard(None, None, payload)
    source.close()
    assert sum("#FIELD" in line for line in caplog.messages) == 1
    assert has_field({"a": {"b": None}}, "a.b") and not has_field({"a": {"b": 1}}, "a.c")


def test_a_program_is_not_given_the_password_of_a_broker(monkeypatch):
    monkeypatch.setenv(PASSWORD, "secret")
    script = f"import os; print(int({PASSWORD!r} in os.environ))"
    source = open_one([f'command:{sys.executable} -c "{script}"'])
    assert source.take() == {"hall": 0}


def test_readings_may_come_over_tls(monkeypatch, tmp_path, caplog):
    source = MqttSource("hall", "mqtts://127.0.0.1:1/z/hall", 0.0)
    assert source._client._ssl_context.verify_mode == ssl.CERT_REQUIRED
    source.close()
    monkeypatch.setenv("DISCREET_MQTT_CA", str(tmp_path / "none.pem"))
    with pytest.raises(InputError, match="DISCREET_MQTT_CA"):
        open_one(["mqtts://127.0.0.1:1/z/hall"])
    MqttSource("hall", "mqtt://192.0.2.1/z/hall", 0.0)
    assert any("in the clear" in line for line in caplog.messages)


@needs_mosquitto
def test_readings_come_from_a_topic(tmp_path):
    with Broker.plain(tmp_path / "broker") as broker:
        place = f"mqtt://127.0.0.1:{broker.port}/zigbee2mqtt/hall"
        source = open_one([f"hall={place}#occupancy", f"door={place}"], ("hall", "door"))
        payload = json.dumps({"occupancy": True, "state": "ON"})
        seen = {}

        def heard():
            paho.mqtt.publish.single(
                "zigbee2mqtt/hall", payload, hostname="127.0.0.1", port=broker.port
            )
            seen.update(source.take())
            return len(seen) == 2

        wait_for(heard)
        source.close()
    assert seen == {"hall": True, "door": "ON"}


@pytest.mark.parametrize(
    "word",
    ["", "file:", "csv:", "command:", "command: ", "command:'", "ftp://x", "hall", "mqtt://h/a/+"],
)
def test_a_word_that_is_no_source_is_refused(word):
    with pytest.raises(InputError):
        open_one([word]).close()


def test_a_source_for_several_sensors_says_which():
    with pytest.raises(InputError, match="Name one"):
        open_one(["file:/dev/null"], ("hall", "door"))


def test_a_table_without_the_column_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("door\n1\n")
    with pytest.raises(InputError, match="no column 'hall'"):
        open_one([f"csv:{tmp_path / 't.csv'}"])
