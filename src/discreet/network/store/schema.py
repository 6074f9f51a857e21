"""The tables, the same in SQLite and PostgreSQL but for the names of types."""

from __future__ import annotations

VERSION = 1

_TABLES = """
CREATE TABLE IF NOT EXISTS schema_version (version {integer} PRIMARY KEY);
CREATE TABLE IF NOT EXISTS readings (
    site TEXT NOT NULL, client TEXT NOT NULL, boot {integer} NOT NULL, seq {integer} NOT NULL,
    round {integer} NOT NULL, symbols {blob} NOT NULL, spent {integer} NOT NULL,
    received {real} NOT NULL,
    PRIMARY KEY (site, client, boot, seq)
){compact};
CREATE INDEX IF NOT EXISTS readings_by_round ON readings (site, round);
CREATE TABLE IF NOT EXISTS decisions (
    site TEXT NOT NULL, round {integer} NOT NULL, closed {real} NOT NULL,
    reported {integer} NOT NULL, expected {integer} NOT NULL, probabilities TEXT NOT NULL,
    decision TEXT NOT NULL,
    PRIMARY KEY (site, round)
){compact};
CREATE TABLE IF NOT EXISTS refused (
    site TEXT NOT NULL, client TEXT NOT NULL, reason TEXT NOT NULL, count {integer} NOT NULL,
    last {real} NOT NULL,
    PRIMARY KEY (site, client, reason)
){compact};
CREATE TABLE IF NOT EXISTS quarantine (
    site TEXT NOT NULL, client TEXT NOT NULL, reason TEXT NOT NULL, at {real} NOT NULL,
    payload {blob} NOT NULL
);
CREATE INDEX IF NOT EXISTS quarantine_by_client ON quarantine (site, client, at);
CREATE TABLE IF NOT EXISTS clients (
    site TEXT NOT NULL, client TEXT NOT NULL, last_seen {real} NOT NULL,
    last_round {integer} NOT NULL, boot {integer} NOT NULL, seq {integer} NOT NULL,
    spent {integer} NOT NULL, messages {integer} NOT NULL,
    PRIMARY KEY (site, client)
){compact};
CREATE TABLE IF NOT EXISTS health (
    site TEXT NOT NULL, at {real} NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (site, name, at)
){compact};
CREATE TABLE IF NOT EXISTS floors (
    site TEXT PRIMARY KEY, round {integer} NOT NULL
){compact};
CREATE TABLE IF NOT EXISTS mappings (
    site TEXT PRIMARY KEY, mapping TEXT NOT NULL, since {real} NOT NULL
){compact};
"""


def statements(*, integer: str, real: str, blob: str, compact: str) -> list[str]:
    """Return what makes the tables, with the types of a database."""
    text = _TABLES.format(integer=integer, real=real, blob=blob, compact=compact)
    return [each.strip() for each in text.split(";") if each.strip()]
