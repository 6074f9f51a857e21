"""Ctrl-C as an error of ours, so that every command ends in one message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from discreet.errors import StoppedError


@contextmanager
def interruptible(words: str = "stopped. No mapping was written.") -> Iterator[None]:
    """Make Ctrl-C an error of ours before Typer makes a bare exit code of it."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise StoppedError(str(stop) or words) from None
