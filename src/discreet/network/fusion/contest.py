"""Two fusion centres of one site: noticed, and one of them stops.

The broker has one client of a name: whoever connects with it cuts the other off. (Mosquitto does
not say so; what is seen is a connection that is lost as soon as it is made, again and again.) A
fusion centre that is cut off connects again, and so takes the connection back from one that was
started twice, or from a copy of the site. That one is on probation, has stored nothing yet, and
gives up first.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from discreet.errors import InputError

ALONE, CONTESTED, LOST = "alone", "contested", "lost"
_WINDOW = 30.0  # seconds in which connections that were cut at once are counted
_SUSPECT, _YOUNG, _MOST = 2, 3, 9  # cuts: to suspect another, and to give up, on probation or not


class Contest:
    """``probation``: seconds for which nothing is stored in a database that may be a copy."""

    def __init__(self, site: str, probation: float) -> None:
        self._site, self._probation = site, probation
        self._cuts: list[float] = []
        self._up_since: float | None = None
        self.on_probation = probation > 0

    def begin(self, is_at_home: Callable[[], bool]) -> None:
        self.on_probation = self._probation > 0 and not is_at_home()

    def cut(self) -> str:
        """Count that a connection was cut as soon as it was made; return what to think of it."""
        now = time.monotonic()
        self._cuts = [each for each in self._cuts if each > now - _WINDOW] + [now]
        if len(self._cuts) >= (_YOUNG if self.on_probation else _MOST):
            return LOST
        return CONTESTED if len(self._cuts) >= _SUSPECT else ALONE

    @property
    def reason(self) -> InputError:
        """Why to stop."""
        return InputError(
            f"another fusion centre of the site {self._site!r} runs: this one was started twice, "
            "or from a copy of its folder. Stop the other first; what it has acknowledged is in "
            "its own database."
        )

    def settle(self, up: bool, passed: Callable[[], object]) -> None:
        """End the probation when nobody has taken the connection for long enough.

        ``up``: whether there is a connection. ``passed``: called at the end of the probation.
        """
        now = time.monotonic()
        self._up_since = (self._up_since or now) if up else None
        if self._up_since is not None and now >= self._up_since + self._probation:
            passed()
            self.on_probation = False
