"""How large the tables of the benchmarks are, and how often each is run."""

from __future__ import annotations

from dataclasses import dataclass

CODES = 16
"""Codes of every sensor in the large tables."""
_QUICK_ROUNDS = 3


@dataclass(frozen=True)
class Size:
    """What is asked for; ``rounds`` of None leaves them to each benchmark."""

    rows: int = 1_000_000
    sensors: int = 32
    rounds: int | None = None
    quick: bool = False

    @classmethod
    def of(
        cls,
        quick: bool,
        rows: int | None = None,
        sensors: int | None = None,
        rounds: int | None = None,
    ) -> Size:
        """Return the usual size, or one that shows within seconds that everything works."""
        usual = (25_000, 6) if quick else (cls.rows, cls.sensors)
        return cls(rows or usual[0], sensors or usual[1], rounds, quick)

    def rounds_of(self, usual: int) -> int:
        """Return how many rounds to run."""
        if self.rounds is not None:
            return self.rounds
        return _QUICK_ROUNDS if self.quick else usual

    def text(self) -> str:
        """Return the size of the table in words."""
        return f"{self.rows} rows, {self.sensors} sensors of {CODES} codes"
