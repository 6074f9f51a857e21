"""How far averages of Q(A|x) stray from their means, for any set of outputs A at once.

Let X and X' be two independent rows of one class. For every set A,

    Var Q(A|X) = E (Q(A|X) - Q(A|X'))^2 / 2 <= E tau(X, X')^2 / 2,

where tau is the total variation between the outputs of two rows of codes, at most
1 - prod (1 - tau_t) because sensors draw independently. The right side does not depend on
A, so it bounds the variance for the best attacker's set, which nobody knows. It is a mean
over pairs of rows of a quantity between 0 and eta^2/2, eta being the Dobrushin coefficient,
and Chernoff's bound applies: the rows are matched into pairs, which are independent, and an
average over several matchings has no larger moment generating function. The variance is
also at most eta^2/4, because Q(A|x) has a range of at most eta.

With the variances bounded, Bernstein's inequality may beat Hoeffding's. Both say that one
and the same average strays by more than a fixed number with probability at most a, so the
smaller of the two numbers may be taken at no extra cost; only the variances cost a share.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreet.auditing.intervals import kl_upper
from discreet.auditing.outputs_given import AuditRows

Floats = NDArray[np.float64]

_MATCHINGS = 16
_MANY_PAIRS = 5_000  # a single matching is as good then
VARIANCE_SHARE = 0.05  # of alpha, for the variances


def deviation(rows: AuditRows, alpha: float, factors: Floats) -> float:
    """Bound sum_g factor_g (p(A_g|g) - p^(A_g|g)) for fixed unknown sets A_g.

    ``factors`` are not negative, and signs do not matter: p(A) of one class may be taken as
    1 - p of the rest. The bound holds at confidence 1 - alpha. A twentieth of alpha goes to
    the variances, divided by the classes in use. Groups: a group j that holds the share w_gj
    of class g moves the sum by at most eta sum_g factor_g w_gj, and Hoeffding's inequality
    adds up the squares; variances are not used.
    """
    eta = rows.eta
    share = VARIANCE_SHARE if rows.groups is None else 0.0
    exponent = float(np.log(1.0 / ((1 - share) * alpha)))
    hoeffding = eta * float(np.sqrt(0.5 * exponent * rows.sum_of_squares(factors)))
    if rows.groups is not None:
        return hoeffding
    used = np.flatnonzero(factors)
    counts = np.array(rows.counts, dtype=np.float64)[used]
    variances = np.array([variance_bound(rows, int(g), share * alpha / len(used)) for g in used])
    spread = 2.0 * exponent * float(np.sum(factors[used] ** 2 * variances / counts))
    step = eta * float(np.max(factors[used] / counts)) * exponent / 3.0
    return min(hoeffding, step + float(np.sqrt(step**2 + spread)))


def variance_bound(rows: AuditRows, k: int, alpha: float) -> float:
    """Bound the variance of Q(A|X) in class k for every A, at confidence 1 - alpha."""
    eta = rows.eta
    if not eta or rows.counts[k] < 2:
        return eta**2 / 4
    share = pair_spread(rows, k)
    level = np.log(1.0 / alpha) / (rows.counts[k] // 2)
    return min(eta**2 / 4, 0.5 * eta**2 * float(kl_upper(share, level)))


def pair_spread(rows: AuditRows, k: int) -> float:
    """Return the mean of tau^2/eta^2 over matched rows of class k; once for every caller."""
    if k not in rows.spreads:
        rows.spreads[k] = _measure_spread(rows, k)
    return rows.spreads[k]


def _measure_spread(rows: AuditRows, k: int) -> float:
    codes = rows.codes[rows.index == k]
    pairs = len(codes) // 2
    rng = np.random.default_rng(0)  # any matching will do that does not look at the codes
    matchings = _MATCHINGS if pairs < _MANY_PAIRS else 1
    total = 0.0
    for _ in range(matchings):
        shuffled = rng.permutation(len(codes))
        first, second = codes[shuffled[:pairs]], codes[shuffled[pairs : 2 * pairs]]
        alike = np.ones(pairs)
        for t, table in enumerate(rows.tables):
            alike *= 1.0 - 0.5 * np.abs(table[first[:, t]] - table[second[:, t]]).sum(axis=1)
        total += float(np.mean((1.0 - alike) ** 2))
    return min(1.0, total / matchings / rows.eta**2)
