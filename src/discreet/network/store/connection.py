"""What the store needs of a database: statements, transactions, and one kind of error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

from discreet.errors import DiscreetError
from discreet.network.store.rows import Outcome, StoredMessage


class StoreError(DiscreetError):
    """The database cannot be used now; what was being written may or may not be there.

    ``state``: "away", "full" or "replaced", for the dashboard.
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
