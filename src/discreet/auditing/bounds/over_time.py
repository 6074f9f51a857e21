"""What the tables alone promise, what many reports add up to, and what a window of rounds tells.

However readings depend on one another, only the structural epsilon adds up: a hundred noisy
looks at one fact average the noise out, and a secret that lies in the changes ("does the device
switch every minute?") may show in no single report. If readings of different releases are
independent given the private class, which the caller has to declare, the log-ratios of outputs
add up as well, and so do, at most, the distances between the classes: the overlap of products
is at least the product of the overlaps. A bound for a group drawn at random adds up in neither
way: the reports of one home share that home.

*What a window of many rounds tells of the fact of one of them: a bound from rows.* Assumed: the
codes of a round depend on those of all others only through the fact of that round (*the hidden
state is the fact*), and the fact is a stationary chain. Let p_g be the law of a round's symbols
given class g and, for two classes a and b,

    x = sum_z (p_a - p_b)^2 / (2 (p_a + p_b)),

the mean of M^2, where M is the posterior mean of a fact of -1 or 1 with equal priors.

*From one round to many.* Past, present and future are independent given the fact of the present,
and evidence adds up at most. The past reaches the present through one step of the chain. x is an
f-divergence, hence jointly convex: of a step whose rows differ by at most tau in total variation
it leaves at most the share tau, and of two classes with stay probabilities s and t at most
(s + t - 1)^2 / (1 - |s - t|). With the smaller share r of the two, n rounds tell at most
X = x (1 + r + r^2 + ... into the past and into the future), and TV <= sqrt(X).

*x from rows.* For every function h with values in [-1, 1],
x >= E_a[h - h^2/2] - E_b[h + h^2/2], with equality for h = M. So the plug-in x^ of the rows'
averages is at least the rows' version of that for M, which is fixed, if unknown. Its terms have a
variance of at most x, since (1 + m)(1 - m/2)^2 <= 1, less by the Dobrushin coefficient eta when the
known tables are averaged instead of drawn; and they span at most 2 eta max|M|. Bernstein's
inequality for the sum of both gives, with L = ln(1/alpha),
x <= x^ + sqrt(2 eta x L (1/n_a + 1/n_b)) + (2/3) eta max|M| L max(1/n_a, 1/n_b), which is solved
for x. Given the facts, rows are independent,
so that the rows may be those of a series.

*The chain from a series.* What follows the successive visits to a class are independent draws,
but how many visits there were is random. The bounds on their probabilities hold for all numbers
of visits at once: the mixture over a uniform prior is a martingale that rarely exceeds 1/alpha.

*That it is a chain* is looked at, too. How long a class has lasted must not tell whether it ends:
a fact that changes every half hour lets evidence of a whole day add up, although it stays as often
as a chain does. Of three classes or more, where the fact came from must not tell where it goes:
whoever knows the direction of a walk in circles learns from all rounds. And silence must not tell
the fact: gaps must neither begin nor last longer by the facts of the rows near them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betaln
from scipy.stats import chi2

from discreet.arrays import Floats, Ints
from discreet.auditing.audit_file import INDEPENDENT_RELEASES
from discreet.auditing.bounds.certificates import (
    ONE_RELEASE,
    SHIPPED,
    Certificate,
    NotCertifiable,
    certify_total_variation,
    percent,
)
from discreet.auditing.bounds.outputs_given import AuditRows
from discreet.data.series import Series
from discreet.errors import InputError
from discreet.leakage.chains import add_up
from discreet.leakage.exact import ROUND_UP, advantage_at, squared_information, structural_epsilons
from discreet.rounding import at_most, up

_NO_BETTER = 0.99  # of certainty, from which on a bound is none
_TOO_MANY = NotCertifiable("so many reports may tell all that the tables let through")


# --- One release, from the tables alone -------------------------------------------------------


@dataclass(frozen=True)
class Structural:
    """The bound that needs no rows, for every sensor and for all of them."""

    sensors: tuple[Certificate, ...]
    total: Certificate


def certify_structure(tables: Sequence[Floats], names: Sequence[str] = ()) -> Structural:
    """Bound every log-ratio by the tables alone.

    For any two rows of codes the probabilities of an output differ by a factor of at most
    exp(sum of the sensors' bounds). Averages over rows keep that, so it holds for every
    distribution of readings, every private fact and every class, and adds up over
    repeated releases. Confidence 1; nothing is spent.
    """
    names = list(names) or [f"{t}" for t in range(len(tables))]
    epsilons = structural_epsilons(tables)
    sensors = tuple(
        _structural(
            f"structural epsilon of {name!r}",
            float(epsilon),
            _one_sided(name),
            f"Whatever sensor {name!r} reads, no symbol is more than exp(epsilon) times as likely "
            "for one reading as for another.",
        )
        for name, epsilon in zip(names, epsilons, strict=True)
    )
    open_names = [name for name, e in zip(names, epsilons, strict=True) if not np.isfinite(e)]
    total = _structural(
        "structural epsilon",
        float(epsilons.sum()) * ROUND_UP,
        "; ".join(map(_one_sided, open_names)),
        "Whatever the sensors read and whatever is private, no output is more than exp(epsilon) "
        "times as likely for one truth as for another.",
    )
    if isinstance(total.value, NotCertifiable):
        words = f"Nothing is promised for every conceivable world: {total.value.reason}."
        total = replace(total, words=words)
    return Structural(sensors, total)


def _structural(name: str, epsilon: float, reason: str, words: str) -> Certificate:
    """Make the certificate, or say why there is none if epsilon is infinite."""
    value: float | NotCertifiable = epsilon
    if not np.isfinite(epsilon):
        value = NotCertifiable(reason)
        words = value.words
    return Certificate(name, value, 1.0, (), (SHIPPED, ONE_RELEASE), words)


def _one_sided(name: str) -> str:
    return f"the table of sensor {name!r} sends some symbol only for some codes"


# --- Several releases ------------------------------------------------------------------------


@dataclass(frozen=True)
class OverTime:
    """What many releases add up to.

    ``independent``, ``independent_advantage``: for readings that are independent from release to
    release, given the private class. ``any_readings``, ``any_advantage``: for readings that depend
    on one another in any way. ``memoised``: for sensors that repeat one symbol for a whole period.
    """

    independent: Certificate
    any_readings: Certificate
    memoised: Certificate
    independent_advantage: Certificate
    any_advantage: Certificate

    def certificate(self, kind: str, independent: bool) -> Certificate:
        """Return the bound on "epsilon" or an advantage that a limit may rest on.

        The structural bound holds for every secret, so also within each public class.
        """
        if kind == "epsilon":
            return self.independent if independent else self.any_readings
        apart = independent and kind == "advantage"
        return self.independent_advantage if apart else self.any_advantage


def compose(
    pairwise: Certificate,
    variation: Certificate,
    structural: Certificate,
    releases: int,
    *,
    n_classes: int = 2,
    unit: str | None = None,
    periods: int = 1,
) -> OverTime:
    """Add up bounds of one release over several.

    Memoised sensors draw one symbol per period and repeat it, so only ``periods`` draws
    count. This needs a symbol that stays for the whole period: a sensor that draws again when
    its code changes shows by a changed symbol that the code did change, and no bound covers that.

    ``pairwise``, ``variation``: bounds on the log-ratios and on the total variation of one release,
    from rows. ``unit``: what a group is called, if the bounds from rows are about one drawn at
    random.
    """
    if releases < 1:
        raise InputError(f"releases must be at least 1, got {releases}.")
    if not 1 <= periods <= releases:
        raise InputError(f"periods must be between 1 and the {releases} releases, got {periods}.")
    if unit is not None:
        reason = f"the reports of one {unit} share that {unit}, so they are not independent"
        pairwise, variation = (
            replace(each, value=NotCertifiable(reason)) for each in (pairwise, variation)
        )
    held = "every sensor draws one symbol per period and repeats it (declared)"
    apart, anyhow = f"epsilon of {releases} independent releases", structural.bound
    # The classes' distances add up; against any one class, each other gains at most its own.
    away, most = variation.bound, (n_classes - 1) / n_classes
    apart_gain = None if away is None else most * (1.0 - (1.0 - min(away, 1.0)) ** releases)
    return OverTime(
        _times(pairwise, releases, apart, INDEPENDENT_RELEASES),
        _times(structural, releases, f"epsilon of {releases} releases", ""),
        _times(structural, periods, f"epsilon of {periods} memoised periods", held),
        _gain(
            apart_gain,
            variation,
            f"advantage of {releases} independent releases",
            INDEPENDENT_RELEASES,
            n_classes,
        ),
        _gain(
            None if anyhow is None else advantage_at(releases * anyhow, n_classes),
            structural,
            f"advantage of {releases} releases",
            "",
            n_classes,
        ),
    )


def _several(
    one: Certificate, bound: float | None, name: str, assumption: str, words: str
) -> Certificate:
    """Make the certificate of several draws from that of one; ``words`` are for a bound."""
    assumptions = tuple(a for a in one.assumptions if a != ONE_RELEASE)
    assumptions += (assumption,) if assumption else ()
    value: float | NotCertifiable
    if bound is None:
        value = one.value if isinstance(one.value, NotCertifiable) else _TOO_MANY
        words = value.words
    else:
        value = bound * ROUND_UP
        given = (
            f" if {assumption}" if assumption else ", however the readings depend on one another"
        )
        words = f"{words}{given}."
    return Certificate(name, value, one.confidence, one.rows, assumptions, words)


def _times(one: Certificate, count: int, name: str, assumption: str) -> Certificate:
    bound = None if one.bound is None else count * one.bound
    words = (
        f"Over {count} draws, at confidence {percent(one.confidence)}, no sequence of outputs is "
        f"more than exp({up(bound or 0.0):.3f}) times as likely for one private class as for "
        "another"
    )
    return _several(one, bound, name, assumption, words)


def _gain(bound: float | None, one: Certificate, name: str, assumption: str, m: int) -> Certificate:
    """Make the certificate of an advantage, if it is below that of whoever is always right."""
    if bound is not None and bound >= _NO_BETTER * (1.0 - 1.0 / m):
        bound = None
    words = (
        f"For the {name}, at confidence {percent(one.confidence)}: no attacker beats guessing by "
        f"more than {at_most((bound or 0.0) * ROUND_UP)}"
    )
    return _several(one, bound, name, assumption, words)


# --- A window of rounds of one fact ---------------------------------------------------------


@dataclass(frozen=True)
class WindowBound:
    """At the stated confidence, what ``rounds`` rounds tell of the fact of any one of them.

    ``advantage``: over guessing, by any attacker. ``one_round``: the bound on x. ``kept``: the
    bound on the share of it that a step of the chain leaves. ``trivial``: nothing is promised.
    """

    rounds: int
    advantage: float
    one_round: float
    kept: float
    alpha: float
    n_classes: int

    @property
    def trivial(self) -> bool:
        """Whether no attacker could do better anyway."""
        return self.advantage >= 1.0 - 1.0 / self.n_classes


def bound_window(rows: AuditRows, kept: float, rounds: int, alpha: float) -> WindowBound:
    """Bound the advantage from x at ``alpha`` and from ``kept``, which is taken to hold."""
    x = bound_one_round(rows, alpha)
    m = rows.n_classes
    distance = math.sqrt(min(x * add_up(kept, rounds), 1.0))
    # Balanced accuracy is 1/m sum_z max_g p_g, at most 1/m + (m - 1)/m of the widest pair's TV.
    return WindowBound(rounds, distance * (1.0 - 1.0 / m), x, kept, alpha, m)


# --- One round -----------------------------------------------------------------------------


def bound_one_round(rows: AuditRows, alpha: float) -> float:
    """Bound x for the two classes that differ most."""
    largest = largest_mean(rows.tables)
    if not rows.listable:  # (p_a - p_b)^2 / (p_a + p_b) is at most max|M| times |p_a - p_b|
        bound = certify_total_variation(rows, alpha).bound
        return largest * (1.0 if bound is None else min(bound, 1.0))
    # Only the pair that differs most in truth has to hold: no union over pairs.
    pairs = combinations(range(rows.n_classes), 2)
    found = max(_bound_pair(rows, a, b, largest, math.log(1.0 / alpha)) for a, b in pairs)
    return min(found, largest**2)


def largest_mean(tables: Sequence[Floats]) -> float:
    """Return the largest |M| that the tables allow."""
    return math.tanh(min(float(structural_epsilons(tables).sum()), 700.0) / 2.0)


def _bound_pair(rows: AuditRows, a: int, b: int, largest: float, log: float) -> float:
    counts = [rows.observations[each] for each in (a, b)]
    if not all(counts):
        return 1.0
    return solve_bound(squared_information(rows.average[[a, b]]), counts, rows.eta, largest, log)


def solve_bound(
    shown: float, counts: Sequence[float], eta: float, largest: float, log: float
) -> float:
    """Return the bound on x of two classes with so many rows each, which show this x."""
    spread = math.sqrt(2.0 * eta * log * sum(1.0 / n for n in counts))
    rest = shown + 2.0 / 3.0 * eta * largest * log / min(counts)
    return ((spread + math.sqrt(spread**2 + 4.0 * rest)) / 2.0) ** 2


# --- Is it a chain? ------------------------------------------------------------------------

_CHANCE = 0.001  # that a chain is taken for none
_FEWEST = 5.0  # expected in a cell of a chi-square test
_FARTHEST = 5  # rows from a gap whose facts may tell that it comes


def why_no_chain(fact: Ints, series: Series, group: Ints, given: Ints) -> str:
    """Return how the fact contradicts a chain whose moves depend on ``given``, or nothing."""
    order, follows = series.order, series.follows
    linked = np.append(False, follows[order[:-1]] == order[1:])
    kept = linked & np.append(False, fact[order[1:]] == fact[order[:-1]])
    place = np.arange(len(order))
    age = place - np.maximum.accumulate(np.where(kept, 0, place))
    lasted = np.log2(age + 1).astype(np.int64)
    class_now = fact[order] * (int(given.max()) + 1) + given[order]
    before = np.flatnonzero(linked[1:])  # rounds whose next one is known
    ends = fact[order[before + 1]] != fact[order[before]]
    if _depends(ends, lasted[before], class_now[before]):
        return "how long the private fact has lasted tells when it changes: it is no chain"
    if _remembers(fact[order], linked, given[order]):
        return "where the private fact came from tells where it goes: it is no chain"
    if _silence_tells(fact[order], linked[1:], series.ahead, group[order]):
        return "rounds are missing more often for some facts than for others: silence tells"
    return ""


def _remembers(fact: Ints, linked: NDArray[np.bool_], given: Ints) -> bool:
    """Whether the class before the present one tells which comes next, where there are others."""
    changed = np.append(False, fact[1:] != fact[:-1])
    place = np.arange(len(fact))
    # The last change, if no round has been missing since the round before it.
    begun = np.maximum.accumulate(np.where(changed | ~linked, place, 0))
    known = np.flatnonzero((changed & linked)[begun[:-1]] & changed[1:] & linked[1:])
    came, now, goes = fact[begun[known] - 1], fact[known], fact[known + 1]
    cell = now * (int(given.max()) + 1) + given[known]
    classes = np.unique(fact)
    return len(classes) > 2 and any(
        _depends(goes[now != k] == k, came[now != k], cell[now != k], _CHANCE / len(classes))
        for k in classes
    )


def _silence_tells(fact: Ints, linked: NDArray[np.bool_], ahead: Ints, group: Ints) -> bool:
    """Whether gaps begin, or last, by the facts of rounds before and after them."""
    inside = np.flatnonzero(group[1:] == group[:-1])  # not the last of a group
    chance, one = _CHANCE / (2 * _FARTHEST + 1), np.zeros_like(fact)
    for away in range(1 - _FARTHEST, _FARTHEST + 1):
        kept = inside[(inside + away >= 0) & (inside + away < len(fact))]
        kept = kept[group[kept + away] == group[kept]]
        if _depends(~linked[kept], fact[kept + away], one[kept], chance):
            return True
    gaps = inside[~linked[inside]]
    longer = ahead[gaps] > (ahead[gaps].mean() if len(gaps) else 0.0)
    return _depends(longer, fact[gaps], one[gaps], chance)


def _depends(event: NDArray[np.bool_], level: Ints, cell: Ints, chance: float = _CHANCE) -> bool:
    """Whether how often an event happens depends on a level, within each cell: chi-square."""
    total, free = 0.0, 0
    for each in np.unique(cell):
        own = cell == each
        rate = float(event[own].mean())
        counts = np.bincount(level[own]).astype(np.float64)
        hits = np.bincount(level[own], weights=event[own])
        enough = counts * min(rate, 1.0 - rate) >= _FEWEST
        if 0.0 < rate < 1.0 and enough.sum() > 1:
            off = (hits[enough] - counts[enough] * rate) ** 2
            total += float((off / (counts[enough] * rate * (1.0 - rate))).sum())
            free += int(enough.sum()) - 1
    return free > 0 and float(chi2.sf(total, free)) < chance


# --- The chain -----------------------------------------------------------------------------


def bound_kept(steps: Ints, alpha: float) -> float:
    """Bound the share of x that a step leaves, forwards and backwards."""
    m = len(steps)
    if m == 2:
        stays = [_between(int(steps[k, k]), int(steps[k].sum()), alpha / 2) for k in range(2)]
        return _kept_of_two(*stays)
    share = alpha / (2 * m * m)
    return max(_widest_step(steps, share), _widest_step(steps.T, share))


def _kept_of_two(first: tuple[float, float], second: tuple[float, float]) -> float:
    low, high = first[0] + second[0] - 1.0, first[1] + second[1] - 1.0
    moved = max(abs(low), abs(high))
    apart = max(first[1] - second[0], second[1] - first[0])
    return min(moved, moved**2 / (1.0 - apart) if apart < 1.0 else 1.0, 1.0)


def _widest_step(steps: Ints, alpha: float) -> float:
    """Bound the total variation between two rows of the chain from its counts."""
    visits = steps.sum(axis=1)
    bound = np.vectorize(lambda hits, trials: _between(hits, trials, alpha)[0], otypes=[float])
    least = bound(steps, visits[:, None])
    pairs = combinations(range(len(steps)), 2)
    return max(1.0 - float(np.minimum(least[a], least[b]).sum()) for a, b in pairs)


def _between(hits: int, trials: int, alpha: float) -> tuple[float, float]:
    """Bound a probability from both sides, at ``alpha`` for any number of trials."""
    log = -math.log(alpha) - float(betaln(hits + 1, trials - hits + 1))

    def excess(p: float) -> float:
        return -log - hits * math.log(p) - (trials - hits) * math.log1p(-p)

    tiny = 1e-12
    at = min(max(hits / max(trials, 1), tiny), 1.0 - tiny)
    low = 0.0 if excess(tiny) < 0 else float(brentq(excess, tiny, at))
    high = 1.0 if excess(1.0 - tiny) < 0 else float(brentq(excess, at, 1.0 - tiny))
    return low, high
