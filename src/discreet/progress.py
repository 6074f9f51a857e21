"""What long work reports while it runs, the same for learning, frontiers and audits."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

_LINE_SECONDS = 2.0


@dataclass(frozen=True)
class Progress:
    """How things stand.

    ``phase``: what is being done, in a word or two. ``done``: share of the planned work, 0 to 1; a
    plan, not a promise. ``public_risk``: F of the best mapping so far, None before there is one.
    ``private_risk``, ``floor``: the private risk nearest to its floor, and that floor. ``leak``,
    ``limit``: an attacker's advantage and what was asked for, where that is what is limited.
    ``keeps``: whether a stop now would leave a mapping; None if that is so in the last phase only.
    ``seconds``: about how long all of it will take, known before it begins. ``left``: seconds until
    a limit of time, if there is one.
    """

    phase: str
    done: float
    public_risk: float | None = None
    private_risk: float | None = None
    floor: float | None = None
    leak: float | None = None
    limit: float | None = None
    keeps: bool | None = None
    seconds: float | None = None
    left: float | None = None


Report = Callable[[Progress], bool]
"""Called now and then; returns True to stop and keep the best so far, where there is one."""


def in_time(report: Report | None, seconds: float | None) -> Report | None:
    """Return a report that passes on to another, and asks to stop when the time is over."""
    if seconds is None:
        return report
    end = time.monotonic() + seconds

    def tell(progress: Progress) -> bool:
        left = max(end - time.monotonic(), 0.0)
        stop = report is not None and report(replace(progress, left=left))
        return stop or left == 0.0

    return tell


def printed() -> Report:
    """Return a report that prints a line now and then, for use in Python."""
    last = -1.0

    def tell(progress: Progress) -> bool:
        nonlocal last
        now = time.monotonic()
        if progress.seconds is not None:
            print(cost(progress), file=sys.stderr)
        elif now - last >= _LINE_SECONDS:
            last = now
            print(f"{progress.phase} {progress.done:.0%}", standing(progress), file=sys.stderr)
        return False

    return tell


def cost(progress: Progress) -> str:
    """Return about how long the work will take, and how long it may."""
    about = max(progress.seconds or 0.0, 1.0)
    if progress.left is None:
        return f"about {about:.0f} s to go"
    most = max(progress.left, 1.0)
    if about > most:
        return f"at most {most:.0f} s to go; without that limit about {about:.0f} s"
    return f"about {about:.0f} s to go, {most:.0f} s at most"


def standing(progress: Progress) -> str:
    """Return the figures that matter in words, short enough for a bar of 80 columns."""
    if progress.public_risk is None:
        return ""
    if progress.leak is not None:
        limit = "" if progress.limit is None else f" (limit {progress.limit:.3f})"
        return f"error {progress.public_risk:.3f}, leak {progress.leak:.3f}{limit}"
    text = f"public risk {progress.public_risk:.4f}"
    if progress.private_risk is not None and progress.floor is not None:
        text += f", private {progress.private_risk:.4f} (floor {progress.floor:.4f})"
    return text
