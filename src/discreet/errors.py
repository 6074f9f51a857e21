"""Everything that discreet raises or warns about, in one place.

Each message says what was wrong, the value that was seen and what to do next.
The kinds also derive from the built-in error a caller would expect, so that
``except ValueError`` keeps working.
"""


class Parameter(str):
    """The name of a parameter in a message, for whom it has another: the command line."""

    __slots__ = ()


class DiscreetError(Exception):
    """Base of every error that a user of discreet can cause or fix.

    A message may be given in parts, so that a ``Parameter`` in it is told from other text.
    """

    def __str__(self) -> str:
        return "".join(map(str, self.args))


class InputError(DiscreetError, ValueError):
    """Readings, labels or parameters that cannot be used as they are."""


class MissingPrivateError(DiscreetError, TypeError, ValueError):
    """``fit`` was called without the private fact it has to protect."""


class CodeRangeError(DiscreetError, ValueError):
    """A reading or symbol lies outside what the mapping covers."""


class MappingFileError(DiscreetError, ValueError):
    """A mapping file that is damaged, hostile or of another version."""


class ClusterError(DiscreetError):
    """A cluster that does not answer, or has lost its workers."""


class StoppedError(DiscreetError):
    """The work was stopped before there was anything worth keeping."""


class DiscreetWarning(UserWarning):
    """Base of every warning that a user of discreet should see."""


class UninformativeMappingWarning(DiscreetWarning):
    """At the privacy asked for, the decisions are no better than guessing."""


class UnmetRequestWarning(DiscreetWarning):
    """Rows left out do not show that the privacy asked for is kept."""


class BlindKernelWarning(DiscreetWarning):
    """The kernel looks at few sensors together and is blind to what shows in more of them."""


class LostWorkerWarning(DiscreetWarning):
    """A worker of the cluster was lost, and what it held is held by another one."""
