"""What can go wrong with a database while it is in use."""

from __future__ import annotations

from discreet.errors import DiscreetError


class StoreError(DiscreetError):
    """The database cannot be used now; what was being written is not there, or will be found.

    Attributes
    ----------
    state : str
        "away" or "full", for the dashboard.
    """

    def __init__(self, message: str, state: str = "away") -> None:
        super().__init__(message)
        self.state = state
