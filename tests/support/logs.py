"""Made event logs, and databases of home automation that hold them."""

import sqlite3

import pandas as pd

NEW_SCHEMA = """
CREATE TABLE states_meta (metadata_id INTEGER PRIMARY KEY, entity_id VARCHAR(255));
CREATE TABLE states (
  state_id INTEGER PRIMARY KEY, entity_id CHAR(0), state VARCHAR(255), last_updated CHAR(0),
  last_changed_ts DOUBLE PRECISION, last_updated_ts DOUBLE PRECISION, metadata_id INTEGER
);
CREATE TABLE recorder_runs (run_id INTEGER PRIMARY KEY, start TIMESTAMP, "end" TIMESTAMP);
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
CREATE TABLE recorder_runs (run_id INTEGER PRIMARY KEY, start TIMESTAMP, "end" TIMESTAMP);
"""


def utc_text(seconds):
    """How the recorder writes a time in its old schema."""
    return None if seconds is None else str(pd.Timestamp(seconds, unit="s"))


def fill_recorder(execute, events, runs=(), statistics=(), *, old=False, mark="?", end='"end"'):
    """Put events (time, entity, state) into tables that are there already."""

    def insert(table, names, row):
        marks = ", ".join([mark] * len(row))
        execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", row)

    for first, last in runs:
        insert("recorder_runs", f"start, {end}", (utc_text(first), utc_text(last)))
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
