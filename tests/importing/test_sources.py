"""Every kind of log, as those who write it do; real servers where they are installed."""

import gzip
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.databases import PostgresServer, why_no_postgres
from support.helpers import refused
from support.logs import NEW_SCHEMA, OLD_SCHEMA, fill_recorder, utc_text, write_recorder
from support.ports import free_port

from discreet.importing import sources, text_logs
from discreet.importing.rounds import NOTHING, Rounds, make_table
from discreet.importing.sources import read_log

BEGIN = 1_767_225_600  # the first of January 2026
EVENTS = [
    (BEGIN + 5.5, "sensor.power", "12.5"),
    (BEGIN + 20, "person.ann", "home"),
    (BEGIN + 61, "sensor.power", "unavailable"),
    (BEGIN + 100, "person.ann", "not_home"),
]
RUNS = [(BEGIN, BEGIN + 70), (BEGIN + 90, None)]


def listed(events):
    """Events as they were told; None where there was no value."""
    values = [*events.values, None]
    return sorted(
        (float(time), events.items[item], None if value == NOTHING else values[value])
        for time, item, value in zip(events.times, events.item, events.value, strict=True)
    )


WANTED = sorted((float(t), name, None if v == "unavailable" else v) for t, name, v in EVENTS)


# --- Home Assistant --------------------------------------------------------------------------


@pytest.mark.parametrize("old", [False, True])
def test_the_recorder_is_read_in_either_schema(tmp_path, old):
    events = read_log(str(write_recorder(tmp_path / "ha.db", EVENTS, RUNS, old=old)), "UTC")
    assert listed(events) == WANTED
    assert events.gaps == [(BEGIN + 70, BEGIN + 90)]


def test_after_a_crash_what_follows_the_last_state_is_missing(tmp_path):
    runs = [(BEGIN, None), (BEGIN + 90, BEGIN + 95), (BEGIN + 95.5, None), (BEGIN + 99, None)]
    events = read_log(str(write_recorder(tmp_path / "ha.db", EVENTS, runs)), "UTC")
    crashes = [(BEGIN + 61, BEGIN + 90), (BEGIN + 95.5, BEGIN + 99)]
    assert events.gaps == [crashes[0], (BEGIN + 95, BEGIN + 95.5), crashes[1]]


def test_a_power_cut_of_hours_is_not_filled_with_what_was_seen_before(tmp_path):
    cut = [(BEGIN, None), (BEGIN + 36_000, None)]
    states = [(BEGIN + 60, "person.ann", "home"), (BEGIN + 36_060, "person.ann", "not_home")]
    events = read_log(str(write_recorder(tmp_path / "ha.db", states, cut)), "UTC")
    table = make_table(events, Rounds(3_600.0, 86_400.0, forever=["person.ann"]))
    assert table["person.ann"].tolist()[-1] == "not_home"
    assert table["person.ann"][:-1].isna().all() and len(table) == 11


@pytest.mark.parametrize("old", [False, True])
def test_statistics_go_back_further_than_states(tmp_path, old):
    hours = [("sensor.power", BEGIN - 7200, 3.5), ("sensor.power", BEGIN, 99.0)]
    file = tmp_path / "ha.db"
    write_recorder(file, EVENTS, RUNS)
    with sqlite3.connect(file) as base:
        if old:
            base.execute("ALTER TABLE statistics RENAME COLUMN start_ts TO start")
            hours = [(name, utc_text(begin), mean) for name, begin, mean in hours]
        base.execute("INSERT INTO statistics_meta VALUES (7, 'sensor.power')")
        for _, begin, mean in hours:
            row = (7, begin, mean)
            names = f"metadata_id, {'start' if old else 'start_ts'}, mean"
            base.execute(f"INSERT INTO statistics ({names}) VALUES (?, ?, ?)", row)
    base.close()
    assert listed(read_log(str(file), "UTC")) == WANTED
    with_hours = listed(read_log(str(file), "UTC", statistics=True))
    assert with_hours == sorted([*WANTED, (BEGIN - 3600.0, "sensor.power", "3.5")])


def test_a_database_that_is_being_written_is_read_and_not_changed(tmp_path):
    file = write_recorder(tmp_path / "ha.db", EVENTS, RUNS)
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("UPDATE states SET state = '0'")
    before = file.read_bytes()
    assert listed(read_log(str(file), "UTC")) == WANTED
    assert file.read_bytes() == before
    writer.execute("ROLLBACK")
    writer.close()


def write_ahead(file):
    """Return a writer of a database whose last state is in the file beside it only."""
    write_recorder(file, EVENTS[:-1], RUNS)
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("PRAGMA wal_autocheckpoint = 0")
    writer.execute(
        "INSERT INTO states (metadata_id, state, last_updated_ts) "
        f"SELECT metadata_id, 'not_home', {BEGIN + 100} FROM states_meta WHERE entity_id LIKE 'p%'"
    )
    return writer


@pytest.mark.parametrize("state", ["at rest", "in use", "after a crash"])
def test_nothing_is_left_beside_a_database(tmp_path, state):
    file, writer = tmp_path / "home" / "ha.db", write_ahead(tmp_path / "ha.db")
    file.parent.mkdir()
    if state == "at rest":
        writer.close()
    for end in ["", "-wal"] if state == "after a crash" else [""]:
        shutil.copyfile(f"{tmp_path / 'ha.db'}{end}", f"{file}{end}")
    file = tmp_path / "ha.db" if state == "in use" else file
    before = {each: each.read_bytes() for each in file.parent.iterdir() if each.is_file()}
    assert listed(read_log(str(file), "UTC")) == WANTED
    after = {each: each.read_bytes() for each in file.parent.iterdir() if each.is_file()}
    assert after.keys() == before.keys() and after[file] == before[file]
    writer.close()


@pytest.mark.parametrize("state", ["in use", "after a crash"])
def test_what_is_written_ahead_is_read_through_a_link(tmp_path, state):
    file, link, writer = tmp_path / "ha.db", tmp_path / "link.db", write_ahead(tmp_path / "ha.db")
    if state == "after a crash":
        file = tmp_path / "crashed.db"
        for end in ["", "-wal"]:
            shutil.copyfile(f"{tmp_path / 'ha.db'}{end}", f"{file}{end}")
    link.symlink_to(file)
    assert listed(read_log(str(link), "UTC")) == WANTED
    writer.close()


def test_a_database_that_begins_to_be_written_meanwhile_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "ha.db"
    write_ahead(file).close()
    started = []

    def start_writing(*_):
        writer = sqlite3.connect(file, isolation_level=None)
        writer.execute("UPDATE states SET state = '0'")
        started.append(writer)

    monkeypatch.setattr(sources, "_recorder", start_writing)
    refused("began to be written while it was read", read_log, str(file), "UTC")
    started[0].close()


def test_a_database_that_grows_meanwhile_is_read_as_it_was_at_one_moment(tmp_path):
    file, ended = write_recorder(tmp_path / "ha.db", EVENTS, RUNS), threading.Event()
    count = "SELECT COUNT(*) FROM states"
    writer = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("SELECT * FROM states").fetchall()  # now it is in use

    def grow():
        while not ended.is_set():
            with writer:  # two at a time, or none
                writer.execute("BEGIN")
                for _ in range(2):
                    writer.execute("INSERT INTO states (metadata_id, state, last_updated_ts) "
                                   f"VALUES (1, '7', {time.time()})")  # fmt: skip
        writer.close()

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        found = [len(read_log(str(file), "UTC").times) for _ in range(20)]
    finally:
        ended.set()
        thread.join()
    assert found == sorted(found) and found[-1] > len(EVENTS)
    assert all(each % 2 == 0 for each in found)
    with sqlite3.connect(file) as base:
        assert base.execute(count).fetchone()[0] >= found[-1]
    base.close()


OPENHAB = (
    "CREATE TABLE items (itemid INTEGER PRIMARY KEY, itemname VARCHAR(99))",
    "CREATE TABLE item0001 (time TIMESTAMP PRIMARY KEY, value DOUBLE PRECISION)",
    "INSERT INTO items VALUES (1, 'Hall')",
    "INSERT INTO item0001 VALUES ('2026-01-01 00:00:05', 21.5)",
)


@pytest.mark.slow
@pytest.mark.skipif(why_no_postgres() is not None, reason=str(why_no_postgres()))
@pytest.mark.parametrize("old", [False, True])
def test_the_recorder_in_postgresql(old):
    import psycopg

    with PostgresServer() as server:
        with psycopg.connect(server.url, autocommit=True) as base:
            for line in (OLD_SCHEMA if old else NEW_SCHEMA).split(";"):
                if line.strip():
                    base.execute(line.replace("CHAR(0)", "CHAR(1)"))
            number = iter(range(1, 1000))

            def execute(query, row):
                table = query.split()[2]
                if table in ("states", "recorder_runs"):
                    key = "state_id" if table == "states" else "run_id"
                    query = query.replace("(", f"({key}, ", 1).replace("VALUES (", "VALUES (%s, ")
                    row = (next(number), *row)
                base.execute(query, row)

            fill_recorder(execute, EVENTS, RUNS, old=old, mark="%s")
        events = read_log(server.url, "UTC")
        assert listed(events) == WANTED
        assert events.gaps == [(BEGIN + 70, BEGIN + 90)]
        refused("cannot be read", read_log, server.url.replace("/postgres", "/none"), "UTC")
        with psycopg.connect(server.url, autocommit=True) as base:
            base.execute("DROP TABLE states")
            for line in OPENHAB:
                base.execute(line)
        assert listed(read_log(server.url, "UTC")) == [(BEGIN + 5.0, "Hall", "21.5")]
        local = read_log(server.url, "Europe/Berlin")
        assert listed(local) == [(BEGIN + 5.0 - 3600.0, "Hall", "21.5")]


class MariaServer:
    """A MariaDB server of our own, on a free loopback port and in a folder that goes away."""

    def __enter__(self):
        self.folder, self.port = Path(tempfile.mkdtemp(prefix="discreet-my-")), free_port()
        user = "mysql" if os.geteuid() == 0 else None
        if user:
            shutil.chown(self.folder, user)
        data, socket = self.folder / "data", self.folder / "my.sock"
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--skip-test-db",
             "--auth-root-authentication-method=normal"],
            user=user, cwd=self.folder, check=True, capture_output=True,
        )  # fmt: skip
        self.process = subprocess.Popen(
            [shutil.which("mariadbd") or "mariadbd", "--no-defaults", f"--datadir={data}",
             f"--port={self.port}", "--bind-address=127.0.0.1", f"--socket={socket}",
             f"--pid-file={self.folder / 'pid'}"],
            user=user, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        return self

    def connect(self):
        import pymysql

        end = time.monotonic() + 240
        while True:
            try:
                return pymysql.connect(
                    host="127.0.0.1", port=self.port, user="root", autocommit=True
                )
            except pymysql.OperationalError:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise
                time.sleep(0.1)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.skipif(
    not (shutil.which("mariadbd") and shutil.which("mariadb-install-db")),
    reason="MariaDB is not installed (Debian: apt install mariadb-server)",
)
@pytest.mark.parametrize("old", [False, True])
def test_the_recorder_in_mariadb(old):
    with MariaServer() as server:
        base = server.connect()
        with base.cursor() as cursor:
            cursor.execute("CREATE DATABASE ha")
            cursor.execute("USE ha")
            for line in (OLD_SCHEMA if old else NEW_SCHEMA).split(";"):
                if line.strip():
                    text = line.replace('"end"', "`end`").replace("TIMESTAMP", "DATETIME(6)")
                    cursor.execute(text.replace("PRIMARY KEY", "PRIMARY KEY AUTO_INCREMENT"))
            fill_recorder(cursor.execute, EVENTS, RUNS, old=old, mark="%s", end="`end`")
            cursor.execute("CREATE DATABASE oh")
            cursor.execute("USE oh")
            cursor.execute("SET time_zone = '+01:00'")  # the server converts
            for line in OPENHAB:
                named = line.replace(" items ", " Items ").replace("00:00:05", "01:00:05")
                cursor.execute(named)
        base.close()
        openhab = read_log(f"mysql://root@127.0.0.1:{server.port}/oh", "Europe/Berlin")
        assert listed(openhab) == [(BEGIN + 5.0, "Hall", "21.5")]
        events = read_log(f"mysql://root@127.0.0.1:{server.port}/ha", "UTC")
        assert listed(events) == WANTED
        assert events.gaps == [(BEGIN + 70, BEGIN + 90)]


# --- openHAB ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "table"),
    [("items", "item0001"), ("Items", "Item0001"), ("items", "Hall_0001"), ("ITEMS", "Hall")],
)
def test_openhab_has_a_table_per_item(tmp_path, items, table):
    with sqlite3.connect(tmp_path / "oh.db") as base:
        base.executescript(
            f'CREATE TABLE "{items}" (ItemId INTEGER PRIMARY KEY, ItemName TEXT);'
            f'CREATE TABLE "{table}" (time TIMESTAMP, value DOUBLE);'
            f"INSERT INTO \"{items}\" VALUES (1, 'Hall');"
            f"INSERT INTO \"{table}\" VALUES ('2026-01-01 00:00:05', 21.5);"
        )
    base.close()
    assert listed(read_log(str(tmp_path / "oh.db"), "UTC")) == [(BEGIN + 5.0, "Hall", "21.5")]
    local = read_log(str(tmp_path / "oh.db"), "Europe/Berlin")
    assert listed(local) == [(BEGIN + 5.0 - 3600.0, "Hall", "21.5")]


# --- Text ------------------------------------------------------------------------------------

CSV = {
    "history": "entity_id,state,last_changed\nsensor.power,12,2026-01-01T00:00:05.000Z\n",
    "logbook": "when,name,entity_id,state\n2026-01-01T01:00:05+01:00,P,sensor.power,12\n",
    "openhab": "time;itemname;value\n2026-01-01 01:00:05;sensor.power;12\n",
    "seconds": f"item\ttimestamp\tvalue\nsensor.power\t{BEGIN + 5}\t12\n",
}


@pytest.mark.parametrize("name", CSV)
def test_long_csv_is_known_by_its_columns(tmp_path, name):
    (tmp_path / "log.csv").write_text(CSV[name])
    found = listed(read_log(str(tmp_path / "log.csv"), "Europe/Berlin"))
    assert found == [(BEGIN + 5.0, "sensor.power", "12")]


def test_columns_of_other_names_are_named(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("a,b,c\n12,x,2026-01-01\n")
    refused("no column is called last_updated, .* --time-column", read_log, str(file), "UTC")
    found = read_log(str(file), "UTC", time="c", item="b", value="a")
    assert listed(found) == [(float(BEGIN), "x", "12")]
    refused("which is no time", read_log, str(file), "UTC", time="b", item="c", value="a")


@pytest.mark.parametrize(
    "far", ["9999-12-31T23:59:59Z", "9999-12-31 23:59:59", "0001-01-01", "1e30"]
)
def test_a_time_that_no_clock_shows_is_none(tmp_path, far):
    file = tmp_path / "log.csv"
    file.write_text(f"time,item,value\n{far},a,1\n")
    refused("which is no time", read_log, str(file), "Europe/Berlin")


def test_the_hour_that_occurs_twice_may_be_read_in_two_parts(tmp_path):
    moments = 1_792_886_400 + 0.06 * np.arange(70_000)  # 25 October 2026, 2:00 in Berlin
    local = pd.to_datetime(moments, unit="s", utc=True).tz_convert("Europe/Berlin")
    times = local.tz_localize(None).strftime("%Y-%m-%dT%H:%M:%S.%f")
    pd.DataFrame({"time": times, "item": "a", "value": 1}).to_csv(tmp_path / "l.csv", index=False)
    events = read_log(str(tmp_path / "l.csv"), "Europe/Berlin")
    assert np.abs(events.times - moments).max() < 0.001


def test_a_file_of_one_item_is_called_like_it(tmp_path):
    (tmp_path / "Hall.csv").write_text("time,value\n2026-01-01,1\n2026-01-02,\n")
    found = listed(read_log(str(tmp_path / "Hall.csv"), "UTC"))
    assert found == [(float(BEGIN), "Hall", "1"), (BEGIN + 86_400.0, "Hall", None)]


def test_mqtt_captures_give_an_item_per_field(tmp_path):
    lines = [
        {"time": BEGIN, "topic": "z/hall", "payload": '{"occupancy": true, "lux": 7, "x": [1]}'},
        {"tst": "2026-01-01T00:00:01Z", "topic": "z/door", "payload": {"contact": False}},
        {"time": BEGIN + 2, "topic": "plain", "payload": "4.5"},
        {"time": BEGIN + 3, "topic": "z/hall", "payload": "{cut"},
        {"topic": "no time", "payload": "1"},
        ["no", "message"],
    ]
    text = "\n".join(map(json.dumps, lines)) + '\n{"time": 17, "topic"'
    (tmp_path / "log.jsonl").write_text(text)
    assert listed(read_log(str(tmp_path / "log.jsonl"), "UTC")) == [
        (float(BEGIN), "z/hall#lux", "7"),
        (float(BEGIN), "z/hall#occupancy", "on"),
        (BEGIN + 1.0, "z/door#contact", "off"),
        (BEGIN + 2.0, "plain", "4.5"),
        (BEGIN + 3.0, "z/hall", "{cut"),
    ]


def captured(tmp_path, *messages):
    """Events of messages: seconds, topic, payload, and whatever else a line says."""
    lines = [{"time": BEGIN + t, "topic": topic, "payload": payload} | dict(*more)
             for t, topic, payload, *more in messages]  # fmt: skip
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return read_log(str(tmp_path / "log.jsonl"), "UTC")


def test_fields_inside_others_are_items_too(tmp_path):
    deep = {"a": {"b": {"c": {"d": {"e": 1}}}}}
    events = captured(tmp_path, (0, "z/lamp", {"color": {"x": 0.3, "xy": [1]}, "on": True} | deep),
                      (1, "z/lamp", {"a": {"b": {"c": {"d": 2}}}}))  # fmt: skip
    assert events.items == ["z/lamp#color.x", "z/lamp#on", "z/lamp#a.b.c.d"]


def test_a_field_that_is_null_has_no_value_any_more(tmp_path):
    on = {"occupancy": True, "color": {"x": 0.3}, "update": None}
    events = captured(tmp_path, (0, "z/hall", on), (10, "z/hall", {"occupancy": None}),
                      (20, "z/hall", json.dumps({"color": None})))  # fmt: skip
    assert events.items == ["z/hall#occupancy", "z/hall#color.x"]  # none that is never more
    assert listed(events)[2:] == [
        (BEGIN + 10.0, "z/hall#occupancy", None), (BEGIN + 20.0, "z/hall#color.x", None),
    ]  # fmt: skip


@pytest.mark.parametrize("offline", ["offline", '{"state": "offline"}'])
def test_a_device_that_is_offline_has_no_values(tmp_path, offline):
    events = captured(tmp_path, (0, "z/hall", {"occupancy": True}), (0, "z/hall2", {"lux": 7}),
                      (0, "z/hall/availability", "online"), (600, "z/hall/availability", offline),
                      (1200, "z/hall2", {"lux": 8}))  # fmt: skip
    table = make_table(events, Rounds(600.0, 86_400.0))
    assert table["z/hall#occupancy"].astype(object).fillna("-").tolist() == ["on", "-", "-"]
    assert table["z/hall2#lux"].tolist() == [7.0, 7.0, 8.0]


@pytest.mark.parametrize("mark", [True, 1])
def test_a_retained_message_is_a_state_and_no_event(tmp_path, mark):
    retained = {"retain": mark}
    events = captured(tmp_path, (0, "bell", "ring", retained), (0, "lamp", "on", retained),
                      (60, "bell", "ring"), (60, "lamp", "off"), (120, "lamp", "on", retained),
                      (180, "lamp", "off", {"retain": 0}))  # fmt: skip
    table = make_table(events, Rounds(60.0, 600.0, count=["bell"], changes=["lamp"]))
    assert table["bell"].tolist() == [0, 1, 0, 0]
    assert table["lamp"].tolist() == [0, 1, 0, 1]
    held = make_table(events.within(None, BEGIN + 120), Rounds(60.0, 600.0))
    assert held["lamp"].tolist() == ["on", "off", "on"]


def test_while_a_capture_was_stopped_nothing_is_known(tmp_path):
    starts = ((0, "start"), (900, "stop"), (90_000, "start"), (99_000, "start"))
    marks = [(time, None, None, {"record": mark}) for time, mark in starts]
    messages = [(10, "lamp", "on"), (90_010, "lamp", "off"), (99_010, "lamp", "on")]
    events = captured(tmp_path, *sorted([*marks, *messages], key=lambda each: each[0]))
    lost = (BEGIN + 90_010, BEGIN + 99_000)  # killed, or without a connection
    assert events.gaps == [(BEGIN + 900, BEGIN + 90_000), lost]
    table = make_table(events, Rounds(600.0, 10**6, forever=["lamp"]))
    assert np.flatnonzero(table["lamp"].notna()).tolist() == [0, len(table) - 1]


def test_what_the_api_of_home_assistant_answers(tmp_path):
    moments = [f"2026-01-01T00:00:{k:02}+00:00" for k in range(4)]
    history = [
        [{"entity_id": "sensor.a", "state": "1", "last_changed": moments[0]},
         {"state": "unavailable", "last_changed": moments[1]}],
        [{"entity_id": "sensor.b", "state": "on", "last_changed": moments[2]}, "odd", {"state": 2}],
    ]  # fmt: skip
    file = tmp_path / "history.json"
    file.write_text(json.dumps(history))
    wanted = [(0.0, "sensor.a", "1"), (1.0, "sensor.a", None), (2.0, "sensor.b", "on")]
    wanted = [(BEGIN + time, item, value) for time, item, value in wanted]
    assert listed(read_log(str(file), "UTC")) == wanted
    book = [{"when": moments[3], "name": "Flur", "state": "off", "entity_id": "light.flur"}]
    file.write_text(json.dumps(book))
    assert listed(read_log(str(file), "UTC")) == [(BEGIN + 3.0, "light.flur", "off")]
    for text in ("[]", "[1, [2]]", "[" * 100_000, "[{}"):
        file.write_text(text)
        refused("holds no states", read_log, str(file), "UTC")


def test_a_list_that_unpacks_to_more_than_is_read_whole_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_logs, "_MOST_LISTED", 1 << 20)
    file = tmp_path / "history.json.gz"
    file.write_bytes(gzip.compress(b"[" + b" " * (2 << 20) + b"]"))
    refused("of more than 1 MiB. Save fewer days", read_log, str(file), "UTC")


# --- What is refused -------------------------------------------------------------------------


def test_what_is_no_log_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / "other.db") as base:
        base.execute("CREATE TABLE t (a)")
    base.close()
    refused("neither Home Assistant's recorder .* there are: t", read_log,
            str(tmp_path / "other.db"), "UTC")  # fmt: skip
    for columns, words in (
        ("state, metadata_id, last_updated_ts", "has no table 'states_meta'"),
        ("id, name", "'states' has no column state"),
        ("state, entity_id", "'states' has no column last_updated_ts or last_updated"),
    ):
        file = tmp_path / f"{len(words)}.db"
        with sqlite3.connect(file) as base:
            base.execute(f"CREATE TABLE states ({columns})")
        base.close()
        refused(words, read_log, str(file), "UTC")
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"SQLite format 3\0" + b"x" * 2000)
    refused("broken.db: cannot be read", read_log, str(broken), "UTC")
    refused("none.db: no such file", read_log, str(tmp_path / "none.db"), "UTC")
    refused("a log at http:// cannot be read", read_log, "http://ha/", "UTC")


@pytest.mark.parametrize(
    "text", ['[{"state": 1}, ', '{"topic": "a", "payload": 1}\n', "time,item\n"]
)
def test_a_damaged_gzip_file_is_refused(tmp_path, text):
    whole = gzip.compress(os.urandom(9_000).hex().join([text, text]).encode())
    for packed in (whole[: len(whole) // 2], b"\x1f\x8b" + whole[:9], whole[:30] + whole[40:]):
        (tmp_path / "log.gz").write_bytes(packed)
        refused("log.gz: damaged gzip file", read_log, str(tmp_path / "log.gz"), "UTC")


def test_a_password_is_not_shown():
    message = refused(
        "cannot be read", read_log, f"mysql://me:secret@127.0.0.1:{free_port()}/ha", "UTC"
    )
    assert "secret" not in str(message)


def test_only_items_that_match_are_kept(tmp_path):
    events = read_log(str(write_recorder(tmp_path / "ha.db", EVENTS)), "UTC")
    kept = events.only(["person.*"])
    assert kept.items == ["person.ann"] and len(kept.times) == 2 and not np.any(kept.item)
    refused("the log has no item 'light.\\*'", events.only, ["light.*"])
