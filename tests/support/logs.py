"""Made event logs, and databases of home automation that hold them."""

import gzip
import json
import sqlite3

import pandas as pd

NEW_SCHEMA = """
CREATE TABLE states_meta (metadata_id INTEGER PRIMARY KEY, entity_id VARCHAR(255));
CREATE TABLE states (
  state_id INTEGER PRIMARY KEY, entity_id CHAR(0), state VARCHAR(255), last_updated CHAR(0),
  last_changed_ts DOUBLE PRECISION, last_updated_ts DOUBLE PRECISION, metadata_id INTEGER
);
CREATE TABLE recorder_runs (
  run_id INTEGER PRIMARY KEY, start TIMESTAMP, "end" TIMESTAMP, closed_incorrect BOOLEAN
);
CREATE TABLE statistics_meta (id INTEGER PRIMARY KEY, statistic_id VARCHAR(255));
CREATE TABLE statistics (
  id INTEGER PRIMARY KEY, metadata_id INTEGER, start_ts DOUBLE PRECISION,
  mean DOUBLE PRECISION, state DOUBLE PRECISION
);
"""
OLD_SCHEMA = """
CREATE TABLE states (
  state_id INTEGER PRIMARY KEY, entity_id VARCHAR(255), state VARCHAR(255),
  last_changed TIMESTAMP, last_updated TIMESTAMP
);
CREATE TABLE recorder_runs (
  run_id INTEGER PRIMARY KEY, start TIMESTAMP, "end" TIMESTAMP, closed_incorrect BOOLEAN
);
"""


def utc_text(seconds):
    """How the recorder writes a time in its old schema."""
    return None if seconds is None else str(pd.Timestamp(seconds, unit="s"))


def fill_recorder(execute, events, runs=(), statistics=(), *, old=False, mark="?", end='"end"'):
    """Put events (time, entity, state) into tables that are there already.

    ``runs``: start and end, None for that of one that crashed; it is written as by the next start.
    """

    def insert(table, names, row):
        marks = ", ".join([mark] * len(row))
        execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", row)

    for k, (first, last) in enumerate(runs, start=1):
        crashed = last is None and k < len(runs)
        times = utc_text(first), utc_text(runs[k][0] if crashed else last)
        insert("recorder_runs", f"start, {end}, closed_incorrect", (*times, crashed))
    entities = {name: k for k, name in enumerate(sorted({each[1] for each in events}), start=1)}
    if not old:
        for name, number in entities.items():
            insert("states_meta", "metadata_id, entity_id", (number, name))
    for time, name, state in events:
        if old:
            insert("states", "entity_id, state, last_updated", (name, state, utc_text(time)))
        else:
            row = (entities[name], state, time)
            insert("states", "metadata_id, state, last_updated_ts", row)
    for number, (name, begin, mean) in enumerate(statistics, start=1):
        insert("statistics_meta", "id, statistic_id", (number, name))
        insert("statistics", "metadata_id, start_ts, mean", (number, begin, mean))


def write_recorder(file, events, runs=(), statistics=(), *, old=False):
    """Write a recorder's database in either schema."""
    with sqlite3.connect(file) as base:
        base.executescript(OLD_SCHEMA if old else NEW_SCHEMA)
        fill_recorder(base.execute, events, runs, statistics, old=old)
    base.close()
    return file


# --- The same events, as others write them -----------------------------------------------------


def _write_migrated(file, events):
    """A recorder's database in the middle of its migration: every way to write a row."""
    write_recorder(file, events)
    with sqlite3.connect(file) as base:
        text = "strftime('%Y-%m-%d %H:%M:%f', last_updated_ts, 'unixepoch')"
        name = "(SELECT entity_id FROM states_meta m WHERE m.metadata_id = states.metadata_id)"
        base.execute(f"UPDATE states SET entity_id = {name} WHERE state_id % 3 = 0")
        base.execute("UPDATE states SET metadata_id = NULL WHERE entity_id IS NOT NULL")
        base.execute(f"UPDATE states SET last_updated = {text} WHERE state_id % 2 = 0")
        base.execute("UPDATE states SET last_updated_ts = NULL WHERE last_updated IS NOT NULL")
    base.close()


def _write_openhab(file, events):
    names = list(dict.fromkeys(name for _, name, _ in events))
    with sqlite3.connect(file) as base:
        base.execute("CREATE TABLE items (itemid INTEGER PRIMARY KEY, itemname TEXT)")
        base.executemany("INSERT INTO items VALUES (?, ?)", enumerate(names, start=1))
        for number, name in enumerate(names, start=1):
            base.execute(f"CREATE TABLE item{number:04} (time TIMESTAMP, value TEXT)")
            rows = [(utc_text(time), state) for time, each, state in events if each == name]
            base.executemany(f"INSERT INTO item{number:04} VALUES (?, ?)", rows)
    base.close()


def _frame(events, time, item, value, **more):
    times, items, values = zip(*events, strict=True)
    moments = [pd.Timestamp(each, unit="s") for each in times]
    return pd.DataFrame({time: moments, item: items, value: values} | more)


def _write_history(file, events):
    table = _frame(events, "last_changed", "entity_id", "state")
    table["last_changed"] = [f"{each.isoformat()}.000Z" for each in table["last_changed"]]
    table[["entity_id", "state", "last_changed"]].to_csv(file, index=False)


def _write_logbook(file, events):
    table = _frame(events, "when", "entity_id", "state", name="Küche", message="wurde geändert")
    table["when"] = [
        each.tz_localize("UTC").tz_convert("Europe/Berlin").isoformat() for each in table["when"]
    ]
    table.to_csv(file, index=False)


def _write_german(file, events):
    table = _frame(events, "time", "itemname", "value")
    table["time"] = table["time"].dt.strftime("%d.%m.%Y %H:%M:%S")
    table["value"] = table["value"].str.replace(".", ",")
    table.to_csv(file, index=False, sep=";", encoding="cp1252")


def _write_messages(file, events):
    lines = [
        {"time": time, "topic": name, "payload": state}
        if k % 2
        else {
            "tst": f"{pd.Timestamp(time, unit='s').isoformat()}Z",
            "topic": name,
            "payload": state,
        }
        for k, (time, name, state) in enumerate(events)
    ]
    file.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))


def _write_long(file, events):
    times, items, values = zip(*events, strict=True)
    table = pd.DataFrame({"sensor": items, "value": values, "ts": times})
    table.to_csv(file, index=False, sep="\t")


WRITERS = {
    "recorder": write_recorder,
    "old recorder": lambda file, events: write_recorder(file, events, old=True),
    "migrated recorder": _write_migrated,
    "openHAB, JDBC": _write_openhab,
    "openHAB, CSV": lambda file, events: _frame(events, "time", "itemname", "value").to_csv(
        file, index=False
    ),
    "history": _write_history,
    "logbook": _write_logbook,
    "German": _write_german,
    "MQTT": _write_messages,
    "long": _write_long,
    "Excel": lambda file, events: _frame(events, "time", "item", "value").to_excel(
        file, index=False
    ),
}
"""How to write events (whole seconds, UTC) to a file, by who writes such logs."""
