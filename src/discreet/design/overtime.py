"""Clocks: how long looking at levels may take once time is over, and how long it would take."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

_OVERTIME = 2.0  # seconds that looking at levels may take, all together, after time is over
_ASKED_SECONDS = 0.2  # between two questions whether it is, at least
_FEW_SECONDS = 0.05  # that may be spent to tell how long looking at a level takes


class Overtime:
    """Tells whether looking has to end: a while after time is over, for all levels together."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self.is_over, self.next, self.end = is_over, -np.inf, np.inf

    def __call__(self) -> bool:
        now = time.monotonic()
        if self.end == np.inf and now >= self.next:
            self.next = now + _ASKED_SECONDS
            self.end = now + _OVERTIME if self.is_over() else np.inf
        return now > self.end


class Clock:
    """Passes on whether looking has to end, and remembers whether it had to."""

    def __init__(self, has_to_end: Callable[[], bool]) -> None:
        self.has_to_end, self.struck = has_to_end, False

    def __call__(self) -> bool:
        self.struck = self.struck or self.has_to_end()
        return self.struck


class FirstFew:
    """Lets a few questions be answered, which tell how long all of them take.

    The first finds what all others need, too, so that two are answered at least.
    """

    def __init__(self) -> None:
        self.asked: list[float] = []  # when, as long as questions were answered
        self.begin = time.thread_time()
        self.count = 0

    def __call__(self) -> bool:
        now, self.count = time.thread_time(), self.count + 1
        if len(self.asked) > 2 and now > self.begin + _FEW_SECONDS:
            return True
        self.asked.append(now)
        return False

    def seconds_for_all(self) -> float:
        """Return about how long all questions would have taken."""
        if self.count == len(self.asked):
            return time.thread_time() - self.begin
        first, *_, last = self.asked[1:]
        return first - self.begin + (last - first) / (len(self.asked) - 2) * (self.count - 1)
