"""Large tables for the benchmarks: made-up sensors that share a few hidden causes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

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


Ints = NDArray[np.int64]


def draw_large(
    n_rows: int, n_sensors: int, n_codes: int = 16, seed: int = 0
) -> tuple[Ints, Ints, Ints]:
    """Return codes, a public fact and a private one.

    Each sensor measures a mixture of both facts and of four further causes, with noise of its
    own, and cuts it into codes of equal width.
    """
    rng = np.random.default_rng(seed)
    public, private = rng.integers(2, size=n_rows), rng.integers(2, size=n_rows)
    causes = np.column_stack([2.0 * public - 1, 2.0 * private - 1, rng.normal(size=(n_rows, 4))])
    spread = np.array([0.35, 0.35, 0.6, 0.6, 0.6, 0.6])
    shares = rng.normal(size=(causes.shape[1], n_sensors)) * spread[:, None]
    codes = np.empty((n_rows, n_sensors), dtype=np.int64)
    for t in range(n_sensors):
        readings = causes @ shares[:, t] + rng.normal(size=n_rows)
        codes[:, t] = np.clip(np.floor(n_codes / 2 + readings * n_codes / 5), 0, n_codes - 1)
    return codes, public, private


def one_hot(codes: Ints, n_codes: int, kind: Any) -> Any:
    """Return the one-hot table of codes as a CSR matrix with values of this kind."""
    n, s = codes.shape
    columns = (codes + n_codes * np.arange(s)).astype(np.int32).ravel()
    starts = np.arange(0, n * s + 1, s, dtype=np.int32)
    return csr_array((np.ones(n * s, kind), columns, starts), shape=(n, s * n_codes))
