"""PostgreSQL: several workers, one database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from discreet.network.store.database import POSTGRES, Connection, Row, StoreError, update_schema
from discreet.network.store.rows import ABSENT, Outcome, StoredMessage
from discreet_sensor.enrolment import is_loopback

_COLUMNS = "client, boot, seq, round, symbols, spent, received, mapping"
_TYPES = ("int4", "text", "int8", "int8", "int8", "bytea", "int8", "float8", "int8")
_STAGE = """
CREATE TEMPORARY TABLE IF NOT EXISTS staged (
    place INTEGER, client TEXT, boot BIGINT, seq BIGINT, round BIGINT, symbols BYTEA, spent BIGINT,
    received DOUBLE PRECISION, mapping BIGINT) ON COMMIT DELETE ROWS
"""
_MERGE = f"""
INSERT INTO messages (site, {_COLUMNS})
SELECT %s, {_COLUMNS} FROM staged ORDER BY client, boot, seq, place
ON CONFLICT (site, client, boot, seq) DO NOTHING
"""
# xmin separates what this transaction has written from what was there before.
_FOUND = """
SELECT place, there.xmin = pg_current_xact_id()::xid,
    staged.round = there.round AND staged.symbols = there.symbols AND staged.spent = there.spent
FROM staged JOIN messages there ON there.site = %s AND there.client = staged.client
    AND there.boot = staged.boot AND there.seq = staged.seq
"""
# A dead connection must be noticed on both sides: here, or nothing more would be stored; by the
# server, or it would keep the lead and the locks of a worker for hours.
_TIMEOUTS: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,  # ms; keepalives do not count while something is unanswered
}
_OPTIONS = (
    "-c statement_timeout=30s -c idle_in_transaction_session_timeout=30s"
    " -c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3"
    " -c tcp_user_timeout=15s"
)
_SYSTEM_ROOTS = 160_000  # the libpq from which on the authorities of the system can be named
_LOCK = 0x64697363726565  # "discree": one worker at a time makes or migrates tables


def connection_settings(url: str) -> dict[str, Any]:
    """Return what an address asks for, and what goes without saying.

    A server on another machine has to show a certificate for its name, unless the address says
    otherwise (``sslmode``).
    """
    found: dict[str, Any] = conninfo_to_dict(url)
    # Those of the address come last, and count.
    found["options"] = f"{_OPTIONS} {found.get('options') or ''}".strip()
    hosts = [host for host in str(found.get("host") or "").split(",") if host]
    if "sslmode" not in found and not all(map(_is_here, hosts)):
        found["sslmode"] = "verify-full"
        if "sslrootcert" not in found and psycopg.pq.version() >= _SYSTEM_ROOTS:
            found["sslrootcert"] = "system"
    return found


def _is_here(host: str) -> bool:
    return host.startswith(("/", "@")) or is_loopback(host)


class PostgresConnection(Connection):
    """A database server.

    ``url``: as libpq reads it; may hold a password, which no message repeats.
    """

    _errors = (psycopg.Error, OSError)
    _mark = "%s"

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        self._url, self._read_only = url, read_only
        self._leads: tuple[psycopg.Connection[Row] | None, set[str]] = (None, set())

    def _connect(self) -> psycopg.Connection[Row]:
        # Kept at once, so that it is closed if a setting is refused.
        self._base = base = psycopg.connect(
            autocommit=True, **_TIMEOUTS | connection_settings(self._url)
        )
        if self._read_only:
            base.execute("SET default_transaction_read_only = on")
        else:
            base.execute("SET synchronous_commit = on")
            base.execute(_STAGE)
        return base

    def _explained(self, error: Exception) -> StoreError:
        code = getattr(error, "sqlstate", None) or ""
        if code in ("53100", "58030"):  # disk_full, io_error
            return StoreError("PostgreSQL: the disk is full. Make room; nothing is lost.", "full")
        if self._read_only and code == "42P01":  # undefined_table
            return StoreError("PostgreSQL: there are no tables.", ABSENT)
        text = " ".join(str(error).split())[:200]
        return StoreError(f"PostgreSQL: the database cannot be used ({text}).")

    def queries(self, wanted: Sequence[tuple[str, Sequence[Any]]]) -> list[list[Row]]:
        with self._translated() as base:
            with base.pipeline():
                asked = [base.execute(self._marked(sql), values) for sql, values in wanted]
            return [each.fetchall() for each in asked]

    def insert_messages(self, site: str, messages: Sequence[StoredMessage]) -> Outcome:
        with self._translated() as base, base.cursor() as cursor:
            command = f"COPY staged (place, {_COLUMNS}) FROM STDIN (FORMAT BINARY)"
            with cursor.copy(command) as copy:
                copy.set_types(_TYPES)
                for place, message in enumerate(messages):
                    copy.write_row((place, *message))
            if cursor.execute(_MERGE, (site,)).rowcount == len(messages):
                return Outcome()  # all were new, as nearly always
            return self._left_out(cursor, site, messages)

    @staticmethod
    def _left_out(
        cursor: psycopg.Cursor[Row], site: str, messages: Sequence[StoredMessage]
    ) -> Outcome:
        """Separate what was there before from what is new: the first of its key."""
        rows = cursor.execute(_FOUND, (site,)).fetchall()
        repeated: set[int] = set()
        conflicting: set[int] = set()
        seen = set()
        for place, ours, same in sorted(rows):
            key = messages[place][:3]
            if ours and same and key not in seen:
                seen.add(key)
            else:
                (repeated if same else conflicting).add(place)
        return Outcome(frozenset(repeated), frozenset(conflicting))

    def lead(self, site: str) -> bool:
        """Whether this connection leads; if it ends, the server lets the next one lead."""
        with self._translated() as base:
            if self._leads[0] is not base:
                self._leads = base, set()
            led = self._leads[1]
            if site not in led:
                sql = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
                found = base.execute(sql, (f"discreet {site}",)).fetchone()
                if found and found[0]:
                    led.add(site)
        return site in led

    def scrub(self) -> None:
        """Free what deleted rows took; the write-ahead log and backups are the server's."""
        with self._translated() as base:
            base.execute("SET statement_timeout = 0")
            base.execute("VACUUM messages, quarantine, refused")
            base.execute("RESET statement_timeout")

    def make_tables(self) -> None:
        with self.transaction():
            self.query("SELECT pg_advisory_xact_lock(?)", (_LOCK,))
            update_schema(self, POSTGRES)
