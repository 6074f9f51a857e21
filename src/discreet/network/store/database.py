"""What the store needs of a database: statements, transactions, one kind of error, and its tables.

*The tables of a database, and how those of an earlier version become today's.* Version 1 called
the messages "readings" and never wrote its number down. Version 3 added clocks, alarms and places,
version 4 plans, the mapping of a message and what else shows a clock's steps.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, ClassVar, NamedTuple

from discreet.errors import DiscreetError
from discreet.network.store.rows import Outcome, StoredMessage


class StoreError(DiscreetError):
    """The database cannot be used now; what was being written may or may not be there.

    ``state``: "away", "full", "replaced" or "absent" (it was never made), for the dashboard.
    """

    def __init__(self, message: str, state: str = "away") -> None:
        super().__init__(message)
        self.state = state


Row = tuple[Any, ...]


class Connection(ABC):
    """A database, connected when first used and again after it was unavailable.

    Statements mark parameters with ``?``. Methods raise ``StoreError`` and, but for
    ``make_tables``, nothing else.
    """

    _errors: ClassVar[tuple[type[Exception], ...]]
    _begin, _mark = "BEGIN", "?"
    _base: Any = None  # the driver's connection

    @abstractmethod
    def _connect(self) -> Any:
        """Return a new connection of the driver, which commits each statement by itself."""

    @abstractmethod
    def _explained(self, error: Exception) -> StoreError: ...

    @abstractmethod
    def insert_messages(self, site: str, messages: Sequence[StoredMessage]) -> Outcome:
        """Insert what is not there yet, inside of a transaction."""

    def place(self) -> str:
        """Return what a copy of the database does not have, if there is anything."""
        return ""

    def damage(self) -> str:
        """Return what is wrong with the pages of the database, or nothing."""
        return ""

    @abstractmethod
    def lead(self, site: str) -> bool:
        """Whether this connection leads the workers of a site, which only one does at a time."""

    @abstractmethod
    def make_tables(self) -> None:
        """Make the tables, or migrate those of an earlier version, in one transaction.

        Raises SchemaError: the tables are of a later version, or damaged.
        """

    def settle(self) -> None:  # noqa: B027 - a server does it by itself
        """Leave nothing behind of what was deleted."""

    def scrub(self) -> None:
        """Have nothing be found of deleted rows any more, even if that takes a while."""
        self.settle()

    @contextmanager
    def _translated(self) -> Iterator[Any]:
        try:
            if self._base is None:
                self._base = self._connect()
            yield self._base
        except self._errors as error:
            self.close()
            raise self._explained(error) from None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin; commit at the end, or roll back if there was an error."""
        with self._translated() as base:
            base.execute(self._begin)
        try:
            yield
        except BaseException:
            self.close()  # which rolls back
            raise
        with self._translated() as base:
            base.execute("COMMIT")
        self._confirm()

    def _confirm(self) -> None:  # noqa: B027 - a server keeps its database in place
        """Check that what was committed is where it will be looked for.

        Raises StoreError: with the state "replaced", if it is not; the next statement looks there.
        """

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        with self._translated() as base:
            rows: list[Row] = base.execute(self._marked(sql), parameters).fetchall()
            return rows

    def queries(self, wanted: Sequence[tuple[str, Sequence[Any]]]) -> list[list[Row]]:
        """Run several queries, at the cost of one where the database is elsewhere."""
        return [self.query(*each) for each in wanted]

    def change(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run a statement and return how many rows it changed."""
        with self._translated() as base:
            return int(base.execute(self._marked(sql), parameters).rowcount)

    def change_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        with self._translated() as base:
            base.cursor().executemany(self._marked(sql), rows)

    def _marked(self, sql: str) -> str:
        return sql.replace("?", self._mark)

    def close(self) -> None:
        """Close the connection, if there is one; the next statement opens another."""
        base, self._base = self._base, None
        if base is not None:
            with suppress(*self._errors):
                base.close()


# --- Tables ---------------------------------------------------------------------------------

VERSION = 4


class SchemaError(DiscreetError):
    """The tables are not those that this version of discreet can use; waiting does not help."""


class Dialect(NamedTuple):
    """What differs between databases.

    ``integer``, ``real``, ``blob``: types of columns. ``options``: follows the columns of a table.
    ``columns``: query for the name of every table and of each of its columns. ``rename``:
    statements that rename the table "readings" of version 1, in time that does not grow with its
    rows, or as little as the database allows.
    """

    integer: str
    real: str
    blob: str
    options: str
    columns: str
    rename: tuple[str, ...]


_TABLES = """
CREATE TABLE IF NOT EXISTS schema_version (version {integer} PRIMARY KEY);
CREATE TABLE IF NOT EXISTS messages (
    site TEXT NOT NULL, client TEXT NOT NULL, boot {integer} NOT NULL, seq {integer} NOT NULL,
    round {integer} NOT NULL, symbols {blob} NOT NULL, spent {integer} NOT NULL,
    received {real} NOT NULL, mapping {integer} NOT NULL DEFAULT 0,
    PRIMARY KEY (site, client, boot, seq)
){options};
CREATE INDEX IF NOT EXISTS messages_by_round ON messages (site, round);
CREATE TABLE IF NOT EXISTS decisions (
    site TEXT NOT NULL, round {integer} NOT NULL, closed {real} NOT NULL,
    reported {integer} NOT NULL, expected {integer} NOT NULL, probabilities TEXT NOT NULL,
    decision TEXT NOT NULL,
    PRIMARY KEY (site, round)
){options};
CREATE TABLE IF NOT EXISTS refused (
    site TEXT NOT NULL, client TEXT NOT NULL, reason TEXT NOT NULL, count {integer} NOT NULL,
    last {real} NOT NULL,
    PRIMARY KEY (site, client, reason)
){options};
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
){options};
CREATE TABLE IF NOT EXISTS health (
    site TEXT NOT NULL, at {real} NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (site, name, at)
){options};
CREATE TABLE IF NOT EXISTS floors (
    site TEXT PRIMARY KEY, round {integer} NOT NULL
){options};
CREATE TABLE IF NOT EXISTS mappings (
    site TEXT PRIMARY KEY, mapping TEXT NOT NULL, since {real} NOT NULL
){options};
CREATE TABLE IF NOT EXISTS clocks (
    site TEXT PRIMARY KEY, seen {real} NOT NULL, rest {real} NOT NULL,
    ticks {real} NOT NULL DEFAULT 0, boot TEXT NOT NULL DEFAULT ''
){options};
CREATE TABLE IF NOT EXISTS alarms (
    site TEXT NOT NULL, client TEXT NOT NULL, kind TEXT NOT NULL, since {real} NOT NULL,
    words TEXT NOT NULL,
    PRIMARY KEY (site, client, kind)
){options};
CREATE TABLE IF NOT EXISTS places (
    site TEXT PRIMARY KEY, place TEXT NOT NULL
){options};
CREATE TABLE IF NOT EXISTS plans (
    site TEXT PRIMARY KEY, plan TEXT NOT NULL
){options};
"""
_ADDED = (  # to tables that were there before
    ("messages", "mapping", "{integer} NOT NULL DEFAULT 0"),
    ("clocks", "ticks", "{real} NOT NULL DEFAULT 0"),
    ("clocks", "boot", "TEXT NOT NULL DEFAULT ''"),
)
SQLITE = Dialect(
    "INTEGER",
    "REAL",
    "BLOB",
    " WITHOUT ROWID",
    "SELECT tables.name, columns.name FROM sqlite_master AS tables"
    " JOIN pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'",
    ("ALTER TABLE readings RENAME TO messages", "DROP INDEX IF EXISTS readings_by_round"),
)
POSTGRES = Dialect(
    "BIGINT",
    "DOUBLE PRECISION",
    "BYTEA",
    "",
    "SELECT relname, attname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid"
    " WHERE relkind = 'r' AND pg_table_is_visible(pg_class.oid) AND attnum > 0"
    " AND NOT attisdropped",
    (
        "ALTER TABLE readings RENAME TO messages",
        "ALTER INDEX IF EXISTS readings_pkey RENAME TO messages_pkey",
        "ALTER INDEX IF EXISTS readings_by_round RENAME TO messages_by_round",
    ),
)


def update_schema(base: Connection, dialect: Dialect) -> None:
    """Make the tables, or migrate those of an earlier version, inside of a transaction.

    ``base``: in a transaction that no other of this kind runs beside. Raises SchemaError: nothing
    may be committed.
    """
    there = _columns(base.query(dialect.columns))
    version = _version(base, there)
    if version > VERSION:
        raise SchemaError(
            f"the database has schema version {version}; this discreet knows versions up to "
            f"{VERSION}. Install the discreet that wrote it, or a newer one."
        )
    if version < VERSION:
        for statement in (*(dialect.rename if version == 1 else ()), *_statements(dialect)):
            base.change(statement)
        _add_columns(base, dialect)
        base.change("DELETE FROM schema_version")
        base.change("INSERT INTO schema_version (version) VALUES (?)", (VERSION,))
        there = _columns(base.query(dialect.columns))
    _check(there)


def _add_columns(base: Connection, dialect: Dialect) -> None:
    there = _columns(base.query(dialect.columns))
    for table, column, kind in _ADDED:
        if column not in there[table]:
            kind = kind.format(**dialect._asdict())
            base.change(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")


def _version(base: Connection, there: dict[str, set[str]]) -> int:
    """Return the version of the schema; 0 if there is none yet."""
    ours = there.keys() & {*_wanted(), "readings"}
    if not ours:
        return 0
    if there.get("schema_version") != {"version"}:
        raise _damaged(f"has a table {min(ours)!r} and no schema version")
    numbers = [number for (number,) in base.query("SELECT version FROM schema_version")]
    if numbers == [] and len(ours) == 1:
        return 0  # version 1 was interrupted before it had made any other table
    if len(numbers) > 1 or not all(isinstance(number, int) and number > 1 for number in numbers):
        raise _damaged(f"gives its schema version as {numbers!r:.60}")
    version: int = numbers[0] if numbers else 1
    _check_name(version, ours)
    return version


def _check_name(version: int, ours: set[str]) -> None:
    """Check that messages are in the table where a version keeps them, and in no other."""
    if ours >= {"readings", "messages"}:
        raise SchemaError(
            "the database has a table 'messages' and a table 'readings', which an older discreet "
            "writes to. Stop the older one, copy the rows that 'messages' lacks, and drop "
            "'readings'."
        )
    if version == 1 and "readings" not in ours:
        raise _damaged("lacks the table 'readings' of schema version 1")


def _check(there: dict[str, set[str]]) -> None:
    for table, columns in _wanted().items():
        if table not in there:
            raise _damaged(f"lacks the table {table!r}")
        if missing := columns - there[table]:
            raise _damaged(f"lacks the column {min(missing)!r} of the table {table!r}")


def _damaged(what: str) -> SchemaError:
    return SchemaError(
        f"the database {what}: it is damaged, or belongs to another program. Restore it from a "
        "backup, or name another database in site.json."
    )


def _wanted() -> dict[str, set[str]]:
    """Return the columns of every table, as SQLite reads the statements."""
    with closing(sqlite3.connect(":memory:")) as scratch:
        scratch.executescript(";".join(_statements(SQLITE)))
        return _columns(scratch.execute(SQLITE.columns).fetchall())


def _columns(rows: Sequence[Row]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for table, column in rows:
        found.setdefault(table, set()).add(column)
    return found


def _statements(dialect: Dialect) -> list[str]:
    text = _TABLES.format(**dialect._asdict())
    return [each.strip() for each in text.split(";") if each.strip()]
