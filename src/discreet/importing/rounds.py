"""Events to a table: a row for every round, a column for every item.

Rounds end at whole multiples of their length since 1970, UTC, so that a change of the clock neither
doubles nor loses one. A row holds what was last seen at its end, unless that is older than
``hold``, said to be unavailable, or from before a gap of the log. Of events, a row counts those
since the row before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.arrays import Floats, Ints
from discreet.errors import InputError
from discreet.importing.events import NOTHING, Events

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
            columns[name] = _in_gaps_missing(seen, ends, events.gaps)
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


def _in_gaps_missing(seen: Floats, ends: Floats, gaps: Sequence[tuple[float, float]]) -> pd.Series:
    for begin, end in gaps:
        seen[(ends >= begin) & (ends < end)] = np.nan
    return pd.Series(seen).astype("Int64")


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
