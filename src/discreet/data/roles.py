"""What each column of a table seems to be, by names and first rows, and why.

A sensor reads something in every row anew. Times, counters and identifiers do not: what is learned
from them holds for no other row, and they tell which row it was. So they are no sensors unless they
are named as such.

*Event logs that are taken for tables: a row per event, and one column says what it is about.* What
is learned from such a file as it stands is senseless: its columns are no sensors.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from discreet.arrays import Ints
from discreet.data.columns import (
    MAX_CLASSES,
    Column,
    as_floats,
    distinct_values,
    is_missing,
    is_numeric,
    plain,
    understood,
    unusable_kind,
    word_kind,
    written,
    written_column,
)
from discreet.data.groups import epoch_seconds, holds_times
from discreet.errors import as_argument, shown

# --- Columns --------------------------------------------------------------------------------

MOST_ROWS = 20_000
"""Most rows that are looked at, from the first: the same of a table in memory and a stream."""
NO_SENSORS = ("clock", "identifier")
"""What is left out unless it is named as a sensor."""
_FEWEST = 30  # rows that tell a counter from chance
_FEWEST_STEPS = 4  # values of a counter
_FEWEST_OF_CLASS = 10  # rows of a class that show that a column answers
_OFTEN_DIFFERENT = 0.95
_WITH_UNIT = re.compile(r"\s*[+-]?\d+(?:[.,]\d+)?\s*([^\s\d.,:/+-][^\d]{0,9}?)\s*")
_GLANCE = 200  # rows that nearly always show that a column does not answer
_LEADS = (1, 2, 3)  # rows ahead that a column may know of
_ID = re.compile(r"(^|[^a-z])(id|uid|uuid|guid|key|serial|index|idx|nr)$", re.IGNORECASE)
_TIME = re.compile(r"time|date|stamp|epoch|(^|_)(ts|when)$|last_(changed|updated)", re.IGNORECASE)
_PRIVATE = re.compile(r"who|person|user|resident|sex|gender|race|name|private", re.IGNORECASE)
_PUBLIC = re.compile(
    r"fall|alarm|occup|label|target|class|answer|income|public|event|activity", re.IGNORECASE
)


@dataclass(frozen=True)
class Role:
    """What a column is for.

    ``role``: sensor, clock, identifier, constant, empty, unusable, copy, answer (of a fact, known
    before it should be), public fact, private fact, group or left out. ``missing``: rows without a
    value, and ``values``: different ones, among those looked at. ``of``: what it copies or answers.
    """

    column: str
    role: str
    why: str
    missing: int
    values: int
    of: str | None = None


def guess_roles(
    rows: pd.DataFrame, named: Mapping[str, str], index: Collection[str] = ()
) -> list[Role]:
    """Return what every column seems to be.

    ``rows``: the first ones. ``named``: columns whose role the user has named. ``index``: those
    that number or name the rows, by the file's own account.
    """
    names = [str(name) for name in rows.columns]
    found = {name: _describe(name, rows[name], named.get(name)) for name in names}
    for name in (each for each in names if each in index and each not in named):
        if found[name].role == "sensor":
            of_index = "is a level of the index that pandas stored with the rows"
            found[name] = replace(found[name], role="identifier", why=of_index)
    facts = [name for name in names if named.get(name, "").endswith("fact")]
    facts = [name for name in facts if unusable_kind(rows[name]) is None]
    seen = _Seen()
    for name in (name for name in names if found[name].role == "sensor"):
        column = understood(rows[name])
        if (other := seen.copied(name, column)) is not None:
            found[name] = _as(found[name], "copy", other, f"tells exactly what {other!r} tells")
            continue
        for fact in facts:
            if (why := _answers(column, rows[fact], fact)) is not None:
                found[name] = _as(found[name], "answer", fact, why)
                break
    return list(found.values())


def _as(role: Role, other: str, of: str, why: str) -> Role:
    return Role(role.column, other, why, role.missing, role.values, of)


def guess_facts(rows: pd.DataFrame, roles: Iterable[Role]) -> tuple[str | None, str | None]:
    """Return which columns may be the public and the private fact, by their names and classes."""
    few = [
        role.column
        for role in roles
        if role.role == "sensor" and 2 <= role.values <= min(MAX_CLASSES, 20) and not role.missing
    ]
    private = next((name for name in few if _PRIVATE.search(name)), None)
    public = next((name for name in few[::-1] if _PUBLIC.search(name) and name != private), None)
    texts = [name for name in few if name not in (public, private) and not is_numeric(rows[name])]
    public = public or (texts.pop() if texts else None)
    return public, private or (texts.pop() if texts else None)


# --- One column -----------------------------------------------------------------------------


def _describe(name: str, column: Column, named: str | None) -> Role:
    column = understood(column)
    gone = is_missing(column)
    present = column[~gone]
    values = present.nunique() if present.dtype != object else len(set(written_column(present)))
    role, why = _guess(name, present, values, bool(gone.any()))
    named = None if named == "sensor" and role == "unusable" else named
    return Role(name, named or role, why, int(gone.sum()), values)


def _guess(name: str, present: Column, values: int, gaps: bool) -> tuple[str, str]:
    if not len(present):
        return "empty", "has no value in any row"
    one, odd = shown(_first(present)), unusable_kind(present)
    if values == 1 and not gaps and odd is None:
        return "constant", f"reads {one} in all rows"
    if pd.api.types.is_datetime64_any_dtype(present.dtype) or holds_times(present):
        return "clock", f"holds times like {one}"
    if odd is not None:
        return "unusable", f"holds {odd[0]}, which have no code"
    found = _number_role if is_numeric(present) else _text_role
    return found(name, present, values) or ("sensor", _contents(present, values))


def _first(present: Column) -> object:
    value = plain(present.iloc[0])
    return str(present.iloc[0]) if value is None else value


def _number_role(name: str, present: Column, values: int) -> tuple[str, str] | None:
    numbers = as_floats(present)
    if len(numbers) < _FEWEST or not np.isfinite(numbers).all():
        return None
    # Not as floats, which do not tell large whole numbers apart.
    rises = present.is_monotonic_increasing and values >= _FEWEST_STEPS
    often = values >= _OFTEN_DIFFERENT * len(numbers)
    if not np.isnan(epoch_seconds(present)).any() and (rises or often or _TIME.search(name)):
        return "clock", f"holds times since 1970 like {written(float(numbers[0]))}"
    if np.any(numbers % 1):
        return None
    if rises:
        return "identifier", (
            "rises with every row, as a row's number does"
            if often
            else f"only rises, {values} values in {len(numbers)} rows: a counter, or the number of "
            "a day or session"
        )
    if often and _ID.search(name):
        return "identifier", f"is called an identifier and is different in {values} rows"
    return None


def _text_role(name: str, present: Column, values: int) -> tuple[str, str] | None:
    numbers = mostly_numbers(present) or unit_of(present) is not None
    if not pd.api.types.is_bool_dtype(present.dtype) and not numbers:
        named = _ID.search(name) is not None and values >= _OFTEN_DIFFERENT * len(present)
        if values > max(10, len(present) / 2) or (named and len(present) >= _FEWEST):
            one = shown(present.iloc[-1])
            return "identifier", f"has {values} different texts in {len(present)} rows, like {one}"
    return None


def mostly_numbers(present: Column) -> bool:
    """Whether texts are numbers, but for a few."""
    numbers = others = 0
    if unusable_kind(present) is not None:
        return False
    for value, count in Counter(present).items():
        kind = word_kind(value)
        if kind == "number" or has_decimal_comma(value):
            numbers += count
        elif kind != "missing":
            others += count
    return numbers >= 4 * others and numbers > 0


def unit_of(present: Column) -> str | None:
    """Return the unit that stands behind all numbers, as in ``21.5 °C``; None if there is none."""
    found = set()
    for value in present.unique() if unusable_kind(present) is None else ():
        if (unit := with_unit(value)) is not None:
            found.add(unit)
        elif word_kind(value) not in ("number", "missing"):
            return None
    return found.pop() if len(found) == 1 else None


def with_unit(value: object) -> str | None:
    """Return the unit behind a number in a text such as ``21.5 °C``; None if there is none."""
    match = _WITH_UNIT.fullmatch(value) if isinstance(value, str) else None
    return None if match is None else match[1]


def has_decimal_comma(value: object) -> bool:
    """Whether a value is a text such as ``21,5``."""
    return isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d+,\d+\s*", value) is not None


def _contents(present: Column, values: int) -> str:
    if is_numeric(present):
        numbers = as_floats(present)
        return f"{values} numbers from {numbers.min():g} to {numbers.max():g}"
    different = pd.Series(list(distinct_values(present)), dtype=object)
    listed = ", ".join(sorted(set(written_column(different)))[:4])
    return f"{values} values: {shown(listed)[1:-1]}{', ...' if values > 4 else ''}"


# --- Columns beside one another ---------------------------------------------------------------


@dataclass(frozen=True)
class _Codes:
    """The values of a column as numbers, 0 where there is none.

    ``many``: so many are different that all such columns would look alike, but for their order.
    ``gaps``: whether values are missing.
    """

    numbers: Ints
    many: bool
    gaps: bool


class _Seen:
    """Columns that were looked at, to find others that tell the same where both have a value.

    They may be equal, in another unit or in other words.
    """

    def __init__(self) -> None:
        self._whole: dict[bytes, str] = {}
        self._codes: dict[str, _Codes] = {}

    def copied(self, name: str, column: Column) -> str | None:
        """Return the column before that tells the same, and keep this one."""
        codes = _coded(column)
        if codes is None:
            return None
        in_turn = codes.numbers if codes.many else pd.factorize(codes.numbers)[0] + 1
        key = np.where(codes.numbers == 0, 0, in_turn).astype(np.int32).tobytes()
        found = self._whole.setdefault(key, name)
        if found == name:
            others = ((each, other) for each, other in self._codes.items()
                      if codes.gaps or other.gaps)  # fmt: skip
            found = next((each for each, other in others if _tell_the_same(codes, other)), name)
        if found == name:
            self._codes[name] = codes
        return None if found == name else found


def _coded(column: Column) -> _Codes | None:
    """Return a column as numbers: by their order, if it holds any."""
    numeric = is_numeric(column)
    if numeric:
        ranks = pd.Series(as_floats(column)).rank(method="dense", na_option="keep")
        numbers = np.asarray(ranks.fillna(0), dtype=np.int64)
    else:
        numbers = pd.factorize(column, use_na_sentinel=True)[0].astype(np.int64) + 1
    many = int(numbers.max(initial=0)) > int(np.count_nonzero(numbers)) / 2
    if len(numbers) < _FEWEST or numbers.max() < 2 or (many and not numeric):
        return None
    return _Codes(numbers, many, bool((numbers == 0).any()))


def _tell_the_same(one: _Codes, two: _Codes) -> bool:
    both = np.flatnonzero((one.numbers > 0) & (two.numbers > 0))
    if len(both) < max(_FEWEST, len(one.numbers) / 2):
        return False
    return all(
        _pair_up(one.numbers[rows], two.numbers[rows], ordered=one.many or two.many)
        for rows in (both[:_GLANCE], both)  # the first nearly always show that they do not
    )


def _pair_up(one: Ints, two: Ints, *, ordered: bool) -> bool:
    """Whether each value of one has its own of the other, in the same order if that is asked."""
    (values, place), (others, other) = (np.unique(each, return_inverse=True) for each in (one, two))
    if len(values) != len(others):
        return False
    if ordered:
        return np.array_equal(place, other)
    return len(np.unique(place * len(values) + other)) == len(values)


def _answers(column: Column, fact: Column, name: str) -> str | None:
    """Return how a column answers a fact without an error, if it does."""
    classes = pd.factorize(fact)[0].astype(np.int64)
    there = ~is_missing(column)
    if (classes < 0).any() or there.sum() < len(there) / 2:
        return None
    if _settles(column[there], classes[there]):
        return f"tells {name!r} without a single error"
    for lead in _LEADS:
        known = there[:-lead]
        if _settles(column.iloc[:-lead][known], classes[lead:][known]) and np.any(np.diff(classes)):
            ahead = "next row" if lead == 1 else f"row {lead} later"
            return f"tells {name!r} of the {ahead} without a single error"
    return None


def _settles(column: Column, classes: np.ndarray) -> bool:
    """Whether stretches of numbers, or single values, have one class each, and not by luck."""
    if len(classes) > _GLANCE and not _pure(column.iloc[:_GLANCE], classes[:_GLANCE]):
        return False  # nearly always
    counts = np.bincount(classes)
    if len(counts) < 2 or counts.min() < _FEWEST_OF_CLASS:
        return False
    few = is_numeric(column) or column.nunique() <= len(classes) // 10
    return few and _pure(column, classes)


def _pure(column: Column, classes: np.ndarray) -> bool:
    if is_numeric(column):
        values, most = as_floats(column), 2 * (int(classes.max()) + 1)
    else:
        values, most = pd.factorize(column)[0].astype(np.float64), len(classes)
    order = np.lexsort((classes, values))
    value, held = values[order], classes[order]
    change = np.flatnonzero(np.diff(held))
    return len(change) < most and not np.any(value[change] == value[change + 1])


def roles_named(
    public: str | None,
    private: Sequence[str],
    groups: Sequence[str],
    times: Sequence[str],
    exclude: Sequence[str],
    sensors: Sequence[str] | None,
) -> dict[str, str]:
    """Return the roles that a user has named, by column."""
    found = dict.fromkeys(sensors or (), "sensor") | dict.fromkeys(exclude, "left out")
    found |= dict.fromkeys(times, "clock") | dict.fromkeys(groups, "group")
    found |= dict.fromkeys(private, "private fact")
    return found if public is None else found | {public: "public fact"}


# --- Event logs -------------------------------------------------------------------------------

# What those who write such logs call the columns, the most telling first.
TIMES = ("last_updated", "last_changed", "when", "time", "timestamp", "tst", "ts", "date")
ITEMS = ("entity_id", "itemname", "item", "topic", "device", "sensor", "name")
VALUES = ("state", "value", "payload", "message")
_SUFFIXES = (".db", ".sqlite", ".sqlite3", ".json", ".jsonl", ".ndjson")
# sensor.power of Home Assistant, zigbee2mqtt/hall of MQTT
_ADDRESS = re.compile(r"[a-z_]+\.\w+|[^/\s]+(/[^/\s]+)+", re.ASCII)
_NO_CONTENT = ("clock", "identifier", "constant", "empty")
_FEWEST_EVENTS = 4  # rows
_EVENTS_LOOKED_AT = 5_000  # rows, from all over the log


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
    rows = rows.iloc[:: len(rows) // _EVENTS_LOOKED_AT + 1]  # many logs are sorted by item
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
