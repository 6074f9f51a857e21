"""Everything that discreet raises or warns about, and how a message shows a value.

Each message says what was wrong, the value that was seen and what to do next.
The kinds also derive from the built-in error a caller would expect, so that
``except ValueError`` keeps working.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from discreet_sensor.errors import DiscreetError as DiscreetError
from discreet_sensor.errors import InputError as InputError

_LISTED_NAMES = 20


class Parameter(str):
    """The name of a parameter in a message, for whom it has another: the command line."""

    __slots__ = ()


class MissingPrivateError(DiscreetError, TypeError, ValueError):
    """``fit`` was called without the private fact it has to protect."""


class CodeRangeError(DiscreetError, ValueError):
    """A reading or symbol lies outside what the mapping covers."""


class MappingFileError(DiscreetError, ValueError):
    """A mapping file that is damaged, hostile or of another version."""


class ClusterError(DiscreetError):
    """A cluster that does not answer, or has lost its workers."""


class EventLogError(InputError):
    """A log with a row per event where a table was wanted; ``command`` makes one of it."""

    def __init__(self, message: str, command: str) -> None:
        super().__init__(message)
        self.command = command


class StoppedError(DiscreetError):
    """The work was stopped before there was anything worth keeping.

    ``signal``: what stopped it, as a number; 2 for Ctrl-C.
    """

    signal = 2


class UnfitSensorError(InputError):
    """A column that nothing can be learned from as it is, and that may be left out instead."""

    def __init__(self, sensor: str, words: str) -> None:
        super().__init__(words)
        self.sensor = sensor


class DiscreetWarning(UserWarning):
    """Base of every warning that a user of discreet should see.

    A message may be given in parts, so that a ``Parameter`` in it is told from other text.
    """

    def __str__(self) -> str:
        return "".join(map(str, self.args))


class UninformativeMappingWarning(DiscreetWarning):
    """At the privacy asked for, the decisions are no better than guessing."""


class UnmetRequestWarning(DiscreetWarning):
    """Rows left out do not show that the privacy asked for is kept."""


class SharedEpsilonWarning(DiscreetWarning):
    """Outputs are too many to list, so that each sensor gets a part of epsilon only."""


class BlindKernelWarning(DiscreetWarning):
    """The kernel looks at few sensors together and is blind to what shows in more of them."""


class TimesLeftOutWarning(DiscreetWarning):
    """A column of times is no sensor unless its hour or weekday is named as one."""


class ConstantSensorWarning(DiscreetWarning):
    """Sensors that always read the same, or nothing, are left out."""


class TableWarning(DiscreetWarning):
    """Something in a table is odd: a column that is no sensor, a copy, a rare class."""


class LostWorkerWarning(DiscreetWarning):
    """A worker of the cluster was lost, and another one does its work."""


class Problems:
    """Mistakes that are gathered, so that a user learns of all of them at once."""

    def __init__(self) -> None:
        self.found: list[InputError] = []

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Keep the mistake that ends this block for later."""
        try:
            yield
        except InputError as error:
            self.found.append(error)

    def refuse(self) -> None:
        """Raise InputError: with all that was gathered, if there is anything."""
        if len(self.found) == 1:
            raise self.found[0]
        if self.found:
            raise ProblemsError(self.found)


class ProblemsError(InputError):
    """Several mistakes in one message."""

    def __init__(self, problems: Sequence[InputError]) -> None:
        parts = [
            part
            for number, each in enumerate(problems, start=1)
            for part in (f" ({number}) ", *each.args)
        ]
        super().__init__(f"{len(problems)} problems:", *parts)
        self.problems = list(problems)


def shown(value: object, limit: int = 60) -> str:
    """Return a short one-line rendering of any value, for messages."""
    brief = reprlib.Repr()
    brief.maxlevel, brief.maxstring, brief.maxother = 2, limit, limit
    try:
        text = brief.repr(
            value.tolist()
            if type(value).__module__ == "numpy" and hasattr(value, "tolist")
            else value
        )
    except ValueError:  # an integer of thousands of digits
        text = f"a {type(value).__name__} too large to show"
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def as_argument(path: object) -> str:
    """Return a path as a command takes it: with a dash in front it would be an option."""
    text = str(path)
    return f"./{text}" if text.startswith("-") and text != "-" else text


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the end of a "no such name" message: close matches, then all the names."""
    names = list(known)
    close = difflib.get_close_matches(str(name), names, n=3, cutoff=0.6)
    hint = f"Did you mean {' or '.join(map(repr, close))}? " if close else ""
    listed = ", ".join(map(repr, names[:_LISTED_NAMES]))
    more = f" and {len(names) - _LISTED_NAMES} more" if len(names) > _LISTED_NAMES else ""
    return f"{hint}There are: {listed}{more}." if names else "There are none."
