"""Events to a table: a row for every round, a column for every item.

Rounds end at whole multiples of their length since 1970, UTC, so that a change of the clock
neither doubles nor loses one. A row holds what was last seen at its end, unless that is older than
``hold``, said to be unavailable, or from before a gap of the log. Of events, a row counts those
since the row before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.arrays import Floats, Ints
from discreet.data.groups import years_first
from discreet.errors import InputError, suggest
from discreet_sensor.words import MISSING

# --- Events ---------------------------------------------------------------------------------

Tell = Callable[[int], None]
NOTHING = -1
"""The number of a value that says that there is none."""


@dataclass(frozen=True)
class Events:
    """Events in the order of the log.

    ``times``: in seconds since 1970, UTC. ``item``, ``value``: numbers into ``items`` and
    ``values``; ``NOTHING`` for a value such as ``unavailable``. ``gaps``: stretches of time in
    which nothing was recorded, from and to. ``repeated``: which tell a state from before, as
    retained messages do, and nothing that happened then. ``unread``: how many lines of a CSV
    had no item, or no time that can be read; of other logs none are counted.
    """

    times: Floats
    item: NDArray[np.int32]
    value: NDArray[np.int32]
    items: list[str]
    values: list[str]
    repeated: NDArray[np.bool_]
    gaps: list[tuple[float, float]] = field(default_factory=list)
    unread: int = 0

    def only(self, patterns: Sequence[str]) -> Events:
        """Return the events of the items that match a name or a pattern such as ``sensor.*``.

        Raises InputError: if nothing matches a pattern.
        """
        for pattern in patterns:
            matching(pattern, self.items)
        kept = [any(_fits(name, each) for each in patterns) for name in self.items]
        numbers = np.cumsum(kept) - 1
        some = np.array(kept, dtype=bool)[self.item]
        return replace(
            self._chosen(some),
            item=numbers[self.item[some]].astype(np.int32),
            items=[name for name, keep in zip(self.items, kept, strict=True) if keep],
        )

    def within(self, begin: float | None, end: float | None) -> Events:
        """Return the events from one time to another.

        Raises InputError: if there are none.
        """
        low, high = (-np.inf if begin is None else begin), (np.inf if end is None else end)
        some = (self.times >= low) & (self.times <= high)
        if not some.any():
            raise InputError("the log has no events from --from to --to. Give other times.")
        return self._chosen(some)

    def _chosen(self, some: NDArray[np.bool_]) -> Events:
        return replace(
            self,
            times=self.times[some],
            item=self.item[some],
            value=self.value[some],
            repeated=self.repeated[some],
        )


def _fits(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)


def matching(pattern: str, items: Sequence[str]) -> list[str]:
    """Return the items that match; InputError if there are none."""
    found = [name for name in items if _fits(name, pattern)]
    if not found:
        raise InputError(f"the log has no item {pattern!r}. {suggest(pattern, items)}")
    return found


class EventList:
    """Events as they are read, kept in little memory.

    ``tell``: called now and then with how many there are.
    """

    def __init__(self, tell: Tell | None = None) -> None:
        self._tell, self._count = tell, 0
        self._parts: list[
            tuple[Floats, NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]
        ] = []
        self._items: dict[str, int] = {}
        self._values: dict[str, int] = {}

    @property
    def items(self) -> list[str]:
        return list(self._items)

    def add(
        self,
        times: Floats,
        items: Iterable[str],
        values: Iterable[object],
        repeated: Sequence[bool] | None = None,
    ) -> None:
        """Add events; rows without a time are dropped. ``repeated``: as of ``Events``."""
        item = _numbers(items, self._items)
        value = _numbers((_text(each) for each in values), self._values)
        known = np.isfinite(times)
        again = np.zeros(len(times), bool) if repeated is None else np.array(repeated, dtype=bool)
        self._parts.append((times[known], item[known], value[known], again[known]))
        self._count += len(times)
        if self._tell is not None:
            self._tell(self._count)

    def finish(self, gaps: Sequence[tuple[float, float]] = ()) -> Events:
        """Return all events.

        Raises InputError: if there are none.
        """
        if not any(len(times) for times, *_ in self._parts):
            raise InputError("the log has no events with a time. Give another log.")
        times, item, value, again = (
            np.concatenate(each) for each in zip(*self._parts, strict=True)
        )
        texts = list(self._values)
        gone = np.array([text.strip().lower() in MISSING for text in texts], dtype=bool)
        value[gone[value]] = NOTHING
        return Events(times, item, value, list(self._items), texts, again, list(gaps))


def _numbers(texts: Iterable[str], known: dict[str, int]) -> NDArray[np.int32]:
    return np.fromiter((known.setdefault(text, len(known)) for text in texts), dtype=np.int32)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and value != value):
        return ""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


# --- Times -----------------------------------------------------------------------------------

_BOTH = re.compile(r"Z(?=[+-]\d{2}:?\d{2}$)", re.ASCII)
_BACK = 1_800.0  # seconds that a clock goes back by when summer time ends, at least
_YEARS = 1678, 2261  # that nanoseconds since 1970 can hold
_FARTHEST = 9.2e9  # seconds since 1970, likewise


def utc_seconds(texts: pd.Series, zone: str, items: pd.Series | None = None) -> Floats:
    """Return times as seconds since 1970, NaN where there is none.

    Texts without an offset are local times of ``zone``. Those that occur twice, when summer time
    ends, are of the second hour once the log has gone back in time, for each of the ``items`` by
    itself if the log is sorted by them; those that do not occur are moved to the next that does.
    """
    if pd.api.types.is_datetime64_any_dtype(texts.dtype):
        texts = texts.astype(str).where(texts.notna())  # local times, of a sheet
    numbers = pd.to_numeric(texts, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    scale = 1000.0 ** np.clip(np.floor((np.log10(np.maximum(numbers, 1.0)) - 8.0) / 3.0), 0, 3)
    found: Floats = np.asarray(numbers / scale, dtype=np.float64)
    found[np.abs(found) > _FARTHEST] = np.nan
    rest = np.flatnonzero(np.isnan(found) & texts.notna().to_numpy())
    if len(rest):
        written = texts.iloc[rest].astype(str).str.strip()
        found[rest] = _text_seconds(years_first(written), zone, _blocks(items, len(texts))[rest])
    return found


def _blocks(items: pd.Series | None, count: int) -> NDArray[np.int64]:
    """Return which part of the log each row is of, if it has one for each item."""
    codes = np.zeros(count, dtype=np.int64) if items is None else pd.factorize(items)[0]
    sorted_by_item = np.count_nonzero(np.diff(codes)) == codes.max(initial=0)
    return np.asarray(codes if sorted_by_item else np.zeros(count), dtype=np.int64)


def _text_seconds(texts: pd.Series, zone: str, blocks: NDArray[np.int64]) -> Floats:
    found = np.full(len(texts), np.nan)
    # mosquitto_sub -F %j writes both, 2026-01-01T00:00:01.000000Z+0100: the offset is what counts.
    texts = texts.str.replace(_BOTH, "", regex=True)
    # An offset, as +02:00 or Z, or the name of a zone, stands behind the seconds.
    told = texts.str.contains(r"(?:Z|[+-]\d{2}:?\d{2})$", regex=True).to_numpy(dtype=bool)
    if told.any():
        found[told] = _since(_moments(texts[told], utc=True))
    if not told.all():
        local = _moments(texts[~told], utc=False)
        zoned = local.dt.tz_localize(
            zone, ambiguous=_first_hour(local, blocks[~told]), nonexistent="shift_forward"
        )
        found[~told] = _since(zoned.dt.tz_convert("UTC"))
    return found


def _moments(texts: pd.Series, *, utc: bool) -> pd.Series:
    found = pd.to_datetime(texts, errors="coerce", utc=utc, format="ISO8601")
    return found.where(found.dt.year.between(*_YEARS))


def _since(moments: pd.Series) -> Floats:
    elapsed = (moments - pd.Timestamp(0, tz="UTC")).dt.total_seconds()
    return np.asarray(elapsed, dtype=np.float64)


def _first_hour(local: pd.Series, blocks: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each time whether summer time still holds, should it occur twice."""
    seconds = np.asarray((local - pd.Timestamp(0)).dt.total_seconds(), dtype=np.float64)
    day = np.floor(seconds / 86_400.0)
    back = np.zeros(len(seconds), dtype=bool)
    back[1:] = (np.diff(seconds) < -_BACK) & (np.diff(day) == 0) & (np.diff(blocks) == 0)
    behind = pd.Series(back).groupby([day, blocks], dropna=False).cumsum().to_numpy()
    return np.asarray(behind == 0)


# --- Rounds ---------------------------------------------------------------------------------

TIME = "time"
MOST_CELLS = 200_000_000
"""Most rows times columns of a table."""
_LONGEST_SILENCE = 2 * 365.25 * 86400.0
"""Seconds; a log that has nothing for longer was written with a clock that was not set."""


@dataclass(frozen=True)
class Rounds:
    """How events become rows.

    ``every``, ``hold``: in seconds. ``forever``: items that hold until they change, as labels do.
    ``count``: items whose events are counted; ``changes``: those of which only whether they changed
    matters. ``zone``: in which the time of a row is written.
    """

    every: float
    hold: float
    zone: str = "UTC"
    forever: Sequence[str] = ()
    count: Sequence[str] = ()
    changes: Sequence[str] = ()


def make_table(events: Events, rounds: Rounds) -> pd.DataFrame:
    """Return the table; its first column is the local time at the end of each round.

    Raises InputError: if there are too many rounds, or an item has the name of that column.
    """
    if TIME in events.items:
        raise InputError(
            f"an item is called {TIME!r}, as the column of times is. Name the others with --items."
        )
    ends = _ends(events, rounds.every)
    order = _in_time(events)
    times, item, value = events.times[order], events.item[order], events.value[order]
    happened = ~events.repeated[order]
    bounds = np.searchsorted(item, np.arange(len(events.items) + 1))
    lost = _last_gap_before(ends, events.gaps)
    texts = np.array([*events.values, None], dtype=object)  # the last one stands for nothing
    columns: dict[str, object] = {TIME: local_times(ends, rounds.zone)}
    for k, name in enumerate(events.items):
        own = slice(bounds[k], bounds[k + 1])
        if name in rounds.count or name in rounds.changes:
            seen = _happened(
                times[own], value[own], happened[own], ends, rounds.every, name in rounds.changes
            )
            for begin, end in events.gaps:
                seen[(ends >= begin) & (ends < end)] = np.nan
            columns[name] = pd.Series(seen).astype("Int64")
        else:
            hold = np.inf if name in rounds.forever else rounds.hold
            held = _held(times[own], value[own], ends, hold, lost)
            columns[name] = _as_numbers(texts, held)
    return pd.DataFrame(columns)


def _ends(events: Events, every: float) -> Floats:
    _check_silence(np.sort(events.times))
    first, last = np.ceil(events.times.min() / every), np.ceil(events.times.max() / every)
    if (last - first + 1) * (len(events.items) + 1) > MOST_CELLS:
        raise InputError(
            f"the log goes from {_day(events.times.min())} to {_day(events.times.max())}, which is "
            f"{last - first + 1:.0f} rounds of {every:g} s: too many. Take longer ones with "
            "--every, or a part of the log with --from and --to."
        )
    return np.asarray(np.arange(first, last + 1) * every, dtype=np.float64)


def _check_silence(times: Floats) -> None:
    """Refuse times that lie years apart: most rows would be empty, and there may be millions."""
    longest = int(np.argmax(np.diff(times))) if len(times) > 1 else 0
    before, after = times[longest], times[min(longest + 1, len(times) - 1)]
    if after - before > _LONGEST_SILENCE:
        raise InputError(
            f"the log has nothing from {_day(before)} to {_day(after)}: was a clock not set? Take "
            f"one part with --from {_day(after - 86400.0)} or --to {_day(before + 2 * 86400.0)}."
        )


def _day(seconds: float) -> str:
    try:
        return str(np.datetime64(int(seconds), "s"))[:10]
    except (OverflowError, ValueError):
        return f"{seconds:g} s"


def _in_time(events: Events) -> Ints:
    """Return the events by item and time; of those at one time the last in the log alone."""
    order = np.lexsort((events.times, events.item))  # stable: the order of the log decides
    times, item = events.times[order], events.item[order]
    last = np.append((np.diff(times) != 0) | (np.diff(item) != 0), True)
    return np.asarray(order[last], dtype=np.int64)


def _held(times: Floats, value: NDArray[np.int32], ends: Floats, hold: float, lost: Floats) -> Ints:
    """Return the number of the value that holds at each end, ``NOTHING`` for none."""
    place = np.searchsorted(times, ends, side="right") - 1
    since = times[np.maximum(place, 0)]
    there = (place >= 0) & (ends - since <= hold) & (since >= lost)
    return np.where(there, value[np.maximum(place, 0)], NOTHING)


def _last_gap_before(ends: Floats, gaps: Sequence[tuple[float, float]]) -> Floats:
    """Return until when events are forgotten, because the log was interrupted after them."""
    lost = np.full(len(ends), -np.inf)
    for begin, end in gaps:
        # What was seen when the recording begins again counts, what was before does not.
        after = ends >= begin
        lost[after] = np.maximum(lost[after], end)
    return lost


def _happened(
    times: Floats,
    value: NDArray[np.int32],
    happened: NDArray[np.bool_],
    ends: Floats,
    every: float,
    changes: bool,
) -> Floats:
    """Return how many events there were since the round before, or whether one was a change."""
    counted = (value != NOTHING) & happened
    if changes:
        counted[1:] &= value[1:] != value[:-1]
        counted[:1] = False
    number = np.append(0, np.cumsum(counted))
    upto = number[np.searchsorted(times, ends, side="right")]
    before = number[np.searchsorted(times, ends - every, side="right")]
    return np.asarray(np.minimum(upto - before, 1 if changes else np.inf), dtype=np.float64)


def _as_numbers(texts: NDArray[np.object_], held: Ints) -> object:
    """Return values as numbers where all of them are, and as texts where not."""
    used, place = np.unique(held, return_inverse=True)
    found = pd.Series(texts[used], dtype=object)
    numbers = pd.to_numeric(found, errors="coerce")
    if numbers.notna().equals(found.notna()):
        return numbers.to_numpy(dtype=np.float64, na_value=np.nan)[place]
    return pd.Categorical.from_codes(
        np.where(used[place] == NOTHING, -1, place - int(used[0] == NOTHING)),
        categories=pd.Index(found[used != NOTHING].astype(str)),
    )


def local_times(ends: Floats, zone: str) -> list[str]:
    """Return local times with their offset from UTC, so that the hour that occurs twice is two."""
    moments = pd.to_datetime(ends, unit="s", utc=True).tz_convert(ZoneInfo(zone))
    texts = moments.strftime("%Y-%m-%dT%H:%M:%S%z")
    return [f"{each[:-2]}:{each[-2:]}" for each in texts]
