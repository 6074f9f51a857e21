"""What the fusion centre does with time: follow it, and forget what is old."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from discreet.network.fusion.closing import Closer
from discreet.network.fusion.intake import Registry
from discreet.network.fusion.state import State
from discreet.network.fusion.timekeeping import RIGHT, Timekeeper
from discreet.network.store.writing import Store
from discreet_sensor.connecting import BrokerAddress
from discreet_sensor.wire import RoundClock

logger = logging.getLogger(__name__)

_FORGET_EVERY, _UNSURE_FOR = 600.0, 10.0  # seconds
_REST = 86_400.0  # seconds without forgetting after the time was moved


@dataclass(frozen=True)
class FusionSettings:
    """How a worker of a site runs.

    ``key``: what the site is called where others are; its name by default. ``name``: of this
    worker, as in its certificate. ``group``: of the workers that share the messages, which nobody
    else may guess; none if it is alone. ``receive_maximum``: how many messages may wait for a
    commit. ``keep``: seconds for which symbols and decisions are kept; for ever by default.
    ``trust_clock``: take this machine's clock for right at the start, whatever was seen before.
    ``probation``: seconds for which nothing is stored in a database that is new or was copied, see
    ``FusionService``.
    """

    site: str
    clock: RoundClock
    broker: BrokerAddress
    key: str | None = None
    name: str = "fusion"
    group: str | None = None
    receive_maximum: int = 2000
    keep: float | None = None
    trust_clock: bool = False
    workers: int = 1
    probation: float = 0.0

    @property
    def epoch(self) -> float:
        return self.clock.epoch

    @property
    def interval(self) -> float:
        return self.clock.interval

    @property
    def deadline(self) -> float:
        return self.clock.deadline


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
