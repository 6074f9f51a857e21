"""The read side of the store: what the dashboard needs.

A reader has a connection of its own that cannot write, so that it may run in another process than
the fusion centre. While the database cannot be used every method raises ``StoreError``, whose
``state`` is "away" or "full"; the next call tries again.
"""

from __future__ import annotations

import json
import time

from discreet.network.store.connection import Connection
from discreet.network.store.rows import Alarm, ClientState, Decision, Refusal, Sample, slope

_DECISIONS = """
SELECT round, closed, reported, expected, probabilities, decision FROM decisions
WHERE site = ? AND round > ? ORDER BY round DESC LIMIT ?
"""
_HEALTH = """
SELECT name, at, value FROM health AS each WHERE site = ? AND at = (
    SELECT max(at) FROM health WHERE site = each.site AND name = each.name)
"""


class Reader:
    """What the store holds for a site. One thread at a time may use it."""

    def __init__(self, connection: Connection, site: str) -> None:
        self._base, self.site = connection, site

    def decisions(self, since_round: int = -1, limit: int = 1000) -> list[Decision]:
        """Return the latest decisions of rounds after one, oldest first."""
        rows = self._base.query(_DECISIONS, (self.site, since_round, limit))
        return [
            Decision._make((*row[:4], tuple(json.loads(row[4])), row[5])) for row in reversed(rows)
        ]

    def latest(self) -> Decision | None:
        found = self.decisions(limit=1)
        return found[0] if found else None

    def clients(self) -> list[ClientState]:
        """Return what is known of every client that has ever sent a message, by name."""
        rows = self._base.query(
            "SELECT client, last_seen, last_round, boot, seq, spent, messages FROM clients"
            " WHERE site = ? ORDER BY client",
            (self.site,),
        )
        return [ClientState(*row) for row in rows]

    def symbols(self, client: str, limit: int = 2000) -> list[tuple[bytes, int]]:
        """Return symbols and spending of a client's latest messages, newest first."""
        rows = self._base.query(
            "SELECT symbols, spent FROM messages WHERE site = ? AND client = ?"
            " ORDER BY boot DESC, seq DESC LIMIT ?",
            (self.site, client, limit),
        )
        return [(bytes(symbols), spent) for symbols, spent in rows]

    def refused(self) -> list[Refusal]:
        rows = self._base.query(
            "SELECT client, reason, count, last FROM refused WHERE site = ?"
            " ORDER BY client, reason",
            (self.site,),
        )
        return [Refusal(*row) for row in rows]

    def alarms(self) -> list[Alarm]:
        rows = self._base.query(
            "SELECT client, kind, since, words FROM alarms WHERE site = ? ORDER BY client, kind",
            (self.site,),
        )
        return [Alarm(*row) for row in rows]

    def health(self) -> dict[str, Sample]:
        """Return the latest value of everything that the fusion centre notes about itself."""
        rows = self._base.query(_HEALTH, (self.site,))
        return {name: Sample(at, json.loads(value)) for name, at, value in rows}

    def history(self, name: str, window: float) -> list[Sample]:
        """Return the values of health with a name in the last seconds, oldest first."""
        rows = self._base.query(
            "SELECT at, value FROM health WHERE site = ? AND name = ? AND at >= ? ORDER BY at",
            (self.site, name, time.time() - window),
        )
        return [Sample(at, json.loads(value)) for at, value in rows]

    def rate(self, window: float = 60.0) -> float | None:
        """Return messages stored per second over the last seconds; None if nothing is noted."""
        samples = self.history("messages", window)
        return slope(samples[0], samples[-1]) if samples else None

    def schema_version(self) -> int:
        """Return the version of the tables; 0 if it is not noted."""
        rows = self._base.query("SELECT version FROM schema_version")
        return max((int(version) for (version,) in rows), default=0)

    def close(self) -> None:
        self._base.close()
