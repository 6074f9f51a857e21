"""Rows of the tables for codes that the training rows never showed.

A code without data gets a mixture of the rows that have data, so that no limit on
ratios between rows can be broken by it: its neighbours' on an ordered alphabet, the
average row for an unknown category or a missing reading.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreet.codes import Encoder

Floats = NDArray[np.float64]


def fill_unseen(table: Floats, counts: Floats, encoder: Encoder) -> Floats:
    """Return the table with every row of a code that was never counted filled in."""
    seen = counts > 0
    filled = table.copy()
    filled[~seen] = counts @ table / counts.sum()
    if encoder.ordered:
        n_ordered = encoder.n_codes - int(encoder.missing)
        known = np.flatnonzero(seen[:n_ordered])
        if len(known):
            for z in range(table.shape[1]):
                filled[:n_ordered, z] = np.interp(np.arange(n_ordered), known, table[known, z])
    return filled
