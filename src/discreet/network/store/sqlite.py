"""SQLite: one file, one process that writes."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from discreet.network.store.database import SQLITE, Connection, Row, StoreError, update_schema
from discreet.network.store.rows import ABSENT, REPLACED, Outcome, StoredMessage

_WAIT = 10.0  # seconds for another process, such as a backup, to release its lock
_INSERT = (
    "INSERT OR IGNORE INTO messages"
    " (site, client, boot, seq, round, symbols, spent, received, mapping)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_FIND = (
    "SELECT round, symbols, spent FROM messages"
    " WHERE site = ? AND client = ? AND boot = ? AND seq = ?"
)


class SqliteConnection(Connection):
    """A database file in WAL mode; a commit is on the disk when it returns."""

    _errors = (sqlite3.Error, OSError)
    _begin = "BEGIN IMMEDIATE"

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path, self._read_only = path, read_only
        self._opened: tuple[int, int] | None = None

    def _connect(self) -> sqlite3.Connection:
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
            base.execute("PRAGMA secure_delete = ON")  # whatever SQLite was built with
        self._opened = _identity(self.path)
        return base

    def _is_current(self) -> bool:
        """Whether the file that is open is still the one of that name."""
        return self._base is None or _identity(self.path) == self._opened

    @contextmanager
    def _translated(self) -> Iterator[Any]:
        if self._read_only and not self._is_current():
            self.close()  # the next statement opens what is there now
        with super()._translated() as base:
            yield base

    def _confirm(self) -> None:
        if self._is_current():
            return
        rescued = self._rescue()
        self.close()
        where = f"What the old one held is in {rescued}." if rescued else "The old one is lost."
        raise StoreError(f"{self.path.name} was replaced while it was in use. {where}", REPLACED)

    def _rescue(self) -> str:
        """Write what is open, and has no name any more, to a file; return its name.

        If nothing has taken its place, it gets its name back.
        """
        gone = not self.path.exists()
        rescued = self.path.with_name(f"{self.path.name}.replaced-{int(time.time())}")
        try:
            os.close(os.open(rescued, os.O_RDWR | os.O_CREAT, 0o600))
            with closing(sqlite3.connect(rescued)) as copy:
                self._base.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")
            self._set_log_aside()
            if gone:
                rescued.rename(self.path)
                return self.path.name
        except (sqlite3.Error, OSError):
            return ""
        return rescued.name

    def _set_log_aside(self) -> None:
        """Have the log of the old file not be taken for that of the new one."""
        for suffix in ("-wal", "-shm"):
            part = beside(self.path, suffix)
            if _identity(part) in _open_files():
                part.unlink()

    def _explained(self, error: Exception) -> StoreError:
        if self._read_only and _is_absent(self.path):
            return StoreError(f"{self.path}: there is no such file.", ABSENT)
        full = "full" in str(error) or getattr(error, "errno", None) in (28, 122)
        if full or "disk I/O error" in str(error):
            return StoreError(
                f"{self.path}: the disk is full or cannot be written ({error}). Make room; nothing "
                "that was acknowledged is lost.",
                "full",
            )
        return StoreError(f"{self.path}: the database cannot be used ({error}).")

    def insert_messages(self, site: str, messages: Sequence[StoredMessage]) -> Outcome:
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

    def place(self) -> str:
        """Return the number of the file: moving keeps it, copying does not."""
        with self._translated():
            return str(os.stat(self.path).st_ino)

    def damage(self) -> str:
        try:
            found = [str(words) for (words,) in self.query("PRAGMA quick_check(1)")]
        except StoreError as error:
            if "malformed" in str(error) or "not a database" in str(error):
                return f"{self.path.name} is damaged: {error}"
            raise
        words = " ".join(" ".join(found).split())[:200]
        return "" if found == ["ok"] else f"{self.path.name} is damaged: {words}."

    def lead(self, site: str) -> bool:
        return True  # a file has one worker

    def settle(self) -> None:
        """Empty the log as well, in which deleted rows would stay until it is written over."""
        self.query("PRAGMA wal_checkpoint(TRUNCATE)")

    def scrub(self) -> None:
        end = time.monotonic() + _WAIT
        # Another process may read from the log at this moment.
        while self.query("PRAGMA wal_checkpoint(TRUNCATE)")[0][0] and time.monotonic() < end:
            time.sleep(0.05)

    def make_tables(self) -> None:
        with self.transaction():
            update_schema(self, SQLITE)


def beside(file: Path, suffix: str) -> Path:
    """Return the file beside a database with a suffix, such as "-wal"."""
    return file.with_name(file.name + suffix)


def _is_absent(file: Path) -> bool:
    """Whether its folder can be looked into, and does not have it."""
    try:
        return file.name not in os.listdir(file.parent)
    except OSError:
        return False


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        about = os.stat(file)
    except OSError:
        return None
    return about.st_dev, about.st_ino


def _open_files() -> set[tuple[int, int] | None]:
    """Return which files this process has open, where the system tells."""
    found = set[tuple[int, int] | None]()
    with suppress(OSError):
        for handle in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                about = os.fstat(int(handle))
                found.add((about.st_dev, about.st_ino))
    return found
