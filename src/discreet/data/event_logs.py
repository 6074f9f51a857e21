"""Event logs that are taken for tables: a row per event, and one column says what it is about.

What is learned from such a file as it stands is senseless: its columns are no sensors.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from discreet.data.columns import Column, is_missing, is_numeric, unusable_kind, word_kind
from discreet.data.roles import Role
from discreet.files import as_argument

# What those who write such logs call the columns, the most telling first.
TIMES = ("last_updated", "last_changed", "when", "time", "timestamp", "tst", "ts", "date")
ITEMS = ("entity_id", "itemname", "item", "topic", "device", "sensor", "name")
VALUES = ("state", "value", "payload", "message")
_SUFFIXES = (".db", ".sqlite", ".sqlite3", ".json", ".jsonl", ".ndjson")
# sensor.power of Home Assistant, zigbee2mqtt/hall of MQTT
_ADDRESS = re.compile(r"[a-z_]+\.\w+|[^/\s]+(/[^/\s]+)+", re.ASCII)
_NO_CONTENT = ("clock", "identifier", "constant", "empty")
_FEWEST_EVENTS = 4  # rows
_LOOKED_AT = 5_000  # rows, from all over the log


@dataclass(frozen=True)
class EventLog:
    """The columns of an event log, and the items that rows are about."""

    time: str
    item: str
    value: str
    items: frozenset[str]


def usual_column(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """Return the column with the most telling of the usual names."""
    by_name = {name.strip().lower(): name for name in names}
    return next((by_name[each] for each in usual if each in by_name), None)


def find_event_log(rows: pd.DataFrame, roles: Sequence[Role]) -> EventLog | None:
    """Return the columns of an event log, None of a table with a column for each sensor.

    ``rows``: the first ones. ``roles``: what the columns seem to be.
    """
    clocks = [each.column for each in roles if each.role == "clock"]
    contents = [each.column for each in roles if each.role not in _NO_CONTENT]
    if not clocks or len(rows) < _FEWEST_EVENTS:
        return None
    time = usual_column(clocks, TIMES) or clocks[0]
    rows = rows.iloc[:: len(rows) // _LOOKED_AT + 1]  # many logs are sorted by item
    for item, value, known in _candidates([str(name) for name in rows.columns], contents, time):
        column = rows[item][~is_missing(rows[item])]
        if is_numeric(column) or unusable_kind(column) is not None:
            continue
        if not 1 < column.nunique() <= len(column) / 2:
            continue
        alone = not {*contents} - {item, value}
        telling = _addresses(column) or _kinds_differ(column, rows[value])
        if (alone and (known or telling)) or (known and telling):
            return EventLog(time, item, value, frozenset(map(str, column.unique())))
    return None


def _candidates(
    names: list[str], contents: list[str], time: str
) -> Iterator[tuple[str, str, bool]]:
    """Yield columns that may be item and value, and whether they are called like it."""
    rest = [name for name in names if name != time]
    item, value = usual_column(rest, ITEMS), usual_column(rest, VALUES)
    if item is not None and value is not None:
        yield item, value, True
    if len(contents) == 2:
        yield contents[0], contents[1], False
        yield contents[1], contents[0], False


def _addresses(items: Column) -> bool:
    return all(_ADDRESS.fullmatch(str(each)) for each in items.unique())


def _kinds_differ(items: Column, values: Column) -> bool:
    """Whether some items have numbers for values and others texts, but none has both."""
    kinds = pd.Series([word_kind(each) for each in values[items.index]], index=items.index)
    there = (kinds != "missing") & ~is_missing(values[items.index])
    numbers = (kinds[there] == "number").groupby(items[there].astype(str)).mean()
    return bool(len(numbers) > 1 and numbers.isin((0, 1)).all() and numbers.nunique() == 2)


# --- What to do -------------------------------------------------------------------------------


def import_command(table: str, log: EventLog, names: Sequence[str], facts: Iterable[str]) -> str:
    """Return the command that makes a table of the log; ``facts`` that are items are labels."""
    words = ["discreet", "import", as_argument(table)]
    wanted = ((log.time, TIMES, "--time-column"), (log.item, ITEMS, "--item"),
              (log.value, VALUES, "--value"))  # fmt: skip
    for column, usual, option in wanted:
        words += [] if usual_column(names, usual) == column else [option, column]
    words += [word for fact in facts if fact in log.items for word in ("--label", fact)]
    return shlex.join([*words, "--out", table_name(table)])


def table_name(log: str) -> str:
    """Return what to call the table that is made of a log."""
    stem = Path(log).name.split(".")[0].replace("*", "")
    return "table.csv" if stem in ("", "-") else f"{stem}-table.csv"


def describe_event_log(table: str, log: EventLog, command: str) -> str:
    """Return why nothing can be learned from it as it stands, and what to run."""
    return (
        f"{table}: is an event log, with a row per event: {log.item!r} says which of "
        f"{len(log.items)} items it is about, {log.value!r} its value. A table to learn from has a "
        f"column for each item. Run: {command}"
    )


def hint_at_import(file: Path) -> str:
    """Return what to run for a file that is no table but, by its name, may be a log."""
    if file.suffix.lower() not in _SUFFIXES:
        return ""
    command = shlex.join(["discreet", "import", as_argument(file), "--out", table_name(str(file))])
    return f" If it is a log of events, run: {command}"
