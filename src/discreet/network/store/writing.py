"""The write side of the store: what the fusion centre needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from discreet.network.store.reading import MAX_ROUND, Reader
from discreet.network.store.rows import (
    Batch,
    ClientState,
    Decision,
    Outcome,
    Refused,
    Seen,
    StoredMessage,
)

KEPT_REFUSED = 20
"""How many refused messages of a client are kept for inspection."""
MOST_FOR_ROUND = 4
"""Messages of a client for one round; a device that was restarted may send a second one."""
FORGOTTEN_AT_ONCE = 500
"""Rounds deleted in one commit: all of a year would hold up what arrives, or time out."""
KEPT_HEALTH = 86_400.0
"""Seconds for which values of health are kept."""
_TRIM_EVERY = 600.0  # seconds

_CLIENT = """
INSERT INTO clients (site, client, last_seen, last_round, boot, seq, spent, messages)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (site, client) DO UPDATE SET
    last_seen = excluded.last_seen, messages = clients.messages + excluded.messages,
    last_round = CASE WHEN excluded.last_round > clients.last_round
                      THEN excluded.last_round ELSE clients.last_round END,
    spent = CASE WHEN excluded.spent > clients.spent THEN excluded.spent ELSE clients.spent END,
    seq = CASE WHEN excluded.boot > clients.boot
                 OR excluded.boot = clients.boot AND excluded.seq > clients.seq
               THEN excluded.seq ELSE clients.seq END,
    boot = CASE WHEN excluded.boot > clients.boot THEN excluded.boot ELSE clients.boot END
"""
_REFUSAL = """
INSERT INTO refused (site, client, reason, count, last) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (site, client, reason) DO UPDATE SET
    count = refused.count + excluded.count, last = excluded.last
"""
_QUARANTINE = "INSERT INTO quarantine (site, client, reason, at, payload) VALUES (?, ?, ?, ?, ?)"
_TRIM_QUARANTINE = """
DELETE FROM quarantine WHERE site = ? AND client = ? AND at < (
    SELECT min(at) FROM (SELECT at FROM quarantine WHERE site = ? AND client = ?
                         ORDER BY at DESC LIMIT ?) AS latest)
"""
_COUNT = "SELECT count(*) FROM messages WHERE site = ? AND round = ? AND client = ?"
_FORGET_DEVICE = """
DELETE FROM messages WHERE site = ? AND client = ? AND (boot, seq) IN (
    SELECT boot, seq FROM messages WHERE site = ? AND client = ?
    AND (boot < ? OR boot = ? AND seq <= ?) LIMIT 5000)
"""
_REMOVE = "DELETE FROM messages WHERE site = ? AND client = ? AND boot = ? AND seq = ?"
_DECISION = """
INSERT INTO decisions (site, round, closed, reported, expected, probabilities, decision)
VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (site, round) DO UPDATE SET
    closed = excluded.closed, reported = excluded.reported, expected = excluded.expected,
    probabilities = excluded.probabilities, decision = excluded.decision
WHERE decisions.closed < ?
"""
_HEALTH = """
INSERT INTO health (site, at, name, value) VALUES {}
ON CONFLICT (site, name, at) DO UPDATE SET value = excluded.value
"""
_FLOOR = """
INSERT INTO floors (site, round) VALUES (?, ?) ON CONFLICT (site) DO UPDATE
SET round = CASE WHEN excluded.round > floors.round THEN excluded.round ELSE floors.round END
"""
_PLACE = """
INSERT INTO places (site, place) VALUES (?, ?) ON CONFLICT (site) DO UPDATE
SET place = excluded.place
"""
_ALARM = """
INSERT INTO alarms (site, client, kind, since, words) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (site, client, kind) DO UPDATE SET words = excluded.words
"""
_SEEN = """
INSERT INTO clocks (site, seen, rest, ticks, boot) VALUES (?, ?, 0, ?, ?)
ON CONFLICT (site) DO UPDATE SET seen = excluded.seen, ticks = excluded.ticks, boot = excluded.boot
"""
_PLAN = """
INSERT INTO plans (site, plan) VALUES (?, ?) ON CONFLICT (site) DO UPDATE SET plan = excluded.plan
"""
_MAPPING = """
INSERT INTO mappings (site, mapping, since) VALUES (?, ?, ?) ON CONFLICT (site) DO UPDATE
SET mapping = excluded.mapping, since = excluded.since
"""


def _state(messages: Sequence[StoredMessage]) -> ClientState:
    """Return what is known of a client by these of its messages alone."""
    client, boot, seq, last_round, _, spent, received, _ = messages[-1]
    for _, boot_, seq_, round_, _, spent_, _, _ in messages[:-1]:
        boot, seq = max((boot, seq), (boot_, seq_))
        last_round, spent = max(last_round, round_), max(spent, spent_)
    return ClientState(client, received, last_round, boot, seq, spent, len(messages))


class Store(Reader):
    """The messages and decisions of one site, to be read and written."""

    _highest: dict[str, int] | None = None  # the last round of each client
    _trimmed = float("-inf")  # when old values of health were deleted

    def prepare(self) -> None:
        self._base.make_tables()

    def commit(self, batch: Batch) -> Outcome:
        """Store a batch whole or not at all; when this returns, it is safe.

        Whoever does not know whether a batch was stored may commit it again: what is there
        already is neither stored nor counted twice.
        """
        with self._base.transaction():
            outcome = Outcome()
            if batch.messages:
                outcome = self._base.insert_messages(self.site, batch.messages)
                outcome = self._without_excess(batch.messages, outcome)
                self._note_clients(batch.messages, outcome)
            self._note_refusals(batch, outcome)
        return outcome

    def _without_excess(self, messages: Sequence[StoredMessage], outcome: Outcome) -> Outcome:
        """Take out again what a device has sent for a round beyond the most that is kept.

        Only what is not for a later round than all before can be too much, which is rare.
        """
        highest = self._highest_rounds()
        fresh: dict[tuple[str, int], list[int]] = {}
        for place, (client, _, _, number, _, _, _, _) in enumerate(messages):
            if number > highest.get(client, -1):
                highest[client] = number
            elif place not in outcome.repeated and place not in outcome.conflicting:
                fresh.setdefault((client, number), []).append(place)
        excess: list[int] = []
        for (client, number), places in fresh.items():
            ((count,),) = self._base.query(_COUNT, (self.site, number, client))
            if count > MOST_FOR_ROUND:
                excess += places[MOST_FOR_ROUND - count :]
        if not excess:
            return outcome
        keys = {messages[place][:3] for place in excess}
        self._base.change_many(_REMOVE, [(self.site, *key) for key in sorted(keys)])
        # What repeats one of them in the same batch is not stored either.
        again = {place for place in outcome.repeated if messages[place][:3] in keys}
        return replace(outcome, repeated=outcome.repeated - again, excess={*excess} | again)

    def _highest_rounds(self) -> dict[str, int]:
        if self._highest is None:
            self._highest = {each.client: each.last_round for each in self.clients()}
        return self._highest

    def _note_clients(self, messages: Sequence[StoredMessage], outcome: Outcome) -> None:
        known = outcome.repeated | outcome.refused
        by_client: dict[str, list[StoredMessage]] = {}
        for place, message in enumerate(messages):
            if place in known:
                continue
            if (own := by_client.get(message[0])) is None:
                by_client[message[0]] = [message]
            else:
                own.append(message)
        # In order, so that two workers cannot wait for each other's rows.
        rows = [(self.site, *_state(by_client[client])) for client in sorted(by_client)]
        if rows:
            self._base.change_many(_CLIENT, rows)

    def _note_refusals(self, batch: Batch, outcome: Outcome) -> None:
        counts, now = batch.refusals + outcome.reasons(batch.messages), batch.at
        rows = [(self.site, *key, count, now) for key, count in sorted(counts.items()) if count]
        if rows:
            self._base.change_many(_REFUSAL, rows)
        if batch.quarantine:
            self._set_aside(batch.quarantine)

    def _set_aside(self, refused: Sequence[Refused]) -> None:
        self._base.change_many(_QUARANTINE, [(self.site, *each) for each in refused])
        for client in sorted({each.client for each in refused}):
            where = (self.site, client)
            self._base.change(_TRIM_QUARANTINE, (*where, *where, KEPT_REFUSED))

    def mapping_since(self, mapping: str, started: float) -> float:
        """Note the mapping that runs, and return when it came; 0 for the first of a site.

        ``mapping``: its id. ``started``: when it began to run, if it is a new one.
        """
        found = self._base.query("SELECT mapping, since FROM mappings WHERE site = ?", (self.site,))
        if found and found[0][0] == mapping:
            return float(found[0][1])
        since = started if found else 0.0
        self._base.change(_MAPPING, (self.site, mapping, since))
        return since

    def messages(
        self, first: int, last: int, since: float = 0.0, earliest: tuple[float, float] = (0.0, 0.0)
    ) -> list[tuple[str, int, int, int, bytes, int]]:
        """Return client, boot, seq, round, symbols and mapping of what begins in some rounds.

        ``since``: what was received before is left out, unless its mapping is known.
        ``earliest``: likewise, for round 0 and for each further one: a clock that was ahead had it
        sent.
        """
        rows = self._base.query(
            "SELECT client, boot, seq, round, symbols, mapping FROM messages"
            " WHERE site = ? AND round >= ? AND round <= ? AND (mapping <> 0 OR received >= ?)"
            " AND received >= ? + round * ? ORDER BY boot, seq",
            (self.site, first, last, since, *earliest),
        )
        return [
            (client, boot, seq, number, bytes(symbols), mapping)
            for client, boot, seq, number, symbols, mapping in rows
        ]

    def decide(
        self, decisions: Iterable[Decision], end: Callable[[int], float] = lambda _: 0.0
    ) -> None:
        """Store decisions; a round that has one keeps it, unless it was closed before its end."""
        rows = [
            (self.site, *each[:4], json.dumps(each.probabilities), each.decision, end(each.round))
            for each in decisions
        ]
        with self._base.transaction():
            self._base.change_many(_DECISION, rows)

    def last_decided(self, upto: int = MAX_ROUND) -> int | None:
        """Return the last round with a decision; rounds after one are left out."""
        found = self._base.query(
            "SELECT max(round) FROM decisions WHERE site = ? AND round <= ?", (self.site, upto)
        )
        return None if found[0][0] is None else int(found[0][0])

    def last_probabilities(self, since: float, upto: int = MAX_ROUND) -> list[float] | None:
        """Return those of the latest decision up to a round, if not closed before a moment."""
        found = self._base.query(
            "SELECT probabilities FROM decisions WHERE site = ? AND round <= ? AND closed >= ?"
            " ORDER BY round DESC LIMIT 1",
            (self.site, upto, since),
        )
        return list(json.loads(found[0][0])) if found else None

    def first_round(self) -> int | None:
        return self._extreme("min(round) FROM messages")

    def _extreme(self, what: str) -> int | None:
        ((found,),) = self._base.query(f"SELECT {what} WHERE site = ?", (self.site,))
        return None if found is None else int(found)

    def lead(self) -> bool:
        """Whether this worker is the one to close rounds; once it is, it stays so."""
        return self._base.lead(self.site)

    def note(self, values: dict[str, Any], at: float) -> None:
        """Store values of health, and forget those of the day before."""
        rows = [(self.site, at, name, json.dumps(value)) for name, value in sorted(values.items())]
        marks = ", ".join(["(?, ?, ?, ?)"] * len(rows))
        self._base.change(_HEALTH.format(marks), [cell for row in rows for cell in row])
        if not 0 <= at - self._trimmed < _TRIM_EVERY:
            self._trimmed = at
            self._base.change(
                "DELETE FROM health WHERE site = ? AND at < ?", (self.site, at - KEPT_HEALTH)
            )

    def alarm(self, client: str, kind: str, words: str, since: float) -> None:
        """Note an alarm; one that stands keeps its beginning."""
        self._base.change(_ALARM, (self.site, client, kind, since, words))

    def settle(self, client: str, kind: str) -> None:
        """End an alarm, if there is one."""
        self._base.change(
            "DELETE FROM alarms WHERE site = ? AND client = ? AND kind = ?",
            (self.site, client, kind),
        )

    def is_at_home(self) -> bool:
        """Whether the database is where it was when it was last settled in: it is no copy."""
        found = self._base.query("SELECT place FROM places WHERE site = ?", (self.site,))
        place = self._base.place()
        return not place or (bool(found) and found[0][0] == place)

    def settle_in(self) -> None:
        """Note where the database is."""
        self._base.change(_PLACE, (self.site, self._base.place()))

    def plan(self, plan: dict[str, Any]) -> None:
        """Note what a judgement of the site needs to know besides what is stored."""
        self._base.change(_PLAN, (self.site, json.dumps(plan)))

    def seen(self) -> Seen | None:
        """Return the time that was last seen: as noted, or of the latest decision."""
        rows = self._base.query("SELECT seen, ticks, boot FROM clocks WHERE site = ?", (self.site,))
        if not rows:
            rows = self._base.query(
                "SELECT closed FROM decisions WHERE site = ? ORDER BY round DESC LIMIT 1",
                (self.site,),
            )
        return Seen(*rows[0]) if rows else None

    def see(self, seen: Seen) -> None:
        """Note the time, for the next start."""
        self._base.change(_SEEN, (self.site, *seen))

    def rest(self, until: float) -> None:
        """Have nothing forgotten before a moment."""
        self._base.change("UPDATE clocks SET rest = ? WHERE site = ?", (until, self.site))

    def rests(self, now: float) -> bool:
        """Whether nothing is to be forgotten now."""
        rows = self._base.query(
            "SELECT 1 FROM clocks WHERE site = ? AND rest > ?", (self.site, now)
        )
        return bool(rows)

    def turn_back(self, seen: Seen, number: int) -> None:
        """Go back to a time before what is stored; nothing is deleted but values of health.

        What was stored for later rounds is marked as come too early: it is not decided on, and
        decisions on it are replaced in their time. The floor falls to the present round:
        nothing of a later one was ever deleted.
        """
        now = seen.at
        with self._base.transaction():
            for table, moment in (("messages", "received"), ("decisions", "closed")):
                self._base.change(
                    f"UPDATE {table} SET {moment} = ?"
                    f" WHERE site = ? AND round > ? AND {moment} > ?",
                    (now, self.site, number, now),
                )
            for table, moment in (("clients", "last_seen"), ("refused", "last")):
                self._base.change(
                    f"UPDATE {table} SET {moment} = ? WHERE site = ? AND {moment} > ?",
                    (now, self.site, now),
                )
            self._base.change(
                "UPDATE clients SET last_round = ? WHERE site = ? AND last_round > ?",
                (number, self.site, number),
            )
            self._base.change("DELETE FROM health WHERE site = ? AND at > ?", (self.site, now))
            self._base.change(
                "UPDATE floors SET round = ? WHERE site = ? AND round > ?",
                (number, self.site, number),
            )
            self._base.change(_SEEN, (self.site, *seen))

    def floor(self) -> int:
        """Return the first round that messages are still accepted for."""
        found = self._base.query("SELECT round FROM floors WHERE site = ?", (self.site,))
        return int(found[0][0]) if found else 0

    def forget(self, before: int, moment: float = 0.0) -> bool:
        """Delete messages and decisions of old rounds, some at a time; return if that was all.

        The floor rises in the same commit: what was deleted could otherwise be replayed as new.
        ``moment``: what was refused before goes as well.
        """
        firsts = self.first_round(), self._extreme("min(round) FROM decisions")
        upto = min([before, *(each + FORGOTTEN_AT_ONCE for each in firsts if each is not None)])
        with self._base.transaction():
            self._base.change(_FLOOR, (self.site, upto))
            for table in ("messages", "decisions"):
                self._base.change(
                    f"DELETE FROM {table} WHERE site = ? AND round < ?", (self.site, upto)
                )
            for table, column in (("quarantine", "at"), ("refused", "last")):
                self._base.change(
                    f"DELETE FROM {table} WHERE site = ? AND {column} < ?", (self.site, moment)
                )
        if upto == before:
            self._base.settle()
        return upto == before

    def forget_device(self, client: str, upto: tuple[int, int]) -> int:
        """Delete what a device has sent up to a boot and seq; return how many messages that were.

        How far it had come and what it had spent stays: neither its messages nor its budget are to
        be used a second time.
        """
        count = 0
        while deleted := self._base.change(
            _FORGET_DEVICE, (*(self.site, client) * 2, upto[0], *upto)
        ):
            count += deleted
        with self._base.transaction():
            for table in ("quarantine", "refused"):
                self._base.change(
                    f"DELETE FROM {table} WHERE site = ? AND client = ?", (self.site, client)
                )
        self._base.scrub()
        return count
