"""What time it is, by more than this machine's clock.

Rounds are closed, and old ones deleted, by the time. A clock that jumps would end all decisions,
or delete what should live. So the time that counts here goes on steadily from what was last seen,
and follows the clock in small steps only. A larger step needs evidence: messages of several
devices, whose own clocks agree with the step. Devices that agree with one another move the time
even against this machine's clock; against one that was followed, if all of them miss the deadline.
"""

from __future__ import annotations

import logging
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from discreet.network.fusion.closing import Closer
from discreet.network.fusion.intake import Registry
from discreet.network.fusion.state import FusionSettings, State
from discreet.network.health import span
from discreet.network.store.rows import Seen
from discreet.network.store.writing import Store
from discreet_sensor.wire import RoundClock

RIGHT, UNSURE, WRONG = "right", "unsure", "wrong"
"""Of this machine's clock: it is believed; it has jumped; devices contradict it."""

_LEAST_STEP = 2.0  # seconds in which the clock is followed without evidence: leap seconds, NTP
_AGREEMENT = 10.0  # seconds in which two clocks are taken to agree
_DRIFT = 1e-3  # of the time since the last evidence
_SEVERAL = 2  # devices
_STABLE, _ALONE = 3, 6  # messages of a device that is believed, with others and alone
_LEAST_SPACING = 0.5  # seconds between messages that count


_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_id() -> str:
    """Return what names this start of the machine, "" if nothing does."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:64]
    except OSError:
        return ""


steady: Callable[[], float] = partial(time.clock_gettime, _STEADY)
"""Returns seconds that no setting of the clock changes, suspended ones included."""


def uptime() -> float:
    """Return for how many seconds this machine has run, without bound if that is not known."""
    try:
        return float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return math.inf


class ClockState(NamedTuple):
    """What is thought of this machine's clock; ``offset``: how far it is ahead, in seconds."""

    state: str
    words: str
    offset: float


@dataclass
class _Witness:
    """The latest messages of a device, as long as they agree on the time.

    ``first``, ``offset``: how far its clock was ahead of the time that counts, by the first and by
    the last of them. ``seen``: when the last of them came that counts. ``count``: how many count.
    ``spacing``: seconds between those that count. ``late``: how many of them, the last ones, came
    after their rounds were due to be closed.
    """

    key: tuple[int, int]
    first: float
    offset: float
    seen: float
    count: int
    batch: int
    spacing: float
    late: int


class Timekeeper:
    """The time that counts. Several threads may ask for it; one of them calls ``settle``.

    ``wall``, ``ticks``: return this machine's time, and seconds that it cannot set; ``boot``: since
    which start of the machine these are counted; ``runs``: for how long it has run; for tests.
    """

    def __init__(
        self,
        rounds: RoundClock,
        wall: Callable[[], float] = time.time,
        ticks: Callable[[], float] = steady,
        boot: str | None = None,
        runs: Callable[[], float] = uptime,
    ) -> None:
        self._rounds, self._wall, self._ticks = rounds, wall, ticks
        self._boot, self._runs = boot_id() if boot is None else boot, runs
        self._step = max(_LEAST_STEP, 2 * rounds.interval)
        self._agreement = max(_AGREEMENT, 2 * rounds.interval)
        self._anchor = wall(), ticks()
        self._doubted = self._contradicted = self._overruled = False
        self._witnesses: dict[str, _Witness] = {}

    def begin(self, seen: Seen | None) -> None:
        """Go on from the time that was last seen, if the clock is far from it.

        While the machine was not restarted, it knows how much time has passed since then: not more
        than it has run, unless somebody makes up its seconds.
        """
        if seen is None:
            return
        now, start = self._wall(), seen.at
        passed = self._ticks() - seen.ticks
        if seen.boot and seen.boot == self._boot and 0 < passed <= self._runs():
            start += passed
        if abs(now - start) > self._agreement:
            self._anchor, self._doubted = (start, self._ticks()), True

    @property
    def unsure(self) -> bool:
        """Whether the clock is doubted, and devices have not told the time either."""
        return self._doubted and not self._contradicted

    def seen(self) -> Seen:
        """Return the time that counts, to be noted."""
        return Seen(self.now(), self._ticks(), self._boot)

    def _expected(self) -> tuple[float, float]:
        """Return what the time should be, and how far the clock may be from it."""
        start, ticks = self._anchor
        passed = self._ticks() - ticks
        return start + passed, self._step + _DRIFT * passed

    def now(self) -> float:
        """Return the time that counts."""
        return self.times()[0]

    def times(self) -> tuple[float, float]:
        """Return the time that counts, and the latest that it may be."""
        wall, (start, ticks) = self._wall(), self._anchor
        passed = self._ticks() - ticks
        expected = start + passed
        if not self._doubted and abs(wall - expected) <= self._step + _DRIFT * passed:
            return wall, wall
        return expected, max(expected, wall)

    def heard(self, device: str, key: tuple[int, int], number: int, batch: int) -> None:
        """Note an authentic message: its boot and seq, its first round, and how many it is for."""
        ticks, old = self._ticks(), self._witnesses.get(device)
        if old is not None and (ticks - old.seen < old.spacing or key <= old.key):
            return  # a backlog comes all at once, and tells nothing
        offset = self._rounds.end(number + batch - 1) - self._expected()[0]
        late = self._rounds.closes(number + batch - 1) < self.now()
        if old is None or abs(offset - old.first) > self._agreement:
            spacing = max(_LEAST_SPACING, self._rounds.interval * batch / 2)
            self._witnesses[device] = _Witness(
                key, offset, offset, ticks, 1, batch, spacing, int(late)
            )
            return
        old.key, old.offset, old.seen, old.count = key, offset, ticks, old.count + 1
        old.late = old.late + 1 if late else 0

    @property
    def trailing(self) -> list[str]:
        """Whose last messages all missed the deadline, one by one; a backlog counts once."""
        return sorted(name for name, each in list(self._witnesses.items()) if each.late >= _STABLE)

    def witnessed(self, devices: int) -> bool:
        """Whether several devices agree with the time that counts; ``devices``: there are."""
        fresh = [each for each in self._fresh() if abs(each.offset) <= self._agreement]
        return len(fresh) >= min(_SEVERAL, max(1, devices))

    def _fresh(self) -> list[_Witness]:
        now, rounds = self._ticks(), 5 * self._rounds.interval
        found = list(self._witnesses.values())
        return [each for each in found if now - each.seen <= _AGREEMENT + rounds * each.batch]

    def settle(self, devices: int) -> float:
        """Weigh the clock against the evidence; return by how much the time was moved.

        ``devices``: how many are enrolled.
        """
        wall, (expected, step) = self._wall(), self._expected()
        offset = wall - expected
        if abs(offset) <= step:
            return self._settle_close(wall, offset, devices)
        if not self._doubted:
            self._doubted = True
            self._witnesses = {}  # what came before the jump is no evidence after it
        agreed = self._agreed(devices, 1 if offset > 0 else _STABLE)
        if agreed is not None and abs(agreed - offset) <= min(abs(agreed), self._agreement):
            self._doubted = self._contradicted = self._overruled = False
            self._move(wall, offset)
            return offset
        agreed = self._agreed(devices, _STABLE)
        self._contradicted = agreed is not None
        if agreed is not None and self._overruled:
            agreed = min(
                agreed, offset
            )  # who put a clock in doubt by being late leads it no further
        if agreed is None or -self._agreement <= agreed <= self._rounds.interval:
            return 0.0
        self._move(expected + agreed, agreed)
        return agreed

    def _settle_close(self, wall: float, offset: float, devices: int) -> float:
        """Believe a clock that is close to the time that counts, unless all devices are late by it.

        Then no decision would have a sensor, and what they have of the time is taken.
        """
        counted = 0.0 if self._doubted else offset
        behind = self._behind(devices)
        if behind is not None and behind - counted < -self._rounds.deadline:
            self._doubted = self._contradicted = self._overruled = True
            self._move(wall - offset + behind, behind)
            for each in list(self._witnesses.values()):
                each.late = 0
            return behind - counted
        if self._overruled and self._is_ahead(offset):
            return 0.0
        self._doubted = self._contradicted = self._overruled = False
        if self.witnessed(devices):
            self._move(wall, offset)
        return 0.0

    def _behind(self, devices: int) -> float | None:
        """Return where the devices are, if most are heard, agree, and all keep being late."""
        fresh = self._fresh()
        if (
            len(fresh) < max(_SEVERAL, devices // 2 + 1)
            or min(each.late for each in fresh) < _ALONE
        ):
            return None
        middle = statistics.median_low([each.offset for each in fresh])
        agree = all(abs(each.offset - middle) <= self._agreement for each in fresh)
        return middle if agree else None

    def _is_ahead(self, offset: float) -> bool:
        """Whether a clock that was overruled is still ahead of the devices' clocks."""
        near = self._rounds.deadline / 2
        fresh = [each.offset for each in self._fresh()]
        return offset > near and (not fresh or offset - statistics.median_low(fresh) > near)

    def _agreed(self, devices: int, count: int) -> float | None:
        """Return how far most of the devices that are heard are ahead, if enough agree."""
        fresh = [each for each in self._fresh() if each.count >= count]
        if not fresh:
            return None
        middle = statistics.median_low([each.offset for each in fresh])
        agree = [each for each in fresh if abs(each.offset - middle) <= self._agreement]
        if len(agree) * 2 <= len(fresh):
            return None
        several = len(agree) >= min(_SEVERAL, max(1, devices))
        return middle if several or agree[0].count >= max(_STABLE, 2 * count) else None

    def _move(self, now: float, by: float) -> None:
        self._anchor = now, self._ticks()
        for each in list(self._witnesses.values()):
            each.first -= by
            each.offset -= by

    @property
    def state(self) -> ClockState:
        offset = self._wall() - self._expected()[0]
        if not self._doubted:
            return ClockState(RIGHT, "", 0.0)
        way = f"{span(abs(offset))} {'ahead of' if offset > 0 else 'behind'}"
        if self._contradicted:
            words = f"This machine's clock is {way} the devices' clocks, which are believed."
            if self._overruled:
                words += " If it is right, all messages take longer than the deadline."
            return ClockState(WRONG, words, offset)
        words = (
            f"This machine's clock is {way} what was last seen. Time goes on from there until "
            "messages of devices confirm it."
        )
        return ClockState(UNSURE, words, offset)


# --- What is done with time -----------------------------------------------------------------

logger = logging.getLogger(__name__)

_FORGET_EVERY, _UNSURE_FOR = 600.0, 10.0  # seconds
_REST = 86_400.0  # seconds without forgetting after the time was moved


class Upkeep:
    """Keeps the time of a worker, and its store in it."""

    def __init__(
        self,
        settings: FusionSettings,
        registry: Registry,
        store: Store,
        closer: Closer,
        timekeeper: Timekeeper,
        state: State,
    ) -> None:
        self._settings, self._registry, self._store = settings, registry, store
        self._closer, self._time, self._state = closer, timekeeper, state
        self._moved = 0.0
        self._rested = False

    def begin(self) -> None:
        """Go on from the time that was seen last, unless the clock is to be trusted."""
        seen = self._store.seen()
        self._rested = seen is not None and self._store.rests(seen.at)
        if not self._settings.trust_clock:
            self._time.begin(seen)
        elif seen is not None:
            self._restart(self._time.now() - seen.at)

    @property
    def _devices(self) -> int:
        return sum(not each.revoked for each in self._registry.by_name.values())

    def keep_time(self) -> None:
        """Weigh the clock against the devices' clocks."""
        moved = self._time.settle(self._devices)
        if moved:
            self._moved = moved
            logger.warning("the time is moved by %+.1f s, as devices' clocks have it", moved)
        found = self._time.state
        self._state.put(clock_offset_seconds=found.offset)
        self._state.trail(self._time.trailing)
        if self._state.turn("clock", found.state, found.words):
            if found.state != RIGHT:
                logger.warning("%s", found.words)
            else:
                logger.info("this machine's clock is believed")
        if self._moved and self._closer.leads:
            self._restart(self._moved)

    def _restart(self, moved: float) -> None:
        """Go on after the time was moved: what is stored from a time to come is marked.

        Nothing is forgotten for a day: should the devices be wrong as well, that is the time in
        which somebody notices. A machine that is switched off every night would never forget: so a
        day that had begun before the start goes on.
        """
        seen = self._time.seen()
        if moved < 0:
            self._store.turn_back(seen, max(0, self._settings.clock.number(seen.at)))
        self._store.see(seen)
        if moved < 0 or not self._rested:
            self._store.rest(seen.at + _REST)
        self._rested = False
        self._closer.pause()  # and look again how far it has come
        self._moved = 0.0

    def forget(self, now: float) -> float:
        """Delete some of what is too old; return after how many seconds to come again.

        Only in a time that devices confirm: it cannot be undone.
        """
        keep = self._settings.keep
        if keep is None:
            return _FORGET_EVERY
        sure = not self._moved and self._time.witnessed(self._devices)
        if not sure or self._store.rests(now):
            return _UNSURE_FOR
        clock = self._settings.clock
        return _FORGET_EVERY * self._store.forget(max(0, clock.number(now - keep)), now - keep)
