"""The interface that the store needs of a database: statements, and one kind of error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from discreet.errors import DiscreetError
from discreet.network.store.rows import Outcome, StoredMessage


class StoreError(DiscreetError):
    """The database cannot be used now; what was being written may or may not be there.

    ``state``: "away" or "full", for the dashboard.
    """

    def __init__(self, message: str, state: str = "away") -> None:
        super().__init__(message)
        self.state = state


Row = tuple[Any, ...]


class Connection(Protocol):
    """A database, connected when first used and again after it was unavailable.

    Statements mark parameters with ``?``. Methods raise ``StoreError`` and, but for
    ``make_tables``, nothing else.
    """

    def transaction(self) -> AbstractContextManager[None]:
        """Begin; commit at the end, or roll back if there was an error."""

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run a statement and return its rows."""

    def change(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run a statement and return how many rows it changed."""

    def change_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each of some rows."""

    def insert_messages(self, site: str, messages: Sequence[StoredMessage]) -> Outcome:
        """Insert what is not there yet, inside of a transaction."""

    def lead(self, site: str) -> bool:
        """Whether this connection leads the workers of a site, which only one does at a time."""

    def make_tables(self) -> None:
        """Make the tables, or migrate those of an earlier version, in one transaction.

        Raises SchemaError: the tables are of a later version, or damaged.
        """

    def close(self) -> None:
        """Close the connection."""
