"""The little that the store asks of a database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from discreet.network.store.rows import Outcome, Reading

Row = tuple[Any, ...]


class Connection(Protocol):
    """A database, connected when first used and again after it was away.

    Statements mark parameters with ``?``. Every method raises ``StoreError`` and nothing else.
    """

    def transaction(self) -> AbstractContextManager[None]:
        """Begin; commit at the end, or roll back if there was an error."""

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run a statement and return its rows."""

    def change(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run a statement and return how many rows it changed."""

    def change_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each of some rows."""

    def insert_readings(self, site: str, readings: Sequence[Reading]) -> Outcome:
        """Insert what is not there yet, inside of a transaction."""

    def lead(self, site: str) -> bool:
        """Whether this connection leads the workers of a site, which only one does at a time."""

    def make_tables(self) -> None:
        """Make the tables that are missing."""

    def close(self) -> None:
        """Let go of the database."""
