"""SQLite: one file, one process that writes."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from discreet.network.store.connection import Row, StoreError
from discreet.network.store.rows import Outcome, StoredMessage
from discreet.network.store.schema import SQLITE, update_schema

_WAIT = 10.0  # seconds for another process, such as a backup, to release its lock
_INSERT = (
    "INSERT OR IGNORE INTO messages (site, client, boot, seq, round, symbols, spent, received)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_FIND = (
    "SELECT round, symbols, spent FROM messages"
    " WHERE site = ? AND client = ? AND boot = ? AND seq = ?"
)


class SqliteConnection:
    """A database file in WAL mode; a commit is on the disk when it returns."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path, self._read_only = path, read_only
        self._base: sqlite3.Connection | None = None

    def _connected(self) -> sqlite3.Connection:
        if self._base is None:
            mode = "ro" if self._read_only else "rwc"
            if not self._read_only and not self.path.exists():
                # The symbols are for the fusion centre: SQLite alone would let everybody read.
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            base = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=_WAIT,
                isolation_level=None,
                check_same_thread=False,
            )
            if not self._read_only:
                base.execute("PRAGMA journal_mode = WAL")
                base.execute("PRAGMA synchronous = FULL")
            self._base = base
        return self._base

    @contextmanager
    def _translated(self) -> Iterator[sqlite3.Connection]:
        try:
            yield self._connected()
        except (sqlite3.Error, OSError) as error:
            self._let_go()
            raise self._explained(error) from None

    def _explained(self, error: Exception) -> StoreError:
        full = "full" in str(error) or getattr(error, "errno", None) in (28, 122)
        if full or "disk I/O error" in str(error):
            return StoreError(
                f"{self.path}: the disk is full or cannot be written ({error}). Make room; nothing "
                "that was acknowledged is lost.",
                "full",
            )
        return StoreError(f"{self.path}: the database cannot be used ({error}).")

    def _let_go(self) -> None:
        """Drop the connection, and with it a half-done transaction."""
        base, self._base = self._base, None
        if base is not None:
            with suppress(sqlite3.Error):
                base.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin; commit at the end, or roll back if there was an error."""
        with self._translated() as base:
            base.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._let_go()
            raise
        with self._translated() as base:
            base.execute("COMMIT")

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run a statement and return its rows."""
        with self._translated() as base:
            return base.execute(sql, parameters).fetchall()

    def change(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run a statement and return how many rows it changed."""
        with self._translated() as base:
            return base.execute(sql, parameters).rowcount

    def change_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each of some rows."""
        with self._translated() as base:
            base.executemany(sql, rows)

    def insert_messages(self, site: str, messages: Sequence[StoredMessage]) -> Outcome:
        """Insert what is not there yet, inside of a transaction."""
        with self._translated() as base:
            rows = [(site, *message) for message in messages]
            base.execute("SAVEPOINT whole")
            if base.executemany(_INSERT, rows).rowcount == len(rows):
                base.execute("RELEASE whole")
                return Outcome()  # all were new, as nearly always
            base.execute("ROLLBACK TO whole")
            base.execute("RELEASE whole")
            return self._insert_one_by_one(base, rows)

    @staticmethod
    def _insert_one_by_one(base: sqlite3.Connection, rows: list[Row]) -> Outcome:
        repeated: set[int] = set()
        conflicting: set[int] = set()
        for place, row in enumerate(rows):
            if base.execute(_INSERT, row).rowcount == 1:
                continue
            (found,) = base.execute(_FIND, row[:4]).fetchall()
            (repeated if found == row[4:7] else conflicting).add(place)
        return Outcome(frozenset(repeated), frozenset(conflicting))

    def lead(self, site: str) -> bool:
        """Return True: a file has one worker."""
        return True

    def make_tables(self) -> None:
        """Make the tables, or migrate those of an earlier version."""
        with self.transaction():
            update_schema(self, SQLITE)

    def close(self) -> None:
        """Close the connection."""
        self._let_go()
