"""Logs in text: long CSV with a row per event, and JSON lines as captured from MQTT."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from discreet.data.columns import check_column
from discreet.data.roles import ITEMS, TIMES, VALUES, has_decimal_comma, usual_column
from discreet.data.tables import read_table
from discreet.data.text_files import MAX_LINE, check_text, read_text_batches
from discreet.errors import InputError, shown
from discreet.importing.rounds import EventList, Events, Tell, utc_seconds

_Event = tuple[Any, str, Any, bool]  # time, item, value, and whether it was retained
_AT_ONCE = 50_000  # lines
_MOST_FIELDS = 200  # of one message
_DEEPEST = 4  # objects inside one another
_AVAILABILITY = "/availability"
MARK = "record"
"""The field of a line of ``discreet record`` that tells when it starts and stops to receive."""
_MOST_LISTED = 1 << 28  # bytes of a list, which is read whole, once unpacked


def read_csv_log(
    file: Path,
    zone: str,
    tell: Tell | None,
    time: str | None = None,
    item: str | None = None,
    value: str | None = None,
) -> Events:
    """Read a CSV with a row per event: Home Assistant's history or logbook, openHAB's, any other.

    ``time``, ``item``, ``value``: the columns, if they have unusual names. A file without a column
    for the item is about one, called like the file.
    """
    found = EventList(tell)
    chosen: list[str] = []
    earlier: list[pd.DataFrame] = []
    unread = 0
    for batch in _batches(file):
        names = [str(name) for name in batch.columns]
        if not chosen:
            chosen = [
                _column(file, names, time, TIMES, "--time-column"),
                _column(file, names, item, ITEMS, "--item") if item or len(names) > 2 else "",
                _column(file, names, value, VALUES, "--value"),
            ]
        whole = batch.dropna(subset=[name for name in chosen[:2] if name])
        items = whole[chosen[1]].astype(str) if chosen[1] else [file.stem] * len(whole)
        rows = pd.DataFrame({"time": whole[chosen[0]], "item": items})
        rows = pd.concat([*earlier, rows])
        seconds = utc_seconds(rows["time"], zone, rows["item"])[len(rows) - len(whole) :]
        earlier = [rows[_same_day(rows["time"])]]
        _check_times(file, whole[chosen[0]], seconds)
        found.add(seconds, items, map(_plain, whole[chosen[2]]))
        unread += len(batch.dropna(how="all")) - int(np.isfinite(seconds).sum())
    return replace(found.finish(), unread=unread)


def _batches(file: Path) -> Iterable[pd.DataFrame]:
    if file.name.lower().endswith((".xlsx", ".parquet")):
        return [read_table(file)]
    check_text(file)
    return read_text_batches(file)


def _same_day(moments: pd.Series[Any]) -> Any:
    """Return which of the last times are of one day, which may have an hour twice."""
    found = np.zeros(len(moments), dtype=bool)
    if moments.dtype.kind not in "iufM" and len(moments):
        last = moments[-_AT_ONCE:].astype(str).str.strip().str[:10]  # a date, however it is written
        found[-_AT_ONCE:] = (last == last.iloc[-1]).to_numpy()
    return found


def _plain(value: object) -> object:
    """Return a value as other logs write it.

    Whole numbers are floats where one is missing, and decimal commas are texts where another item
    has texts.
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return str(value).replace(",", ".") if has_decimal_comma(value) else value


def _column(
    file: Path, names: Sequence[str], named: str | None, usual: Sequence[str], option: str
) -> str:
    if named is not None:
        check_column(names, named, option)
        return named
    found = usual_column(names, usual)
    if found is None:
        raise InputError(
            f"{file}: no column is called {', '.join(usual[:4])} or the like. Name it with "
            f"{option}; there are: {', '.join(map(repr, names[:20]))}. A table with a column for "
            "each sensor needs no import."
        )
    return found


def _check_times(file: Path, texts: pd.Series[Any], seconds: Any) -> None:
    if len(seconds) and np.isnan(seconds).all():
        raise InputError(
            f"{file}: column {texts.name!r} has {shown(texts.iloc[0])}, which is no time. Write "
            "times as in 2026-01-31T14:05:00+01:00 or as seconds since 1970, or name another "
            "column with --time-column."
        )


# --- JSON lines -------------------------------------------------------------------------------


def read_json_log(file: Path, zone: str, tell: Tell | None) -> Events:
    """Read messages as ``discreet record`` or ``mosquitto_sub -F %j`` writes them.

    A payload that is a JSON object gives an item per field: ``zigbee2mqtt/hall#occupancy``, and
    ``zigbee2mqtt/lamp#color.x`` of a field inside another. A field that is null, and a device whose
    ``availability`` is offline, have no value until the next one. Lines that are cut short, as the
    last of a capture may be, are skipped.
    """
    found, capture = EventList(tell), _Capture()
    for rows in _messages(file, capture):
        times, items, values, retained = map(list, zip(*rows, strict=True))
        found.add(utc_seconds(pd.Series(times, dtype=object), zone), items, values, retained)
    for item, times in capture.endings(found.items):
        seconds = utc_seconds(pd.Series(times, dtype=object), zone)
        found.add(seconds, [item] * len(times), [None] * len(times))
    return found.finish(capture.gaps)


def open_plain(file: Path) -> IO[bytes]:
    """Open a file that may be gzipped."""
    with file.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    return gzip.open(file) if packed else file.open("rb")  # type: ignore[return-value]


class _Capture:
    """What a capture tells beside values: when it was interrupted, and what has none any more.

    ``gaps``: from and to. ``discreet record`` marks when it starts to receive, and when it stops
    unless it is killed or the connection breaks: then the last message tells.
    """

    def __init__(self) -> None:
        self.gaps: list[tuple[float, float]] = []
        self._last: float | None = None
        self._ended: dict[str, list[Any]] = {}

    def look_at(self, message: dict[str, Any]) -> None:
        """Look at a line, in the order of the log."""
        time, mark = message.get("time"), message.get(MARK)
        if not isinstance(time, int | float) or not math.isfinite(time):
            return
        if mark == "start" and self._last is not None and self._last < time:
            self.gaps.append((self._last, float(time)))
        self._last = float(time)

    def end(self, time: Any, what: str) -> None:
        """End the values of a field and those inside it, or of all fields of a topic."""
        self._ended.setdefault(what, []).append(time)

    def endings(self, items: Sequence[str]) -> Iterator[tuple[str, list[Any]]]:
        """Yield items with the times at which they ceased to have a value."""
        for item in items if self._ended else ():
            topic, _, path = item.partition("#")
            names = path.split(".") if path else []
            held_by = [topic, *(f"{topic}#{'.'.join(names[: k + 1])}" for k in range(len(names)))]
            for each in held_by:
                if each in self._ended:
                    yield item, self._ended[each]


def _messages(file: Path, capture: _Capture) -> Iterator[list[_Event]]:
    rows: list[_Event] = []
    with TextIOWrapper(open_plain(file), encoding="utf-8", errors="replace") as lines:
        while line := lines.readline(MAX_LINE):
            message = _parsed(line)
            if isinstance(message, dict):
                capture.look_at(message)
                rows += _events_of(message, capture)
            if len(rows) >= _AT_ONCE:
                yield rows
                rows = []
    if rows:
        yield rows


def _events_of(message: dict[str, Any], capture: _Capture) -> Iterator[_Event]:
    time, item = _of(message, TIMES), _of(message, ITEMS)
    value = _of(message, VALUES[::-1])
    if not isinstance(time, str | int | float) or not isinstance(item, str):
        return
    retained = bool(message.get("retain"))
    content = _parsed(value) if isinstance(value, str) and value[:1] == "{" else value
    state = content.get("state") if isinstance(content, dict) else content
    if item.endswith(_AVAILABILITY) and state == "offline":
        capture.end(time, item.removesuffix(_AVAILABILITY))
    if not isinstance(content, dict):
        yield time, item, value, retained
        return
    for name, each in islice(_fields(content), _MOST_FIELDS):
        if each is None:
            capture.end(time, f"{item}#{name}")
        else:
            yield time, f"{item}#{name}", each, retained


def _fields(content: dict[str, Any], before: str = "", depth: int = 1) -> Iterator[tuple[str, Any]]:
    """Yield the fields of an object by name, those of objects inside it with dots."""
    for name, each in content.items():
        if isinstance(each, dict) and depth < _DEEPEST:
            yield from _fields(each, f"{before}{name}.", depth + 1)
        elif each is None or isinstance(each, str | int | float | bool):
            yield f"{before}{name}", each


def _of(message: dict[str, Any], names: Sequence[str]) -> Any:
    return next((message[each] for each in names if each in message), None)


def read_json_list(file: Path, zone: str, tell: Tell | None) -> Events:
    """Read states as Home Assistant's API lists them: of history by entity, of the logbook in one.

    Raises InputError: if there are none, or the list is too long to be read whole.
    """
    with open_plain(file) as stream:
        text = stream.read(_MOST_LISTED + 1)
    if len(text) > _MOST_LISTED:
        raise InputError(
            f"{file}: is a list of JSON of more than {_MOST_LISTED >> 20} MiB. Save fewer days to "
            "a file, or import from the recorder's database."
        )
    content = _parsed(text.decode("utf-8", "replace"))
    events = list(_listed(content)) if isinstance(content, list) else []
    if not events:
        raise InputError(
            f"{file}: begins like a list of JSON and holds no states. Save what "
            "/api/history/period answers, or give a CSV."
        )
    times, items, values = zip(*events, strict=True)
    found = EventList(tell)
    found.add(utc_seconds(pd.Series(times, dtype=object), zone), items, values)
    return found.finish()


def _listed(content: list[Any]) -> Iterator[tuple[Any, str, object]]:
    """Yield the states of a list, or of lists, of which the first state alone may name the item."""
    for part in (each if isinstance(each, list) else [each] for each in content):
        item = None
        for state in (each for each in part if isinstance(each, dict)):
            item, time = _of(state, ITEMS) or item, _of(state, TIMES)
            if isinstance(item, str) and isinstance(time, str | int | float):
                yield time, item, _of(state, VALUES)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
