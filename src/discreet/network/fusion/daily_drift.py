"""Whole days of symbols, watched for drift without labels as each ends, in a file that stays."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from discreet.auditing.recheck import REFERENCE_DAYS, DriftWatch, begin_watch, load_watch
from discreet.errors import InputError
from discreet.files import write_whole
from discreet.mapping.mapping import Mapping
from discreet_sensor.wire import RoundClock

LEARNING, QUIET, ALARM = "learning", "quiet", "alarm"
UNSEEN = "Who causes the symbols does not show in their frequencies: labelled rows show it."
_DAY = timedelta(days=1)
_ANEW_AFTER = 30  # days after an alarm
_HEARD = 0.5  # share of the rounds of a day that every sensor must have been heard in
_AT_ONCE = 2  # days; the rest wait for the next look


class DailyDrift:
    """The watch of one site. The day on which it begins is not whole and does not count.

    ``symbols``: returns those of some rounds, rounds by sensors, negative where missing.
    """

    def __init__(
        self,
        file: Path,
        mapping: Mapping,
        clock: RoundClock,
        symbols: Callable[[int, int], NDArray[np.int64]],
    ) -> None:
        self._file, self._mapping, self._clock, self._symbols = file, mapping, clock, symbols

    def look(self, now: float) -> tuple[str, str]:
        """Watch the days that have ended since the last look; return the state and its words."""
        today = datetime.fromtimestamp(now, UTC).date()
        kept, watch = self._load(today)
        ended = 0 if watch.last is None else (today - watch.last).days - 1
        for _ in range(min(ended, _AT_ONCE)):
            assert watch.last is not None
            self._add(watch, watch.last + _DAY)
        try:
            if ended > 0 or not kept:
                write_whole(self._file, watch.model_dump_json())
        except InputError as error:  # the same days are looked at again then
            return LEARNING, str(error)
        return describe(watch)

    def _load(self, today: date) -> tuple[bool, DriftWatch]:
        """Return the watch, and whether it is the one that the file has."""
        try:
            watch = load_watch(self._file) if self._file.exists() else None
        except InputError:  # it promises nothing that would be lost with it
            watch = None
        if watch is not None and watch.mapping_id == self._mapping.id and (
            watch.alarmed is None or (today - watch.alarmed).days <= _ANEW_AFTER
        ):  # fmt: skip
            return True, watch
        watch = begin_watch(self._mapping.id)
        watch.last = today
        return False, watch

    def _add(self, watch: DriftWatch, day: date) -> None:
        midnight = datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
        first, after = (self._clock.number(midnight + k * 86_400) for k in (0, 1))
        Z = self._symbols(max(0, first), after - 1)
        counts = [
            np.bincount(column[column >= 0], minlength=size).tolist()
            for column, size in zip(Z.T, self._mapping.n_symbols, strict=True)
        ]
        if min(map(sum, counts)) >= _HEARD * max(1, after - first):
            watch.add(day, counts)
        else:
            watch.last = day


def describe(watch: DriftWatch) -> tuple[str, str]:
    """Return the state of a watch, and what it means."""
    if watch.alarmed is not None:
        words = (
            f"Since about {watch.alarmed} symbols are not as frequent as before. That is no proof "
            "of a leak, but the certificate is of another time: re-check it by labelled rows."
        )
        return ALARM, f"{words} {UNSEEN}"
    days = len(watch.reference)
    if days < REFERENCE_DAYS:
        words = f"{days} of {REFERENCE_DAYS} whole days have been seen to compare with."
        return LEARNING, f"{words} {UNSEEN}"
    return QUIET, f"The last {len(watch.scores)} days are like the {days} before. {UNSEEN}"
