"""What Ctrl-C, SIGTERM and SIGHUP do before a command takes them, and once its result is there.

The libraries take a moment to load, and an interrupt in the middle of it would end in a traceback,
or in another error that a library makes of it. Until a command takes signals itself, they end the
process at once, in one line. This file is loaded before all others and imports next to nothing.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

UNDONE = "stopped before there was a result; nothing was written."
# What ends a command; Windows has no SIGHUP, which comes when a terminal is closed.
HANGUP = getattr(signal, "SIGHUP", None)
STOPS = tuple(filter(None, (signal.SIGINT, signal.SIGTERM, HANGUP)))
_SIGNALLED = 128  # and the number of the signal, as shells have it
# These end by SIGTERM or SIGHUP, which is no failure: they die of them until they take them.
_SERVICES = {"serve", "sensor", "dashboard", "record", "demo"}
_before: dict[int, Any] = {}
_taken: list[int] = []
_result: list[int] = []  # the exit code of what has been written
_owner: list[int] = []  # the process that took signals over; what it forks is none of ours


def take_over() -> None:
    """Let a signal end this process in one line, from now on; what is ignored stays so."""
    service = sys.argv[1:2] and sys.argv[1] in _SERVICES
    _owner.append(os.getpid())
    atexit.register(_end_undisturbed)  # before all others: it is called after them
    for number in STOPS:
        handler = signal.getsignal(number)
        if handler is signal.SIG_IGN or (service and number != signal.SIGINT):
            continue
        _before[number] = handler
        _taken.append(number)
        signal.signal(number, _end)


def give_back() -> None:
    """Let signals do again what they did before, as nothing is loaded any more."""
    while _before:
        number, handler = _before.popitem()
        signal.signal(number, handler)


@contextmanager
def as_interrupts() -> Iterator[None]:
    """Let what ends this process raise KeyboardInterrupt, so that what it made is cleared away.

    With the number of the signal, like those of Ctrl-C. Services take signals themselves.
    """
    taken = [number for number in _before if number != signal.SIGINT]
    give_back()
    before = {number: signal.signal(number, _interrupt) for number in taken}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is _interrupt:
                signal.signal(number, handler)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    _die_if_forked(number)
    raise KeyboardInterrupt(None, number)


def ignore() -> bool:
    """Let signals change nothing while a result is written; tell whether they were ours."""
    if _owner != [os.getpid()]:
        return False  # a test, or a program that calls a command, goes on
    for number in _taken:
        signal.signal(number, signal.SIG_IGN)
    return True


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore what ends a command for what takes a moment and must be brought to its end."""
    ours = threading.current_thread() is threading.main_thread()  # others may not say so
    before = {number: signal.signal(number, signal.SIG_IGN) for number in STOPS if ours}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_with(code: int) -> None:
    """Let a signal end this process at once with the exit code of its result, which is there.

    Whatever is printed may wait for a reader for ever. Only where signals were ours.
    """
    if _owner == [os.getpid()]:
        for number in _taken:
            signal.signal(number, lambda *_: os._exit(code))


def has_result(code: int) -> None:
    """Let this process end with the exit code of its result, which is written, come what may.

    A signal, or a reader who has gone, then ends what is still to be printed and nothing else.
    """
    if _owner == [os.getpid()]:  # a test, or a program that calls a command, goes on
        _result[:] = [code]
    end_with(code)


def code_of_result(otherwise: int) -> int:
    """Return the exit code of what has been written, if anything has."""
    return _result[0] if _result else otherwise


def say(line: str) -> None:
    """Print a line on stderr in a handler, unless that fails or would wait for a reader."""
    try:
        if os.name == "nt" or select.select([], [2], [], 0)[1]:
            # Not by print: a handler may run in the middle of another print.
            os.write(2, f"{line}\n".encode())
    except OSError:
        pass


def let_go_of_terminal() -> None:
    """Print to nobody from now on where the terminal is closed: printing there is an error."""
    for stream in (1, 2):
        poll = select.poll()
        poll.register(stream, 0)
        if any(event & select.POLLHUP for _, event in poll.poll(0)):
            with suppress(OSError):  # too many files are open: the result matters more
                nobody = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nobody, stream)
                os.close(nobody)


def _end_undisturbed() -> None:
    """Ignore signals while the interpreter is taken down, which takes half a second.

    It gives up our handlers there, so that a signal would kill the process; what is ignored stays.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()  # while a signal can still end what waits for a reader
    ignore()


def _die_if_forked(number: int) -> None:
    if _owner != [os.getpid()]:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _end(number: int, _frame: FrameType | None) -> None:
    _die_if_forked(number)
    # Not by an exception, which an import would turn into another; nothing is open yet.
    say(f"discreet: {UNDONE}")
    os._exit(_SIGNALLED + number)
