"""The read side of the store: what the dashboard needs.

A reader has a connection of its own that cannot write, so that it may run in another process than
the fusion centre. While the database cannot be used every method raises ``StoreError``, whose
``state`` is "away", "full" or "absent"; the next call tries again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from discreet.network.store.database import Connection, Row
from discreet.network.store.rows import Alarm, ClientState, Decision, Refusal, Sample, slope

_DECISIONS = """
SELECT round, closed, reported, expected, probabilities, decision FROM decisions
WHERE site = ? AND round > ? AND round <= ? AND closed >= ? + round * ?
ORDER BY round DESC LIMIT ?
"""
MAX_ROUND = 2**32
_HEALTH = """
SELECT name, at, value FROM health AS each WHERE site = ? AND at = (
    SELECT max(at) FROM health WHERE site = each.site AND name = each.name)
"""


_CLIENTS = """
SELECT client, last_seen, last_round, boot, seq, spent, messages FROM clients
WHERE site = ? ORDER BY client
"""
_REFUSED = "SELECT client, reason, count, last FROM refused WHERE site = ? ORDER BY client, reason"
_ALARMS = "SELECT client, kind, since, words FROM alarms WHERE site = ? ORDER BY client, kind"
_HISTORY = "SELECT at, value FROM health WHERE site = ? AND name = ? AND at >= ? ORDER BY at"
# Numbers for the columns: drivers differ in whether a repeated expression is the same one.
_HEARD = """
SELECT client, (round - ?) / ?, count(DISTINCT round), max(received - round * ?) FROM messages
WHERE site = ? AND round >= ? GROUP BY 1, 2
"""


class Overview(NamedTuple):
    """What is stored of a site at one moment; ``rate``: of messages, per second, if it is known."""

    decisions: tuple[Decision, ...]
    clients: tuple[ClientState, ...]
    refusals: tuple[Refusal, ...]
    health: dict[str, Sample]
    alarms: tuple[Alarm, ...]
    rate: float | None


class Reader:
    """What the store holds for a site. One thread at a time may use it."""

    def __init__(self, connection: Connection, site: str) -> None:
        self._base, self.site = connection, site

    def decisions(
        self, since_round: int = -1, limit: int = 1000, upto: int = MAX_ROUND
    ) -> list[Decision]:
        """Return the latest decisions of rounds after one, and up to one, oldest first."""
        given = (self.site, since_round, upto, 0.0, 0.0, limit)
        return _decisions(self._base.query(_DECISIONS, given))

    def overview(
        self, decisions: int, window: float, earliest: tuple[float, float] = (0.0, 0.0)
    ) -> Overview:
        """Return all that is needed to judge the site, at the cost of one query.

        ``decisions``: how many. ``window``: seconds for the rate of messages. ``earliest``: when
        round 0 began, and how much later each further one; what was closed before, by clocks that
        were ahead (see ``Store.turn_back``), is left out.
        """
        own = (self.site,)
        latest, clients, refused, health, alarms, samples = self._base.queries(
            [
                (_DECISIONS, (self.site, -1, MAX_ROUND, *earliest, decisions)),
                (_CLIENTS, own),
                (_REFUSED, own),
                (_HEALTH, own),
                (_ALARMS, own),
                (_HISTORY, (self.site, "messages", time.time() - window)),
            ]
        )
        return Overview(
            tuple(_decisions(latest)),
            tuple(ClientState(*row) for row in clients),
            tuple(Refusal(*row) for row in refused),
            {name: Sample(at, json.loads(value)) for name, at, value in health},
            tuple(Alarm(*row) for row in alarms),
            _rate([Sample(at, json.loads(value)) for at, value in samples]),
        )

    def latest(self) -> Decision | None:
        found = self.decisions(limit=1)
        return found[0] if found else None

    def clients(self) -> list[ClientState]:
        """Return what is known of every client that has ever sent a message, by name."""
        return [ClientState(*row) for row in self._base.query(_CLIENTS, (self.site,))]

    def symbols(self, client: str, limit: int = 2000, mapping: int = 0) -> list[tuple[bytes, int]]:
        """Return symbols and spending of a client's latest messages, newest first.

        ``mapping``: number of the one that they were drawn by; any by default.
        """
        rows = self._base.query(
            "SELECT symbols, spent FROM messages WHERE site = ? AND client = ?"
            " AND (mapping IN (0, ?) OR ? = 0) ORDER BY boot DESC, seq DESC LIMIT ?",
            (self.site, client, mapping, mapping, limit),
        )
        return [(bytes(symbols), spent) for symbols, spent in rows]

    def heard(self, first: int, rounds: int, interval: float) -> list[tuple[str, int, int, float]]:
        """Return who was heard since a round, by groups of so many rounds.

        Client, number of the group, rounds of it that a message begins with, and the most seconds
        from the beginning of round 0, in rounds of ``interval`` seconds, to a message.
        """
        given = (first, rounds, float(interval), self.site, first)
        return [(row[0], int(row[1]), row[2], row[3]) for row in self._base.query(_HEARD, given)]

    def refused(self) -> list[Refusal]:
        return [Refusal(*row) for row in self._base.query(_REFUSED, (self.site,))]

    def alarms(self) -> list[Alarm]:
        return [Alarm(*row) for row in self._base.query(_ALARMS, (self.site,))]

    def health(self) -> dict[str, Sample]:
        """Return the latest value of everything that the fusion centre notes about itself."""
        rows = self._base.query(_HEALTH, (self.site,))
        return {name: Sample(at, json.loads(value)) for name, at, value in rows}

    def history(self, name: str, window: float) -> list[Sample]:
        """Return the values of health with a name in the last seconds, oldest first."""
        rows = self._base.query(_HISTORY, (self.site, name, time.time() - window))
        return [Sample(at, json.loads(value)) for at, value in rows]

    def plans(self) -> dict[str, dict[str, Any]]:
        """Return what is noted for a judgement of each site of the database, by its key."""
        rows = self._base.query("SELECT site, plan FROM plans ORDER BY site")
        return {site: json.loads(plan) for site, plan in rows}

    def schema_version(self) -> int:
        """Return the version of the tables; 0 if it is not noted."""
        rows = self._base.query("SELECT version FROM schema_version")
        return max((int(version) for (version,) in rows), default=0)

    def close(self) -> None:
        self._base.close()


def _decisions(rows: Sequence[Row]) -> list[Decision]:
    return [Decision._make((*row[:4], tuple(json.loads(row[4])), row[5])) for row in reversed(rows)]


def _rate(samples: Sequence[Sample]) -> float | None:
    """Return messages stored per second between two moments; None if nothing is noted."""
    return slope(samples[0], samples[-1]) if samples else None
