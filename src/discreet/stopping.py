"""What Ctrl-C and SIGTERM do before a command is ready for them, and once its result is there.

The libraries take a moment to load, and an interrupt in the middle of it would end in a traceback,
or in another error that a library makes of it. Until a command takes signals itself, they end the
process at once, in one line. This file is loaded before all others and imports next to nothing.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from types import FrameType
from typing import Any

UNDONE = "stopped before there was a result; nothing was written."
_SIGNALLED = 128  # and the number of the signal, as shells have it
# SIGTERM is how they are meant to end, which is no failure: they die of it until they take it.
_SERVICES = {"serve", "sensor", "dashboard", "record", "demo"}
_before: dict[int, Any] = {}
_taken: list[int] = []
_owner: list[int] = []  # the process that took signals over; what it forks is none of ours


def take_over() -> None:
    """Let a signal end this process in one line, from now on; what is ignored stays so."""
    service = sys.argv[1:2] and sys.argv[1] in _SERVICES
    _owner.append(os.getpid())
    for number in (signal.SIGINT, signal.SIGTERM):
        handler = signal.getsignal(number)
        if handler is signal.SIG_IGN or (service and number == signal.SIGTERM):
            continue
        _before[number] = handler
        _taken.append(number)
        signal.signal(number, _end)


def give_back() -> None:
    """Let signals do again what they did before, as nothing is loaded any more."""
    while _before:
        number, handler = _before.popitem()
        signal.signal(number, handler)


def ignore() -> bool:
    """Let signals change nothing while a result is written; tell whether they were ours."""
    if _owner != [os.getpid()]:
        return False  # a test, or a program that calls a command, goes on
    for number in _taken:
        signal.signal(number, signal.SIG_IGN)
    return True


def end_with(code: int) -> None:
    """Let a signal end this process at once with the exit code of its result, which is written.

    Whatever is printed may wait for a reader for ever. Only where signals were ours.
    """
    if _owner == [os.getpid()]:
        for number in _taken:
            signal.signal(number, lambda *_: os._exit(code))


def say(line: str) -> None:
    """Print a line on stderr in a handler, unless that fails or would wait for a reader."""
    try:
        if os.name == "nt" or select.select([], [2], [], 0)[1]:
            # Not by print: a handler may run in the middle of another print.
            os.write(2, f"{line}\n".encode())
    except OSError:
        pass


def _end(number: int, _frame: FrameType | None) -> None:
    if _owner != [os.getpid()]:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return
    # Not by an exception, which an import would turn into another; nothing is open yet.
    say(f"discreet: {UNDONE}")
    os._exit(_SIGNALLED + number)
