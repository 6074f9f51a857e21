"""Rows that occur again more often than independent rows can (stage 1).

Equal rows are no proof of anything: a table of a few coarse sensors is full of them. But
whatever the distribution, the rows that occur k times are bounded by those that occur k - 1
and k + 1 times. Let row x be expected lambda(x) times. Then k! f_k, f_k the expected number of
different rows that occur k times, is the sum over x of lambda^k exp(-lambda), and by Cauchy
and Schwarz

    f_k^2 <= (k + 1) / k * f_(k-1) * f_(k+1).

A table where every record was written twice has pairs without triples or single rows, which
this excludes, and sensors that are functions of one another do not matter. The same holds after
binning, so that near copies are found in bins that are wider than what sets them apart.
"""

from dataclasses import dataclass

import numpy as np

from discreet.arrays import Ints

MOST_TIMES = 256
"""Rows that occur more often than this are not looked at."""


@dataclass(frozen=True)
class Copies:
    """How many different rows occur so many times, where that cannot be chance.

    ``times``: how often the rows occur that are too many. ``rows``: how many different rows do.
    ``more``: how many different rows occur once more.
    """

    times: int
    rows: int
    more: int


def find_copies(keys: Ints, alpha: float) -> Copies | None:
    """Return the first surplus of rows that occur equally often, or None.

    ``keys`` of shape (n_rows,): equal for rows that count as equal, numbered from 0. ``alpha``:
    most probable that independent rows show a surplus.
    """
    counts = np.bincount(np.bincount(keys), minlength=MOST_TIMES + 2)
    # Three counts are bounded for each number of times. A count of rows is a sum of nearly
    # independent yes and no, no wider than Poisson's, whose exact bounds these are.
    from scipy.special import gammainccinv, gammaincinv  # loading a mapping must not load SciPy

    level = alpha / (3 * (MOST_TIMES - 1))
    times = np.arange(2, MOST_TIMES + 1)
    fewer, rows, more = (counts[times + step] for step in (-1, 0, 1))
    lower = np.where(rows > 0, gammaincinv(np.maximum(rows, 1), level), 0.0)
    upper = gammainccinv(fewer + 1, level) * gammainccinv(more + 1, level)
    found = np.flatnonzero(lower**2 > (times + 1) / times * upper)
    if not len(found):
        return None
    first = int(found[0])
    return Copies(int(times[first]), int(rows[first]), int(more[first]))
