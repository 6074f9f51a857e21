"""Copies of a SQLite database: made while it is written to, and brought back without losing more.

A copy is whole or is not there. What is brought back is added in one transaction; what has come
since the copy was made stays.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from discreet.errors import InputError
from discreet.network.store.sqlite import SqliteConnection, beside

_OLDER = {
    "messages": "round >= coalesce((SELECT round FROM main.floors AS own"
    " WHERE own.site = old.site), 0)",
    "decisions": "round >= coalesce((SELECT round FROM main.floors AS own"
    " WHERE own.site = old.site), 0)",
    "clients": "true",
    "floors": "true",
}
_KNOWN = """
UPDATE main.clients SET (spent, boot, seq) = (
    SELECT max(clients.spent, old.spent), max(clients.boot, old.boot),
        CASE WHEN old.boot > clients.boot THEN old.seq ELSE clients.seq END
    FROM copy.clients AS old WHERE old.site = clients.site AND old.client = clients.client)
WHERE (site, client) IN (SELECT site, client FROM copy.clients)
"""


def copy_database(source: Path, target: Path) -> None:
    """Write a consistent copy of a database that may be in use to a new file.

    Raises InputError: nothing is left of the copy then.
    """
    draft = target.with_name(f".{target.name}.part")
    try:
        draft.unlink(missing_ok=True)
        os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        place = f"{source.absolute().as_uri()}?mode=ro"
        with (
            closing(sqlite3.connect(place, uri=True)) as old,
            closing(sqlite3.connect(draft)) as new,
        ):
            old.backup(new)
            new.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
            ((seen,),) = new.execute("PRAGMA quick_check(1)").fetchall()
        if seen != "ok":
            raise sqlite3.DatabaseError(seen)
        with draft.open("rb") as stream:
            os.fsync(stream.fileno())
        draft.replace(target)
    except (sqlite3.Error, OSError) as error:
        draft.unlink(missing_ok=True)
        raise InputError(f"{source}: cannot be copied ({error}).") from None


def set_aside(file: Path) -> Path:
    """Rename a database with what belongs to it, and return its new name."""
    aside = file.with_name(f"{file.name}.damaged-{int(time.time())}")
    for suffix in ("-wal", "-shm", ""):
        if (part := beside(file, suffix)).exists():
            part.rename(beside(aside, suffix))
    return aside


def bring_back(copy: Path, live: Path) -> dict[str, int]:
    """Add to a database what a copy has and it lacks; return how many rows that were, by table.

    Rounds that were forgotten since stay so. ``copy``: of this version.
    """
    base = SqliteConnection(live)
    counts: dict[str, int] = {}
    try:
        base.make_tables()
        base.query("ATTACH DATABASE ? AS copy", (f"{copy.absolute().as_uri()}?mode=ro",))
        with base.transaction():
            for table, wanted in _OLDER.items():
                counts[table] = base.change(
                    f"INSERT OR IGNORE INTO main.{table}"
                    f" SELECT * FROM copy.{table} AS old WHERE {wanted}"
                )
            base.change(_KNOWN)
            base.change("DELETE FROM alarms WHERE kind = 'replaced'")
    finally:
        base.close()
    return counts


def migrate(file: Path) -> None:
    """Bring a copy to this version, as one file."""
    base = SqliteConnection(file)
    try:
        base.make_tables()
        base.query("PRAGMA journal_mode = DELETE")
    finally:
        base.close()
