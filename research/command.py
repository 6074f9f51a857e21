"""What the commands of ``research`` share: options within bounds, and one message per mistake."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from typing import NoReturn

from discreet.errors import DiscreetError

BAD_INPUT = 2
INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """Ends every mistake in one line."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and where the options are listed."""
        self.exit(BAD_INPUT, f"error: {message.rstrip('.')}. See: {self.prog} --help\n")


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return a type of option: a whole number within these bounds."""

    def parse(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() else None
        if number is None or not low <= number <= high:
            wanted = f"must be a whole number from {low} to {high}"
            raise argparse.ArgumentTypeError(f"{wanted}, got {text!r}")
        return number

    return parse


def run_command(parser: Parser, work: Callable[[argparse.Namespace], object]) -> None:
    """Parse the command line and do the work; every foreseen mistake ends in one message."""
    if not sys.warnoptions:  # libraries speak to programmers
        warnings.simplefilter("ignore")
    given = parser.parse_args()
    try:
        work(given)
    except KeyboardInterrupt as stop:
        parser.exit(INTERRUPTED, f"{str(stop) or 'stopped. Nothing was written.'}\n")
    except DiscreetError as error:
        parser.exit(BAD_INPUT, f"error: {error}\n")
