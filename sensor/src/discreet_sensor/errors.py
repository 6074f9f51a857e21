"""What a device raises, and the whole of discreet with it: one line that says what to do next."""

from __future__ import annotations


class DiscreetError(Exception):
    """Base of every error that a user of discreet can cause or fix.

    A message may be given in parts, so that a ``Parameter`` in it is told from other text.
    """

    def __str__(self) -> str:
        return "".join(map(str, self.args))


class InputError(DiscreetError, ValueError):
    """Readings, labels or parameters that cannot be used as they are."""
