"""How far averages over rows stray from their means: for any set of outputs, and for a kernel.

**Rows.** Let X and X' be two independent rows of one class. For every set A,

    Var Q(A|X) = E (Q(A|X) - Q(A|X'))^2 / 2 <= E tau(X, X')^2 / 2,

where tau is the total variation between the outputs of two rows of codes, at most
1 - prod (1 - tau_t) because sensors draw independently. The right side does not depend on
A, so it bounds the variance for the best attacker's set, which nobody knows. It is a mean
over pairs of rows of a quantity between 0 and eta^2/2, eta being the Dobrushin coefficient,
and Chernoff's bound applies: the rows are matched into pairs, which are independent, and an
average over several matchings has no larger moment generating function. The variance is
also at most eta^2/4, because Q(A|x) has a range of at most eta.

For many noisy sensors that is too much: ``kernel_rows.set_variance`` bounds the variance for
one unknown A by the largest eigenvalue of the rows' covariance, and the smaller of the two counts.

With the variances bounded, Bernstein's inequality may beat Hoeffding's. Both say that one
and the same average strays by more than a fixed number with probability at most a, so the
smaller of the two numbers may be taken at no extra cost; only the variances cost a share.

**Groups.** An observation of class g is the mean of Q(A|x) over the rows of class g of one
group. Given which groups have class g, these means are independent draws with mean
p(A|g), so all of the above holds with groups in the place of rows; tau is taken between
the groups' mean outputs where they can be listed, and otherwise between one row of each,
which is more on average. Given which groups have class g *and* which have class h that is
no longer so: groups with both classes may read differently from groups with one. So every
class is bounded by itself and the classes share alpha.

**Rows, of groups with a cap.** Group j counts with N_j <= c rows of class g, and S_j is the sum
of Q(A|x) over them; p = p(A|g) = E S_j / E N_j. D_j = p N_j - S_j has mean zero and is at
least -eta N_j, since p is an average of values of Q(A|x). For u in (0, 1) and
a = (-log(1-u) - u)/u^2 we have log(1+x) >= x - a x^2 for x >= -u, so that
prod exp(l D_j - a l^2 D_j^2) has mean at most 1 for every fixed l with l eta c <= u. With
D_j^2 <= eta^2 N_j^2 and a mixture over several such l, Markov's inequality bounds
p - p^ = sum D_j / sum N_j, whatever the numbers N_j depend on.

*A bound for any attacker that lists no outputs, for many noisy sensors.*

**Distance.** With mu_g
the mean of phi_X in class g (``kernel_rows``), Cauchy and Schwarz give sum_z |p(z|a) - p(z|b)| <=
|mu_a - mu_b|, since the law w sums to one. For m classes let d_g be p(.|g) less the mean over the
classes. Numbers that sum to zero have a largest one of at most sqrt((m-1)/m) times the root of the
sum of their squares, so that

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
Chernoff's bound inverts kl there, over the pairs of one matching (as above). Classes of
unequal size give the pairs unequal weights w_j: the Bernoulli log moment generating function h
is convex with h(0) = 0, so that h(s w_j) <= (w_j/w) h(s w) for any w above all w_j, and it is
concave in the mean. A tenth of alpha goes there. With many noisy sensors the largest eigenvalue
is far below D^2/4.

**Groups.** Observations are independent within a class, but one group may hold several classes,
and which ones may depend on what it reads. So each class gets its share of alpha, and the
deviations of the classes add up. Rows of groups with a cap stray as said above, with D
in the place of eta.

**Where outputs can be listed** this bound is not needed: the listed total variation is at most
half the distance of the embeddings on the same rows, and ``set_variance`` lets it stray no
further.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from discreet.arrays import Floats, Ints
from discreet.auditing.bounds.intervals import kl_lower, kl_upper
from discreet.auditing.bounds.kernel_rows import KernelRows, set_variance
from discreet.auditing.bounds.outputs_given import AuditRows

# --- Sets of outputs ------------------------------------------------------------------------

_MATCHINGS = 16
_PAIRS_AT_ONCE = 1 << 16
_MANY_PAIRS = 5_000  # a single matching is as good then
VARIANCE_SHARE = 0.05  # of alpha, for the variances
_STEPS = np.geomspace(0.8, 0.0125, 7)  # u of the mixture: largest step times the largest group


def deviation(rows: AuditRows, alpha: float, factors: Floats) -> float:
    """Bound sum_g factor_g (p(A_g|g) - p^(A_g|g)) for fixed unknown sets A_g.

    ``factors`` are not negative, and signs do not matter: p(A) of one class may be taken as
    1 - p of the rest. The bound holds at confidence 1 - alpha.
    """
    used = np.flatnonzero(factors)
    if any(not rows.observations[g] for g in used):
        return np.inf
    if rows.groups is None:
        return _joint_deviation(rows, alpha, factors[used], used)
    share = alpha / len(used)
    return float(sum(factors[g] * class_deviation(rows, int(g), share) for g in used))


def class_deviation(rows: AuditRows, k: int, alpha: float) -> float:
    """Bound p(A|k) - p^(A|k) for one class and a fixed unknown set A."""
    if rows.cap is not None:
        return rows.eta * capped_deviation(rows.held[k], rows.cap, alpha)
    return _joint_deviation(rows, alpha, np.ones(1), np.array([k]))


def _joint_deviation(rows: AuditRows, alpha: float, factors: Floats, used: Ints) -> float:
    share = VARIANCE_SHARE * alpha / len(used)
    variances = np.array([variance_bound(rows, int(g), share) for g in used])
    counts = np.array(rows.observations, dtype=np.float64)[used]
    return stray(rows.eta, variances, counts, factors, alpha)


def stray(eta: float, variances: Floats, counts: Floats, factors: Floats, alpha: float) -> float:
    """Return the smaller of Hoeffding's and Bernstein's bounds; variances have had their share."""
    exponent = float(np.log(1.0 / ((1 - VARIANCE_SHARE) * alpha)))
    hoeffding = eta * float(np.sqrt(0.5 * exponent * np.sum(factors**2 / counts)))
    spread = 2.0 * exponent * float(np.sum(factors**2 * variances / counts))
    step = eta * float(np.max(factors / counts)) * exponent / 3.0
    return min(hoeffding, step + float(np.sqrt(step**2 + spread)))


def capped_deviation(held: Floats, cap: float, alpha: float) -> float:
    """Bound sum_j (p N_j - S_j) / sum_j N_j where group j counts with N_j <= cap rows.

    S_j adds up N_j values whose range is at most 1. The several l are fixed beforehand.
    """
    total, squares = float(held.sum()), float(np.square(held).sum())
    if not total:
        return np.inf
    need = np.log(len(_STEPS) / alpha)  # the mixture gives each l an equal share
    stakes = _STEPS / cap
    curve = (-np.log1p(-_STEPS) - _STEPS) / _STEPS**2
    return float(np.min((need + curve * stakes**2 * squares) / (stakes * total)))


def mean_upper(rows: AuditRows, k: int, found: Floats, alpha: float) -> Floats:
    """Bound means over class k of quantities in [0, 1], each at confidence 1 - alpha."""
    if not rows.observations[k]:
        return np.ones_like(found)
    if rows.cap is not None:
        return np.minimum(1.0, found + capped_deviation(rows.held[k], rows.cap, alpha))
    return kl_upper(found, np.log(1.0 / alpha) / rows.observations[k])


def mean_lower(rows: AuditRows, k: int, found: Floats, alpha: float) -> Floats:
    """Bound means over class k of quantities in [0, 1] from below, each at 1 - alpha."""
    if not rows.observations[k]:
        return np.zeros_like(found)
    if rows.cap is not None:
        return np.maximum(0.0, found - capped_deviation(rows.held[k], rows.cap, alpha))
    return kl_lower(found, np.log(1.0 / alpha) / rows.observations[k])


def overall_upper(rows: AuditRows, found: Floats, alpha: float) -> Floats:
    """Bound means of quantities in [0, 1] over all that is drawn, whatever its class."""
    if rows.cap is not None:
        stray = capped_deviation(rows.held.sum(axis=0), rows.cap * rows.n_classes, alpha)
        return np.minimum(1.0, found + stray)
    return kl_upper(found, np.log(1.0 / alpha) / rows.n_groups)


def overall_lower(rows: AuditRows, found: Floats, alpha: float) -> Floats:
    """Bound means of quantities in [0, 1] over all that is drawn from below."""
    if rows.cap is not None:
        stray = capped_deviation(rows.held.sum(axis=0), rows.cap * rows.n_classes, alpha)
        return np.maximum(0.0, found - stray)
    return kl_lower(found, np.log(1.0 / alpha) / rows.n_groups)


def variance_bound(rows: AuditRows, k: int, alpha: float) -> float:
    """Bound the variance of an observation of Q(A|x) in class k for one unknown A, at 1 - alpha.

    In two ways, which share alpha: by how far two observations are apart, and by the largest
    eigenvalue of their covariance, which is far less for many noisy sensors.
    """
    eta, size = rows.eta, rows.observations[k]
    if not eta or size < 2:
        return eta**2 / 4
    share = pair_spread(rows, k)
    level = np.log(2.0 / alpha) / (size // 2)
    by_pairs = 0.5 * eta**2 * float(kl_upper(share, level))
    return min(by_pairs, set_variance(KernelRows.of(rows), k, eta, alpha / 2))


def pair_spread(rows: AuditRows, k: int) -> float:
    """Return the mean of tau^2/eta^2 over matched pairs of class k; once for every caller."""
    if k not in rows.spreads:
        measure = _group_spread if rows.groups is not None and rows.means_listable else _row_spread
        rows.spreads[k] = min(1.0, measure(rows, k) / rows.eta**2)
    return rows.spreads[k]


def _row_spread(rows: AuditRows, k: int) -> float:
    """Compare rows; of a group, one row that is chosen without a look at its codes."""
    rng = np.random.default_rng(0)  # any matching will do that does not look at the codes
    own = np.flatnonzero(rows.index == k)
    matchings = _MATCHINGS if len(own) // 2 < _MANY_PAIRS else 1
    total = 0.0
    for _ in range(matchings):
        drawn = rng.permutation(own)
        if rows.groups is not None:
            drawn = rng.permutation(drawn[np.unique(rows.group[drawn], return_index=True)[1]])
        pairs = len(drawn) // 2
        total += _mean_square_distance(rows, drawn[:pairs], drawn[pairs : 2 * pairs])
    return total / matchings


def _mean_square_distance(rows: AuditRows, one: Ints, other: Ints) -> float:
    alike = np.ones(len(one))
    for begin in range(0, len(one), _PAIRS_AT_ONCE):
        part = slice(begin, begin + _PAIRS_AT_ONCE)
        for t, table in enumerate(rows.tables):
            first, second = (table[rows.codes[each[part], t]] for each in (one, other))
            alike[part] *= 1.0 - 0.5 * np.abs(first - second).sum(axis=1)
    return float(np.mean((1.0 - alike) ** 2))


def _group_spread(rows: AuditRows, k: int) -> float:
    """Compare the mean outputs of groups, matched at random."""
    order = np.random.default_rng(0).permutation(np.flatnonzero(rows.held[k]))
    means = (mean for block in rows.group_means(k, order) for mean in block)
    pairs = zip(means, means, strict=False)  # each with the next; of an odd number one is left
    return float(np.mean([(0.5 * np.abs(one - other).sum()) ** 2 for one, other in pairs]))


# --- Distances of the kernel, for outputs that cannot be listed -----------------------------

KERNEL_VARIANCE_SHARE = 0.1  # of alpha, for the variances


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
    chosen, cap = list(classes), rows.audited.cap
    inner = rows.inner[np.ix_(chosen, chosen)]
    shown = float(np.sqrt(max(0.0, np.trace(inner) - inner.sum() / len(chosen))))
    if cap is not None:
        strayed = [capped_deviation(rows.held[g], cap, alpha / len(chosen)) for g in chosen]
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
    exponent = float(np.log(1.0 / ((1.0 - KERNEL_VARIANCE_SHARE) * alpha)))
    scale = _centred_norm(1.0 / sizes)
    hoeffding = reach * float(np.sqrt(0.5 * exponent * scale))
    if not reach or pairs.min() < 1:
        return hoeffding
    largest = (len(sizes) - 1) / len(sizes)  # of |f_g|^2
    whole = 0.5 * reach**2 * scale
    shown = min(1.0, _centred_norm(variances / sizes) / whole)
    heaviest = 0.5 * reach**2 * largest / float(np.min(sizes * pairs))
    level = np.log(1.0 / (KERNEL_VARIANCE_SHARE * alpha)) * heaviest / whole
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
    exponent = float(np.log(1.0 / ((1.0 - KERNEL_VARIANCE_SHARE) * alpha)))
    hoeffding = reach * float(np.sqrt(0.5 * exponent / size))
    if not reach or pairs < 1:
        return hoeffding
    whole = 0.5 * reach**2
    level = np.log(1.0 / (KERNEL_VARIANCE_SHARE * alpha)) / pairs
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
