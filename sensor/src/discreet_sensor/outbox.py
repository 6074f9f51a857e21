"""Messages on disk until the fusion centre has stored them.

A message is drawn, numbered and written here before it is sent for the first time, and every
retry sends these very bytes: to draw again would let an attacker average. Boot numbers rise with
every start, so that no number is ever used for two messages.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from discreet_sensor.errors import DiscreetError, InputError
from discreet_sensor.files import Lock, hold
from discreet_sensor.wire import MAX_BOOT, Entry

MOST_MESSAGES = 200_000
"""How many messages wait at most; beyond, the oldest are given up and counted."""

_TABLES = """
CREATE TABLE IF NOT EXISTS outbox (
    boot INTEGER NOT NULL, seq INTEGER NOT NULL, round INTEGER NOT NULL, payload BLOB NOT NULL,
    PRIMARY KEY (boot, seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""
_NOTE = (
    "INSERT INTO notes (name, value) VALUES (?, ?)"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)


class OutboxError(DiscreetError):
    """The outbox cannot be written now, and so nothing new can be sent."""


class PendingMessage(NamedTuple):
    """A message that has not been acknowledged."""

    boot: int
    seq: int
    round: int
    payload: bytes


class Outbox:
    """The outbox in a folder. One process at a time may hold it; threads may share it.

    ``folder``: made if it is not there, readable by its owner only. ``first_boot``: the smallest
    number that this start may get. ``most``: how many messages may wait. ``boot``: number of this
    start. ``seq``: number of the next message. Raises InputError: if the folder is in use or cannot
    be written.
    """

    def __init__(self, folder: Path, first_boot: int = 0, most: int = MOST_MESSAGES) -> None:
        self._lock = _hold(folder)
        self._most = most
        self.boot = self.seq = self._count = self._next_round = 0
        try:
            self._base = self._open(folder / "outbox.db")
            self._begin(first_boot)
        except (sqlite3.Error, OSError) as error:
            self._lock.release()
            raise InputError(
                f"{folder}: the outbox cannot be opened ({error}). Make room, or name another "
                "folder with --state."
            ) from None

    @staticmethod
    def _open(file: Path) -> sqlite3.Connection:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        base = sqlite3.connect(file, isolation_level=None, check_same_thread=False, timeout=10)
        base.execute("PRAGMA journal_mode = WAL")
        base.execute("PRAGMA synchronous = FULL")
        base.executescript(_TABLES)
        return base

    def _begin(self, first_boot: int) -> None:
        # By the clock as well: a device whose folder was lost must not begin at 1 again.
        self.boot = max(first_boot, self.note("boot") + 1, int(time.time()))
        if self.boot > MAX_BOOT:
            raise OSError("the numbers of starts are used up")
        self._base.execute(_NOTE, ("boot", self.boot))
        self._next_round = self.note("next_round")
        ((self._count,),) = self._base.execute("SELECT count(*) FROM outbox")

    def __enter__(self) -> Outbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._base.close()
        self._lock.release()

    def note(self, name: str) -> int:
        """Return a number that was noted; 0 if it was not."""
        found = self._base.execute("SELECT value FROM notes WHERE name = ?", (name,)).fetchone()
        return int(found[0]) if found else 0

    def set_note(self, name: str, value: int) -> None:
        with self._changing():
            self._base.execute(_NOTE, (name, value))

    @property
    def waiting(self) -> int:
        return self._count

    def waits_from(self, number: int) -> bool:
        """Whether a message for some round, or for a later one, waits."""
        found = self._base.execute("SELECT 1 FROM outbox WHERE round >= ? LIMIT 1", (number,))
        return found.fetchone() is not None

    @property
    def given_up(self) -> int:
        """How many messages were given up for want of room, since the device was set up."""
        return self.note("given_up")

    @property
    def last_round(self) -> int:
        """The last round that a message was written for; -1 if none."""
        return self._next_round - 1

    def append(self, number: int, rounds: int, make: Callable[[int, int], bytes]) -> PendingMessage:
        """Write the message of a round; when this returns, it is safe.

        ``number``: the first round it is for; later than any before. ``rounds``: how many rounds it
        is for. ``make``: returns the bytes, given boot and sequence number. Raises OutboxError: if
        it cannot be written; it was not then, and its number is used for the next.
        """
        if number <= self.last_round:
            raise OutboxError(f"round {number} has a message already; the clock went back.")
        payload = make(self.boot, self.seq)
        dropped = max(0, self._count + 1 - self._most)
        with self._changing():
            if dropped:
                self._give_up(dropped)
            self._base.execute(
                "INSERT INTO outbox VALUES (?, ?, ?, ?)", (self.boot, self.seq, number, payload)
            )
            self._base.execute(_NOTE, ("next_round", number + rounds))
        self._count += 1 - dropped
        self._next_round = number + rounds
        self.seq += 1
        return PendingMessage(self.boot, self.seq - 1, number, payload)

    def turn_back(self, number: int) -> int:
        """Go on with an earlier round, because the clock was ahead; return how many are given up.

        What waits for that round or a later one was drawn for a time that has not come. The boot
        is a new one: within a boot, later messages are for later rounds.
        """
        with self._changing():
            early = self._base.execute("SELECT boot, seq FROM outbox WHERE round >= ?", (number,))
            keys = early.fetchall()
            self._forget(keys)
            self._base.execute(_NOTE, ("boot", self.boot + 1))
            self._base.execute(_NOTE, ("next_round", number))
        self._count -= len(keys)
        self.boot, self.seq, self._next_round = self.boot + 1, 0, number
        return len(keys)

    def _give_up(self, count: int) -> None:
        """Drop the oldest: their rounds are closed, and nothing more is decided on them."""
        oldest = self._base.execute(
            "SELECT boot, seq FROM outbox ORDER BY boot, seq LIMIT ?", (count,)
        ).fetchall()
        self._forget(oldest)

    def _forget(self, keys: list[tuple[int, int]]) -> None:
        self._base.executemany("DELETE FROM outbox WHERE boot = ? AND seq = ?", keys)
        self._base.execute(_NOTE, ("given_up", self.given_up + len(keys)))

    def keep_only(self, fits: Callable[[bytes], bool]) -> int:
        """Give up what no retry can deliver, and return how many messages that were.

        ``fits``: whether the fusion centre can know the bytes of a message for ours.
        """
        with self._changing():
            rows = self._base.execute("SELECT boot, seq, payload FROM outbox")
            misfits = [(boot, seq) for boot, seq, payload in rows if not fits(payload)]
            self._forget(misfits)
        self._count -= len(misfits)
        return len(misfits)

    def after(self, boot: int, seq: int, limit: int) -> list[PendingMessage]:
        """Return the next messages that wait after one, oldest first."""
        try:
            rows = self._base.execute(
                "SELECT boot, seq, round, payload FROM outbox WHERE (boot, seq) > (?, ?)"
                " ORDER BY boot, seq LIMIT ?",
                (boot, seq, limit),
            )
            return [PendingMessage(*row) for row in rows]
        except sqlite3.Error as error:
            raise OutboxError(f"the outbox cannot be read ({error}).") from None

    def acknowledge(self, entries: Iterable[Entry]) -> int:
        """Forget what the fusion centre has stored or refused; return how many that were.

        Raises OutboxError: if it cannot be written; the messages are then sent, and acknowledged,
        again.
        """
        count = 0
        with self._changing():
            for entry in entries:
                count += self._base.execute(
                    "DELETE FROM outbox WHERE boot = ? AND seq >= ? AND seq < ?",
                    (entry.boot, entry.first, entry.first + entry.length),
                ).rowcount
        self._count -= count
        return count

    @contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            self._base.execute("BEGIN IMMEDIATE")
            yield
            self._base.execute("COMMIT")
        except sqlite3.Error as error:
            if self._base.in_transaction:
                with suppress(sqlite3.Error):  # it is tried again before the next change
                    self._base.execute("ROLLBACK")
            raise OutboxError(f"the outbox cannot be written ({error}).") from None


def _hold(folder: Path) -> Lock:
    held = f"{folder}: another sensor runs from this folder. Stop it, or name another folder."
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return hold(folder / "lock", held)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written ({error.strerror}). Name another folder with --state."
        ) from None
