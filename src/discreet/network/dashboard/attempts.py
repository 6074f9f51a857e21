"""How often a login may be tried: slow for who guesses, no hindrance for who mistypes."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

WINDOW = 300.0
PER_USER = 5
PER_ADDRESS = 20
FOR_ALL = 120
_REMEMBERED = 10_000


class Attempts:
    """Failed logins of the last minutes.

    Five failures in five minutes for one name from one address, 20 from one address and 120 from
    everywhere are let through; then a login has to wait. Counting a name by address as well
    keeps a stranger from locking a user out from elsewhere.

    Parameters
    ----------
    clock : callable, optional
        Returns a time that never runs backwards; for tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[tuple[str, ...], list[float]] = OrderedDict()

    def wait(self, address: str, name: str) -> int:
        """Return for how many seconds a login has to wait; 0 if it need not."""
        now = self._clock()
        waits = [
            recent[-limit] + WINDOW - now
            for key, limit in _keys(address, name)
            if len(recent := self._recent(key, now)) >= limit
        ]
        return math.ceil(max(waits, default=0.0))

    def begun(self, address: str, name: str) -> None:
        """Count a try, before it is known to fail: tries at the same time count as well."""
        now = self._clock()
        for key, limit in _keys(address, name):
            self._failures[key] = [*self._recent(key, now), now][-limit:]
            self._failures.move_to_end(key)
        while len(self._failures) > _REMEMBERED:  # names are chosen by who tries
            self._failures.popitem(last=False)

    def succeeded(self, address: str, name: str) -> None:
        """Take back the try of a user who is in, and forget that user's failures."""
        for key, _ in _keys(address, name):
            if self._failures.get(key):
                self._failures[key].pop()
        self._failures.pop((address, name), None)

    def _recent(self, key: tuple[str, ...], now: float) -> list[float]:
        return [at for at in self._failures.get(key, ()) if at > now - WINDOW]


def _keys(address: str, name: str) -> tuple[tuple[tuple[str, ...], int], ...]:
    return ((address, name), PER_USER), ((address,), PER_ADDRESS), ((), FOR_ALL)
