"""A bound for any attacker that lists no outputs, for many noisy sensors.

**Distance.** With mu_g the mean of phi_X in class g (``kernel_rows``), Cauchy and Schwarz give
sum_z |p(z|a) - p(z|b)| <= |mu_a - mu_b|, since the law w sums to one. For m classes let d_g be
p(.|g) less the mean over the classes. Numbers that sum to zero have a largest one of at most
sqrt((m-1)/m) times the root of the sum of their squares, so that

    balanced accuracy - 1/m = (1/m) sum_z max_g d_g(z) <= (1/m) sqrt((m-1)/m) T,
    T^2 = sum_g |mu_g - mean of the mu|^2.

Two classes: T = |mu_a - mu_b|/sqrt(2), and total variation is at most T/sqrt(2).

**From rows.** T = sum_g <f_g, mu_g> for fixed, if unknown, functions with sum_g |f_g|^2 = 1
and sum_g f_g = 0. The rows' version of that sum is at most the rows' T, so T exceeds it by no
more than one average of independent terms strays from its mean. f_g has a range of at most
|f_g| D, D the largest distance between two phi_x, and sum_g |f_g|^2 c_g is at most the
largest eigenvalue of the centred diagonal matrix of the c_g: Hoeffding's inequality takes
c_g = 1/n_g, Bernstein's the variances over n_g. Both are about one and the same average, and
the smaller counts.

**Variances** of f_g(X) are means of (f_g(X) - f_g(X'))^2/2 over pairs of rows. What the rows
show for the unknown f_g is at most |f_g|^2 times the largest eigenvalue of their covariance;
Chernoff's bound inverts kl there, over the pairs of one matching (see ``spread``). Classes of
unequal size give the pairs unequal weights w_j: the Bernoulli log moment generating function h
is convex with h(0) = 0, so that h(s w_j) <= (w_j/w) h(s w) for any w above all w_j, and it is
concave in the mean. A tenth of alpha goes there. With many noisy sensors the largest eigenvalue
is far below D^2/4.

**Groups.** Observations are independent within a class, but one group may hold several classes,
and which ones may depend on what it reads. So each class gets its share of alpha, and the
deviations of the classes add up. Rows of groups with a cap stray as ``spread`` says, with D
in the place of eta.

**Where outputs can be listed** this bound is not needed: the listed total variation is at most
half the distance of the embeddings on the same rows, and ``set_variance`` lets it stray no
further.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from discreet.arrays import Floats, Ints
from discreet.auditing.bounds.intervals import kl_upper
from discreet.auditing.bounds.kernel_rows import KernelRows
from discreet.auditing.bounds.spread import capped_deviation

VARIANCE_SHARE = 0.1  # of alpha, for the variances


def kernel_total_variation(rows: KernelRows, alpha: float) -> float:
    """Bound the total variation between the outputs of the two most distinguishable classes.

    Only the truly worst pair has to hold, so that the maximum over pairs costs no alpha.
    """
    pairs = combinations(range(rows.audited.n_classes), 2)
    found = max(sum(kernel_parts(rows, pair, alpha)) for pair in pairs)
    return min(1.0, found / float(np.sqrt(2.0)))


def kernel_balanced_gain(rows: KernelRows, alpha: float) -> float:
    """Bound balanced accuracy - 1/m of any attacker."""
    m = rows.audited.n_classes
    found = sum(kernel_parts(rows, tuple(range(m)), alpha))
    return min(1.0 - 1.0 / m, found * float(np.sqrt((m - 1) / m)) / m)


def kernel_parts(rows: KernelRows, classes: tuple[int, ...], alpha: float) -> tuple[float, float]:
    """Return what the rows show of T for some classes, and how far that may fall short."""
    if not rows.comparable:
        return float("inf"), float("inf")
    chosen = list(classes)
    inner = rows.inner[np.ix_(chosen, chosen)]
    shown = float(np.sqrt(max(0.0, np.trace(inner) - inner.sum() / len(chosen))))
    if rows.audited.cap is not None:
        strayed = [
            capped_deviation(rows.held[g], rows.audited.cap, alpha / len(chosen)) for g in chosen
        ]
        return shown, rows.reach * _largest_sum(np.array(strayed))
    sizes = np.array(rows.sizes, dtype=np.float64)[chosen]
    deviation = joint_deviation if rows.audited.groups is None else apart_deviation
    return shown, deviation(rows.reach, sizes, rows.variances[chosen], rows.pairs[chosen], alpha)


def joint_deviation(
    reach: float, sizes: Floats, variances: Floats, pairs: Ints, alpha: float
) -> float:
    """Bound how far the rows' T falls short, where all observations are independent.

    ``reach``: D. ``sizes`` of shape (m,): observations of each class. ``variances`` of shape (m,):
    the largest empirical variance of a function of norm one. ``pairs`` of shape (m,): pairs of
    observations behind the variances; 0 where there are too few.
    """
    exponent = float(np.log(1.0 / ((1.0 - VARIANCE_SHARE) * alpha)))
    scale = _centred_norm(1.0 / sizes)
    hoeffding = reach * float(np.sqrt(0.5 * exponent * scale))
    if not reach or pairs.min() < 1:
        return hoeffding
    largest = (len(sizes) - 1) / len(sizes)  # of |f_g|^2
    whole = 0.5 * reach**2 * scale
    shown = min(1.0, _centred_norm(variances / sizes) / whole)
    heaviest = 0.5 * reach**2 * largest / float(np.min(sizes * pairs))
    level = np.log(1.0 / (VARIANCE_SHARE * alpha)) * heaviest / whole
    spread = whole * min(0.5, float(kl_upper(shown, level)))
    move = float(np.sqrt(largest)) * reach / float(sizes.min())
    return min(hoeffding, _bernstein(exponent, spread, move))


def apart_deviation(
    reach: float, sizes: Floats, variances: Floats, pairs: Ints, alpha: float
) -> float:
    """Bound how far the rows' T falls short, class by class with alpha shared.

    Parameters are those of ``joint_deviation``.
    """
    each = [
        _one_class(reach, n, v, k, alpha / len(sizes))
        for n, v, k in zip(sizes, variances, pairs, strict=True)
    ]
    return _largest_sum(np.array(each))


def _one_class(reach: float, size: float, variance: float, pairs: float, alpha: float) -> float:
    """Bound how far the mean of one fixed function of norm one strays."""
    exponent = float(np.log(1.0 / ((1.0 - VARIANCE_SHARE) * alpha)))
    hoeffding = reach * float(np.sqrt(0.5 * exponent / size))
    if not reach or pairs < 1:
        return hoeffding
    whole = 0.5 * reach**2
    level = np.log(1.0 / (VARIANCE_SHARE * alpha)) / pairs
    spread = whole * min(0.5, float(kl_upper(min(1.0, variance / whole), level))) / size
    return min(hoeffding, _bernstein(exponent, spread, reach / size))


def _bernstein(exponent: float, variance: float, move: float) -> float:
    step = move * exponent / 3.0
    return step + float(np.sqrt(step**2 + 2.0 * exponent * variance))


def _centred_norm(diagonal: Floats) -> float:
    """Return max sum_g c_g |f_g|^2 over sum |f_g|^2 = 1 and sum f_g = 0."""
    m = len(diagonal)
    centre = np.eye(m) - 1.0 / m
    return float(np.linalg.eigvalsh(centre * diagonal @ centre)[-1])


def _largest_sum(parts: Floats) -> float:
    """Bound sum_g h_g |f_g| over sum |f_g|^2 = 1 and sum f_g = 0.

    Let h_1 be the largest. The norms obey |f_1| <= sum of the others. Where h itself does,
    Cauchy and Schwarz are all there is; else |f_1| equals the sum, and what is left is a
    quadratic problem.
    """
    first, rest = float(parts.max()), np.delete(parts, parts.argmax())
    if first <= rest.sum():
        return float(np.linalg.norm(parts))
    joined = first + rest
    return float(np.sqrt(joined @ joined - joined.sum() ** 2 / len(parts)))
