"""Logs by where they are: which kind something is, and those in databases, only ever read.

*Logs in databases: Home Assistant's recorder and openHAB's JDBC persistence, only ever read.*
SQLite files are opened read-only, in one transaction, which is a consistent copy of a database
that is being written. Nothing is left beside them: SQLite itself would, as whoever runs this, and
Home Assistant might then not be allowed to open its own database. Servers are asked for a
read-only transaction.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from gzip import BadGzipFile
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from discreet.arrays import Floats
from discreet.data.tables import STANDARD_INPUT, check_file, read_standard_input
from discreet.errors import InputError, shown
from discreet.importing.rounds import EventList, Events, Tell, utc_seconds
from discreet.importing.text_logs import open_plain, read_csv_log, read_json_list, read_json_log

# --- Databases ------------------------------------------------------------------------------

SERVERS = ("postgresql", "postgres", "mysql", "mariadb")
MAGIC = b"SQLite format 3\0"
_AT_ONCE = 50_000  # rows
_TABLE = re.compile(r"[A-Za-z0-9_]{1,120}", re.ASCII)
_HOUR = 3600.0


def read_database(source: str, zone: str, tell: Tell | None = None, *, statistics: bool) -> Events:
    """Read the log in a database.

    ``source``: a SQLite file, or the URL of a server. ``zone``: of local times. ``statistics``:
    take the hourly means of Home Assistant for the time before its states begin. Raises InputError:
    if it is none of the two, or cannot be read.
    """
    with _connected(source) as ask:
        columns, found = ask.columns(), EventList(tell)
        if "states" in columns:
            _check_recorder(source, columns)
            return _recorder(ask, columns, found, statistics)
        items = next((name for name in columns if name.lower() == "items"), "")
        if {"itemid", "itemname"} <= {name.lower() for name in columns.get(items, ())}:
            return _openhab(ask, columns, found, items, zone)
        listed = ", ".join(sorted(columns)[:10]) or "no tables"
        raise InputError(
            f"{_hidden(source)}: neither Home Assistant's recorder (a table 'states') nor "
            f"openHAB's JDBC persistence (a table 'items'); there are: {listed}."
        )


# --- Home Assistant --------------------------------------------------------------------------


def _check_recorder(source: str, columns: dict[str, list[str]]) -> None:
    """Refuse tables of these names that are not the recorder's, or not all of them."""
    there = columns["states"]
    if "metadata_id" in there and "states_meta" not in columns:
        raise InputError(
            f"{_hidden(source)}: has no table 'states_meta', which names the entities of Home "
            "Assistant. Copy the database whole."
        )
    for wanted in (("state",), ("metadata_id", "entity_id"), ("last_updated_ts", "last_updated")):
        if not {*wanted} & {*there}:
            raise InputError(
                f"{_hidden(source)}: its table 'states' has no column {' or '.join(wanted)}, so it "
                "is not of Home Assistant's recorder. Give another database."
            )


def _recorder(
    ask: _Questions, columns: dict[str, list[str]], found: EventList, statistics: bool
) -> Events:
    begins: dict[str, float] = {}
    for items, values, seconds in _states(ask, columns):
        found.add(seconds, items, values)
        if statistics:
            first = pd.Series(seconds).groupby(np.array(items, dtype=object)).min()
            begins |= {str(k): min(float(v), begins.get(str(k), np.inf)) for k, v in first.items()}
    if statistics and "statistics" in columns:
        _add_statistics(ask, columns, begins, found)
    events, runs = found.finish(), columns.get("recorder_runs")
    return events if runs is None else replace(events, gaps=_gaps(ask, runs, events.times))


def _states(
    ask: _Questions, columns: dict[str, list[str]]
) -> Iterator[tuple[list[str], Sequence[Any], Any]]:
    """Yield items, states and times; in the middle of a migration, whichever way a row has them."""
    there = columns["states"]
    names = _names(ask, "states_meta", "metadata_id", "entity_id", columns)
    items = [each for each in ("metadata_id", "entity_id")[not names :] if each in there]
    times = [each for each in ("last_updated_ts", "last_updated") if each in there]
    old = f"SELECT 1, 1 FROM states WHERE {items[0]} IS NULL OR {times[0]} IS NULL LIMIT 1"
    if not any(ask.batches(old)):
        items, times = items[:1], times[:1]
    for values, *rest in ask.batches(f"SELECT state, {', '.join([*items, *times])} FROM states"):
        keys, moments = _first(rest[: len(items)]), _first(rest[len(items) :])
        yield [names.get(key, str(key)) for key in keys], values, _seconds(moments)


def _first(columns: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """Return the first value of each row that there is."""
    if len(columns) == 1:
        return columns[0]
    return [next((v for v in row if v is not None), None) for row in zip(*columns, strict=True)]


def _add_statistics(
    ask: _Questions, columns: dict[str, list[str]], begins: dict[str, float], found: EventList
) -> None:
    """Add hourly means, known when the hour is over, from before an entity's first state."""
    names = _names(ask, "statistics_meta", "id", "statistic_id", columns)
    begin = "start_ts" if "start_ts" in columns["statistics"] else "start"
    query = f"SELECT metadata_id, COALESCE(mean, state), {ask.quoted(begin)} FROM statistics"
    for keys, values, times in ask.batches(query):
        items = [names.get(key, str(key)) for key in keys]
        seconds = _seconds(times) + _HOUR
        late = seconds >= np.array([begins.get(each, np.inf) for each in items])
        found.add(np.where(late, np.nan, seconds), items, values)


def _gaps(ask: _Questions, columns: list[str], states: Floats) -> list[tuple[float, float]]:
    """Return from when to when the recorder did not run.

    ``states``: when states were written. Of a run that ended badly, as in a power cut, Home
    Assistant sets the end at its next start to that very start: the last state tells how long it
    did run.
    """
    flag = "closed_incorrect" if "closed_incorrect" in columns else "0"
    query = f"SELECT {ask.quoted('start')}, {ask.quoted('end')}, {flag} FROM recorder_runs"
    rows = [row for batch in ask.batches(query) for row in zip(*batch, strict=True)]
    starts, ends = (_seconds([row[k] for row in rows]) for k in range(2))
    known = zip(starts, ends, (bool(row[2]) for row in rows), strict=True)
    runs = sorted(run for run in known if not np.isnan(run[0]))
    gaps = []
    for (start, end, crashed), (begin, _, _) in pairwise(runs):
        if crashed or not end < begin:
            end = np.max(states, where=states < begin, initial=start)
        gaps.append((float(end), float(begin)))
    return gaps


def _names(
    ask: _Questions, table: str, key: str, name: str, columns: dict[str, list[str]]
) -> dict[Any, str]:
    if table not in columns:
        return {}
    batches = ask.batches(f"SELECT {key}, {name} FROM {ask.quoted(table)}")
    return {k: str(v) for keys, names in batches for k, v in zip(keys, names, strict=True)}


def _seconds(times: Sequence[Any], zone: str = "UTC") -> Floats:
    """Return seconds; the recorder's texts and datetimes are in UTC."""
    return utc_seconds(pd.Series(list(times), dtype=object), zone)


# --- openHAB ---------------------------------------------------------------------------------


def _openhab(
    ask: _Questions, columns: dict[str, list[str]], found: EventList, items: str, zone: str
) -> Events:
    """Read a table per item: item0001, or the item's name and number.

    Times are local ones; MySQL alone converts them, here to UTC.
    """
    names = _names(ask, items, "itemid", "itemname", columns)
    for number, name in names.items():
        wanted = (f"item{int(number):04}", f"{name}_{int(number):04}".lower(), name.lower())
        table = next((each for each in columns if each.lower() in wanted), None)
        if table is None or not _TABLE.fullmatch(table):
            continue
        for values, times in ask.batches(f"SELECT value, time FROM {ask.quoted(table)}"):
            seconds = _seconds(times, "UTC" if ask.kind == "mysql" else zone)
            found.add(seconds, [name] * len(values), values)
    return found.finish()


# --- Connections -----------------------------------------------------------------------------


class _Questions:
    """A read-only connection, and what to ask it."""

    def __init__(self, connection: Any, kind: str) -> None:
        self._connection, self.kind = connection, kind

    def quoted(self, name: str) -> str:
        return f"`{name}`" if self.kind == "mysql" else f'"{name}"'

    def columns(self) -> dict[str, list[str]]:
        """Return the columns of every table."""
        query = (
            "SELECT m.name, p.name FROM sqlite_master m, pragma_table_info(m.name) p "
            "WHERE m.type = 'table'"
        )
        if self.kind != "sqlite":
            schema = "DATABASE()" if self.kind == "mysql" else "current_schema()"
            query = (
                "SELECT table_name, column_name FROM information_schema.columns "
                f"WHERE table_schema = {schema}"
            )
        found: dict[str, list[str]] = {}
        for tables, names in self.batches(query):
            for table, name in zip(tables, names, strict=True):
                found.setdefault(str(table), []).append(str(name))
        return found

    def batches(self, query: str) -> Iterator[tuple[tuple[Any, ...], ...]]:
        """Yield the columns of the answer, some rows at a time."""
        # PostgreSQL keeps the answer on the server for a cursor that has a name.
        named = {"name": "discreet_import"} if self.kind == "postgresql" else {}
        with closing(self._connection.cursor(**named)) as cursor:
            cursor.execute(query)
            while rows := cursor.fetchmany(_AT_ONCE):
                yield tuple(zip(*rows, strict=True))


@contextmanager
def _connected(source: str) -> Iterator[_Questions]:
    scheme = urlsplit(source).scheme if "://" in source else ""
    try:
        if not scheme:
            with _sqlite(Path(source)) as file:
                yield _Questions(file, "sqlite")
        elif scheme.startswith("postgres"):
            with closing(_open_postgres(source)) as server:
                yield _Questions(server, "postgresql")
        else:
            with closing(_open_mysql(source)) as server:
                yield _Questions(server, "mysql")
    except InputError:
        raise
    except ImportError as error:
        extra = "postgres" if scheme.startswith("postgres") else "mariadb"
        raise InputError(
            f'reading {scheme}:// needs {error.name}. Run: pip install "discreet[{extra}]"'
        ) from None
    except Exception as error:  # each driver has its own kinds, all about this database
        if type(error).__module__.split(".")[0] not in ("sqlite3", "psycopg", "pymysql"):
            raise
        raise InputError(
            f"{_hidden(source)}: cannot be read ({shown(str(error), 160)}). Check that it is "
            "there, whole, and that you may read it."
        ) from None


@contextmanager
def _sqlite(file: Path) -> Iterator[sqlite3.Connection]:
    """Open a file so that none appears beside it."""
    file = file.resolve()  # what SQLite has written ahead is beside the file, not beside a link
    log, shared = (file.with_name(f"{file.name}-{each}") for each in ("wal", "shm"))
    with file.open("rb") as stream:
        writes_ahead = stream.read(20)[18:] == b"\2\2"
    if not writes_ahead or (log.exists() and shared.exists()):  # in use, then
        with closing(_open_sqlite(file, "mode=ro")) as connection:
            yield connection
    elif log.exists():  # of a crash, and what it holds counts
        with tempfile.TemporaryDirectory(prefix="discreet-") as folder:
            with _unchanged(file, log):
                for each in (file, log):
                    _copy(each, Path(folder, each.name))
            with closing(_open_sqlite(Path(folder, file.name), "mode=ro")) as connection:
                yield connection
    else:
        with _unchanged(file, log), closing(_open_sqlite(file, "immutable=1")) as connection:
            yield connection


@contextmanager
def _unchanged(*files: Path) -> Iterator[None]:
    """Refuse what was read from files that were written meanwhile, or came to be."""
    before = [_state(each) for each in files]
    yield
    if [_state(each) for each in files] != before:
        raise InputError(f"{files[0]}: began to be written while it was read. Import it again.")


def _state(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size


def _copy(file: Path, to: Path) -> None:
    try:
        shutil.copyfile(file, to)
    except OSError as error:
        raise InputError(
            f"{file}: cannot be copied to {to.parent} ({error.strerror}). Name a folder with room "
            "for it in TMPDIR."
        ) from None


def _open_sqlite(file: Path, how: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{file.resolve().as_uri()}?{how}", uri=True)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    for line in ("query_only = ON", "trusted_schema = OFF"):  # the schema is as hostile as the rest
        connection.execute(f"PRAGMA {line}")
    connection.execute("BEGIN")
    return connection


def _open_postgres(url: str) -> Any:
    import psycopg

    connection = psycopg.connect(url.replace("postgres://", "postgresql://"), connect_timeout=10)
    connection.read_only = True
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ  # one state of all tables
    return connection


def _open_mysql(url: str) -> Any:
    import pymysql
    import pymysql.cursors

    at = urlsplit(url)
    connection = pymysql.connect(
        host=at.hostname or "localhost",
        port=at.port or 3306,
        user=unquote(at.username or ""),
        password=unquote(at.password or ""),
        database=unquote(at.path.lstrip("/")),
        charset="utf8mb4",
        connect_timeout=10,
        cursorclass=pymysql.cursors.SSCursor,
        init_command="SET time_zone = '+00:00'",
    )
    with connection.cursor() as cursor:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
    return connection


def _hidden(source: str) -> str:
    """Return a URL without its password."""
    return re.sub(r"//[^/@]*@", "//", source)


# --- Any log --------------------------------------------------------------------------------


def read_log(
    source: str,
    zone: str,
    tell: Tell | None = None,
    *,
    statistics: bool = False,
    time: str | None = None,
    item: str | None = None,
    value: str | None = None,
) -> Events:
    """Read a log of any kind; see the readers for the options. ``tell``: as of ``EventList``.

    Raises InputError: if it cannot be read, with the reason.
    """
    if "://" in source:
        if urlsplit(source).scheme not in SERVERS:
            raise InputError(
                f"a log at {urlsplit(source).scheme}:// cannot be read. Use "
                "postgresql:// or mysql://, or a file."
            )
        return read_database(source, zone, tell, statistics=statistics)
    file = read_standard_input() if source == STANDARD_INPUT else Path(source)
    check_file(file)
    try:
        with open_plain(file) as stream:
            begin = stream.read(1024)
        if begin.startswith(MAGIC):
            return read_database(str(file), zone, tell, statistics=statistics)
        if begin.lstrip().startswith(b"{"):
            return read_json_log(file, zone, tell)
        if begin.lstrip().startswith(b"["):
            return read_json_list(file, zone, tell)
        return read_csv_log(file, zone, tell, time, item, value)
    except (EOFError, BadGzipFile, zlib.error) as error:
        raise InputError(f"{file}: damaged gzip file ({error}). Compress it again.") from None


def check_zone(zone: str) -> None:
    """Refuse a time zone that there is not."""
    try:
        ZoneInfo(zone)
    except (ValueError, OSError, LookupError):
        raise InputError(
            f"--timezone must be a time zone such as Europe/Berlin or UTC, got {zone!r}."
        ) from None
