import json
import subprocess
import sys
import threading
import time
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from paho.mqtt.publish import multiple
from support.commands import AT_ONCE, run
from support.logs import write_recorder
from support.sites import needs_mosquitto

from discreet.errors import InputError
from discreet.importing.recording import Recorder, open_log
from discreet.network.broker import Broker

BEGIN = 1_767_225_600


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: run(monkeypatch, capsys, *arguments)


def home(days=3, every=300):
    """A made home: who is in, whether the kitchen is used, and what its sensors tell of it."""
    rng = np.random.default_rng(0)
    events = []
    for time_of in range(BEGIN, BEGIN + days * 86_400, every):
        ann, cooks = rng.random(2) < 0.5
        power = 100 + 900 * cooks + 50 * ann + rng.normal(0, 60)
        events += [
            (time_of + 1, "person.ann", "home" if ann else "not_home"),
            (time_of + 2, "input_boolean.cooking", "on" if cooks else "off"),
            (time_of + 3, "sensor.power", f"{power:.1f}"),
            (time_of + 4, "binary_sensor.hall", "on" if rng.random() < 0.2 + 0.6 * ann else "off"),
        ]
    return events


@pytest.mark.slow
def test_a_recorder_becomes_a_table_that_can_be_learned_from(command, tmp_path):
    write_recorder(tmp_path / "ha.db", home())
    code, printed, error = command(
        "import", "ha.db", "--every", "5m", "--label", "person.ann=who",
        "--label", "input_boolean.cooking=cooking", "--timezone", "Europe/Berlin",
        "--out", "home.csv",
    )  # fmt: skip
    assert (code, error) == (0, "")
    assert "3456 events of 4 items" in printed and "wrote home.csv: 864 rows" in printed
    assert printed.splitlines()[-1].startswith("next: discreet check home.csv")
    table = pd.read_csv("home.csv")
    assert list(table) == ["time", "who", "cooking", "sensor.power", "binary_sensor.hall"]
    assert table["time"].iloc[0] == "2026-01-01T01:05:00+01:00"
    facts = ("--public", "cooking", "--private", "who")
    code, printed, _ = command("check", "home.csv", *facts, "--json")
    found = json.loads(printed)
    assert (code, found["problems"]) == (0, [])
    assert {each["column"]: each["role"] for each in found["roles"]}["time"] == "clock"
    assert command("learn", "home.csv", *facts, *AT_ONCE, "--out", "m.json", "--quiet")[0] == 0


def test_rows_without_a_label_are_dropped_and_counted(command, tmp_path):
    events = [
        (BEGIN + 30, "sensor.power", "5"),
        (BEGIN + 150, "person.ann", "home"),
        (BEGIN + 290, "person.ann", "unavailable"),
    ]
    write_recorder(tmp_path / "ha.db", events)
    code, printed, _ = command("import", "ha.db", "--label", "person.ann", "--out", "t.parquet")
    assert code == 0 and "3 rows without a label were dropped" in printed
    table = pd.read_parquet("t.parquet")
    assert table["time"].tolist() == ["2026-01-01T00:03:00+00:00", "2026-01-01T00:04:00+00:00"]
    assert table["sensor.power"].tolist() == [5.0, 5.0]
    label = ("--label", "person.ann")
    found = json.loads(command("import", "ha.db", *label, "--out", "t.csv", "--json")[1])
    assert (found["rows"], found["dropped"]) == (2, 3)


def test_lines_without_an_item_or_a_time_are_left_out_and_counted(command, tmp_path):
    lines = ["2026-01-01,a,1", "1/31/2026,a,2", ",a,3", "2026-01-01,,4", ",,", "2026-01-02,a,5"]
    (tmp_path / "log.csv").write_text("\n".join(["time,item,value", *lines]))
    code, printed, _ = command("import", "log.csv", "--every", "1d", "--out", "t.csv")
    assert code == 0 and "3 lines without an item or a time were left out" in printed
    assert pd.read_csv("t.csv")["a"].tolist() == [1, 5]
    code, printed, words = command("import", "log.csv", "--every", "1d", "--out", "t.csv", "--json")
    assert code == 0 and "wrote t.csv" in words
    assert json.loads(printed) == {
        "out": "t.csv", "rows": 2, "dropped": 0, "columns": ["time", "a"], "events": 2, "gaps": 0,
        "unread": 3,
    }  # fmt: skip


def test_a_label_that_is_a_pattern_is_renamed(command, tmp_path):
    write_recorder(tmp_path / "ha.db", home(days=1))
    label = ("--label", "person.*=who")
    assert command("import", "ha.db", *label, "--out", "t.csv")[0] == 0
    assert "who" in pd.read_csv("t.csv") and "person.ann" not in pd.read_csv("t.csv")
    write_recorder(tmp_path / "two.db", [*home(days=1), (BEGIN, "person.ben", "home")])
    code, _, error = command("import", "two.db", *label, "--out", "u.csv")
    assert code == 2 and "two columns would have one name" in error


def test_items_times_counts_and_changes_are_chosen(command, tmp_path):
    write_recorder(tmp_path / "ha.db", home())
    code, _, _ = command(
        "import", "ha.db", "--items", "sensor.*", "--count", "binary_sensor.hall",
        "--changes", "person.ann", "--every", "10m", "--from", "2026-01-02", "--to",
        "2026-01-02T02:00", "--out", "t.tsv", "--quiet",
    )  # fmt: skip
    table = pd.read_csv("t.tsv", sep="\t")
    assert code == 0 and len(table) == 12
    assert set(table) == {"time", "sensor.power", "binary_sensor.hall", "person.ann"}
    assert table["binary_sensor.hall"].eq(2).all()
    assert set(table["person.ann"]) == {0, 1}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("none.db --out t.csv", "none.db: no such file"),
        ("ha.db --out t.json", "--out must end in one of .csv"),
        ("ha.db --out ha.db", "--out must end in one of .csv"),
        ("ha.db --out t.csv --every 0s", "--every must be a time above 0"),
        ("ha.db --out t.csv --timezone Mars/Base", "--timezone must be a time zone"),
        ("ha.db --out t.csv --timezone ../../etc/passwd", "--timezone must be a time zone"),
        ("ha.db --out t.csv --label person.bob", "the log has no item 'person.bob'"),
        ("ha.db --out t.csv --label person.ann=time", "two columns would have one name"),
        ("ha.db --out t.csv --from noon", "--from must be a time such as"),
        ("ha.db --out t.csv --from 2030-01-01", "no events from --from to --to"),
        ("ha.db --out nowhere/t.csv", "there is no directory"),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(command, tmp_path, options, words):
    write_recorder(tmp_path / "ha.db", home(days=1))
    code, printed, error = command("import", *options.split())
    assert (code, printed) == (2, "") and words in error and error.count("\n") == 1
    assert [each.name for each in tmp_path.iterdir()] == ["ha.db"]


# --- record ------------------------------------------------------------------------------------


def publish(port, *messages):
    multiple([(topic, text, 1, False) for topic, text in messages], port=port)


@needs_mosquitto
def test_a_live_broker_is_recorded_and_imported(command, tmp_path):
    with Broker.plain(tmp_path / "broker") as broker:
        address = f"mqtt://127.0.0.1:{broker.port}/zigbee2mqtt/#"
        stop, written = threading.Event(), tmp_path / "home.jsonl"
        with open_log(written) as log:
            recorder = Recorder(address, log)
            work = threading.Thread(target=recorder.run, args=(stop, 240))
            work.start()
            end = time.monotonic() + 120
            while recorder.recorded < 3 and time.monotonic() < end:  # until it has subscribed
                publish(broker.port, ("zigbee2mqtt/hall", '{"occupancy": true}'), ("else", "1"))
                time.sleep(0.1)
            publish(broker.port, ("zigbee2mqtt/big", "x" * 70_000), ("zigbee2mqtt/end", "7"))
            while "zigbee2mqtt/end" not in written.read_text() and time.monotonic() < end:
                time.sleep(0.05)
            stop.set()
            work.join(60)
    assert not work.is_alive()
    assert written.stat().st_mode & 0o077 == 0
    lines = [json.loads(line) for line in written.read_text().splitlines()]
    start, *messages, stop_mark = lines
    assert (start["record"], stop_mark["record"]) == ("start", "stop")
    assert len(messages) == recorder.recorded >= 4
    assert {each["topic"] for each in messages} == {"zigbee2mqtt/hall", "zigbee2mqtt/end"}
    assert command("import", "home.jsonl", "--every", "1s", "--out", "t.csv")[0] == 0
    table = pd.read_csv("t.csv")
    assert table["zigbee2mqtt/hall#occupancy"].dropna().eq("on").all()
    assert table["zigbee2mqtt/end"].iloc[-1] == 7


@needs_mosquitto
def test_the_command_records_for_a_while(command, tmp_path):
    with Broker.plain(tmp_path / "broker") as broker:
        long = ("a/c", "x" * 70_000, 1, True)
        multiple([("a/b", "1", 1, True), long], port=broker.port)  # retained
        (tmp_path / "log.jsonl").write_text('{"cut')
        address = f"mqtt://127.0.0.1:{broker.port}"
        code, printed, _ = command("record", address, "--for", "3s", "--out", "log.jsonl")
    said = "1 messages recorded, 1 left out that are longer than 65536 bytes"
    assert code == 0 and printed.startswith(f"{said}\nnext: discreet import log.jsonl")
    cut, _, line, _ = (tmp_path / "log.jsonl").read_text().splitlines()
    assert cut == '{"cut' and json.loads(line)["retain"] is True


@needs_mosquitto
def test_a_lost_connection_is_marked_when_it_is_back(tmp_path):
    stop, file = threading.Event(), tmp_path / "log.jsonl"

    def marks():
        return [json.loads(line).get("record") for line in file.read_text().splitlines()]

    def wait_for(wanted):
        end = time.monotonic() + 120
        while marks() != wanted and time.monotonic() < end:
            time.sleep(0.05)
        assert marks() == wanted

    with open_log(file) as log:
        with Broker.plain(tmp_path / "broker") as broker:
            recorder = Recorder(f"mqtt://127.0.0.1:{broker.port}/#", log)
            work = threading.Thread(target=recorder.run, args=(stop, 240))
            work.start()
            wait_for(["start"])
        with Broker.plain(tmp_path / "again", port=broker.port):
            wait_for(["start", "start"])
            stop.set()
            work.join(60)
    assert marks() == ["start", "start", "stop"]


@pytest.mark.parametrize(
    "address", ["http://host/#", "mqtt://", "mqtt://host/topic#field", "mqtt://host:x/#"]
)
def test_an_address_that_is_none_is_refused(address, tmp_path):
    with open_log(tmp_path / "log") as log, pytest.raises(InputError, match="is no address"):
        Recorder(address, log)


def test_a_broker_that_does_not_answer_is_named(command, tmp_path):
    from support.ports import free_port

    address = f"mqtt://127.0.0.1:{free_port()}/#"
    code, printed, error = command("record", address, "--out", "log.jsonl")
    assert (code, printed) == (2, "") and "does not answer" in error


def test_a_log_comes_by_standard_input(tmp_path):
    lines = [
        {"time": BEGIN + k, "topic": "hall", "payload": {"occupancy": k % 2}} for k in range(300)
    ]
    text = "\n".join(map(json.dumps, lines))
    done = subprocess.run(
        [sys.executable, "-m", "discreet", "import", "-", "--out", "home.csv"],
        input=text, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert pd.read_csv(tmp_path / "home.csv")["hall#occupancy"].tolist() == [0, 0, 0, 0, 0, 1]


def test_a_german_sheet_over_the_end_of_summer_time(command, tmp_path):
    zone, lines = ZoneInfo("Europe/Berlin"), ["Zeit;Gerät;Wert"]
    for k in range(400):
        when = datetime.fromtimestamp(1_792_872_000 + 97 * k, zone)  # 24 October 2026, 22:00
        name, value = (
            ("Küche", f"{20 + k % 7},5"), ("Tür", ("offen", "unavailable")[k // 3 % 2]),
            ("Wer", ("Jürgen", "Anna")[k % 2]),
        )[k % 3]  # fmt: skip
        lines.append(f"{when:%d.%m.%Y %H:%M:%S};{name};{value}")
    (tmp_path / "log.csv").write_text("\r\n".join(lines), encoding="cp1252")
    columns = ("--time-column", "Zeit", "--item", "Gerät", "--value", "Wert")
    code, _, error = command(
        "import", "log.csv", *columns, "--timezone", "Europe/Berlin", "--every", "5m",
        "--label", "Wer", "--out", "home.csv",
    )  # fmt: skip
    assert (code, error) == (0, ""), error
    table = pd.read_csv("home.csv")
    moments = pd.to_datetime(table["time"], utc=True)
    assert (moments.diff().dropna() == pd.Timedelta("5min")).all()
    assert table["time"].str[:16].duplicated().sum() == 12  # the hour that occurs twice
    assert table["Küche"].between(20.5, 26.5).all() and set(table["Wer"]) == {"Jürgen", "Anna"}
    assert set(table["Tür"].dropna()) == {"offen"} and table["Tür"].isna().any()


def test_what_is_often_missing_is_said_in_one_line(command, tmp_path):
    events = [(BEGIN + 60 * k, f"sensor.s{k % 15}", "unavailable") for k in range(300)]
    write_recorder(tmp_path / "ha.db", [*events, (BEGIN + 60, "light.a", "on")])
    code, printed, _ = command("import", "ha.db", "--out", "home.csv")
    (line,) = [each for each in printed.splitlines() if "missing in most rows" in each]
    assert code == 0 and line.count("sensor.s") == 12 and line.endswith("older than --hold")
