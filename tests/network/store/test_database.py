"""A database of an earlier version is migrated whole; one that is not understood is left alone."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from support.commands import clean_environment, run_apart
from support.network_samples import additive_mapping
from support.network_sites import wait_for
from support.sites import make_site

from discreet.network.site.settings import load_site
from discreet.network.store import open_reader, open_store
from discreet.network.store.database import POSTGRES, SQLITE, VERSION, SchemaError
from discreet.network.store.rows import Batch, ClientState, Decision, Outcome, Seen, StoredMessage

pytestmark = pytest.mark.slow

# As version 1 wrote it, with its names for what differs between databases.
VERSION_1 = """
CREATE TABLE IF NOT EXISTS schema_version (version {integer} PRIMARY KEY);
CREATE TABLE IF NOT EXISTS readings (
    site TEXT NOT NULL, client TEXT NOT NULL, boot {integer} NOT NULL, seq {integer} NOT NULL,
    round {integer} NOT NULL, symbols {blob} NOT NULL, spent {integer} NOT NULL,
    received {real} NOT NULL,
    PRIMARY KEY (site, client, boot, seq)
){compact};
CREATE INDEX IF NOT EXISTS readings_by_round ON readings (site, round);
CREATE TABLE IF NOT EXISTS decisions (
    site TEXT NOT NULL, round {integer} NOT NULL, closed {real} NOT NULL,
    reported {integer} NOT NULL, expected {integer} NOT NULL, probabilities TEXT NOT NULL,
    decision TEXT NOT NULL,
    PRIMARY KEY (site, round)
){compact};
CREATE TABLE IF NOT EXISTS refused (
    site TEXT NOT NULL, client TEXT NOT NULL, reason TEXT NOT NULL, count {integer} NOT NULL,
    last {real} NOT NULL,
    PRIMARY KEY (site, client, reason)
){compact};
CREATE TABLE IF NOT EXISTS quarantine (
    site TEXT NOT NULL, client TEXT NOT NULL, reason TEXT NOT NULL, at {real} NOT NULL,
    payload {blob} NOT NULL
);
CREATE INDEX IF NOT EXISTS quarantine_by_client ON quarantine (site, client, at);
CREATE TABLE IF NOT EXISTS clients (
    site TEXT NOT NULL, client TEXT NOT NULL, last_seen {real} NOT NULL,
    last_round {integer} NOT NULL, boot {integer} NOT NULL, seq {integer} NOT NULL,
    spent {integer} NOT NULL, messages {integer} NOT NULL,
    PRIMARY KEY (site, client)
){compact};
CREATE TABLE IF NOT EXISTS health (
    site TEXT NOT NULL, at {real} NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (site, name, at)
){compact};
CREATE TABLE IF NOT EXISTS floors (
    site TEXT PRIMARY KEY, round {integer} NOT NULL
){compact};
CREATE TABLE IF NOT EXISTS mappings (
    site TEXT PRIMARY KEY, mapping TEXT NOT NULL, since {real} NOT NULL
){compact};
"""
ROWS = {
    "readings": [
        ("home", "hall", 1, k, k, bytes([k % 2, 255]), 7 * k, 100.5 + k) for k in range(50)
    ]
    + [("office", "hall", 1, 0, 9, b"", 2**32 - 1, 1.0)],
    "decisions": [("home", 3, 9.5, 1, 2, "[0.25, 0.75]", "yes")],
    "refused": [("home", "hall", "mac", 4, 8.0)],
    "quarantine": [("home", "hall", "mac", 8.0, b"\0\1")],
    "clients": [("home", "hall", 149.5, 49, 1, 49, 343, 50)],
    "health": [("home", 5.0, "messages", "50")],
    "floors": [("home", 2)],
    "mappings": [("home", "sha256:00", 3.0)],
}
NEW = ("clocks", "alarms", "places", "plans")  # in versions 3 and 4
INDEXES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL",
    "postgresql": "SELECT indexname FROM pg_indexes WHERE schemaname = 'public'",
}
KILLED = """
import os, sys
from pathlib import Path
from discreet.network.store import database
from discreet.network.store import open_store
database._check = lambda there: os.kill(os.getpid(), 9)
open_store(sys.argv[1], Path(sys.argv[2]), "home").prepare()
"""


def dialect_of(database):
    return SQLITE if database.startswith("sqlite") else POSTGRES


@pytest.fixture
def empty(database, tmp_path):
    with closing(open_store(database, tmp_path, "home")) as store:
        yield store


@pytest.fixture
def old(empty, database):
    """A store whose database version 1 has written."""
    write_version_1(empty, dialect_of(database))
    return empty


def write_version_1(store, kind):
    text = VERSION_1.format(
        integer=kind.integer, real=kind.real, blob=kind.blob, compact=kind.options
    )
    for statement in filter(str.strip, text.split(";")):
        store._base.change(statement)
    for table, rows in ROWS.items():
        marks = ", ".join("?" * len(rows[0]))
        store._base.change_many(f"INSERT INTO {table} VALUES ({marks})", rows)


def content(store, names=None):
    """Return what version 1 knew of all rows of its tables, wherever they are now."""
    rows = {
        table: store._base.query(f"SELECT * FROM {(names or {}).get(table, table)}")
        for table in ROWS
    }
    return {table: sorted(row[: len(ROWS[table][0])] for row in rows[table]) for table in ROWS}


def migrated_content(store):
    return content(store, {"readings": "messages"})


def layout(store, database):
    names = INDEXES[database.split(":")[0]]
    tables = store._base.query(dialect_of(database).columns)
    return {each for each in tables if not each[0].startswith("pg_")}, set(store._base.query(names))


def test_a_database_of_version_1_is_migrated_with_all_its_rows(old, database, tmp_path):
    before = content(old)
    assert before == {table: sorted(rows) for table, rows in ROWS.items()}
    old.prepare()
    assert migrated_content(old) == before
    assert old._base.query("SELECT version FROM schema_version") == [(VERSION,)]
    (again,) = (row for row in ROWS["readings"] if row[:4] == ("home", "hall", 1, 7))
    assert old.commit(Batch([StoredMessage(*again[1:])])) == Outcome(repeated=frozenset([0]))
    with closing(open_reader(database, tmp_path, "home")) as reader:
        assert reader.symbols("hall", 1) == [(b"\1\xff", 343)]
        assert reader.latest() == Decision(3, 9.5, 1, 2, (0.25, 0.75), "yes")
        assert reader.clients() == [ClientState("hall", 149.5, 49, 1, 49, 343, 50)]
    counted = migrated_content(old)
    old.prepare()
    assert migrated_content(old) == counted


def test_what_was_migrated_is_laid_out_like_what_is_new(old, database):
    old.prepare()
    migrated = layout(old, database)
    for table in {table for table, _ in migrated[0]} & {*ROWS, "messages", "schema_version", *NEW}:
        old._base.change(f"DROP TABLE {table}")
    old.prepare()
    assert layout(old, database) == migrated
    assert not any("readings" in name for row in migrated[0] | migrated[1] for name in row)


def test_a_database_of_version_2_is_migrated_with_all_its_rows(old, database):
    old.prepare()
    before, wanted = migrated_content(old), layout(old, database)
    for table in NEW:
        old._base.change(f"DROP TABLE {table}")
    old._base.change("UPDATE schema_version SET version = 2")
    assert old.schema_version() == 2
    old.prepare()
    assert (migrated_content(old), layout(old, database)) == (before, wanted)
    assert old.schema_version() == VERSION and old.seen().at == 9.5


def test_a_database_of_version_3_is_migrated_with_all_its_rows(old, database):
    old.prepare()
    old.see(Seen(77.5, 3.0, "start"))
    old.alarm("hall", "cloned", "As noticed.", 5.0)
    before, wanted = migrated_content(old), layout(old, database)
    old._base.change("DROP TABLE plans")
    for table, column in (("messages", "mapping"), ("clocks", "ticks"), ("clocks", "boot")):
        old._base.change(f"ALTER TABLE {table} DROP COLUMN {column}")
    old._base.change("UPDATE schema_version SET version = 3")
    old.prepare()
    assert (migrated_content(old), layout(old, database)) == (before, wanted)
    assert old.schema_version() == VERSION and old.seen() == Seen(77.5)
    assert [each.words for each in old.alarms()] == ["As noticed."]
    assert {each[5] for each in old.messages(0, 2**32)} == {0}  # drawn by a mapping not known


def test_a_kill_before_the_commit_leaves_version_1_whole(old, database, tmp_path):
    before = content(old)
    old.close()
    done = subprocess.run(
        [sys.executable, "-c", KILLED, database, str(tmp_path)],
        env=clean_environment(),
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert content(old) == before
    old.prepare()
    assert migrated_content(old) == before


def test_workers_that_start_together_migrate_once(old, database, tmp_path):
    before = content(old)
    others = [open_store(database, tmp_path, "home") for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda store: store.prepare(), others))
    for store in others:
        store.close()
    assert migrated_content(old) == before
    assert old._base.query("SELECT version FROM schema_version") == [(VERSION,)]


def test_a_first_start_that_was_interrupted_is_finished(empty):
    empty._base.change("CREATE TABLE schema_version (version INTEGER PRIMARY KEY)")
    empty.prepare()
    assert empty.commit(Batch([StoredMessage("hall", 1, 0, 5, b"\1", 7, 100.0)])) == Outcome()


def test_tables_that_version_1_added_later_are_made(old):
    for table in ("floors", "mappings"):
        old._base.change(f"DROP TABLE {table}")
    old.prepare()
    assert old.floor() == 0 and old.mapping_since("sha256:00", 5.0) == 0.0


REFUSED = [
    ("UPDATE schema_version SET version = 9", f"schema version 9.*up to {VERSION}.*Install"),
    ("UPDATE schema_version SET version = -1", r"schema version as \[-1\].*Restore"),
    ("INSERT INTO schema_version VALUES (7)", rf"schema version as \[{VERSION}, 7\].*Restore"),
    ("DROP TABLE schema_version", "no schema version.*Restore"),
    ("DROP TABLE decisions", "lacks the table 'decisions'.*Restore"),
    ("DROP TABLE messages", "lacks the table 'messages'.*Restore"),
    ("ALTER TABLE clients RENAME COLUMN spent TO lost", "lacks the column 'spent'.*'clients'"),
    ("CREATE TABLE readings (site TEXT)", "older discreet.*Stop the older one"),
]


@pytest.mark.parametrize(("damage", "words"), REFUSED)
def test_what_is_not_understood_is_refused_and_not_changed(store, database, damage, words):
    store.commit(Batch([StoredMessage("hall", 1, 0, 5, b"\1", 7, 100.0)]))
    store._base.change(damage)
    before = layout(store, database)
    with pytest.raises(SchemaError, match=words):
        store.prepare()
    assert layout(store, database) == before


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("DROP TABLE readings", "lacks the table 'readings' of schema version 1"),
        ("ALTER TABLE readings RENAME COLUMN spent TO lost", "lacks the column 'spent'"),
    ],
)
def test_a_damaged_version_1_is_left_as_it_is(old, database, damage, words):
    old._base.change(damage)
    before = layout(old, database)
    with pytest.raises(SchemaError, match=words):
        old.prepare()
    assert layout(old, database) == before


@pytest.fixture
def served(tmp_path):
    """The store of a site in the folder "site"."""
    site = make_site(tmp_path, additive_mapping(names=["hall"]), interval=0.5, deadline=5)
    with closing(open_store("sqlite:data/fusion.db", site, load_site(site).key)) as store:
        yield store


def test_serve_migrates_when_it_starts(served, tmp_path):
    write_version_1(served, SQLITE)
    serve = subprocess.Popen(
        [sys.executable, "-m", "discreet", "serve", "site", "--quiet"],
        cwd=tmp_path,
        env=clean_environment(),
    )
    try:
        wait_for(lambda: ("messages", "seq") in served._base.query(SQLITE.columns))
    finally:
        serve.send_signal(signal.SIGTERM)
    assert serve.wait(300) == 0
    assert migrated_content(served)["readings"] == sorted(ROWS["readings"])


def test_serve_ends_with_one_message_if_the_schema_is_newer(served, tmp_path):
    served.prepare()
    served._base.change("UPDATE schema_version SET version = 9")
    done = run_apart("serve", "site", "--quiet", folder=tmp_path)
    assert done.returncode == 2
    assert "the database has schema version 9" in done.stderr
    assert done.stderr.count("\n") == 1
