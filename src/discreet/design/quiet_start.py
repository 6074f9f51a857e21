"""A mapping to begin from that says what it can while every private head sees nothing.

For small scores a head's loss depends on sensor t through ``Q^t' sums_t`` alone, where
``sums_t`` are its residuals at score zero, added up by code. Tables that are linear in a
direction with no component along the private heads' sums leave those heads without a first
step to take. Among such directions each sensor takes the one that tells the public heads most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LOUDNESS = 0.95  # short of certainty, where logits would be infinite


def quiet_tables(
    sums: Floats, masses: Floats, n_public: int, sizes: Sequence[int], n_symbols: Sequence[int]
) -> list[Floats]:
    """Return one table per sensor.

    Parameters
    ----------
    sums : ndarray of shape (n_heads, n_codes)
        Residuals at score zero by code; the public heads come first.
    masses : ndarray of shape (n_codes,)
        How often each code occurs.
    """
    ends = np.cumsum(sizes)
    return [
        _table(sums[:, end - size : end], masses[end - size : end], n_public, z)
        for end, size, z in zip(ends, sizes, n_symbols, strict=True)
    ]


def _table(sums: Floats, masses: Floats, n_public: int, n_symbols: int) -> Floats:
    seen = masses > 0
    root = np.sqrt(masses[seen])
    # In these units the code's own noise is the same for every code.
    wanted, barred = sums[:n_public, seen] / root, np.vstack([sums[n_public:, seen] / root, root])
    wanted = wanted - _project(wanted, barred)
    direction = np.linalg.svd(wanted, full_matrices=False)[2][0] / root
    size = float(np.abs(direction).max(initial=0.0))
    delta = np.zeros(len(masses))
    if np.linalg.norm(wanted) > 1e-12 and size > 0:
        delta[seen] = _LOUDNESS * direction / size
    steps = np.linspace(-1.0, 1.0, n_symbols)
    table: Floats = (1.0 + delta[:, None] * steps) / n_symbols
    return table


def _project(vectors: Floats, onto: Floats) -> Floats:
    """Return the components of ``vectors`` in the span of the rows of ``onto``."""
    _, values, basis = np.linalg.svd(onto, full_matrices=False)
    basis = basis[values > 1e-9 * max(float(values[0]), 1e-300)]
    found: Floats = vectors @ basis.T @ basis
    return found
