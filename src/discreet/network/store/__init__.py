"""The store: messages, decisions and health of sites, in SQLite or PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from discreet.errors import InputError
from discreet.network.store.database import VERSION, Connection
from discreet.network.store.reading import Reader
from discreet.network.store.sqlite import SqliteConnection
from discreet.network.store.writing import Store


def open_store(database: str, folder: Path, site: str, shared: Store | None = None) -> Store:
    """Return the store of a site, to write to.

    ``database``: "sqlite:" and a path, which counts from ``folder``, or an address "postgresql://".
    ``shared``: the store of another site in the same database, whose connection is to be used; by
    one thread then.
    """
    base = _connect(database, folder, read_only=False) if shared is None else shared._base
    return Store(base, site)


def open_reader(database: str, folder: Path, site: str, shared: Reader | None = None) -> Reader:
    """Return what reads the store of a site; see ``open_store``."""
    base = _connect(database, folder, read_only=True) if shared is None else shared._base
    return Reader(base, site)


def check_database(database: str, folder: Path) -> str:
    """Return what is wrong with a database: damaged pages, tables of another version; or nothing.

    Raises StoreError: if it cannot be used now.
    """
    base = _connect(database, folder, read_only=True)
    try:
        if words := base.damage():
            return words
        version = Reader(base, "").schema_version()
        if version != VERSION:
            return (
                f"Its tables are of version {version}, and this discreet has version {VERSION}. "
                "Start `discreet serve` of this version, which migrates older ones."
            )
        return ""
    finally:
        base.close()


def _connect(database: str, folder: Path, *, read_only: bool) -> Connection:
    kind, _, rest = database.partition(":")
    if kind == "sqlite" and rest:
        return SqliteConnection(folder / rest, read_only=read_only)
    if kind in ("postgresql", "postgres"):
        try:
            from discreet.network.store.postgres import PostgresConnection
        except ImportError:
            raise InputError(
                "the database is PostgreSQL, for which psycopg is missing. Run: "
                'pip install "discreet[postgres]"'
            ) from None
        return PostgresConnection(database, read_only=read_only)
    raise InputError(
        f"the database must begin with sqlite: or postgresql://; it begins with {kind[:20]!r}."
    )
