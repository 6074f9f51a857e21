"""What every command does at a terminal: print, warn, check where results go, stop, log.

Imports nothing heavy, so that commands that need little start at once.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import stat
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from discreet.cli.options import in_option_terms
from discreet.errors import DiscreetWarning, InputError, StoppedError
from discreet.layout import HANG, wrapped
from discreet.stopping import UNDONE, as_interrupts

if TYPE_CHECKING:
    from rich.console import Console

    from discreet.export.lasting import Lasting

_NARROWEST = 30  # columns; what is narrower gets broken lines


class _Forgiving:
    """A stream whose words are dropped where nobody reads them any more, or there is no room."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def forgive_stderr() -> None:
    """Let progress and warnings that cannot be printed be lost, and not the result with them."""
    if not isinstance(sys.stderr, _Forgiving):
        sys.stderr = _Forgiving(sys.stderr)


def columns_of(stream: IO[str]) -> int | None:
    """Return how wide lines may be on a terminal; None in a pipe or a file, for any width."""
    if not stream.isatty():
        return None
    asked = os.environ.get("COLUMNS", "")
    columns = int(asked) if asked.isdecimal() else 0
    try:
        columns = columns or os.get_terminal_size(stream.fileno()).columns
    except OSError:
        return None
    return max(columns, _NARROWEST) if columns else None  # there are some that do not know


def line_width() -> int | None:
    """Return how wide lines of results may be."""
    return columns_of(sys.stdout)


def plain_print(text: str = "", hang: int = HANG) -> None:
    """Print a line of results, in order with what goes to stderr; a terminal gets it wrapped."""
    _print("\n".join(wrapped(text, line_width(), hang)))


def _print(text: str) -> None:
    print(text, file=sys.stdout, flush=True)


def print_lines(lines: Iterable[str]) -> None:
    """Print results, line by line."""
    for line in lines:
        plain_print(line)


def print_verdict(line: str, code: str) -> None:
    """Print a verdict, on a terminal in colour: "32" is green, "33" yellow and "31" red."""
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for each in wrapped(line, line_width()):
        _print(f"\x1b[1;{code}m{each}\x1b[0m" if coloured else each)


def print_json(content: Any) -> None:
    """Print results for a program."""
    _print(json.dumps(content, indent=1, ensure_ascii=False))


@contextmanager
def json_result(wanted: bool) -> Iterator[dict[str, Any]]:
    """Take in the result, and with --json print it; the words go to stderr then."""
    found: dict[str, Any] = {}
    if not wanted:
        yield found
        return
    with redirect_stdout(sys.stderr):
        yield found
    print_json(found)


def plain_console() -> Console:
    """Return stderr, where names of columns and files may look like markup and are none."""
    from rich.console import Console

    return Console(stderr=True, soft_wrap=True, markup=False, emoji=False, highlight=False)


def warn(words: str) -> None:
    """Print a warning at once."""
    print_on(plain_console(), f"warning: {words}", "yellow")


def print_on(console: Console, line: str, style: str | None = None) -> None:
    """Print a line that is no result; a terminal gets it wrapped."""
    console.print("\n".join(wrapped(line, columns_of(console.file))), style=style)


def say_lasting(span: Lasting) -> None:
    """Print what a day tells and how long the budget lasts; warn if that is less than a day."""
    if span.shortage:
        warn(span.shortage)
    print_lines(span.lines())


@contextmanager
def told_warnings(console: Console, told: list[str] | None = None) -> Iterator[None]:
    """Gather warnings and tell each of ours once, when the work is done; ``told`` gets them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    ours = [each.message for each in caught if isinstance(each.message, DiscreetWarning)]
    messages = list(dict.fromkeys(map(in_option_terms, ours)))
    if told is not None:
        told += messages
    for message in messages:
        print_on(console, f"warning: {message}", "yellow")


def check_order(mapping: Path, tables: Iterable[Path]) -> None:
    """Notice a table where the mapping belongs, and a mapping where the table does."""
    found = next((each for each in tables if each.suffix.lower() == ".json"), None)
    if found is not None and mapping.suffix.lower() != ".json":
        raise InputError(
            f"the mapping comes first, then the table: got {mapping} and {found}. Swap them."
        )


def check_out(out: Path, table: Path | None, option: str = "--out") -> None:
    """Find out before the work, not after it, that the result has nowhere to go."""
    try:
        target = out.resolve()
        if target.is_dir():
            raise InputError(f"{option} {out} is a directory. Name a file in it.")
        if target.exists():
            if not stat.S_ISREG(target.stat().st_mode):
                raise InputError(f"{option} {out} is not a regular file. Name another.")
            if table is not None and table.exists() and target.samefile(table):
                raise InputError(f"{option} {out} is what is read. Name another file.")
        if not target.parent.is_dir():
            raise InputError(
                f"{option} {out}: there is no directory {target.parent}. Make it first."
            )
        # The permissions do not tell all: a file system may be read-only or full.
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except (OSError, RuntimeError) as error:  # the latter: links that lead in circles
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"{option} {out}: cannot be written there ({reason}). Name another place."
        ) from None


@contextmanager
def interruptible(words: str = UNDONE, *, early: bool = False) -> Iterator[None]:
    """Make Ctrl-C an error of ours before Typer makes a bare exit code of it.

    ``early``: signals still end the process at once, until something in it takes them.
    """
    try:
        with nullcontext() if early else as_interrupts():
            yield
    except KeyboardInterrupt as stop:
        said, *number = stop.args or (words,)
        error = StoppedError(said or words)
        error.signal = number[0] if number else signal.SIGINT
        raise error from None


def log_to_stderr(quiet: bool) -> None:
    """Let services log with the time, as journals do."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.ERROR if quiet else logging.INFO,
        format="%(asctime)s discreet: %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
    )
