"""When rounds begin, end and are closed."""

from __future__ import annotations

import math
from dataclasses import dataclass

MAX_ROUND = 2**32 - 1


@dataclass(frozen=True)
class RoundClock:
    """The rounds of a site, counted from its epoch.

    Parameters
    ----------
    epoch : float
        When round 0 begins, in seconds since 1970.
    interval : float
        Seconds of a round.
    deadline : float
        Seconds after the end of a round at which it is closed.
    """

    epoch: float
    interval: float
    deadline: float

    def number(self, at: float) -> int:
        """Return the round that a moment lies in; negative before the epoch."""
        return math.floor((at - self.epoch) / self.interval)

    def end(self, number: int) -> float:
        """Return when a round ends."""
        return self.epoch + (number + 1) * self.interval

    def closes(self, number: int) -> float:
        """Return when a round is due to be closed."""
        return self.end(number) + self.deadline

    def last_due(self, at: float) -> int:
        """Return the last round that is due to be closed at a moment."""
        return self.number(at - self.deadline) - 1
